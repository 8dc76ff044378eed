//! What goes wrong in AWS, and the error codes that many services share. The codes of one service
//! are in its own file.

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
    /// There is no such certificate, table, invalidation, volume, snapshot, or resource to tag.
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
    /// The fault of a refusal by `service` with this status, code and message: by the service's own
    /// codes, by those that services share, else by the status.
    pub(crate) fn of(service: Service, status: u16, code: &str, message: &str) -> Self {
        if let Some(fault) = Self::of_code(service, code, message) {
            return fault;
        }
        match status {
            429 => Self::Throttled,
            400..500 => Self::Refused,
            // A redirect or a server error is not AWS's refusal: it may be transient.
            _ => Self::Passing,
        }
    }

    fn of_code(service: Service, code: &str, message: &str) -> Option<Self> {
        (service.0.fault)(code, message).or_else(|| shared(code))
    }

    /// The fault of a failed call to `service`, by its code; without a known one, by its class.
    pub fn of_call(service: Service, error: &CallError) -> Self {
        let code = error.code.as_deref();
        let by_code = code.and_then(|code| Self::of_code(service, code, &error.message));
        by_code.unwrap_or(match error.class {
            // AWS refused it; without a code, it is a request that we did not send.
            Class::Invalid if code.is_some() => Self::Refused,
            Class::Invalid => Self::InvalidSpec,
            Class::Throttled => Self::Throttled,
            Class::Transient | Class::Unreachable | Class::Sealed => Self::Passing,
            Class::NotFound => Self::OtherMissing,
            Class::AlreadyExists => Self::NameTaken,
            Class::Conflict => Self::InUse,
            Class::Stale => Self::Stale,
            Class::Denied => Self::Credentials,
            Class::LimitExceeded => Self::LimitExceeded,
            Class::Deposed => Self::Deposed,
        })
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

/// The codes that many services share.
fn shared(code: &str) -> Option<Fault> {
    Some(match code {
        "AccessDenied" | "AccessDeniedException" => Fault::Denied,
        "ExpiredToken"
        | "ExpiredTokenException"
        | "InvalidAccessKeyId"
        | "InvalidClientTokenId"
        | "InvalidSignatureException"
        | "InvalidToken"
        | "MissingAuthenticationToken"
        | "MissingAuthenticationTokenException"
        | "RequestExpired"
        | "RequestTimeTooSkewed"
        | "SignatureDoesNotMatch"
        | "TokenRefreshRequired"
        | "UnrecognizedClientException" => Fault::Credentials,
        "Throttling"
        | "ThrottlingException"
        | "TooManyRequests"
        | "TooManyRequestsException"
        | "RequestLimitExceeded"
        | "ProvisionedThroughputExceededException"
        | "SlowDown" => Fault::Throttled,
        "RequestTimeout" | "RequestTimeoutException" => Fault::Passing,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const CLOUDFRONT: Service = Service::CloudFront;
    const DYNAMODB: Service = Service::DynamoDb;
    const ROUTE53: Service = Service::Route53;
    const STS: Service = Service::Sts;

    #[rstest]
    #[case(CLOUDFRONT, 409, "CNAMEAlreadyExists", Fault::DomainTaken)]
    #[case(CLOUDFRONT, 409, "EntityAlreadyExists", Fault::NameTaken)]
    #[case(CLOUDFRONT, 403, "AccessDenied", Fault::Denied)]
    #[case(DYNAMODB, 400, "AccessDeniedException", Fault::Denied)]
    #[case(CLOUDFRONT, 403, "ExpiredToken", Fault::Credentials)]
    #[case(DYNAMODB, 400, "UnrecognizedClientException", Fault::Credentials)]
    #[case(CLOUDFRONT, 400, "InvalidArgument", Fault::InvalidSpec)]
    #[case(CLOUDFRONT, 409, "InvalidAssociation", Fault::InvalidSpec)]
    #[case(CLOUDFRONT, 400, "InvalidTagging", Fault::InvalidSpec)]
    #[case(CLOUDFRONT, 400, "IllegalUpdate", Fault::InvalidSpec)]
    #[case(CLOUDFRONT, 413, "BatchTooLarge", Fault::InvalidSpec)]
    #[case(CLOUDFRONT, 404, "NoSuchDistribution", Fault::DistributionMissing)]
    #[case(CLOUDFRONT, 404, "EntityNotFound", Fault::EntityMissing)]
    #[case(CLOUDFRONT, 404, "NoSuchResource", Fault::OtherMissing)]
    #[case(CLOUDFRONT, 400, "EntityLimitExceeded", Fault::LimitExceeded)]
    #[case(
        CLOUDFRONT,
        400,
        "TooManyInvalidationsInProgress",
        Fault::LimitExceeded
    )]
    #[case(CLOUDFRONT, 412, "PreconditionFailed", Fault::Stale)]
    #[case(CLOUDFRONT, 400, "InvalidIfMatchVersion", Fault::Stale)]
    #[case(CLOUDFRONT, 409, "ResourceNotDisabled", Fault::NotDisabled)]
    #[case(CLOUDFRONT, 409, "ResourceInUse", Fault::InUse)]
    #[case(CLOUDFRONT, 409, "CannotDeleteEntityWhileInUse", Fault::InUse)]
    #[case(CLOUDFRONT, 400, "Throttling", Fault::Throttled)]
    #[case(DYNAMODB, 400, "ThrottlingException", Fault::Throttled)]
    #[case(CLOUDFRONT, 400, "TooManyRequests", Fault::Throttled)]
    #[case(CLOUDFRONT, 400, "TooManyRequestsException", Fault::Throttled)]
    #[case(CLOUDFRONT, 503, "RequestLimitExceeded", Fault::Throttled)]
    #[case(CLOUDFRONT, 503, "SlowDown", Fault::Throttled)]
    #[case(CLOUDFRONT, 429, "", Fault::Throttled)]
    #[case(CLOUDFRONT, 400, "SomethingNew", Fault::Refused)]
    #[case(CLOUDFRONT, 404, "", Fault::Refused)]
    #[case(CLOUDFRONT, 500, "InternalError", Fault::Passing)]
    #[case(CLOUDFRONT, 503, "", Fault::Passing)]
    #[case(CLOUDFRONT, 301, "", Fault::Passing)]
    #[case(STS, 400, "InvalidIdentityToken", Fault::Credentials)]
    #[case(ROUTE53, 404, "NoSuchDistribution", Fault::Refused)]
    #[case(CLOUDFRONT, 404, "NoSuchHostedZone", Fault::Refused)]
    #[case(ROUTE53, 404, "NoSuchHostedZone", Fault::ZoneMissing)]
    #[case(ROUTE53, 404, "HostedZoneNotFound", Fault::ZoneMissing)]
    #[case(ROUTE53, 404, "NoSuchChange", Fault::ChangeMissing)]
    #[case(ROUTE53, 400, "InvalidInput", Fault::InvalidRecords)]
    #[case(ROUTE53, 400, "InvalidChangeBatch", Fault::InvalidRecords)]
    #[case(CLOUDFRONT, 400, "InvalidInput", Fault::Refused)]
    #[case(ROUTE53, 400, "PriorRequestNotComplete", Fault::ZoneBusy)]
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
        assert_eq!(Fault::of(CLOUDFRONT, 400, "InvalidArgument", text), fault);
        let elsewhere = Fault::of(CLOUDFRONT, 400, "InvalidAssociation", text);
        assert_eq!(elsewhere, Fault::InvalidSpec);
    }
}
