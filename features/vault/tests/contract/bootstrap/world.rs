//! A Vault with a proxy before it, and a cluster that wants to log in.

use std::sync::Arc;

use api::vault::{AuthStatus, Bootstrap, KubernetesAuth};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kernel::{Clock, Guard, RealClock};
use kube::Api;
use kube::api::PostParams;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::fault_proxy::{FaultProxy, Listen, Upstream};
use testkit::{ControlPlane, Result, Vault, VaultOptions};
use vault_client::{
    AuthMount, Client, Config, Error, Login, Parts, Renewal, Secret, Settings, Source, SourceError,
    Unobserved,
};

use super::bootstrap::{Advance, MountMarker, Site, Wish, advance, is_owed, record};
use super::reviewer::{ASKED, Issuer, Jwt};

pub(crate) const NAMESPACE: &str = "bootstrap";
pub(crate) const OPERATOR: &str = "operator";
pub(crate) const MOUNT: &str = "k8s";
pub(crate) const ROLE: &str = "pontoon";

/// The operator's ServiceAccount, which may review tokens.
pub(crate) struct Account(Api<ServiceAccount>);

impl Account {
    async fn new(plane: &ControlPlane) -> Result<Self> {
        plane.as_service_account(NAMESPACE, OPERATOR).await?;
        let binding: ClusterRoleBinding = serde_json::from_value(json!({
            "metadata": { "name": "bootstrap-reviewer" },
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "system:auth-delegator",
            },
            "subjects": [{ "kind": "ServiceAccount", "namespace": NAMESPACE, "name": OPERATOR }],
        }))?;
        let bindings = Api::<ClusterRoleBinding>::all(plane.admin());
        match bindings.create(&PostParams::default(), &binding).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            created => drop(created?),
        }
        Ok(Self(Api::namespaced(plane.admin(), NAMESPACE)))
    }

    /// A token for `audiences`, by default the API server's own.
    async fn token(&self, audiences: Vec<String>, seconds: u64) -> Result<Jwt, SourceError> {
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences,
                expiration_seconds: Some(i64::try_from(seconds).unwrap()),
                bound_object_ref: None,
            },
            ..TokenRequest::default()
        };
        let made = self
            .0
            .create_token_request(OPERATOR, &PostParams::default(), &request)
            .await;
        let status = made.map_err(SourceError::new)?.status.unwrap();
        Ok(Jwt {
            secret: Secret::new(status.token),
            expires: status.expiration_timestamp.0,
        })
    }
}

impl Issuer for Account {
    async fn reviewer(&self) -> Result<Jwt, SourceError> {
        self.token(Vec::new(), ASKED.as_secs()).await
    }
}

/// The world of one test.
pub(crate) struct World {
    pub(crate) vault: Vault,
    pub(crate) proxy: FaultProxy,
    pub(crate) plane: Arc<ControlPlane>,
    pub(crate) account: Arc<Account>,
    clock: Arc<RealClock>,
    /// The bootstrap token; the root token stays for the test itself.
    pub(crate) token: String,
    pub(crate) status: AuthStatus,
    pub(crate) host: String,
    pub(crate) bootstrap: Bootstrap,
}

impl World {
    pub(crate) async fn start(bootstrap: Value) -> Result<Self> {
        let vault = Vault::start(VaultOptions::dev()).await?;
        let plane = ControlPlane::shared().await?;
        let upstream = Upstream {
            url: vault.address(),
            ca_pem: None,
        };
        let made = json!({ "policies": ["root"], "no_parent": true });
        let made = vault
            .expect(Method::POST, "auth/token/create", Some(made))
            .await?;
        let mut whole = json!({"secretRef": {"name": "n", "namespace": "m", "key": "k"}});
        for (field, value) in bootstrap.as_object().unwrap() {
            whole[field] = value.clone();
        }
        Ok(Self {
            proxy: FaultProxy::start(upstream, Listen::Http).await?,
            account: Arc::new(Account::new(&plane).await?),
            clock: Arc::new(RealClock::new()),
            token: made["auth"]["client_token"].as_str().unwrap().to_owned(),
            status: AuthStatus::default(),
            host: plane.url(),
            bootstrap: serde_json::from_value(whole)?,
            vault,
            plane,
        })
    }

