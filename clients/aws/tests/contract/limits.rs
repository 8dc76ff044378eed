//! Rate and order of calls.

use std::time::Duration;

use aws::{Caller, Fault, Operation, Priority};
use futures::poll;
use futures::stream::{FuturesUnordered, StreamExt as _};
use http::Method;
use serde_json::json;

use crate::world::{OTHER, OWN, ROLE, Result, World, caller, same};

const SECOND: Duration = Duration::from_secs(1);

async fn throttled(world: &World) {
    world.fail("GetDistribution", 400, "Throttling", Some(1));
    let error = world.cloudfront().distribution("E1").await.unwrap_err();
    assert_eq!(error.fault(), Fault::Throttled);
}

#[tokio::test]
async fn throttling_halves_the_rate_and_calm_raises_it() -> Result {
    let world = World::still().await?;
    throttled(&world).await;
    assert!(same(world.rate(OWN, "cloudfront"), 2.5));
    // A second throttled call of the same burst does not count.
    world.clock.advance(SECOND);
    throttled(&world).await;
    assert!(same(world.rate(OWN, "cloudfront"), 2.5));
    world.clock.advance(SECOND * 4);
    throttled(&world).await;
    assert!(same(world.rate(OWN, "cloudfront"), 1.25));
    world.clock.advance(SECOND * 10);
    assert!(same(world.rate(OWN, "cloudfront"), 1.3125));
    Ok(())
}

#[tokio::test]
async fn services_accounts_and_actions_have_separate_limits() -> Result {
    let world = World::still().await?;
    world.mutate("sts", json!({ "roles": [{ "arn": ROLE }] }));
    let zone = json!({ "id": "Z2", "name": "example.org", "account": OTHER });
    world.mutate("route53", json!({ "zone": zone }));
    world.cloudfront().distribution("E1").await?;
    world.route53().zones(None).await?;
    let role = aws::Role::new(ROLE, None::<String>)?;
    world.aws.role(&role).route53(&caller()).zone("Z2").await?;
    world.fail("GetHostedZone", 400, "Throttling", Some(1));
    assert!(world.route53().zone("Z1").await.is_err());
    assert!(same(world.rate(OWN, "route53/GetHostedZone"), 4.0));
    assert!(same(world.rate(OWN, "route53/ListHostedZones"), 8.0));
    assert!(same(world.rate(OTHER, "route53/GetHostedZone"), 8.0));
    assert!(same(world.rate(OWN, "cloudfront"), 5.0));
    Ok(())
}

#[tokio::test]
async fn invalidations_have_their_own_limit() -> Result {
    let world = World::still().await?;
    let cloudfront = world.cloudfront();
    let paths = ["/*".to_owned()];
    // Refused, but it used a permit.
    assert!(cloudfront.invalidate("dt_404", "a", &paths).await.is_err());
    assert!(same(world.rate(OWN, "cloudfront/invalidations"), 0.5));
    let mut second = Box::pin(cloudfront.invalidate("dt_404", "b", &paths));
    assert!(poll!(&mut second).is_pending());
    let gauge = world.gauge(OWN, "cloudfront/invalidations").expect("used");
    assert_eq!(gauge.waiting, [0, 1, 0, 0]);
    // Other calls do not wait for it.
    cloudfront.distribution("E1").await?;
    world.clock.advance(SECOND * 2);
    assert!(second.await.is_err());
    Ok(())
}

/// Calls in flight, and the results of those that ended.
struct Crowd<'a, F: Future> {
    world: &'a World,
    calls: FuturesUnordered<F>,
    ended: Vec<F::Output>,
    total: usize,
}

impl<'a, F: Future> Crowd<'a, F> {
    fn new(world: &'a World, calls: impl IntoIterator<Item = F>) -> Self {
        let calls: FuturesUnordered<F> = calls.into_iter().collect();
        Self {
            world,
            total: calls.len(),
            calls,
            ended: Vec::new(),
        }
    }

