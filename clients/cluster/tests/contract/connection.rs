//! What a vetted kubeconfig gives works.

use std::fs;

use cluster_client::Login;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use testkit::Result;

use crate::world::{World, client, vetted};

/// As whom the server knows `client`.
async fn user(client: Client) -> Result<Option<String>> {
    let reviews = Api::<SelfSubjectReview>::all(client);
    let review = SelfSubjectReview::default();
    let review = reviews.create(&PostParams::default(), &review).await?;
    let user = review.status.and_then(|status| status.user_info);
    Ok(user.and_then(|user| user.username))
}

#[tokio::test]
async fn a_token_of_a_service_account_logs_in() -> Result<()> {
    let world = World::start().await?;
    let kubeconfig = world.kubeconfig("token").await?;
    let user = user(client(&kubeconfig)).await?;
    assert_eq!(user.as_deref(), Some("system:serviceaccount:logins:token"));
    Ok(())
}

#[tokio::test]
async fn a_client_certificate_logs_in() -> Result<()> {
    let world = World::start().await?;
    let kubeconfig = serde_json::from_slice(&fs::read(world.plane.kubeconfig())?)?;
    assert!(matches!(
        vetted(&kubeconfig).login(),
        Login::Certificate { .. }
    ));
    assert_eq!(user(client(&kubeconfig)).await?.as_deref(), Some("admin"));
    Ok(())
}

#[tokio::test]
async fn the_name_in_the_certificate_may_be_given() -> Result<()> {
    let world = World::start().await?;
    let mut kubeconfig = world.kubeconfig("named").await?;
    kubeconfig["clusters"][0]["cluster"]["tls-server-name"] = json!("kubernetes.default.svc");
    user(client(&kubeconfig)).await?;
    kubeconfig["clusters"][0]["cluster"]["tls-server-name"] = json!("another.example.org");
    assert!(user(client(&kubeconfig)).await.is_err());
    Ok(())
}
