//! The identity of a real cluster.

use std::time::Duration;

use cluster_client::{ClusterIdentity, IdentityPin, Verdict, read_identity};
use k8s_openapi::api::core::v1::Namespace;
use kernel::{Class, Deposed, Guard};
use kube::Api;
use serde_json::{Value, json};
use testkit::{Result, port::Port};

use crate::world::{World, client};

const VALIDITY: Duration = Duration::from_secs(600);

/// The class of the error that reading the identity by `kubeconfig` gives, and its message.
async fn refusal(kubeconfig: &Value) -> (Class, String) {
    let error = read_identity(&client(kubeconfig)).await.unwrap_err();
    (error.class, error.message)
}

#[tokio::test]
async fn a_cluster_is_pinned_by_the_uid_of_kube_system() -> Result<()> {
    let world = World::start().await?;
    let namespaces = Api::<Namespace>::all(world.plane.admin());
    let uid = namespaces.get("kube-system").await?.metadata.uid.unwrap();

    let client = client(&world.reader("pinned").await?);
    let pin = IdentityPin::new(Guard::closed(), VALIDITY, None);
    assert_eq!(pin.guard().check(), Err(Deposed));
    let first = pin.verify(&client).await;
    assert_eq!(first, Verdict::First(ClusterIdentity::new(uid)?));
    assert_eq!(pin.verify(&client).await, Verdict::Same);
    assert_eq!(pin.guard().check(), Ok(()));
    Ok(())
}

#[tokio::test]
async fn another_cluster_is_not_written_to_until_accepted() -> Result<()> {
    let world = World::start().await?;
    let client = client(&world.reader("moved").await?);
    let recorded = ClusterIdentity::new("8b0f3d5e-0000-4000-8000-000000000000")?;
    let pin = IdentityPin::new(Guard::closed(), VALIDITY, Some(recorded));
    let Verdict::Another { seen, .. } = pin.verify(&client).await else {
        panic!("another cluster was not noticed");
    };
    assert_eq!(pin.guard().check(), Err(Deposed));
    assert_eq!(pin.check().unwrap_err().class, Class::Conflict);

    pin.accept(&seen)?;
    assert_eq!(pin.guard().check(), Err(Deposed));
    assert_eq!(pin.verify(&client).await, Verdict::Same);
    assert_eq!(pin.guard().check(), Ok(()));
    Ok(())
}

#[tokio::test]
async fn a_login_without_permission_is_asked_for_one() -> Result<()> {
    let world = World::start().await?;
    let (class, message) = refusal(&world.kubeconfig("stranger").await?).await;
    assert_eq!(class, Class::Denied);
    assert!(
        message.contains("allow the login to get the namespace"),
        "{message}"
    );
    Ok(())
}

#[tokio::test]
async fn a_login_that_is_no_longer_valid_is_named() -> Result<()> {
    let world = World::start().await?;
    let mut kubeconfig = world.kubeconfig("expired").await?;
    let token = "a-token-that-nobody-issued";
    kubeconfig["users"][0]["user"]["token"] = json!(token);
    let (class, message) = refusal(&kubeconfig).await;
    assert_eq!(class, Class::Denied);
    assert!(message.contains("still valid"), "{message}");
    assert!(!message.contains(token), "{message}");
    Ok(())
}

#[tokio::test]
async fn a_server_of_another_authority_is_not_trusted() -> Result<()> {
    let world = World::start().await?;
    let mut kubeconfig = world.kubeconfig("forged").await?;
    // Any certificate but that of the server's authority.
    let admin: Value = serde_json::from_slice(&std::fs::read(world.plane.kubeconfig())?)?;
    kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"] =
        admin["users"][0]["user"]["client-certificate-data"].clone();
    let (class, message) = refusal(&kubeconfig).await;
    assert_eq!(class, Class::Unreachable);
    assert!(message.contains("certificate"), "{message}");
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_away_is_unreachable() -> Result<()> {
    let world = World::start().await?;
    let mut kubeconfig = world.kubeconfig("away").await?;
    let port = Port::free()?;
    kubeconfig["clusters"][0]["cluster"]["server"] = json!(format!("https://{}", port.address()));
    let (class, message) = refusal(&kubeconfig).await;
    assert_eq!(class, Class::Unreachable);
    assert!(message.contains("check the address"), "{message}");
    Ok(())
}
