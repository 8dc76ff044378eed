//! A Vault, a proxy in front of it, and clients of the proxy.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Method;
use kernel::{Guard, SharedClock, TestClock};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::fault_proxy::{FaultProxy, Listen, Upstream};
use testkit::{Result, Vault, VaultOptions};
use vault_client::{
    AuthMount, Client, Config, Login, Observer, Parts, Renewal, Secret, Settings, Source,
};

/// The calls that a client reported to its observer.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    logins: AtomicU64,
    calls: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
}

impl Seen {
    pub(crate) fn logins(&self) -> u64 {
        self.logins.load(Ordering::Relaxed)
    }

    pub(crate) fn calls(&self, operation: &'static str, status: &'static str) -> u64 {
        let calls = self.calls.lock();
        calls.get(&(operation, status)).copied().unwrap_or_default()
    }
}

impl Observer for Seen {
    fn called(&self, operation: &'static str, status: &'static str) {
        *self.calls.lock().entry((operation, status)).or_default() += 1;
    }

    fn logged_in(&self) {
        self.logins.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) struct World {
    pub(crate) vault: Vault,
    pub(crate) proxy: FaultProxy,
    pub(crate) seen: Arc<Seen>,
    pub(crate) clock: Arc<TestClock>,
}

pub(crate) fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

/// A login with a static token.
pub(crate) fn with_token(token: &str) -> Login {
    let token = Source::given(secret(token));
    Login::Token { token }
}

pub(crate) fn config(fingerprint: &str, address: &str, login: Login) -> Config {
    Config {
        fingerprint: fingerprint.to_owned(),
        settings: Settings::new(address),
        login,
        renewal: Renewal::Renew,
    }
}

pub(crate) fn parts(clock: SharedClock, observer: Arc<dyn Observer>) -> Parts {
    Parts {
        clock,
        guards: vec![Guard::always()],
        observer,
    }
}

impl World {
    pub(crate) async fn start() -> Result<Self> {
        Self::around(Vault::start(VaultOptions::dev()).await?).await
    }

    pub(crate) async fn around(vault: Vault) -> Result<Self> {
        let upstream = Upstream {
            url: vault.address(),
            ca_pem: None,
        };
        let proxy = FaultProxy::start(upstream, Listen::Http).await?;
        Ok(Self {
            vault,
            proxy,
            seen: Arc::default(),
            clock: Arc::new(TestClock::new()),
        })
    }

    pub(crate) fn parts(&self) -> Parts {
        parts(self.clock.clone(), self.seen.clone())
    }

    pub(crate) fn config(&self, login: Login) -> Config {
        config("first", self.proxy.url(), login)
    }

    pub(crate) fn client(&self, login: Login) -> Client {
        self.client_of(self.config(login))
    }

    pub(crate) fn client_of(&self, config: Config) -> Client {
        Client::new(config, self.parts()).unwrap()
    }

    /// A client that may do everything.
    pub(crate) fn root(&self) -> Client {
        self.client(with_token(self.vault.root_token()))
    }

    /// An AppRole whose tokens have a TTL of a minute and may read only the policy `app`.
    pub(crate) async fn app_role(&self) -> Result<Login> {
        let own = r#"path "sys/policies/acl/app" { capabilities = ["read"] }"#;
        self.put("sys/policies/acl/app", json!({ "policy": own }))
            .await?;
        self.put("sys/auth/approle", json!({ "type": "approle" }))
            .await?;
        let role = json!({ "token_policies": ["app"], "token_ttl": 60, "token_max_ttl": 3600 });
        self.put("auth/approle/role/app", role).await?;
        let id = self
            .vault
            .expect(Method::GET, "auth/approle/role/app/role-id", None)
            .await?;
        let made = self
            .put("auth/approle/role/app/secret-id", json!({}))
            .await?;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Ok(Login::AppRole {
            mount: AuthMount::new("approle"),
            role_id: text(&id["data"]["role_id"]),
            secret_id: Source::given(Secret::new(text(&made["data"]["secret_id"]))),
        })
    }

    /// Writes to Vault as root, without the proxy.
    pub(crate) async fn put(&self, path: &str, body: Value) -> Result<Value> {
        self.vault.expect(Method::POST, path, Some(body)).await
    }

    /// Whether the token of `accessor` exists.
    pub(crate) async fn knows(&self, accessor: &str) -> Result<bool> {
        let body = json!({ "accessor": accessor });
        let path = "auth/token/lookup-accessor";
        let answer = self.vault.request(Method::POST, path, Some(body)).await?;
        Ok(answer.status == 200)
    }

    /// Revokes the token of `accessor`.
    pub(crate) async fn revoke(&self, accessor: &str) -> Result<()> {
        let body = json!({ "accessor": accessor });
        self.put("auth/token/revoke-accessor", body).await.map(drop)
    }

    pub(crate) fn logins_sent(&self) -> usize {
        self.proxy.count(Method::POST, "/v1/auth/*/login")
    }

    pub(crate) fn lookups_sent(&self) -> usize {
        self.proxy.count(Method::GET, "/v1/auth/token/lookup-self")
    }

    pub(crate) fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}
