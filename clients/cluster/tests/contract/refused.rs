//! A kubeconfig that is refused has no effect: nothing is executed, opened or dialled.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use cluster_client::{VettingRules, vet};
use kube::Config;
use kube::client::ConfigExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, from_value, json};
use testkit::{Result, scratch::Scratch};

use crate::world::World;

const USER: &str = "/users/0/user";
const CLUSTER: &str = "/clusters/0/cluster";

/// The path of the field for which a kubeconfig with `value` at `field` of `section` is refused.
fn refused_field(kubeconfig: &Value, section: &str, field: &str, value: Value) -> String {
    let mut kubeconfig = kubeconfig.clone();
    kubeconfig.pointer_mut(section).unwrap()[field] = value;
    let refused = vet(kubeconfig.to_string().as_bytes(), VettingRules::default()).unwrap_err();
    refused.field().to_owned()
}

/// An exec plugin that creates the file `proof`.
fn plugin(proof: &Path) -> Value {
    let script = format!("touch {}", proof.display());
    json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
        "interactiveMode": "Never",
    })
}

#[tokio::test]
async fn an_exec_plugin_is_not_executed() -> Result<()> {
    let world = World::start().await?;
    let mut kubeconfig = world.kubeconfig("exec").await?;
    let folder = Scratch::new("exec")?;
    let proof = folder.path().join("executed");
    let field = refused_field(&kubeconfig, USER, "exec", plugin(&proof));
    assert_eq!(field, "users[0].user.exec");
    assert!(!proof.exists());

    // The plugin works: a client that does not vet executes it.
    kubeconfig["users"][0]["user"] = json!({ "exec": plugin(&proof) });
    let unvetted: Kubeconfig = from_value(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(unvetted, &KubeConfigOptions::default()).await?;
    assert!(config.auth_layer().is_err());
    assert!(proof.exists());
    Ok(())
}

/// Opening a FIFO without a writer would block for ever, so an answer proves that it was not opened.
#[tokio::test]
async fn a_file_is_not_opened() -> Result<()> {
    let world = World::start().await?;
    let kubeconfig = world.kubeconfig("files").await?;
    let folder = Scratch::new("files")?;
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status()?.success());
    for (section, list, field) in [
        (USER, "users[0].user", "tokenFile"),
        (USER, "users[0].user", "client-certificate"),
        (USER, "users[0].user", "client-key"),
        (CLUSTER, "clusters[0].cluster", "certificate-authority"),
    ] {
        let refused = refused_field(&kubeconfig, section, field, json!(fifo));
        assert_eq!(refused, format!("{list}.{field}"));
    }
    let entries = fs::read_dir(folder.path())?.count();
    assert_eq!(entries, 1);
    Ok(())
}

#[tokio::test]
async fn a_proxy_or_an_unverified_server_is_not_dialled() -> Result<()> {
    let world = World::start().await?;
    let kubeconfig = world.kubeconfig("dialled").await?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    for (field, value) in [
        ("proxy-url", json!(format!("http://{address}"))),
        ("server", json!(format!("http://{address}"))),
        ("insecure-skip-tls-verify", json!(true)),
    ] {
        let mut kubeconfig = kubeconfig.clone();
        kubeconfig["clusters"][0]["cluster"]["server"] = json!(format!("https://{address}"));
        let refused = refused_field(&kubeconfig, CLUSTER, field, value);
        assert_eq!(refused, format!("clusters[0].cluster.{field}"));
    }
    assert!(listener.accept().is_err(), "a connection was made");
    Ok(())
}

#[tokio::test]
async fn a_login_by_program_password_or_as_another_is_refused() -> Result<()> {
    let world = World::start().await?;
    let kubeconfig = world.kubeconfig("others").await?;
    for (field, value) in [
        (
            "auth-provider",
            json!({ "name": "gcp", "config": { "cmd-path": "sh" } }),
        ),
        ("username", json!("admin")),
        ("password", json!("secret")),
        ("as", json!("system:admin")),
        ("as-uid", json!("0")),
        ("as-groups", json!(["system:masters"])),
        ("as-user-extra", json!({ "scopes": ["all"] })),
    ] {
        let refused = refused_field(&kubeconfig, USER, field, value);
        assert_eq!(refused, format!("users[0].user.{field}"));
    }
    Ok(())
}
