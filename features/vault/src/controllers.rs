//! Which controllers of the feature run, and what they must be allowed to do.

use std::collections::BTreeSet;

use api::vault::names as words;
use engine::{ListedNamespaces, OWN_ACCOUNT, Rbac, Usage, rule};
use k8s_openapi::api::rbac::v1::PolicyRule;

/// The flag that chooses.
pub(crate) const FLAG: &str = "vault-controllers";
/// All of them, as the flag names them.
pub(crate) const DEFAULT: &str = "connection,policy,role,kv,discovery";

/// A part of the feature that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// VaultConnection. It always runs: the others go through it.
    Connection,
    /// VaultPolicy and VaultClusterPolicy.
    Policy,
    /// VaultRole and VaultClusterRole.
    Role,
    /// VaultKVSecret.
    Kv,
    /// Scans for what nobody declares, and for orphans.
    Discovery,
}

impl Part {
    const ALL: [Self; 5] = [
        Self::Connection,
        Self::Policy,
        Self::Role,
        Self::Kv,
        Self::Discovery,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Policy => "policy",
            Self::Role => "role",
            Self::Kv => "kv",
            Self::Discovery => "discovery",
        }
    }

    /// The resources whose objects it looks after.
    fn resources(self) -> &'static [&'static str] {
        match self {
            Self::Connection => &["vaultconnections"],
            Self::Policy => &["vaultpolicies", "vaultclusterpolicies"],
            Self::Role => &["vaultroles", "vaultclusterroles"],
            Self::Kv => &["vaultkvsecrets"],
            Self::Discovery => &[],
        }
    }
}

/// The parts that run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Controllers(BTreeSet<Part>);

impl Controllers {
    /// All of them.
    pub(crate) fn all() -> Self {
        Self(Part::ALL.into())
    }

    /// Reads names separated by commas.
    pub(crate) fn parse(text: &str) -> Result<Self, Usage> {
        let mut parts = BTreeSet::from([Part::Connection]);
        let names = text.split(',').map(str::trim);
        for name in names.filter(|name| !name.is_empty()) {
            let part = Part::ALL.into_iter().find(|part| part.as_str() == name);
            let unknown = || {
                Usage(format!(
                    "--{FLAG}: there is no {name:?}; choose of {DEFAULT}"
                ))
            };
            parts.insert(part.ok_or_else(unknown)?);
        }
        Ok(Self(parts))
    }

    /// Whether this one runs.
    pub(crate) fn has(&self, part: Part) -> bool {
        self.0.contains(&part)
    }

