use serde_json::json;

use super::super::object::Origin;
use super::super::plan::Plan;
use super::super::rows::Tenants;
use super::*;

fn key() -> ObjectKey {
    ObjectKey::namespaced("team", "onboarding")
}

fn source(generation: i64) -> TenantSource {
    serde_json::from_value(json!({
        "metadata": {"name": "onboarding", "namespace": "team", "uid": "u", "generation": generation},
        "spec": {
            "provider": "configMap", "distributionId": "E1",
            "prune": {"enabled": true, "maxDeletePercent": 10, "confirmPolls": 2},
        },
    }))
    .unwrap()
}

fn missing(names: &[&str]) -> Vec<Missing> {
    let one = |name: &&str| Missing {
        name: (*name).to_owned(),
        uid: format!("uid-{name}"),
        version: 1,
    };
    names.iter().map(one).collect()
}

/// A reading of a table with rows for all objects but `gone`.
fn reading(gone: &[&str], marked: usize) -> Found {
    Found {
        origin: Origin::new(&source(1)),
        tenants: Tenants {
            rows: marked - gone.len(),
            ..Tenants::default()
        },
        plan: Plan {
            marked,
            missing: missing(gone),
            ..Plan::default()
        },
        abroad: 0,
    }
}

/// What becomes of objects if a reading at the beginning of time gives this.
fn judge(memory: &mut Memory, source: &TenantSource, found: &Found) -> Judged {
    memory.judge(source, found, Duration::ZERO)
}

/// The rest of a pass that did all it had to.
fn finish(memory: &mut Memory) {
    memory.begin();
    memory.end(&Done::default(), Duration::from_secs(300));
}

fn fresh() -> Memory {
    Polls::default().of(&key(), &source(1))
}

#[test]
fn the_second_reading_confirms() {
    let mut memory = fresh();
    let first = judge(&mut memory, &source(1), &reading(&["a"], 20));
    assert_eq!(first.verdict, Verdict::Unconfirmed);
    finish(&mut memory);
    let second = judge(&mut memory, &source(1), &reading(&["a"], 20));
    assert_eq!(second.verdict, Verdict::Delete(missing(&["a"])));
}

#[test]
fn reading_on_is_no_further_confirmation() {
    let mut memory = fresh();
    judge(&mut memory, &source(1), &reading(&["a"], 20));
    memory.begin();
    let again = judge(&mut memory, &source(1), &reading(&["a"], 20));
    assert_eq!(again.verdict, Verdict::Unconfirmed);
}

#[test]
fn what_has_its_row_again_while_reading_on_is_missed_anew() {
    let mut memory = fresh();
    judge(&mut memory, &source(1), &reading(&["a"], 20));
    memory.begin();
    judge(&mut memory, &source(1), &reading(&[], 20));
    finish(&mut memory);
    let again = judge(&mut memory, &source(1), &reading(&["a"], 20));
    assert_eq!(again.verdict, Verdict::Unconfirmed);
}

#[test]
fn work_that_never_ends_does_not_keep_readings_from_counting() {
    let mut memory = fresh();
    let interval = source(1).spec.poll_interval.length();
    memory.judge(&source(1), &reading(&["a"], 20), Duration::ZERO);
    memory.begin();
    let early = memory.judge(&source(1), &reading(&["a"], 20), interval / 2);
    assert_eq!(early.verdict, Verdict::Unconfirmed);
    let due = memory.judge(&source(1), &reading(&["a"], 20), interval);
    assert_eq!(due.verdict, Verdict::Delete(missing(&["a"])));
}

/// A reading in which a row names nobody.
fn nameless(gone: &[&str], marked: usize) -> Found {
    let mut found = reading(gone, marked);
    found.tenants.nameless = 1;
    found
}

#[test]
fn what_was_let_go_stays_while_a_row_names_nobody() {
    let mut memory = fresh();
    judge(&mut memory, &source(1), &reading(&["a"], 20));
    finish(&mut memory);
    let go = judge(&mut memory, &source(1), &reading(&["a"], 20));
    assert_eq!(go.verdict, Verdict::Delete(missing(&["a"])));
    memory.begin();
    let stay = judge(&mut memory, &source(1), &nameless(&["a"], 20));
    assert!(matches!(stay.verdict, Verdict::Blocked { .. }), "{stay:?}");
}

