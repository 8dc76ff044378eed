//! The environment of the process does not change a connection.

use std::process::Command;
use std::sync::Arc;

use kernel::RealClock;
use testkit::{Result, Vault, VaultOptions};
use vault_client::Client;

use crate::world::{Seen, config, parts, with_token};

/// Set in the process that this test starts from itself.
const ADDRESS: &str = "VAULT_CLIENT_TEST_ADDRESS";
const TOKEN: &str = "VAULT_CLIENT_TEST_TOKEN";

/// In its own process: no test may change the environment of the others.
#[tokio::test]
async fn variables_for_vault_and_proxies_are_ignored() -> Result<()> {
    if let (Ok(address), Ok(token)) = (std::env::var(ADDRESS), std::env::var(TOKEN)) {
        testkit::install_crypto();
        let clock = Arc::new(RealClock::new());
        let config = config("f", &address, with_token(&token));
        let client = Client::new(config, parts(clock, Arc::<Seen>::default()))?;
        client.write_policy("from-the-child", "# here").await?;
        return Ok(());
    }
    let vault = Vault::start(VaultOptions::dev()).await?;
    let nowhere = "http://127.0.0.1:1";
    let child = Command::new(std::env::current_exe()?)
        .args([
            "--exact",
            "environment::variables_for_vault_and_proxies_are_ignored",
        ])
        .env(ADDRESS, vault.address())
        .env(TOKEN, vault.root_token())
        .env("VAULT_ADDR", nowhere)
        .env("VAULT_TOKEN", "wrong")
        .env("VAULT_NAMESPACE", "wrong")
        .env("VAULT_CACERT", "/nonexistent")
        .env("HTTP_PROXY", nowhere)
        .env("http_proxy", nowhere)
        .env("ALL_PROXY", nowhere)
        .output()?;
    assert!(
        child.status.success(),
        "{}",
        String::from_utf8_lossy(&child.stdout)
    );
    let written = vault
        .expect(http::Method::GET, "sys/policies/acl/from-the-child", None)
        .await?;
    assert_eq!(written["data"]["policy"], "# here");
    Ok(())
}
