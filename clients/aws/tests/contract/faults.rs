//! Behaviour when AWS is slow, breaks the connection, or something else answers.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use aws::{Aws, CALL_TIMEOUT, Error, Operation, Parts, Settings};
use kernel::{Class, Guard, SteppingClock, TestClock};
use rstest::rstest;
use serde_json::json;

use crate::world::{Result, Seen, World, body, caller, keys, marker, parts};

#[tokio::test]
async fn a_call_ends_in_time() -> Result {
    let timeout = Duration::from_millis(500);
    let world = World::with(|settings| settings.timeout = timeout).await?;
    world.cloudfront().distribution("E1").await?;
    let slow = json!({ "operation": "GetDistribution", "effect": { "delay": "1m" } });
    world.fault(slow);
    let started = Instant::now();
    let error = world.cloudfront().distribution("E1").await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(matches!(error, Error::NoAnswer { .. }), "{error:?}");
    assert_eq!(error.class(), Class::Transient);
    assert!(
        error.to_string().contains("cloudfront:GetDistribution E1"),
        "{error}"
    );
    let seen = world.seen.of(Operation::GetDistribution);
    assert_eq!((seen[0].1, seen[1].1), (None, Some(Class::Transient)));
    assert!(seen[1].0 >= timeout, "{seen:?}");
    Ok(())
}

#[rstest]
#[case::before_the_effect("cutBefore", false)]
#[case::after_the_effect("cutAfter", true)]
#[tokio::test]
async fn a_write_without_an_answer_is_not_repeated(
    #[case] cut: &str,
    #[case] happened: bool,
) -> Result {
    let world = World::start().await?;
    let cloudfront = world.cloudfront();
    // One call first, so that there is a connection to reuse.
    cloudfront.distribution("E1").await?;
    world.fault(json!({ "operation": "CreateDistributionTenant", "effect": cut }));
    let wanted = body(&["a.example.com"]);
    let lost = cloudfront.create_tenant("acme", &marker(), &wanted).await;
    let lost = lost.unwrap_err();
    assert!(matches!(lost, Error::NoAnswer { .. }), "{lost:?}");
    assert!(lost.may_have_happened());
    assert_eq!(world.sent("CreateDistributionTenant").len(), 1);
    assert_eq!(cloudfront.tenant("acme").await.is_ok(), happened);
    Ok(())
}

