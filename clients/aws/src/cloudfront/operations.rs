//! What is called in CloudFront, how fast, and what its error codes mean.

use crate::limiter::{Limit, RateRange};
use crate::operation::{ServiceRow, operations};
use crate::wire::Hosts;
use crate::{Fault, Service};

impl Service {
    /// CloudFront.
    #[allow(non_upper_case_globals, reason = "it is AWS's own name")]
    pub const CloudFront: Self = Self(&ServiceRow {
        name: "cloudfront",
        id: "CloudFront",
        signing: "cloudfront",
        hosts: Hosts::Global {
            aws: ("cloudfront.amazonaws.com", "us-east-1"),
            china: Some((
                "cloudfront.cn-northwest-1.amazonaws.com.cn",
                "cn-northwest-1",
            )),
            gov: None,
        },
        region: Some("us-east-1"),
        fault,
    });
}

const ALL: Limit = Limit {
    label: "cloudfront",
    rates: RateRange::new(5.0, 0.2, 20.0),
};
const INVALIDATIONS: Limit = Limit {
    label: "cloudfront/invalidations",
    rates: RateRange::new(0.5, 0.05, 0.5),
};

operations! { CloudFront "":
    Write CreateDistributionTenant ALL;
    Read GetDistributionTenant ALL;
    Read GetDistributionTenantByDomain ALL;
    Write UpdateDistributionTenant ALL;
    Write DeleteDistributionTenant ALL;
    Read ListDistributionTenants ALL;
    Write CreateConnectionGroup ALL;
    Read GetConnectionGroup ALL;
    Write UpdateConnectionGroup ALL;
    Write DeleteConnectionGroup ALL;
    Read ListConnectionGroups ALL;
    Read GetManagedCertificateDetails ALL;
    Read GetDistribution ALL;
    Write CreateInvalidationForDistributionTenant INVALIDATIONS;
    Read GetInvalidationForDistributionTenant ALL;
    Read ListDomainConflicts ALL;
    Read VerifyDnsConfiguration ALL;
    Write TagResource ALL;
    Write UntagResource ALL;
    Read ListTagsForResource ALL;
}

fn fault(code: &str, message: &str) -> Option<Fault> {
    Some(match code {
        "CNAMEAlreadyExists" => Fault::DomainTaken,
        "EntityAlreadyExists" => Fault::NameTaken,
        "InvalidArgument" if is_about_ownership(message) => Fault::OwnershipUnverified,
        "InvalidArgument" | "InvalidAssociation" | "InvalidTagging" | "IllegalUpdate"
        | "BatchTooLarge" => Fault::InvalidSpec,
        "NoSuchDistribution" => Fault::DistributionMissing,
        "EntityNotFound" => Fault::EntityMissing,
        "NoSuchInvalidation" | "NoSuchResource" => Fault::OtherMissing,
        "EntityLimitExceeded" | "TooManyInvalidationsInProgress" => Fault::LimitExceeded,
        "PreconditionFailed" | "InvalidIfMatchVersion" => Fault::Stale,
        "ResourceNotDisabled" => Fault::NotDisabled,
        "ResourceInUse" | "CannotDeleteEntityWhileInUse" => Fault::InUse,
        _ => return None,
    })
}

/// CloudFront has no code for this; its message is "Could not verify Domain Name ownership".
fn is_about_ownership(message: &str) -> bool {
    let text = message.to_lowercase();
    text.contains("verify") && text.contains("ownership")
}
