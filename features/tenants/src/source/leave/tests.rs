use api::tenants::TenantPolicySpec;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

#[rstest]
#[case::named(Some("team"), true)]
#[case::among_others(Some("a, team ,b"), true)]
#[case::others_only(Some("teams,tea"), false)]
#[case::empty(Some(""), false)]
#[case::no_annotation(None, false)]
fn another_namespace_has_to_accept(#[case] accepts: Option<&str>, #[case] holds: bool) {
    match accepted("team", "web", accepts) {
        Ok(()) => assert!(holds),
        Err(reason) => {
            assert!(!holds);
            assert_eq!(reason.code, reasons::POLICY_DENIED);
            let said = "namespace web does not accept sources of team";
            assert!(reason.message.starts_with(said), "{}", reason.message);
            assert!(reason.message.ends_with(names::ACCEPT_SOURCES));
        }
    }
}

fn spec(more: Value) -> TenantSourceSpec {
    let mut spec = json!({"provider": "configMap", "distributionId": "E1"});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    serde_json::from_value(spec).unwrap()
}

fn policy(spec: Value) -> TenantPolicySpec {
    serde_json::from_value(spec).unwrap()
}

/// A group as it is judged while nobody knows which one is the default.
fn group(id: Option<&str>) -> Group<'_> {
    Group {
        id,
        default: id.is_none(),
    }
}

/// What policies say to a source in `team`, without labels anywhere.
fn judged(
    policies: &[TenantPolicySpec],
    required: bool,
    spec: &TenantSourceSpec,
) -> Result<Leave, String> {
    let policies: Vec<_> = policies
        .iter()
        .map(|spec| Policy { name: "p", spec })
        .collect();
    let wish = Wish {
        own: "team",
        target: spec.target_namespace.as_deref().unwrap_or("team"),
        objects: objects(spec, group),
        table: table(spec),
    };
    let none = BTreeMap::new();
    let law = Law {
        policies: &policies,
        required,
        own: &none,
        target: &none,
    };
    law.judged(&wish).map_err(|reason| {
        assert_eq!(reason.code, reasons::POLICY_DENIED);
        reason.message
    })
}

const ROLE: &str = "arn:aws:iam::222222222222:role/dns";
const READER: &str = "arn:aws:iam::222222222222:role/reader";

/// A source in `team` that names something of each kind; both of its roles are others.
fn naming_all() -> Value {
    json!({
        "provider": "dynamodb",
        "dynamodb": {"tableName": "sites", "assumeRoleArn": READER},
        "template": {
            "connectionGroupId": "cg1",
            "dns": {
                "provider": "route53", "hostedZoneIds": ["Z1", "/hostedzone/Z2"],
                "assumeRoleArn": ROLE, "recordAdoption": "Matching",
            },
        },
    })
}

/// A policy that allows all of that.
fn allowing_all() -> Value {
    json!({
        "namespaces": ["team"], "distributions": ["E1"], "hostedZones": ["Z1", "Z2"],
        "roles": [{"arn": ROLE}, {"arn": READER, "externalId": "hush"}],
        "dynamodbTables": ["sites"], "connectionGroups": ["cg1"], "adoption": true,
    })
}

#[test]
fn a_policy_that_allows_all_gives_leave_and_the_external_id_of_the_tables_role() {
    let leave = judged(&[policy(allowing_all())], true, &spec(naming_all())).unwrap();
    assert_eq!(leave.external_id.as_deref(), Some("hush"));
}

