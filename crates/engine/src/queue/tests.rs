use super::*;
use proptest::prelude::*;
use rstest::rstest;
use std::collections::HashSet;

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn queue() -> Queue {
    Queue::new(Backoff {
        first: secs(1),
        cap: secs(60),
        jitter: 0.0,
    })
}

fn key(n: usize) -> ObjectKey {
    ObjectKey::namespaced("ns", format!("o{n}"))
}

fn take(queue: &mut Queue, now: Duration) -> Option<ObjectKey> {
    queue.take(now).map(|request| request.key)
}

#[test]
fn duplicate_requests_make_one_pass() {
    let mut q = queue();
    for _ in 0..1000 {
        q.add(&key(1), Cause::User, secs(0));
    }
    assert_eq!(take(&mut q, secs(0)), Some(key(1)));
    assert_eq!(take(&mut q, secs(0)), None);
}

#[test]
fn requests_during_a_pass_make_one_more_pass() {
    let mut q = queue();
    q.add(&key(1), Cause::User, secs(0));
    q.take(secs(0)).unwrap();
    q.add(&key(1), Cause::Followed, secs(0));
    q.add(&key(1), Cause::User, secs(0));
    assert_eq!(take(&mut q, secs(0)), None);
    q.finish(&key(1), Next::After(secs(300), Cause::Resync), secs(1), 0.5);
    assert_eq!(q.take(secs(1)).unwrap().cause, Cause::User);
    q.finish(&key(1), Next::After(secs(300), Cause::Resync), secs(2), 0.5);
    assert_eq!(take(&mut q, secs(299)), None);
    assert_eq!(take(&mut q, secs(302)), Some(key(1)));
}

#[test]
fn user_changes_come_first_and_no_cause_starves() {
    let mut q = queue();
    for n in 0..100 {
        q.add(&key(n), Cause::User, secs(0));
    }
    q.add(&key(200), Cause::Followed, secs(0));
    q.add(&key(300), Cause::Resync, secs(0));
    let order: Vec<_> = std::iter::from_fn(|| take(&mut q, secs(0))).collect();
    assert_eq!(order.len(), 102);
    assert!(order.iter().position(|k| *k == key(200)).unwrap() < 16);
    assert!(order.iter().position(|k| *k == key(300)).unwrap() <= 16);
}

#[test]
fn an_object_raised_in_priority_is_handed_out_once() {
    let mut q = queue();
    q.add(&key(1), Cause::Resync, secs(0));
    q.add(&key(1), Cause::User, secs(3));
    let request = q.take(secs(5)).unwrap();
    assert_eq!((request.cause, request.waited), (Cause::User, secs(5)));
    q.finish(&key(1), Next::After(secs(9), Cause::Resync), secs(5), 0.0);
    assert_eq!(take(&mut q, secs(5)), None);
    assert_eq!(q.depth(Cause::Resync) + q.depth(Cause::User), 0);
}

#[test]
fn failures_back_off_and_a_user_change_clears_them() {
    let mut q = queue();
    q.add(&key(1), Cause::User, secs(0));
    let mut now = secs(0);
    for wait in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(take(&mut q, now), Some(key(1)));
        q.finish(&key(1), Next::Failed, now, 0.5);
        now += secs(wait);
        assert_eq!(
            take(&mut q, now.saturating_sub(Duration::from_millis(1))),
            None
        );
    }
    assert_eq!((q.failing(), q.entries[&key(1)].failures), (1, 8));
    q.add(&key(1), Cause::User, now);
    assert_eq!(take(&mut q, now), Some(key(1)));
    assert_eq!(q.failing(), 0);
}

#[test]
fn a_followed_change_does_not_end_the_back_off() {
    let mut q = queue();
    q.add(&key(1), Cause::User, secs(0));
    for _ in 0..6 {
        let at = q.next_due().unwrap_or_default();
        q.take(at).unwrap();
        q.finish(&key(1), Next::Failed, at, 0.5);
    }
    let failed_at = q.entries[&key(1)].earliest.saturating_sub(secs(1));
    q.add(&key(1), Cause::Followed, failed_at);
    assert_eq!(take(&mut q, failed_at), None);
    assert_eq!(take(&mut q, failed_at + secs(1)), Some(key(1)));
}

/// A queue whose object 1 has failed this often, and the time of its last failure.
fn failed(times: u32) -> (Queue, Duration) {
    let mut q = queue();
    q.add(&key(1), Cause::User, secs(0));
    let mut now = secs(0);
    for _ in 0..times {
        now = q.next_due().unwrap_or(now);
        q.take(now).unwrap();
        q.finish(&key(1), Next::Failed, now, 0.5);
    }
    (q, now)
}

