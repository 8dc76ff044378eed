use std::collections::BTreeMap;

use jiff::ToSpan as _;
use kernel::is_true;
use rstest::rstest;
use serde_json::json;

use super::super::object::Origin;
use super::super::plan::Plan;
use super::super::rows::Tenants;
use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn source(status: Option<TenantSourceStatus>) -> TenantSource {
    let mut source: TenantSource = serde_json::from_value(json!({
        "metadata": {"name": "onboarding", "namespace": "team", "generation": 3},
        "spec": {"provider": "configMap", "distributionId": "E1"},
    }))
    .unwrap();
    source.status = status;
    source
}

fn missing(names: &[&str]) -> Vec<Missing> {
    let one = |name: &&str| Missing {
        name: (*name).to_owned(),
        uid: format!("uid-{name}"),
        version: 1,
    };
    names.iter().map(one).collect()
}

fn judged(verdict: Verdict) -> Judged {
    Judged {
        verdict,
        misses: BTreeMap::from([("uid-a".to_owned(), 1)]),
    }
}

fn read(report: Report) -> Outcome {
    let pruning = Pruning::new(&judged(Verdict::UpToDate), &[], 2, false);
    Outcome::Read(Report { pruning, ..report })
}

fn two_tenants() -> Report {
    Report {
        rows: 3,
        tenants: 2,
        ..Report::default()
    }
}

fn condition<'a>(status: &'a TenantSourceStatus, kind: &str) -> &'a Condition {
    find(&status.conditions, kind).unwrap()
}

#[test]
fn a_first_reading_says_what_it_found() {
    let made = Report {
        tally: Tally {
            created: 2,
            ..Tally::default()
        },
        ..two_tenants()
    };
    let status = status(&source(None), &read(made), at(100)).unwrap();
    assert_eq!(status.last_poll_time, Some(Time(at(100))));
    let counts = (
        status.tenants_discovered,
        status.tenants_created,
        status.tenants_pruned,
    );
    assert_eq!(counts, (Some(2), Some(2), Some(0)));
    assert!(is_true(&status.conditions, "Ready") && is_true(&status.conditions, "Pruned"));
    let ready = condition(&status, "Ready");
    assert_eq!(
        (&*ready.reason, &*ready.message),
        ("Polled", "2 tenants in 3 rows")
    );
    assert_eq!(condition(&status, "Pruned").reason, "UpToDate");
}

#[test]
fn the_same_again_is_written_hourly() {
    let first = status(&source(None), &read(two_tenants()), at(0)).unwrap();
    let steady = source(Some(first.clone()));
    let again = |now: Timestamp| status(&steady, &read(two_tenants()), now);
    assert_eq!(again(at(0) + 59.minutes()), None);
    let later = again(at(0) + 60.minutes()).unwrap();
    let wanted = TenantSourceStatus {
        last_poll_time: Some(Time(at(3600))),
        ..first
    };
    assert_eq!(later, wanted);
}

#[test]
fn a_new_outcome_is_written_at_once() {
    let first = status(&source(None), &read(two_tenants()), at(0)).unwrap();
    let more = Report {
        rows: 4,
        ..two_tenants()
    };
    let now = status(&source(Some(first)), &read(more), at(60)).unwrap();
    assert_eq!(now.last_poll_time, Some(Time(at(60))));
}

#[test]
fn totals_add_up() {
    let tally = Tally {
        created: 1,
        updated: 2,
        pruned: 3,
    };
    let did = || Report {
        tally,
        ..two_tenants()
    };
    let first = status(&source(None), &read(did()), at(0)).unwrap();
    let second = status(&source(Some(first)), &read(did()), at(1)).unwrap();
    let totals = [
        second.tenants_created,
        second.tenants_updated,
        second.tenants_pruned,
    ];
    assert_eq!(totals, [Some(2), Some(4), Some(6)]);
}

#[test]
fn a_failed_reading_changes_one_condition_alone() {
    let first = status(&source(None), &read(two_tenants()), at(0)).unwrap();
    let failed = Outcome::Unread("the database is away".to_owned());
    let now = status(&source(Some(first.clone())), &failed, at(7200)).unwrap();
    let ready = condition(&now, "Ready");
    assert_eq!((&*ready.status, &*ready.reason), ("False", "PollFailed"));
    assert_eq!(ready.message, "the database is away; nothing was changed");
    let wanted = TenantSourceStatus {
        conditions: now.conditions.clone(),
        ..first.clone()
    };
    assert_eq!(now, wanted);
    assert_eq!(condition(&now, "Pruned"), condition(&first, "Pruned"));
    assert_eq!(status(&source(Some(now)), &failed, at(9999)), None);
}

#[test]
fn a_refusal_names_who_refuses() {
    let reason = Reason::new(reasons::POLICY_DENIED, "nobody accepts it");
    let status = status(&source(None), &Outcome::Denied(reason), at(0)).unwrap();
    assert_eq!(condition(&status, "Ready").reason, "PolicyDenied");
    assert_eq!(status.last_poll_time, None);
}

#[test]
fn wrong_rows_are_listed_up_to_the_cap_and_counted() {
    let errors: Vec<String> = (1..=30).map(|n| format!("row {n}: wrong")).collect();
    let report = Report {
        errors,
        ..two_tenants()
    };
    let status = status(&source(None), &read(report), at(0)).unwrap();
    assert_eq!(status.row_errors.len(), 20);
    assert_eq!(status.row_errors[0], "row 1: wrong");
    let ready = condition(&status, "Ready");
    assert_eq!((&*ready.status, &*ready.reason), ("False", "RowsInvalid"));
    assert!(
        ready
            .message
            .starts_with("30 errors, and their tenants are left alone"),
        "{}",
        ready.message
    );
    assert!(ready.message.contains("row 1: wrong"), "{}", ready.message);
}

