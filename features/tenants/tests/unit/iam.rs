//! The policies in `docs/iam` grant what the operator asks of AWS, and no more.

use std::collections::{BTreeMap, BTreeSet};

use aws::{Operation, Service};
use rstest::rstest;
use serde_json::Value;

const OWN: &str = include_str!("../../../../docs/iam/tenants.json");
const DNS_ROLE: &str = include_str!("../../../../docs/iam/tenants-dns-role.json");

/// A policy has no say in these: the first needs no leave, the second that of the role's trust.
const LEAVE_NOT_NEEDED: [Operation; 2] = [
    Operation::GetCallerIdentity,
    Operation::AssumeRoleWithWebIdentity,
];
/// Only other features call it.
const OTHER_FEATURES: Service = Service::Ec2;
/// CloudFront asks ACM in the caller's name for a certificate that it manages.
const ASKED_BY_CLOUDFRONT: &str = "acm:RequestCertificate";

/// What the predecessor needs.
const BEFORE: [&str; 13] = [
    "cloudfront:CreateDistributionTenant",
    "cloudfront:GetDistributionTenant",
    "cloudfront:UpdateDistributionTenant",
    "cloudfront:DeleteDistributionTenant",
    "cloudfront:GetDistribution",
    "cloudfront:GetManagedCertificateDetails",
    "cloudfront:GetConnectionGroup",
    "cloudfront:ListConnectionGroups",
    "acm:RequestCertificate",
    "acm:DescribeCertificate",
    "route53:ChangeResourceRecordSets",
    "route53:GetChange",
    "sts:AssumeRole",
];
/// What the contract adds.
const ADDED: [&str; 16] = [
    "cloudfront:ListDistributionTenants",
    "cloudfront:GetDistributionTenantByDomain",
    "cloudfront:TagResource",
    "cloudfront:UntagResource",
    "cloudfront:ListTagsForResource",
    "cloudfront:ListDomainConflicts",
    "cloudfront:VerifyDnsConfiguration",
    "cloudfront:CreateConnectionGroup",
    "cloudfront:UpdateConnectionGroup",
    "cloudfront:DeleteConnectionGroup",
    "cloudfront:CreateInvalidationForDistributionTenant",
    "cloudfront:GetInvalidationForDistributionTenant",
    "route53:GetHostedZone",
    "route53:ListHostedZones",
    "route53:ListResourceRecordSets",
    "dynamodb:Scan",
];

/// The texts of a member: one stands alone, several in a list.
fn texts(member: &Value) -> Vec<String> {
    let list = member.as_array().cloned();
    let list = list.unwrap_or_else(|| vec![member.clone()]).into_iter();
    list.map(|one| one.as_str().expect("it is a text").to_owned())
        .collect()
}

/// The actions that a policy grants, with the resources that each is granted for.
fn resources(policy: &str) -> BTreeMap<String, Vec<String>> {
    let policy: Value = serde_json::from_str(policy).expect("a policy is JSON");
    let statements = policy["Statement"].as_array().expect("it has statements");
    let mut granted = BTreeMap::new();
    for statement in statements {
        assert_eq!(statement["Effect"], "Allow", "{statement}");
        for action in texts(&statement["Action"]) {
            let before = granted.insert(action, texts(&statement["Resource"]));
            assert_eq!(before, None, "granted twice: {statement}");
        }
    }
    granted
}

/// The actions that a policy grants.
fn granted(policy: &str) -> BTreeSet<String> {
    resources(policy).into_keys().collect()
}

/// The actions of the calls that `wanted` picks.
fn called(wanted: impl Fn(Operation) -> bool) -> BTreeSet<String> {
    let calls = Operation::all().filter(|one| wanted(*one));
    calls.map(|one| one.to_string()).collect()
}

#[test]
fn the_policy_grants_every_call_that_is_made_and_no_other() {
    let mut needed =
        called(|one| !LEAVE_NOT_NEEDED.contains(&one) && one.service() != OTHER_FEATURES);
    needed.insert(ASKED_BY_CLOUDFRONT.to_owned());
    assert_eq!(granted(OWN), needed);
}

#[test]
fn the_policy_grants_what_the_predecessor_needs_and_what_the_contract_adds() {
    let granted = granted(OWN);
    for action in BEFORE.iter().chain(&ADDED) {
        assert!(granted.contains(*action), "{action} is not granted");
    }
}

#[rstest]
#[case::certificates(
    "acm:DescribeCertificate",
    "arn:aws:acm:us-east-1:111111111111:certificate/"
)]
#[case::zones("route53:ChangeResourceRecordSets", "arn:aws:route53:::hostedzone/")]
#[case::roles("sts:AssumeRole", "arn:aws:iam::222222222222:role/")]
fn an_action_is_granted_for_these_resources_alone(#[case] action: &str, #[case] prefix: &str) {
    let resources = &resources(OWN)[action];
    assert!(!resources.is_empty());
    for resource in resources {
        assert!(resource.starts_with(prefix), "{action} on {resource}");
    }
}

#[test]
fn the_role_for_zones_grants_route_53_alone() {
    let records = called(|one| one.service() == Service::Route53);
    assert_eq!(granted(DNS_ROLE), records);
}
