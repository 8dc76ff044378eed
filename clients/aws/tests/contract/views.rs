//! Views of one `Aws`: what features share, and what each has of its own.

use std::sync::Arc;
use std::time::Duration;

use aws::{Aws, Error, Operation, Role};
use futures::future::join;
use futures::poll;
use kernel::Guard;
use serde_json::json;

use crate::world::{OTHER, OWN, ROLE, Result, Seen, World, caller, same};

/// Two views, each with its guard and observer.
struct Views {
    world: World,
    first: (Aws, Guard, Arc<Seen>),
    second: (Aws, Guard, Arc<Seen>),
}

async fn views() -> Result<Views> {
    let world = World::still().await?;
    let view = || {
        let (guard, seen) = (Guard::always(), Arc::<Seen>::default());
        let aws = world.aws.for_feature(vec![guard.clone()], seen.clone());
        (aws, guard, seen)
    };
    let (first, second) = (view(), view());
    Ok(Views {
        world,
        first,
        second,
    })
}

#[tokio::test]
async fn views_share_one_rate() -> Result {
    let Views {
        world,
        first: (first, ..),
        second: (second, ..),
    } = views().await?;
    world.fail("GetDistribution", 400, "Throttling", Some(1));
    let cloudfront = first.own().cloudfront(&caller());
    assert!(cloudfront.distribution("E1").await.is_err());
    for aws in [&first, &second, &world.aws] {
        let gauges = aws.gauges();
        let rate = gauges.iter().find(|gauge| gauge.service == "cloudfront");
        assert!(same(rate.expect("it was used").rate, 2.5));
    }
    // A permit comes with time alone, for whichever view; the number of our account was read once.
    let second = second.own().cloudfront(&caller());
    let mut waiting = Box::pin(second.distribution("E1"));
    assert!(poll!(&mut waiting).is_pending());
    world.clock.advance(Duration::from_secs(1));
    waiting.await?;
    assert_eq!(world.sent("GetCallerIdentity").len(), 1);
    Ok(())
}

#[tokio::test]
async fn views_share_one_session_of_a_role() -> Result {
    let Views {
        world,
        first: (first, _, first_seen),
        second: (second, _, second_seen),
    } = views().await?;
    world.mutate("sts", json!({ "roles": [{ "arn": ROLE }] }));
    let zone = json!({ "id": "Z2", "name": "example.org", "account": OTHER });
    world.mutate("route53", json!({ "zone": zone }));
    let role = Role::new(ROLE, None::<String>)?;
    let zone = async |aws: &Aws| aws.role(&role).route53(&caller()).zone("Z2").await;
    let (one, two) = join(Box::pin(zone(&first)), Box::pin(zone(&second))).await;
    assert!(one.is_ok() && two.is_ok(), "{one:?} {two:?}");
    assert_eq!(world.sent("AssumeRole").len(), 1);
    // The view that needed the session first sent the request to STS.
    let sent = |seen: &Seen| seen.of(Operation::AssumeRole).len();
    assert_eq!(sent(&first_seen) + sent(&second_seen), 1);
    assert_eq!(sent(&world.seen), 0);
    Ok(())
}

#[tokio::test]
async fn a_views_calls_are_seen_by_its_observer_alone() -> Result {
    let Views {
        world,
        first: (first, _, first_seen),
        second: (_, _, second_seen),
    } = views().await?;
    first.own().cloudfront(&caller()).distribution("E1").await?;
    let read = Operation::GetDistribution;
    assert_eq!(first_seen.of(read).len(), 1);
    assert_eq!(second_seen.of(read).len() + world.seen.of(read).len(), 0);
    Ok(())
}

#[tokio::test]
async fn a_closed_guard_stops_the_writes_of_its_view_alone() -> Result {
    let Views {
        world,
        first: (first, guard, _),
        second: (second, ..),
    } = views().await?;
    guard.revoke();
    let paths = ["/*".to_owned()];
    let stopped = first.own().cloudfront(&caller());
    let stopped = stopped.invalidate("dt_404", "a", &paths).await.unwrap_err();
    assert!(matches!(stopped, Error::Deposed(_)), "{stopped}");
    assert_eq!(
        world.sent("CreateInvalidationForDistributionTenant").len(),
        0
    );
    let written = second.own().cloudfront(&caller());
    assert!(written.invalidate("dt_404", "a", &paths).await.is_err());
    assert_eq!(
        world.sent("CreateInvalidationForDistributionTenant").len(),
        1
    );
    Ok(())
}

#[tokio::test]
async fn credentials_are_those_that_calls_are_signed_with() -> Result {
    let world = World::still().await?;
    world.mutate("sts", json!({ "roles": [{ "arn": ROLE }] }));
    let own = world.aws.own().credentials().await?;
    assert_eq!(own.access_key_id, "test");
    let account = world.aws.role(&Role::new(ROLE, None::<String>)?);
    let keys = account.credentials().await?;
    let again = account.credentials().await?;
    assert_eq!(keys, again);
    let identity = account.sts(&caller()).caller_identity().await?;
    assert_eq!(identity.account, OTHER);
    assert_eq!(world.sent("AssumeRole").len(), 1);
    let last = world.sent("GetCallerIdentity").pop().expect("it was sent");
    assert_eq!(last["key"], keys.access_key_id.as_str());
    Ok(())
}

#[tokio::test]
async fn each_region_of_a_service_has_its_own_limit() -> Result {
    let world = World::still().await?;
    let own = world.aws.own();
    world.fail("Scan", 400, "ThrottlingException", Some(1));
    for region in ["eu-west-1", "us-west-2"] {
        assert!(
            own.dynamodb(&caller(), region)
                .scan("t", None)
                .await
                .is_err()
        );
    }
    let gauges = world.aws.gauges();
    let rate = |region: Option<&str>| {
        let same = |gauge: &&aws::Gauge| {
            (&*gauge.account, gauge.service, gauge.region.as_deref()) == (OWN, "dynamodb", region)
        };
        gauges.iter().find(same).expect("it was used").rate
    };
    // The region of the process has no label of its own.
    assert!(same(rate(None), 5.0));
    assert!(same(rate(Some("us-west-2")), 10.0));
    Ok(())
}
