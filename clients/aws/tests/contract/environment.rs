//! Settings from the environment of the process.
//!
//! Each story runs in its own process: no test may change the environment of the others.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use aws::{Aws, Error, Settings};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kernel::{Class, TestClock};
use parking_lot::Mutex;
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::{OTHER, OWN, ROLE, Result, Seen, World, caller, parts};

/// Set in the process that a story starts: the expected result.
const EXPECTED: &str = "AWS_CLIENT_TEST_EXPECTS";

/// The test that every story runs again in its own environment.
const AGAIN: &str = "environment::keys_and_endpoint_come_from_the_environment";

/// Reads its identity and a distribution, and compares the identity and the region with the
/// expected ones.
async fn child(expected: &str) -> Result {
    let clock = Arc::new(TestClock::new());
    clock.set_factor(100);
    let parts = parts(clock, Arc::<Seen>::default());
    let aws = Aws::load(Settings::default(), parts).await;
    let seen = async {
        let identity = aws.own().sts(&caller()).caller_identity().await?;
        aws.own().cloudfront(&caller()).distribution("E1").await?;
        Ok::<_, Error>(identity.account)
    };
    let seen = match seen.await {
        Ok(account) => format!("{account} in {}", aws.region()),
        Err(error) => format!("{:?}: {error}", error.class()),
    };
    assert!(seen.starts_with(expected), "{seen}");
    Ok(())
}

/// Runs the child with only these variables in its environment.
fn run(expected: &str, home: &Path, environment: &[(&str, &str)]) -> Result {
    let child = Command::new(std::env::current_exe()?)
        .args(["--exact", AGAIN])
        .env_clear()
        .env(EXPECTED, expected)
        .env("HOME", home)
        // There is no instance metadata service here, and waiting for it takes seconds.
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .envs(environment.iter().copied())
        .output()?;
    let printed = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{printed}");
    assert!(printed.contains("1 passed"), "{printed}");
    Ok(())
}

fn web_token() -> String {
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({ "sub": "system:serviceaccount:a:b", "iss": "https://i", "aud": "sts" });
    format!("{}.{}.c2ln", part(json!({ "alg": "RS256" })), part(claims))
}

#[tokio::test]
async fn keys_and_endpoint_come_from_the_environment() -> Result {
    if let Ok(expected) = std::env::var(EXPECTED) {
        return child(&expected).await;
    }
    let world = World::start().await?;
    let home = tempfile::tempdir()?;
    let url = world.emulator.url();
    let environment = [
        ("AWS_ENDPOINT_URL", url.as_str()),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_REGION", "eu-north-1"),
    ];
    run(&format!("{OWN} in eu-north-1"), home.path(), &environment)?;
    let scope = world.sent("GetCallerIdentity")[0]["scope"].to_string();
    assert!(scope.contains("/eu-north-1/sts/"), "{scope}");
    assert_eq!(world.sent("GetDistribution").len(), 1);
    Ok(())
}

#[tokio::test]
async fn without_a_region_variable_the_profiles_region_is_used() -> Result {
    let world = World::start().await?;
    let home = tempfile::tempdir()?;
    std::fs::create_dir(home.path().join(".aws"))?;
    let profile = "[default]\nregion = eu-central-1\n";
    std::fs::write(home.path().join(".aws/config"), profile)?;
    let url = world.emulator.url();
    let environment = [
        ("AWS_ENDPOINT_URL", url.as_str()),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_REGION", ""),
    ];
    run(&format!("{OWN} in eu-central-1"), home.path(), &environment)?;
    let scope = world.sent("GetCallerIdentity")[0]["scope"].to_string();
    assert!(scope.contains("/eu-central-1/sts/"), "{scope}");
    Ok(())
}

