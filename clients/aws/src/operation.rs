//! The form of a service's table of operations. Each service's own file has the table.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::limiter::Limit;
use crate::wire::Hosts;
use crate::{Fault, acm, cloudfront, dynamodb, ec2, route53, sts};

/// A service of AWS.
#[derive(Clone, Copy)]
pub struct Service(pub(crate) &'static ServiceRow);

/// What is to know about a service.
pub(crate) struct ServiceRow {
    /// As IAM writes it.
    pub(crate) name: &'static str,
    /// As AWS's configuration names it: `AWS_ENDPOINT_URL_<id>`.
    pub(crate) id: &'static str,
    /// As signatures name it.
    pub(crate) signing: &'static str,
    /// Where it answers.
    pub(crate) hosts: Hosts,
    /// The region of calls that name no other: us-east-1 for global services, and for ACM, whose
    /// certificates CloudFront reads there; `None` is the region of the process.
    pub(crate) region: Option<&'static str>,
    /// The meaning of its own error codes, by code and message. `None` for codes that several
    /// services have.
    pub(crate) fault: fn(&str, &str) -> Option<Fault>,
}

impl Service {
    /// The service as IAM writes it.
    pub fn as_str(self) -> &'static str {
        self.0.name
    }
}

impl PartialEq for Service {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Service {}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

/// A call that this crate can make. The constants are named as in AWS's reference, and each is in
/// the file of its service. Prints as IAM writes it: `cloudfront:CreateDistributionTenant`.
#[derive(Clone, Copy)]
pub struct Operation(pub(crate) &'static OperationRow);

/// A row of a service's table.
pub(crate) struct OperationRow {
    pub(crate) service: Service,
    /// Its name in AWS's reference.
    pub(crate) name: &'static str,
    pub(crate) access: Access,
    /// Its label in metrics.
    pub(crate) label: &'static str,
    pub(crate) limit: Limit,
}

/// Whether a call changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Declares the operations of a service: their constants, and `OPERATIONS`, the list of all. The
/// metric labels of CloudFront's operations are plain, those of other services have a prefix.
macro_rules! operations {
    ($service:ident $prefix:literal: $($access:ident $name:ident $limit:expr;)*) => {
        #[allow(
            non_upper_case_globals,
            missing_docs,
            reason = "each is AWS's own name for what it does, and documented there"
        )]
        impl $crate::Operation {
            $(
                pub const $name: Self = Self(&$crate::operation::OperationRow {
                    service: $crate::Service::$service,
                    name: stringify!($name),
                    access: $crate::operation::Access::$access,
                    label: concat!($prefix, stringify!($name)),
                    limit: $limit,
                });
            )*
        }

        /// All operations of the service.
        pub(crate) const OPERATIONS: &[$crate::Operation] = &[$($crate::Operation::$name),*];
    };
}
pub(crate) use operations;

impl Operation {
    /// All operations of all services.
    pub fn all() -> impl Iterator<Item = Self> {
        let services = [
            cloudfront::OPERATIONS,
            route53::OPERATIONS,
            acm::OPERATIONS,
            sts::OPERATIONS,
            dynamodb::OPERATIONS,
            ec2::OPERATIONS,
        ];
        services.into_iter().flatten().copied()
    }

    /// The service it belongs to.
    pub fn service(self) -> Service {
        self.0.service
    }

    /// Whether it changes anything in AWS.
    pub fn writes(self) -> bool {
        self.0.access == Access::Write
    }

    /// Its label in metrics.
    pub fn label(self) -> &'static str {
        self.0.label
    }

    /// Its name in AWS's reference.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// The limit that applies to it.
    pub(crate) fn limit(self) -> Limit {
        self.0.limit
    }
}

impl PartialEq for Operation {
    fn eq(&self, other: &Self) -> bool {
        (self.service(), self.name()) == (other.service(), other.name())
    }
}

impl Eq for Operation {}

impl Hash for Operation {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.service().as_str(), self.name()).hash(state);
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.service().as_str(), self.name())
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

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
    #[case::ec2(
        Operation::DescribeVolumes,
        "ec2:DescribeVolumes",
        "EC2DescribeVolumes"
    )]
    fn an_operation_has_its_iam_name_and_a_label(
        #[case] operation: Operation,
        #[case] name: &str,
        #[case] label: &str,
    ) {
        assert_eq!(operation.to_string(), name);
        assert_eq!(operation.label(), label);
    }

    #[test]
    fn no_two_operations_share_a_name_or_a_label() {
        let names: HashSet<String> = Operation::all().map(|one| one.to_string()).collect();
        let labels: HashSet<&str> = Operation::all().map(Operation::label).collect();
        let all = Operation::all().count();
        assert_eq!((names.len(), labels.len()), (all, all));
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