#[rstest]
#[case::distribution("distributions", json!(["E2"]), "distribution E1")]
#[case::zone("hostedZones", json!(["Z1"]), "hosted zone Z2")]
#[case::role("roles", json!([{"arn": READER}]), ROLE)]
#[case::role_of_the_table("roles", json!([{"arn": ROLE}]), READER)]
#[case::table("dynamodbTables", json!(["other"]), "DynamoDB table sites")]
#[case::group("connectionGroups", json!(["default"]), "connection group cg1")]
#[case::adoption("adoption", json!(false), "adoption")]
fn what_a_policy_does_not_list_is_refused_and_named(
    #[case] field: &str,
    #[case] listed: Value,
    #[case] refused: &str,
) {
    let mut narrow = allowing_all();
    narrow[field] = listed;
    let why = judged(&[policy(narrow)], false, &spec(naming_all())).unwrap_err();
    assert!(why.contains(refused), "{why}");
}

#[test]
fn in_one_namespace_a_single_policy_has_to_allow_table_and_objects() {
    let (mut tables, mut rest) = (allowing_all(), allowing_all());
    tables["distributions"] = json!([]);
    rest["roles"] = json!([{"arn": ROLE}]);
    let both = [policy(tables), policy(rest)];
    let why = judged(&both, false, &spec(naming_all())).unwrap_err();
    assert!(why.contains(READER), "{why}");
    assert!(judged(&[policy(allowing_all())], false, &spec(naming_all())).is_ok());
}

#[test]
fn objects_are_judged_where_they_are_made_and_the_table_where_it_is_read() {
    let mut aimed = naming_all();
    aimed["targetNamespace"] = json!("web");
    let aimed = spec(aimed);
    let reads = json!({
        "namespaces": ["team"], "dynamodbTables": ["sites"], "roles": [{"arn": READER}],
    });
    let mut makes = allowing_all();
    makes["namespaces"] = json!(["web"]);
    makes["dynamodbTables"] = json!([]);
    makes["roles"] = json!([{"arn": ROLE}]);
    let (reads, makes) = (policy(reads), policy(makes));
    assert!(judged(&[reads.clone(), makes.clone()], false, &aimed).is_ok());
    let unmade = judged(&[reads], false, &aimed).unwrap_err();
    assert!(unmade.contains("E1") && unmade.contains("web"), "{unmade}");
    let unread = judged(&[makes], false, &aimed).unwrap_err();
    assert!(
        unread.contains("sites") && unread.contains("team"),
        "{unread}"
    );
}

#[test]
fn every_provider_asks_where_a_policy_is_required() {
    let plain = spec(json!({"configMap": {"name": "t"}}));
    assert!(judged(&[], false, &plain).is_ok());
    let why = judged(&[], true, &plain).unwrap_err();
    assert!(why.contains("distribution E1"), "{why}");
    let no_group = judged(&[policy(allowing_all())], true, &plain).unwrap_err();
    assert!(no_group.contains("connection group default"), "{no_group}");
}

#[rstest]
#[case::none_is_the_default_one(json!({}), Some((None, true)))]
#[case::empty_is_none(json!({"connectionGroupId": ""}), Some((None, true)))]
#[case::by_id(json!({"connectionGroupId": "cg1"}), Some((Some("cg1"), false)))]
#[case::referred_to(json!({"connectionGroupRef": {"name": "edge"}}), None)]
fn a_group_is_judged_by_its_id(
    #[case] template: Value,
    #[case] wanted: Option<(Option<&str>, bool)>,
) {
    let spec = spec(json!({"template": template}));
    let found = objects(&spec, group).group;
    assert_eq!(found.map(|group| (group.id, group.default)), wanted);
}

#[test]
fn what_is_empty_is_not_named() {
    let spec = spec(json!({
        "provider": "dynamodb", "dynamodb": {"tableName": "sites", "assumeRoleArn": ""},
        "template": {"dns": {"provider": "none", "hostedZoneId": "Z1"}},
    }));
    assert_eq!(table(&spec).unwrap().role, None);
    assert!(objects(&spec, group).zones.is_empty());
}

#[test]
fn a_policy_that_cannot_be_read_allows_nothing() {
    let spec = spec(json!({}));
    // It is not among them, and makes that leave is needed.
    assert!(judged(&[], true, &spec).is_err());
}
