//! VaultKVSecret: a first version at a path, written once and then left to its users.

use std::collections::BTreeMap;
use std::fmt;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{never_null, rule};
use super::{DeletionPolicy, SyncStatus};

/// A first version at a path of a KV version 2 mount. What is there already is left untouched.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vault.platform.io",
    version = "v1alpha1",
    kind = "VaultKVSecret",
    doc = "A first version at a path of Vault, written once and then left to its users.",
    plural = "vaultkvsecrets",
    shortname = "vks",
    namespaced,
    status = "VaultKVSecretStatus",
    printcolumn = r#"{"name":"Path","type":"string","jsonPath":".spec.path"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Seeded","type":"boolean","jsonPath":".status.seeded"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct VaultKVSecretSpec {
    /// The connection it is written through.
    #[schemars(extend("x-kubernetes-validations" = [
        rule("self == oldSelf", "connectionRef cannot change; make another seed")
    ]))]
    pub connection_ref: String,
    /// Where, as `<mount>/data/<path>`.
    #[schemars(
        regex(pattern = "^[^/]+/data/.+"),
        extend("x-kubernetes-validations" = [
            rule("self == oldSelf", "the path cannot change; make another seed")
        ])
    )]
    pub path: String,
    /// What is written.
    #[serde(default)]
    pub data: Seed,
    /// Whether it goes from Vault with the object, if it is still the version we wrote.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// Whether it is written again when its current version was deleted in Vault.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub reseed_deleted: Option<bool>,
}

/// The keys and values of a seed. Printed for debugging, it shows its keys alone.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Seed(pub BTreeMap<String, String>);

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// What is known of a seed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct VaultKVSecretStatus {
    /// What every kind says.
    #[serde(flatten)]
    pub sync: SyncStatus,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vault_path: Option<String>,
    /// Whether we wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seeded: Option<bool>,
    /// The version we wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seeded_version: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_seed_are_never_printed() {
        let seed = Seed([("password".into(), "hunter2".into())].into());
        assert_eq!(format!("{seed:?}"), r#"{"password"}"#);
    }
}
