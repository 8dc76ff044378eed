use DriftPolicy::{Enforce, Report, Suspend};
use api::tenants::{DistributionTenantStatus, ValidationTokenHost};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::body::declared;
use crate::body::tests::{body, spec};

/// Domains `a.x`, … of a text like `abc`.
fn domains(letters: &str) -> Value {
    let domains = letters
        .chars()
        .map(|one| json!({"domain": format!("{one}.x")}));
    json!({"domains": domains.collect::<Value>()})
}

fn parameters(pairs: &[(&str, &str)]) -> Value {
    let pairs = pairs
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}));
    json!({"parameters": pairs.collect::<Value>()})
}

fn certificate(arn: &str) -> Value {
    json!({"customizations": {"certificate": {"arn": arn}}})
}

fn group(id: &str) -> Value {
    json!({"connectionGroupId": id})
}

fn request(host: ValidationTokenHost) -> BodyCertificateRequest {
    BodyCertificateRequest {
        validation_token_host: host,
        primary_domain_name: "a.example.com".to_owned(),
        certificate_transparency_logging_preference: None,
    }
}

/// The world of a plan: three sides as changes of the same spec, live in group cg0.
struct World {
    declared: TenantBody,
    last: Last,
    live: Body,
    issued: Option<&'static str>,
    resend: bool,
}

impl World {
    fn of(last: Value, live: Value, desired: Value) -> Self {
        let mut live = body(live);
        live.connection_group_id.get_or_insert("cg0".to_owned());
        Self {
            declared: declared(&spec(desired), None),
            last: Last {
                body: body(last),
                ..Last::default()
            },
            live,
            issued: None,
            resend: false,
        }
    }

    fn steady(all: Value) -> Self {
        Self::of(all.clone(), all.clone(), all)
    }

    fn plan(&self, policy: DriftPolicy) -> Plan {
        plan(&Ground {
            declared: &self.declared,
            last: &self.last,
            live: &self.live,
            default_group: Some("cg0"),
            issued: self.issued,
            resend: self.resend,
            policy,
        })
    }

    /// What is sent under `policy`.
    fn sent(&self, policy: DriftPolicy) -> Option<Body> {
        self.plan(policy).update.map(|update| update.body)
    }
}

/// The letters of the domains in a body.
fn letters(body: &Body) -> String {
    body.domains
        .iter()
        .filter_map(|one| one.chars().next())
        .collect()
}

#[rstest] //                              last  live  desired enforce      report       drift
#[case::true_is_left_alone("a", "a", "a", None, None, false)]
#[case::a_lost_answer_needs_only_the_record("a", "ab", "ab", None, None, false)]
#[case::an_edit_is_sent("a", "a", "ab", Some("ab"), Some("ab"), false)]
#[case::a_removal_is_sent("ab", "ab", "a", Some("a"), Some("a"), false)]
#[case::drift_is_undone_or_left("a", "ax", "a", Some("a"), None, true)]
#[case::a_removal_outside_is_drift("ab", "a", "ab", Some("ab"), None, true)]
#[case::an_edit_heals_no_drift("a", "ax", "ab", Some("ab"), Some("abx"), true)]
#[case::an_edit_leaves_removed_ones_removed("ab", "a", "abc", Some("abc"), Some("ac"), true)]
#[case::an_edit_that_is_true_already_is_not_sent("ab", "ax", "a", Some("a"), None, true)]
fn domains_count_one_by_one(
    #[case] last: &str,
    #[case] live: &str,
    #[case] desired: &str,
    #[case] enforce: Option<&str>,
    #[case] report: Option<&str>,
    #[case] drift: bool,
) {
    let world = World::of(domains(last), domains(live), domains(desired));
    let sent = |policy| world.sent(policy).map(|sent| letters(&sent));
    assert_eq!(sent(Enforce).as_deref(), enforce);
    assert_eq!(sent(Report).as_deref(), report);
    assert_eq!(sent(Suspend).as_deref(), report);
    let plan = world.plan(Report);
    assert_eq!(!plan.drift().is_empty(), drift);
    assert_eq!(letters(&Body::from(&plan.record)), desired);
}

#[test]
fn parameters_count_one_by_one() {
    let world = World::of(
        parameters(&[("p", "1"), ("q", "1")]),
        parameters(&[("p", "9"), ("q", "1"), ("z", "1")]),
        parameters(&[("p", "1"), ("q", "2")]),
    );
    let given = |policy| world.sent(policy).map(|sent| Field::Parameters.of(&sent));
    assert_eq!(given(Enforce), Some(json!(["p=1", "q=2"])));
    assert_eq!(given(Report), Some(json!(["p=9", "q=2", "z=1"])));
}

