use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

/// An API server that knows nothing but Secrets and tokens.
#[derive(Clone, Default)]
struct Cluster {
    /// By `namespace/name`.
    secrets: BTreeMap<String, Value>,
    /// Method and path of each call.
    calls: Arc<Mutex<Vec<String>>>,
}

impl Cluster {
    fn with(mut self, secret: &str, values: &[(&str, &str)]) -> Self {
        let values: BTreeMap<&str, &str> = values.iter().copied().collect();
        let data = serde_json::to_value(values).unwrap();
        self.secrets.insert(secret.to_owned(), data);
        self
    }

    fn client(&self) -> Client {
        let cluster = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (code, answer) = cluster.answer(request.method(), request.uri().path());
            let answer = Response::builder()
                .status(code)
                .body(Body::from(answer.to_string().into_bytes()))
                .unwrap();
            std::future::ready(Ok::<_, Infallible>(answer))
        });
        Client::new(service, "default")
    }

    fn answer(&self, method: &Method, path: &str) -> (u16, Value) {
        self.calls.lock().push(format!("{method} {path}"));
        let parts: Vec<&str> = path.split('/').collect();
        match parts.as_slice() {
            [.., "namespaces", "locked", "secrets", _]
            | [.., "namespaces", "locked", "serviceaccounts", _, "token"] => {
                (403, json!({"code": 403, "reason": "Forbidden"}))
            }
            [.., "namespaces", namespace, "secrets", name] => {
                match self.secrets.get(&format!("{namespace}/{name}")) {
                    Some(data) => (200, json!({"kind": "Secret", "data": encoded(data)})),
                    None => (404, json!({"code": 404, "reason": "NotFound"})),
                }
            }
            [.., "serviceaccounts", _, "token"] => {
                let status = json!({
                    "token": "a.b.c", "expirationTimestamp": "2026-01-01T01:00:00Z"
                });
                let asked = json!({"audiences": []});
                (
                    201,
                    json!({"kind": "TokenRequest", "spec": asked, "status": status}),
                )
            }
            _ => (500, json!({"code": 500, "message": "not here"})),
        }
    }

    async fn prepared(&self, spec: &Value) -> Result<Config, Problem> {
        let clock = Arc::new(kernel::RealClock::new());
        let aws = ProcessAws::new(
            engine::SharedValues::default().of(),
            None,
            clock,
            Vec::new(),
        );
        prepare(&connection(spec), &self.client(), &own(), &aws).await
    }
}

fn encoded(data: &Value) -> Value {
    let secret: BTreeMap<String, String> = serde_json::from_value(data.clone()).unwrap();
    let bytes = |text: String| k8s_openapi::ByteString(text.into_bytes());
    let secret: BTreeMap<_, _> = secret.into_iter().map(|(k, v)| (k, bytes(v))).collect();
    serde_json::to_value(secret).unwrap()
}

fn own() -> ServiceAccountRef {
    ServiceAccountRef {
        namespace: "pontoon-system".to_owned(),
        name: "pontoon".to_owned(),
    }
}

fn connection(spec: &Value) -> VaultConnection {
    serde_json::from_value(json!({
        "apiVersion": "vault.platform.io/v1alpha1",
        "kind": "VaultConnection",
        "metadata": {"name": "c"},
        "spec": spec,
    }))
    .unwrap()
}

fn key(name: &str, key: &str) -> Value {
    json!({"namespace": "ops", "name": name, "key": key})
}

fn cluster() -> Cluster {
    Cluster::default()
        .with(
            "ops/vault",
            &[
                ("token", "hush"),
                ("jwt", "hush"),
                ("ca", "PEM of the authority"),
            ],
        )
        .with(
            "ops/client",
            &[("tls.crt", "our certificate"), ("tls.key", "our key")],
        )
}

/// Everything a connection can say of the way to Vault, with a login by token.
fn whole() -> Value {
    json!({
        "address": "https://vault:8200",
        "vaultNamespace": "admin",
        "tls": {
            "skipVerify": false,
            "caSecretRef": key("vault", "ca"),
            "clientCertSecretRef": {"namespace": "ops", "name": "client"},
            "serverName": "vault.internal",
        },
        "rateLimit": {"requestsPerSecond": 7, "burst": 8, "maxInFlight": 9},
        "auth": {"token": {"secretRef": key("vault", "token")}, "vaultNamespace": "login"},
    })
}

fn with_auth(auth: Value) -> Value {
    json!({"address": "https://vault:8200", "auth": auth})
}