#[tokio::test]
async fn a_service_can_have_its_own_endpoint() -> Result {
    let (world, other) = (World::start().await?, World::start().await?);
    let home = tempfile::tempdir()?;
    let (url, other_url) = (world.emulator.url(), other.emulator.url());
    let environment = [
        ("AWS_ENDPOINT_URL", url.as_str()),
        ("AWS_ENDPOINT_URL_CLOUDFRONT", other_url.as_str()),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ];
    run(&format!("{OWN} in us-east-1"), home.path(), &environment)?;
    assert!(!world.sent("GetCallerIdentity").is_empty());
    assert!(world.sent("GetDistribution").is_empty());
    assert_eq!(other.sent("GetDistribution").len(), 1);
    // Without a region the default is us-east-1.
    let scope = world.sent("GetCallerIdentity")[0]["scope"].to_string();
    assert!(scope.contains("/us-east-1/sts/"), "{scope}");
    Ok(())
}

/// Session names of the calls for a web identity's keys.
fn session_names(world: &World) -> Vec<String> {
    let opened = world.sent("AssumeRoleWithWebIdentity").into_iter();
    let names = opened.map(|entry| {
        let form = entry["body"].as_str().expect("a form").to_owned();
        let mut fields = form.split('&');
        let name = fields.find_map(|field| field.strip_prefix("RoleSessionName="));
        name.unwrap_or_default().to_owned()
    });
    names.collect()
}

#[rstest]
#[case::without_a_name(None, "pontoon")]
#[case::with_a_name(Some("mine"), "mine")]
#[tokio::test]
async fn a_web_identity_becomes_its_role(
    #[case] name: Option<&str>,
    #[case] expected: &str,
) -> Result {
    let world = World::start().await?;
    world.mutate("sts", json!({ "roles": [{ "arn": ROLE }] }));
    let distribution = json!({ "id": "E1" });
    world.mutate(
        "cloudfront",
        json!({ "account": OTHER, "distribution": distribution }),
    );
    let home = tempfile::tempdir()?;
    let token = home.path().join("token");
    std::fs::write(&token, web_token())?;
    let url = world.emulator.url();
    let token = token.to_str().expect("a plain path");
    let environment = [
        ("AWS_ENDPOINT_URL", url.as_str()),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token),
        ("AWS_ROLE_ARN", ROLE),
        ("AWS_REGION", "eu-west-1"),
    ];
    let name = name.map(|name| ("AWS_ROLE_SESSION_NAME", name));
    let environment: Vec<_> = environment.into_iter().chain(name).collect();
    run(OTHER, home.path(), &environment)?;
    assert_eq!(session_names(&world), [expected]);
    Ok(())
}

#[tokio::test]
async fn a_web_identity_that_sts_refuses_has_stss_message() -> Result {
    let world = World::start().await?;
    let home = tempfile::tempdir()?;
    let token = home.path().join("token");
    std::fs::write(&token, web_token())?;
    let url = world.emulator.url();
    let token = token.to_str().expect("a plain path");
    let environment = [
        ("AWS_ENDPOINT_URL", url.as_str()),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token),
        ("AWS_ROLE_ARN", ROLE),
        ("AWS_REGION", "eu-west-1"),
    ];
    let expected = format!(
        "{:?}: sts:AssumeRoleWithWebIdentity is denied: AccessDenied: Not authorized",
        Class::Denied
    );
    run(&expected, home.path(), &environment)
}

#[tokio::test]
async fn a_missing_token_file_means_no_credentials() -> Result {
    let world = World::start().await?;
    let home = tempfile::tempdir()?;
    let url = world.emulator.url();
    let environment = [
        ("AWS_ENDPOINT_URL", url.as_str()),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/nonexistent/token"),
        ("AWS_ROLE_ARN", ROLE),
        ("AWS_REGION", "eu-west-1"),
    ];
    let expected = format!("{:?}: no AWS credentials", Class::Denied);
    run(&expected, home.path(), &environment)
}

#[tokio::test]
async fn missing_credentials_are_reported() -> Result {
    let world = World::start().await?;
    let home = tempfile::tempdir()?;
    let url = world.emulator.url();
    let environment = [("AWS_ENDPOINT_URL", url.as_str())];
    let expected = format!("{:?}: no AWS credentials", Class::Denied);
    run(&expected, home.path(), &environment)?;
    assert_eq!(world.log(), Vec::<Value>::new());
    Ok(())
}

