use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const ROLE: &str = "arn:aws:iam::111122223333:role/dns";

fn policy(spec: Value) -> TenantPolicySpec {
    serde_json::from_value(spec).unwrap()
}

/// A policy for `web`, with `rules`.
fn for_web(rules: Value) -> TenantPolicySpec {
    let mut spec = json!({"namespaces": ["web"]});
    for (field, value) in rules.as_object().unwrap() {
        spec[field] = value.clone();
    }
    policy(spec)
}

/// E1 with a zone and a domain, in the default group.
fn named() -> Named<'static> {
    Named {
        distribution: Some("E1"),
        zones: vec!["Z1"],
        group: Some(Group {
            id: None,
            default: true,
        }),
        domains: vec!["a.example.com"],
        ..Named::default()
    }
}

fn judge(specs: &[TenantPolicySpec], named: &Named<'_>) -> Result<Leave, String> {
    let names = ["alpha", "beta", "gamma"];
    let policies = names.into_iter().zip(specs);
    let policies: Vec<_> = policies.map(|(name, spec)| Policy { name, spec }).collect();
    let labels = [("team".to_owned(), "web".to_owned())].into();
    let namespace = Namespace {
        name: "web",
        labels: &labels,
    };
    allowed(&policies, false, namespace, named).map_err(|reason| {
        assert_eq!(reason.code, "PolicyDenied");
        reason.message
    })
}

#[test]
fn without_a_policy_all_is_allowed_unless_one_is_required() {
    assert_eq!(judge(&[], &named()), Ok(Leave::default()));
    let namespace = Namespace {
        name: "web",
        labels: &BTreeMap::new(),
    };
    let denied = allowed(&[], true, namespace, &named()).unwrap_err();
    assert_eq!(denied.code, "PolicyDenied");
    assert!(denied.message.contains("distribution E1"), "{denied}");
    assert!(denied.message.contains("namespace web"), "{denied}");
}

/// All that [`named`] needs.
fn enough() -> Value {
    json!({"distributions": ["E1"], "hostedZones": ["Z1"]})
}

#[rstest]
#[case::exact_values(enough())]
#[case::any(json!({"distributions": ["*"], "hostedZones": ["*"]}))]
#[case::a_zone_with_its_prefix(json!({"distributions": ["E1"], "hostedZones": ["/hostedzone/Z1"]}))]
#[case::the_default_group(json!({"distributions": ["E1"], "hostedZones": ["Z1"], "connectionGroups": ["default"]}))]
#[case::a_domain(json!({"distributions": ["E1"], "hostedZones": ["Z1"], "domains": ["A.example.com."]}))]
#[case::domains_below(json!({"distributions": ["E1"], "hostedZones": ["Z1"], "domains": ["*.example.com"]}))]
fn a_policy_allows(#[case] rules: Value) {
    assert_eq!(judge(&[for_web(rules)], &named()), Ok(Leave::default()));
}

#[rstest]
#[case::absent_distributions(json!({"hostedZones": ["Z1"]}), "distribution E1")]
#[case::another_distribution(json!({"distributions": ["E2"], "hostedZones": ["Z1"]}), "distribution E1")]
#[case::absent_zones(json!({"distributions": ["E1"]}), "hosted zone Z1")]
#[case::an_empty_list_of_groups(json!({"distributions": ["E1"], "hostedZones": ["Z1"], "connectionGroups": []}), "connection group default")]
#[case::another_group(json!({"distributions": ["E1"], "hostedZones": ["Z1"], "connectionGroups": ["cg1"]}), "connection group default")]
#[case::another_domain(json!({"distributions": ["E1"], "hostedZones": ["Z1"], "domains": ["example.com"]}), "domain a.example.com")]
fn a_policy_refuses(#[case] rules: Value, #[case] value: &str) {
    let denied = judge(&[for_web(rules)], &named()).unwrap_err();
    assert!(
        denied.contains(value) && denied.contains("alpha"),
        "{denied}"
    );
}

