use super::*;
use crate::route53::zone_writer::ChangeSet;
use crate::route53::zone_writer::tests::{a_set, access, key};

const AT: Duration = Duration::from_secs(100);
const SESSION: SessionId = 1;

fn seconds(time: Duration) -> u64 {
    time.saturating_sub(AT).as_secs()
}

fn as_role(role: Option<&str>) -> ZoneAccess {
    let mut access = access("Z1");
    access.login.role_arn = role.map(str::to_owned);
    access
}

/// The queues of the sessions 1 and 2.
fn running() -> Queues {
    let mut queues = Queues::default();
    assert_eq!([queues.begin(), queues.begin()], [1, 2]);
    queues
}

/// A change set for zone Z1 of this session, sent as a role.
fn by(session: SessionId, role: Option<&str>) -> Load<Origin> {
    Load {
        from: Origin {
            session,
            object: key(),
        },
        set: ChangeSet {
            access: as_role(role),
            ..a_set()
        },
    }
}

fn one() -> Load<Origin> {
    by(SESSION, None)
}

/// A zone whose batches have failed so often, each submitted again, and when it is written next.
fn after(failures: usize) -> (Queues, u64) {
    let mut queues = running();
    queues.submit(one(), AT);
    let mut now = AT + COLLECT;
    for _ in 0..failures {
        assert_eq!(queues.due(now).0.len(), 1);
        queues.failed(SESSION, &as_role(None), "broken".to_owned(), now, 0.5);
        queues.submit(one(), now);
        queues.done("Z1", Vec::new(), None);
        now = queues.due(now).1.expect("it is tried again");
    }
    (queues, seconds(now))
}

/// The roles of the batches that are due.
fn roles(queues: &mut Queues, now: Duration) -> Vec<String> {
    let due = queues.due(now).0.into_iter();
    due.filter_map(|batch| batch.access.login.role_arn)
        .collect()
}

#[test]
fn a_zone_collects_for_two_seconds() {
    let mut queues = running();
    queues.submit(one(), AT);
    let (batches, next) = queues.due(AT);
    assert_eq!((batches.len(), next.map(seconds)), (0, Some(2)));
    assert_eq!(queues.due(AT + COLLECT).0.len(), 1);
    // One batch at a time.
    queues.submit(one(), AT + COLLECT);
    assert_eq!(queues.due(AT + 2 * COLLECT).0.len(), 0);
    queues.done("Z1", Vec::new(), None);
    assert_eq!(queues.due(AT + 2 * COLLECT).0.len(), 1);
}

#[test]
fn a_zone_that_fails_is_written_ever_more_rarely() {
    // Two seconds to collect, then 1, 2, 4 and 8 for the failures.
    let pauses = [1, 2, 3, 4].map(|failures| after(failures).1);
    assert_eq!(pauses, [3, 5, 9, 17]);
    let [one, more] = [12, 13].map(|failures| after(failures).1);
    assert_eq!(more - one, 300, "five minutes at most");
}

#[test]
fn a_zone_that_fails_is_reported_the_third_time() {
    let reported = |failures| after(failures).0.failing(SESSION);
    assert_eq!(reported(2), BTreeMap::new());
    let failing = BTreeMap::from([(as_role(None), "broken".to_owned())]);
    assert_eq!(reported(3), failing);
    let (mut queues, _) = after(3);
    queues.reached(SESSION, &as_role(None));
    assert_eq!(queues.failing(SESSION), BTreeMap::new());
}

#[test]
fn failures_are_counted_however_late_a_set_is_submitted_again() {
    let mut queues = running();
    let mut now = AT;
    for _ in 0..3 {
        queues.failed(SESSION, &as_role(None), "broken".to_owned(), now, 0.5);
        now += Duration::from_mins(9);
        queues.due(now);
    }
    assert_eq!(queues.failing(SESSION).len(), 1);
    queues.due(now + REMEMBERED);
    assert_eq!(queues.failing(SESSION).len(), 0, "long ago");
}

#[test]
fn an_access_that_fails_leaves_the_other_open() {
    let mut queues = running();
    queues.submit(by(SESSION, Some("a")), AT);
    queues.submit(by(SESSION, Some("b")), AT);
    let now = AT + COLLECT;
    let (batches, _) = queues.due(now);
    let [batch] = <[_; 1]>::try_from(batches).expect("one batch at a time");
    assert_eq!(batch.access, as_role(Some("a")));

    queues.failed(SESSION, &batch.access, "no keys".to_owned(), now, 0.5);
    queues.done("Z1", batch.loads, None);
    assert_eq!(roles(&mut queues, now), ["b"]);
    queues.done("Z1", Vec::new(), None);
    let (batches, next) = queues.due(now);
    assert_eq!((batches.len(), next.map(seconds)), (0, Some(3)));
    // What is submitted for the other one meanwhile is collected.
    queues.submit(by(SESSION, Some("b")), now);
    assert_eq!(roles(&mut queues, now), [""; 0]);
    assert_eq!(
        roles(&mut queues, now + COLLECT),
        ["a"],
        "it has waited longer"
    );
}

