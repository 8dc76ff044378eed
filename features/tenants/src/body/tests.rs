use proptest::collection::{btree_map, btree_set};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

/// A spec of E1 and a.example.com, with `changes`.
pub(crate) fn spec(changes: Value) -> DistributionTenantSpec {
    let mut whole = json!({"distributionId": "E1", "domains": [{"domain": "a.example.com"}]});
    for (field, value) in changes.as_object().unwrap() {
        whole[field] = value.clone();
    }
    serde_json::from_value(whole).unwrap()
}

pub(crate) fn body(changes: Value) -> Body {
    Body::from(&declared(&spec(changes), None))
}

/// Bodies of few words, so that sides often agree.
pub(crate) fn any_body() -> impl Strategy<Value = Body> {
    let acl = prop_oneof![
        Just(web_acl("disable".to_owned(), None)),
        "[ab]".prop_map(|arn| web_acl("override".to_owned(), Some(&arn))),
    ];
    let geo = btree_set("DE|FR", 1..3).prop_map(|locations| BodyGeoRestrictions {
        restriction_type: "whitelist".to_owned(),
        locations,
    });
    let option = |word| proptest::option::of(word);
    (
        any::<bool>(),
        "E[12]",
        option("cg[012]"),
        btree_set("[abc]\\.x", 1..4),
        btree_map("[pq]", "[12]", 0..3),
        proptest::option::of(acl),
        option("[ABM]"),
        proptest::option::of(geo),
    )
        .prop_map(|fields| {
            let (enabled, distribution_id, group, domains, parameters, acl, arn, geo) = fields;
            Body {
                enabled,
                distribution_id,
                connection_group_id: group,
                domains,
                parameters,
                web_acl: acl,
                certificate_arn: arn,
                geo_restrictions: geo,
            }
        })
}

#[rstest]
#[case::case_and_final_dot_of_domains(
    json!({"domains": [{"domain": "A.Example.com"}, {"domain": "a.example.com."}]}), json!({}))]
#[case::order_of_domains(
    json!({"domains": [{"domain": "b.x"}, {"domain": "a.x"}]}),
    json!({"domains": [{"domain": "a.x"}, {"domain": "b.x"}]}))]
#[case::order_of_parameters(
    json!({"parameters": [{"name": "q", "value": "2"}, {"name": "p", "value": "1"}]}),
    json!({"parameters": [{"name": "p", "value": "1"}, {"name": "q", "value": "2"}]}))]
#[case::order_of_locations(
    json!({"customizations": {"geoRestrictions": {"restrictionType": "whitelist", "locations": ["FR", "DE", "FR"]}}}),
    json!({"customizations": {"geoRestrictions": {"restrictionType": "whitelist", "locations": ["DE", "FR"]}}}))]
#[case::an_empty_block(json!({"customizations": {}}), json!({}))]
#[case::the_arn_of_a_disabled_acl(
    json!({"customizations": {"webAcl": {"action": "disable", "arn": "arn"}}}),
    json!({"customizations": {"webAcl": {"action": "disable"}}}))]
#[case::an_empty_group(json!({"connectionGroupId": ""}), json!({}))]
#[case::enabled_by_default(json!({"enabled": true}), json!({}))]
fn does_not_count(#[case] one: Value, #[case] other: Value) {
    assert_eq!(body(one), body(other));
}

#[rstest]
#[case::enabled(Field::Enabled, json!({"enabled": false}))]
#[case::distribution(Field::DistributionId, json!({"distributionId": "E2"}))]
#[case::group(Field::ConnectionGroupId, json!({"connectionGroupId": "cg1"}))]
#[case::domains(Field::Domains, json!({"domains": [{"domain": "b.example.com"}]}))]
#[case::parameters(Field::Parameters, json!({"parameters": [{"name": "p", "value": "1"}]}))]
#[case::acl(Field::WebAcl, json!({"customizations": {"webAcl": {"action": "override", "arn": "arn"}}}))]
#[case::certificate(Field::Certificate, json!({"customizations": {"certificate": {"arn": "arn"}}}))]
#[case::every_country_is_a_say(Field::GeoRestrictions, json!({"customizations": {"geoRestrictions": {"restrictionType": "none"}}}))]
fn counts_in_its_field_alone(#[case] field: Field, #[case] change: Value) {
    let (one, other) = (body(json!({})), body(change));
    let differing = Field::ALL.into_iter();
    let differing: Vec<_> = differing
        .filter(|field| field.of(&one) != field.of(&other))
        .collect();
    assert_eq!(differing, [field]);
    assert_eq!(Field::named(field.word()), Some(field));
}

