//! Reasons of events that are no reasons of conditions. An event about a condition is named like the
//! condition's reason, in [`super::reasons`].

/// CloudFront made it.
pub const CREATED: &str = "Created";
/// CloudFront took a change of the spec.
pub const UPDATED: &str = "Updated";
/// It is gone from CloudFront.
pub const DELETED: &str = "Deleted";
/// Its records are gone from Route 53.
pub const DNS_CLEANED: &str = "DNSCleaned";
/// The issued certificate is given to the tenant.
pub const CERTIFICATE_ATTACHING: &str = "CertificateAttaching";
/// What existed in AWS was taken over.
pub const ADOPTED: &str = "Adopted";
/// The object went and what it declared stays in AWS; the message names it.
pub const RETAINED: &str = "Retained";
/// A source made an object.
pub const TENANT_CREATED: &str = "TenantCreated";
/// A source changed an object.
pub const TENANT_UPDATED: &str = "TenantUpdated";
/// A source deleted an object.
pub const TENANT_PRUNED: &str = "TenantPruned";
/// CloudFront took an invalidation.
pub const INVALIDATION_CREATED: &str = "InvalidationCreated";

/// Warning: it was deleted in AWS by others.
pub const EXTERNAL_DELETION: &str = "ExternalDeletion";
/// Warning: others changed it in AWS, and that was undone.
pub const DRIFT_CORRECTED: &str = "DriftCorrected";
/// Warning: it belongs to another by now, so the object went without touching it.
pub const OWNERSHIP_LOST: &str = "OwnershipLost";
