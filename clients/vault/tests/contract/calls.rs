//! Every call against a real server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use kernel::{Class, Guard, Redacted, SteppingClock, TestClock};
use serde_json::{Map, Value, json};
use testkit::fault_proxy::AnyMethod;
use testkit::{Result, Vault, VaultOptions};
use vault_client::{
    AuthMount, CALL_TIMEOUT, Client, Error, Parts, SecretEngine, ServerState, Written,
};

use crate::world::{World, with_token};

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[tokio::test]
async fn health_has_state_and_version_and_needs_no_token() -> Result<()> {
    let world = World::start().await?;
    let health = world.root().health().await?;
    assert_eq!(health.state, ServerState::Active);
    assert_eq!(health.enterprise, Some(false));
    assert!(health.version.starts_with("1."), "{}", health.version);
    assert!(health.usable("x").is_ok());
    let message = health.takes_namespace("team").unwrap_err().to_string();
    assert!(message.contains("has no namespaces"), "{message}");
    assert_eq!(world.proxy.requests().len(), 1);
    assert_eq!(world.seen.calls("health", "success"), 1);
    Ok(())
}

#[tokio::test]
async fn a_policy_is_written_read_listed_and_deleted() -> Result<()> {
    let world = World::start().await?;
    let client = world.root();
    let text = "# a comment stays\npath \"secret/*\" {\n  capabilities = [\"read\"]\n}\n";
    assert_eq!(client.read_policy("vao.a.b.c").await?, None);
    client.write_policy("vao.a.b.c", text).await?;
    assert_eq!(
        client.read_policy("vao.a.b.c").await?.as_deref(),
        Some(text)
    );
    let names = client.list_policies().await?;
    assert!(names.contains(&"vao.a.b.c".to_owned()) && names.contains(&"root".to_owned()));
    client.delete_policy("vao.a.b.c").await?;
    assert_eq!(client.read_policy("vao.a.b.c").await?, None);
    client.delete_policy("vao.a.b.c").await?;
    assert_eq!(world.seen.calls("policy_read", "success"), 3);
    Ok(())
}

#[tokio::test]
async fn a_policy_that_vault_refuses_has_vaults_message() -> Result<()> {
    let world = World::start().await?;
    let text = r#"path "x" { capabilities = ["fly"] }"#;
    let error = world.root().write_policy("p", text).await.unwrap_err();
    assert_eq!(error.class(), Class::Invalid);
    assert!(error.to_string().contains("fly"), "{error}");
    Ok(())
}

#[tokio::test]
async fn auth_methods_are_enabled_configured_and_disabled() -> Result<()> {
    let world = World::start().await?;
    let client = world.root();
    let mount = AuthMount::new("auth/team/k8s/");
    client.enable_auth(&mount, "kubernetes", "ours").await?;
    let again = client.enable_auth(&mount, "kubernetes", "ours").await;
    assert_eq!(again.unwrap_err().class(), Class::AlreadyExists);

    let mounts = client.auth_mounts().await?;
    assert_eq!(mounts[&mount].kind, "kubernetes");
    assert_eq!(mounts[&mount].description, "ours");
    assert!(mounts[&mount].accessor.starts_with("auth_kubernetes_"));

    assert_eq!(client.read_auth_config(&mount).await?, None);
    let config = json!({ "kubernetes_host": "https://10.0.0.1", "disable_local_ca_jwt": true });
    client.write_auth_config(&mount, object(config)).await?;
    let config = client.read_auth_config(&mount).await?.unwrap();
    assert_eq!(config["kubernetes_host"], "https://10.0.0.1");

    client.disable_auth(&mount).await?;
    assert!(!client.auth_mounts().await?.contains_key(&mount));
    Ok(())
}

#[tokio::test]
async fn roles_are_written_read_listed_and_deleted() -> Result<()> {
    let world = World::start().await?;
    let client = world.root();
    let mount = AuthMount::new("kubernetes");
    client.enable_auth(&mount, "kubernetes", "").await?;
    assert_eq!(client.list_roles(&mount).await?, Vec::<String>::new());
    assert_eq!(client.read_role(&mount, "r").await?, None);

    let fields = json!({
        "bound_service_account_names": ["sa"],
        "bound_service_account_namespaces": ["ns"],
        "audience": "vault",
        "token_policies": ["app"],
    });
    let written = client.write_role(&mount, "r", object(fields)).await?;
    assert_eq!(written, Written::default());
    let role = client.read_role(&mount, "r").await?.unwrap();
    assert_eq!(role["token_policies"], json!(["app"]));
    assert_eq!(client.list_roles(&mount).await?, ["r"]);

    client.delete_role(&mount, "r").await?;
    assert_eq!(client.read_role(&mount, "r").await?, None);
    Ok(())
}

