//! What is accepted, and what is filled in.

use assert_json_diff::assert_json_eq;
use rstest::rstest;
use serde_json::{Value, json};
use testkit::Result;

use super::server::{GROUP, INVALIDATION, POLICY, SOURCE, TENANT, merge, offered, spec};

#[rstest]
#[case::many_domains(TENANT, json!({"domains": vec![json!({"domain": "a.example.com"}); 500]}))]
#[case::domains_of_every_form(TENANT, json!({"domains": [
    {"domain": "A.Example.COM"}, {"domain": "a.example.com."}, {"domain": "*.example.com"}, {"domain": "_dmarc.a-b.example.com"},
    {"domain": "example.com"}, {"domain": format!("{}{}", format!("{}.", "a".repeat(59)).repeat(4), "b".repeat(14))},
]}))]
#[case::primary_in_another_case(TENANT, primary("A.EXAMPLE.com"))]
#[case::primary_with_final_dot(TENANT, primary("a.example.com."))]
#[case::empty_group_id_beside_a_reference(TENANT, json!({"connectionGroupId": "", "connectionGroupRef": {"name": "edge"}}))]
#[case::fifty_parameters(TENANT, json!({"parameters": (0..50).map(|n| json!({"name": format!("p-{n}_"), "value": "v"})).collect::<Vec<_>>()}))]
#[case::nothing_customized(TENANT, json!({"customizations": {}}))]
#[case::disabled_acl_with_arn(TENANT, json!({"customizations": {"webAcl": {"action": "disable", "arn": "a"}}}))]
#[case::no_restriction(TENANT, json!({"customizations": {"geoRestrictions": {"restrictionType": "none"}}}))]
#[case::no_restriction_of_nothing(TENANT, json!({"customizations": {"geoRestrictions": {"restrictionType": "none", "locations": []}}}))]
#[case::forty_eight_tags(TENANT, json!({"tags": (0..48).map(|n| json!({"key": n.to_string(), "value": ""})).collect::<Vec<_>>()}))]
#[case::tag_without_value(TENANT, json!({"tags": [{"key": "awsome"}, {"key": "x/pontoon.io/"}]}))]
#[case::zone_with_prefix(TENANT, json!({"dns": {"provider": "route53", "hostedZoneId": "/hostedzone/Z1"}}))]
#[case::several_zones(TENANT, json!({"dns": {"provider": "route53", "hostedZoneIds": ["Z1", "/hostedzone/Z2"]}}))]
#[case::zones_to_discover(TENANT, json!({"dns": {"provider": "route53", "discoverZones": true}}))]
#[case::dns_by_hand(TENANT, json!({"dns": {"provider": "none"}}))]
#[case::role_of_another_partition(TENANT, json!({"dns": {"provider": "none", "assumeRoleArn": "arn:aws-us-gov:iam::111122223333:role/a/b+c@d"}}))]
#[case::longest_ttl(TENANT, json!({"dns": {"provider": "none", "ttl": 172_800}}))]
#[case::shortest_tenant_name(TENANT, json!({"tenantName": "A.1"}))]
#[case::postgres(SOURCE, json!({"provider": "postgres", "postgres": {"connectionSecretRef": {"name": "db"}, "query": "SELECT 1"}}))]
#[case::dynamodb(SOURCE, json!({"provider": "dynamodb", "dynamodb": {"tableName": "t"}}))]
#[case::shortest_interval(SOURCE, json!({"pollInterval": "30s"}))]
#[case::interval_in_small_units(SOURCE, json!({"pollInterval": "45000.5ms1\u{b5}s"}))]
#[case::interval_of_years(SOURCE, json!({"pollInterval": "99999h99999h99999h9999999m9999999m9999999s"}))]
#[case::interval_as_go_prints_it(SOURCE, json!({"pollInterval": "1h0m0s"}))]
#[case::template_without_primary_domain(SOURCE, json!({"template": {"managedCertificateRequest": {"validationTokenHost": "cloudfront"}}}))]
#[case::nothing_pruned_unasked(SOURCE, json!({"prune": {"enabled": true, "maxDeletePercent": 0}}))]
#[case::group_by_its_own_name(GROUP, json!({}))]
#[case::three_thousand_paths(INVALIDATION, json!({"paths": vec!["/index.html"; 3000]}))]
#[case::gone_at_once(INVALIDATION, json!({"ttlSecondsAfterFinished": 0}))]
#[case::policy_by_label(POLICY, json!({"namespaces": null, "namespaceSelector": {"matchLabels": {"a": "b"}}}))]
#[case::policy_that_allows_any(POLICY, json!({"distributions": ["*"], "hostedZones": ["*"], "roles": [{"arn": "*"}], "dynamodbTables": ["*"]}))]
#[case::policy_that_allows_no_group(POLICY, json!({"connectionGroups": [], "domains": []}))]
#[tokio::test]
async fn is_accepted(#[case] kind: &str, #[case] change: Value) -> Result<()> {
    let offer = spec(kind, &change);
    let stored = offered(kind, &offer).await?.expect("accepted");
    let mut completed = stored.clone();
    merge(&mut completed, &offer);
    assert_json_eq!(completed, stored); // what was given is there: no field is unknown
    Ok(())
}

fn primary(name: &str) -> Value {
    json!({"managedCertificateRequest": {"validationTokenHost": "self-hosted", "primaryDomainName": name}})
}

#[rstest]
#[case::tenant(TENANT, json!({}), json!({"enabled": true, "deletionPolicy": "Delete"}))]
#[case::dns(TENANT, json!({"dns": {"provider": "route53", "hostedZoneId": "Z1"}}), json!({
    "enabled": true, "deletionPolicy": "Delete",
    "dns": {"ttl": 300, "discoverZones": false, "aliasPolicy": "ApexOnly", "recordAdoption": "Never"},
}))]
#[case::source(SOURCE, json!({"prune": {}, "dynamodb": {"tableName": "t"}, "template": {}}), json!({
    "pollInterval": "5m", "dryRun": false, "maxRows": 20_000, "suspend": false,
    "configMap": {"key": "tenants.csv"}, "dynamodb": {"nameAttribute": "name", "domainAttribute": "domain"},
    "prune": {"enabled": false, "maxDeletePercent": 10, "confirmPolls": 2},
}))]
#[case::group(GROUP, json!({}), json!({"ipv6Enabled": true, "enabled": true, "deletionPolicy": "Delete"}))]
#[case::invalidation(INVALIDATION, json!({}), json!({"ttlSecondsAfterFinished": 3600}))]
#[case::policy(POLICY, json!({}), json!({"adoption": false}))]
#[tokio::test]
async fn gets_exactly_these_defaults(
    #[case] kind: &str,
    #[case] change: Value,
    #[case] defaults: Value,
) -> Result<()> {
    let offer = spec(kind, &change);
    let stored = offered(kind, &offer).await?.expect("accepted");
    let mut expected = offer;
    merge(&mut expected, &defaults);
    assert_json_eq!(stored, expected);
    Ok(())
}
