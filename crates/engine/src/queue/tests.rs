use super::*;
use proptest::prelude::*;
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
    queue.take(now).map(|taken| taken.key)
}

#[test]
fn duplicates_collapse() {
    let mut q = queue();
    for _ in 0..1000 {
        q.add(&key(1), Cause::User, secs(0));
    }
    assert_eq!(take(&mut q, secs(0)), Some(key(1)));
    assert_eq!(take(&mut q, secs(0)), None);
}

#[test]
fn what_comes_in_during_a_pass_runs_once_after_it() {
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
fn user_changes_come_first_and_nobody_starves() {
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
    let taken = q.take(secs(5)).unwrap();
    assert_eq!((taken.cause, taken.waited), (Cause::User, secs(5)));
    q.finish(&key(1), Next::After(secs(9), Cause::Resync), secs(5), 0.0);
    assert_eq!(take(&mut q, secs(5)), None);
    assert_eq!(q.depth(Cause::Resync) + q.depth(Cause::User), 0);
}

#[test]
fn failures_back_off_and_a_user_change_forgets_them() {
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
fn a_followed_change_does_not_defeat_the_back_off() {
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

/// A queue whose object 1 has failed so often; answers when the last failure was.
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
fn an_object_whose_children_flap_backs_off_all_the_same() {
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
    // After 1, 1, 1, 2, 4, 8 s, then each 15 s: a quarter of the cap.
    assert!((40..50).contains(&passes), "{passes} passes");
}

#[rstest::rstest]
#[case::again(Next::Again, 4)]
#[case::followed_news(Next::News(Cause::Followed), 4)]
#[case::a_stale_write(Next::Stale, 4)]
#[case::done(Next::After(secs(9), Cause::Resync), 1)]
#[case::a_users_edit(Next::News(Cause::User), 1)]
fn the_back_off_goes_on_unless_a_pass_ends_well(#[case] next: Next, #[case] expected: u64) {
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
    assert!(!q.is_repeating_idly(&key(1), false), "it wrote, or failed");
    for _ in 0..9 {
        assert!(!q.is_repeating_idly(&key(1), true));
    }
    assert!(q.is_repeating_idly(&key(1), true));
    assert!(q.is_repeating_idly(&key(1), true), "the next one, too");
    q.succeeded(&key(1));
    assert!(!q.is_repeating_idly(&key(1), true));
}

#[test]
fn a_first_pass_waits_its_time_and_yields_to_a_change() {
    let mut q = queue();
    q.add_first(&key(1), secs(2), secs(0));
    q.add_first(&key(2), secs(2), secs(0));
    q.add(&key(2), Cause::User, secs(1));
    assert_eq!(q.take(secs(1)).unwrap().cause, Cause::User);
    assert_eq!(take(&mut q, secs(1)), None);
    assert_eq!(q.take(secs(2)).unwrap().cause, Cause::Resync);
}

#[test]
fn what_a_lost_lease_interrupted_runs_again_for_nobody() {
    let (mut q, now) = failed(3);
    q.take(now + secs(10)).unwrap();
    q.interrupted(now + secs(10));
    assert_eq!(q.take(now + secs(10)).unwrap().cause, Cause::Followed);
    assert_eq!(q.failing(), 1, "its failures still count");
}

#[test]
fn a_flood_of_edits_is_a_few_passes() {
    let mut q = queue();
    let mut passes = 0;
    for ms in 0..1000 {
        let now = Duration::from_millis(ms);
        q.add(&key(1), Cause::User, now);
        if let Some(taken) = q.take(now) {
            passes += 1;
            q.finish(&taken.key, Next::After(secs(300), Cause::Resync), now, 0.5);
        }
    }
    assert!((9..=11).contains(&passes), "{passes} passes");
    assert_eq!(
        take(&mut q, secs(2)),
        Some(key(1)),
        "the last edit has its pass too"
    );
}

#[test]
fn what_a_pass_wrote_for_the_next_one_runs_at_once() {
    let mut q = queue();
    q.add(&key(1), Cause::User, secs(0));
    q.take(secs(0)).unwrap();
    q.finish(&key(1), Next::Again, secs(0), 0.5);
    assert_eq!(take(&mut q, secs(0)), Some(key(1)));
}

#[test]
fn what_is_begun_is_finished_before_most_user_changes() {
    let mut q = queue();
    q.add(&key(0), Cause::User, secs(0));
    assert_eq!(take(&mut q, secs(0)), Some(key(0)));
    for n in 1..20 {
        q.add(&key(n), Cause::User, secs(0));
    }
    let mut turns = Vec::new();
    for _ in 0..16 {
        q.finish(&key(0), Next::Again, secs(0), 0.5);
        while let Some(taken) = take(&mut q, secs(0)) {
            turns.push(taken.clone());
            if taken == key(0) {
                break;
            }
        }
    }
    let others = turns.iter().filter(|taken| **taken != key(0)).count();
    assert!((3..=6).contains(&others), "{turns:?}");
}

#[test]
fn a_seized_object_is_nowhere_until_it_is_forgotten() {
    let mut q = queue();
    q.add(&key(1), Cause::User, secs(0));
    q.add(&key(2), Cause::User, secs(0));
    assert!(q.seize(&key(1)));
    q.add(&key(1), Cause::User, secs(0)); // a namesake
    assert_eq!(take(&mut q, secs(0)), Some(key(2)));
    assert_eq!(take(&mut q, secs(0)), None);
    q.forget(&key(1), secs(0));
    assert_eq!(take(&mut q, secs(0)), Some(key(1)));
    assert!(!q.seize(&key(1)), "its pass runs");
}

#[test]
fn what_stays_stale_backs_off() {
    let mut q = queue();
    q.add(&key(1), Cause::User, secs(0));
    q.take(secs(0)).unwrap();
    q.finish(&key(1), Next::Stale, secs(0), 0.5);
    assert_eq!(take(&mut q, STALE), Some(key(1)));
    q.finish(&key(1), Next::Stale, secs(1), 0.5);
    assert_eq!(take(&mut q, secs(1) + STALE), None);
    assert_eq!(take(&mut q, secs(2)), Some(key(1)));
}

#[test]
fn no_delay_is_too_short_or_too_long() {
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
    assert_eq!(take(&mut q, BREATH), Some(key(1)));
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
fn a_forgotten_object_leaves_nothing() {
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
fn a_hundred_thousand_timers_ring_in_time() {
    let mut q = queue();
    for n in 0..100_000 {
        q.add(&key(n), Cause::Resync, secs(0));
    }
    while let Some(taken) = q.take(secs(0)) {
        let due = secs(1 + u64::try_from(taken.key.name.len()).unwrap());
        q.finish(&taken.key, Next::After(due, Cause::Resync), secs(0), 0.0);
    }
    let rung = std::iter::from_fn(|| q.take(secs(100))).count();
    assert_eq!(rung, 100_000);
}

#[derive(Debug, Clone)]
enum Act {
    Add(usize, Cause),
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
    fn never_two_passes_at_once_and_nothing_is_lost(acts in prop::collection::vec(any_act(), 0..200)) {
        let mut q = queue();
        let mut now = secs(0);
        let mut running: Vec<ObjectKey> = vec![];
        let mut wanted: HashSet<ObjectKey> = HashSet::new();
        for act in acts {
            match act {
                Act::Add(n, cause) => { q.add(&key(n), cause, now); wanted.insert(key(n)); }
                Act::Take => if let Some(taken) = q.take(now) {
                    prop_assert!(!running.contains(&taken.key));
                    wanted.remove(&taken.key);
                    running.push(taken.key);
                },
                Act::Finish(next) => if let Some(k) = running.pop() {
                    q.finish(&k, next, now, 0.5);
                    wanted.insert(k);
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
        for k in running { q.finish(&k, Next::Again, now, 0.5); wanted.insert(k); }
        let served: HashSet<_> = std::iter::from_fn(|| q.take(now + secs(1000))).map(|t| t.key).collect();
        prop_assert!(wanted.is_subset(&served), "{:?} never came", wanted.difference(&served));
    }
}
