//! What the stories about connections need beyond the world they share.
#![allow(dead_code)] // each file uses its part

pub(crate) mod tls;

use api::vault::{AuthStatus, VaultConnection, VaultConnectionStatus};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Api;
use reqwest::Method;
use serde_json::{Map, Value, json};
use testkit::fault_proxy::FaultProxy;
use testkit::stories::lasting_proxy;
use testkit::{Result, Vault, VaultOptions, eventually, is};

use crate::stories::{Crew, Site};

/// A token as an administrator makes it.
pub(crate) struct Minted {
    pub(crate) token: String,
    pub(crate) accessor: String,
}

/// Makes a token.
pub(crate) async fn mint(vault: &Vault, fields: Value) -> Result<Minted> {
    let path = "auth/token/create";
    let made = vault.expect(Method::POST, path, Some(fields)).await?;
    let text = |field: &str| made["auth"][field].as_str().unwrap_or_default().to_owned();
    Ok(Minted {
        token: text("client_token"),
        accessor: text("accessor"),
    })
}

/// Whether a token lives.
pub(crate) async fn lives(vault: &Vault, token: &str) -> Result<bool> {
    let path = "auth/token/lookup-self";
    let answer = vault.request_as(token, Method::GET, path, None).await?;
    Ok(answer.status == 200)
}

/// What Vault knows of the token with this accessor, if it lives.
pub(crate) async fn known(vault: &Vault, accessor: &str) -> Result<Option<Value>> {
    let (path, body) = ("auth/token/lookup-accessor", json!({"accessor": accessor}));
    let answer = vault.request(Method::POST, path, Some(body)).await?;
    Ok((answer.status == 200).then(|| answer.body["data"].clone()))
}

/// Puts just these entries into the Secret `name` beside the operator.
pub(crate) async fn keep(site: &Site, name: &str, entries: &[(&str, &str)]) -> Result<()> {
    keep_in(site, site.world.operator_namespace(), name, entries).await
}

/// The same in any namespace.
pub(crate) async fn keep_in(
    site: &Site,
    namespace: &str,
    name: &str,
    entries: &[(&str, &str)],
) -> Result<()> {
    let encoded = |(key, value): &(&str, &str)| ((*key).to_owned(), STANDARD.encode(value).into());
    let entries: Map<String, Value> = entries.iter().map(encoded).collect();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace}, "data": entries,
    });
    let cluster = site.world.cluster();
    cluster.apply(&secret.to_string()).await.map(drop)
}

/// A key of such a Secret, as a connection names it.
pub(crate) fn key(site: &Site, name: &str, key: &str) -> Value {
    json!({"name": name, "namespace": site.world.operator_namespace(), "key": key})
}

/// A login by the token that the Secret `name` has under `token`, instead of the usual one.
pub(crate) fn by_token(site: &Site, name: &str) -> Value {
    json!({"kubernetes": null, "token": {"secretRef": key(site, name, "token")}})
}

/// What a connection says of itself, once it is ready.
pub(crate) async fn ready(crew: &Crew, connection: &str) -> Result<VaultConnectionStatus> {
    let ready = is("Ready", "Succeeded");
    let cluster = crew.cluster();
    let found = cluster.until::<VaultConnection>(connection, ready).await?;
    Ok(found.status.expect("a condition is in the status"))
}

/// What it says now.
pub(crate) async fn current(crew: &Crew, connection: &str) -> Result<VaultConnectionStatus> {
    let connections = Api::<VaultConnection>::all(crew.client());
    Ok(connections
        .get(connection)
        .await?
        .status
        .unwrap_or_default())
}

/// What a status says of the login.
pub(crate) fn login(status: &VaultConnectionStatus) -> AuthStatus {
    status.auth_status.clone().unwrap_or_default()
}

/// The accessor of the token in use.
pub(crate) fn accessor(status: &VaultConnectionStatus) -> String {
    login(status).token_accessor.unwrap_or_default()
}

/// The operator's gauge about a connection; none if there is no such series.
pub(crate) async fn gauge(site: &Site, name: &str, connection: &str) -> Result<Option<f64>> {
    let series = format!("vault_access_operator_{name}{{connection=\"{connection}\"}} ");
    let text = site.world.operator().metrics().await?;
    let mut values = text.lines().filter_map(|line| line.strip_prefix(&series));
    Ok(values.next().and_then(|value| value.parse().ok()))
}

/// Waits until Vault has been asked for its health `times` more through each of these proxies.
pub(crate) async fn looks(proxies: &[&FaultProxy], times: usize) -> Result<()> {
    let count = |proxy: &FaultProxy| proxy.count(Method::GET, "/v1/sys/health");
    let wanted: Vec<_> = proxies.iter().map(|proxy| count(proxy) + times).collect();
    eventually("Vault is looked at again", async || {
        let mut pairs = proxies.iter().zip(&wanted);
        Ok(pairs
            .all(|(proxy, wanted)| count(proxy) >= *wanted)
            .then_some(()))
    })
    .await
}

/// A Vault that nobody has touched, and a proxy before it. Both stay to the end, as what connects
/// to them does.
pub(crate) async fn empty_vault() -> Result<(&'static Vault, &'static FaultProxy)> {
    let vault = Vault::start(VaultOptions::dev()).await?;
    let proxy = lasting_proxy(vault.address(), None).await?;
    Ok((Box::leak(Box::new(vault)), proxy))
}