#[tokio::test]
async fn settings_hold_what_the_spec_and_its_secrets_say() {
    let Config {
        settings, renewal, ..
    } = cluster().prepared(&whole()).await.unwrap();
    assert_eq!(settings.address, "https://vault:8200");
    assert_eq!(settings.vault_namespace.as_deref(), Some("admin"));
    assert_eq!(settings.auth_namespace.as_deref(), Some("login"));
    let tls = settings.tls;
    assert!(!tls.skip_verify);
    assert_eq!(tls.ca_pem.as_deref(), Some("PEM of the authority"));
    assert_eq!(tls.client_cert_pem.unwrap().expose(), "our certificate");
    assert_eq!(tls.client_key_pem.unwrap().expose(), "our key");
    assert_eq!(tls.server_name.as_deref(), Some("vault.internal"));
    let limits = Limits {
        requests_per_second: Some(7),
        burst: 8,
        max_in_flight: 9,
    };
    assert_eq!(settings.limits, limits);
    assert_eq!(settings.timeout, CALL_TIMEOUT);
    assert_eq!(renewal, Renewal::Renew);
}

#[tokio::test]
async fn a_secret_is_read_once_in_a_pass_and_again_in_the_next() {
    let cluster = cluster();
    for reads in [2, 4] {
        cluster.prepared(&whole()).await.unwrap();
        assert_eq!(cluster.calls.lock().len(), reads);
    }
}

#[rstest]
#[case::kubernetes(json!({"kubernetes": {"role": "r", "authPath": "auth/k8s/"}}), "kubernetes", Some("k8s"))]
#[case::bootstrapped(
    json!({"bootstrap": {"secretRef": key("gone", "token")}, "kubernetes": {"role": "r"}}),
    "kubernetes",
    Some("kubernetes")
)]
#[case::token(json!({"token": {"secretRef": key("vault", "token")}}), "token", None)]
#[case::app_role(
    json!({"appRole": {"roleId": "r", "secretIdRef": key("vault", "token")}}),
    "approle",
    Some("approle")
)]
#[case::jwt(json!({"jwt": {"role": "r"}}), "jwt", Some("jwt"))]
#[case::jwt_of_a_secret(
    json!({"jwt": {"role": "r", "jwtSecretRef": key("vault", "jwt")}}),
    "jwt",
    Some("jwt")
)]
#[case::oidc(json!({"oidc": {"role": "r"}}), "jwt", Some("oidc"))]
#[case::oidc_of_a_secret(
    json!({"oidc": {"role": "r", "useServiceAccountToken": false, "jwtSecretRef": key("vault", "jwt")}}),
    "jwt",
    Some("oidc")
)]
#[case::aws(json!({"aws": {"role": "r", "region": "eu-west-1"}}), "aws", Some("aws"))]
#[case::gcp(
    json!({"gcp": {"role": "r", "credentialsSecretRef": key("vault", "token")}}),
    "gcp",
    Some("gcp")
)]
#[case::gce(json!({"gcp": {"role": "r", "authType": "gce"}}), "gcp", Some("gcp"))]
#[tokio::test]
async fn each_method_has_its_login(
    #[case] auth: Value,
    #[case] method: &str,
    #[case] mount: Option<&str>,
) {
    let config = cluster().prepared(&with_auth(auth)).await.unwrap();
    assert_eq!(config.login.method(), method);
    assert_eq!(config.login.mount().map(AuthMount::as_str), mount);
}

#[rstest]
#[case::none(json!({}), "exactly one auth method")]
#[case::two(
    json!({"kubernetes": {"role": "r"}, "token": {"secretRef": key("vault", "token")}}),
    "exactly one auth method"
)]
#[case::bootstrap_alone(
    json!({"bootstrap": {"secretRef": key("vault", "token")}}),
    "exactly one auth method"
)]
#[case::oidc_without_a_jwt(
    json!({"oidc": {"role": "r", "useServiceAccountToken": false}}),
    "needs jwtSecretRef"
)]
#[case::ec2(json!({"aws": {"role": "r", "authType": "ec2"}}), "ec2 login is not supported")]
#[case::a_region_that_is_a_host(
    json!({"aws": {"role": "r", "region": "x.example.com/"}}),
    "is no region"
)]
#[case::gcp_without_a_key(json!({"gcp": {"role": "r"}}), "set credentialsSecretRef")]
#[tokio::test]
async fn what_cannot_be_is_refused_with_what_can(#[case] auth: Value, #[case] told: &str) {
    let problem = cluster().prepared(&with_auth(auth)).await.unwrap_err();
    assert!(matches!(problem, Problem::Invalid(_)), "{problem:?}");
    assert!(problem.to_string().contains(told), "{problem}");
    assert_eq!(problem.reason(), reasons::VALIDATION_FAILED);
    assert_eq!(problem.class(), Class::Invalid);
}

#[rstest]
#[case::missing("ops", "other", Class::NotFound)]
#[case::forbidden("locked", "vault", Class::Denied)]
#[tokio::test]
async fn a_secret_that_cannot_be_read_is_named(
    #[case] namespace: &str,
    #[case] name: &str,
    #[case] class: Class,
) {
    let key = json!({"namespace": namespace, "name": name, "key": "token"});
    let auth = json!({"token": {"secretRef": key}});
    let problem = cluster().prepared(&with_auth(auth)).await.unwrap_err();
    let place = format!("Secret {namespace}/{name}/token cannot be read");
    assert!(problem.to_string().starts_with(&place), "{problem}");
    assert_eq!(problem.reason(), reasons::SECRET_NOT_READABLE);
    assert_eq!(problem.class(), class);
}

