//! Every login method against the server that checks it.

use std::net::TcpListener;
use std::sync::Arc;

use aws_emulator::Emulator;
use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kernel::RealClock;
use kube::Api;
use kube::api::PostParams;
use rstest::rstest;
use serde_json::{Value, json};
use testkit::{ControlPlane, Result};
use vault_client::{AuthMount, AwsKeys, Client, Error, Login, Secret, Source, SourceError};

use crate::redirects::answering;
use crate::world::{Seen, World, config, parts, secret};

/// A token of `account` in the namespace `login` for this audience, new at every login.
fn token_of(
    plane: &Arc<ControlPlane>,
    account: &'static str,
    audience: &'static str,
) -> Source<Secret> {
    let accounts = Api::<ServiceAccount>::namespaced(plane.admin(), "login");
    Source::new(move || {
        let accounts = accounts.clone();
        async move {
            let request = TokenRequest {
                spec: TokenRequestSpec {
                    audiences: vec![audience.to_owned()],
                    expiration_seconds: Some(600),
                    bound_object_ref: None,
                },
                ..TokenRequest::default()
            };
            let answer = accounts
                .create_token_request(account, &PostParams::default(), &request)
                .await
                .map_err(SourceError::new)?;
            Ok(Secret::new(answer.status.unwrap().token))
        }
    })
}

/// The shared control plane with the accounts `app`, `other` and `reviewer`, who may review tokens.
async fn plane() -> Result<Arc<ControlPlane>> {
    let plane = ControlPlane::shared().await?;
    for account in ["app", "other", "reviewer"] {
        plane.as_service_account("login", account).await?;
    }
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "login-reviewer" },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "system:auth-delegator",
        },
        "subjects": [{ "kind": "ServiceAccount", "namespace": "login", "name": "reviewer" }],
    }))?;
    let bindings = Api::<ClusterRoleBinding>::all(plane.admin());
    match bindings.create(&PostParams::default(), &binding).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        created => drop(created?),
    }
    Ok(plane)
}

async fn kubernetes(world: &World, plane: &Arc<ControlPlane>) -> Result<()> {
    let issuer = "https://kubernetes.default.svc.cluster.local";
    let config = json!({
        "kubernetes_host": plane.url(),
        "kubernetes_ca_cert": plane.ca_pem(),
        "token_reviewer_jwt": reviewer(plane, issuer).await?,
        "disable_local_ca_jwt": true,
    });
    world
        .put("sys/auth/k8s", json!({ "type": "kubernetes" }))
        .await?;
    world.put("auth/k8s/config", config).await?;
    let role = json!({
        "bound_service_account_names": ["app"],
        "bound_service_account_namespaces": ["login"],
        "audience": "vault",
        "token_policies": ["app"],
        "token_ttl": "1h",
    });
    world.put("auth/k8s/role/app", role).await.map(drop)
}

async fn reviewer(plane: &Arc<ControlPlane>, audience: &str) -> Result<String> {
    let accounts = Api::<ServiceAccount>::namespaced(plane.admin(), "login");
    let request: TokenRequest = serde_json::from_value(json!({
        "metadata": {},
        "spec": { "audiences": [audience], "expirationSeconds": 3600 },
    }))?;
    let answer = accounts
        .create_token_request("reviewer", &PostParams::default(), &request)
        .await?;
    Ok(answer.status.unwrap().token)
}

fn by_kubernetes(jwt: Source<Secret>) -> Login {
    Login::Kubernetes {
        mount: AuthMount::new("auth/k8s/"),
        role: "app".to_owned(),
        jwt,
    }
}