    fn client(&self, login: Login) -> Client {
        let config = Config {
            fingerprint: "f".to_owned(),
            settings: Settings::new(self.proxy.url()),
            login,
            renewal: Renewal::Renew,
        };
        let parts = Parts {
            clock: self.clock.clone(),
            guards: vec![Guard::always()],
            observer: Arc::new(Unobserved),
        };
        Client::new(config, parts).unwrap()
    }

    pub(crate) fn with_token(&self, token: &str) -> Client {
        let token = Source::given(Secret::new(token.to_owned()));
        self.client(Login::Token { token })
    }

    pub(crate) fn by_kubernetes(&self) -> Client {
        let account = Arc::clone(&self.account);
        let jwt = Source::new(move || {
            let account = Arc::clone(&account);
            async move { Ok(account.token(vec!["vault".into()], 600).await?.secret) }
        });
        self.client(Login::Kubernetes {
            mount: mount(),
            role: ROLE.to_owned(),
            jwt,
        })
    }

    /// One pass of a process that has just started: all it knows is the status.
    pub(crate) async fn pass(&mut self) -> Result<Advance, Error> {
        let login = self.by_kubernetes();
        self.pass_with(&login).await
    }

    pub(crate) async fn pass_with(&mut self, login: &Client) -> Result<Advance, Error> {
        let auth: KubernetesAuth = serde_json::from_value(json!({
            "role": ROLE, "authPath": MOUNT, "kubernetesHost": self.host,
        }))
        .unwrap();
        let site = Site {
            wish: Wish {
                auth: &auth,
                bootstrap: &self.bootstrap,
                marker: &marker(),
                ca_pem: self.plane.ca_pem(),
                now: self.clock.now(),
            },
            vault: &self.with_token(&self.token),
            login,
            issuer: &*self.account,
            account: (NAMESPACE, OPERATOR),
            role_mount: None,
            below: "",
        };
        let advance = advance(&site, &self.status).await?;
        record(&mut self.status, &advance, self.clock.now());
        Ok(advance)
    }

    /// Passes until nothing is owed; a client that is logged in by then.
    pub(crate) async fn bootstrapped(&mut self) -> Result<Client> {
        let login = self.by_kubernetes();
        for _ in 0..7 {
            self.pass_with(&login).await?;
        }
        assert!(!is_owed(&self.bootstrap, &self.status), "{:?}", self.status);
        Ok(login)
    }

    /// What Vault holds at `path`, past the proxy.
    pub(crate) async fn held(&self, path: &str) -> Result<Value> {
        let answer = self.vault.request(Method::GET, path, None).await?;
        Ok(answer.body["data"].clone())
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Result<()> {
        self.vault
            .expect(Method::POST, path, Some(body))
            .await
            .map(drop)
    }

    pub(crate) async fn token_lives(&self) -> Result<bool> {
        let path = "auth/token/lookup-self";
        let answer = self
            .vault
            .request_as(&self.token, Method::GET, path, None)
            .await?;
        Ok(answer.status == 200)
    }

    pub(crate) fn posts(&self, path: &str) -> usize {
        self.proxy.count(Method::POST, &format!("/v1/{path}"))
    }

    pub(crate) fn steps(&self) -> Vec<&str> {
        self.status
            .bootstrap_steps
            .keys()
            .map(String::as_str)
            .collect()
    }
}

pub(crate) fn mount() -> AuthMount {
    AuthMount::new(MOUNT)
}

pub(crate) fn marker() -> MountMarker {
    MountMarker {
        identity: "prod".to_owned(),
        connection: "c".to_owned(),
    }
}
