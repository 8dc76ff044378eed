//! The object that would declare something found. Pure.

use std::collections::BTreeMap;

use api::vault::{
    Capability, ConflictPolicy, DeletionPolicy, DriftMode, Duration, Parameters, PolicyRule,
    PolicySpec, VaultClusterRole, VaultPolicy, VaultPolicySpec, VaultRole, names as words,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::language::policy::{Policy, expressible};
use crate::language::text::{MAX_RAW_BYTES, NAME, NAMESPACE, Rule};

/// An object that declares what is in Vault already.
#[derive(Debug, Clone)]
pub(super) enum Object {
    Policy(VaultPolicy),
    Role(VaultRole),
    ClusterRole(VaultClusterRole),
}

/// What all such objects say of themselves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) connection: &'a str,
    pub(super) namespace: &'a str,
    /// The object's name.
    pub(super) name: &'a str,
    /// The name in Vault.
    pub(super) external_name: &'a str,
    pub(super) since: Timestamp,
}

impl Origin<'_> {
    /// It does nothing until a person removes `discovery-pending`.
    pub(super) fn metadata(&self, namespaced: bool) -> ObjectMeta {
        let annotations = [
            (words::ADOPT, "true".to_owned()),
            (words::DISCOVERED_AT, self.since.to_string()),
            (words::DISCOVERED_FROM, self.connection.to_owned()),
            (words::DISCOVERY_PENDING, "true".to_owned()),
        ];
        let annotations = annotations.map(|(name, value)| (name.to_owned(), value));
        ObjectMeta {
            name: Some(self.name.to_owned()),
            namespace: namespaced.then(|| self.namespace.to_owned()),
            annotations: Some(BTreeMap::from(annotations)),
            ..ObjectMeta::default()
        }
    }
}

/// The policy that says what `text` says: as rules, and where these cannot say it, as text.
///
/// # Errors
/// Why no object can.
pub(super) fn policy(text: &str, origin: &Origin<'_>) -> Result<VaultPolicy, String> {
    let live =
        Policy::parse(text).map_err(|refused| format!("its text is no policy: {refused}"))?;
    let rules = expressible(&live);
    let rules: Option<Vec<PolicyRule>> = rules.and_then(|rules| rules.iter().map(rule).collect());
    let raw_hcl = match rules {
        Some(_) => None,
        None => Some(raw(text, &live)?),
    };
    let mut object = VaultPolicy::new(
        origin.name,
        VaultPolicySpec {
            policy: PolicySpec {
                connection_ref: origin.connection.to_owned(),
                conflict_policy: ConflictPolicy::Adopt,
                deletion_policy: DeletionPolicy::Retain,
                drift_mode: Some(DriftMode::Detect),
                rules: rules.unwrap_or_default(),
                raw_hcl,
                external_name: Some(origin.external_name.to_owned()),
                vault_namespace: None,
                bindable_from: None,
            },
            enforce_namespace_boundary: false,
        },
    );
    object.metadata = origin.metadata(true);
    Ok(object)
}

/// The text itself; JSON cannot carry a marker and is written as HCL that says the same.
fn raw(text: &str, live: &Policy) -> Result<String, String> {
    let is_ours = |path: &String| path.contains(NAMESPACE) || path.contains(NAME);
    if live.paths.keys().any(is_ours) {
        return Err(format!(
            "its paths hold {NAMESPACE} or {NAME}, which objects replace"
        ));
    }
    let is_json = text.trim_start().starts_with('{');
    let raw = if is_json {
        live.to_string()
    } else {
        text.to_owned()
    };
    match raw.len() {
        0 => Err("it says nothing".to_owned()),
        1..=MAX_RAW_BYTES => Ok(raw),
        bytes => Err(format!(
            "its text has {bytes} bytes, and rawHCL takes {MAX_RAW_BYTES}"
        )),
    }
}