    /// Waits until each call has ended or waits for a permit.
    async fn settled(&mut self) {
        while self.ended.len() + self.world.waiting() < self.total {
            self.ended.extend(self.calls.next().await);
        }
    }

    /// Advances both clocks by the time of a call, until all calls have ended.
    async fn made(mut self) -> Vec<F::Output> {
        let step = Duration::from_millis(200);
        while self.ended.len() < self.total {
            let body = json!({ "advance": step.as_secs_f64() });
            self.world.control(Method::POST, "clock", body);
            self.world.clock.advance(step);
            self.settled().await;
        }
        self.ended
    }
}

/// Queues calls in this order while the clock stands; then advances it until all are made.
async fn crowd(world: &World, calls: &[(Priority, &str, &str)]) -> Result {
    world.drained().await?;
    let mut waiting = Vec::new();
    for (priority, namespace, tenant) in calls {
        let caller = Caller::new(*priority, *namespace);
        let cloudfront = world.aws.own().cloudfront(&caller);
        let mut call = Box::pin(async move { cloudfront.tenant(tenant).await.is_ok() });
        assert!(poll!(&mut call).is_pending());
        waiting.push(call);
    }
    assert_eq!(world.waiting(), calls.len());
    Crowd::new(world, waiting).made().await;
    Ok(())
}

#[tokio::test]
async fn deletes_go_before_edits_polls_and_sweeps() -> Result {
    let world = World::still().await?;
    let calls = [
        (Priority::Sweep, "a", "sweep"),
        (Priority::Poll, "a", "poll"),
        (Priority::Edit, "a", "edit"),
        (Priority::Delete, "a", "delete"),
    ];
    crowd(&world, &calls).await?;
    assert_eq!(world.tenants_read(), ["delete", "edit", "poll", "sweep"]);
    Ok(())
}

#[tokio::test]
async fn namespaces_are_served_round_robin() -> Result {
    let world = World::still().await?;
    let calls = [
        (Priority::Edit, "big", "big-1"),
        (Priority::Edit, "big", "big-2"),
        (Priority::Edit, "big", "big-3"),
        (Priority::Edit, "small", "small-1"),
        (Priority::Edit, "other", "other-1"),
    ];
    crowd(&world, &calls).await?;
    assert_eq!(
        world.tenants_read(),
        ["big-1", "small-1", "other-1", "big-2", "big-3"]
    );
    Ok(())
}

#[tokio::test]
async fn sweeps_get_their_tenth_under_a_flood_of_edits() -> Result {
    let world = World::still().await?;
    let mut calls = vec![(Priority::Sweep, "a", "sweep")];
    calls.extend([(Priority::Edit, "a", "edit"); 15]);
    crowd(&world, &calls).await?;
    let tenants = world.tenants_read();
    let position = tenants.iter().position(|tenant| tenant == "sweep");
    assert_eq!(position, Some(9));
    Ok(())
}

/// All calls wait at once, and AWS accepts exactly our initial rate.
#[tokio::test]
async fn few_calls_are_throttled_at_the_expected_rate() -> Result {
    let world = World::still().await?;
    world.control(Method::POST, "clock", json!({ "factor": 0 }));
    world.switch("cloudfront", json!({ "rate": 5 }));
    let calls = (0..400).map(|call| {
        let caller = Caller::new(Priority::Edit, format!("ns-{}", call % 7));
        let cloudfront = world.aws.own().cloudfront(&caller);
        async move { cloudfront.distribution("E1").await }
    });
    let mut crowd = Crowd::new(&world, calls);
    crowd.settled().await;
    assert_eq!(crowd.ended.len(), 5);
    let made = crowd.made().await;
    let throttled = made.into_iter().filter_map(Result::err);
    let throttled = throttled.inspect(|error| assert_eq!(error.fault(), Fault::Throttled));
    let throttled = throttled.count();
    assert!((1..=12).contains(&throttled), "{throttled} of 400");
    assert_eq!(world.seen.of(Operation::GetDistribution).len(), 400);
    Ok(())
}
