//! Behaviour when Vault throttles, does not answer or breaks connections.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use http::{Method, StatusCode};
use kernel::{Class, RealClock};
use rstest::rstest;
use serde_json::json;
use testkit::Result;
use testkit::fault_proxy::{AnyMethod, Rule};
use testkit::port::Port;
use vault_client::{Client, Config, Error, Limits, Settings};

use crate::world::{Seen, World, config, parts, with_token};

const POLICY: &str = "/v1/sys/policies/acl/*";

#[tokio::test]
async fn vaults_rate_limit_stops_calls_until_retry_after() -> Result<()> {
    let world = World::start().await?;
    let client = world.root();
    client.login().await?;
    let config = json!({ "enable_rate_limit_response_headers": true });
    world.put("sys/quotas/config", config).await?;
    let quota = json!({ "path": "sys/policies/acl/*", "rate": 1, "interval": "30s" });
    world.put("sys/quotas/rate-limit/slow", quota).await?;

    client.read_policy("p").await?;
    let error = client.read_policy("p").await.unwrap_err();
    assert_eq!(error.class(), Class::Throttled);
    let wait = error.retry_after().expect("Vault says when to retry");
    assert!(wait > Duration::ZERO && wait <= Duration::from_secs(30));

    // Until then no call is sent, and callers get the remaining time.
    let sent = world.proxy.count(Method::GET, POLICY);
    let error = client.read_policy("p").await.unwrap_err();
    assert_eq!(error.retry_after(), Some(wait));
    assert_eq!(world.proxy.count(Method::GET, POLICY), sent);
    assert_eq!(world.seen.calls("policy_read", "failure"), 1);

    world
        .put(
            "sys/quotas/rate-limit/slow",
            json!({ "path": "sys/policies/acl/*", "rate": 1000 }),
        )
        .await?;
    world.clock.advance(wait);
    client.read_policy("p").await?;
    Ok(())
}

#[tokio::test]
async fn no_more_calls_than_allowed_are_in_flight() -> Result<()> {
    let world = World::start().await?;
    let mut config = world.config(with_token(world.vault.root_token()));
    config.settings.limits = Limits {
        max_in_flight: 2,
        ..Limits::default()
    };
    let client = world.client_of(config);
    client.login().await?;
    let delay = Duration::from_millis(200);
    world.proxy.rule(Rule::on(Method::GET, POLICY).delay(delay));
    let started = Instant::now();
    let read = join_all((0..6).map(|_| client.read_policy("p"))).await;
    assert!(read.iter().all(Result::is_ok));
    // Three rounds of two.
    assert!(started.elapsed() >= delay * 3);
    Ok(())
}

#[tokio::test]
async fn calls_beyond_the_burst_follow_the_rate() -> Result<()> {
    let world = World::start().await?;
    let mut config = world.config(with_token(world.vault.root_token()));
    config.settings.limits = Limits {
        requests_per_second: Some(20),
        burst: 5,
        max_in_flight: 16,
    };
    let clock = Arc::new(RealClock::new());
    let client = Client::new(config, parts(clock, world.seen.clone()))?;
    let started = Instant::now();
    let read = join_all((0..15).map(|_| client.read_policy("p"))).await;
    assert!(read.iter().all(Result::is_ok));
    // Ten of them at 20 per second.
    assert!(started.elapsed() >= Duration::from_millis(490));
    Ok(())
}

#[rstest]
#[case::reset(Rule::on(Method::PUT, POLICY).reset())]
#[case::cut_before(Rule::on(Method::PUT, POLICY).cut_before())]
#[case::cut_after_the_effect(Rule::on(Method::PUT, POLICY).cut_after())]
#[tokio::test]
async fn a_write_without_an_answer_is_not_repeated(#[case] rule: Rule) -> Result<()> {
    let world = World::start().await?;
    let client = world.root();
    client.login().await?;
    world.proxy.rule(rule);
    let error = client.write_policy("p", "").await.unwrap_err();
    assert!(matches!(error, Error::NoAnswer { .. }), "{error:?}");
    assert_eq!(error.class(), Class::Transient);
    assert_eq!(world.proxy.count(Method::PUT, POLICY), 1);
    Ok(())
}

fn impatient(world: &World) -> Config {
    let mut config = world.config(with_token(world.vault.root_token()));
    config.settings.timeout = Duration::from_millis(300);
    config
}

