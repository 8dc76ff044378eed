//! Names by which objects, Vault and vault-access-operator know each other, and caps on status.

/// The API group.
pub const GROUP: &str = "vault.platform.io";
/// Holds an object until Vault no longer has what it declared.
pub const FINALIZER: &str = "vault.platform.io/finalizer";

/// `true`: an unmarked thing of this name in Vault is taken over.
pub const ADOPT: &str = "vault.platform.io/adopt";
/// The owner, exactly as the Conflict names it, from whom the thing in Vault is taken over.
pub const ADOPT_FROM: &str = "vault.platform.io/adopt-from";
/// `true`: consent to one correction of drift; removed when spent.
pub const ALLOW_DESTRUCTIVE: &str = "vault.platform.io/allow-destructive";
/// `true`: the plan is shown in the DryRun condition and nothing is written to Vault.
pub const DRY_RUN: &str = "vault.platform.io/dry-run";
/// Any value: one pass at once, past the back-off; removed when it succeeded.
pub const RECONCILE_NOW: &str = "vault.platform.io/reconcile-now";
/// `true`: discovery made the object and nobody has confirmed it yet.
pub const DISCOVERY_PENDING: &str = "vault.platform.io/discovery-pending";
/// When discovery found what the object was made for.
pub const DISCOVERED_AT: &str = "vault.platform.io/discovered-at";
/// The connection on which discovery found it.
pub const DISCOVERED_FROM: &str = "vault.platform.io/discovered-from";
/// A request of vault-access-operator that markers be written again; it is only cleared.
pub const RESTORE_MANAGED_MARKERS: &str = "vault.platform.io/restore-managed-markers";
/// `true` on a connection that is being deleted: what is still to clean up stays in Vault.
pub const ABANDON_CLEANUP: &str = "vault.platform.io/abandon-cleanup";

/// Label of what a tenancy template made: `<connection>.<template>`.
pub const TEMPLATE_LABEL: &str = "vault.platform.io/template";
/// Label `true` of the ConfigMaps that record what is still to delete in Vault.
pub const CLEANUP_RECORD_LABEL: &str = "vault.platform.io/cleanup-record";

/// Who the markers in Vault say manages a thing.
pub const SENTINEL: &str = "vault-access-operator";
/// How the names Pontoon gives in Vault begin.
pub const NAME_PREFIX: &str = "vao.";
/// Stands in discovered objects where a person has to decide.
pub const DISCOVERY_PLACEHOLDER: &str = "discovery-placeholder-replace-me";
/// The Lease by which vault-access-operator elects its leader.
pub const LEGACY_LEASE: &str = "2bf9394e.platform.io";
/// The ConfigMap in which vault-access-operator keeps what it has yet to delete.
pub const LEGACY_CLEANUP_QUEUE: &str = "vault-cleanup-queue";
/// Policies that are Vault's own.
pub const SYSTEM_POLICIES: [&str; 4] = ["root", "default", "response-wrapping", "default-ceiling"];

/// How many discovered things a status lists; see `DiscoveryResultsTruncated`.
pub const DISCOVERED_CAP: usize = 500;
/// How many roles a policy's status lists; see `UsedByRolesTruncated`.
pub const USED_BY_ROLES_CAP: usize = 200;
/// How many lines a drift summary has at most.
pub const DRIFT_SUMMARY_LINES: usize = 6;
/// How many bytes a message in a status has at most.
pub const MESSAGE_BYTES: usize = 4096;
