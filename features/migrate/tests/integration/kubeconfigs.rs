//! Kubeconfigs that are refused, and logins that expire.

use api::migrate::{CheckId, Phase, StallReason, StatefulSetMigration, conditions};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::{Result, is};

use crate::stories::{NAME, SOURCE, Shop, ids, replicas, run_story_of};

/// A login that no cluster accepts.
const REVOKED: &str = "a-token-that-was-revoked";

/// Why the kubeconfig of the source is refused, with this field in it.
async fn refusal(shop: &Shop, section: &str, field: &str, value: &Value) -> Result<String> {
    let mut kubeconfig = shop.kubeconfig(SOURCE).await?;
    let fields = kubeconfig.pointer_mut(section);
    fields.expect("the kubeconfig has one cluster and one user")[field] = value.clone();
    shop.store(SOURCE, &kubeconfig).await?;
    shop.migrate(&json!({})).await?;
    let mut findings = shop.until_blocked(NAME).await?;
    assert_eq!(ids(&findings), [CheckId::Kubeconfig], "{findings:?}");
    Ok(findings.remove(0).1)
}

#[rstest]
#[case::a_file("/users/0/user", "tokenFile", json!("/a/hidden/path"), "users[0].user.tokenFile")]
#[case::any_server(
    "/clusters/0/cluster", "insecure-skip-tls-verify", json!(true),
    "clusters[0].cluster.insecure-skip-tls-verify")]
#[case::a_proxy(
    "/clusters/0/cluster", "proxy-url", json!("http://hidden.proxy.test"),
    "clusters[0].cluster.proxy-url")]
fn a_kubeconfig_is_refused_by_field(
    #[case] section: &str,
    #[case] field: &str,
    #[case] value: Value,
    #[case] path: &str,
) -> Result<()> {
    run_story_of(replicas(1), async |shop| {
        let message = refusal(shop, section, field, &value).await?;
        assert!(message.contains(path), "{message}");
        assert!(!message.contains("hidden"), "{message}");
        Ok(())
    })
}

#[test]
fn the_program_of_a_kubeconfig_is_not_run() -> Result<()> {
    run_story_of(replicas(1), async |shop| {
        let witness = std::env::temp_dir().join(shop.ops.name());
        let exec = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
            "command": "touch", "args": [witness],
        });
        let message = refusal(shop, "/users/0/user", "exec", &exec).await?;
        assert!(message.contains("users[0].user.exec"), "{message}");
        assert!(!witness.exists(), "{} was made", witness.display());
        Ok(())
    })
}

#[test]
fn a_run_waits_for_a_login_that_is_accepted() -> Result<()> {
    run_story_of(replicas(1), async |shop| {
        shop.open_shop().await?;
        shop.migrate(&json!({"ordinalLimit": 0})).await?;
        shop.until_paused("OrdinalLimit").await?;
        let mut kubeconfig = shop.kubeconfig(SOURCE).await?;
        kubeconfig["users"][0]["user"]["token"] = json!(REVOKED);
        shop.store(SOURCE, &kubeconfig).await?;
        shop.edit(&json!({"ordinalLimit": 1})).await?;
        let stalled = is(conditions::STALLED, StallReason::AuthFailed.as_str());
        let status = shop
            .ops
            .until_status::<StatefulSetMigration>(NAME, stalled)
            .await?;
        assert_eq!(status.phase, Some(Phase::MigratingPods));
        let error = status.last_error.unwrap_or_default();
        assert!(!error.is_empty() && !error.contains(REVOKED), "{error}");
        shop.store(SOURCE, &shop.kubeconfig(SOURCE).await?).await?;
        shop.until_phase(Phase::Completed).await?;
        Ok(())
    })
}