#[tokio::test]
async fn vaults_warnings_are_passed_on() -> Result<()> {
    let world = World::start().await?;
    let client = world.root();
    let mount = AuthMount::new("kubernetes");
    client.enable_auth(&mount, "kubernetes", "").await?;
    let fields = json!({
        "bound_service_account_names": ["sa"],
        "bound_service_account_namespaces": ["ns"],
        "no_such_field": 1,
    });
    let written = client.write_role(&mount, "r", object(fields)).await?;
    let warned = |text: &String| text.contains("no_such_field");
    assert!(written.warnings.iter().any(warned), "{written:?}");
    Ok(())
}

#[tokio::test]
async fn a_missing_mount_differs_from_a_missing_role() -> Result<()> {
    let world = World::start().await?;
    let client = world.root();
    let nowhere = AuthMount::new("nowhere");
    let error = client.read_role(&nowhere, "r").await.unwrap_err();
    assert_eq!(error.class(), Class::NotFound);
    assert!(error.to_string().contains("no handler"), "{error}");
    client.delete_role(&nowhere, "r").await?;
    Ok(())
}

fn values(password: &str) -> Redacted<Map<String, Value>> {
    Redacted::new(object(json!({ "password": password })))
}

#[tokio::test]
async fn a_secret_is_written_once_and_marked() -> Result<()> {
    let world = World::start().await?;
    let client = world.root();
    let engine = client.secret_engine("secret").await?;
    assert!(engine.is_kv2(), "{engine:?}");
    assert_eq!(client.read_metadata("secret", "team/db").await?, None);
    assert_eq!(client.read_secret("secret", "team/db").await?, None);

    assert_eq!(
        client
            .write_secret("secret", "team/db", &values("one"), 0)
            .await?,
        1
    );
    let lost = client
        .write_secret("secret", "team/db", &values("two-two"), 0)
        .await;
    let lost = lost.unwrap_err();
    assert!(matches!(lost, Error::CheckAndSet { .. }), "{lost:?}");
    assert!(!lost.to_string().contains("two-two"));
    let read = client.read_secret("secret", "team/db").await?.unwrap();
    assert_eq!((read.version, read.values), (1, values("one")));

    for (key, value) in [("managed-by", "us"), ("cluster", "c")] {
        let noted = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        client.patch_metadata("secret", "team/db", &noted).await?;
    }
    let metadata = client.read_metadata("secret", "team/db").await?.unwrap();
    assert_eq!(metadata.current_version, 1);
    assert_eq!(metadata.custom_metadata["managed-by"], "us");
    assert_eq!(metadata.custom_metadata["cluster"], "c");
    assert!(metadata.has_current(jiff::Timestamp::now()));

    client.delete_metadata("secret", "team/db").await?;
    assert_eq!(client.read_metadata("secret", "team/db").await?, None);
    Ok(())
}

#[tokio::test]
async fn a_deleted_version_has_metadata_but_no_values() -> Result<()> {
    let world = World::start().await?;
    let client = world.root();
    client
        .write_secret("secret", "x", &values("one"), 0)
        .await?;
    world
        .vault
        .expect(Method::DELETE, "secret/data/x", None)
        .await?;
    let metadata = client.read_metadata("secret", "x").await?.unwrap();
    assert!(!metadata.has_current(jiff::Timestamp::now()));
    assert_eq!(client.read_secret("secret", "x").await?, None);
    assert_eq!(
        client
            .write_secret("secret", "x", &values("two"), 1)
            .await?,
        2
    );
    Ok(())
}

#[tokio::test]
async fn the_version_of_an_engine_is_read() -> Result<()> {
    let world = World::start().await?;
    let body = json!({ "type": "kv", "options": { "version": "1" } });
    world.put("sys/mounts/old", body).await?;
    let engine = world.root().secret_engine("old").await?;
    let version = Some(1);
    let kind = "kv".to_owned();
    assert_eq!(engine, SecretEngine { kind, version });
    assert!(!engine.is_kv2());
    Ok(())
}