/// Keys as containers and instances get them.
const KEYS: &str = r#"{
    "Code": "Success", "AccessKeyId": "test", "SecretAccessKey": "s3cret", "Token": "session",
    "LastUpdated": "2020-01-01T00:00:00Z", "Expiration": "2120-01-01T00:00:00Z"
}"#;

/// A server that gives keys: answers a request, of which it gets the first line, with a body or 404.
/// Returns its address, and the requests it will have got.
fn gives_keys(
    answer: fn(&str) -> Option<&'static str>,
) -> Result<(String, Arc<Mutex<Vec<String>>>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", listener.local_addr()?);
    let requests = Arc::<Mutex<Vec<String>>>::default();
    let log = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = vec![0; 16 << 10];
            let read = stream.read(&mut request).unwrap_or(0);
            let request = String::from_utf8_lossy(&request[..read]).to_lowercase();
            let (status, body) = match answer(request.lines().next().unwrap_or_default()) {
                Some(body) => (200, body),
                None => (404, ""),
            };
            log.lock().push(request);
            let answer = format!(
                "HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Type: application/json\r\n\
                 X-aws-ec2-metadata-token-ttl-seconds: 600\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).ok();
        }
    });
    Ok((address, requests))
}

#[tokio::test]
async fn a_container_shows_its_token_and_gets_keys() -> Result {
    let world = World::start().await?;
    let home = tempfile::tempdir()?;
    let (address, requests) = gives_keys(|_| Some(KEYS))?;
    let environment = [
        ("AWS_ENDPOINT_URL", &*world.emulator.url()),
        (
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            &format!("{address}/keys"),
        ),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "pod-token"),
        ("AWS_REGION", "eu-west-1"),
    ];
    run(OWN, home.path(), &environment)?;
    let requests = requests.lock();
    assert!(requests[0].starts_with("get /keys "), "{requests:?}");
    assert!(
        requests[0].contains("authorization: pod-token"),
        "{requests:?}"
    );
    Ok(())
}

#[tokio::test]
async fn keys_of_a_container_do_not_pass_a_proxy() -> Result {
    let world = World::start().await?;
    let home = tempfile::tempdir()?;
    let (address, requests) = gives_keys(|_| Some(KEYS))?;
    let (proxy, seen_by_proxy) = gives_keys(|_| None)?;
    let environment = [
        ("AWS_ENDPOINT_URL", &*world.emulator.url()),
        (
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            &format!("{address}/keys"),
        ),
        ("AWS_REGION", "eu-west-1"),
        ("HTTP_PROXY", &proxy),
        ("ALL_PROXY", &proxy),
    ];
    run(OWN, home.path(), &environment)?;
    assert_eq!(requests.lock().len(), 1);
    assert_eq!(*seen_by_proxy.lock(), Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn an_instance_gives_the_keys_of_its_role() -> Result {
    let world = World::start().await?;
    let home = tempfile::tempdir()?;
    let (address, requests) = gives_keys(|line| match line.split(' ').nth(1)? {
        "/latest/api/token" => Some("session"),
        "/latest/meta-data/iam/security-credentials/" => Some("role"),
        "/latest/meta-data/iam/security-credentials/role" => Some(KEYS),
        _ => None,
    })?;
    let environment = [
        ("AWS_ENDPOINT_URL", &*world.emulator.url()),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", &*address),
        ("AWS_EC2_METADATA_DISABLED", "false"),
        ("AWS_REGION", "eu-west-1"),
    ];
    run(OWN, home.path(), &environment)?;
    let requests = requests.lock();
    assert!(
        requests[0].starts_with("put /latest/api/token "),
        "{requests:?}"
    );
    let session = "x-aws-ec2-metadata-token: session";
    assert!(
        requests.last().is_some_and(|last| last.contains(session)),
        "{requests:?}"
    );
    Ok(())
}
