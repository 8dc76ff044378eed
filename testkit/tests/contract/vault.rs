//! A real Vault server.

use reqwest::Method;
use serde_json::json;
use testkit::{Result, Vault, VaultOptions};

#[tokio::test]
async fn a_dev_server_stores_a_policy() -> Result<()> {
    let vault = Vault::start(VaultOptions::dev()).await?;
    let policy = json!({ "policy": "path \"a\" { capabilities = [\"read\"] }" });
    vault
        .expect(Method::PUT, "sys/policies/acl/reader", Some(policy.clone()))
        .await?;
    let stored = vault
        .expect(Method::GET, "sys/policies/acl/reader", None)
        .await?;
    assert_eq!(stored["data"]["policy"], policy["policy"]);

    let refused = vault
        .request_as("nobody", Method::GET, "sys/policies/acl/reader", None)
        .await?;
    assert_eq!(refused.status, 403);
    Ok(())
}

#[tokio::test]
async fn it_prints_the_pinned_version() -> Result<()> {
    let vault = Vault::start(VaultOptions::dev()).await?;
    let health = vault.expect(Method::GET, "sys/health", None).await?;
    assert_eq!(health["version"], testkit::tools::Tool::Vault.version());
    Ok(())
}

#[tokio::test]
async fn a_server_with_files_survives_sealing_and_a_restart() -> Result<()> {
    let vault = Vault::start(VaultOptions::file()).await?;
    let policy = json!({ "policy": "path \"a\" { capabilities = [\"read\"] }" });
    vault
        .expect(Method::PUT, "sys/policies/acl/reader", Some(policy))
        .await?;

    vault.seal().await?;
    let sealed = vault
        .request(Method::GET, "sys/policies/acl/reader", None)
        .await?;
    assert_eq!(sealed.status, 503, "{}", sealed.body);
    vault.unseal().await?;
    vault
        .expect(Method::GET, "sys/policies/acl/reader", None)
        .await?;

    vault.stop().await?;
    assert!(
        vault
            .request(Method::GET, "sys/health", None)
            .await
            .is_err()
    );
    vault.start_again().await?;
    assert_eq!(
        vault.request(Method::GET, "sys/health", None).await?.status,
        503
    );
    vault.unseal().await?;
    vault
        .expect(Method::GET, "sys/policies/acl/reader", None)
        .await?;
    Ok(())
}
