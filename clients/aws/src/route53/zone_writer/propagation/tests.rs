use rstest::rstest;

use super::*;

const AT: Duration = Duration::from_secs(100);

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("web", name)
}

fn followed() -> Propagation {
    let changes = Propagation::default();
    for name in ["a", "b"] {
        changes.follow("C1", &ZoneRole::default(), &key(name), AT);
    }
    changes
}

fn failed(fault: Fault) -> Polled {
    Polled::Failed {
        fault,
        text: "no".to_owned(),
    }
}

/// Polls once, when that is due; returns after how many seconds, and how many objects are notified.
fn poll(changes: &Propagation, now: &mut Duration, polled: Polled) -> (u64, usize) {
    let (_, next) = changes.due(*now);
    let next = next.unwrap_or(*now);
    let waited = next.saturating_sub(*now).as_secs();
    *now = next;
    (waited, changes.polled("C1", polled, next, 0.5).len())
}

#[test]
fn objects_that_wait_for_one_change_share_a_poll() {
    let changes = followed();
    assert!(changes.due(AT).0.is_empty());
    let (due, _) = changes.due(AT + FIRST);
    assert_eq!(due.len(), 1);
    let notified = changes.polled("C1", Polled::InSync, AT + FIRST, 0.5);
    assert_eq!(notified, [key("a"), key("b")].into());
    assert!(changes.of(["C1"]).insync.contains("C1"));
}

#[test]
fn polls_become_rarer() {
    let (changes, mut now) = (followed(), AT);
    let polls = [(); 5].map(|()| poll(&changes, &mut now, Polled::Pending));
    assert_eq!(polls, [5, 10, 20, 30, 30].map(|wait| (wait, 0)));
}

#[test]
fn a_lost_change_notifies_those_that_wait() {
    let changes = followed();
    assert_eq!(changes.polled("C1", Polled::Lost, AT, 0.5).len(), 2);
    assert!(changes.of(["C1"]).lost.contains("C1"));
}

#[test]
fn an_object_can_follow_a_change_that_has_ended() {
    let changes = followed();
    let late = |changes: &Propagation| changes.follow("C1", &ZoneRole::default(), &key("late"), AT);
    assert!(!late(&changes));
    changes.polled("C1", Polled::InSync, AT, 0.5);
    assert!(late(&changes));
}

#[rstest]
#[case::in_sync(Polled::InSync)]
#[case::lost(Polled::Lost)]
fn an_end_that_is_known_is_not_notified_again(#[case] polled: Polled) {
    let changes = followed();
    let pending = BTreeMap::from([("C1", ZoneRole::default())]);
    let follow = |known: &Propagated| changes.follow_all(&pending, known, &key("a"), AT);
    let before = changes.of(["C1"]);
    assert!(!follow(&before), "it is pending");
    changes.polled("C1", polled, AT, 0.5);
    assert!(follow(&before), "it has ended since");
    assert!(!follow(&changes.of(["C1"])));
}

#[test]
fn the_end_of_a_change_is_forgotten_after_a_while() {
    let changes = followed();
    changes.polled("C1", Polled::InSync, AT, 0.5);
    changes.due(AT + REMEMBERED);
    assert!(changes.of(["C1"]).insync.is_empty());
}

#[rstest]
#[case::denied(Fault::Denied, &[(5, 2), (300, 0), (300, 0)], true)]
#[case::without_credentials(Fault::Credentials, &[(5, 2), (60, 0)], true)]
#[case::broken(Fault::Passing, &[(5, 0), (5, 0), (5, 2), (5, 0), (8, 0), (16, 0)], true)]
#[case::throttled(Fault::Throttled, &[(5, 0), (60, 0), (60, 0), (60, 0)], false)]
fn an_unreadable_change_is_reported_once(
    #[case] fault: Fault,
    #[case] polls: &[(u64, usize)],
    #[case] reported: bool,
) {
    let (changes, mut now) = (followed(), AT);
    for expected in polls {
        assert_eq!(poll(&changes, &mut now, failed(fault)), *expected);
    }
    assert_eq!(changes.of(["C1"]).unreadable.contains_key("C1"), reported);
    // They are notified when it can be read again, and still when it ends.
    let notified = if reported { 2 } else { 0 };
    assert_eq!(poll(&changes, &mut now, Polled::Pending).1, notified);
    assert!(changes.of(["C1"]).unreadable.is_empty());
    assert_eq!(poll(&changes, &mut now, Polled::InSync).1, 2);
}

#[test]
fn an_unreadable_change_can_be_polled_at_once() {
    let (changes, mut now) = (followed(), AT);
    poll(&changes, &mut now, failed(Fault::Denied));
    assert!(changes.due(now).0.is_empty());
    changes.poll_soon(&key("c"), now);
    assert!(changes.due(now).0.is_empty(), "another object waits for it");
    changes.poll_soon(&key("a"), now);
    assert_eq!(changes.due(now).0.len(), 1);
}
