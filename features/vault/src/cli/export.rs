//! `export`: objects for what Vault has and no object declares.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::vault::{
    RoleFamily, VaultClusterPolicy, VaultClusterRole, VaultConnection, names as words,
};
use clap::ArgMatches;
use engine::cli::flags::value;
use engine::cli::{Answer, Failure, Finding, ObjectRef, as_applied};
use kernel::ObjectKey;
use serde_json::{Map, Value, json};
use vault_client::Client;

use super::plan::planned;
use super::session::{VaultSession, listed};
use crate::language::glob::Glob;
use crate::language::policy::{Policy, expressible};
use crate::language::text::{Rule, parse_header};
use crate::links::Dependent;
use crate::names;
use crate::role::payload;
use crate::sync::{Cause, Declared, Step};

/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// What is printed, and what cannot be.
#[derive(Default)]
struct Exported {
    findings: Vec<Finding>,
    taken: BTreeSet<String>,
    left_out: Vec<String>,
}

pub(super) async fn export(session: &VaultSession, args: &ArgMatches) -> Result<Answer, Failure> {
    let name = chosen(session, value(args, "connection"))?;
    let connection = session.connection(&name)?;
    let vault = session.vault(&name).await?;
    let glob = |flag: &str| value(args, flag).map(Glob::new).transpose();
    let (policies, roles) = (glob("policies")?, glob("roles")?);
    // One of the two asked for alone is meant alone.
    let (wants_policies, wants_roles) = match (&policies, &roles) {
        (None, None) | (Some(_), Some(_)) => (true, true),
        (Some(_), None) => (true, false),
        (None, Some(_)) => (false, true),
    };
    let mut exported = Exported::default();
    if wants_policies {
        export_policies(session, &name, &vault, policies.as_ref(), &mut exported).await?;
    }
    if wants_roles {
        export_roles(
            session,
            &name,
            &connection,
            &vault,
            roles.as_ref(),
            &mut exported,
        )
        .await?;
    }
    let Exported {
        findings, left_out, ..
    } = exported;
    let remark = (!left_out.is_empty()).then(|| format!("Left out: {}", left_out.join("; ")));
    Ok(Answer::manifests(&["kind", "name", "vault name"], findings).with_remark(remark))
}

fn chosen(session: &VaultSession, named: Option<&str>) -> Result<String, Failure> {
    if let Some(name) = named {
        return Ok(name.to_owned());
    }
    match &*session.connections() {
        [one] => Ok(one.clone()),
        all => Err(format!(
            "say which connection with --connection; there are: {}",
            listed(all)
        )
        .into()),
    }
}

/// Whether a thing in Vault is nobody's, and asked for.
fn is_meant(name: &str, glob: Option<&Glob>) -> bool {
    let ours = name.to_lowercase().starts_with(words::NAME_PREFIX);
    !ours && glob.is_none_or(|glob| glob.matches(name))
}

async fn export_policies(
    session: &VaultSession,
    connection: &str,
    vault: &Client,
    glob: Option<&Glob>,
    exported: &mut Exported,
) -> Result<(), Failure> {
    for name in vault.list_policies().await? {
        if words::SYSTEM_POLICIES.contains(&&*name) || !is_meant(&name, glob) {
            continue;
        }
        let Some(text) = vault.read_policy(&name).await? else {
            continue;
        };
        if parse_header(&text).is_some() {
            continue;
        }
        let Ok(canonical) = Policy::parse(&text) else {
            exported
                .left_out
                .push(format!("policy {name}: its text is no policy to us"));
            continue;
        };
        let mut spec = common(connection, &name);
        match expressible(&canonical) {
            Some(rules) => spec["rules"] = rules.iter().map(rule).collect(),
            None => spec["rawHCL"] = json!(text),
        }
        let kind = Dependent::ClusterPolicy;
        exported
            .put::<VaultClusterPolicy>(session, kind, &name, spec)
            .await;
    }
    Ok(())
}