/// None if the rule has a capability that is no choice of the spec.
fn rule(rule: &Rule) -> Option<PolicyRule> {
    let Rule {
        path,
        capabilities,
        allowed_parameters,
        denied_parameters,
        required_parameters,
        min_wrapping_ttl,
        max_wrapping_ttl,
        subscribe_event_types,
    } = rule;
    let capability =
        |name: &String| serde_json::from_value::<Capability>(Value::from(name.as_str())).ok();
    let required = (!required_parameters.is_empty()).then(|| Parameters {
        required: required_parameters.clone(),
        ..Parameters::default()
    });
    Some(PolicyRule {
        path: path.clone(),
        capabilities: capabilities.iter().map(capability).collect::<Option<_>>()?,
        description: None,
        parameters: required,
        allowed_parameters: allowed_parameters.clone(),
        denied_parameters: denied_parameters.clone(),
        min_wrapping_ttl: min_wrapping_ttl.map(duration),
        max_wrapping_ttl: max_wrapping_ttl.map(duration),
        subscribe_event_types: subscribe_event_types.clone(),
    })
}

fn duration(time: std::time::Duration) -> Duration {
    let whole = Duration::from_secs(time.as_secs());
    match time.subsec_nanos() {
        0 => whole,
        nanos => {
            let text = format!("{}.{nanos:09}s", time.as_secs());
            text.parse().unwrap_or(whole)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn origin() -> Origin<'static> {
        Origin {
            connection: "c",
            namespace: "found",
            name: "app-1",
            external_name: "App.1",
            since: Timestamp::from_second(1_767_323_045).unwrap(),
        }
    }

    fn spec(text: &str) -> Value {
        let made = policy(text, &origin()).unwrap();
        serde_json::to_value(made.spec).unwrap()
    }

    #[test]
    fn it_says_where_it_comes_from_and_waits() {
        let made = policy("path \"a\" { capabilities = [\"read\"] }", &origin()).unwrap();
        assert_eq!(
            serde_json::to_value(&made).unwrap(),
            json!({
                "apiVersion": "vault.platform.io/v1alpha1",
                "kind": "VaultPolicy",
                "metadata": {
                    "name": "app-1",
                    "namespace": "found",
                    "annotations": {
                        "vault.platform.io/adopt": "true",
                        "vault.platform.io/discovered-at": "2026-01-02T03:04:05Z",
                        "vault.platform.io/discovered-from": "c",
                        "vault.platform.io/discovery-pending": "true",
                    },
                },
                "spec": {
                    "connectionRef": "c",
                    "externalName": "App.1",
                    "conflictPolicy": "Adopt",
                    "deletionPolicy": "Retain",
                    "driftMode": "detect",
                    "enforceNamespaceBoundary": false,
                    "rules": [{"path": "a", "capabilities": ["read"]}],
                },
            })
        );
    }

    #[test]
    fn rules_are_parsed() {
        let text = r#"
            path "secret/data/x" {
              capabilities = ["update", "create"]
              allowed_parameters = { "ttl" = ["1h"], "*" = [] }
              required_parameters = ["ttl"]
              min_wrapping_ttl = "1.5s"
              max_wrapping_ttl = "90s"
            }"#;
        assert_eq!(
            spec(text)["rules"],
            json!([{
                "path": "secret/data/x",
                "capabilities": ["create", "update"],
                "parameters": {"required": ["ttl"]},
                "allowedParameters": {"*": [], "ttl": ["1h"]},
                "minWrappingTTL": "1.500000000s",
                "maxWrappingTTL": "1m30s",
            }])
        );
    }

    #[test]
    fn what_rules_cannot_say_stays_text() {
        let text = "# why\npath \"a b\" { capabilities = [\"read\"] }\n";
        let made = spec(text);
        assert_eq!(made["rawHCL"], text);
        assert!(made.get("rules").is_none());
    }

    #[test]
    fn json_that_rules_cannot_say_becomes_hcl() {
        let text = r#"{"path": {"a b": {"capabilities": ["read"]}}}"#;
        let raw = spec(text)["rawHCL"].as_str().unwrap().to_owned();
        assert!(!raw.starts_with('{'));
        assert_eq!(Policy::parse(&raw), Policy::parse(text));
    }

    #[test]
    fn what_no_object_can_say_is_refused() {
        let refused = |text: &str| policy(text, &origin()).unwrap_err();
        assert!(refused("path \"a/{{name}}\" { capabilities = [\"read\"] }").contains("replace"));
        assert!(refused("path {").contains("no policy"));
        assert!(refused("").contains("nothing"));
        let long = format!("# {}\n", "x".repeat(MAX_RAW_BYTES));
        assert!(refused(&long).contains("bytes"));
    }
}
