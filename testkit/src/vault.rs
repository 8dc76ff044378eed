//! The real Vault server.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    child::{Child, Spec},
    control_plane::{install_crypto, spec},
    port::Port,
    scratch::Scratch,
    tools::Tool,
};

const START: Duration = Duration::from_secs(60);
const STOP: Duration = Duration::from_secs(10);
/// The root token that we choose in dev mode.
const DEV_TOKEN: &str = "root";

/// How Vault stores its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VaultOptions {
    /// In memory, unsealed from the start; a restart loses all data.
    Dev,
    /// In files: can be sealed, unsealed and restarted without loss.
    File,
}

impl VaultOptions {
    /// In memory.
    pub fn dev() -> Self {
        Self::Dev
    }

    /// In files.
    pub fn file() -> Self {
        Self::File
    }
}

/// A Vault server. Dropping it stops it.
pub struct Vault {
    server: Mutex<Option<Child>>,
    scratch: Arc<Scratch>,
    spec: Spec,
    port: Port,
    http: reqwest::Client,
    /// Empty in dev mode, and until Vault is initialised.
    unseal_key: String,
    root_token: String,
}

/// Vault's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The JSON body; `null` when empty.
    pub body: Value,
}

impl Vault {
    /// Starts one and returns when it is unsealed.
    pub async fn start(options: VaultOptions) -> Result<Self> {
        install_crypto();
        let scratch = Arc::new(Scratch::new("vault")?);
        let port = Port::free()?;
        let mut vault = Self {
            server: Mutex::default(),
            spec: server_spec(&scratch, &port, options)?,
            scratch,
            port,
            http: reqwest::Client::builder()
                .timeout(Duration::from_secs(10))
                .build()?,
            unseal_key: String::new(),
            root_token: DEV_TOKEN.into(),
        };
        let started = vault.first_start(options).await;
        if started.is_err() {
            vault.scratch.preserve();
        }
        started.map(|()| vault)
    }

    async fn first_start(&mut self, options: VaultOptions) -> Result<()> {
        self.run_server().await?;
        if options == VaultOptions::File {
            let one = json!({ "secret_shares": 1, "secret_threshold": 1 });
            let made = self.expect(Method::PUT, "sys/init", Some(one)).await?;
            let text = |value: &Value| value.as_str().map(str::to_owned);
            self.unseal_key = text(&made["keys"][0]).context("Vault gave no unseal key")?;
            self.root_token = text(&made["root_token"]).context("Vault gave no root token")?;
            self.unseal().await?;
        }
        Ok(())
    }

    /// `http://127.0.0.1:<port>`.
    pub fn address(&self) -> String {
        format!("http://{}", self.port.address())
    }

    /// The root token.
    pub fn root_token(&self) -> &str {
        &self.root_token
    }

    /// Seals it: it answers 503 to everything but `sys/health` and the like.
    pub async fn seal(&self) -> Result<()> {
        self.expect(Method::PUT, "sys/seal", None).await.map(drop)
    }

    /// Unseals it, and waits until it is active.
    ///
    /// # When not to use it
    /// In dev mode: the key is Vault's own, and a sealed dev server stays sealed.
    pub async fn unseal(&self) -> Result<()> {
        if self.unseal_key.is_empty() {
            bail!("a dev server cannot be unsealed; start one with VaultOptions::file()");
        }
        let key = json!({ "key": self.unseal_key });
        self.expect(Method::PUT, "sys/unseal", Some(key)).await?;
        self.until("active", |status| status == 200).await
    }

    /// Ends the server; its address refuses connections until [`Self::start_again`].
    pub async fn stop(&self) -> Result<()> {
        let Some(server) = self.server.lock().take() else {
            return Ok(());
        };
        if server.terminate(STOP).await.is_err() {
            server.kill();
        }
        Ok(())
    }

    /// Kills it.
    pub fn kill(&self) {
        drop(self.server.lock().take());
    }