#[test]
fn a_followed_change_shortens_a_delay_to_a_quarter_at_most() {
    let (mut q, failed_at) = failed(6); // the next delay is 32 s
    q.add(&key(1), Cause::Followed, failed_at + secs(2));
    assert_eq!(take(&mut q, failed_at + secs(7)), None);
    q.add_in(&key(1), secs(1), failed_at + secs(2));
    assert_eq!(take(&mut q, failed_at + secs(7)), None);
    assert_eq!(take(&mut q, failed_at + secs(8)), Some(key(1)));
}

#[test]
fn repeated_followed_changes_do_not_end_the_back_off() {
    let (mut q, mut now) = failed(1);
    let mut passes = 0;
    let end = now + secs(600);
    while now < end {
        now += Duration::from_millis(500);
        q.add(&key(1), Cause::Followed, now);
        if q.take(now).is_some() {
            passes += 1;
            q.finish(&key(1), Next::Failed, now, 0.5);
        }
    }
    // After 1, 1, 1, 2, 4, 8 s, then every 15 s: a quarter of the cap.
    assert!((40..50).contains(&passes), "{passes} passes");
}

#[rstest::rstest]
#[case::again(Next::Again, 4)]
#[case::a_followed_change(Next::News(Cause::Followed), 4)]
#[case::a_stale_write(Next::Stale, 4)]
#[case::done(Next::After(secs(9), Cause::Resync), 1)]
#[case::a_users_edit(Next::News(Cause::User), 1)]
fn only_success_or_an_edit_ends_the_back_off(#[case] next: Next, #[case] expected: u64) {
    let (mut q, _) = failed(2);
    let now = q.next_due().unwrap();
    q.take(now).unwrap();
    q.finish(&key(1), next, now, 0.5);
    let now = now + secs(10);
    q.take(now).unwrap();
    q.finish(&key(1), Next::Failed, now, 0.5);
    let delay = q.next_due().unwrap().saturating_sub(now);
    assert_eq!(delay, secs(expected));
}

#[test]
fn ten_idle_repeats_count_as_a_failure_and_a_write_does_not() {
    let mut q = queue();
    q.add(&key(1), Cause::User, secs(0));
    for _ in 0..9 {
        assert!(!q.is_repeating_idly(&key(1), true));
    }
    assert!(
        !q.is_repeating_idly(&key(1), false),
        "this pass has written or failed"
    );
    for _ in 0..9 {
        assert!(!q.is_repeating_idly(&key(1), true));
    }
    assert!(q.is_repeating_idly(&key(1), true));
    assert!(q.is_repeating_idly(&key(1), true), "also the next one");
    q.succeeded(&key(1));
    assert!(!q.is_repeating_idly(&key(1), true));
}

#[test]
fn a_first_pass_is_delayed_unless_a_change_comes() {
    let mut q = queue();
    q.add_first(&key(1), secs(2), secs(0));
    q.add_first(&key(2), secs(2), secs(0));
    q.add(&key(2), Cause::User, secs(1));
    assert_eq!(q.take(secs(1)).unwrap().cause, Cause::User);
    assert_eq!(take(&mut q, secs(1)), None);
    assert_eq!(q.take(secs(2)).unwrap().cause, Cause::Resync);
}

#[test]
fn an_interrupted_pass_runs_again_as_a_followed_change() {
    let (mut q, now) = failed(3);
    q.take(now + secs(10)).unwrap();
    q.interrupted(now + secs(10));
    assert_eq!(q.take(now + secs(10)).unwrap().cause, Cause::Followed);
    assert_eq!(q.failing(), 1, "its failures still count");
}

#[test]
fn many_edits_make_few_passes() {
    let mut q = queue();
    let mut passes = 0;
    for ms in 0..1000 {
        let now = Duration::from_millis(ms);
        q.add(&key(1), Cause::User, now);
        if let Some(request) = q.take(now) {
            passes += 1;
            q.finish(
                &request.key,
                Next::After(secs(300), Cause::Resync),
                now,
                0.5,
            );
        }
    }
    assert!((9..=11).contains(&passes), "{passes} passes");
    assert_eq!(
        take(&mut q, secs(2)),
        Some(key(1)),
        "the last edit has a pass too"
    );
}

