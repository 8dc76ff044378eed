//! Reasons of conditions: what each tells of the world.

/// It is as it should be.
pub const SUCCEEDED: &str = "Succeeded";
/// Vault or the way to it failed in a passing manner; tried again with back-off.
pub const FAILED: &str = "Failed";
/// What Vault holds under this name is not ours; the message names the owner.
pub const CONFLICT: &str = "Conflict";
/// Vault was changed by others and correcting it needs consent.
pub const DRIFT_BLOCKED: &str = "DriftBlocked";
/// The object asks for what cannot be, or Vault refused it as invalid; an edit is needed.
pub const VALIDATION_FAILED: &str = "ValidationFailed";
/// The connection's tenancy does not allow this to the object's namespace.
pub const TENANCY_DENIED: &str = "TenancyDenied";
/// The connection is missing, unhealthy or not yet looked at.
pub const CONNECTION_NOT_READY: &str = "ConnectionNotReady";
/// Vault is sealed.
pub const VAULT_SEALED: &str = "VaultSealed";
/// Vault was never initialised.
pub const VAULT_NOT_INITIALIZED: &str = "VaultNotInitialized";
/// Our token may not do this; the message names the path.
pub const VAULT_PERMISSION_DENIED: &str = "VaultPermissionDenied";
/// Vault cannot be reached, or answers as one that serves nobody.
pub const NETWORK_ERROR: &str = "NetworkError";
/// Vault refused our login.
pub const AUTH_FAILED: &str = "AuthFailed";
/// A Secret or its key is missing, or we may not read it; the message names it.
pub const SECRET_NOT_READABLE: &str = "SecretNotReadable";
/// This Vault does not know what the object asks for.
pub const UNSUPPORTED_BY_SERVER: &str = "UnsupportedByServer";
/// A policy that a role refers to is not in Vault.
pub const POLICY_NOT_IN_VAULT: &str = "PolicyNotInVault";
/// Discovery made the object and nobody has confirmed it yet.
pub const DISCOVERY_PENDING: &str = "DiscoveryPending";
/// Nothing was written because the object asks for a dry run.
pub const DRY_RUN_SKIPPED: &str = "DryRunSkipped";
/// The current version at the seed's path was deleted or destroyed in Vault.
pub const SEED_TARGET_DELETED: &str = "SeedTargetDeleted";

/// Everything referred to is usable.
pub const DEPENDENCY_READY: &str = "DependencyReady";
/// Something referred to is missing or not usable.
pub const DEPENDENCY_NOT_READY: &str = "DependencyNotReady";

/// Every policy a role refers to is in Vault and bound.
pub const ALL_POLICIES_EXIST: &str = "AllPoliciesExist";
/// A policy lives in another Vault or Vault namespace than the role.
pub const POLICY_ON_OTHER_CONNECTION: &str = "PolicyOnOtherConnection";
/// A policy does not name the role's namespace in `bindableFrom`.
pub const REFERENCE_NOT_GRANTED: &str = "ReferenceNotGranted";

/// The roles in Vault admit the listed pairs and no others.
pub const EXACT: &str = "Exact";
/// The spec accepts that every name is admitted from every namespace.
pub const PRODUCT_ACCEPTED: &str = "ProductAccepted";
/// A role written earlier admits pairs that nobody listed; the message names them.
pub const LEGACY_PRODUCT_ROLE: &str = "LegacyProductRole";

/// Vault holds what was last written.
pub const NO_DRIFT: &str = "NoDrift";
/// Others changed what was last written.
pub const DRIFT_DETECTED: &str = "DriftDetected";

/// Roles still list the earlier name; the message names them.
pub const ROLES_NOT_REBOUND: &str = "RolesNotRebound";
/// Tokens issued under the earlier name may still live.
pub const IN_GRACE: &str = "InGrace";

/// What is in Vault is being deleted.
pub const DELETION_IN_PROGRESS: &str = "DeletionInProgress";
/// Objects still use the connection; the message names some.
pub const CHILDREN_EXIST: &str = "ChildrenExist";
/// Deletions in Vault are still owed through the connection.
pub const CLEANUP_RECORDS_EXIST: &str = "CleanupRecordsExist";

/// The list is cut at its cap.
pub const CAPPED: &str = "Capped";
/// The list is whole.
pub const WITHIN_CAP: &str = "WithinCap";

/// Whether the seed was written cannot be told: Vault does not let us read it.
pub const SEED_UNCONFIRMED: &str = "SeedUnconfirmed";

/// The login mount is of another type.
pub const MOUNT_TYPE_MISMATCH: &str = "MountTypeMismatch";
/// The login mount serves another cluster and carries no marker of ours.
pub const MOUNT_NOT_OURS: &str = "MountNotOurs";
/// The mount is ready, and yet a login of ours fails; the bootstrap token is kept.
pub const K8S_AUTH_TEST_FAILED: &str = "K8sAuthTestFailed";

/// The login mount was not enabled by us, so its reviewer token is not ours to change.
pub const NOT_OUR_MOUNT: &str = "NotOurMount";
/// The spec leaves the reviewer token to people.
pub const MANUAL_MANAGEMENT: &str = "ManualManagement";