async fn export_roles(
    session: &VaultSession,
    name: &str,
    connection: &VaultConnection,
    vault: &Client,
    glob: Option<&Glob>,
    exported: &mut Exported,
) -> Result<(), Failure> {
    let spec = &connection.spec;
    let at = names::role_mount(spec.defaults.as_ref(), &spec.auth)?;
    for role in vault.list_roles(&at.mount).await? {
        if !is_meant(&role, glob) {
            continue;
        }
        let Some(live) = vault.read_role(&at.mount, &role).await? else {
            continue;
        };
        if payload::marker(&live).is_some() {
            continue;
        }
        let mut spec = common(name, &role);
        set(&mut spec, role_fields(at.family, &live));
        exported
            .put::<VaultClusterRole>(session, Dependent::ClusterRole, &role, spec)
            .await;
    }
    Ok(())
}

impl Exported {
    /// Adds an object, if the operator would find Vault to be just as it says.
    async fn put<K: Declared>(
        &mut self,
        session: &VaultSession,
        id: Dependent,
        vault_name: &str,
        spec: Value,
    ) {
        let name = self.name(vault_name);
        let target = ObjectRef {
            id,
            cache: session.ctx.caches.of(id).clone(),
            key: ObjectKey::cluster(&*name),
        };
        let what = target.kind().clone();
        let manifest = json!({
            "apiVersion": what.api_version(),
            "kind": what.kind,
            "metadata": {"name": name},
            "spec": spec,
        });
        if let Err(why) = is_empty_plan::<K>(session, &target, manifest.clone()).await {
            self.left_out
                .push(format!("{} {vault_name}: {why}", what.kind));
            return;
        }
        self.findings.push(Finding {
            name: format!("{}/{name}", what.kind),
            cells: vec![what.kind, name.clone(), vault_name.to_owned()],
            full: manifest,
        });
        self.taken.insert(name);
    }

    /// A name for the object: that in Vault, made fit, and not given before.
    fn name(&self, vault_name: &str) -> String {
        let fit = fit(vault_name);
        let mut name = fit.clone();
        let mut number = 2;
        while self.taken.contains(&name) {
            name = format!("{fit}-{number}");
            number += 1;
        }
        name
    }
}

async fn is_empty_plan<K: Declared>(
    session: &VaultSession,
    target: &ObjectRef<Dependent>,
    manifest: Value,
) -> Result<(), Failure> {
    let live = target.find();
    let object = as_applied(target.kind(), &target.key, manifest, live.as_deref())?;
    let ahead = planned::<K>(session, target, Arc::new(object)).await?;
    for one in ahead.places {
        let adopts = matches!(
            one.step,
            Step::Write {
                cause: Cause::Adopt,
                ..
            }
        );
        if !one.diff.is_empty() || !adopts {
            let said = if one.diff.is_empty() {
                "an object declares it already".to_owned()
            } else {
                one.diff.replace('\n', ", ")
            };
            return Err(format!("no object can say what it says ({said})").into());
        }
    }
    Ok(())
}

/// Lower case, everything else a hyphen, and no two of them.
fn fit(name: &str) -> String {
    let keeps = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let plain: String = name.chars().map(keeps).collect();
    let words: Vec<_> = plain.split('-').filter(|word| !word.is_empty()).collect();
    let mut fit = words.join("-");
    fit.truncate(LONGEST_NAME);
    let fit = fit.trim_end_matches('-');
    if fit.is_empty() { "unnamed" } else { fit }.to_owned()
}

fn common(connection: &str, external: &str) -> Value {
    json!({
        "connectionRef": connection,
        "externalName": external,
        "conflictPolicy": "Adopt",
        "deletionPolicy": "Retain",
    })
}

fn set(spec: &mut Value, fields: Vec<(&str, Value)>) {
    for (field, value) in fields {
        let is_zero = match &value {
            Value::Null => true,
            Value::Bool(held) => !held,
            Value::Number(held) => held.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            Value::Array(all) => all.is_empty(),
            Value::Object(all) => all.is_empty(),
        };
        if !is_zero {
            spec[field] = value;
        }
    }
}

