//! Our own credentials and those of roles.

use std::time::Duration;

use aws::{Error, Fault, Operation, Role};
use futures::future::join_all;
use kernel::Class;
use serde_json::json;

use crate::world::{OTHER, OWN, ROLE, Result, World, caller, keys, same};

const MINUTE: Duration = Duration::from_mins(1);

/// A zone in the role's account; the role requires the external ID `handshake`.
fn lend(world: &World) {
    let roles = json!([{ "arn": ROLE, "externalId": "handshake" }]);
    world.mutate("sts", json!({ "roles": roles }));
    let zone = json!({ "id": "Z2", "name": "example.org", "account": OTHER });
    world.mutate("route53", json!({ "zone": zone }));
}

fn role() -> Role {
    Role::new(ROLE, Some("handshake")).expect("a role")
}

#[tokio::test]
async fn concurrent_calls_share_one_session_of_a_role() -> Result {
    let world = World::start().await?;
    lend(&world);
    let route53 = world.aws.role(&role()).route53(&caller());
    let zones = join_all((0..20).map(|_| route53.zone("Z2"))).await;
    assert!(zones.iter().all(Result::is_ok), "{zones:?}");
    let assumed = world.sent("AssumeRole");
    assert_eq!(assumed.len(), 1);
    let body = assumed[0]["body"].as_str().expect("a form");
    assert!(body.contains("ExternalId=handshake") && body.contains("RoleSessionName=pontoon"));
    assert_eq!(assumed[0]["account"], OWN);
    for entry in world.sent("GetHostedZone") {
        assert_eq!(entry["account"], OTHER);
        assert!(
            entry["key"]
                .as_str()
                .is_some_and(|key| key.starts_with("ASIA"))
        );
    }

    // The same role again uses the same session; our own account uses its own keys.
    world
        .aws
        .role(&role())
        .route53(&caller())
        .zone("Z2")
        .await?;
    assert_eq!(world.sent("AssumeRole").len(), 1);
    world.route53().zone("Z1").await?;
    let last = world.sent("GetHostedZone").pop().expect("one more");
    assert_eq!(
        (&last["account"], &last["key"]),
        (&json!(OWN), &json!("test"))
    );
    Ok(())
}

#[tokio::test]
async fn a_role_without_its_external_id_is_denied() -> Result {
    let world = World::start().await?;
    lend(&world);
    for wrong in [None, Some("guess")] {
        let stranger = Role::new(ROLE, wrong)?;
        let route53 = world.aws.role(&stranger).route53(&caller());
        let denied = route53.zone("Z2").await.unwrap_err();
        assert_eq!(
            (denied.class(), denied.fault()),
            (Class::Denied, Fault::Denied)
        );
        assert_eq!(denied.operation(), Some(Operation::AssumeRole));
        let message = denied.to_string();
        assert!(
            message.contains("sts:AssumeRole") && message.contains(ROLE),
            "{message}"
        );
    }
    assert_eq!(world.sent("GetHostedZone"), Vec::<serde_json::Value>::new());
    Ok(())
}

#[tokio::test]
async fn a_roles_credentials_are_renewed_before_they_expire() -> Result {
    let world = World::still().await?;
    lend(&world);
    let route53 = world.aws.role(&role()).route53(&caller());
    route53.zone("Z2").await?;
    world.clock.advance(MINUTE * 54);
    route53.zone("Z2").await?;
    assert_eq!(world.sent("AssumeRole").len(), 1);
    world.clock.advance(MINUTE * 2);
    route53.zone("Z2").await?;
    assert_eq!(world.sent("AssumeRole").len(), 2);
    Ok(())
}

#[tokio::test]
async fn expired_credentials_are_renewed_and_the_call_repeated() -> Result {
    let world = World::still().await?;
    lend(&world);
    let route53 = world.aws.role(&role()).route53(&caller());
    route53.zone("Z2").await?;
    // The session expires on AWS's clock before it does on ours.
    world.later(7200);
    route53.zone("Z2").await?;
    assert_eq!(world.sent("AssumeRole").len(), 2);
    let expired = |entry: &&serde_json::Value| entry["code"] == "ExpiredToken";
    assert_eq!(world.log().iter().filter(expired).count(), 1);
    Ok(())
}

