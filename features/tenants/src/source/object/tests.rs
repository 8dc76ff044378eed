use engine::Projection;
use proptest::prelude::*;
use proptest::sample::subsequence;
use rstest::rstest;

use super::*;

fn origin(spec: Value) -> Origin {
    let mut whole = json!({"provider": "configMap", "distributionId": "E1"});
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    Origin {
        name: "onboarding".into(),
        uid: "uid-source".into(),
        target: "web".into(),
        spec: serde_json::from_value(whole).unwrap(),
    }
}

fn tenant(domains: &[&str]) -> Tenant {
    Tenant {
        name: "acme".into(),
        domains: domains.iter().map(|one| (*one).to_owned()).collect(),
        ..Tenant::default()
    }
}

/// The object as the API server would have it after `body` was applied.
fn stored(body: &Value) -> Held {
    let mut body = body.clone();
    body["metadata"]["uid"] = json!("uid-acme");
    body["metadata"]["resourceVersion"] = json!("5");
    let kind = Kind::of::<DistributionTenant>();
    let stored = Stored::read(&kind, &body.to_string(), &Projection::Full).unwrap();
    Held::read(&stored).unwrap()
}

fn desired(tenant: &Tenant, origin: &Origin) -> Desired {
    Desired::new(tenant, origin, None).unwrap()
}

fn spec_of(desired: &Desired) -> &Value {
    &desired.body["spec"]
}

#[rstest]
#[case::unset(json!({}), "team")]
#[case::empty_is_unset(json!({"targetNamespace": ""}), "team")]
#[case::another(json!({"targetNamespace": "web"}), "web")]
fn objects_are_made_where_the_source_says(#[case] spec: Value, #[case] target: &str) {
    let mut source = json!({
        "metadata": {"name": "onboarding", "namespace": "team"},
        "spec": {"provider": "configMap", "distributionId": "E1"},
    });
    source["spec"]
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    let source: TenantSource = serde_json::from_value(source).unwrap();
    assert_eq!(Origin::new(&source).target, target);
}

#[test]
fn a_row_alone_makes_a_small_object_with_its_mark() {
    let desired = desired(
        &tenant(&["a.example.com", "b.example.com"]),
        &origin(json!({})),
    );
    let body = desired.bound_to(None);
    assert_eq!(
        body["spec"],
        json!({
            "distributionId": "E1",
            "domains": [{"domain": "a.example.com"}, {"domain": "b.example.com"}],
        })
    );
    let metadata = &body["metadata"];
    assert_eq!(metadata["labels"][names::SOURCE_LABEL], "onboarding");
    assert_eq!(metadata["annotations"][names::SOURCE_UID], "uid-source");
    assert_eq!(
        (&metadata["namespace"], &metadata["name"]),
        (&json!("web"), &json!("acme"))
    );
    assert_eq!(metadata.get("uid"), None);
    assert_eq!(desired.bound_to(Some("u"))["metadata"]["uid"], "u");
    assert!(stored(&body).is_of(&origin(json!({}))));
}

#[test]
fn the_row_wins_over_the_template() {
    let origin = origin(json!({"template": {
        "enabled": true,
        "connectionGroupRef": {"name": "edge"},
        "parameters": [{"name": "color", "value": "red"}, {"name": "size", "value": "1"}],
        "tags": [{"key": "team", "value": "web"}, {"key": "bare"}],
        "dns": {"provider": "route53", "hostedZoneId": "Z1", "ttl": 600},
        "driftPolicy": "report",
        "deletionPolicy": "Retain",
    }}));
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let row = Tenant {
        enabled: Some(false),
        connection_group_id: Some("cg_1".into()),
        distribution_id: Some("E2".into()),
        parameters: BTreeMap::from([pair("color", "blue"), pair("shape", "round")]),
        tags: BTreeMap::from([pair("cost", "7"), pair("team", "shop")]),
        ..tenant(&["a.example.com"])
    };
    let desired = desired(&row, &origin);
    assert_eq!(
        *spec_of(&desired),
        json!({
            "distributionId": "E2",
            "domains": [{"domain": "a.example.com"}],
            "enabled": false,
            "connectionGroupId": "cg_1",
            "parameters": [
                {"name": "color", "value": "blue"},
                {"name": "size", "value": "1"},
                {"name": "shape", "value": "round"},
            ],
            "tags": [
                {"key": "team", "value": "shop"},
                {"key": "bare"},
                {"key": "cost", "value": "7"},
            ],
            "dns": {"provider": "route53", "hostedZoneId": "Z1", "ttl": 600},
            "driftPolicy": "report",
            "deletionPolicy": "Retain",
        })
    );
}

