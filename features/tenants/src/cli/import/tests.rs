use rstest::rstest;

use super::*;
use crate::body::{LiveDomain, Summary, declared};
use crate::diff::{self, Last};
use api::tenants::{
    AdoptBy, BodyGeoRestrictions, BodyWebAcl, DistributionTenantStatus, DriftPolicy,
};

const ARN: &str = "arn:aws:acm:us-east-1:1:certificate/x";

fn whole(name: &str) -> Whole {
    let domain = |domain: &str| LiveDomain {
        domain: domain.to_owned(),
        status: Some("active".to_owned()),
    };
    let tags = [
        ("team", "shop"),
        ("aws:cloudformation", "x"),
        (MARKER_CLUSTER, "c1"),
    ];
    Whole {
        live: Live {
            summary: Summary {
                id: "dt_1".to_owned(),
                name: name.to_owned(),
                distribution_id: "E1".to_owned(),
                connection_group_id: Some("cg_1".to_owned()),
                domains: vec![domain("b.example.com"), domain("a.example.com")],
                web_acl: Some(BodyWebAcl {
                    action: "override".to_owned(),
                    arn: Some("arn:acl".to_owned()),
                }),
                geo_restrictions: Some(BodyGeoRestrictions {
                    restriction_type: "whitelist".to_owned(),
                    locations: ["DE".to_owned()].into(),
                }),
                certificate_arn: Some(ARN.to_owned()),
                ..Summary::default()
            },
            parameters: [("tier".to_owned(), "gold".to_owned())].into(),
            tags: None,
        },
        tags: tags
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        managed: None,
    }
}

fn managed(arn: &str) -> ManagedCertificate {
    ManagedCertificate {
        arn: Some(arn.to_owned()),
        status: "issued".to_owned(),
        validation_token_host: Some("self-hosted".to_owned()),
        tokens: Vec::new(),
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("web", name)
}

/// What is printed, read again.
fn applied(found: &Whole, name: &str) -> DistributionTenant {
    let object = manifest(&key(name), found).unwrap();
    let text = serde_saphyr::to_string(&serde_json::to_value(object).unwrap()).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

#[rstest]
#[case::with_a_certificate_of_its_own(None)]
#[case::with_a_managed_certificate(Some(managed(ARN)))]
#[case::with_one_in_its_place(Some(managed("arn:aws:acm:us-east-1:1:certificate/y")))]
fn what_is_printed_finds_nothing_to_send(#[case] managed: Option<ManagedCertificate>) {
    let found = Whole {
        managed,
        ..whole("acme")
    };
    let object = applied(&found, "acme");
    let body = declared(&object.spec, None);
    // As it is after the tenant was taken over.
    let status = DistributionTenantStatus {
        managed_certificate_status: found.managed.as_ref().map(|one| one.status.clone()),
        ..DistributionTenantStatus::default()
    };
    let live = found.live.body();
    let last = Last::of(&status, Some(1), &body, &live);
    let issued = found.managed.as_ref().and_then(|one| one.arn.as_deref());
    let plan = diff::plan(&diff::Ground {
        declared: &body,
        last: &last,
        live: &live,
        default_group: None,
        issued,
        resend: false,
        policy: DriftPolicy::Enforce,
    });
    assert_eq!(plan.update, None);
    assert_eq!(plan.changes, []);
    assert_eq!(
        body.tags,
        Tags::from([("team".to_owned(), "shop".to_owned())])
    );
}

#[rstest]
#[case::the_same("acme", "acme", None)]
#[case::in_capitals("Legacy.Site", "legacy.site", Some("Legacy.Site"))]
#[case::with_an_odd_label("a..b-", "a.b", Some("a..b-"))]
fn a_name_is_kept_where_it_can_be(
    #[case] tenant: &str,
    #[case] object: &str,
    #[case] declared: Option<&str>,
) {
    assert_eq!(object_name(tenant), object);
    let made = applied(&whole(tenant), object);
    assert_eq!(made.spec.tenant_name.as_deref(), declared);
    assert_eq!(made.metadata.namespace.as_deref(), Some("web"));
    let by = made.spec.adoption.map(|adoption| adoption.by);
    assert_eq!(by, Some(AdoptBy::Name));
}

#[test]
fn what_no_object_can_say_is_told() {
    let mut found = whole("acme");
    found.live.summary.web_acl = Some(BodyWebAcl {
        action: "observe".to_owned(),
        arn: None,
    });
    let why = manifest(&key("acme"), &found).unwrap_err();
    assert!(why.contains("observe"), "{why}");
}

#[rstest]
#[case::nobodys(&[], Ok(None))]
#[case::of_this_cluster(&[(MARKER_CLUSTER, "c1"), (MARKER_OBJECT, "shop/acme")], Ok(Some("shop/acme")))]
#[case::of_another(&[(MARKER_CLUSTER, "c2"), (MARKER_OBJECT, "shop/acme")], Err("c2/shop/acme"))]
#[case::half(&[(MARKER_CLUSTER, "c1")], Err("c1/?"))]
fn a_marker_tells_the_object(
    #[case] tags: &[(&str, &str)],
    #[case] expected: Result<Option<&str>, &str>,
) {
    let tags: Tags = tags
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    match (marked(&tags, "c1"), expected) {
        (Ok(key), Ok(expected)) => {
            assert_eq!(key.map(|key| key.to_string()).as_deref(), expected);
        }
        (Err(why), Err(owner)) => assert!(why.contains(owner), "{why}"),
        (is, should) => panic!("{is:?} should be {should:?}"),
    }
}