#[tokio::test]
async fn only_kubernetes_can_ask_for_a_new_login_instead_of_a_renewal() {
    let auth = json!({"kubernetes": {"role": "r", "renewalStrategy": "reauth"}});
    let config = cluster().prepared(&with_auth(auth)).await.unwrap();
    assert_eq!(config.renewal, Renewal::Reauth);
}

async fn fingerprint_of(cluster: &Cluster, spec: &Value) -> String {
    cluster.prepared(spec).await.unwrap().fingerprint
}

#[rstest]
#[case::address("/address", json!("https://vault:8201"))]
#[case::namespace("/vaultNamespace", json!("team"))]
#[case::namespace_of_the_login("/auth/vaultNamespace", json!("team"))]
#[case::verification("/tls/skipVerify", json!(true))]
#[case::server_name("/tls/serverName", json!("vault"))]
#[case::certificate("/tls/clientCertSecretRef", json!(null))]
#[case::method("/auth/token/secretRef/key", json!("jwt"))]
#[case::rate("/rateLimit/requestsPerSecond", json!(6))]
#[case::burst("/rateLimit/burst", json!(6))]
#[case::slots("/rateLimit/maxInFlight", json!(6))]
#[tokio::test]
async fn an_edit_of_any_part_is_another_fingerprint(#[case] part: &str, #[case] value: Value) {
    let cluster = cluster();
    let mut edited = whole();
    *edited.pointer_mut(part).unwrap() = value;
    let before = fingerprint_of(&cluster, &whole()).await;
    assert_ne!(before, fingerprint_of(&cluster, &edited).await);
}

#[rstest]
#[case::token("ops/vault", &[("token", "hush!"), ("ca", "PEM of the authority")])]
#[case::authority("ops/vault", &[("token", "hush"), ("ca", "PEM of another")])]
#[case::certificate("ops/client", &[("tls.crt", "another"), ("tls.key", "our key")])]
#[case::private_key("ops/client", &[("tls.crt", "our certificate"), ("tls.key", "another")])]
#[tokio::test]
async fn another_content_of_any_secret_is_another_fingerprint(
    #[case] secret: &str,
    #[case] values: &[(&str, &str)],
) {
    let before = fingerprint_of(&cluster(), &whole()).await;
    let changed = cluster().with(secret, values);
    assert_ne!(before, fingerprint_of(&changed, &whole()).await);
}

#[tokio::test]
async fn what_the_client_does_not_use_leaves_the_fingerprint_alone() {
    let before = fingerprint_of(&cluster(), &whole()).await;
    let mut edited = whole();
    edited["healthCheckInterval"] = json!("7s");
    edited["defaults"] = json!({"driftMode": "correct"});
    let unused = [
        ("token", "hush"),
        ("jwt", "of nobody"),
        ("ca", "PEM of the authority"),
    ];
    let changed = cluster().with("ops/vault", &unused);
    assert_eq!(before, fingerprint_of(&changed, &edited).await);
}

#[tokio::test]
async fn a_token_of_our_own_is_asked_for_at_login_and_not_before() {
    let cluster = cluster();
    let spec = with_auth(json!({"kubernetes": {"role": "r"}}));
    cluster.prepared(&spec).await.unwrap();
    assert!(cluster.calls.lock().is_empty());

    let token = OwnToken {
        kube: cluster.client(),
        account: own(),
        audiences: vec!["vault".to_owned()],
        life: Duration::from_secs(3600),
    };
    let issued = token.issue().await.unwrap();
    assert_eq!(issued.token.expose(), "a.b.c");
    assert_eq!(issued.expires.to_string(), "2026-01-01T01:00:00Z");
    assert_eq!(
        *cluster.calls.lock(),
        ["POST /api/v1/namespaces/pontoon-system/serviceaccounts/pontoon/token"]
    );
}

#[tokio::test]
async fn a_token_that_is_not_given_says_what_to_grant() {
    let token = OwnToken {
        kube: cluster().client(),
        account: ServiceAccountRef {
            namespace: "locked".to_owned(),
            name: "pontoon".to_owned(),
        },
        audiences: Vec::new(),
        life: Duration::from_secs(3600),
    };
    let problem = token.issue().await.unwrap_err();
    let text = problem.to_string();
    assert!(text.contains("ServiceAccount locked/pontoon"), "{text}");
    assert!(
        text.contains("let us create serviceaccounts/token"),
        "{text}"
    );
    assert_eq!(problem.reason(), reasons::AUTH_FAILED);
    assert_eq!(problem.class(), Class::Denied);
}

#[tokio::test]
async fn a_configuration_prints_no_secret() {
    let config = cluster().prepared(&whole()).await.unwrap();
    let printed = format!("{config:?}");
    for secret in ["hush", "our certificate", "our key"] {
        assert!(!printed.contains(secret), "{printed}");
    }
}