#[rstest]
#[case::the_default(PASS_INTERVAL, 100)]
#[case::short(Duration::from_millis(20), 20)]
#[case::long(secs(3), 3_000)]
#[case::none(Duration::ZERO, 0)]
fn a_controller_sets_the_interval_of_its_passes(#[case] interval: Duration, #[case] ms: u64) {
    let end = Duration::from_millis(ms);
    for is_timer in [false, true] {
        let mut q = queue().with_pass_interval(interval);
        q.add(&key(1), Cause::User, secs(0));
        q.take(secs(0)).unwrap();
        let delay = if is_timer { Duration::ZERO } else { secs(300) };
        q.finish(&key(1), Next::After(delay, Cause::Resync), secs(0), 0.5);
        if !is_timer {
            q.add(&key(1), Cause::User, secs(0));
        }
        if let Some(before) = end.checked_sub(Duration::from_millis(1)) {
            assert_eq!(take(&mut q, before), None);
        }
        assert_eq!(take(&mut q, end), Some(key(1)));
    }
}

#[test]
fn a_pass_that_requests_another_is_followed_at_once() {
    let mut q = queue();
    q.add(&key(1), Cause::User, secs(0));
    q.take(secs(0)).unwrap();
    q.finish(&key(1), Next::Again, secs(0), 0.5);
    assert_eq!(take(&mut q, secs(0)), Some(key(1)));
}

#[test]
fn begun_objects_come_before_most_user_changes() {
    let mut q = queue();
    q.add(&key(0), Cause::User, secs(0));
    assert_eq!(take(&mut q, secs(0)), Some(key(0)));
    for n in 1..20 {
        q.add(&key(n), Cause::User, secs(0));
    }
    let mut order = Vec::new();
    for _ in 0..16 {
        q.finish(&key(0), Next::Again, secs(0), 0.5);
        while let Some(next) = take(&mut q, secs(0)) {
            order.push(next.clone());
            if next == key(0) {
                break;
            }
        }
    }
    let others = order.iter().filter(|next| **next != key(0)).count();
    assert!((3..=6).contains(&others), "{order:?}");
}

#[rstest]
#[case::waiting_for_nothing(None)]
#[case::behind_followed_changes(Some(Cause::Followed))]
#[case::behind_user_changes(Some(Cause::User))]
fn a_resumed_object_comes_before_most_user_changes(#[case] queued: Option<Cause>) {
    let mut q = queue();
    for n in 1..20 {
        q.add(&key(n), Cause::User, secs(0));
        q.add(&key(100 + n), Cause::Followed, secs(0));
    }
    if let Some(cause) = queued {
        q.add(&key(0), cause, secs(0));
    }
    q.resume(&key(0), secs(1));
    q.resume(&key(0), secs(1));
    let order: Vec<_> = std::iter::from_fn(|| take(&mut q, secs(1))).collect();
    assert!(
        order.iter().position(|next| *next == key(0)) < Some(8),
        "{order:?}"
    );
    assert_eq!(order.len(), 39, "each has one pass");
    assert_eq!(Cause::ALL.map(|cause| q.depth(cause)), [0; 3]);
}

#[test]
fn resuming_does_not_end_a_back_off() {
    let mut q = queue();
    q.add(&key(1), Cause::User, secs(0));
    q.take(secs(0)).unwrap();
    q.finish(&key(1), Next::Failed, secs(0), 0.5);
    q.resume(&key(1), secs(0));
    assert_eq!(take(&mut q, secs(0)), None);
    assert_eq!(q.failing(), 1);
    assert_eq!(take(&mut q, secs(1)), Some(key(1)));
}

#[test]
fn a_seized_object_has_no_pass_until_it_is_forgotten() {
    let mut q = queue();
    q.add(&key(1), Cause::User, secs(0));
    q.add(&key(2), Cause::User, secs(0));
    assert!(q.seize(&key(1)));
    q.add(&key(1), Cause::User, secs(0)); // an object of the same name
    assert_eq!(take(&mut q, secs(0)), Some(key(2)));
    assert_eq!(take(&mut q, secs(0)), None);
    q.forget(&key(1), secs(0));
    assert_eq!(take(&mut q, secs(0)), Some(key(1)));
    assert!(!q.seize(&key(1)), "its pass is running");
}

#[test]
fn repeated_stale_writes_back_off() {
    let mut q = queue();
    q.add(&key(1), Cause::User, secs(0));
    q.take(secs(0)).unwrap();
    q.finish(&key(1), Next::Stale, secs(0), 0.5);
    assert_eq!(take(&mut q, STALE_DELAY), Some(key(1)));
    q.finish(&key(1), Next::Stale, secs(1), 0.5);
    assert_eq!(take(&mut q, secs(1) + STALE_DELAY), None);
    assert_eq!(take(&mut q, secs(2)), Some(key(1)));
}

