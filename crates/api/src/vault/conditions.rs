//! Condition types: what each is a statement about.

/// What the object declares holds, and nothing about it needs anyone's attention.
pub const READY: &str = "Ready";
/// Vault was given what the object declares.
pub const SYNCED: &str = "Synced";
/// Everything the object refers to is there and usable.
pub const DEPENDENCY_READY: &str = "DependencyReady";
/// The object's connection is usable.
pub const CONNECTION_READY: &str = "ConnectionReady";
/// Every policy a role refers to is bound to it.
pub const POLICIES_RESOLVED: &str = "PoliciesResolved";
/// A cluster role admits the listed pairs and no others.
pub const BINDING_EXACT: &str = "BindingExact";
/// Vault holds something other than what was last written there.
pub const DRIFTED: &str = "Drifted";
/// An earlier name in Vault is still kept.
pub const RENAME_PENDING: &str = "RenamePending";
/// The object is being deleted and something holds it.
pub const DELETING: &str = "Deleting";
/// Discovery found more than the status lists.
pub const DISCOVERY_RESULTS_TRUNCATED: &str = "DiscoveryResultsTruncated";
/// More roles use the policy than the status lists.
pub const USED_BY_ROLES_TRUNCATED: &str = "UsedByRolesTruncated";
/// The object only shows what it would do; the message is the plan.
pub const DRY_RUN: &str = "DryRun";
/// The seed stands in Vault and is ours.
pub const SEEDED: &str = "Seeded";
/// Vault was prepared for login by this cluster.
pub const BOOTSTRAPPED: &str = "Bootstrapped";
/// The token with which Vault reviews our logins is kept fresh.
pub const TOKEN_REVIEWER: &str = "TokenReviewer";
/// Nobody but people keeps the reviewer token fresh.
pub const TOKEN_REVIEWER_ROTATION_DISABLED: &str = "TokenReviewerRotationDisabled";
