use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{FutureExt, poll};
use kernel::TestClock;

use super::*;
use crate::turn::{Lane, Lanes, Priority};

const ONE_A_SECOND: Lane = Lane {
    label: "one",
    limits: Limits::new(1.0, 1.0, 1.0),
};

struct World {
    clock: Arc<TestClock>,
    lanes: Lanes,
    turns: Arc<Turns>,
}

/// One turn a second, and the first is gone.
fn world() -> World {
    let clock = Arc::new(TestClock::new());
    let lanes = Lanes::new(clock.clone());
    let turns = lanes.of(&"1".into(), ONE_A_SECOND);
    let first = turns.take(&asker(Priority::Edit)).now_or_never();
    first.expect("a full bucket").spend();
    World {
        clock,
        lanes,
        turns,
    }
}

fn asker(priority: Priority) -> Asker {
    Asker::new(priority, "a")
}

fn waiting(turns: &Turns) -> usize {
    turns.gauge().1.iter().sum()
}

#[tokio::test]
async fn who_waits_is_served_when_the_clock_has_moved() {
    let World { clock, turns, .. } = world();
    let edit = asker(Priority::Edit);
    let mut wait = Box::pin(turns.take(&edit));
    assert!(poll!(&mut wait).is_pending());
    clock.advance(Duration::from_secs(1));
    wait.await.spend();
    assert_eq!(waiting(&turns), 0);
}

#[tokio::test]
async fn deletes_are_served_before_sweeps_that_came_first() {
    let World { clock, turns, .. } = world();
    let order = Mutex::new(Vec::new());
    let call = async |priority: Priority| {
        turns.take(&asker(priority)).await.spend();
        order.lock().push(priority);
    };
    let mut sweep = Box::pin(call(Priority::Sweep));
    assert!(poll!(&mut sweep).is_pending());
    let mut delete = Box::pin(call(Priority::Delete));
    assert!(poll!(&mut delete).is_pending());
    clock.set_factor(1000);
    tokio::join!(sweep, delete);
    assert_eq!(*order.lock(), [Priority::Delete, Priority::Sweep]);
}

#[tokio::test]
async fn who_goes_away_leaves_the_queue() {
    let World { clock, turns, .. } = world();
    let edit = asker(Priority::Edit);
    {
        let mut wait = Box::pin(turns.take(&edit));
        assert!(poll!(&mut wait).is_pending());
        assert_eq!(waiting(&turns), 1);
    }
    assert_eq!(waiting(&turns), 0);
    clock.advance(Duration::from_secs(1));
    assert!(turns.take(&edit).now_or_never().is_some());
}

#[tokio::test]
async fn a_turn_that_came_too_late_goes_to_the_next() {
    let World { clock, turns, .. } = world();
    let edit = asker(Priority::Edit);
    let mut late = Box::pin(turns.take(&edit));
    assert!(poll!(&mut late).is_pending());
    let mut next = Box::pin(turns.take(&edit));
    assert!(poll!(&mut next).is_pending());
    clock.advance(Duration::from_secs(1));
    turns.serve();
    // The turn is there, and nobody looks.
    drop(late);
    assert!(poll!(&mut next).is_ready());
}

#[tokio::test]
async fn who_is_not_polled_any_more_holds_nobody_up() {
    let World { clock, turns, .. } = world();
    let edit = asker(Priority::Edit);
    let mut asleep = Box::pin(turns.take(&edit));
    assert!(poll!(&mut asleep).is_pending());
    clock.advance(Duration::from_secs(1));
    turns.serve();
    let mut next = Box::pin(turns.take(&edit));
    assert!(poll!(&mut next).is_pending());
    clock.advance(Duration::from_secs(1));
    // The first one watches the clock, but nobody polls it.
    next.await.spend();
}

#[tokio::test]
async fn a_turn_that_is_not_used_goes_back() {
    let World { clock, turns, .. } = world();
    clock.advance(Duration::from_secs(1));
    let edit = asker(Priority::Edit);
    drop(turns.take(&edit).await);
    assert!(turns.take(&edit).now_or_never().is_some());
}

#[tokio::test]
async fn a_ticket_is_woken_when_its_turn_has_come() {
    let World {
        clock,
        lanes,
        turns,
    } = world();
    let woken = Arc::new(Notify::new());
    let ticket = {
        let woken = Arc::clone(&woken);
        Ticket::new("x", move || woken.notify_one())
    };
    let edit = asker(Priority::Edit);
    let later = turns.claim(&edit, &ticket).err().expect("no turn is left");
    assert_eq!(later.ready_in, Duration::from_secs(1));
    clock.set_factor(1000);
    tokio::select! {
        () = lanes.attend() => unreachable!("it goes on for ever"),
        () = woken.notified() => {}
    }
    clock.set_factor(0);
    turns.claim(&edit, &ticket).expect("its turn").spend();
    assert!(turns.claim(&edit, &ticket).is_err());
}

#[tokio::test]
async fn attending_notices_a_ticket_that_comes_later() {
    let World {
        clock,
        lanes,
        turns,
    } = world();
    let woken = Arc::new(Notify::new());
    let leave = async {
        // The other branch has been polled: it waits for news.
        tokio::task::yield_now().await;
        let told = Arc::clone(&woken);
        let ticket = Ticket::new("x", move || told.notify_one());
        let later = turns.claim(&asker(Priority::Edit), &ticket);
        assert!(later.is_err());
        clock.set_factor(1000);
        woken.notified().await;
    };
    tokio::select! {
        biased;
        () = lanes.attend() => unreachable!("it goes on for ever"),
        () = leave => {}
    }
}

#[tokio::test]
async fn a_withdrawn_ticket_is_not_woken() {
    let World { clock, turns, .. } = world();
    let woken = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&woken);
    let ticket = Ticket::new("x", move || {
        told.fetch_add(1, Ordering::Relaxed);
    });
    assert!(turns.claim(&asker(Priority::Edit), &ticket).is_err());
    turns.withdraw("x");
    clock.advance(Duration::from_secs(1));
    turns.serve();
    assert_eq!(woken.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn who_was_let_in_uses_that_turn_first_and_then_goes_ahead() {
    let World { clock, turns, .. } = world();
    clock.advance(Duration::from_secs(1));
    let edit = asker(Priority::Edit);
    let ticket = Ticket::new("x", || {});
    let turn = turns.claim(&edit, &ticket).expect("a free turn");
    let admitted = edit.admitted(turn);

    let mut before = Box::pin(turns.take(&edit));
    assert!(poll!(&mut before).is_pending());
    let held = turns.take(&admitted).now_or_never();
    held.expect("the turn it holds").spend();

    let mut second = Box::pin(turns.take(&admitted));
    assert!(poll!(&mut second).is_pending());
    clock.advance(Duration::from_secs(1));
    turns.serve();
    let Some(turn) = second.now_or_never() else {
        panic!("it goes ahead of who came first");
    };
    assert!(poll!(&mut before).is_pending());
    turn.spend();
}

#[tokio::test]
async fn a_turn_of_one_limit_is_not_one_of_another() {
    let World {
        clock,
        lanes,
        turns,
    } = world();
    clock.advance(Duration::from_secs(1));
    let edit = asker(Priority::Edit);
    let ticket = Ticket::new("x", || {});
    let admitted = edit.admitted(turns.claim(&edit, &ticket).expect("a free turn"));
    let other = lanes.of(&"2".into(), ONE_A_SECOND);
    other.take(&admitted).await.spend();
    assert!(other.take(&admitted).now_or_never().is_none());
    assert!(turns.take(&admitted).now_or_never().is_some());
}