#[tokio::test]
async fn a_service_account_logs_in_and_another_does_not() -> Result<()> {
    let (world, plane) = (World::start().await?, plane().await?);
    world.app_role().await?; // for its policy
    kubernetes(&world, &plane).await?;

    let client = world.client(by_kubernetes(token_of(&plane, "app", "vault")));
    let session = client.login().await?;
    assert_eq!(session.method, "kubernetes");
    assert!(client.read_policy("app").await?.is_some());

    let stranger = world.client(by_kubernetes(token_of(&plane, "other", "vault")));
    let error = stranger.login().await.unwrap_err();
    assert!(matches!(error, Error::AuthFailed { .. }), "{error:?}");
    let text = "kubernetes login at auth/k8s as role app was refused";
    assert!(error.to_string().contains(text), "{error}");

    let elsewhere = world.client(by_kubernetes(token_of(&plane, "app", "elsewhere")));
    let error = elsewhere.login().await.unwrap_err();
    assert!(matches!(error, Error::AuthFailed { .. }), "{error:?}");
    Ok(())
}

#[tokio::test]
async fn a_jwt_logs_in_where_vault_checks_its_signature() -> Result<()> {
    let (world, plane) = (World::start().await?, plane().await?);
    world.app_role().await?;
    let public = std::fs::read_to_string(plane.scratch().path().join("tokens.pub"))?;
    world.put("sys/auth/oidc", json!({ "type": "jwt" })).await?;
    let config = json!({ "jwt_validation_pubkeys": [public] });
    world.put("auth/oidc/config", config).await?;
    let role = json!({
        "role_type": "jwt",
        "user_claim": "sub",
        "bound_audiences": ["vault"],
        "bound_subject": "system:serviceaccount:login:app",
        "token_policies": ["app"],
    });
    world.put("auth/oidc/role/app", role).await?;

    let login = |jwt| Login::Jwt {
        mount: AuthMount::new("oidc"),
        role: "app".to_owned(),
        jwt,
    };
    let client = world.client(login(token_of(&plane, "app", "vault")));
    assert!(client.read_policy("app").await?.is_some());
    let stranger = world.client(login(token_of(&plane, "other", "vault")));
    let error = stranger.login().await.unwrap_err();
    assert!(matches!(error, Error::AuthFailed { .. }), "{error:?}");
    Ok(())
}

#[tokio::test]
async fn a_mount_that_does_not_exist_refuses_the_login() -> Result<()> {
    let world = World::start().await?;
    let client = world.client(by_kubernetes(Source::given(secret("a.b.c"))));
    let error = client.login().await.unwrap_err();
    assert!(matches!(error, Error::AuthFailed { .. }), "{error:?}");
    Ok(())
}

async fn aws(world: &World, sts: &Emulator) -> Result<()> {
    world.put("sys/auth/aws", json!({ "type": "aws" })).await?;
    let config = json!({
        "sts_endpoint": sts.url(),
        "sts_region": "eu-west-1",
        "iam_server_id_header_value": "vault.example.com",
    });
    world.put("auth/aws/config/client", config).await?;
    let role = json!({
        "auth_type": "iam",
        "bound_iam_principal_arn": ["arn:aws:iam::000000000000:user/test"],
        "resolve_aws_unique_ids": false,
        "token_policies": ["app"],
    });
    world.put("auth/aws/role/app", role).await.map(drop)
}

fn by_aws(sts: &Emulator, server_id: Option<&str>) -> Login {
    Login::Aws {
        mount: AuthMount::new("aws"),
        role: "app".to_owned(),
        region: Some("eu-west-1".to_owned()),
        sts_endpoint: Some(sts.url()),
        server_id: server_id.map(str::to_owned),
        keys: Source::given(AwsKeys {
            access_key_id: "test".to_owned(),
            secret_access_key: secret("test-secret"),
            session_token: None,
        }),
    }
}

#[tokio::test]
async fn an_aws_principal_logs_in_by_a_signed_request_to_sts() -> Result<()> {
    let world = World::start().await?;
    world.app_role().await?;
    let sts = Emulator::builder().start().await?;
    aws(&world, &sts).await?;
    let client = world.client(by_aws(&sts, Some("vault.example.com")));
    assert_eq!(client.login().await?.method, "aws");
    assert!(client.read_policy("app").await?.is_some());
    Ok(())
}

