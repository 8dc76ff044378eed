//! Waiting for a permit without blocking.

use std::sync::Arc;
use std::time::Duration;

use aws::{Caller, Operation, Priority, Ticket};
use futures::stream::{FuturesUnordered, StreamExt as _};
use futures::{FutureExt as _, poll};
use tokio::sync::Notify;

use crate::world::{OWN, Result, World, caller};

/// The time after which the bucket has a token for another call.
const CALL: Duration = Duration::from_millis(200);
const GET: Operation = Operation::GetDistributionTenant;

fn ticket(name: &str) -> (Ticket, Arc<Notify>) {
    let woken = Arc::new(Notify::new());
    let notify = Arc::clone(&woken);
    (Ticket::new(name, move || notify.notify_one()), woken)
}

#[tokio::test]
async fn a_pass_continues_if_a_permit_is_free() -> Result {
    let world = World::still().await?;
    let (ticket, _) = ticket("DistributionTenant web/acme");
    let admitted = world.aws.own().admit(GET, &caller(), &ticket).await?;
    let cloudfront = world.aws.own().cloudfront(&admitted);
    assert!(cloudfront.tenant("acme").await.is_err());
    // One permit was used, not two: four are left.
    for _ in 0..4 {
        world.cloudfront().distribution("E1").await?;
    }
    let others = world.cloudfront();
    let mut sixth = Box::pin(others.distribution("E1"));
    assert!(poll!(&mut sixth).is_pending());
    assert_eq!(world.waiting(), 1);
    Ok(())
}

#[tokio::test]
async fn a_pass_without_a_permit_ends_and_is_woken() -> Result {
    let world = World::still().await?;
    world.drained().await?;
    let own = world.aws.own();
    let (ticket, woken) = ticket("DistributionTenant web/acme");
    let later = own.admit(GET, &caller(), &ticket).await.unwrap_err();
    assert_eq!(later.ready_in, CALL);
    let gauge = world.gauge(OWN, "cloudfront").expect("used");
    assert_eq!(gauge.waiting, [0, 1, 0, 0]);

    world.clock.set_factor(10);
    tokio::select! {
        () = world.aws.attend() => unreachable!("it goes on for ever"),
        () = woken.notified() => {}
    }
    world.clock.set_factor(0);
    let admitted = own.admit(GET, &caller(), &ticket).await?;
    assert!(own.cloudfront(&admitted).tenant("acme").await.is_err());
    assert_eq!(world.sent("GetDistributionTenant").len(), 1);
    Ok(())
}

#[tokio::test]
async fn an_admitted_pass_finishes_before_others_begin() -> Result {
    let world = World::still().await?;
    let own = world.aws.own();
    let (ticket, _) = ticket("DistributionTenant web/acme");
    let admitted = own.admit(GET, &caller(), &ticket).await?;
    for _ in 0..4 {
        world.cloudfront().distribution("E1").await?;
    }
    let others = world.cloudfront();
    let mut other = async { others.tenant("other").await.is_ok() }.boxed();
    assert!(poll!(&mut other).is_pending());
    let first = own.cloudfront(&admitted);
    assert!(first.tenant("first").await.is_err());
    let mut second = async { first.tenant("second").await.is_ok() }.boxed();
    assert!(poll!(&mut second).is_pending());
    let mut calls = FuturesUnordered::from_iter([other, second]);
    for _ in 0..2 {
        world.clock.advance(CALL);
        calls.next().await;
    }
    assert_eq!(world.tenants_read(), ["first", "second", "other"]);
    Ok(())
}

#[tokio::test]
async fn a_deletion_moves_its_ticket_ahead() -> Result {
    let world = World::still().await?;
    world.drained().await?;
    let own = world.aws.own();
    let (acme, woken) = ticket("DistributionTenant web/acme");
    let (other, _) = ticket("DistributionTenant web/other");
    assert!(own.admit(GET, &caller(), &other).await.is_err());
    assert!(own.admit(GET, &caller(), &acme).await.is_err());
    let delete = Caller::new(Priority::Delete, "web");
    assert!(own.admit(GET, &delete, &acme).await.is_err());
    world.clock.advance(CALL);
    tokio::select! {
        () = world.aws.attend() => unreachable!("it goes on for ever"),
        () = woken.notified() => {}
    }
    assert!(own.admit(GET, &caller(), &other).await.is_err());
    assert!(own.admit(GET, &delete, &acme).await.is_ok());
    Ok(())
}

#[tokio::test]
async fn a_withdrawn_ticket_delays_nobody() -> Result {
    let world = World::still().await?;
    world.drained().await?;
    let own = world.aws.own();
    let (gone, _) = ticket("DistributionTenant web/gone");
    let (next, woken) = ticket("DistributionTenant web/next");
    assert!(own.admit(GET, &caller(), &gone).await.is_err());
    assert!(own.admit(GET, &caller(), &next).await.is_err());
    world.aws.withdraw("DistributionTenant web/gone");
    world.clock.advance(CALL);
    tokio::select! {
        () = world.aws.attend() => unreachable!("it goes on for ever"),
        () = woken.notified() => {}
    }
    assert!(own.admit(GET, &caller(), &next).await.is_ok());
    Ok(())
}
