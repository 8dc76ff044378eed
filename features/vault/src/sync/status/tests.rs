use api::vault::{PolicyStatus, RoleStatus, VaultClusterRole, VaultPolicy, VaultRole};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rstest::rstest;
use serde_json::json;

use super::*;

/// What a pass found or wrote at the place of the policy.
fn applied(wrote: bool, hash: &str, sent: &str) -> Applied {
    Applied {
        wrote,
        records: vec![Record {
            place: Place::parse("sys/policies/acl/app").unwrap(),
            slot: None,
            hash: Some(hash.to_owned()),
            sent: Some(sent.to_owned()),
            owner: None,
            connection: None,
        }],
        ..Applied::default()
    }
}

#[rstest] //                                  canonical  sent         wrote  sent or found   now
#[case::the_first_write(                      None,      None,        true,  "new text",     "new text")]
#[case::an_edit(                              Some("a"), Some("old"), true,  "new text",     "new text")]
#[case::an_edit_whose_answer_was_lost(        Some("a"), Some("old"), false, "new text",     "new text")]
#[case::nothing_changed_but_the_layout(       Some("b"), Some("old"), false, "other layout", "old")]
#[case::a_text_of_the_predecessor_found_equal(None,      Some("old"), false, "old",          "old")]
#[case::the_first_edit_after_the_predecessor( None,      Some("old"), false, "new text",     "new text")]
#[rustfmt::skip]
fn last_applied_is_what_was_sent_last(
    #[case] canonical: Option<&str>,
    #[case] sent: Option<&str>,
    #[case] wrote: bool,
    #[case] text: &str,
    #[case] expected: &str,
) {
    let mut status = PolicyStatus::default();
    status.sync.last_applied_canonical_hash = canonical.map(str::to_owned);
    status.sync.last_applied_hash = sent.map(str::to_owned);
    recorded::<VaultPolicy>(&mut status, &applied(wrote, "b", text), Timestamp::UNIX_EPOCH);
    assert_eq!(status.sync.last_applied_hash.as_deref(), Some(expected));
    assert_eq!(status.sync.last_applied_canonical_hash.as_deref(), Some("b"));
}

#[test]
fn what_a_predecessor_sent_for_a_role_stays_recorded() {
    let mut status = RoleStatus::default();
    status.sync.last_applied_hash = Some("old".to_owned());
    let mut applied = applied(false, "b", "new");
    applied.records[0].place = Place::parse(ROLE).unwrap();
    recorded::<VaultRole>(&mut status, &applied, Timestamp::UNIX_EPOCH);
    assert_eq!(status.sync.last_applied_hash.as_deref(), Some("old"));
}

