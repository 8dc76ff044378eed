//! Kubeconfigs with all values inline: they refer to no other files.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::certs::Identity;

/// The credentials in a kubeconfig.
pub(crate) enum Proof<'a> {
    Certificate(&'a Identity),
    Token(&'a str),
}

/// A kubeconfig for the API server at `url`. JSON, which is YAML too.
pub(crate) fn kubeconfig(url: &str, authority: &str, proof: &Proof<'_>) -> String {
    kubeconfig_in(None, url, authority, proof)
}

/// The same with a default namespace.
pub(crate) fn kubeconfig_in(
    namespace: Option<&str>,
    url: &str,
    authority: &str,
    proof: &Proof<'_>,
) -> String {
    let mut context = json!({ "cluster": "testkit", "user": "testkit" });
    if let Some(namespace) = namespace {
        context["namespace"] = json!(namespace);
    }
    let cluster =
        json!({ "server": url, "certificate-authority-data": STANDARD.encode(authority) });
    let user = match proof {
        Proof::Certificate(Identity { cert, key }) => json!({
            "client-certificate-data": STANDARD.encode(cert),
            "client-key-data": STANDARD.encode(key),
        }),
        Proof::Token(token) => json!({ "token": token }),
    };
    let config: Value = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "testkit", "cluster": cluster }],
        "users": [{ "name": "testkit", "user": user }],
        "contexts": [{ "name": "testkit", "context": context }],
        "current-context": "testkit",
    });
    format!("{config:#}\n")
}
