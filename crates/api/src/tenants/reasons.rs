//! Reasons of conditions: what each tells of the world.

/// CloudFront has deployed it everywhere.
pub const DEPLOYED: &str = "Deployed";
/// CloudFront made it and is deploying it for the first time.
pub const CREATING: &str = "Creating";
/// CloudFront is deploying a change.
pub const DEPLOYING: &str = "Deploying";
/// It is being deleted, and CloudFront is switching it off first.
pub const DISABLING: &str = "Disabling";
/// It is switched off and being deleted.
pub const DELETING: &str = "Deleting";

/// A domain belongs to another tenant; the message names it.
pub const DOMAIN_CONFLICT: &str = "DomainConflict";
/// Another object has the same name in CloudFront; the message names it.
pub const NAME_CONFLICT: &str = "NameConflict";
/// What AWS holds under this name is not ours; the message names the owner.
pub const NOT_OWNED: &str = "NotOwned";
/// AWS does not let us; the message names the action.
pub const ACCESS_DENIED: &str = "AccessDenied";
/// AWS, or what cannot be checked beforehand, refused the spec; an edit is needed.
pub const INVALID_SPEC: &str = "InvalidSpec";
/// AWS failed, or refused in a way we do not know.
pub const AWS_ERROR: &str = "AWSError";
/// The spec does not suit its distribution, or the name does not suit CloudFront.
pub const VALIDATION_FAILED: &str = "ValidationFailed";
/// The certificate does not cover every domain; the message names both.
pub const CERTIFICATE_SAN_MISMATCH: &str = "CertificateSANMismatch";
/// CloudFront cannot see yet that a domain is ours.
pub const DOMAIN_VALIDATION_PENDING: &str = "DomainValidationPending";
/// No TenantPolicy allows all that the object names; the message names the first refusal.
pub const POLICY_DENIED: &str = "PolicyDenied";
/// A limit of the AWS account is reached.
pub const LIMIT_EXCEEDED: &str = "LimitExceeded";
/// The tenant was deleted in AWS, and the drift policy leaves it so.
pub const EXTERNALLY_DELETED: &str = "ExternallyDeleted";
/// The ConnectionGroup it refers to is missing or not ready.
pub const DEPENDENCY_NOT_READY: &str = "DependencyNotReady";

/// AWS holds what it was given.
pub const IN_SYNC: &str = "InSync";
/// AWS took a change and is deploying it.
pub const UPDATE_PENDING: &str = "UpdatePending";
/// Others changed it in AWS; the message names the fields.
pub const DRIFT_DETECTED: &str = "DriftDetected";
/// AWS took a change and yet does not hold it; the message names the fields.
pub const UPDATE_NOT_EFFECTIVE: &str = "UpdateNotEffective";

/// No managed certificate is asked for.
pub const NOT_CONFIGURED: &str = "NotConfigured";
/// The managed certificate is attached and every domain is served with it.
pub const VALIDATED: &str = "Validated";
/// The managed certificate waits for a proof that the domains are ours; the message says which.
pub const PENDING_VALIDATION: &str = "PendingValidation";
/// The managed certificate is issued and on its way to every domain.
pub const ATTACHING: &str = "Attaching";
/// There will be no managed certificate; the message says what became of the request.
pub const CERTIFICATE_FAILED: &str = "CertificateFailed";

/// The spec leaves DNS alone.
pub const DNS_NOT_CONFIGURED: &str = "DNSNotConfigured";
/// Every record is in place on all name servers.
pub const DNS_READY: &str = "DNSReady";
/// Records are planned and on their way to Route 53.
pub const DNS_RECORD_CREATING: &str = "DNSRecordCreating";
/// Route 53 took records and is telling its name servers.
pub const DNS_PROPAGATING: &str = "DNSPropagating";
/// Route 53, its zone or the way to it refused.
pub const DNS_ERROR: &str = "DNSError";
/// A record of that name is not ours; the message names type, value and owner.
pub const DNS_CONFLICT: &str = "DNSConflict";
/// Others changed a record of ours.
pub const DNS_DRIFT: &str = "DNSDrift";
/// Records that you make are still missing; `status.requiredRecords` lists them.
pub const RECORDS_REQUIRED: &str = "RecordsRequired";

/// The group cannot be deleted while tenants use it; the message names some.
pub const IN_USE: &str = "InUse";

/// The table was read.
pub const POLLED: &str = "Polled";
/// The table could not be read, or not to its end; nothing was changed.
pub const POLL_FAILED: &str = "PollFailed";
/// Some rows are wrong and their tenants are left alone; the message names them.
pub const ROWS_INVALID: &str = "RowsInvalid";
/// Every object of the source has its row.
pub const UP_TO_DATE: &str = "UpToDate";
/// More rows are gone than may go at once; approve `status.planHash` by annotation.
pub const PRUNE_BLOCKED: &str = "PruneBlocked";
/// Rows are gone and the spec leaves their objects alone.
pub const PRUNE_DISABLED: &str = "PruneDisabled";

/// The paths are forgotten.
pub const COMPLETED: &str = "Completed";
/// CloudFront is forgetting the paths.
pub const IN_PROGRESS: &str = "InProgress";
/// The tenant does not exist in CloudFront yet.
pub const WAITING: &str = "Waiting";
/// CloudFront has too many invalidations at work; this one waits.
pub const TOO_MANY_INVALIDATIONS: &str = "TooManyInvalidations";

/// The policy is in force.
pub const ACCEPTED: &str = "Accepted";
