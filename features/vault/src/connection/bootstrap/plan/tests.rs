use rstest::rstest;
use serde_json::json;

use super::*;

const OURS: &str = "managed-by=vault-access-operator identity=prod connection=c";
const HOST: &str = "https://api.prod:6443";
const NOW: i64 = 1_000;

/// What is asked for by `bootstrap`, with everything else as usual.
fn wished<T>(bootstrap: Value, decide: impl FnOnce(&Wish<'_>) -> T) -> T {
    let mut whole = json!({"secretRef": {"name": "n", "namespace": "m", "key": "k"}});
    for (field, value) in bootstrap.as_object().unwrap() {
        whole[field] = value.clone();
    }
    let auth = json!({"role": "operator", "authPath": "auth/k8s/", "kubernetesHost": HOST});
    decide(&Wish {
        auth: &serde_json::from_value(auth).unwrap(),
        bootstrap: &serde_json::from_value(whole).unwrap(),
        marker: &MountMarker {
            identity: "prod".into(),
            connection: "c".into(),
        },
        ca_pem: "CA of prod\n",
        now: Timestamp::from_second(NOW).unwrap(),
    })
}

fn next_for(bootstrap: Value, status: Value, seen: impl Into<Option<Seen>>) -> Step {
    let seen = seen.into();
    let status = serde_json::from_value(status).unwrap();
    wished(bootstrap, |wish| next(wish, &status, seen.as_ref()))
}

/// A status with these steps on record.
fn on_record(steps: &[&str]) -> Value {
    let steps: Map<String, Value> = steps
        .iter()
        .map(|step| ((*step).to_owned(), json!("2026-01-02T03:04:05Z")))
        .collect();
    json!({ "bootstrapSteps": steps })
}

const MOUNT: &str = "AuthMountEnabled";
const CONFIG: &str = "AuthMountConfigured";
const POLICY: &str = "OperatorPolicyCreated";
const ROLE: &str = "OperatorRoleCreated";

fn mount(description: &str, config: Option<(&str, &str)>) -> SeenMount {
    let config = config.map(|(host, ca)| {
        let config = json!({"kubernetes_host": host, "kubernetes_ca_cert": ca});
        serde_json::from_value(config).unwrap()
    });
    SeenMount {
        kind: KUBERNETES.into(),
        description: description.into(),
        config,
    }
}

fn seen(mount: impl Into<Option<SeenMount>>, policy: bool, role: bool) -> Seen {
    Seen {
        mount: mount.into(),
        policy,
        role,
    }
}

/// Ours, and configured for us.
fn whole() -> SeenMount {
    mount(OURS, Some((HOST, "CA of prod")))
}

#[rstest]
//                                 on record                                  seen                                          step
#[case::nothing_is_there(                    on_record(&[]),                            seen(None, false, false),                     Step::Make(Part::Mount))]
#[case::a_mount_whose_record_was_lost(       on_record(&[]),                            seen(mount(OURS, None), false, false),        Step::Note(Part::Mount))]
#[case::a_mount_that_vanished(               on_record(&[MOUNT, CONFIG, POLICY, ROLE]), seen(None, true, false),                      Step::Make(Part::Mount))]
#[case::a_mount_without_configuration(       on_record(&[MOUNT]),                       seen(mount(OURS, None), false, false),        Step::Make(Part::Config))]
#[case::a_configuration_of_unknown_token(    on_record(&[MOUNT]),                       seen(whole(), true, true),                    Step::Make(Part::Config))]
#[case::another_host_since(                  on_record(&[MOUNT, CONFIG]),               seen(mount(OURS, Some(("https://typo", "CA of prod"))), true, true), Step::Make(Part::Config))]
#[case::another_ca_since(                    on_record(&[MOUNT, CONFIG]),               seen(mount(OURS, Some((HOST, "older"))), true, true), Step::Make(Part::Config))]
#[case::no_policy(                           on_record(&[MOUNT, CONFIG]),               seen(whole(), false, true),                   Step::Make(Part::Policy))]
#[case::a_policy_that_was_there(             on_record(&[MOUNT, CONFIG]),               seen(whole(), true, false),                   Step::Note(Part::Policy))]
#[case::no_role(                             on_record(&[MOUNT, CONFIG, POLICY]),       seen(whole(), true, false),                   Step::Make(Part::Role))]
#[case::a_role_whose_record_was_lost(        on_record(&[MOUNT, CONFIG, POLICY]),       seen(whole(), true, true),                    Step::Note(Part::Role))]
#[case::all_is_there(                        on_record(&[MOUNT, CONFIG, POLICY, ROLE]), seen(whole(), true, true),                    Step::Test)]
#[case::the_test_failed_before(              on_record(&[MOUNT, CONFIG, POLICY, ROLE, TEST_FAILED]), seen(whole(), true, true),       Step::Test)]
#[case::the_record_makes_a_mount_ours(       on_record(&[MOUNT]),                       seen(mount("", Some(("https://typo", ""))), false, false), Step::Make(Part::Config))]
fn the_first_thing_missing_is_made(
    #[case] status: Value,
    #[case] seen: Seen,
    #[case] expected: Step,
) {
    let nothing_seen = next_for(json!({}), status.clone(), None);
    assert_eq!(nothing_seen, Step::Look);
    assert_eq!(next_for(json!({}), status, seen), expected);
}

#[rstest] //                                 adopt   mount of others                                    step
#[case::for_another_host(                    false, Some(("https://other", "CA of prod")),  Step::Refuse(Refusal::NotOurs("https://other".into())))]
#[case::for_a_namesake_with_another_ca(      false, Some((HOST, "CA of test")),             Step::Refuse(Refusal::NotOurs(HOST.into())))]
#[case::for_our_host_is_used_as_it_is(       false, Some((HOST, "CA of prod")),             Step::Make(Part::Policy))]
#[case::for_our_host_written_otherwise(      false, Some(("HTTPS://Api.prod:6443/", "")),   Step::Make(Part::Policy))]
#[case::that_nobody_configured(false, None, Step::Make(Part::Config))]
#[case::for_another_host_but_adopted(        true,  Some(("https://other", "CA of test")),  Step::Make(Part::Config))]
fn a_mount_of_others_is_touched_only_if_it_serves_nobody_or_we_adopt_it(
    #[case] adopt: bool,
    #[case] config: Option<(&str, &str)>,
    #[case] expected: Step,
) {
    for description in [
        "",
        "managed-by=vault-access-operator identity=prod connection=d",
    ] {
        let seen = seen(mount(description, config), false, false);
        let step = next_for(json!({ "adoptMount": adopt }), on_record(&[]), seen);
        assert_eq!(step, expected);
    }
}

#[test]
fn a_mount_of_another_type_is_refused_even_if_marked_recorded_and_adopted() {
    let jwt = SeenMount {
        kind: "jwt".into(),
        ..mount(OURS, None)
    };
    let step = next_for(
        json!({"adoptMount": true}),
        on_record(&[MOUNT]),
        seen(jwt, true, true),
    );
    assert_eq!(step, Step::Refuse(Refusal::OtherType("jwt".into())));
}

#[test]
fn an_adopted_mount_is_never_recorded_as_enabled() {
    let theirs = seen(mount("theirs", Some((HOST, "CA of prod"))), true, true);
    let step = next_for(
        json!({"adoptMount": true}),
        on_record(&[CONFIG, POLICY, ROLE]),
        theirs,
    );
    assert_eq!(step, Step::Test);
}

#[rstest]
#[case::ended(NOW, Step::Make(Part::Config))]
#[case::alive(NOW + 1, Step::Test)]
fn a_reviewer_token_that_ended_before_the_test_is_replaced(
    #[case] end: i64,
    #[case] expected: Step,
) {
    let mut status = on_record(&[MOUNT, CONFIG, POLICY, ROLE]);
    let end = Timestamp::from_second(end).unwrap();
    status["tokenReviewerExpiration"] = json!(end.to_string());
    assert_eq!(
        next_for(json!({}), status, seen(whole(), true, true)),
        expected
    );
}

#[rstest] //                          auto   steps                            step
#[case::the_token_is_revoked(         true,  json!({}),                       Step::Revoke)]
#[case::and_only_once(                true,  json!({REVOKED: "t"}),           Step::Done)]
#[case::as_the_predecessor_noted(     true,  json!({REVOKED: true}),          Step::Done)]
#[case::again_after_a_failure(        true,  json!({REVOKE_FAILED: "t"}),     Step::Revoke)]
#[case::or_left_alone_as_told(        false, json!({}),                       Step::Done)]
fn once_complete_nothing_is_looked_at(
    #[case] auto_revoke: bool,
    #[case] steps: Value,
    #[case] expected: Step,
) {
    let status = json!({"bootstrapComplete": true, "bootstrapSteps": steps});
    let bootstrap = json!({ "autoRevoke": auto_revoke });
    assert_eq!(
        next_for(bootstrap.clone(), status.clone(), None),
        expected.clone()
    );
    let empty = seen(None, false, false);
    assert_eq!(next_for(bootstrap, status, empty), expected);
}

#[test]
fn a_refusal_names_mount_owner_and_remedy() {
    let reason = wished(json!({}), |wish| {
        Refusal::NotOurs("https://other".into()).reason(wish)
    });
    assert_eq!(reason.code, "MountNotOurs");
    for word in [
        "auth/k8s",
        "https://other",
        HOST,
        "VaultConnection c",
        "adoptMount",
    ] {
        assert!(reason.message.contains(word), "{reason}");
    }
    let reason = wished(json!({}), |wish| {
        Refusal::OtherType("jwt".into()).reason(wish)
    });
    assert_eq!(reason.code, "MountTypeMismatch");
    assert!(reason.message.contains("type jwt"), "{reason}");
}

#[rstest]
#[case("https://a", "https://a/", true)]
#[case("https://a:443", "https://A", true)]
#[case("https://a:6443", "https://a", false)]
#[case("http://a:443", "http://a", false)]
#[case("https://[::1]:443", "https://[::1]", true)]
#[case("", "https://a", false)]
fn hosts(#[case] one: &str, #[case] other: &str, #[case] same: bool) {
    assert_eq!(same_host(one, other), same);
}

#[test]
fn line_ends_make_no_other_certificate() {
    assert!(same_pem("a\r\nb\r\n\r\n", " a\nb"));
    assert!(!same_pem("a\nb", "b\na"));
}