#[test]
fn an_object_that_cannot_be_made_or_deleted_is_told_with_what_to_do() {
    let source = source(None);
    let found = Found {
        origin: Origin::new(&source),
        tenants: Tenants::default(),
        plan: Plan {
            missing: missing(&["a"]),
            ..Plan::default()
        },
        abroad: 0,
    };
    let done = Done {
        refused: vec![("new".to_owned(), "too long".to_owned())],
        undeletable: vec![("a".to_owned(), "forbidden".to_owned())],
        ..Done::default()
    };
    let judged = judged(Verdict::Delete(missing(&["a"])));
    let report = Report::new(&found, &judged, &done, Tally::default(), &source.spec);
    let status = status(&source, &Outcome::Read(report), at(0)).unwrap();
    let said = [
        "tenant new: its object is not taken: too long; correct its rows or the template",
        "tenant a: its object has no row and cannot be deleted: forbidden; let the operator \
         delete it, or delete it by hand",
    ];
    assert_eq!(status.row_errors, said);
    assert_eq!(condition(&status, "Ready").reason, "RowsInvalid");
    // It is no work left over: the next reading tries again.
    let message = &condition(&status, "Ready").message;
    assert!(!message.contains("still to be made"), "{message}");
}

#[test]
fn lists_are_bounded() {
    let many = |n: usize| pending(ChangeAction::Create, format!("t{n}"), "for a");
    let long = "x".repeat(10_000);
    let report = Report {
        pending: (0..150).map(many).collect(),
        errors: vec![long],
        ..two_tenants()
    };
    let status = status(&source(None), &read(report), at(0)).unwrap();
    assert_eq!(status.pending_changes.len(), 100);
    assert!(status.row_errors[0].len() <= LINE);
}

#[test]
fn a_dry_run_says_what_would_be() {
    let report = Report {
        would: Some((2, 1)),
        conflicts: 1,
        left: 4,
        abroad: 3,
        ..two_tenants()
    };
    let (holds, reason) = read(report).ready();
    assert!(holds);
    assert_eq!(
        reason.message,
        "2 tenants in 3 rows; a dry run: 2 objects would be made and 1 changed, and none is; \
         1 objects are in the way, see pendingChanges; 4 changes are still to be made; \
         3 objects of this source are in other namespaces and are left alone"
    );
}

#[rstest]
#[case::up_to_date(Verdict::UpToDate, &[], false, true, "UpToDate", "every object")]
#[case::disabled(Verdict::Disabled, &["a"], false, false, "PruneDisabled", "a; set prune.enabled")]
#[case::waiting(Verdict::Unconfirmed, &["a"], false, true, "UpToDate", "once 2 readings in a row")]
#[case::deleted(Verdict::Delete(missing(&["a"])), &[], false, true, "UpToDate", "every object")]
#[case::dry_run(Verdict::Delete(missing(&["a"])), &["a"], true, true, "UpToDate", "a dry run")]
fn objects_without_a_row_are_told(
    #[case] verdict: Verdict,
    #[case] kept: &[&str],
    #[case] dry: bool,
    #[case] holds: bool,
    #[case] reason: &str,
    #[case] said: &str,
) {
    let pruning = Pruning::new(&judged(verdict), &missing(kept), 2, dry);
    assert_eq!((pruning.holds, pruning.reason), (holds, reason));
    assert!(pruning.message.contains(said), "{}", pruning.message);
    assert_eq!(pruning.hash, None);
}

#[test]
fn what_is_blocked_says_how_to_approve_it() {
    let verdict = Verdict::Blocked {
        set: missing(&["a", "b"]),
        hash: "abc123".into(),
        why: Objection::Nameless(1),
    };
    let pruning = Pruning::new(&judged(verdict), &missing(&["a", "b"]), 2, false);
    assert_eq!((pruning.holds, pruning.reason), (false, "PruneBlocked"));
    assert_eq!(pruning.hash.as_deref(), Some("abc123"));
    let why = "none is deleted, because 1 rows name no tenant, and may be theirs: a, b;";
    assert!(pruning.message.contains(why), "{}", pruning.message);
    let command = "cloudfront-tenant-operator.io/approve-prune=abc123";
    assert!(pruning.message.ends_with(command), "{}", pruning.message);
    let listed = pruning.pending[0].description.as_deref();
    assert_eq!(listed, Some("1 of 2 readings missed its row"));
    assert_eq!(pruning.pending[0].action, ChangeAction::Delete);
}

#[test]
fn a_warning_comes_when_reason_or_message_change() {
    let said = |reason: &str, message: &str| {
        let mut set = Conditions::new(&[], Some(1), at(0));
        set.no("Ready", &Reason::new(reason.to_owned(), message));
        set.into_parts().0
    };
    let failed = said(reasons::POLL_FAILED, "away");
    let note = Note::warning(reasons::POLL_FAILED, "away");
    assert_eq!(warnings(&[], &failed), [note]);
    assert_eq!(warnings(&failed, &failed), []);
    assert_eq!(
        warnings(&failed, &said(reasons::POLL_FAILED, "otherwise")).len(),
        1
    );
    assert_eq!(warnings(&[], &said(reasons::POLLED, "well")), []);
    let mut set = Conditions::new(&failed, Some(1), at(1));
    set.no("Pruned", &Reason::new(reasons::PRUNE_DISABLED, "off"));
    assert_eq!(warnings(&failed, &set.into_parts().0), []);
    let mut set = Conditions::new(&failed, Some(1), at(1));
    set.no("Pruned", &Reason::new(reasons::PRUNE_BLOCKED, "too many"));
    assert_eq!(warnings(&failed, &set.into_parts().0).len(), 1);
}