#[tokio::test]
async fn a_closed_port_gives_no_answer() -> Result {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let aws = elsewhere(&format!("http://{port}")).await;
    let error = aws.own().cloudfront(&caller()).distribution("E1").await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::NoAnswer { .. }), "{error:?}");
    assert_eq!(error.class(), Class::Transient);
    assert!(error.to_string().contains("refused"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_closed_guard_allows_reads_but_no_write() -> Result {
    let world = World::start().await?;
    let settings = Settings {
        keys: Some(keys("test")),
        endpoint: Some(world.emulator.url()),
        region: Some("eu-west-1".to_owned()),
        ..Settings::default()
    };
    let parts = Parts {
        guards: vec![Guard::always(), Guard::closed()],
        ..parts(world.clock.clone(), world.seen.clone())
    };
    let aws = Aws::load(settings, parts).await;
    let cloudfront = aws.own().cloudfront(&caller());
    cloudfront.distribution("E1").await?;
    let wanted = body(&["a.example.com"]);
    let refused = [
        cloudfront
            .create_tenant("acme", &marker(), &wanted)
            .await
            .map(drop),
        cloudfront
            .update_tenant("id", "etag", &wanted)
            .await
            .map(drop),
        cloudfront.delete_tenant("id", "etag").await,
        cloudfront.tag("arn", &marker()).await,
        aws.own()
            .route53(&caller())
            .change_batch("Z1", &[])
            .await
            .map(drop),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert_eq!(error.class(), Class::Deposed);
        assert!(!error.may_have_happened());
    }
    let writes = world.log();
    let writes = writes
        .iter()
        .filter(|entry| entry["operation"] != "GetDistribution");
    assert!(
        writes
            .into_iter()
            .all(|entry| entry["operation"] == "GetCallerIdentity")
    );
    Ok(())
}

/// A client of the emulator whose writes `guard` protects.
async fn led_by(world: &World, guard: Guard) -> Aws {
    let settings = Settings {
        keys: Some(keys("test")),
        endpoint: Some(world.emulator.url()),
        region: Some("eu-west-1".to_owned()),
        ..Settings::default()
    };
    let parts = Parts {
        guards: vec![guard],
        ..parts(world.clock.clone(), world.seen.clone())
    };
    Aws::load(settings, parts).await
}

#[tokio::test]
async fn a_guard_that_closes_before_the_bytes_leave_stops_them() -> Result {
    let world = World::start().await?;
    let (mut stopped, mut sent) = (0, 0);
    for readings in 1..12 {
        for deletes in [false, true] {
            let guard = Guard::new(Arc::new(SteppingClock::default()));
            guard.allow_until(Duration::from_secs(readings));
            let aws = led_by(&world, guard.with_margin(Duration::from_secs(5))).await;
            let cloudfront = aws.own().cloudfront(&caller());
            cloudfront.distribution("E1").await?; // reads the account's number first
            let before = world.log().len();
            let outcome = if deletes {
                cloudfront.delete_tenant("dt_none", "etag").await
            } else {
                cloudfront.tag("arn:none", &marker()).await
            };
            let arrived = world.log().len() - before;
            match outcome {
                Err(error) if error.class() == Class::Deposed => {
                    assert_eq!(arrived, 0, "after {readings} readings, deletes: {deletes}");
                    assert!(!error.may_have_happened());
                    stopped += 1;
                }
                Ok(()) | Err(_) => {
                    assert_eq!(arrived, 1, "neither exists, and AWS says so");
                    sent += 1;
                }
            }
        }
    }
    assert!(stopped >= 4 && sent >= 4, "{stopped} stopped, {sent} sent");
    Ok(())
}

#[tokio::test]
async fn a_write_ends_before_another_leader_may_write() -> Result {
    let world = World::start().await?;
    // Its clock stands still: the lease is nearly over and stays so however busy the machine is.
    let guard = Guard::new(Arc::new(TestClock::new())).with_margin(Duration::from_millis(300));
    guard.allow_until(Duration::from_millis(500));
    let aws = led_by(&world, guard).await;
    let cloudfront = aws.own().cloudfront(&caller());
    cloudfront.distribution("E1").await?;
    world.fault(json!({ "operation": "TagResource", "effect": { "delay": "1m" } }));
    let began = Instant::now();
    let error = cloudfront.tag("arn:none", &marker()).await.unwrap_err();
    assert!(matches!(error, Error::NoAnswer { .. }), "{error}");
    assert!(began.elapsed() < CALL_TIMEOUT, "{error}");
    Ok(())
}

/// A client of the server at `endpoint`.
async fn elsewhere(endpoint: &str) -> Aws {
    let settings = Settings {
        keys: Some(keys("test")),
        endpoint: Some(endpoint.to_owned()),
        region: Some("eu-west-1".to_owned()),
        ..Settings::default()
    };
    let clock = Arc::new(TestClock::new());
    Aws::load(settings, parts(clock, Arc::<Seen>::default())).await
}

/// Answers this many requests with the same text, one per connection.
fn answering(listener: TcpListener, times: usize, answer: String) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for stream in listener.incoming().take(times) {
            let mut stream = stream.expect("a connection");
            let mut request = Vec::new();
            while !is_whole(&request) {
                let mut part = [0; 4096];
                let read = stream.read(&mut part).expect("a request");
                request.extend_from_slice(&part[..read]);
            }
            stream.write_all(answer.as_bytes()).expect("an answer");
        }
    })
}

/// Whether a request is complete.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    length.is_none_or(|length| length.parse() == Ok(body.len()))
}

#[rstest]
#[case::a_proxys_page("503 Service Unavailable", "<html><body>sorry</body></html>")]
#[case::no_body("502 Bad Gateway", "")]
#[case::not_awss_success("200 OK", "<html><body>hello</body></html>")]
#[case::not_xml("200 OK", "hello")]
#[tokio::test]
async fn an_answer_not_from_aws_is_transient(#[case] status: &str, #[case] page: &str) -> Result {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let length = page.len();
    let answer =
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{page}");
    // One request for the account's number, one for the call.
    let server = answering(listener, 2, answer);
    let aws = elsewhere(&format!("http://{address}")).await;
    let error = aws.own().cloudfront(&caller()).distribution("E1").await;
    let error = error.unwrap_err();
    assert_eq!(error.class(), Class::Transient, "{error:?}");
    assert!(error.may_have_happened());
    let message = error.to_string();
    assert!(
        !message.contains("sorry") && !message.contains("hello"),
        "{message}"
    );
    server.join().expect("two requests came");
    Ok(())
}