#[rstest]
#[case::enabled(json!({"enabled": false}))]
#[case::distribution(json!({"distributionId": "E2"}))]
#[case::an_acl_where_we_gave_none(json!({"customizations": {"webAcl": {"action": "disable"}}}))]
#[case::a_certificate_where_we_gave_none(certificate("C"))]
#[case::countries(json!({"customizations": {"geoRestrictions": {"restrictionType": "none"}}}))]
fn a_change_outside_is_drift(#[case] live: Value) {
    let world = World::of(json!({}), live, json!({}));
    let plan = world.plan(Enforce);
    let kinds: Vec<_> = plan.changes.iter().map(|change| change.kind).collect();
    assert_eq!(kinds, [ChangeKind::Drift]);
    let update = plan.update.expect("enforce undoes it");
    assert_eq!(update.cause, Cause::Drift);
    assert!(update.cause.corrects());
    assert_eq!(world.sent(Report), None);
    assert_eq!(world.sent(Suspend), None);
}

#[test]
fn members_that_were_not_edited_carry_what_is_live() {
    let live = json!({"enabled": false, "customizations": {"webAcl": {"action": "disable"}}});
    let edited = json!({"distributionId": "E2"});
    let world = World::of(json!({}), live.clone(), edited);
    let sent = world.sent(Report).unwrap();
    let expected = Body {
        distribution_id: "E2".to_owned(),
        ..World::steady(live).live
    };
    assert_eq!(sent, expected);
    assert_eq!(world.plan(Report).update.unwrap().cause, Cause::Edit);
    assert_eq!(
        world.plan(Enforce).update.unwrap().cause,
        Cause::EditAndDrift
    );
}

#[rstest] //                            last            live            desired         sent        record
#[case::what_cloudfront_chose_is_not_ours(None, "cg7", None, None, None)]
#[case::a_named_one_is(None, "cg0", Some("cg1"), Some("cg1"), Some("cg1"))]
#[case::moved_outside(Some("cg1"), "cg7", Some("cg1"), Some("cg1"), Some("cg1"))]
#[case::unset_means_the_default(Some("cg1"), "cg1", None, Some("cg0"), Some("cg0"))]
#[case::unset_and_there_already(Some("cg1"), "cg0", None, None, Some("cg0"))]
#[case::unset_goes_on_to_mean_the_default(Some("cg0"), "cg7", None, Some("cg0"), Some("cg0"))]
fn the_group(
    #[case] last: Option<&str>,
    #[case] live: &str,
    #[case] desired: Option<&str>,
    #[case] sent: Option<&str>,
    #[case] record: Option<&str>,
) {
    let named = |id: Option<&str>| id.map_or(json!({}), group);
    let world = World::of(named(last), group(live), named(desired));
    let plan = world.plan(Enforce);
    let update = plan
        .update
        .and_then(|update| update.body.connection_group_id);
    assert_eq!(update.as_deref(), sent);
    assert_eq!(plan.record.connection_group_id.as_deref(), record);
    let unset = last.is_some() && desired.is_none();
    assert_eq!(needs_default_group(&world.declared, &world.last), unset);
}

#[test]
fn an_unknown_default_group_moves_nothing() {
    let world = World::of(group("cg1"), group("cg1"), json!({}));
    let plan = plan(&Ground {
        declared: &world.declared,
        last: &world.last,
        live: &world.live,
        default_group: None,
        issued: None,
        resend: false,
        policy: Enforce,
    });
    assert_eq!(plan.update, None);
    assert_eq!(plan.record.connection_group_id.as_deref(), Some("cg1"));
}

#[test]
fn an_update_names_the_group_that_is_live() {
    let world = World::of(json!({}), group("cg7"), json!({"enabled": false}));
    for policy in [Enforce, Report, Suspend] {
        let sent = world.sent(policy).unwrap();
        assert_eq!(sent.connection_group_id.as_deref(), Some("cg7"));
    }
}

/// Whether a request is in the spec, and whether CloudFront has it.
#[derive(Clone, Copy)]
struct Asked {
    spec: bool,
    last: bool,
}

const NEVER: Asked = Asked {
    spec: false,
    last: false,
};
const DROPPED: Asked = Asked {
    spec: false,
    last: true,
};
const ASKED: Asked = Asked {
    spec: true,
    last: true,
};

