//! Small choices and references that several kinds share.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::{never_null, rule};

// CEL reserves the word `namespace`; the API server spells the field `__namespace__` in rules.
const HAS_NAMESPACE: &str = "has(self.__namespace__) && self.__namespace__ != ''";
const GIVE_NAMESPACE: &str = "give the namespace of the Secret";

/// What happens when Vault already holds something unmarked under the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum ConflictPolicy {
    /// It is left alone and the object says Conflict.
    #[default]
    Fail,
    /// It is taken over, unless its marker names another owner.
    Adopt,
}

/// Whether what is in Vault goes with the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// It goes.
    #[default]
    Delete,
    /// It stays.
    Retain,
}

/// What is done about changes that others made in Vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DriftMode {
    /// Nothing; Vault is read only before a write.
    Ignore,
    /// They are reported and left alone.
    #[default]
    Detect,
    /// They are undone, with consent by annotation.
    Correct,
}

/// What a policy lets its holder do at a path.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Capability {
    /// Create what is not there.
    Create,
    /// Read.
    Read,
    /// Change what is there.
    Update,
    /// Delete.
    Delete,
    /// List what is below.
    List,
    /// Use what Vault protects as root's.
    Sudo,
    /// Nothing, whatever other policies grant.
    Deny,
    /// Change a part of what is there.
    Patch,
    /// Receive events.
    Subscribe,
    /// Read from a snapshot.
    Recover,
    /// List everything below.
    Scan,
}

impl Capability {
    /// The word Vault uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Read => "read",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::List => "list",
            Self::Sudo => "sudo",
            Self::Deny => "deny",
            Self::Patch => "patch",
            Self::Subscribe => "subscribe",
            Self::Recover => "recover",
            Self::Scan => "scan",
        }
    }
}

/// One key of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [rule(HAS_NAMESPACE, GIVE_NAMESPACE)])
)]
pub struct SecretKey {
    /// The Secret's name.
    pub name: String,
    /// Its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The key in it.
    pub key: String,
}

/// A Secret as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(
    transform = never_null,
    extend("x-kubernetes-validations" = [rule(HAS_NAMESPACE, GIVE_NAMESPACE)])
)]
pub struct SecretName {
    /// The Secret's name.
    pub name: String,
    /// Its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Namespaces, by name or by label; one that either picks is chosen.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = never_null)]
pub struct NamespaceChoice {
    /// By name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// By label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}
