//! Kubeconfigs that are refused, and logins that expire.

use api::migrate::{CheckId, Phase, StallReason};
use k8s_openapi::api::authentication::v1::{
    BoundObjectReference, TokenRequest, TokenRequestSpec, TokenReview, TokenReviewSpec,
};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, PostParams};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::stories::events;
use testkit::{Result, eventually};

use crate::stories::{ACCOUNTS, NAME, SOURCE, Shop, account, ids, replicas, run_story_of};

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

/// Stores a login to the source that ends with its Secret. Returns the token.
async fn store_login(shop: &Shop, secret: &str) -> Result<String> {
    let home = shop.cluster(SOURCE).in_namespace(ACCOUNTS);
    let own = format!("{}-{secret}", shop.source.name());
    let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": own}});
    let made = home.apply(&object.to_string()).await?;
    let bound = BoundObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Secret".to_owned()),
        name: Some(own),
        uid: made[0].metadata.uid.clone(),
    };
    let request = TokenRequest {
        spec: TokenRequestSpec {
            bound_object_ref: Some(bound),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let accounts = Api::<ServiceAccount>::namespaced(home.client(), ACCOUNTS);
    let answer = accounts
        .create_token_request(account(SOURCE), &PostParams::default(), &request)
        .await?;
    let token = answer.status.map(|status| status.token).unwrap_or_default();
    let mut kubeconfig = shop.kubeconfig(SOURCE).await?;
    kubeconfig["users"][0]["user"]["token"] = json!(token);
    shop.store(SOURCE, &kubeconfig).await?;
    Ok(token)
}

/// Ends a login, and returns when the source no longer accepts it. An API server remembers a token for ten seconds.
async fn revoke(shop: &Shop, secret: &str, token: &str) -> Result<()> {
    let home = shop.cluster(SOURCE).in_namespace(ACCOUNTS);
    let own = format!("{}-{secret}", shop.source.name());
    home.delete::<Secret>(&own).await?;
    let reviews = Api::<TokenReview>::all(home.client());
    let review = TokenReview {
        spec: TokenReviewSpec {
            token: Some(token.to_owned()),
            ..TokenReviewSpec::default()
        },
        ..TokenReview::default()
    };
    eventually("the source refuses the token", async || {
        let answer = reviews.create(&PostParams::default(), &review).await?;
        let is_accepted = answer.status.and_then(|status| status.authenticated);
        Ok((is_accepted != Some(true)).then_some(()))
    })
    .await
}

#[test]
fn a_run_waits_for_a_login_that_is_accepted() -> Result<()> {
    run_story_of(replicas(2), async |shop| {
        shop.open_shop().await?;
        let first = store_login(shop, "first").await?;
        shop.migrate(&json!({"ordinalLimit": 0})).await?;
        shop.until_paused("OrdinalLimit").await?;
        let second = store_login(shop, "second").await?;
        revoke(shop, "first", &first).await?;
        shop.edit(&json!({"ordinalLimit": 1})).await?;
        let status = shop.until_paused("OrdinalLimit").await?;
        assert_eq!(status.current_index, 1);
        let is_stall =
            |one: &Event| one.reason.as_deref() == Some(StallReason::AuthFailed.as_str());
        assert!(!events(&shop.ops, NAME).await?.iter().any(is_stall));

        revoke(shop, "second", &second).await?;
        shop.edit(&json!({"ordinalLimit": 2})).await?;
        let status = shop.until_stalled(StallReason::AuthFailed).await?;
        assert_eq!(status.phase, Some(Phase::MigratingPods));
        let error = status.last_error.unwrap_or_default();
        assert!(!error.is_empty() && !error.contains(&second), "{error}");
        shop.store(SOURCE, &shop.kubeconfig(SOURCE).await?).await?;
        shop.until_phase(Phase::Completed).await?;
        Ok(())
    })
}
