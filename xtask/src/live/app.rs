//! The app of the vault example. No container runs here, so we do what its Pod would do: log in to
//! Vault with the token of its ServiceAccount, and read its secret.

use std::cell::Cell;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::examples::ExampleState;
use crate::verdict::{Error, While};

const NAMESPACE: &str = "orders";
const ACCOUNT: &str = "shop";
/// Derived from the connection's mount and from the names of the VaultRole.
const ROLE: &str = "vao.kubernetes.orders.shop";
const SECRET: &str = "secret/data/orders/shop";

const PATIENCE: Duration = Duration::from_secs(10);

/// The app `shop` in the namespace `orders`.
pub(crate) struct App {
    client: Client,
    http: reqwest::Client,
    vault: String,
    /// Whether it has read its secret once, which is enough.
    done: Cell<bool>,
}

impl App {
    pub(crate) fn new(client: Client, vault: String) -> Result<Self, Error> {
        let http = reqwest::Client::builder().timeout(PATIENCE).build();
        Ok(Self {
            client,
            http: http.doing("making an HTTP client")?,
            vault,
            done: Cell::new(false),
        })
    }

    pub(crate) fn name() -> String {
        format!("{NAMESPACE}/{ACCOUNT}")
    }

    /// Whether it can read its secret yet.
    pub(crate) async fn state(&self) -> ExampleState {
        if !self.done.get()
            && let Err(error) = self.read().await
        {
            return ExampleState::NotReady {
                reason: "NotLetIn".to_owned(),
                message: error.to_string(),
            };
        }
        self.done.set(true);
        ExampleState::Ready {
            reason: "SecretRead".to_owned(),
        }
    }

    async fn read(&self) -> Result<(), Error> {
        let accounts = Api::<ServiceAccount>::namespaced(self.client.clone(), NAMESPACE);
        let request = TokenRequest {
            spec: TokenRequestSpec::default(),
            ..TokenRequest::default()
        };
        let how = PostParams::default();
        let issued = accounts.create_token_request(ACCOUNT, &how, &request).await;
        let issued = issued.doing("asking for the app's token")?;
        let jwt = issued.status.map(|status| status.token);
        let login = format!("{}/v1/auth/kubernetes/login", self.vault);
        let login = self
            .http
            .post(login)
            .json(&json!({"role": ROLE, "jwt": jwt}));
        let login = answer(login).await.doing("logging in")?;
        let token = login["auth"]["client_token"].as_str().unwrap_or_default();
        let secret = self.http.get(format!("{}/v1/{SECRET}", self.vault));
        let secret = answer(secret.header("X-Vault-Token", token)).await;
        let secret = secret.doing(format_args!("reading {SECRET}"))?;
        if secret["data"]["data"].is_object() {
            return Ok(());
        }
        Err(Error::new(format!("{SECRET} is empty")))
    }
}

async fn answer(request: reqwest::RequestBuilder) -> Result<Value, Error> {
    let answer = request.send().await.doing("asking Vault")?;
    let status = answer.status();
    let body: Value = answer.json().await.doing("reading Vault's answer")?;
    if status.is_success() {
        return Ok(body);
    }
    Err(Error::new(format!("{status}: {}", body["errors"])))
}
