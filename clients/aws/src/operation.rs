//! The operations of AWS that we use: names for IAM and metrics, and the limit of each.

use std::fmt;

use crate::limiter::{Limit, RateRange};

/// A service of AWS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Service {
    /// CloudFront.
    CloudFront,
    /// Route 53.
    Route53,
    /// Certificate Manager.
    Acm,
    /// Security Token Service.
    Sts,
    /// DynamoDB.
    DynamoDb,
}

impl Service {
    /// The service as IAM writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CloudFront => "cloudfront",
            Self::Route53 => "route53",
            Self::Acm => "acm",
            Self::Sts => "sts",
            Self::DynamoDb => "dynamodb",
        }
    }
}

/// Every call this crate can make, named as in AWS's reference. Prints as IAM writes it:
/// `cloudfront:CreateDistributionTenant`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(
    missing_docs,
    reason = "each is AWS's own name for what it does, and documented there"
)]
pub enum Operation {
    CreateDistributionTenant,
    GetDistributionTenant,
    GetDistributionTenantByDomain,
    UpdateDistributionTenant,
    DeleteDistributionTenant,
    ListDistributionTenants,
    CreateConnectionGroup,
    GetConnectionGroup,
    UpdateConnectionGroup,
    DeleteConnectionGroup,
    ListConnectionGroups,
    GetManagedCertificateDetails,
    GetDistribution,
    CreateInvalidationForDistributionTenant,
    GetInvalidationForDistributionTenant,
    ListDomainConflicts,
    VerifyDnsConfiguration,
    TagResource,
    UntagResource,
    ListTagsForResource,
    ChangeResourceRecordSets,
    ListResourceRecordSets,
    GetChange,
    GetHostedZone,
    ListHostedZones,
    DescribeCertificate,
    GetCallerIdentity,
    AssumeRole,
    AssumeRoleWithWebIdentity,
    Scan,
}

/// Whether a call changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

impl Operation {
    /// Its service, whether it changes anything, and its metric label: CloudFront's names are
    /// plain, those of other services have a prefix.
    fn row(self) -> (Service, Access, &'static str) {
        use Access::{Read, Write};
        use Service::{Acm, CloudFront, DynamoDb, Route53, Sts};
        match self {
            Self::CreateDistributionTenant => (CloudFront, Write, "CreateDistributionTenant"),
            Self::GetDistributionTenant => (CloudFront, Read, "GetDistributionTenant"),
            Self::GetDistributionTenantByDomain => {
                (CloudFront, Read, "GetDistributionTenantByDomain")
            }
            Self::UpdateDistributionTenant => (CloudFront, Write, "UpdateDistributionTenant"),
            Self::DeleteDistributionTenant => (CloudFront, Write, "DeleteDistributionTenant"),
            Self::ListDistributionTenants => (CloudFront, Read, "ListDistributionTenants"),
            Self::CreateConnectionGroup => (CloudFront, Write, "CreateConnectionGroup"),
            Self::GetConnectionGroup => (CloudFront, Read, "GetConnectionGroup"),
            Self::UpdateConnectionGroup => (CloudFront, Write, "UpdateConnectionGroup"),
            Self::DeleteConnectionGroup => (CloudFront, Write, "DeleteConnectionGroup"),
            Self::ListConnectionGroups => (CloudFront, Read, "ListConnectionGroups"),
            Self::GetManagedCertificateDetails => {
                (CloudFront, Read, "GetManagedCertificateDetails")
            }
            Self::GetDistribution => (CloudFront, Read, "GetDistribution"),
            Self::CreateInvalidationForDistributionTenant => {
                (CloudFront, Write, "CreateInvalidationForDistributionTenant")
            }
            Self::GetInvalidationForDistributionTenant => {
                (CloudFront, Read, "GetInvalidationForDistributionTenant")
            }
            Self::ListDomainConflicts => (CloudFront, Read, "ListDomainConflicts"),
            Self::VerifyDnsConfiguration => (CloudFront, Read, "VerifyDnsConfiguration"),
            Self::TagResource => (CloudFront, Write, "TagResource"),
            Self::UntagResource => (CloudFront, Write, "UntagResource"),
            Self::ListTagsForResource => (CloudFront, Read, "ListTagsForResource"),
            Self::ChangeResourceRecordSets => (Route53, Write, "Route53ChangeResourceRecordSets"),
            Self::ListResourceRecordSets => (Route53, Read, "Route53ListResourceRecordSets"),
            Self::GetChange => (Route53, Read, "Route53GetChange"),
            Self::GetHostedZone => (Route53, Read, "Route53GetHostedZone"),
            Self::ListHostedZones => (Route53, Read, "Route53ListHostedZones"),
            Self::DescribeCertificate => (Acm, Read, "ACMDescribeCertificate"),
            Self::GetCallerIdentity => (Sts, Read, "STSGetCallerIdentity"),
            Self::AssumeRole => (Sts, Read, "STSAssumeRole"),
            Self::AssumeRoleWithWebIdentity => (Sts, Read, "STSAssumeRoleWithWebIdentity"),
            Self::Scan => (DynamoDb, Read, "DynamoDBScan"),
        }
    }