#[rstest] // last, live and in use; spec; issued; asked; desired; record; `-` is none
#[case::the_spec_wins("-MM", "A", "M", ASKED, "A", "A")]
#[case::the_issued_one_is_attached("---", "-", "M", ASKED, "M", "M")]
#[case::one_that_attached_itself_stays("-M-", "-", "-", ASKED, "M", "M")]
#[case::an_older_one_stays_until_the_new_is_issued("NNN", "-", "-", ASKED, "N", "N")]
#[case::removing_the_request_does_not_detach("MMM", "-", "-", DROPPED, "M", "M")]
#[case::another_than_came_of_a_dropped_request_is_drift("MZM", "-", "-", DROPPED, "M", "M")]
#[case::one_filled_in_is_not_ours("-XX", "-", "-", NEVER, "X", "-")]
#[case::one_attached_by_hand_is_drift("-C-", "-", "-", NEVER, "-", "-")]
#[case::dropping_ones_own_detaches("AAA", "-", "-", NEVER, "-", "-")]
#[case::a_managed_one_counts_only_if_asked_for("---", "-", "M", NEVER, "-", "-")]
fn the_certificate(
    #[case] held: &str,
    #[case] own: &str,
    #[case] issued: &'static str,
    #[case] asked: Asked,
    #[case] desired: &str,
    #[case] record: &str,
) {
    let some = |word: &str| Some(word.to_owned()).filter(|word| word != "-");
    let arn = |word: &str| some(word).map_or(json!({}), |arn| certificate(&arn));
    let (last, live, in_use) = (&held[..1], &held[1..2], &held[2..]);
    let mut world = World::of(arn(last), arn(live), arn(own));
    let request = request(ValidationTokenHost::Cloudfront);
    world.last.certificate_in_use = some(in_use);
    world.last.request = asked.last.then(|| request.clone());
    world.declared.managed_certificate_request = asked.spec.then_some(request);
    world.issued = Some(issued).filter(|word| *word != "-");
    let plan = world.plan(Enforce);
    let sent = plan.update.map(|update| update.body.certificate_arn);
    assert_eq!(sent, (desired != live).then_some(some(desired)));
    assert_eq!(plan.record.certificate_arn, some(record));
}

#[test]
fn drift_does_not_become_the_certificate_in_use() {
    let mut world = World::of(certificate("A"), certificate("C"), certificate("A"));
    world.last.certificate_in_use = Some("A".to_owned());
    assert_eq!(world.plan(Report).certificate_in_use.as_deref(), Some("A"));
    world.live.certificate_arn = Some("A".to_owned());
    assert_eq!(world.plan(Report).certificate_in_use.as_deref(), Some("A"));
}

#[test]
fn a_request_goes_out_when_it_changed_or_was_lost_and_not_otherwise() {
    let mut world = World::steady(json!({}));
    let asked = request(ValidationTokenHost::SelfHosted);
    world.declared.managed_certificate_request = Some(asked.clone());
    let sent = |world: &World| world.plan(Report).update.and_then(|update| update.request);
    assert_eq!(sent(&world), Some(asked.clone()));
    world.last.request = Some(asked.clone());
    assert_eq!(sent(&world), None);
    world.resend = true;
    assert_eq!(sent(&world), Some(asked));
    world.last.request = Some(request(ValidationTokenHost::Cloudfront));
    world.declared.managed_certificate_request = None;
    assert_eq!(sent(&world), None);
}

#[test]
fn an_edit_without_the_request_does_not_send_it() {
    let mut world = World::of(json!({}), json!({}), json!({"enabled": false}));
    let asked = Some(request(ValidationTokenHost::SelfHosted));
    world
        .declared
        .managed_certificate_request
        .clone_from(&asked);
    world.last.request = asked;
    assert_eq!(world.plan(Enforce).update.unwrap().request, None);
}

#[test]
fn drift_is_told_by_field_with_both_sides() {
    let world = World::of(domains("a"), domains("ax"), domains("a"));
    let drift = world.plan(Report).drift();
    let reason = drift_reason(&drift, Report);
    assert_eq!(reason.code, "DriftDetected");
    let told = "domains (want a.x, live a.x, x.x)";
    assert!(reason.message.contains(told), "{reason}");
    assert!(reason.message.contains("report"), "{reason}");
}

#[test]
fn a_plan_shows_three_sides() {
    let world = World::of(domains("a"), domains("ax"), domains("ab"));
    let sides = world.plan(Report).changes[0].sides();
    assert_eq!(sides.map(Option::unwrap), ["a.x, b.x", "a.x", "a.x, x.x"]);
}

/// A status without lastApplied, as cloudfront-tenant-operator leaves it.
fn inherited(observed: i64) -> DistributionTenantStatus {
    DistributionTenantStatus {
        id: Some("dt_1".to_owned()),
        observed_generation: Some(observed),
        ..DistributionTenantStatus::default()
    }
}