#[test]
fn a_closed_access_is_reported_at_once_and_alone() {
    let mut queues = running();
    queues.submit(by(SESSION, Some("a")), AT);
    queues.submit(by(SESSION, Some("b")), AT);
    let now = AT + COLLECT;
    let batch = queues.due(now).0.remove(0);
    let again = now + Duration::from_mins(1);
    queues.closed(SESSION, &batch.access, "expired".to_owned(), now, again);
    queues.done("Z1", batch.loads, None);
    let reported = BTreeMap::from([(as_role(Some("a")), "expired".to_owned())]);
    assert_eq!(queues.failing(SESSION), reported);
    assert_eq!(roles(&mut queues, now), ["b"]);
    queues.done("Z1", Vec::new(), None);
    assert_eq!(queues.due(now).1, Some(again));
    assert_eq!(roles(&mut queues, again), ["a"]);
    queues.reached(SESSION, &batch.access);
    assert_eq!(queues.failing(SESSION), BTreeMap::new());
}

#[test]
fn an_access_that_pauses_is_not_reported() {
    let mut queues = running();
    queues.submit(by(SESSION, Some("a")), AT);
    queues.submit(by(SESSION, Some("b")), AT);
    queues.paused(SESSION, &as_role(Some("a")), AT + Duration::from_mins(1));
    assert_eq!(roles(&mut queues, AT + COLLECT), ["b"]);
    assert_eq!(queues.failing(SESSION), BTreeMap::new());
}

#[test]
fn sessions_of_one_zone_take_turns_in_batches_of_their_own() {
    let mut queues = running();
    for session in [1, 2, 1] {
        queues.submit(by(session, None), AT);
    }
    let now = AT + COLLECT;
    let mut sessions = || {
        let (batches, _) = queues.due(now);
        let [batch] = <[_; 1]>::try_from(batches).expect("one batch at a time");
        queues.done("Z1", Vec::new(), None);
        let loads = batch.loads.iter();
        loads.map(|load| load.from.session).collect::<Vec<_>>()
    };
    assert_eq!(
        [sessions(), sessions(), sessions()],
        [vec![1], vec![2], vec![1]]
    );
}

#[test]
fn a_session_that_fails_does_not_delay_another() {
    let mut queues = running();
    queues.submit(by(1, None), AT);
    queues.submit(by(2, None), AT);
    queues.closed(
        1,
        &as_role(None),
        "no".to_owned(),
        AT,
        AT + Duration::from_mins(1),
    );
    let batches = queues.due(AT + COLLECT).0;
    assert_eq!(batches[0].loads[0].from.session, 2);
    assert_eq!(queues.failing(2), BTreeMap::new());
}

#[test]
fn a_session_that_ends_leaves_others_in_place() {
    let mut queues = running();
    queues.submit(by(1, None), AT);
    queues.submit(by(2, None), AT);
    queues.closed(1, &as_role(None), "no".to_owned(), AT, AT);
    queues.end(1);
    assert_eq!(queues.failing(1), BTreeMap::new());
    let batches = queues.due(AT + COLLECT).0;
    assert_eq!(batches.len(), 1);
    assert_eq!(batches[0].loads, [by(2, None)]);
}

#[test]
fn a_batch_of_an_ended_session_does_not_come_back() {
    let mut queues = running();
    queues.submit(by(1, None), AT);
    queues.submit(by(2, None), AT);
    let now = AT + COLLECT;
    let old = queues.due(now).0.remove(0);
    assert_eq!(old.loads, [by(1, None)]);
    queues.end(1);
    queues.done("Z1", old.loads, None);
    assert_eq!(queues.due(now).0[0].loads, [by(2, None)]);
    queues.done("Z1", Vec::new(), None);
    assert_eq!(queues.due(now), (Vec::new(), None));
}

#[test]
fn failures_of_an_ended_session_are_not_kept() {
    let mut queues = running();
    queues.end(1);
    let (access, text, later) = (as_role(None), "no".to_owned(), AT + REMEMBERED);
    queues.closed(1, &access, text.clone(), AT, later);
    assert_eq!(queues.failing(1), BTreeMap::new());
    queues.failed(1, &access, text, AT, 0.5);
    queues.paused(1, &access, later);
    assert!(queues.zones.is_empty(), "{queues:?}");
}

#[test]
fn what_is_left_of_a_session_spares_no_other_the_wait() {
    let mut queues = running();
    queues.submit(by(1, None), AT);
    let now = AT + COLLECT;
    queues.end(1);
    queues.submit(by(1, None), now);
    assert_eq!(queues.due(now), (Vec::new(), None));
    queues.submit(by(2, None), now);
    assert_eq!(queues.due(now), (Vec::new(), Some(now + COLLECT)));
    assert_eq!(queues.due(now + COLLECT).0[0].loads, [by(2, None)]);
}
