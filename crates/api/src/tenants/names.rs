//! Names by which objects, AWS and cloudfront-tenant-operator know each other, and caps on status.

/// The API group.
pub const GROUP: &str = "cloudfront-tenant-operator.io";
/// Holds an object until AWS no longer has what it declared.
pub const FINALIZER: &str = "cloudfront-tenant-operator.io/finalizer";

/// Label of a DistributionTenant made from a table: the source's name.
pub const SOURCE_LABEL: &str = "cloudfront-tenant-operator.io/source";
/// Annotation of a DistributionTenant made from a table: the source's UID.
pub const SOURCE_UID: &str = "cloudfront-tenant-operator.io/source-uid";
/// Annotation of a TenantSource: the `status.planHash` whose deletions are approved, once.
pub const APPROVE_PRUNE: &str = "cloudfront-tenant-operator.io/approve-prune";
/// Annotation of a Namespace: the namespaces, by commas, whose sources may make objects in it.
pub const ACCEPT_SOURCES: &str = "cloudfront-tenant-operator.io/accept-sources";
/// The field manager of what a TenantSource writes.
pub const SOURCE_MANAGER: &str = "pontoon-tenantsource";

/// Tag that names the cluster a tenant or group belongs to.
pub const CLUSTER_TAG: &str = "pontoon.io/cluster";
/// Tag that names its object: `<namespace>/<name>`, of a group `<name>`.
pub const OBJECT_TAG: &str = "pontoon.io/object";

/// The key of a source's Secret that says where the database is.
pub const CONNECTION_STRING_KEY: &str = "connectionString";
/// The key of a source's Secret with the authority of the database's certificate, as PEM.
pub const CA_KEY: &str = "ca.crt";
/// The entry of a policy's list that allows any.
pub const ANY: &str = "*";
/// The entry of a policy's `connectionGroups` that is the account's default group.
pub const DEFAULT_GROUP: &str = "default";
/// The Lease by which cloudfront-tenant-operator elects its leader.
pub const LEGACY_LEASE: &str = "dd008127.cloudfront-tenant-operator.io";

/// How many drifted fields a status lists.
pub const DRIFT_CAP: usize = 20;
/// How many characters of a drifted value a status shows.
pub const DRIFT_VALUE_CHARS: usize = 256;
/// How many pending changes a source's status lists.
pub const PENDING_CHANGES_CAP: usize = 100;
/// How many wrong rows a source's status lists.
pub const ROW_ERRORS_CAP: usize = 20;
