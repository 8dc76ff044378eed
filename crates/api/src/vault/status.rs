//! What all kinds but the connection say of themselves.
//!
//! Everything may be absent, and a word that is not known reads as absent: the status of an object
//! that another release wrote must never keep the object from being read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DriftMode;
use super::schema::never_null;
use crate::stored::lenient;

/// Where an object stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Nothing was written for it yet.
    Pending,
    /// A write was announced and is not confirmed yet.
    Syncing,
    /// Vault holds what it declares.
    Active,
    /// Somebody else's thing, or somebody else's change, is in the way.
    Conflict,
    /// Vault does not hold what it declares; the Ready condition says why.
    Error,
    /// It is being deleted.
    Deleting,
}

impl Phase {
    /// The word in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Syncing => "Syncing",
            Self::Active => "Active",
            Self::Conflict => "Conflict",
            Self::Error => "Error",
            Self::Deleting => "Deleting",
        }
    }
}

/// What policies, roles and seeds say of themselves alike.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct SyncStatus {
    /// Where the object stands.
    #[serde(
        default,
        deserialize_with = "lenient",
        skip_serializing_if = "Option::is_none"
    )]
    pub phase: Option<Phase>,
    /// Whether what is in Vault is ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed: Option<bool>,
    /// When Vault was last found or made to hold what the object declares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_synced_at: Option<Time>,
    /// When that was last tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempt_at: Option<Time>,
    /// How many tries in a row failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_count: Option<i64>,
    /// When the next try is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_retry_at: Option<Time>,
    /// What there is to say, at most 4096 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Standard conditions.
    #[serde(default, with = "lean", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<lean::Lean>")]
    pub conditions: Vec<Condition>,
    /// Whether others changed what was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift_detected: Option<bool>,
    /// When that was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_drift_check_at: Option<Time>,
    /// The mode in force, from the object or its connection.
    #[serde(
        default,
        deserialize_with = "lenient",
        skip_serializing_if = "Option::is_none"
    )]
    pub effective_drift_mode: Option<DriftMode>,
    /// What others changed, at most six lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift_summary: Option<String>,
    /// When drift was last corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift_corrected_at: Option<Time>,
    /// When deletion in Vault began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_started_at: Option<Time>,
    /// The pass that wrote this status.
    #[serde(rename = "lastReconcileID", skip_serializing_if = "Option::is_none")]
    pub last_reconcile_id: Option<String>,
    /// SHA-256 of the text or payload last sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_applied_hash: Option<String>,
    /// SHA-256 of its canonical form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_applied_canonical_hash: Option<String>,
    /// What in Vault the object stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<Binding>,
    /// Earlier places in Vault that are still kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub previous_names: Vec<PreviousName>,
    /// A write that was announced and is not confirmed yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
}

/// What in Vault an object stands for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct Binding {
    /// Its path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vault_path: Option<String>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vault_resource_name: Option<String>,
    /// The mount a role is at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_mount: Option<String>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_at: Option<Time>,
    /// Whether it was found there when last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding_verified: Option<bool>,
    /// When that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_verified_at: Option<Time>,
    /// The connection it was written through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// The owner its marker names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// An earlier place in Vault that is still kept, for tokens that were issued under it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct PreviousName {
    /// Its path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vault_path: Option<String>,
    /// The connection it was written through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// The owner its marker names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// When its grace ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

/// A write that was announced before it was sent, so that a crash in between leaves evidence.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct Intent {
    /// Where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vault_path: Option<String>,
    /// What kind of write.
    #[serde(
        default,
        deserialize_with = "lenient",
        skip_serializing_if = "Option::is_none"
    )]
    pub kind: Option<IntentKind>,
    /// SHA-256 of the canonical form of what is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canonical_hash: Option<String>,
    /// When it was announced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
}

/// What kind of write was announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IntentKind {
    /// The first, where nothing was found.
    Create,
    /// A correction of drift, on a consent that it uses up.
    Correct,
}

/// What is known of a role.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct RoleStatus {
    /// What every kind says.
    #[serde(flatten)]
    pub sync: SyncStatus,
    /// Its name in Vault; empty where there is one for each namespace instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vault_role_name: Option<String>,
    /// The roles in Vault, where they are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vault_role_names: Vec<SplitRole>,
    /// Who may log in, as `ns/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bound_service_accounts: Vec<String>,
    /// The policies it binds, by their names in Vault.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolved_policies: Vec<String>,
    /// What became of each reference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy_bindings: Vec<PolicyBinding>,
}

/// What became of a reference to a policy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct PolicyBinding {
    /// The object, as `Kind/ns/name` or `Kind/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub k8s_ref: Option<String>,
    /// Its path in Vault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vault_policy_path: Option<String>,
    /// Whether it is bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<bool>,
}

/// One of the roles in Vault that a cluster role is split into.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct SplitRole {
    /// The namespace it admits; empty: the role that admits all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name in Vault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vault_role_name: Option<String>,
    /// The names it admits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub service_accounts: Vec<String>,
    /// SHA-256 of the canonical form last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canonical_hash: Option<String>,
}

/// Conditions as vault-access-operator stores them: an empty message is left out.
///
/// One that is not understood is dropped; the next pass writes it anew.
pub(super) mod lean {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
    use schemars::JsonSchema;
    use serde::{Deserializer, Serialize, Serializer};

    /// One statement about the object.
    #[derive(Serialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    #[schemars(transform = super::never_null)]
    pub(in crate::vault) struct Lean<'a> {
        /// What the statement is about.
        #[serde(rename = "type")]
        kind: &'a str,
        /// True, False or Unknown.
        status: &'a str,
        /// The generation it was found for.
        #[serde(skip_serializing_if = "Option::is_none")]
        observed_generation: Option<i64>,
        /// Since when the status is what it is.
        #[serde(skip_serializing_if = "Option::is_none")]
        last_transition_time: Option<&'a Time>,
        /// Why, in one word.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
        /// Why, for people.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<&'a str>,
    }

    fn given(text: &str) -> Option<&str> {
        (!text.is_empty()).then_some(text)
    }

    pub(in crate::vault) fn serialize<S: Serializer>(
        conditions: &[Condition],
        target: S,
    ) -> Result<S::Ok, S::Error> {
        target.collect_seq(conditions.iter().map(|one| Lean {
            kind: &one.type_,
            status: &one.status,
            observed_generation: one.observed_generation,
            last_transition_time: Some(&one.last_transition_time),
            reason: given(&one.reason),
            message: given(&one.message),
        }))
    }

    pub(in crate::vault) fn deserialize<'de, D: Deserializer<'de>>(
        source: D,
    ) -> Result<Vec<Condition>, D::Error> {
        crate::stored::understood(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_understood_reads_as_absent() {
        let status: SyncStatus = serde_json::from_value(json!({
            "phase": "Dreaming",
            "effectiveDriftMode": "",
            "conditions": [{"type": "Ready"}, {"type": "Synced", "status": "True",
                "lastTransitionTime": "2026-01-02T03:04:05Z"}],
            "fieldOfANewerRelease": 1,
        }))
        .unwrap();
        assert_eq!((status.phase, status.effective_drift_mode), (None, None));
        let kinds: Vec<_> = status.conditions.iter().map(|one| &*one.type_).collect();
        assert_eq!(kinds, ["Synced"]);
    }

    #[test]
    fn an_empty_status_serialises_to_nothing() {
        assert_eq!(
            serde_json::to_value(SyncStatus::default()).unwrap(),
            json!({})
        );
    }
}