#[rstest]
#[case::a_role(Named { role: Some(ROLE), ..named() }, "role arn:aws:iam::111122223333:role/dns", "have it added to roles there")]
#[case::a_second_zone(Named { zones: vec!["Z1", "Z2"], ..named() }, "hosted zone Z2", "have it added to hostedZones there")]
#[case::a_table(Named { table: Some("sites"), ..Named::default() }, "DynamoDB table sites", "have it added to dynamodbTables there")]
#[case::adoption(Named { adoption: true, ..named() }, "adoption of what is there", "have adoption allowed there")]
fn what_is_not_listed_is_refused_by_value_and_field(
    #[case] named: Named<'static>,
    #[case] value: &str,
    #[case] remedy: &str,
) {
    let denied = judge(&[for_web(enough())], &named).unwrap_err();
    assert!(denied.contains(value), "{denied}");
    assert!(denied.contains(remedy), "{denied}");
}

#[rstest]
#[case::by_id(Some("cg1"), false, &["cg1"], true)]
#[case::default_by_its_id(Some("cg0"), true, &["cg0"], true)]
#[case::default_named_by_id(Some("cg0"), true, &["default"], true)]
#[case::default_is_no_other(Some("cg1"), false, &["default"], false)]
#[case::any(Some("cg1"), false, &["*"], true)]
fn a_group_is_allowed(
    #[case] id: Option<&'static str>,
    #[case] default: bool,
    #[case] groups: &[&str],
    #[case] allowed: bool,
) {
    let mut rules = enough();
    rules["connectionGroups"] = json!(groups);
    let group = Some(Group { id, default });
    let named = Named { group, ..named() };
    assert_eq!(judge(&[for_web(rules)], &named).is_ok(), allowed);
}

#[rstest]
#[case::itself("x.com", "x.com", true)]
#[case::in_any_case("X.com", "x.COM.", true)]
#[case::not_below_it("x.com", "a.x.com", false)]
#[case::one_below("*.x.com", "a.x.com", true)]
#[case::any_depth("*.x.com", "c.b.a.x.com", true)]
#[case::a_wildcard_below("*.x.com", "*.x.com", true)]
#[case::a_deeper_wildcard("*.x.com", "*.a.x.com", true)]
#[case::not_the_parent("*.x.com", "x.com", false)]
#[case::not_a_namesake("*.x.com", "ax.com", false)]
#[case::a_wildcard_is_not_its_parent("x.com", "*.x.com", false)]
fn a_domain_is_allowed(#[case] pattern: &str, #[case] name: &'static str, #[case] is: bool) {
    let mut rules = enough();
    rules["domains"] = json!([pattern]);
    let named = Named {
        domains: vec![name],
        ..named()
    };
    assert_eq!(judge(&[for_web(rules)], &named).is_ok(), is);
}

#[test]
fn a_single_policy_has_to_allow_everything() {
    let half = for_web(json!({"distributions": ["E1"]}));
    let other_half = for_web(json!({"hostedZones": ["Z1"]}));
    assert!(judge(&[half.clone(), other_half.clone()], &named()).is_err());
    assert!(judge(&[half, other_half, for_web(enough())], &named()).is_ok());
}

#[test]
fn the_nearest_policy_is_named() {
    let far = for_web(json!({}));
    let near = for_web(json!({"distributions": ["E1"]}));
    let denied = judge(&[far, near], &named()).unwrap_err();
    assert!(
        denied.contains("beta comes nearest and refuses hosted zone Z1:"),
        "{denied}"
    );
}

#[test]
fn a_policy_for_others_is_none_for_us() {
    let others = policy(json!({"namespaces": ["shop"], "distributions": ["*"]}));
    let denied = judge(&[others], &named()).unwrap_err();
    assert!(
        denied.contains("no TenantPolicy speaks for namespace web"),
        "{denied}"
    );
    assert!(
        denied.contains("distribution E1") && denied.contains("alpha"),
        "{denied}"
    );
}

#[rstest]
#[case::by_label(json!({"matchLabels": {"team": "web"}}), true)]
#[case::everybody(json!({}), true)]
#[case::another_label(json!({"matchLabels": {"team": "shop"}}), false)]
#[case::by_expression(json!({"matchExpressions": [{"key": "team", "operator": "In", "values": ["web"]}]}), true)]
fn a_selector_picks_namespaces(#[case] selector: Value, #[case] picked: bool) {
    let mut spec = enough();
    spec["namespaceSelector"] = selector;
    let spec = policy(spec);
    assert_eq!(accepted(&spec), Ok(()));
    assert_eq!(judge(&[spec], &named()).is_ok(), picked);
}

