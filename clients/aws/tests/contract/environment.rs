//! Settings from the environment of the process.
//!
//! Each story runs in its own process: no test may change the environment of the others.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use aws::{Aws, Error, Settings};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kernel::{Class, TestClock};
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

#[tokio::test]
async fn a_web_identity_becomes_its_role() -> Result {
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
    run(OTHER, home.path(), &environment)?;
    assert_eq!(world.sent("AssumeRoleWithWebIdentity").len(), 1);
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
