//! Bootstrap, reviewer rotation and the end of a mount, against the real Vault and an API server.
//!
//! The modules are compiled in here: to the outside they are the connection's own business.

#[path = "../../../src/connection/bootstrap/mod.rs"]
#[expect(
    clippy::module_inception,
    reason = "it is the feature's own module of that name"
)]
mod bootstrap;
#[path = "../../../src/connection/reviewer.rs"]
mod reviewer;
mod world;

use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Map, Value, json};
use testkit::Result;
use testkit::fault_proxy::Rule;
use vault_client::{AuthMount, Client, Error, Secret};

use bootstrap::{Advance, Owner, disable_mount, is_owed};
use reviewer::{Issuer, Jwt};
use world::{MOUNT, NAMESPACE, OPERATOR, ROLE, World, marker, mount};

#[tokio::test]
async fn an_empty_vault_is_prepared_and_the_token_revoked() -> Result<()> {
    let mut world = World::start(json!({})).await?;
    let login = world.bootstrapped().await?;

    let entry = world.held(&format!("sys/auth/{MOUNT}")).await?;
    assert_eq!(entry["type"], "kubernetes");
    assert_eq!(entry["description"], marker().to_string());
    let config = world.held(&format!("auth/{MOUNT}/config")).await?;
    assert_eq!(config["kubernetes_host"], world.plane.url());
    assert_eq!(config["disable_local_ca_jwt"], true);
    assert_eq!(config["token_reviewer_jwt_set"], true);
    let role = world.held(&format!("auth/{MOUNT}/role/{ROLE}")).await?;
    assert_eq!(role["token_policies"], json!(["vault-access-operator"]));
    assert_eq!(role["bound_service_account_names"], json!([OPERATOR]));
    assert_eq!(role["bound_service_account_namespaces"], json!([NAMESPACE]));
    assert_eq!(role["audience"], "vault");
    assert_eq!(
        world.steps(),
        [
            "AuthMountConfigured",
            "AuthMountEnabled",
            "BootstrapTokenRevoked",
            "OperatorPolicyCreated",
            "OperatorRoleCreated",
        ]
    );
    let life = world.status.token_reviewer_expiration.as_ref().unwrap().0
        - world.status.token_reviewer_last_refresh.as_ref().unwrap().0;
    assert!(life.total(jiff::Unit::Minute)? > 10.0, "{life}");
    assert!(!world.token_lives().await?);

    // The test login serves on, and later passes ask Vault for nothing.
    login.lookup_self().await?;
    assert_eq!(world.posts("auth/*/login"), 1);
    let asked = world.proxy.count(Method::GET, "*");
    assert!(matches!(world.pass_with(&login).await?, Advance::Done));
    assert_eq!(world.proxy.count(Method::GET, "*"), asked);
    Ok(())
}

#[tokio::test]
async fn what_bootstrap_grants_is_what_the_operator_needs() -> Result<()> {
    let mut world = World::start(json!({})).await?;
    let operator = world.bootstrapped().await?;

    let text = r#"path "secret/data/x" { capabilities = ["read"] }"#;
    operator.write_policy("vao.prod.a.p", text).await?;
    assert!(operator.read_policy("vao.prod.a.p").await?.is_some());
    assert!(operator.list_policies().await?.len() > 2);
    operator.delete_policy("vao.prod.a.p").await?;

    let fields = json!({
        "bound_service_account_names": ["a"], "bound_service_account_namespaces": ["b"],
    });
    let fields: Map<String, Value> = serde_json::from_value(fields)?;
    operator
        .write_role(&mount(), "vao.prod.a.r", fields)
        .await?;
    assert_eq!(operator.list_roles(&mount()).await?.len(), 2);
    operator.delete_role(&mount(), "vao.prod.a.r").await?;

    operator.renew_self().await?;
    let denied = operator.read_auth_config(&AuthMount::new("token")).await;
    assert!(matches!(denied, Err(Error::Denied { .. })), "{denied:?}");
    operator.end().await?;
    Ok(())
}

#[tokio::test]
async fn while_the_login_fails_the_token_lives_and_a_fixed_host_completes() -> Result<()> {
    let mut world = World::start(json!({})).await?;
    world.host = "https://127.0.0.1:1".to_owned();
    for _ in 0..4 {
        world.pass().await?;
    }
    for _ in 0..2 {
        let failed = world.pass().await?;
        assert!(matches!(failed, Advance::TestFailed(_)), "{failed:?}");
    }
    assert!(world.steps().contains(&"K8sAuthTestFailed"));
    assert_eq!(world.status.bootstrap_complete, None);
    assert!(world.token_lives().await?);

    world.host = world.plane.url();
    world.bootstrapped().await?;
    assert!(!world.steps().contains(&"K8sAuthTestFailed"));
    assert!(!world.token_lives().await?);
    Ok(())
}

