//! Names by which objects, EC2 and aqua-service-controller know each other, and limits on status.

/// The API group.
pub const GROUP: &str = "migration.aqua.io";
/// Holds an object until its run is over or undone.
pub const FINALIZER: &str = "migration.aqua.io/finalizer";

/// Label `true` of each PersistentVolume and claim that was made at the destination.
pub const MIGRATED_LABEL: &str = "migration.aqua.io/migrated";
/// Label of a destination PersistentVolume: the name of the source one.
pub const SOURCE_PV_LABEL: &str = "migration.aqua.io/source-pv";
/// Label of a destination PersistentVolume: the namespace of its claim.
pub const DEST_NAMESPACE_LABEL: &str = "migration.aqua.io/dest-namespace";
/// Label of a destination PersistentVolume: the name of its claim.
pub const DEST_PVC_LABEL: &str = "migration.aqua.io/dest-pvc";
/// Label of a destination claim: the name of the source one.
pub const SOURCE_PVC_LABEL: &str = "migration.aqua.io/source-pvc";
/// Label `true` of each tombstone: a claim that cannot be bound and keeps the name of a moved one.
pub const TOMBSTONE_LABEL: &str = "migration.aqua.io/tombstone";

/// Annotation of a destination PersistentVolume: the UID of the source one.
pub const SOURCE_PV_UID: &str = "migration.aqua.io/source-pv-uid";
/// Annotation of a destination claim: the UID of the source one.
pub const SOURCE_PVC_UID: &str = "migration.aqua.io/source-pvc-uid";
/// Annotation of a destination PersistentVolume or claim: the id of the disk in EC2.
pub const VOLUME_ID: &str = "migration.aqua.io/volume-id";
/// Annotation of a destination StatefulSet: `<namespace>/<name>` of the source one.
pub const MIGRATED_FROM: &str = "migration.aqua.io/migrated-from";
/// Annotation of all that a run made or changed, and tag of its snapshots: the id of the run.
pub const RUN: &str = "migration.aqua.io/run";
/// Annotation of all that a run made at the destination: `spec.migrationId`.
pub const MIGRATION_ID: &str = "migration.aqua.io/migration-id";
/// Annotation of a source PersistentVolume that was kept: `<dest cluster UID>/<namespace>/<claim>`.
pub const MOVED_TO: &str = "migration.aqua.io/moved-to";
/// Tag of a snapshot: the ordinal.
pub const ORDINAL_TAG: &str = "migration.aqua.io/ordinal";
/// Tag of a snapshot: the claim.
pub const CLAIM_TAG: &str = "migration.aqua.io/claim";

/// How the names of locks and captures begin: `stsm-<sts>` and `stsm-<sts>-<first 8 of the run's id>`.
pub const RECORD_PREFIX: &str = "stsm-";
/// How the volume names of tombstones begin: `fenced-<first 8 of the run's id>-<ordinal>`. None exists.
pub const FENCED_PREFIX: &str = "fenced-";
/// The key of a kubeconfig in its Secret, if the spec names none.
pub const KUBECONFIG_KEY: &str = "kubeconfig";

/// Tag of a disk: the cluster whose EBS driver may use it.
pub const EBS_CLUSTER_NAME_TAG: &str = "ebs.csi.aws.com/cluster-name";
/// Tag `true` of a disk that an EBS driver may use.
pub const EBS_CLUSTER_TAG: &str = "ebs.csi.aws.com/cluster";
/// How the tag begins that names a cluster in its key.
pub const KUBERNETES_CLUSTER_TAG_PREFIX: &str = "kubernetes.io/cluster/";
/// Tag of a disk that was made for a claim: the claim's name.
pub const CREATED_FOR_PVC_TAG: &str = "kubernetes.io/created-for/pvc/name";
/// The finalizer of a provisioner that would delete the disk of a PersistentVolume.
pub const PROVISIONER_FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";

/// The namespace of the Lease by which aqua-service-controller elects its leader.
pub const LEGACY_LEASE_NAMESPACE: &str = "aqua-system";
/// The Lease by which aqua-service-controller elects its leader.
pub const LEGACY_LEASE: &str = "aqua-service-controller.aqua.io";

/// How many steps of the plan a status lists.
pub const PLAN_CAP: usize = 200;
