//! The environment of the process does not change a connection.

use std::net::TcpListener;
use std::process::Command;

use cluster_client::read_identity;
use testkit::Result;

use crate::world::{World, client};

/// Set in the process that this test starts from itself.
const KUBECONFIG: &str = "CLUSTER_CLIENT_TEST_KUBECONFIG";

/// In its own process: no test may change the environment of the others.
#[tokio::test]
async fn variables_for_proxies_and_kubeconfigs_are_ignored() -> Result<()> {
    if let Ok(kubeconfig) = std::env::var(KUBECONFIG) {
        read_identity(&client(&serde_json::from_str(&kubeconfig)?)).await?;
        return Ok(());
    }
    let world = World::start().await?;
    let kubeconfig = world.reader("environment").await?;
    let proxy = TcpListener::bind("127.0.0.1:0")?;
    proxy.set_nonblocking(true)?;
    let proxy_url = format!("http://{}", proxy.local_addr()?);
    let mut child = Command::new(std::env::current_exe()?);
    child.args([
        "--exact",
        "environment::variables_for_proxies_and_kubeconfigs_are_ignored",
    ]);
    for variable in [
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "KUBE_RS_DEBUG_OVERRIDE_URL",
    ] {
        child.env(variable, &proxy_url);
    }
    let child = child
        .env(KUBECONFIG, kubeconfig.to_string())
        .env("KUBECONFIG", "/nonexistent")
        .env("KUBE_RS_DEBUG_IMPERSONATE_USER", "nobody")
        .output()?;
    assert!(
        child.status.success(),
        "{}",
        String::from_utf8_lossy(&child.stdout)
    );
    assert!(
        proxy.accept().is_err(),
        "a connection was made to the proxy"
    );
    Ok(())
}