    /// What they must be allowed to do. Kinds that no running controller looks after are only read:
    /// connections count their dependents, roles look up policies.
    pub(crate) fn rbac(&self) -> Rbac {
        let of = |runs: bool| -> Vec<&str> {
            let parts = Part::ALL.into_iter().filter(|part| self.has(*part) == runs);
            parts.flat_map(Part::resources).copied().collect()
        };
        let (kinds, others) = (of(true), of(false));
        let below = |part: &str, verb: &str| {
            let list: Vec<_> = kinds.iter().map(|kind| format!("{kind}/{part}")).collect();
            let list: Vec<&str> = list.iter().map(String::as_str).collect();
            rule(words::GROUP, &list, &[verb])
        };
        let mut cluster = vec![rule(
            words::GROUP,
            &kinds,
            &["get", "list", "watch", "create", "patch", "delete"],
        )];
        if !others.is_empty() {
            cluster.push(rule(words::GROUP, &others, &["get", "list", "watch"]));
        }
        if self.has(Part::Discovery) {
            let found = [Part::Policy, Part::Role].into_iter();
            let found = found.filter(|part| !self.has(*part));
            let found: Vec<&str> = found.flat_map(Part::resources).copied().collect();
            if !found.is_empty() {
                cluster.push(rule(words::GROUP, &found, &["create"]));
            }
        }
        cluster.extend([
            below("status", "patch"),
            below("finalizers", "update"),
            rule("", &["namespaces"], &["get", "list", "watch"]),
        ]);
        Rbac {
            cluster,
            own_namespace: vec![
                rule("", &["secrets"], &["get"]),
                PolicyRule {
                    resource_names: Some(vec![OWN_ACCOUNT.to_owned()]),
                    ..rule("", &["serviceaccounts/token"], &["create"])
                },
                rule(
                    "",
                    &["configmaps"],
                    &["get", "list", "watch", "create", "patch", "delete"],
                ),
            ],
            listed_namespaces: vec![ListedNamespaces {
                value: "vault.secretNamespaces",
                purpose: "secrets",
                namespaces: Vec::new(), // connections name them
                rules: vec![rule("", &["secrets"], &["get"])],
                everywhere_if_empty: false,
            }],
            ..Rbac::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[rstest]
    #[case::all(DEFAULT, &Part::ALL)]
    #[case::connection_always_runs("", &[Part::Connection])]
    #[case::some(" role,policy ", &[Part::Connection, Part::Policy, Part::Role])]
    fn names_choose_controllers(#[case] text: &str, #[case] parts: &[Part]) {
        let chosen = Controllers::parse(text).unwrap();
        assert_eq!(chosen.0.into_iter().collect::<Vec<_>>(), parts);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_list() {
        let Usage(why) = Controllers::parse("policy,roles").unwrap_err();
        assert_eq!(
            why,
            "--vault-controllers: there is no \"roles\"; choose of connection,policy,role,kv,discovery"
        );
    }

    #[test]
    fn the_chart_knows_the_same_controllers() {
        let template = include_str!("../../../charts/pontoon/templates/_vault.tpl");
        for part in [Part::Policy, Part::Role, Part::Kv] {
            let kinds = part.resources().iter().map(|kind| format!("{kind:?}"));
            let kinds = kinds.collect::<Vec<_>>().join(" ");
            let entry = format!("{:?} (list {kinds})", part.as_str());
            assert!(template.contains(&entry), "{entry}");
        }
        let schema = include_str!("../../../charts/pontoon/values.schema.json");
        let schema: Value = serde_json::from_str(schema).unwrap();
        let value = &schema["properties"]["vault"]["properties"]["controllers"];
        assert_eq!(value["items"]["enum"], json!(Part::ALL.map(Part::as_str)));
    }

    /// Whether something may be done to a resource.
    fn may(rbac: &Rbac, verb: &str, resource: &str) -> bool {
        let has = |list: &[String], word: &str| list.iter().any(|one| one == word);
        rbac.cluster.iter().any(|rule| {
            let resources = rule.resources.as_deref().unwrap_or_default();
            has(&rule.verbs, verb) && has(resources, resource)
        })
    }

    #[rstest]
    #[case::all_write(DEFAULT, "patch", "vaultkvsecrets/status", true)]
    #[case::all_finalize(DEFAULT, "update", "vaultroles/finalizers", true)]
    #[case::others_are_not_written("policy", "patch", "vaultroles", false)]
    #[case::others_get_no_status("policy", "patch", "vaultclusterroles/status", false)]
    #[case::others_get_no_finalizer("policy", "update", "vaultkvsecrets/finalizers", false)]
    #[case::others_are_read("policy", "watch", "vaultroles", true)]
    #[case::its_own_are_written("policy", "patch", "vaultclusterpolicies/status", true)]
    #[case::connections_always("kv", "patch", "vaultconnections/status", true)]
    #[case::nothing_is_made_without_discovery("role", "create", "vaultpolicies", false)]
    #[case::discovery_makes_objects("discovery", "create", "vaultpolicies", true)]
    #[case::discovery_does_not_change_them("discovery", "patch", "vaultpolicies", false)]
    fn a_controller_left_out_needs_no_permission_to_write(
        #[case] chosen: &str,
        #[case] verb: &str,
        #[case] resource: &str,
        #[case] allowed: bool,
    ) {
        let rbac = Controllers::parse(chosen).unwrap().rbac();
        assert_eq!(may(&rbac, verb, resource), allowed);
    }
}
