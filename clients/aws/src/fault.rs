//! The meaning of AWS's error codes. No other module interprets a code.

use kernel::{CallError, Class};

use crate::Service;

/// What went wrong, as fine as any caller needs it.
///
/// # When not to use it
/// Where [`Class`] is enough: it is coarser, and the same for all external services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Another resource has the domain: `CNAMEAlreadyExists`.
    DomainTaken,
    /// The name is taken: `EntityAlreadyExists`.
    NameTaken,
    /// Our policy does not allow the operation: `AccessDenied`.
    Denied,
    /// There are no credentials, or AWS does not accept them, also after they were fetched again.
    Credentials,
    /// CloudFront could not verify that a domain is ours: an `InvalidArgument` with such a message.
    /// With a certificate that CloudFront validates, this ends when the DNS records exist.
    OwnershipUnverified,
    /// The requested configuration is not valid.
    InvalidSpec,
    /// There is no such distribution: `NoSuchDistribution`.
    DistributionMissing,
    /// There is no such tenant, group, or parent of one: `EntityNotFound`.
    EntityMissing,
    /// There is no such hosted zone.
    ZoneMissing,
    /// Route 53 no longer has the change: `NoSuchChange`.
    ChangeMissing,
    /// There is no such certificate, table, invalidation, or resource to tag.
    OtherMissing,
    /// A quota is used up.
    LimitExceeded,
    /// The resource changed since it was read.
    Stale,
    /// The resource is not disabled and deployed yet: `ResourceNotDisabled`.
    NotDisabled,
    /// Other resources use it.
    InUse,
    /// Too many calls.
    Throttled,
    /// The zone's last batch has not finished: `PriorRequestNotComplete`. This delays the zone, not
    /// the account.
    ZoneBusy,
    /// Route 53 refuses the records: `InvalidInput`, `InvalidChangeBatch`.
    InvalidRecords,
    /// Any other refusal.
    Refused,
    /// AWS failed or did not answer; a transient error.
    Passing,
    /// We are no longer the leader and may not write.
    Deposed,
}

impl Fault {
    /// The fault of a refusal by `service` with this status, code and message.
    pub(crate) fn of(service: Service, status: u16, code: &str, message: &str) -> Self {
        match code {
            "CNAMEAlreadyExists" => Self::DomainTaken,
            "EntityAlreadyExists" => Self::NameTaken,
            "AccessDenied" | "AccessDeniedException" => Self::Denied,
            "ExpiredToken"
            | "ExpiredTokenException"
            | "InvalidAccessKeyId"
            | "InvalidClientTokenId"
            | "InvalidIdentityToken"
            | "InvalidSignatureException"
            | "InvalidToken"
            | "MissingAuthenticationToken"
            | "MissingAuthenticationTokenException"
            | "RequestExpired"
            | "RequestTimeTooSkewed"
            | "SignatureDoesNotMatch"
            | "TokenRefreshRequired"
            | "UnrecognizedClientException" => Self::Credentials,
            "InvalidArgument" if is_about_ownership(message) => Self::OwnershipUnverified,
            "InvalidArgument" | "InvalidAssociation" | "InvalidTagging" | "IllegalUpdate"
            | "BatchTooLarge" => Self::InvalidSpec,
            "NoSuchDistribution" => Self::DistributionMissing,
            "EntityNotFound" => Self::EntityMissing,
            "NoSuchHostedZone" | "HostedZoneNotFound" => Self::ZoneMissing,
            "NoSuchChange" => Self::ChangeMissing,
            "NoSuchInvalidation" | "NoSuchResource" | "ResourceNotFoundException" => {
                Self::OtherMissing
            }
            "EntityLimitExceeded" | "TooManyInvalidationsInProgress" => Self::LimitExceeded,
            "PreconditionFailed" | "InvalidIfMatchVersion" => Self::Stale,
            "ResourceNotDisabled" => Self::NotDisabled,
            "ResourceInUse" | "CannotDeleteEntityWhileInUse" => Self::InUse,
            "PriorRequestNotComplete" => Self::ZoneBusy,
            "Throttling"
            | "ThrottlingException"
            | "TooManyRequests"
            | "TooManyRequestsException"
            | "RequestLimitExceeded"
            | "ProvisionedThroughputExceededException"
            | "SlowDown" => Self::Throttled,
            "InvalidInput" | "InvalidChangeBatch" if service == Service::Route53 => {
                Self::InvalidRecords
            }
            "RequestTimeout" | "RequestTimeoutException" => Self::Passing,
            _ => match status {
                429 => Self::Throttled,
                400..500 => Self::Refused,
                // A redirect or a server error is not AWS's refusal: it may be transient.
                _ => Self::Passing,
            },
        }
    }

    /// The fault of a failed call to `service`, by its code; without a code, by its class.
    pub fn of_call(service: Service, error: &CallError) -> Self {
        if let Some(code) = &error.code {
            let status = match error.class {
                Class::Throttled => 429,
                Class::Transient | Class::Unreachable => 500,
                Class::NotFound
                | Class::AlreadyExists
                | Class::Conflict
                | Class::Stale
                | Class::Denied
                | Class::Invalid
                | Class::LimitExceeded
                | Class::Sealed
                | Class::Deposed => 400,
            };
            return Self::of(service, status, code, &error.message);
        }
        match error.class {
            Class::Throttled => Self::Throttled,
            Class::Transient | Class::Unreachable | Class::Sealed => Self::Passing,
            Class::NotFound => Self::OtherMissing,
            Class::AlreadyExists => Self::NameTaken,
            Class::Conflict => Self::InUse,
            Class::Stale => Self::Stale,
            Class::Denied => Self::Credentials,
            Class::Invalid => Self::InvalidSpec,
            Class::LimitExceeded => Self::LimitExceeded,
            Class::Deposed => Self::Deposed,
        }
    }