#[rstest]
#[case::the_first_domain_by_default(None, Ok("b.example.com"))]
#[case::as_the_template_says(Some("a.example.com"), Ok("a.example.com"))]
#[case::in_any_spelling(Some("A.Example.com."), Ok("A.Example.com."))]
#[case::none_of_its_domains(Some("c.example.com"), Err("c.example.com is none of its domains"))]
fn a_certificate_is_named_after(#[case] named: Option<&str>, #[case] primary: Result<&str, &str>) {
    let mut request = json!({"validationTokenHost": "cloudfront"});
    if let Some(named) = named {
        request["primaryDomainName"] = json!(named);
    }
    let origin = origin(json!({"template": {"managedCertificateRequest": request}}));
    let row = tenant(&["b.example.com", "a.example.com"]);
    match (Desired::new(&row, &origin, None), primary) {
        (Ok(made), Ok(primary)) => {
            let request = &spec_of(&made)["managedCertificateRequest"];
            assert_eq!(request["primaryDomainName"], primary);
        }
        (Err(why), Err(said)) => assert!(why.contains(said), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_the_crd_would_refuse_is_told_before() {
    let domains: Vec<String> = (0..501).map(|n| format!("d{n}.example.com")).collect();
    let row = Tenant {
        domains,
        ..tenant(&[])
    };
    let why = Desired::new(&row, &origin(json!({})), None).unwrap_err();
    assert!(why.contains("501 domains; an object holds 500"), "{why}");

    let named = |n: usize| json!({"name": format!("p{n}"), "value": "v"});
    let parameters: Vec<Value> = (0..50).map(named).collect();
    let origin = origin(json!({"template": {"parameters": parameters}}));
    let mut row = tenant(&["a.example.com"]);
    row.parameters.insert("p0".into(), "w".into());
    assert!(Desired::new(&row, &origin, None).is_ok());
    row.parameters.insert("q".into(), "w".into());
    assert!(Desired::new(&row, &origin, None).is_err());
}

#[test]
fn an_object_as_it_was_applied_is_the_same() {
    let origin = origin(json!({"template": {
        "dns": {"provider": "route53", "hostedZoneId": "Z1"},
        "customizations": {"geoRestrictions": {"restrictionType": "whitelist", "locations": ["DE"]}},
    }}));
    let row = tenant(&["a.example.com"]);
    let first = desired(&row, &origin);
    let mut body = first.bound_to(None);
    // What the API server and others add is theirs.
    body["spec"]["enabled"] = json!(true);
    body["spec"]["deletionPolicy"] = json!("Delete");
    body["spec"]["dns"]["discoverZones"] = json!(false);
    body["spec"]["customizations"]["webAcl"] = json!({"action": "disable"});
    let live = stored(&body);
    let again = Desired::new(&row, &origin, Some(&live)).unwrap();
    assert_eq!(again.differs_from(&live), Vec::<String>::new());
}

#[test]
fn what_differs_is_named() {
    let origin = origin(json!({"template": {
        "parameters": [{"name": "p", "value": "v"}],
        "dns": {"provider": "route53", "hostedZoneId": "Z1"},
    }}));
    let row = tenant(&["a.example.com"]);
    let mut body = desired(&row, &origin).bound_to(None);
    body["spec"]["domains"] = json!([{"domain": "x.example.com"}]);
    body["spec"]["dns"]["ttl"] = json!(60);
    // An added parameter is a difference: the list is one value, and ours.
    body["spec"]["parameters"] = json!([{"name": "p", "value": "v"}, {"name": "q", "value": "w"}]);
    let live = stored(&body);
    let again = Desired::new(&row, &origin, Some(&live)).unwrap();
    assert_eq!(again.differs_from(&live), ["dns", "domains", "parameters"]);
}

#[test]
fn what_is_no_longer_said_shows_by_the_mark() {
    let before = origin(json!({"template": {"driftPolicy": "report"}}));
    let row = tenant(&["a.example.com"]);
    let live = stored(&desired(&row, &before).bound_to(None));
    let now = Desired::new(&row, &origin(json!({})), Some(&live)).unwrap();
    assert_eq!(now.differs_from(&live), ["what is no longer said"]);
}

#[test]
fn the_order_of_rows_is_no_change_and_new_domains_come_last() {
    let origin = origin(json!({"template": {
        "managedCertificateRequest": {"validationTokenHost": "cloudfront"},
    }}));
    let live = stored(&desired(&tenant(&["b.x.com", "a.x.com"]), &origin).bound_to(None));
    let turned = Desired::new(&tenant(&["a.x.com", "b.x.com"]), &origin, Some(&live)).unwrap();
    assert_eq!(turned.differs_from(&live), Vec::<String>::new());

    let grown = tenant(&["0.x.com", "a.x.com", "b.x.com"]);
    let grown = Desired::new(&grown, &origin, Some(&live)).unwrap();
    let domains = &spec_of(&grown)["domains"];
    let wanted = json!([{"domain": "b.x.com"}, {"domain": "a.x.com"}, {"domain": "0.x.com"}]);
    assert_eq!(*domains, wanted);
    assert_eq!(grown.differs_from(&live), ["domains"]);
}

#[test]
fn only_both_marks_make_it_ours() {
    let ours = origin(json!({}));
    let body = desired(&tenant(&["a.example.com"]), &ours).bound_to(None);
    let without = |part: &str, key: &str| {
        let mut body = body.clone();
        body["metadata"][part].as_object_mut().unwrap().remove(key);
        stored(&body)
    };
    assert!(!without("labels", names::SOURCE_LABEL).is_of(&ours));
    assert!(!without("annotations", names::SOURCE_UID).is_of(&ours));
    let namesake = Origin {
        uid: "uid-other".into(),
        ..ours.clone()
    };
    let held = stored(&body);
    assert!(held.is_of(&ours) && !held.is_of(&namesake));
    assert_eq!(
        held.owner(),
        "of a source onboarding with the UID uid-source"
    );
}

#[test]
fn a_long_name_of_a_source_still_makes_a_label() {
    let long = Origin {
        name: "a".repeat(100),
        ..origin(json!({}))
    };
    assert!(long.label().len() <= 63);
    assert_eq!(origin(json!({})).label(), "onboarding");
}

proptest! {
    #[test]
    fn an_applied_object_is_steady_in_whatever_order_its_rows_come(
        domains in subsequence(vec!["a.x.com", "b.x.com", "c.x.com", "d.x.com"], 1..=4).prop_shuffle(),
        again in any::<u64>(),
    ) {
        let origin = origin(json!({"template": {"enabled": true}}));
        let row = tenant(&domains);
        let live = stored(&desired(&row, &origin).bound_to(None));
        let mut turned = row.clone();
        let by = usize::try_from(again % 4).unwrap() % turned.domains.len();
        turned.domains.rotate_left(by);
        let wanted = Desired::new(&turned, &origin, Some(&live)).unwrap();
        prop_assert_eq!(wanted.differs_from(&live), Vec::<String>::new());
    }
}