#[tokio::test]
async fn a_lost_answer_repeats_nothing_that_was_done() -> Result<()> {
    let mut world = World::start(json!({})).await?;
    let effects = [
        (Method::POST, "/v1/sys/auth/*"),
        (Method::POST, "/v1/auth/*/config"),
        (Method::PUT, "/v1/sys/policies/acl/*"),
        (Method::POST, "/v1/auth/*/role/*"),
        (Method::POST, "/v1/auth/token/revoke-self"),
    ];
    for (method, path) in effects.clone() {
        let once = Rule::on(method, path).times(1).cut_after();
        world.proxy.rule(once);
    }
    let (mut lost, mut last) = (0, None);
    let login = world.by_kubernetes();
    while is_owed(&world.bootstrap, &world.status) {
        match world.pass_with(&login).await {
            Ok(advance) => last = Some(advance),
            Err(Error::NoAnswer { .. }) => lost += 1,
            Err(error) => return Err(error.into()),
        }
    }
    // Whether the token lives is looked up at once, so a lost answer to its revocation is no error.
    assert_eq!(lost, effects.len() - 1);
    assert!(matches!(last, Some(Advance::Revoked)), "{last:?}");
    assert_eq!(world.posts("auth/token/revoke-self"), 1);
    assert!(!world.steps().contains(&"BootstrapTokenRevokeFailed"));
    assert_eq!(world.posts(&format!("sys/auth/{MOUNT}")), 1);
    assert_eq!(world.posts(&format!("auth/{MOUNT}/role/{ROLE}")), 1);
    // Whether the reviewer token arrived cannot be seen, so the configuration is written again.
    assert_eq!(world.posts(&format!("auth/{MOUNT}/config")), 2);
    assert!(!world.token_lives().await?);
    Ok(())
}

#[tokio::test]
async fn a_revocation_that_never_reached_vault_is_repeated() -> Result<()> {
    let mut world = World::start(json!({ "autoRevoke": false })).await?;
    let login = world.bootstrapped().await?;
    world.bootstrap.auto_revoke = true;
    let revoke = Rule::on(Method::POST, "/v1/auth/token/revoke-self");
    world.proxy.rule(revoke.times(1).reset());
    let failed = world.pass_with(&login).await?;
    assert!(matches!(failed, Advance::RevokeFailed(_)), "{failed:?}");
    assert!(world.token_lives().await?);

    assert!(matches!(world.pass_with(&login).await?, Advance::Revoked));
    assert!(!world.token_lives().await?);
    assert!(!world.steps().contains(&"BootstrapTokenRevokeFailed"));
    Ok(())
}

#[tokio::test]
async fn a_mount_that_serves_another_cluster_is_untouched_until_adopted() -> Result<()> {
    let mut world = World::start(json!({})).await?;
    world
        .put(
            &format!("sys/auth/{MOUNT}"),
            json!({ "type": "kubernetes" }),
        )
        .await?;
    let theirs = json!({
        "kubernetes_host": "https://other", "disable_local_ca_jwt": true, "issuer": "theirs",
    });
    world.put(&format!("auth/{MOUNT}/config"), theirs).await?;
    let before = world.held(&format!("auth/{MOUNT}/config")).await?;

    let refused = world.pass().await?;
    let Advance::Refused(reason) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(reason.code, "MountNotOurs");
    assert_eq!(world.held(&format!("auth/{MOUNT}/config")).await?, before);
    assert!(world.steps().is_empty());

    world.bootstrap.adopt_mount = Some(true);
    let operator = world.bootstrapped().await?;
    let after = world.held(&format!("auth/{MOUNT}/config")).await?;
    assert_eq!(after["kubernetes_host"], world.plane.url());
    assert_eq!(after["issuer"], "", "what was meant for them is gone");
    assert!(!world.steps().contains(&"AuthMountEnabled"));

    // Taken over is not enabled: it stays when the connection goes.
    let kept = disable(&world, &operator).await.unwrap_err();
    assert!(kept.contains("did not enable it"), "{kept}");
    Ok(())
}

#[tokio::test]
async fn a_mount_of_another_type_is_refused() -> Result<()> {
    let mut world = World::start(json!({})).await?;
    world
        .put(&format!("sys/auth/{MOUNT}"), json!({ "type": "jwt" }))
        .await?;
    let refused = world.pass().await?;
    let Advance::Refused(reason) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(reason.code, "MountTypeMismatch");
    Ok(())
}