fn rule(rule: &Rule) -> Value {
    let seconds =
        |time: Option<std::time::Duration>| time.map(|time| format!("{}s", time.as_secs()));
    let mut value = json!({"path": rule.path, "capabilities": rule.capabilities});
    let required = json!({"required": rule.required_parameters});
    set(
        &mut value,
        vec![
            (
                "parameters",
                if rule.required_parameters.is_empty() {
                    Value::Null
                } else {
                    required
                },
            ),
            ("allowedParameters", json!(rule.allowed_parameters)),
            ("deniedParameters", json!(rule.denied_parameters)),
            ("minWrappingTTL", json!(seconds(rule.min_wrapping_ttl))),
            ("maxWrappingTTL", json!(seconds(rule.max_wrapping_ttl))),
            ("subscribeEventTypes", json!(rule.subscribe_event_types)),
        ],
    );
    value
}

/// The spec of a role that says what `live` says.
fn role_fields(family: RoleFamily, live: &Map<String, Value>) -> Vec<(&'static str, Value)> {
    let held = |field: &str| live.get(field).cloned().unwrap_or_default();
    let seconds = |field: &str| match live.get(field).and_then(Value::as_u64) {
        Some(0) | None => Value::Null,
        Some(seconds) => json!(format!("{seconds}s")),
    };
    let texts =
        |field: &str| -> Vec<String> { serde_json::from_value(held(field)).unwrap_or_default() };
    let usual = |field: &str, usual: &str| match held(field) {
        Value::String(text) if text == usual => Value::Null,
        value => value,
    };
    let external = |name: &String| json!({"kind": "External", "name": name});
    let mut fields = vec![
        (
            "policies",
            texts("token_policies").iter().map(external).collect(),
        ),
        ("tokenTTL", seconds("token_ttl")),
        ("tokenMaxTTL", seconds("token_max_ttl")),
        ("tokenExplicitMaxTTL", seconds("token_explicit_max_ttl")),
        ("tokenPeriod", seconds("token_period")),
        ("tokenNumUses", held("token_num_uses")),
        ("tokenBoundCIDRs", held("token_bound_cidrs")),
        ("tokenType", usual("token_type", "default")),
        ("tokenNoDefaultPolicy", held("token_no_default_policy")),
    ];
    match family {
        RoleFamily::Kubernetes => {
            let names = texts("bound_service_account_names");
            let selector = live.get("bound_service_account_namespace_selector");
            let selector = selector.and_then(Value::as_str).unwrap_or_default();
            if let Ok(selector) = serde_json::from_str::<Value>(selector) {
                fields.push((
                    "selectedServiceAccounts",
                    json!({"names": names, "namespaceSelector": selector, "resolveBy": "Vault"}),
                ));
            }
            let namespaces = texts("bound_service_account_namespaces");
            let pairs = namespaces.iter().flat_map(|namespace| {
                let one = move |name: &String| json!({"name": name, "namespace": namespace});
                names.iter().map(one)
            });
            fields.push(("serviceAccounts", pairs.collect()));
            fields.push(("audience", held("audience")));
            fields.push((
                "aliasNameSource",
                usual("alias_name_source", "serviceaccount_uid"),
            ));
        }
        RoleFamily::Jwt => {
            let mut jwt = json!({});
            let claims = live.get("bound_claims").and_then(Value::as_object);
            let lists = claims
                .into_iter()
                .flatten()
                .map(|(claim, value)| match value {
                    Value::Array(_) => (claim.clone(), value.clone()),
                    one => (claim.clone(), json!([one])),
                });
            let lists: Map<String, Value> = lists.collect();
            set(
                &mut jwt,
                vec![
                    ("userClaim", held("user_claim")),
                    ("groupsClaim", held("groups_claim")),
                    ("boundAudiences", held("bound_audiences")),
                    ("boundSubject", held("bound_subject")),
                    ("boundClaimsList", Value::Object(lists)),
                    ("boundClaimsType", usual("bound_claims_type", "string")),
                ],
            );
            fields.push(("jwt", jwt));
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("Team_A/Reader", "team-a-reader")]
    #[case("--x--y--", "x-y")]
    #[case("*", "unnamed")]
    fn names_are_made_fit(#[case] name: &str, #[case] expected: &str) {
        assert_eq!(fit(name), expected);
    }
}