    /// The service it belongs to.
    pub fn service(self) -> Service {
        self.row().0
    }

    /// Whether it changes anything in AWS.
    pub fn writes(self) -> bool {
        self.row().1 == Access::Write
    }

    /// Its label in metrics.
    pub fn label(self) -> &'static str {
        self.row().2
    }

    /// Its name in AWS's reference.
    pub fn name(self) -> &'static str {
        let prefix = match self.service() {
            Service::CloudFront => "",
            Service::Route53 => "Route53",
            Service::Acm => "ACM",
            Service::Sts => "STS",
            Service::DynamoDb => "DynamoDB",
        };
        let label = self.label();
        label.strip_prefix(prefix).unwrap_or(label)
    }

    /// The limit that applies to it.
    pub(crate) fn limit(self) -> Limit {
        let (label, rates) = match self {
            Self::CreateInvalidationForDistributionTenant => {
                ("cloudfront/invalidations", RateRange::new(0.5, 0.05, 0.5))
            }
            Self::ChangeResourceRecordSets => ("route53/ChangeResourceRecordSets", ROUTE53),
            Self::ListResourceRecordSets => ("route53/ListResourceRecordSets", ROUTE53),
            Self::GetChange => ("route53/GetChange", ROUTE53),
            Self::GetHostedZone => ("route53/GetHostedZone", ROUTE53),
            Self::ListHostedZones => ("route53/ListHostedZones", ROUTE53),
            Self::DescribeCertificate => ("acm", RateRange::new(5.0, 0.2, 10.0)),
            Self::GetCallerIdentity | Self::AssumeRole | Self::AssumeRoleWithWebIdentity => {
                ("sts", RateRange::new(10.0, 0.2, 50.0))
            }
            Self::Scan => ("dynamodb", RateRange::new(10.0, 0.2, 50.0)),
            Self::CreateDistributionTenant
            | Self::GetDistributionTenant
            | Self::GetDistributionTenantByDomain
            | Self::UpdateDistributionTenant
            | Self::DeleteDistributionTenant
            | Self::ListDistributionTenants
            | Self::CreateConnectionGroup
            | Self::GetConnectionGroup
            | Self::UpdateConnectionGroup
            | Self::DeleteConnectionGroup
            | Self::ListConnectionGroups
            | Self::GetManagedCertificateDetails
            | Self::GetDistribution
            | Self::GetInvalidationForDistributionTenant
            | Self::ListDomainConflicts
            | Self::VerifyDnsConfiguration
            | Self::TagResource
            | Self::UntagResource
            | Self::ListTagsForResource => ("cloudfront", RateRange::new(5.0, 0.2, 20.0)),
        };
        Limit { label, rates }
    }
}

/// Route 53 limits each action separately.
const ROUTE53: RateRange = RateRange::new(8.0, 0.2, 10.0);

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.service().as_str(), self.name())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::cloudfront(
        Operation::CreateDistributionTenant,
        "cloudfront:CreateDistributionTenant",
        "CreateDistributionTenant"
    )]
    #[case::route53(
        Operation::ChangeResourceRecordSets,
        "route53:ChangeResourceRecordSets",
        "Route53ChangeResourceRecordSets"
    )]
    #[case::acm(
        Operation::DescribeCertificate,
        "acm:DescribeCertificate",
        "ACMDescribeCertificate"
    )]
    #[case::sts(Operation::AssumeRole, "sts:AssumeRole", "STSAssumeRole")]
    #[case::dynamodb(Operation::Scan, "dynamodb:Scan", "DynamoDBScan")]
    fn an_operation_has_its_iam_name_and_a_label(
        #[case] operation: Operation,
        #[case] name: &str,
        #[case] label: &str,
    ) {
        assert_eq!(operation.to_string(), name);
        assert_eq!(operation.label(), label);
    }

    #[test]
    fn route53_is_limited_by_action_and_cloudfront_as_a_whole() {
        assert_ne!(
            Operation::GetChange.limit().label,
            Operation::ChangeResourceRecordSets.limit().label
        );
        assert_eq!(
            Operation::GetDistribution.limit().label,
            Operation::DeleteConnectionGroup.limit().label
        );
    }
}