#[test]
fn the_shortest_and_the_longest_delay_are_accepted() {
    let mut q = queue();
    q.add(&key(1), Cause::User, secs(0));
    q.take(secs(0)).unwrap();
    q.finish(
        &key(1),
        Next::After(Duration::ZERO, Cause::Resync),
        secs(0),
        0.5,
    );
    assert_eq!(take(&mut q, Duration::from_millis(99)), None);
    assert_eq!(take(&mut q, PASS_INTERVAL), Some(key(1)));
    q.finish(
        &key(1),
        Next::After(Duration::MAX, Cause::Resync),
        secs(9),
        0.5,
    );
    q.add(&key(1), Cause::User, secs(10));
    assert_eq!(take(&mut q, secs(10)), Some(key(1)));
}

#[test]
fn a_forgotten_object_leaves_no_entries() {
    let mut q = queue();
    q.add(&key(1), Cause::User, secs(0));
    q.take(secs(0)).unwrap();
    q.finish(&key(1), Next::Failed, secs(0), 0.5);
    q.take(secs(100)).unwrap();
    q.forget(&key(1), secs(100));
    assert!(q.entries.is_empty() && q.timers.is_empty());
    assert_eq!(q.failing(), 0);
}

#[test]
fn a_hundred_thousand_timers_fire() {
    let mut q = queue();
    for n in 0..100_000 {
        q.add(&key(n), Cause::Resync, secs(0));
    }
    while let Some(request) = q.take(secs(0)) {
        let due = secs(1 + u64::try_from(request.key.name.len()).unwrap());
        q.finish(&request.key, Next::After(due, Cause::Resync), secs(0), 0.0);
    }
    let fired = std::iter::from_fn(|| q.take(secs(100))).count();
    assert_eq!(fired, 100_000);
}

#[derive(Debug, Clone)]
enum Act {
    Add(usize, Cause),
    Resume(usize),
    Take,
    Finish(Next),
    Forget,
    Wait(u64),
}

fn any_act() -> impl Strategy<Value = Act> {
    let cause = || {
        prop_oneof![
            Just(Cause::User),
            Just(Cause::Followed),
            Just(Cause::Resync)
        ]
    };
    prop_oneof![
        4 => (0..6_usize, cause()).prop_map(|(n, c)| Act::Add(n, c)),
        2 => (0..6_usize).prop_map(Act::Resume),
        4 => Just(Act::Take),
        2 => prop_oneof![
            Just(Next::Again),
            cause().prop_map(Next::News),
            (0..50_u64, cause()).prop_map(|(s, c)| Next::After(secs(s), c)),
            Just(Next::Failed),
            Just(Next::Stale)
        ].prop_map(Act::Finish),
        1 => Just(Act::Forget),
        2 => (0..30_u64).prop_map(Act::Wait),
    ]
}

proptest! {
    #[test]
    fn an_object_has_one_pass_at_a_time_and_none_is_lost(acts in prop::collection::vec(any_act(), 0..200)) {
        let mut q = queue();
        let mut now = secs(0);
        let mut running: Vec<ObjectKey> = vec![];
        let mut requested: HashSet<ObjectKey> = HashSet::new();
        for act in acts {
            match act {
                Act::Add(n, cause) => { q.add(&key(n), cause, now); requested.insert(key(n)); }
                Act::Resume(n) => { q.resume(&key(n), now); requested.insert(key(n)); }
                Act::Take => if let Some(request) = q.take(now) {
                    prop_assert!(!running.contains(&request.key));
                    requested.remove(&request.key);
                    running.push(request.key);
                },
                Act::Finish(next) => if let Some(k) = running.pop() {
                    q.finish(&k, next, now, 0.5);
                    requested.insert(k);
                },
                Act::Forget => if let Some(k) = running.pop() { q.forget(&k, now); },
                Act::Wait(s) => now += secs(s),
            }
            for cause in Cause::ALL {
                let waiting = q.entries.values().filter(|e| e.waiting.is_some_and(|(c, _)| c == cause)).count();
                prop_assert_eq!(q.depth(cause), waiting);
            }
            let failing = q.entries.values().filter(|e| e.failures > 0).count();
            prop_assert_eq!(q.failing(), failing);
        }
        for k in running { q.finish(&k, Next::Again, now, 0.5); requested.insert(k); }
        let served: HashSet<_> = std::iter::from_fn(|| q.take(now + secs(1000))).map(|t| t.key).collect();
        prop_assert!(requested.is_subset(&served), "no pass over {:?}", requested.difference(&served));
    }
}