    /// Its class.
    pub fn class(self) -> Class {
        match self {
            Self::DomainTaken | Self::NameTaken => Class::AlreadyExists,
            Self::Denied | Self::Credentials => Class::Denied,
            Self::OwnershipUnverified
            | Self::InvalidSpec
            | Self::InvalidRecords
            | Self::Refused => Class::Invalid,
            Self::DistributionMissing
            | Self::EntityMissing
            | Self::ZoneMissing
            | Self::ChangeMissing
            | Self::OtherMissing => Class::NotFound,
            Self::LimitExceeded => Class::LimitExceeded,
            Self::Stale => Class::Stale,
            Self::NotDisabled | Self::InUse => Class::Conflict,
            Self::Throttled | Self::ZoneBusy => Class::Throttled,
            Self::Passing => Class::Transient,
            Self::Deposed => Class::Deposed,
        }
    }
}

/// CloudFront has no code for this; its message is "Could not verify Domain Name ownership".
fn is_about_ownership(message: &str) -> bool {
    let text = message.to_lowercase();
    text.contains("verify") && text.contains("ownership")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::Service::{CloudFront, DynamoDb, Route53};

    #[rstest]
    #[case(CloudFront, 409, "CNAMEAlreadyExists", Fault::DomainTaken)]
    #[case(CloudFront, 409, "EntityAlreadyExists", Fault::NameTaken)]
    #[case(CloudFront, 403, "AccessDenied", Fault::Denied)]
    #[case(DynamoDb, 400, "AccessDeniedException", Fault::Denied)]
    #[case(CloudFront, 403, "ExpiredToken", Fault::Credentials)]
    #[case(DynamoDb, 400, "UnrecognizedClientException", Fault::Credentials)]
    #[case(CloudFront, 400, "InvalidArgument", Fault::InvalidSpec)]
    #[case(CloudFront, 409, "InvalidAssociation", Fault::InvalidSpec)]
    #[case(CloudFront, 400, "InvalidTagging", Fault::InvalidSpec)]
    #[case(CloudFront, 400, "IllegalUpdate", Fault::InvalidSpec)]
    #[case(CloudFront, 413, "BatchTooLarge", Fault::InvalidSpec)]
    #[case(CloudFront, 404, "NoSuchDistribution", Fault::DistributionMissing)]
    #[case(CloudFront, 404, "EntityNotFound", Fault::EntityMissing)]
    #[case(CloudFront, 404, "NoSuchResource", Fault::OtherMissing)]
    #[case(CloudFront, 400, "EntityLimitExceeded", Fault::LimitExceeded)]
    #[case(
        CloudFront,
        400,
        "TooManyInvalidationsInProgress",
        Fault::LimitExceeded
    )]
    #[case(CloudFront, 412, "PreconditionFailed", Fault::Stale)]
    #[case(CloudFront, 400, "InvalidIfMatchVersion", Fault::Stale)]
    #[case(CloudFront, 409, "ResourceNotDisabled", Fault::NotDisabled)]
    #[case(CloudFront, 409, "ResourceInUse", Fault::InUse)]
    #[case(CloudFront, 409, "CannotDeleteEntityWhileInUse", Fault::InUse)]
    #[case(CloudFront, 400, "Throttling", Fault::Throttled)]
    #[case(DynamoDb, 400, "ThrottlingException", Fault::Throttled)]
    #[case(CloudFront, 400, "TooManyRequests", Fault::Throttled)]
    #[case(CloudFront, 400, "TooManyRequestsException", Fault::Throttled)]
    #[case(CloudFront, 503, "RequestLimitExceeded", Fault::Throttled)]
    #[case(CloudFront, 503, "SlowDown", Fault::Throttled)]
    #[case(CloudFront, 429, "", Fault::Throttled)]
    #[case(CloudFront, 400, "SomethingNew", Fault::Refused)]
    #[case(CloudFront, 404, "", Fault::Refused)]
    #[case(CloudFront, 500, "InternalError", Fault::Passing)]
    #[case(CloudFront, 503, "", Fault::Passing)]
    #[case(CloudFront, 301, "", Fault::Passing)]
    #[case(Route53, 404, "NoSuchHostedZone", Fault::ZoneMissing)]
    #[case(Route53, 404, "HostedZoneNotFound", Fault::ZoneMissing)]
    #[case(Route53, 404, "NoSuchChange", Fault::ChangeMissing)]
    #[case(Route53, 400, "InvalidInput", Fault::InvalidRecords)]
    #[case(Route53, 400, "InvalidChangeBatch", Fault::InvalidRecords)]
    #[case(CloudFront, 400, "InvalidInput", Fault::Refused)]
    #[case(Route53, 400, "PriorRequestNotComplete", Fault::ZoneBusy)]
    fn a_code_is(
        #[case] service: Service,
        #[case] status: u16,
        #[case] code: &str,
        #[case] fault: Fault,
    ) {
        assert_eq!(Fault::of(service, status, code, "some text"), fault);
    }

    #[rstest]
    #[case("Could not verify Domain Name ownership", Fault::OwnershipUnverified)]
    #[case("Verify your ownership of the domain", Fault::OwnershipUnverified)]
    #[case("Could not verify the certificate", Fault::InvalidSpec)]
    #[case("The ownership is unclear", Fault::InvalidSpec)]
    fn an_invalid_argument_is_classified_by_its_text(#[case] text: &str, #[case] fault: Fault) {
        assert_eq!(Fault::of(CloudFront, 400, "InvalidArgument", text), fault);
        let elsewhere = Fault::of(CloudFront, 400, "InvalidAssociation", text);
        assert_eq!(elsewhere, Fault::InvalidSpec);
    }
}