#[tokio::test]
async fn a_server_that_never_answers_stops_later_calls() -> Result<()> {
    let world = World::start().await?;
    let client = world.client_of(impatient(&world));
    client.login().await?;
    let hole = world
        .proxy
        .rule(Rule::on(AnyMethod::any(), "*").black_hole());
    for _ in 0..3 {
        let error = client.read_policy("p").await.unwrap_err();
        assert!(matches!(error, Error::NoAnswer { .. }), "{error:?}");
    }
    // A thousand more calls fail at once.
    let sent = world.proxy.requests().len();
    let read = join_all((0..1000).map(|_| client.read_policy("p"))).await;
    for read in read {
        assert_eq!(read.unwrap_err().class(), Class::Unreachable);
    }
    assert_eq!(world.proxy.requests().len(), sent);

    // The health call is sent nevertheless and fails as unreachable.
    let error = client.health().await.unwrap_err();
    assert_eq!(error.class(), Class::Unreachable);
    assert_eq!(world.proxy.requests().len(), sent + 1);

    // Its first answer allows all calls.
    world.proxy.remove(hole);
    assert!(client.read_policy("p").await.is_err());
    client.health().await?;
    assert_eq!(client.read_policy("p").await?, None);
    Ok(())
}

#[tokio::test]
async fn one_call_per_pause_tests_whether_vault_is_back() -> Result<()> {
    let world = World::start().await?;
    let client = world.client_of(impatient(&world));
    client.login().await?;
    let reset = world.proxy.rule(Rule::on(AnyMethod::any(), "*").reset());
    for _ in 0..3 {
        assert!(client.read_policy("p").await.is_err());
    }
    world.pass(10);
    let sent = world.proxy.requests().len();
    for _ in 0..5 {
        assert!(client.read_policy("p").await.is_err());
    }
    assert_eq!(world.proxy.requests().len(), sent + 1);
    world.proxy.remove(reset);
    world.pass(10);
    assert_eq!(client.read_policy("p").await?, None);
    Ok(())
}

#[rstest]
#[case::no_such_name("http://vault.invalid:8200")]
#[case::nobody_listens("")]
#[tokio::test]
async fn an_unreachable_address_is_named(#[case] address: &str) -> Result<()> {
    testkit::install_crypto();
    let port = Port::free()?;
    let free = format!("http://{}", port.address());
    let address = if address.is_empty() { &free } else { address };
    let clock = Arc::new(RealClock::new());
    let login = with_token("hvs.x");
    let parts = parts(clock, Arc::<Seen>::default());
    let client = Client::new(config("f", address, login), parts)?;
    for error in [
        client.health().await.unwrap_err(),
        client.read_policy("p").await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
        assert!(error.to_string().contains(address), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn an_answer_not_from_vault_is_an_error() -> Result<()> {
    let world = World::start().await?;
    let client = world.root();
    client.login().await?;
    world
        .proxy
        .rule(Rule::on(Method::GET, POLICY).status(StatusCode::OK, "<html>hello</html>"));
    let error = client.read_policy("p").await.unwrap_err();
    assert_eq!(error.class(), Class::Transient);
    world.proxy.clear();
    world
        .proxy
        .rule(Rule::on(Method::GET, POLICY).status(StatusCode::SERVICE_UNAVAILABLE, "<html>"));
    let error = client.read_policy("p").await.unwrap_err();
    assert_eq!(error.class(), Class::Transient);
    Ok(())
}

#[tokio::test]
async fn every_call_but_health_has_the_namespace() -> Result<()> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", listener.local_addr()?);
    let server = crate::redirects::answering(listener, 4, |request| {
        let body = if request.contains("/login") {
            r#"{"auth":{"client_token":"hvs.t","lease_duration":3600}}"#
        } else if request.contains("/health") {
            r#"{"initialized":true}"#
        } else {
            r#"{"data":{"policy":""}}"#
        };
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    });
    testkit::install_crypto();
    let login = vault_client::Login::Jwt {
        mount: vault_client::AuthMount::new("jwt"),
        role: "r".to_owned(),
        jwt: vault_client::Source::given(crate::world::secret("a.b.c")),
    };
    let mut config = config("f", &address, login);
    config.settings = Settings {
        vault_namespace: Some("team".to_owned()),
        auth_namespace: Some("admin".to_owned()),
        ..config.settings
    };
    let clock = Arc::new(RealClock::new());
    let client = Client::new(config, parts(clock, Arc::<Seen>::default()))?;
    client.health().await?;
    client.read_policy("p").await?;
    client.in_namespace("team/child").read_policy("p").await?;

    let heads = server.join().unwrap();
    let namespace = |head: &String| {
        let line = head
            .lines()
            .find_map(|line| line.strip_prefix("x-vault-namespace: "));
        line.map(str::to_owned)
    };
    let namespaces: Vec<_> = heads.iter().map(namespace).collect();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        namespaces,
        [None, some("admin"), some("team"), some("team/child")]
    );
    assert!(!heads[0].contains("x-vault-token"));
    assert!(
        heads
            .iter()
            .all(|head| head.contains("x-vault-request: true"))
    );
    Ok(())
}
