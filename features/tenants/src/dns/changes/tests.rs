use rstest::rstest;

use super::*;

const AT: Duration = Duration::from_secs(100);

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("web", name)
}

fn followed() -> Changes {
    let changes = Changes::default();
    for name in ["a", "b"] {
        changes.follow("C1", &Login::default(), &key(name), AT);
    }
    changes
}

fn failed(fault: Fault) -> Told {
    Told::Failed {
        fault,
        text: "no".to_owned(),
    }
}

/// Polls once, when that is due: after how many seconds, and how many are woken.
fn poll(changes: &Changes, now: &mut Duration, told: Told) -> (u64, usize) {
    let (_, next) = changes.due(*now);
    let next = next.unwrap_or(*now);
    let waited = next.saturating_sub(*now).as_secs();
    *now = next;
    (waited, changes.told("C1", told, next, 0.5).len())
}

#[test]
fn many_who_wait_for_one_change_are_one_poll() {
    let changes = followed();
    assert!(changes.due(AT).0.is_empty());
    let (due, _) = changes.due(AT + FIRST);
    assert_eq!(due.len(), 1);
    let woken = changes.told("C1", Told::InSync, AT + FIRST, 0.5);
    assert_eq!(woken, [key("a"), key("b")].into());
    assert!(changes.ended(["C1"]).insync.contains("C1"));
}

#[test]
fn polls_become_rarer() {
    let (changes, mut now) = (followed(), AT);
    let polls = [(); 5].map(|()| poll(&changes, &mut now, Told::Pending));
    assert_eq!(polls, [5, 10, 20, 30, 30].map(|wait| (wait, 0)));
}

#[test]
fn a_lost_change_wakes_those_who_wait() {
    let changes = followed();
    assert_eq!(changes.told("C1", Told::Lost, AT, 0.5).len(), 2);
    assert!(changes.ended(["C1"]).lost.contains("C1"));
}

#[test]
fn who_comes_after_the_end_of_a_change_is_told_so() {
    let changes = followed();
    let late = |changes: &Changes| changes.follow("C1", &Login::default(), &key("late"), AT);
    assert!(!late(&changes));
    changes.told("C1", Told::InSync, AT, 0.5);
    assert!(late(&changes));
}

#[rstest]
#[case::in_sync(Told::InSync)]
#[case::lost(Told::Lost)]
fn who_knows_of_the_end_of_a_change_is_not_woken_for_it(#[case] told: Told) {
    let changes = followed();
    let pending = BTreeMap::from([("C1", Login::default())]);
    let follow = |known: &Ended| changes.follow_all(&pending, known, &key("a"), AT);
    let before = changes.ended(["C1"]);
    assert!(!follow(&before), "it is under way");
    changes.told("C1", told, AT, 0.5);
    assert!(follow(&before), "it came to its end since");
    assert!(!follow(&changes.ended(["C1"])));
}

#[test]
fn the_end_of_a_change_is_forgotten_after_a_while() {
    let changes = followed();
    changes.told("C1", Told::InSync, AT, 0.5);
    changes.due(AT + REMEMBERED);
    assert!(changes.ended(["C1"]).insync.is_empty());
}

#[rstest]
#[case::denied(Fault::Denied, &[(5, 2), (300, 0), (300, 0)], true)]
#[case::without_credentials(Fault::Credentials, &[(5, 2), (60, 0)], true)]
#[case::broken(Fault::Passing, &[(5, 0), (5, 0), (5, 2), (5, 0), (8, 0), (16, 0)], true)]
#[case::throttled(Fault::Throttled, &[(5, 0), (60, 0), (60, 0), (60, 0)], false)]
fn those_who_wait_hear_once_that_nobody_tells(
    #[case] fault: Fault,
    #[case] polls: &[(u64, usize)],
    #[case] told: bool,
) {
    let (changes, mut now) = (followed(), AT);
    for expected in polls {
        assert_eq!(poll(&changes, &mut now, failed(fault)), *expected);
    }
    assert_eq!(changes.ended(["C1"]).untold.contains_key("C1"), told);
    // When somebody does, they hear of that, and still of the end.
    let woken = if told { 2 } else { 0 };
    assert_eq!(poll(&changes, &mut now, Told::Pending).1, woken);
    assert!(changes.ended(["C1"]).untold.is_empty());
    assert_eq!(poll(&changes, &mut now, Told::InSync).1, 2);
}

#[test]
fn an_edit_asks_at_once_for_what_nobody_told() {
    let (changes, mut now) = (followed(), AT);
    poll(&changes, &mut now, failed(Fault::Denied));
    assert!(changes.due(now).0.is_empty());
    changes.look_again(&key("c"), now);
    assert!(changes.due(now).0.is_empty(), "it waits for another");
    changes.look_again(&key("a"), now);
    assert_eq!(changes.due(now).0.len(), 1);
}