/// A status with drift, if `mode` is given, in that mode, and Ready=False for this reason.
fn drifting(mode: Option<&str>, reason: &str) -> SyncStatus {
    let condition = |kind: &str, status: &str, reason: &str| -> Condition {
        serde_json::from_value(json!({
            "type": kind, "status": status, "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }))
        .unwrap()
    };
    let mut sync = SyncStatus {
        conditions: vec![condition(conditions::READY, "False", reason)],
        ..SyncStatus::default()
    };
    if let Some(mode) = mode {
        sync.drift_detected = Some(true);
        sync.effective_drift_mode = serde_json::from_value(json!(mode)).unwrap();
    }
    sync
}

#[rstest]
#[case::new_drift(drifting(None, reasons::SUCCEEDED), true)]
#[case::still_blocked(drifting(Some("correct"), reasons::DRIFT_BLOCKED), false)]
#[case::after_an_outage(drifting(Some("correct"), reasons::CONNECTION_NOT_READY), false)]
#[case::only_reported_so_far(drifting(Some("detect"), reasons::SUCCEEDED), true)]
#[case::new_drift_after_an_outage(drifting(None, reasons::CONNECTION_NOT_READY), true)]
fn a_drift_that_is_blocked_counts_once(#[case] before: SyncStatus, #[case] counts: bool) {
    let after = drifting(Some("correct"), reasons::DRIFT_BLOCKED);
    assert_eq!(is_newly_blocked(&before, &after), counts);
    let gone = drifting(None, reasons::SUCCEEDED);
    assert!(!is_newly_blocked(&before, &gone));
}

#[rstest]
#[case::compared(true, DriftMode::Correct)]
#[case::stopped_before(false, DriftMode::Detect)]
fn a_mode_is_stored_by_the_pass_that_compared(#[case] compared: bool, #[case] expected: DriftMode) {
    let applied = if compared {
        applied(false, "b", "text")
    } else {
        Applied::default()
    };
    let mut sync = drifting(Some("detect"), reasons::SUCCEEDED);
    let now = Timestamp::UNIX_EPOCH;
    let mut set = Conditions::new(&sync.conditions, Some(1), now);
    let mode = Some(DriftMode::Correct);
    drifted(&mut sync, mode, &applied, &mut set, now);
    assert_eq!(sync.effective_drift_mode, Some(expected));
}

#[rstest]
#[case::written(true, true)]
#[case::only_found(false, false)]
fn what_was_written_is_on_record_though_nothing_is_reported(
    #[case] wrote: bool,
    #[case] records: bool,
) {
    let (before, now) = (PolicyStatus::default(), Timestamp::UNIX_EPOCH);
    let applied = applied(wrote, "b", "text");
    let after = with_record::<VaultPolicy>(&before, &applied, now);
    let binding = after.and_then(|after| after.sync.binding);
    assert_eq!(binding.is_some(), records);
}

const ROLE: &str = "auth/kubernetes/role/r";

#[rstest]
#[case::a_refusal_is_an_answer(Some(ROLE), false)]
#[case::of_another_role(Some("auth/kubernetes/role/s"), true)]
#[case::a_lost_answer_is_none(None, true)]
fn an_intent_ends_with_the_refusal_of_its_write(
    #[case] refused: Option<&str>,
    #[case] stays: bool,
) {
    let mut sync = SyncStatus::default();
    announced(&mut sync, create(ROLE));
    let applied = Applied {
        refused: refused.into_iter().map(str::to_owned).collect(),
        ..Applied::default()
    };
    close_refused(&mut sync, &applied);
    assert_eq!(sync.intent.is_some(), stays);
    // Phase Syncing goes with an open intent.
    assert_eq!(sync.phase == Some(Phase::Syncing), stays);
}

#[test]
fn a_refused_intent_ends_though_nothing_is_reported() {
    let mut before = RoleStatus::default();
    announced(&mut before.sync, create(ROLE));
    let applied = Applied {
        refused: vec![ROLE.to_owned()],
        ..Applied::default()
    };
    let after = with_record::<VaultRole>(&before, &applied, Timestamp::UNIX_EPOCH);
    assert_eq!(after.unwrap().sync.intent, None);
}

#[test]
fn one_write_records_a_role_and_announces_the_next() {
    let mut status = RoleStatus::default();
    announced(&mut status.sync, create(ROLE));
    let applied = Applied {
        wrote: true,
        records: vec![Record {
            place: Place::parse(ROLE).unwrap(),
            slot: Some("team-a".to_owned()),
            hash: None,
            sent: None,
            owner: None,
            connection: None,
        }],
        ..Applied::default()
    };
    let next = create("auth/kubernetes/role/s");
    go_on::<VaultClusterRole>(&mut status, &applied, &next, Timestamp::UNIX_EPOCH);
    assert_eq!(status.vault_role_names.len(), 1);
    // Phase Syncing goes with an open intent.
    assert_eq!(status.sync.intent, Some(next));
    assert_eq!(status.sync.phase, Some(Phase::Syncing));
}

fn create(path: &str) -> Intent {
    Intent {
        vault_path: Some(path.to_owned()),
        kind: Some(IntentKind::Create),
        ..Intent::default()
    }
}
