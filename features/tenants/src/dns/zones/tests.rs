use super::*;
use crate::dns::tests::{a_bundle, place};

const AT: Duration = Duration::from_secs(100);

fn key() -> ObjectKey {
    ObjectKey::namespaced("web", "acme")
}

fn seconds(time: Duration) -> u64 {
    time.saturating_sub(AT).as_secs()
}

fn way(role: Option<&str>) -> Place {
    let mut way = place("Z1");
    way.login.role_arn = role.map(str::to_owned);
    way
}

/// A bundle for zone Z1, on a way of its own.
fn by(role: &str) -> Bundle {
    Bundle {
        place: way(Some(role)),
        ..a_bundle()
    }
}

/// A zone whose batches have failed so often, each handed in again, and when it is written next.
fn after(failures: usize) -> (Zones, u64) {
    let zones = Zones::default();
    zones.submit(&key(), vec![a_bundle()], AT);
    let mut now = AT + COLLECT;
    for _ in 0..failures {
        assert_eq!(zones.due(now).0.len(), 1);
        zones.stumbled(&way(None), "broken".to_owned(), now, 0.5);
        zones.submit(&key(), vec![a_bundle()], now);
        zones.done("Z1", Vec::new(), None);
        now = zones.due(now).1.expect("it is tried again");
    }
    (zones, seconds(now))
}

/// The roles of the batches that are due.
fn roles(zones: &Zones, now: Duration) -> Vec<String> {
    let due = zones.due(now).0.into_iter();
    due.filter_map(|batch| batch.place.login.role_arn).collect()
}

#[test]
fn a_zone_collects_for_two_seconds() {
    let zones = Zones::default();
    zones.submit(&key(), vec![a_bundle()], AT);
    let (due, next) = zones.due(AT);
    assert_eq!((due.len(), next.map(seconds)), (0, Some(2)));
    assert_eq!(zones.due(AT + COLLECT).0.len(), 1);
    // One batch at a time.
    zones.submit(&key(), vec![a_bundle()], AT + COLLECT);
    assert_eq!(zones.due(AT + 2 * COLLECT).0.len(), 0);
    zones.done("Z1", Vec::new(), None);
    assert_eq!(zones.due(AT + 2 * COLLECT).0.len(), 1);
}

#[test]
fn a_zone_that_fails_is_written_ever_more_rarely() {
    // Two seconds to collect, then 1, 2, 4 and 8 for the failures.
    let rests = [1, 2, 3, 4].map(|failures| after(failures).1);
    assert_eq!(rests, [3, 5, 9, 17]);
    let [one, more] = [12, 13].map(|failures| after(failures).1);
    assert_eq!(more - one, 300, "five minutes at most");
}

#[test]
fn a_zone_that_fails_is_told_of_the_third_time() {
    let told = |failures| after(failures).0.troubled();
    assert_eq!(told(2), BTreeMap::new());
    let trouble = BTreeMap::from([(way(None), "broken".to_owned())]);
    assert_eq!(told(3), trouble);
    let (zones, _) = after(3);
    zones.heard(&way(None));
    assert_eq!(zones.troubled(), BTreeMap::new());
}

#[test]
fn failures_are_counted_however_late_a_batch_is_handed_in_again() {
    let zones = Zones::default();
    let mut now = AT;
    for _ in 0..3 {
        zones.stumbled(&way(None), "broken".to_owned(), now, 0.5);
        now += Duration::from_secs(9 * 60);
        zones.due(now);
    }
    assert_eq!(zones.troubled().len(), 1);
    zones.due(now + REMEMBERED);
    assert_eq!(zones.troubled().len(), 0, "long ago");
}

#[test]
fn one_way_in_that_fails_leaves_the_other_open() {
    let zones = Zones::default();
    zones.submit(&key(), vec![by("a"), by("b")], AT);
    let now = AT + COLLECT;
    let (due, _) = zones.due(now);
    let [batch] = <[_; 1]>::try_from(due).expect("one batch at a time");
    assert_eq!(batch.place, way(Some("a")));

    zones.stumbled(&batch.place, "no keys".to_owned(), now, 0.5);
    zones.done("Z1", batch.loads, None);
    assert_eq!(roles(&zones, now), ["b"]);
    zones.done("Z1", Vec::new(), None);
    let (due, next) = zones.due(now);
    assert_eq!((due.len(), next.map(seconds)), (0, Some(3)));
    // What comes for the other one meanwhile is collected as ever.
    zones.submit(&key(), vec![by("b")], now);
    assert_eq!(roles(&zones, now), [""; 0]);
    assert_eq!(roles(&zones, now + COLLECT), ["a"], "it has waited longer");
}

#[test]
fn a_way_that_is_closed_is_told_at_once_and_alone() {
    let zones = Zones::default();
    zones.submit(&key(), vec![by("a"), by("b")], AT);
    let now = AT + COLLECT;
    let batch = zones.due(now).0.remove(0);
    let again = now + Duration::from_secs(60);
    zones.closed(&batch.place, "expired".to_owned(), now, again);
    zones.done("Z1", batch.loads, None);
    let told = BTreeMap::from([(way(Some("a")), "expired".to_owned())]);
    assert_eq!(zones.troubled(), told);
    assert_eq!(roles(&zones, now), ["b"]);
    zones.done("Z1", Vec::new(), None);
    assert_eq!(zones.due(now).1, Some(again));
    assert_eq!(roles(&zones, again), ["a"]);
    zones.heard(&batch.place);
    assert_eq!(zones.troubled(), BTreeMap::new());
}

#[test]
fn a_way_that_rests_is_not_told_of() {
    let zones = Zones::default();
    zones.submit(&key(), vec![by("a"), by("b")], AT);
    zones.rests(&way(Some("a")), AT + Duration::from_secs(60));
    assert_eq!(roles(&zones, AT + COLLECT), ["b"]);
    assert_eq!(zones.troubled(), BTreeMap::new());
}
