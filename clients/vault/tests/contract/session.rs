//! One token for all callers: login, renewal, replacement and revocation.

use std::time::Duration;

use futures::future::join_all;
use http::{Method, StatusCode};
use kernel::Class;
use serde_json::{Value, json};
use testkit::Result;
use testkit::fault_proxy::Rule;
use vault_client::{Config, Error, Login, Renewal, Source};

use crate::world::{World, secret, with_token};

const LOGIN: &str = "/v1/auth/approle/login";

#[tokio::test]
async fn fifty_callers_share_one_login() -> Result<()> {
    let world = World::start().await?;
    let client = world.client(world.app_role().await?);
    let slow = Rule::on(Method::POST, LOGIN).delay(Duration::from_millis(200));
    world.proxy.rule(slow);
    let read = join_all((0..50).map(|_| client.read_policy("app"))).await;
    assert!(read.into_iter().all(|read| read.is_ok()));
    assert_eq!((world.logins_sent(), world.seen.logins()), (1, 1));
    Ok(())
}

#[tokio::test]
async fn callers_share_the_error_of_a_failed_login() -> Result<()> {
    let world = World::start().await?;
    let client = world.client(world.app_role().await?);
    let refused = Rule::on(Method::POST, LOGIN)
        .delay(Duration::from_millis(200))
        .status(StatusCode::BAD_REQUEST, r#"{"errors":["invalid role ID"]}"#);
    world.proxy.rule(refused);
    // More than there are slots: some queue while the others wait for the login.
    let read = join_all((0..100).map(|_| client.read_policy("app"))).await;
    for read in read {
        let error = read.unwrap_err();
        assert!(matches!(error, Error::AuthFailed { .. }), "{error:?}");
    }
    assert_eq!(world.logins_sent(), 1);

    world.proxy.clear();
    assert!(client.read_policy("app").await?.is_some());
    Ok(())
}

#[tokio::test]
async fn an_invalid_token_is_replaced_once_and_the_call_repeated() -> Result<()> {
    let world = World::start().await?;
    let client = world.client(world.app_role().await?);
    let first = client.login().await?;
    world.revoke(&first.accessor).await?;

    assert!(client.read_policy("app").await?.is_some());
    assert_ne!(client.session().unwrap().accessor, first.accessor);
    assert_eq!((world.logins_sent(), world.lookups_sent()), (2, 1));
    assert_eq!(
        world.proxy.count(Method::GET, "/v1/sys/policies/acl/app"),
        2
    );
    Ok(())
}

#[tokio::test]
async fn a_valid_token_without_permission_is_denied() -> Result<()> {
    let world = World::start().await?;
    let client = world.client(world.app_role().await?);
    let error = client.read_policy("other").await.unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    assert!(
        error.to_string().contains("sys/policies/acl/other"),
        "{error}"
    );
    assert_eq!((world.logins_sent(), world.lookups_sent()), (1, 1));
    Ok(())
}

#[tokio::test]
async fn a_token_with_a_quarter_of_its_ttl_left_is_renewed() -> Result<()> {
    let world = World::start().await?;
    let client = world.client(world.app_role().await?);
    let first = client.login().await?;
    world.pass(44);
    client.read_policy("app").await?;
    assert_eq!(client.session(), Some(first.clone()));
    world.pass(1);
    client.read_policy("app").await?;
    let renewed = client.session().unwrap();
    assert_eq!(renewed.accessor, first.accessor);
    assert_eq!((first.renewals, renewed.renewals), (0, 1));
    assert!(renewed.renewed.is_some() && renewed.expires > first.expires);
    assert_eq!(world.logins_sent(), 1);
    Ok(())
}

#[tokio::test]
async fn reauth_logs_in_instead() -> Result<()> {
    let world = World::start().await?;
    let config = Config {
        renewal: Renewal::Reauth,
        ..world.config(world.app_role().await?)
    };
    let client = world.client_of(config);
    let first = client.login().await?;
    world.pass(45);
    client.read_policy("app").await?;
    assert_ne!(client.session().unwrap().accessor, first.accessor);
    assert_eq!(world.logins_sent(), 2);
    Ok(())
}

const RENEW: &str = "/v1/auth/token/renew-self";

#[tokio::test]
async fn a_renewal_that_fails_becomes_a_login() -> Result<()> {
    let world = World::start().await?;
    let client = world.client(world.app_role().await?);
    let first = client.login().await?;
    let refused = r#"{"errors":["permission denied"]}"#;
    world
        .proxy
        .rule(Rule::on(Method::POST, RENEW).status(StatusCode::FORBIDDEN, refused));
    world.pass(45);
    client.read_policy("app").await?;
    assert_ne!(client.session().unwrap().accessor, first.accessor);
    assert_eq!(world.logins_sent(), 2);
    Ok(())
}

#[tokio::test]
async fn a_renewal_with_a_short_ttl_becomes_a_login() -> Result<()> {
    let world = World::start().await?;
    let client = world.client(world.app_role().await?);
    let first = client.login().await?;
    let near_the_end = |body: bytes::Bytes| {
        let mut body: Value = serde_json::from_slice(&body).unwrap();
        body["auth"]["lease_duration"] = json!(14);
        body.to_string().into()
    };
    world
        .proxy
        .rule(Rule::on(Method::POST, RENEW).rewrite_body(near_the_end));
    world.pass(45);
    client.read_policy("app").await?;
    assert_ne!(client.session().unwrap().accessor, first.accessor);
    assert_eq!(world.logins_sent(), 2);
    Ok(())
}

#[tokio::test]
async fn a_new_fingerprint_logs_in_and_revokes_the_old_token() -> Result<()> {
    let world = World::start().await?;
    let login = world.app_role().await?;
    let client = world.client(login.clone());
    let clone = client.clone();
    let first = client.login().await?;

    assert!(!client.configure(world.config(login.clone())).await?);
    assert!(world.knows(&first.accessor).await?);

    let changed = Config {
        fingerprint: "second".to_owned(),
        ..world.config(login)
    };
    assert!(client.configure(changed).await?);
    assert!(!world.knows(&first.accessor).await?);
    assert_eq!(clone.fingerprint(), "second");
    clone.read_policy("app").await?;
    assert_ne!(client.session().unwrap().accessor, first.accessor);
    assert_eq!((world.logins_sent(), world.lookups_sent()), (2, 0));
    Ok(())
}

#[tokio::test]
async fn calls_in_flight_survive_a_new_fingerprint() -> Result<()> {
    let world = World::start().await?;
    let login = world.app_role().await?;
    let client = world.client(login.clone());
    client.login().await?;
    let slow = Rule::on(Method::GET, "/v1/sys/*").delay(Duration::from_millis(100));
    world.proxy.rule(slow);
    let changed = Config {
        fingerprint: "second".to_owned(),
        ..world.config(login)
    };
    let calls = join_all((0..40).map(|_| client.read_policy("app")));
    let (calls, changed) = tokio::join!(calls, client.configure(changed));
    assert!(changed?);
    for call in calls {
        assert!(call?.is_some());
    }
    assert_eq!(world.logins_sent(), 2);
    Ok(())
}

#[tokio::test]
async fn ending_revokes_the_token_of_a_login_and_stops_calls() -> Result<()> {
    let world = World::start().await?;
    let client = world.client(world.app_role().await?);
    let first = client.login().await?;
    client.end().await?;
    assert!(!world.knows(&first.accessor).await?);
    let sent = world.proxy.requests().len();
    let error = client.read_policy("app").await.unwrap_err();
    assert_eq!(error.class(), Class::Deposed);
    assert_eq!(world.proxy.requests().len(), sent);
    Ok(())
}

#[tokio::test]
async fn a_login_in_flight_leaves_no_token_when_the_client_ends() -> Result<()> {
    let world = World::start().await?;
    let client = world.client(world.app_role().await?);
    let list = Method::from_bytes(b"LIST")?;
    let accessors = async || {
        let path = "auth/token/accessors";
        let listed = world.vault.expect(list.clone(), path, None).await;
        listed.map(|listed| listed["data"]["keys"].clone())
    };
    let before = accessors().await?;
    let slow = Rule::on(Method::POST, LOGIN).delay(Duration::from_millis(200));
    world.proxy.rule(slow);
    let (login, ended) = tokio::join!(client.login(), client.end());
    assert_eq!(login.unwrap_err().class(), Class::Deposed);
    ended?;
    assert_eq!(world.logins_sent(), 1);
    assert_eq!(accessors().await?, before);
    Ok(())
}

#[tokio::test]
async fn a_token_invalid_in_a_header_is_refused_without_a_call() -> Result<()> {
    let world = World::start().await?;
    let client = world.client(with_token("two\nlines"));
    let error = client.read_policy("app").await.unwrap_err();
    assert_eq!(error.class(), Class::Invalid);
    assert!(!error.to_string().contains("two"), "{error}");
    assert_eq!(world.proxy.requests(), []);
    Ok(())
}

async fn made_token(world: &World, ttl: &str) -> Result<(String, String)> {
    let body = json!({ "policies": ["app"], "ttl": ttl });
    let made = world.put("auth/token/create", body).await?;
    let text = |name: &str| made["auth"][name].as_str().unwrap().to_owned();
    Ok((text("client_token"), text("accessor")))
}

#[tokio::test]
async fn a_static_token_is_looked_up_renewed_and_never_revoked() -> Result<()> {
    let world = World::start().await?;
    world.app_role().await?;
    let (token, accessor) = made_token(&world, "60s").await?;
    let client = world.client(with_token(&format!("{token}\n")));
    let view = client.login().await?;
    assert_eq!((view.method, &view.accessor), ("token", &accessor));
    assert!(view.expires.is_some() && view.renewable);
    assert_eq!(world.lookups_sent(), 1);

    world.pass(50);
    client.read_policy("app").await?;
    assert_eq!(client.session().unwrap().renewals, 1);

    client.end().await?;
    assert!(world.knows(&accessor).await?);
    assert_eq!(world.seen.logins(), 0);
    Ok(())
}

#[tokio::test]
async fn an_invalid_static_token_is_not_tried_again() -> Result<()> {
    let world = World::start().await?;
    world.app_role().await?;
    let (token, accessor) = made_token(&world, "1h").await?;
    let client = world.client(with_token(&token));
    client.read_policy("app").await?;
    world.revoke(&accessor).await?;

    let error = client.read_policy("app").await.unwrap_err();
    assert!(matches!(error, Error::AuthFailed { .. }), "{error:?}");
    assert!(!error.to_string().contains(&token));
    let sent = world.proxy.requests().len();
    assert!(client.read_policy("app").await.is_err());
    assert_eq!(world.proxy.requests().len(), sent);

    // The Secret gets another token.
    let (token, _) = made_token(&world, "1h").await?;
    let changed = Config {
        fingerprint: "second".to_owned(),
        ..world.config(with_token(&token))
    };
    client.configure(changed).await?;
    assert!(client.read_policy("app").await?.is_some());
    Ok(())
}

#[tokio::test]
async fn an_unknown_token_is_refused() -> Result<()> {
    let world = World::start().await?;
    let client = world.client(with_token("hvs.not-a-token"));
    let error = client.read_policy("app").await.unwrap_err();
    assert!(matches!(error, Error::AuthFailed { .. }), "{error:?}");
    assert_eq!(world.proxy.count(Method::GET, "/v1/sys/*"), 0);
    Ok(())
}

#[tokio::test]
async fn a_token_is_renewed_and_revoked_on_request() -> Result<()> {
    let world = World::start().await?;
    let client = world.client(world.app_role().await?);
    let first = client.login().await?;
    client.renew_self().await?;
    assert_eq!(client.session().unwrap().renewals, 1);
    let lookup = client.lookup_self().await?;
    assert_eq!(lookup.accessor, first.accessor);
    assert!(lookup.ttl <= 60 && lookup.renewable);
    assert!(lookup.policies.contains(&"app".to_owned()));
    client.revoke_self().await?;
    assert!(!world.knows(&first.accessor).await?);
    assert_eq!(client.session(), None);
    Ok(())
}

#[tokio::test]
async fn a_lost_answer_to_a_login_is_repeated_once() -> Result<()> {
    let world = World::start().await?;
    let client = world.client(world.app_role().await?);
    world
        .proxy
        .rule(Rule::on(Method::POST, LOGIN).times(1).cut_after());
    assert!(client.read_policy("app").await?.is_some());
    assert_eq!((world.logins_sent(), world.seen.logins()), (2, 1));
    Ok(())
}

#[tokio::test]
async fn the_error_of_a_refused_login_has_no_secret() -> Result<()> {
    let world = World::start().await?;
    let Login::AppRole { mount, role_id, .. } = world.app_role().await? else {
        unreachable!("it is an AppRole")
    };
    let wrong = Login::AppRole {
        mount,
        role_id,
        secret_id: Source::given(secret("not-the-secret-id")),
    };
    let echo = r#"{"errors":["invalid secret id not-the-secret-id"]}"#;
    let client = world.client(wrong);
    let real = client.login().await.unwrap_err();
    assert!(matches!(real, Error::AuthFailed { .. }), "{real:?}");
    world
        .proxy
        .rule(Rule::on(Method::POST, LOGIN).status(StatusCode::BAD_REQUEST, echo));
    let echoed = client.login().await.unwrap_err().to_string();
    assert!(echoed.contains("invalid secret id ***"), "{echoed}");
    Ok(())
}