#[rstest]
#[case::without_the_header(None)]
#[case::with_the_header_for_another_vault(Some("other.example.com"))]
#[tokio::test]
async fn a_vault_with_a_server_id_refuses_others(#[case] server_id: Option<&str>) -> Result<()> {
    let world = World::start().await?;
    let sts = Emulator::builder().start().await?;
    aws(&world, &sts).await?;
    let error = world.client(by_aws(&sts, server_id)).login().await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::AuthFailed { .. }), "{error:?}");
    Ok(())
}

/// Vault's answer to a successful login.
const GRANTED: &str = r#"{"auth":{"client_token":"hvs.t","accessor":"acc","lease_duration":60}}"#;

fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

pub(crate) fn ok_response(body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// Logs in at `vault`, which answers once; returns the request.
async fn sent(login: Login, vault: (TcpListener, String)) -> Result<String> {
    testkit::install_crypto();
    let (vault, url) = vault;
    let vault = answering(vault, 1, |_| ok_response(GRANTED));
    let clock = Arc::new(RealClock::new());
    let config = config("f", &url, login);
    let client = Client::new(config, parts(clock, Arc::<Seen>::default()))?;
    let session = client.login().await?;
    assert_eq!((session.method, session.accessor.as_str()), ("gcp", "acc"));
    Ok(vault.join().unwrap().remove(0))
}

#[tokio::test]
async fn a_gce_machine_sends_its_identity_token() -> Result<()> {
    let (metadata, url) = listen();
    let metadata = answering(metadata, 1, |_| ok_response("a.b.c"));
    let login = Login::Gce {
        mount: AuthMount::new("gcp"),
        role: "app".to_owned(),
        metadata: url,
    };
    let sent = sent(login, listen()).await?;
    assert!(sent.starts_with("post /v1/auth/gcp/login "), "{sent}");
    assert!(sent.ends_with(r#"{"jwt":"a.b.c","role":"app"}"#), "{sent}");

    let request = metadata.join().unwrap().remove(0);
    let identity = "get /computemetadata/v1/instance/service-accounts/default/identity?";
    assert!(request.starts_with(identity), "{request}");
    assert!(request.contains("metadata-flavor: google"), "{request}");
    Ok(())
}

#[tokio::test]
async fn a_gcp_service_account_sends_a_jwt_signed_with_its_key() -> Result<()> {
    let key = KeyPair::generate(KeySize::Rsa2048)?;
    let der: Pkcs8V1Der<'_> = key.as_der()?;
    let pem = STANDARD.encode(der.as_ref());
    let file = json!({
        "client_email": "key@project.iam.gserviceaccount.com",
        "private_key_id": "key-1",
        "private_key": format!("-----BEGIN PRIVATE KEY-----\n{pem}\n-----END PRIVATE KEY-----\n"),
    });
    let login = Login::GcpIam {
        mount: AuthMount::new("auth/gcp-eu/"),
        role: "app".to_owned(),
        service_account: Some("app@project.iam.gserviceaccount.com".to_owned()),
        credentials: Source::given(secret(&file.to_string())),
    };
    let sent = sent(login, listen()).await?;
    assert!(sent.starts_with("post /v1/auth/gcp-eu/login "), "{sent}");

    let (_, body) = sent.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body)?;
    assert_eq!(body["role"], "app");
    let jwt = body["jwt"].as_str().unwrap();
    let (text, signature) = jwt.rsplit_once('.').unwrap();
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key());
    public.verify(text.as_bytes(), &URL_SAFE_NO_PAD.decode(signature)?)?;
    let (_, claims) = text.split_once('.').unwrap();
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims)?)?;
    assert_eq!(claims["sub"], "app@project.iam.gserviceaccount.com");
    assert_eq!(claims["aud"], "vault/app");
    let second = |claim: &str| claims[claim].as_i64().unwrap();
    assert_eq!(second("exp") - second("iat"), 15 * 60);
    Ok(())
}