    /// Starts a stopped server at the same address. With files it has its data and is sealed; in dev
    /// mode all data is lost.
    pub async fn start_again(&self) -> Result<()> {
        self.run_server().await
    }

    /// Freezes it: connections stay open and nothing answers.
    pub fn freeze(&self) -> Result<()> {
        self.server
            .lock()
            .as_ref()
            .context("Vault is stopped")?
            .freeze()
    }

    /// Continues a frozen server.
    pub fn thaw(&self) -> Result<()> {
        self.server
            .lock()
            .as_ref()
            .context("Vault is stopped")?
            .thaw()
    }

    /// Requests `path` (below `/v1/`) with the root token. Any status is an answer.
    pub async fn request(&self, method: Method, path: &str, body: Option<Value>) -> Result<Answer> {
        self.request_as(&self.root_token, method, path, body).await
    }

    /// The same with another token.
    pub async fn request_as(
        &self,
        token: &str,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Answer> {
        let url = format!("{}/v1/{path}", self.address());
        let mut request = self
            .http
            .request(method, &url)
            .header("X-Vault-Token", token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request
            .send()
            .await
            .with_context(|| format!("no answer from {url}"))?;
        let status = answer.status().as_u16();
        let bytes = answer.bytes().await?;
        let body = if bytes.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&bytes)?
        };
        Ok(Answer { status, body })
    }

    /// Sends a request; every status but a success is an error.
    pub async fn expect(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value> {
        let Answer { status, body } = self.request(method.clone(), path, body).await?;
        if !(200..300).contains(&status) {
            bail!("Vault answered {status} to {method} {path}: {body}");
        }
        Ok(body)
    }

    async fn run_server(&self) -> Result<()> {
        *self.server.lock() = Some(Child::start(&self.spec)?);
        // Any status: uninitialised (501) and sealed (503) servers run, too.
        self.until("answering", |_| true).await
    }

    /// Waits until the status of `sys/health` is as `wanted`.
    async fn until(&self, what: &str, wanted: impl Fn(u16) -> bool) -> Result<()> {
        let started = Instant::now();
        loop {
            let health = self.request(Method::GET, "sys/health", None).await;
            if health.as_ref().is_ok_and(|answer| wanted(answer.status)) {
                return Ok(());
            }
            let (ended, tail) = {
                let server = self.server.lock();
                let server = server.as_ref().context("Vault is stopped")?;
                (server.exit_status(), server.log_tail(20))
            };
            if ended.is_some() || started.elapsed() > START {
                bail!(
                    "Vault is not {what} ({health:?}, ended: {ended:?}); its last lines:\n{tail}"
                );
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn server_spec(scratch: &Scratch, port: &Port, options: VaultOptions) -> Result<Spec> {
    let address = port.address();
    let args = match options {
        VaultOptions::Dev => vec![
            "server".into(),
            "-dev".into(),
            "-dev-no-store-token".into(),
            format!("-dev-root-token-id={DEV_TOKEN}"),
            format!("-dev-listen-address={address}"),
        ],
        VaultOptions::File => {
            let config = json!({
                "storage": { "file": { "path": scratch.path().join("store") } },
                "listener": { "tcp": { "address": address, "tls_disable": true } },
                "api_addr": format!("http://{address}"),
                // A test does not have the privileges to lock memory.
                "disable_mlock": true,
            });
            let config = scratch.write("vault.json", config.to_string())?;
            vec!["server".into(), format!("-config={}", config.display())]
        }
    };
    let mut spec = spec(scratch.path(), Tool::Vault, &args)?;
    // A separate home, without the user's own Vault settings.
    spec.env.extend([
        ("HOME".into(), scratch.path().into()),
        ("VAULT_ADDR".into(), format!("http://{address}").into()),
        ("VAULT_TOKEN".into(), "".into()),
        ("VAULT_NAMESPACE".into(), "".into()),
        ("VAULT_DISABLE_MLOCK".into(), "true".into()),
    ]);
    Ok(spec)
}