#[test]
fn what_was_accepted_before_us_is_last_applied() {
    let mut world = World::of(json!({}), domains("ax"), domains("a"));
    world
        .declared
        .tags
        .insert("team".to_owned(), "web".to_owned());
    world.last = Last::of(&inherited(3), Some(3), &world.declared, &world.live);
    assert_eq!(world.plan(Report).update, None);
    assert_eq!(world.plan(Report).drift().len(), 1);
    assert_eq!(world.last.tags, world.declared.tags);
}

#[test]
fn an_edit_from_before_us_is_an_edit() {
    let mut world = World::of(json!({}), domains("a"), domains("ab"));
    world.last = Last::of(&inherited(2), Some(3), &world.declared, &world.live);
    assert_eq!(letters(&world.sent(Report).unwrap()), "ab");
    assert_eq!(world.plan(Report).drift(), []);
}

#[test]
fn an_adopted_tenant_is_neither_moved_nor_stripped_where_the_spec_names_nothing() {
    let live = json!({"connectionGroupId": "cg7", "customizations": {"certificate": {"arn": "X"}}});
    for observed in [2, 3] {
        let mut world = World::of(json!({}), live.clone(), json!({}));
        world.last = Last::of(&inherited(observed), Some(3), &world.declared, &world.live);
        let plan = world.plan(Enforce);
        assert_eq!((plan.update, plan.changes), (None, vec![]));
        assert_eq!(plan.certificate_in_use.as_deref(), Some("X"));
    }
}

#[test]
fn a_request_that_was_sent_before_us_is_not_sent_again() {
    let mut world = World::of(json!({}), domains("a"), domains("ab"));
    world.declared.managed_certificate_request = Some(request(ValidationTokenHost::Cloudfront));
    let mut status = inherited(2);
    status.managed_certificate_status = Some("issued".to_owned());
    world.last = Last::of(&status, Some(3), &world.declared, &world.live);
    assert_eq!(world.plan(Enforce).update.unwrap().request, None);
}

#[test]
fn what_is_on_record_is_last_applied() {
    let applied = declared(&spec(json!({"tags": [{"key": "a"}]})), None);
    let status = DistributionTenantStatus {
        last_applied: Some(applied.clone()),
        certificate_arn: Some("A".to_owned()),
        ..inherited(9)
    };
    let last = Last::of(&status, Some(9), &TenantBody::default(), &Body::default());
    assert_eq!(last.body, Body::from(&applied));
    assert_eq!(last.tags, applied.tags);
    assert_eq!(last.certificate_in_use.as_deref(), Some("A"));
}

#[test]
fn an_update_without_effect_is_forgotten_once_its_fields_are_true() {
    let sent = World::steady(json!({"enabled": false}));
    let world = World::of(
        json!({"enabled": false}),
        json!({}),
        json!({"enabled": false}),
    );
    let now = jiff::Timestamp::UNIX_EPOCH;
    let known = Ineffective::next(None, &sent.live, &world.live, false, now).unwrap();
    for policy in [Enforce, Report, Suspend] {
        assert!(known.persists(&world.plan(policy)));
        assert!(!known.persists(&sent.plan(policy)));
        assert!(!known.persists(&World::steady(json!({})).plan(policy)));
    }
}

#[test]
fn drift_carried_along_does_not_become_the_certificate_in_use() {
    let arn = |enabled| {
        let mut live = certificate("C");
        live["enabled"] = json!(enabled);
        live
    };
    let world = World::of(json!({}), arn(true), json!({"enabled": false}));
    let [report, enforce] = [Report, Enforce].map(|policy| world.plan(policy));
    assert_eq!(report.in_use_after(&body(arn(false))), None);
    assert_eq!(enforce.in_use_after(&body(json!({}))), None);
    let edited = World::of(json!({}), json!({}), certificate("A"));
    let after = edited.plan(Report).in_use_after(&body(certificate("A")));
    assert_eq!(after.as_deref(), Some("A"));
}

#[test]
fn an_accepted_edit_leaves_the_drift_that_it_did_not_touch() {
    let world = World::of(
        json!({"domains": [{"domain": "a.x"}], "enabled": true}),
        json!({"domains": [{"domain": "a.x"}, {"domain": "x.x"}], "enabled": false}),
        json!({"domains": [{"domain": "a.x"}, {"domain": "b.x"}], "enabled": true}),
    );
    let plan = world.plan(DriftPolicy::Report);
    let sent = plan.update.clone().expect("an edit is sent").body;
    let left = plan.drift_left(&sent);
    let fields: Vec<_> = left.iter().map(|one| one.field.as_str()).collect();
    assert_eq!(fields, ["domains", "enabled"]);
    // Where all came out as declared, none is left.
    let declared = Body::from(&plan.record);
    assert_eq!(plan.drift_left(&declared), []);
}