#[tokio::test]
async fn a_closed_guard_allows_reads_but_no_write() -> Result<()> {
    let world = World::start().await?;
    let parts = Parts {
        guards: vec![Guard::always(), Guard::closed()],
        ..world.parts()
    };
    let config = world.config(with_token(world.vault.root_token()));
    let client = Client::new(config, parts)?;
    assert_eq!(client.read_policy("p").await?, None);
    let mount = AuthMount::new("kubernetes");
    let refused = [
        client.write_policy("p", "").await.map(drop),
        client.delete_policy("p").await,
        client.write_role(&mount, "r", Map::new()).await.map(drop),
        client.enable_auth(&mount, "kubernetes", "").await,
        client.patch_metadata("secret", "x", &BTreeMap::new()).await,
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().class(), Class::Deposed);
    }
    assert_eq!(world.proxy.count(Method::GET, "/v1/*"), 2);
    assert_eq!(world.proxy.count(AnyMethod::any(), "/v1/*"), 2);
    Ok(())
}

/// A guard that closes after its clock was read `readings` times.
fn closing(readings: u64) -> Guard {
    let guard = Guard::new(Arc::new(SteppingClock::default()));
    guard.allow_until(Duration::from_secs(readings));
    guard.with_margin(Duration::from_secs(5))
}

#[tokio::test]
async fn a_guard_that_closes_before_the_bytes_leave_stops_them() -> Result<()> {
    let world = World::start().await?;
    let (mut stopped, mut sent) = (0, 0);
    for readings in 1..12 {
        for deletes in [false, true] {
            let parts = Parts {
                guards: vec![closing(readings)],
                ..world.parts()
            };
            let config = world.config(with_token(world.vault.root_token()));
            let client = Client::new(config, parts)?;
            client.read_policy("p").await?; // the token is looked up
            let before = world.proxy.requests().len();
            let outcome = if deletes {
                client.delete_policy("p").await
            } else {
                let text = r#"path "secret/x" { capabilities = ["read"] }"#;
                client.write_policy("p", text).await.map(drop)
            };
            let arrived = world.proxy.requests().len() - before;
            match outcome {
                Ok(()) => sent += 1,
                Err(error) => {
                    assert_eq!(error.class(), Class::Deposed, "{error}");
                    assert_eq!(arrived, 0, "after {readings} readings, deletes: {deletes}");
                    stopped += 1;
                }
            }
        }
    }
    assert!(stopped >= 4 && sent >= 4, "{stopped} stopped, {sent} sent");
    Ok(())
}

#[tokio::test]
async fn a_write_ends_before_another_leader_may_write() -> Result<()> {
    let world = World::start().await?;
    // Its clock stands still: the lease is nearly over and stays so however busy the machine is.
    let guard = Guard::new(Arc::new(TestClock::new())).with_margin(Duration::from_millis(300));
    guard.allow_until(Duration::from_millis(500));
    let parts = Parts {
        guards: vec![guard],
        ..world.parts()
    };
    let config = world.config(with_token(world.vault.root_token()));
    let client = Client::new(config, parts)?;
    client.read_policy("p").await?;
    world.vault.freeze()?;
    let began = Instant::now();
    let error = client.write_policy("p", "").await.unwrap_err();
    let took = began.elapsed();
    world.vault.thaw()?;
    assert!(matches!(error, Error::NoAnswer { .. }), "{error}");
    assert!(took < CALL_TIMEOUT, "{error}");
    Ok(())
}

#[tokio::test]
async fn every_call_reports_a_sealed_vault_until_it_is_unsealed() -> Result<()> {
    let world = World::around(Vault::start(VaultOptions::file()).await?).await?;
    let login = world.app_role().await?;
    let (early, late) = (world.client(login.clone()), world.client(login));
    early.read_policy("app").await?;
    world.vault.seal().await?;

    assert_eq!(early.health().await?.state, ServerState::Sealed);
    let sent = world.logins_sent();
    for client in [&early, &late] {
        let error = client.read_policy("app").await.unwrap_err();
        assert!(matches!(error, Error::Sealed { .. }), "{error:?}");
    }
    assert_eq!(world.logins_sent(), sent + 1);

    world.vault.unseal().await?;
    assert_eq!(early.health().await?.state, ServerState::Active);
    for client in [&early, &late] {
        assert!(client.read_policy("app").await?.is_some());
    }
    Ok(())
}
