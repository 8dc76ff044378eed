use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{FutureExt, poll};
use kernel::TestClock;

use super::*;
use crate::limiter::{Limit, Limiters, Priority};

const ONE_A_SECOND: Limit = Limit {
    label: "one",
    rates: RateRange::new(1.0, 1.0, 1.0),
};

struct World {
    clock: Arc<TestClock>,
    limiters: Limiters,
    limiter: Arc<Limiter>,
}

/// One permit per second, and the first is spent.
fn world() -> World {
    let clock = Arc::new(TestClock::new());
    let limiters = Limiters::new(clock.clone());
    let limiter = limiters.of(&"1".into(), None, ONE_A_SECOND);
    let first = limiter.take(&caller(Priority::Edit)).now_or_never();
    first.expect("a full bucket").spend();
    World {
        clock,
        limiters,
        limiter,
    }
}

fn caller(priority: Priority) -> Caller {
    Caller::new(priority, "a")
}

fn waiting(limiter: &Limiter) -> usize {
    limiter.gauge().1.iter().sum()
}

#[tokio::test]
async fn a_waiting_caller_is_served_when_the_clock_has_moved() {
    let World { clock, limiter, .. } = world();
    let edit = caller(Priority::Edit);
    let mut wait = Box::pin(limiter.take(&edit));
    assert!(poll!(&mut wait).is_pending());
    clock.advance(Duration::from_secs(1));
    wait.await.spend();
    assert_eq!(waiting(&limiter), 0);
}

#[tokio::test]
async fn deletes_are_served_before_sweeps_that_came_first() {
    let World { clock, limiter, .. } = world();
    let order = Mutex::new(Vec::new());
    let call = async |priority: Priority| {
        limiter.take(&caller(priority)).await.spend();
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
async fn a_dropped_caller_leaves_the_queue() {
    let World { clock, limiter, .. } = world();
    let edit = caller(Priority::Edit);
    {
        let mut wait = Box::pin(limiter.take(&edit));
        assert!(poll!(&mut wait).is_pending());
        assert_eq!(waiting(&limiter), 1);
    }
    assert_eq!(waiting(&limiter), 0);
    clock.advance(Duration::from_secs(1));
    assert!(limiter.take(&edit).now_or_never().is_some());
}

#[tokio::test]
async fn the_permit_of_a_dropped_caller_goes_to_the_next() {
    let World { clock, limiter, .. } = world();
    let edit = caller(Priority::Edit);
    let mut late = Box::pin(limiter.take(&edit));
    assert!(poll!(&mut late).is_pending());
    let mut next = Box::pin(limiter.take(&edit));
    assert!(poll!(&mut next).is_pending());
    clock.advance(Duration::from_secs(1));
    limiter.serve();
    // The permit is ready, and its caller does not poll.
    drop(late);
    assert!(poll!(&mut next).is_ready());
}

#[tokio::test]
async fn a_caller_that_is_not_polled_does_not_delay_others() {
    let World { clock, limiter, .. } = world();
    let edit = caller(Priority::Edit);
    let mut asleep = Box::pin(limiter.take(&edit));
    assert!(poll!(&mut asleep).is_pending());
    clock.advance(Duration::from_secs(1));
    limiter.serve();
    let mut next = Box::pin(limiter.take(&edit));
    assert!(poll!(&mut next).is_pending());
    clock.advance(Duration::from_secs(1));
    // The first caller watches the clock, but it is not polled.
    next.await.spend();
}

#[tokio::test]
async fn an_unused_permit_is_returned() {
    let World { clock, limiter, .. } = world();
    clock.advance(Duration::from_secs(1));
    let edit = caller(Priority::Edit);
    drop(limiter.take(&edit).await);
    assert!(limiter.take(&edit).now_or_never().is_some());
}

#[tokio::test]
async fn a_ticket_is_woken_when_a_permit_is_ready() {
    let World {
        clock,
        limiters,
        limiter,
    } = world();
    let woken = Arc::new(Notify::new());
    let ticket = {
        let woken = Arc::clone(&woken);
        Ticket::new("x", move || woken.notify_one())
    };
    let edit = caller(Priority::Edit);
    let later = limiter
        .claim(&edit, &ticket)
        .err()
        .expect("no permit is left");
    assert_eq!(later.ready_in, Duration::from_secs(1));
    clock.set_factor(1000);
    tokio::select! {
        () = limiters.attend() => unreachable!("it goes on for ever"),
        () = woken.notified() => {}
    }
    clock.set_factor(0);
    limiter.claim(&edit, &ticket).expect("its permit").spend();
    assert!(limiter.claim(&edit, &ticket).is_err());
}

#[tokio::test]
async fn attending_notices_a_ticket_that_comes_later() {
    let World {
        clock,
        limiters,
        limiter,
    } = world();
    let woken = Arc::new(Notify::new());
    let leave = async {
        // The other branch has been polled and waits for a ticket.
        tokio::task::yield_now().await;
        let notify = Arc::clone(&woken);
        let ticket = Ticket::new("x", move || notify.notify_one());
        let later = limiter.claim(&caller(Priority::Edit), &ticket);
        assert!(later.is_err());
        clock.set_factor(1000);
        woken.notified().await;
    };
    tokio::select! {
        biased;
        () = limiters.attend() => unreachable!("it goes on for ever"),
        () = leave => {}
    }
}

#[tokio::test]
async fn a_withdrawn_ticket_is_not_woken() {
    let World { clock, limiter, .. } = world();
    let woken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&woken);
    let ticket = Ticket::new("x", move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    assert!(limiter.claim(&caller(Priority::Edit), &ticket).is_err());
    limiter.withdraw("x");
    clock.advance(Duration::from_secs(1));
    limiter.serve();
    assert_eq!(woken.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn an_admitted_caller_uses_its_permit_and_then_goes_ahead() {
    let World { clock, limiter, .. } = world();
    clock.advance(Duration::from_secs(1));
    let edit = caller(Priority::Edit);
    let ticket = Ticket::new("x", || {});
    let permit = limiter.claim(&edit, &ticket).expect("a free permit");
    let admitted = edit.admitted(permit);

    let mut before = Box::pin(limiter.take(&edit));
    assert!(poll!(&mut before).is_pending());
    let held = limiter.take(&admitted).now_or_never();
    held.expect("the permit it holds").spend();

    let mut second = Box::pin(limiter.take(&admitted));
    assert!(poll!(&mut second).is_pending());
    clock.advance(Duration::from_secs(1));
    limiter.serve();
    let Some(permit) = second.now_or_never() else {
        panic!("it goes ahead of the earlier caller");
    };
    assert!(poll!(&mut before).is_pending());
    permit.spend();
}

#[tokio::test]
async fn a_permit_is_valid_for_its_own_limit_only() {
    let World {
        clock,
        limiters,
        limiter,
    } = world();
    clock.advance(Duration::from_secs(1));
    let edit = caller(Priority::Edit);
    let ticket = Ticket::new("x", || {});
    let admitted = edit.admitted(limiter.claim(&edit, &ticket).expect("a free permit"));
    let other = limiters.of(&"2".into(), None, ONE_A_SECOND);
    other.take(&admitted).await.spend();
    assert!(other.take(&admitted).now_or_never().is_none());
    assert!(limiter.take(&admitted).now_or_never().is_some());
}