#[tokio::test]
async fn credentials_refused_twice_are_denied() -> Result {
    let world = World::still().await?;
    lend(&world);
    world.fail("GetHostedZone", 403, "ExpiredToken", None);
    let route53 = world.aws.role(&role()).route53(&caller());
    let denied = route53.zone("Z2").await.unwrap_err();
    assert_eq!(
        (denied.class(), denied.fault()),
        (Class::Denied, Fault::Credentials)
    );
    assert_eq!(world.sent("GetHostedZone").len(), 2);
    assert_eq!(world.sent("AssumeRole").len(), 2);
    world.heal();
    route53.zone("Z2").await?;
    Ok(())
}

#[tokio::test]
async fn unknown_keys_are_denied() -> Result {
    let world = World::with(|settings| settings.keys = Some(keys("nobody"))).await?;
    let denied = world.cloudfront().distribution("E1").await.unwrap_err();
    assert_eq!(
        (denied.class(), denied.fault()),
        (Class::Denied, Fault::Credentials)
    );
    assert_eq!(denied.code(), Some("InvalidClientTokenId"));
    assert!(!denied.to_string().contains("s3cret"), "{denied}");
    Ok(())
}

#[tokio::test]
async fn an_error_of_sts_fails_all_waiting_calls_as_transient() -> Result {
    let world = World::start().await?;
    lend(&world);
    world.fail("AssumeRole", 503, "ServiceUnavailable", Some(1));
    let route53 = world.aws.role(&role()).route53(&caller());
    let error = route53.zone("Z2").await.unwrap_err();
    assert_eq!(error.class(), Class::Transient);
    assert_eq!(error.operation(), Some(Operation::AssumeRole));
    route53.zone("Z2").await?;
    Ok(())
}

#[tokio::test]
async fn limits_are_per_account_number() -> Result {
    let world = World::start().await?;
    lend(&world);
    let own = join_all((0..5).map(|_| async { world.cloudfront().distribution("E1").await })).await;
    assert!(own.iter().all(Result::is_ok));
    world
        .aws
        .role(&role())
        .route53(&caller())
        .zone("Z2")
        .await?;
    assert_eq!(world.sent("GetCallerIdentity").len(), 1);
    assert!(world.gauge(OWN, "cloudfront").is_some());
    assert!(world.gauge(OTHER, "route53/GetHostedZone").is_some());
    assert!(world.gauge(OWN, "route53/GetHostedZone").is_none());
    Ok(())
}

#[tokio::test]
async fn an_account_of_unknown_number_is_limited_too() -> Result {
    let world = World::still().await?;
    world.fail("GetCallerIdentity", 503, "ServiceUnavailable", Some(1));
    world.cloudfront().distribution("E1").await?;
    world.cloudfront().distribution("E1").await?;
    assert_eq!(world.sent("GetCallerIdentity").len(), 1);
    assert!(same(world.rate("own", "cloudfront"), 5.0));
    // The number is requested again after a minute.
    world.clock.advance(MINUTE);
    world.cloudfront().distribution("E1").await?;
    assert!(world.gauge(OWN, "cloudfront").is_some());
    Ok(())
}

#[tokio::test]
async fn no_secret_is_printed() -> Result {
    let world = World::start().await?;
    lend(&world);
    let account = world.aws.role(&role());
    account.route53(&caller()).zone("Z2").await?;
    let session = world.aws.own().sts(&caller()).assume_role(&role()).await?;
    let printed = format!("{:?} {account:?} {session:?} {:?}", world.aws, keys("test"));
    let secret = session.keys.secret_access_key.expose();
    let token = session.keys.session_token.expect("it ends");
    assert!(
        !printed.contains(secret) && !printed.contains(token.expose()),
        "{printed}"
    );
    assert!(!printed.contains("s3cret"), "{printed}");
    Ok(())
}

#[tokio::test]
async fn an_invalid_role_is_refused_without_a_call() {
    let wrong = Role::new("arn:aws:iam::222222222222:user/dns", None::<String>).unwrap_err();
    let error = Error::from(wrong);
    assert_eq!(error.class(), Class::Invalid);
    assert!(error.to_string().contains("user/dns"), "{error}");
}