#[test]
fn what_was_approved_goes_bit_by_bit_though_a_row_names_nobody() {
    let source = approved_source(&["a", "b"]);
    let mut memory = fresh();
    let both = judge(&mut memory, &source, &nameless(&["a", "b"], 20));
    assert_eq!(both.verdict, Verdict::Delete(missing(&["a", "b"])));
    memory.begin();
    let rest = judge(&mut memory, &source, &nameless(&["b"], 19));
    assert_eq!(rest.verdict, Verdict::Delete(missing(&["b"])));
}

#[test]
fn another_spec_begins_anew_and_forgets_no_count() {
    let polls = Polls::default();
    let mut memory = polls.of(&key(), &source(1));
    judge(&mut memory, &source(1), &reading(&["a"], 20));
    finish(&mut memory);
    memory.untold.created = 3;
    polls.keep(&key(), memory);
    assert!(polls.of(&key(), &source(1)).due.is_some());
    let mut edited = polls.of(&key(), &source(2));
    assert_eq!((edited.due, edited.untold.created), (None, 3));
    let first = judge(&mut edited, &source(2), &reading(&["a"], 20));
    assert_eq!(first.verdict, Verdict::Unconfirmed);
    polls.forget(&key());
    assert_eq!(polls.of(&key(), &source(1)).due, None);
}

fn blocked_source(gone: &[&str]) -> TenantSource {
    let mut source = source(1);
    let status = json!({"planHash": prune::hash(&missing(gone))});
    source.status = serde_json::from_value(status).unwrap();
    source
}

#[test]
fn a_blocked_set_is_known_again_after_a_restart() {
    let gone = ["a", "b", "c"];
    let source = blocked_source(&gone);
    let judged = judge(&mut fresh(), &source, &reading(&gone, 10));
    assert!(matches!(judged.verdict, Verdict::Blocked { .. }));
    // Another set is not: it has to be missed twice by this process.
    let other = judge(&mut fresh(), &source, &reading(&["a", "b"], 10));
    assert_eq!(other.verdict, Verdict::Unconfirmed);
}

fn approved_source(gone: &[&str]) -> TenantSource {
    let mut source = blocked_source(gone);
    let approval = (names::APPROVE_PRUNE.to_owned(), prune::hash(&missing(gone)));
    source.metadata.annotations = Some([approval].into());
    source
}

#[test]
fn what_was_approved_may_be_deleted_bit_by_bit() {
    let source = approved_source(&["a", "b", "c"]);
    let mut memory = fresh();
    let judged = judge(&mut memory, &source, &reading(&["a", "b", "c"], 10));
    assert_eq!(judged.verdict, Verdict::Delete(missing(&["a", "b", "c"])));
    memory.begin();
    let rest = judge(&mut memory, &source, &reading(&["b", "c"], 9));
    assert_eq!(rest.verdict, Verdict::Delete(missing(&["b", "c"])));
    // A row that came back takes its object out of what was approved.
    let one = judge(&mut memory, &source, &reading(&["c"], 9));
    assert!(matches!(one.verdict, Verdict::Delete(_)));
    let both = judge(&mut memory, &source, &reading(&["b", "c"], 9));
    assert!(!matches!(both.verdict, Verdict::Delete(set) if set.len() == 2));
}

#[test]
fn what_is_unfinished_is_due_at_once() {
    let mut memory = fresh();
    finish(&mut memory);
    assert_eq!(memory.due, Some(Duration::from_secs(300)));
    memory.begin();
    let left = Done {
        later: 1,
        ..Done::default()
    };
    memory.end(&left, Duration::from_secs(600));
    assert_eq!((memory.due, memory.unfinished), (None, true));
}

#[test]
fn what_was_done_is_kept_until_it_is_told() {
    let mut memory = fresh();
    let done = Done {
        created: vec!["a".into()],
        pruned: vec!["b".into(), "c".into()],
        ..Done::default()
    };
    memory.count(&done);
    memory.count(&done);
    let tally = Tally {
        created: 2,
        updated: 0,
        pruned: 4,
    };
    assert_eq!(memory.untold, tally);
    memory.end(&Done::default(), Duration::ZERO);
    assert_eq!(memory.untold, Tally::default());
}