#[tokio::test]
async fn what_serves_us_already_is_used_as_it_is() -> Result<()> {
    let mut world = World::start(json!({ "autoRevoke": false })).await?;
    let policy =
        json!({ "policy": r#"path "auth/token/lookup-self" { capabilities = ["read"] }"# });
    let config = json!({
        "kubernetes_host": world.plane.url(),
        "kubernetes_ca_cert": world.plane.ca_pem(),
        "token_reviewer_jwt": world.account.reviewer().await?.secret.expose(),
        "disable_local_ca_jwt": true,
    });
    let role = json!({
        "bound_service_account_names": ["*"],
        "bound_service_account_namespaces": [NAMESPACE],
        "audience": "vault",
    });
    let made = [
        (format!("sys/auth/{MOUNT}"), json!({ "type": "kubernetes" })),
        (format!("auth/{MOUNT}/config"), config),
        ("sys/policies/acl/vault-access-operator".to_owned(), policy),
        (format!("auth/{MOUNT}/role/{ROLE}"), role),
    ];
    let mut before = Vec::new();
    for (path, body) in made {
        world.put(&path, body).await?;
        before.push((world.held(&path).await?, path));
    }

    world.bootstrapped().await?;
    for (held, path) in before {
        assert_eq!(world.held(&path).await?, held, "{path}");
    }
    assert_eq!(
        world.steps(),
        ["OperatorPolicyCreated", "OperatorRoleCreated"]
    );
    assert_eq!(world.status.token_reviewer_expiration, None);
    assert!(world.token_lives().await?, "autoRevoke is off");
    Ok(())
}

#[tokio::test]
async fn a_dead_bootstrap_token_counts_as_revoked() -> Result<()> {
    let mut world = World::start(json!({ "autoRevoke": false })).await?;
    world.bootstrapped().await?;
    world.bootstrap.auto_revoke = true;
    world
        .put("auth/token/revoke", json!({ "token": world.token }))
        .await?;
    assert!(matches!(world.pass().await?, Advance::Revoked));
    Ok(())
}

#[tokio::test]
async fn a_rotation_keeps_every_other_field_and_logins_go_on() -> Result<()> {
    let mut world = World::start(json!({})).await?;
    let operator = world.bootstrapped().await?;
    let path = format!("auth/{MOUNT}/config");
    let signer = std::fs::read_to_string(world.plane.scratch().path().join("tokens.pub"))?;
    let mut config = world.held(&path).await?;
    config["pem_keys"] = json!([signer]);
    config["issuer"] = json!("someone");
    config["token_reviewer_jwt"] = json!("dead.dead.dead");
    world.put(&path, config).await?;
    let before = world.held(&path).await?;
    assert_eq!(before["issuer"], "someone");
    let refused = world.by_kubernetes().login().await;
    assert!(refused.is_err(), "the reviewer token is dead");

    // With no more than bootstrap has granted.
    let jwt = world.account.reviewer().await?;
    reviewer::rotate(&operator, &mount(), &jwt).await?;
    assert_eq!(world.held(&path).await?, before);
    world.by_kubernetes().login().await?;
    Ok(())
}

#[tokio::test]
async fn a_mount_that_was_never_configured_is_not_rotated() -> Result<()> {
    let world = World::start(json!({})).await?;
    world
        .put("sys/auth/k8s", json!({ "type": "kubernetes" }))
        .await?;
    let jwt = Jwt {
        secret: Secret::new("a.b.c".to_owned()),
        expires: Timestamp::MAX,
    };
    let error = reviewer::rotate(&world.with_token(&world.token), &mount(), &jwt).await;
    assert!(
        error
            .as_ref()
            .is_err_and(|error| error.to_string().contains("never configured")),
        "{error:?}"
    );
    Ok(())
}

async fn disable(world: &World, operator: &Client) -> Result<(), String> {
    let owner = Owner {
        marker: &marker(),
        status: &world.status,
        role: ROLE,
    };
    let is_ours = |role: &str| role.starts_with("vao.prod.");
    let disabled = disable_mount(operator, &mount(), owner, is_ours).await;
    disabled.map_err(|stays| stays.to_string())
}

#[tokio::test]
async fn a_mount_goes_when_we_enabled_it_and_every_role_on_it_is_ours() -> Result<()> {
    let mut world = World::start(json!({ "cleanupAuthMount": true })).await?;
    let operator = world.bootstrapped().await?;
    let role = json!({
        "bound_service_account_names": ["a"], "bound_service_account_namespaces": ["b"],
    });
    for name in ["vao.prod.a.r", "theirs"] {
        world
            .put(&format!("auth/{MOUNT}/role/{name}"), role.clone())
            .await?;
    }
    let kept = disable(&world, &operator).await.unwrap_err();
    assert!(kept.contains("(theirs)"), "{kept}");

    let path = format!("auth/{MOUNT}/role/theirs");
    world.vault.expect(Method::DELETE, &path, None).await?;
    disable(&world, &operator).await.unwrap();
    let entry = world.held(&format!("sys/auth/{MOUNT}")).await?;
    assert_eq!(entry, Value::Null);

    // Gone is gone, also for those who come later; the operator's own token went with it.
    let root = world.with_token(world.vault.root_token());
    disable(&world, &root).await.unwrap();
    assert!(operator.lookup_self().await.is_err());
    Ok(())
}