#[test]
fn a_referred_group_counts_like_a_named_one() {
    let named = declared(&spec(json!({"connectionGroupId": "cg1"})), None);
    let referred = json!({"connectionGroupRef": {"name": "edge"}});
    assert_eq!(declared(&spec(referred), Some("cg1")), named);
}

#[test]
fn tags_and_request_are_declared_and_not_compared() {
    let told = declared(
        &spec(json!({
            "tags": [{"key": "team", "value": "web"}, {"key": "flag"}],
            "managedCertificateRequest":
                {"validationTokenHost": "cloudfront", "primaryDomainName": "A.example.com."},
        })),
        None,
    );
    assert_eq!(told.tags["team"], "web");
    assert_eq!(told.tags["flag"], "");
    let request = told.managed_certificate_request.clone().unwrap();
    assert_eq!(request.primary_domain_name, "a.example.com");
    assert_eq!(Body::from(&told), body(json!({})));
}

#[test]
fn what_cloudfront_shows_is_compared_in_the_same_form() {
    let live = Live {
        summary: Summary {
            enabled: true,
            distribution_id: "E1".to_owned(),
            domains: vec![LiveDomain {
                domain: "A.example.com".to_owned(),
                status: Some("active".to_owned()),
            }],
            web_acl: Some(BodyWebAcl {
                action: "disable".to_owned(),
                arn: Some("arn".to_owned()),
            }),
            ..Summary::default()
        },
        parameters: [("p".to_owned(), "1".to_owned())].into(),
        tags: None,
    };
    let same = body(json!({
        "parameters": [{"name": "p", "value": "1"}],
        "customizations": {"webAcl": {"action": "disable"}},
    }));
    assert_eq!(live.body(), same);
    assert!(!live.body().disabled().enabled);
}

fn list(count: usize, more: &[&str]) -> Value {
    let many = (0..count).map(|one| format!("domain-{one:03}.example.com"));
    many.chain(more.iter().map(|one| (*one).to_owned()))
        .collect()
}

#[test]
fn short_sides_are_shown_whole() {
    let shown = side_by_side(Some(&list(1, &[])), Some(&list(1, &["x"])));
    let one = "domain-000.example.com";
    assert_eq!(shown, (Some(one.to_owned()), Some(format!("{one}, x"))));
    assert_eq!(side_by_side(Some(&json!("")), None), (None, None));
    let flags = side_by_side(Some(&json!(true)), Some(&json!(false)));
    assert_eq!(flags, (Some("true".to_owned()), Some("false".to_owned())));
}

#[test]
fn of_long_lists_only_the_difference_is_shown() {
    let shown = side_by_side(Some(&list(99, &[])), Some(&list(99, &["x"])));
    assert_eq!(shown, (None, Some("x".to_owned())));
}

#[test]
fn what_is_cut_still_differs() {
    let (one, other) = (list(99, &["y"]), list(99, &["z"]));
    let (one, _) = side_by_side(Some(&one), None);
    let (other, _) = side_by_side(Some(&other), None);
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(one.chars().count(), 256);
    assert_ne!(one, other);
}

proptest! {
    #[test]
    fn a_record_reads_back(body in any_body()) {
        let record = body.clone().recorded(None, BTreeMap::new());
        prop_assert_eq!(Body::from(&record), body);
    }

    #[test]
    fn bodies_are_equal_when_all_fields_are(one in any_body(), other in any_body()) {
        let fields = Field::ALL.into_iter().all(|field| field.of(&one) == field.of(&other));
        prop_assert_eq!(fields, one == other);
        prop_assert_eq!(one.compared() == other.compared(), one == other);
    }
}