#[rstest]
#[case::no_values(json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": []}]}), "no values")]
#[case::values_absent(json!({"matchExpressions": [{"key": "team", "operator": "In"}]}), "no values")]
#[case::needless_values(json!({"matchExpressions": [{"key": "team", "operator": "Exists", "values": ["a"]}]}), "gives values")]
#[case::unknown_operator(json!({"matchExpressions": [{"key": "team", "operator": "Like", "values": ["a"]}]}), "Like")]
#[case::no_key(json!({"matchExpressions": [{"key": "", "operator": "Exists"}]}), "without a key")]
fn a_senseless_selector_allows_nothing(#[case] selector: Value, #[case] told: &str) {
    let mut spec = enough();
    spec["namespaceSelector"] = selector;
    let spec = policy(spec);
    let reason = accepted(&spec).unwrap_err();
    assert_eq!(reason.code, "InvalidSpec");
    assert!(reason.message.contains(told), "{reason}");
    assert!(judge(&[spec], &named()).is_err());
}

#[rstest]
#[case::nobody(json!({"distributions": ["*"]}))]
#[case::twice(json!({"namespaces": ["web"], "namespaceSelector": {}}))]
fn a_policy_speaks_for_names_or_labels(#[case] spec: Value) {
    let reason = accepted(&policy(spec.clone())).unwrap_err();
    assert_eq!(reason.code, "InvalidSpec");
    assert!(judge(&[policy(spec)], &named()).is_err());
}

fn with_role(arn: &str, external_id: Option<&str>) -> TenantPolicySpec {
    let mut rules = enough();
    rules["roles"] = json!([{"arn": arn}]);
    if let Some(id) = external_id {
        rules["roles"][0]["externalId"] = json!(id);
    }
    for_web(rules)
}

#[test]
fn the_external_id_is_that_of_the_role_in_the_policy() {
    let named = Named {
        role: Some(ROLE),
        ..named()
    };
    let id = |specs: &[TenantPolicySpec]| judge(specs, &named).unwrap().external_id;
    assert_eq!(id(&[with_role(ROLE, Some("x1"))]).as_deref(), Some("x1"));
    assert_eq!(id(&[with_role("*", Some("x2"))]).as_deref(), Some("x2"));
    let both = [with_role("*", None), with_role(ROLE, Some("x1"))];
    assert_eq!(id(&both).as_deref(), Some("x1"));
}

#[test]
fn no_role_no_external_id() {
    let leave = judge(&[with_role(ROLE, Some("x1"))], &named()).unwrap();
    assert_eq!(leave.external_id, None);
}

fn any_spec() -> impl Strategy<Value = TenantPolicySpec> {
    let list = || proptest::collection::vec("E1|Z1|cg1|\\*", 0..3);
    (list(), list(), proptest::option::of(list()), "web|shop").prop_map(
        |(distributions, zones, groups, namespace)| {
            let mut spec = json!({
                "namespaces": [namespace], "distributions": distributions, "hostedZones": zones,
            });
            if let Some(groups) = groups {
                spec["connectionGroups"] = json!(groups);
            }
            policy(spec)
        },
    )
}

proptest! {
    #[test]
    fn the_order_of_policies_does_not_count(one in any_spec(), other in any_spec()) {
        let labels = BTreeMap::new();
        let namespace = Namespace { name: "web", labels: &labels };
        let one = Policy { name: "one", spec: &one };
        let other = Policy { name: "other", spec: &other };
        let judge = |policies: &[Policy<'_>]| allowed(policies, false, namespace, &named());
        prop_assert_eq!(judge(&[one, other]), judge(&[other, one]));
    }

    #[test]
    fn one_more_policy_never_takes_away(specs in proptest::collection::vec(any_spec(), 1..3), more in any_spec()) {
        let allowed = judge(&specs, &named()).is_ok();
        let with_more: Vec<_> = specs.into_iter().chain([more]).collect();
        prop_assert!(!allowed || judge(&with_more, &named()).is_ok());
    }
}
