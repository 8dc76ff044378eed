//! Policies, and for each a role that binds it, all through one connection.

use serde_json::{Value, json};

const GROUP: &str = "/apis/vault.platform.io/v1alpha1";

/// The kind of an object in a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Policy,
    Role,
}

impl Kind {
    pub(super) const BOTH: [Self; 2] = [Self::Policy, Self::Role];

    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Policy => "vaultpolicies",
            Self::Role => "vaultroles",
        }
    }
}

/// A number of pairs, in namespaces that are named after the connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pairs {
    pub(super) connection: &'static str,
    pub(super) count: usize,
    pub(super) namespaces: usize,
    /// The rate of the connection; without one, as Vault's answers allow.
    pub(super) requests_per_second: Option<u32>,
}

impl Pairs {
    pub(super) fn objects(&self) -> usize {
        2 * self.count
    }

    /// Their namespaces.
    pub(super) fn homes(&self) -> impl Iterator<Item = String> {
        let connection = self.connection;
        (0..self.namespaces).map(move |number| format!("{connection}-{number:02}"))
    }

    /// The path of the objects of a kind in the namespace of this number.
    pub(super) fn list_path(&self, kind: Kind, namespace: usize) -> String {
        let (connection, plural) = (self.connection, kind.plural());
        format!("{GROUP}/namespaces/{connection}-{namespace:02}/{plural}")
    }

    pub(super) fn path(&self, kind: Kind, number: usize) -> String {
        let list = self.list_path(kind, number % self.namespaces);
        format!("{list}/{}", name(number))
    }

    /// All objects of a kind, each with the path to create it at.
    pub(super) fn all(&self, kind: Kind) -> impl Iterator<Item = (String, Value)> {
        (0..self.count).map(move |number| {
            let path = self.list_path(kind, number % self.namespaces);
            (path, self.object(kind, number))
        })
    }

    fn object(&self, kind: Kind, number: usize) -> Value {
        let (kind_name, mut spec) = match kind {
            Kind::Policy => ("VaultPolicy", policy(0)),
            Kind::Role => ("VaultRole", role(number)),
        };
        spec["connectionRef"] = json!(self.connection);
        json!({
            "apiVersion": "vault.platform.io/v1alpha1",
            "kind": kind_name,
            "metadata": {"name": name(number)},
            "spec": spec,
        })
    }
}

/// A merge patch that changes an object's contents in Vault, different for each `version`.
pub(super) fn edit(kind: Kind, version: usize) -> Value {
    let spec = match kind {
        Kind::Policy => policy(version + 1),
        Kind::Role => json!({"tokenTTL": format!("{}s", 3601 + version)}),
    };
    json!({"spec": spec})
}

fn name(number: usize) -> String {
    format!("app-{number:05}")
}

fn policy(version: usize) -> Value {
    json!({"rules": [
        {"path": "secret/data/{{namespace}}/{{name}}/*", "capabilities": ["read", "list"]},
        {"path": "secret/metadata/{{namespace}}/{{name}}/*", "capabilities": ["read", "list"]},
        {"path": format!("transit/encrypt/{{{{namespace}}}}-{version}"), "capabilities": ["update"]},
    ]})
}

fn role(number: usize) -> Value {
    json!({
        "serviceAccounts": [name(number)],
        "policies": [{"kind": "VaultPolicy", "name": name(number)}],
        "tokenTTL": "1h",
        "tokenMaxTTL": "4h",
    })
}

/// Whether an object is ready with its current spec.
pub(super) fn is_ready(object: &Value) -> bool {
    let generation = &object["metadata"]["generation"];
    let conditions = object["status"]["conditions"].as_array();
    conditions.is_some_and(|conditions| {
        conditions.iter().any(|one| {
            one["type"] == "Ready"
                && one["status"] == "True"
                && one["observedGeneration"] == *generation
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: Pairs = Pairs {
        connection: "main",
        count: 3,
        namespaces: 2,
        requests_per_second: None,
    };

    #[test]
    fn a_role_is_in_the_namespace_of_the_policy_it_binds() {
        let role = FEW.object(Kind::Role, 2);
        assert_eq!(role["spec"]["policies"][0]["name"], "app-00002");
        let (policy, role) = (FEW.path(Kind::Policy, 2), FEW.path(Kind::Role, 2));
        assert!(
            policy.ends_with("/main-00/vaultpolicies/app-00002"),
            "{policy}"
        );
        assert!(role.ends_with("/main-00/vaultroles/app-00002"), "{role}");
        let homes: Vec<_> = FEW.homes().collect();
        assert_eq!(homes, ["main-00", "main-01"]);
    }

    #[test]
    fn each_edit_differs_from_the_original_and_from_the_next() {
        for kind in Kind::BOTH {
            let spec = FEW.object(kind, 0)["spec"].clone();
            let (first, second) = (edit(kind, 0), edit(kind, 1));
            assert_ne!(first, second);
            let changed = first["spec"].as_object().unwrap();
            assert!(changed.iter().any(|(field, value)| spec[field] != *value));
        }
    }

    #[test]
    fn ready_counts_only_for_its_generation() {
        let object = |seen: i64, status: &str| {
            json!({
                "metadata": {"generation": 2},
                "status": {"conditions": [
                    {"type": "Ready", "status": status, "observedGeneration": seen},
                ]},
            })
        };
        assert!(is_ready(&object(2, "True")));
        assert!(!is_ready(&object(1, "True")));
        assert!(!is_ready(&object(2, "False")));
        assert!(!is_ready(&json!({"metadata": {"generation": 1}})));
    }
}
