//! The kubeconfig of a login. Pure, but for the file of a certificate authority that the person's kubeconfig
//! may name.

use api::migrate::names::KUBECONFIG_KEY;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{VettingRules, vet};
use engine::cli::Failure;
use k8s_openapi::api::core::v1::Secret;
use kernel::Redacted;
use kube::config::Kubeconfig;
use serde_json::{Value, json};

/// The name of cluster, user and context in the kubeconfig.
const ENTRY: &str = "pontoon-migrate";

/// How to reach a cluster, by the person's own kubeconfig.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ServerAddress {
    server: String,
    tls_server_name: Option<String>,
    /// The certificate authority in base64, if the kubeconfig has one.
    authority: Option<String>,
}

/// What Kubernetes writes into the Secret of a ServiceAccount's token.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Token {
    token: Redacted<String>,
    /// In base64.
    authority: String,
}

impl ServerAddress {
    /// The address of a context.
    ///
    /// # Errors
    /// There is no such context, or the operator could not reach the cluster as it says.
    pub(super) fn of(kubeconfig: &Kubeconfig, context: &str) -> Result<Self, Failure> {
        let mut contexts = kubeconfig.contexts.iter();
        let found = contexts.find(|one| one.name == context);
        let found = found.and_then(|one| one.context.as_ref()).ok_or_else(|| {
            let names: Vec<_> = kubeconfig.contexts.iter().map(|one| &*one.name).collect();
            format!(
                "there is no context {context:?}; the contexts are: {}",
                names.join(", ")
            )
        })?;
        let mut clusters = kubeconfig.clusters.iter();
        let cluster = clusters.find(|one| one.name == found.cluster);
        let cluster = cluster.and_then(|one| one.cluster.as_ref());
        let cluster = cluster.ok_or_else(|| {
            format!(
                "context {context:?} names cluster {:?}, which does not exist",
                found.cluster
            )
        })?;
        if cluster.proxy_url.is_some() {
            return Err(format!(
                "context {context:?} reaches its cluster by a proxy (proxy-url), which the operator does not use; \
                 give a context without one"
            )
            .into());
        }
        let server = cluster.server.clone().unwrap_or_default();
        if !server.starts_with("https://") {
            return Err(
                format!("context {context:?} has no https server; give one that has").into(),
            );
        }
        let authority = match (
            &cluster.certificate_authority_data,
            &cluster.certificate_authority,
        ) {
            (Some(inline), _) => Some(inline.clone()),
            (None, Some(path)) => {
                let file = std::fs::read(path).map_err(|error| {
                    format!("certificate-authority {path} of context {context:?} cannot be read: {error}")
                })?;
                Some(STANDARD.encode(file))
            }
            (None, None) => None,
        };
        Ok(Self {
            server,
            tls_server_name: cluster.tls_server_name.clone(),
            authority,
        })
    }
}

impl Token {
    /// The token in a Secret; none before Kubernetes has written it.
    pub(super) fn of(secret: &Secret) -> Option<Self> {
        let keys = secret.data.as_ref()?;
        let token = String::from_utf8(keys.get("token")?.0.clone()).ok()?;
        let authority = STANDARD.encode(&keys.get("ca.crt")?.0);
        (!token.is_empty()).then(|| Self {
            token: Redacted::new(token),
            authority,
        })
    }
}

/// The kubeconfig, which the operator accepts.
///
/// # Errors
/// It would refuse it; the field.
pub(super) fn kubeconfig(
    context: &str,
    server: &ServerAddress,
    token: &Token,
) -> Result<Value, Failure> {
    let authority = server.authority.as_ref().unwrap_or(&token.authority);
    let mut cluster = json!({"server": server.server, "certificate-authority-data": authority});
    if let Some(name) = &server.tls_server_name {
        cluster["tls-server-name"] = json!(name);
    }
    let rendered = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": ENTRY,
        "clusters": [{"name": ENTRY, "cluster": cluster}],
        "users": [{"name": ENTRY, "user": {"token": token.token.expose()}}],
        "contexts": [{"name": ENTRY, "context": {"cluster": ENTRY, "user": ENTRY}}],
    });
    vet(rendered.to_string().as_bytes(), VettingRules::default()).map_err(|refused| {
        format!("the kubeconfig of context {context:?} would be refused by the operator: {refused}")
    })?;
    Ok(rendered)
}

/// The kubeconfig as YAML.
pub(super) fn text(kubeconfig: &Value) -> Result<String, Failure> {
    let text = serde_saphyr::to_string(kubeconfig)
        .map_err(|error| format!("the {KUBECONFIG_KEY} cannot be written as YAML: {error}"))?;
    Ok(text)
}

/// `<context>-kubeconfig`, as far as a name may have these characters.
pub(super) fn secret_name(context: &str) -> String {
    let lower = context.to_ascii_lowercase();
    let is_legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let legal: String = lower
        .chars()
        .map(|c| if is_legal(c) { c } else { '-' })
        .collect();
    let short: String = legal.trim_matches('-').chars().take(200).collect();
    format!("{}-kubeconfig", short.trim_end_matches('-'))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use rstest::rstest;

    use super::*;

    fn user(cluster: Value) -> Kubeconfig {
        serde_json::from_value(json!({
            "clusters": [{"name": "c", "cluster": cluster}],
            "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}},
                {"name": "lost", "context": {"cluster": "none", "user": "u"}}],
        }))
        .unwrap()
    }

    fn token() -> Token {
        Token {
            token: Redacted::new("secret-token".to_owned()),
            authority: "Y2E=".to_owned(),
        }
    }

    #[rstest]
    #[case::no_such_context("dev", json!({"server": "https://a"}), "the contexts are: prod, lost")]
    #[case::no_such_cluster("lost", json!({"server": "https://a"}), "which does not exist")]
    #[case::plain_http("prod", json!({"server": "http://a"}), "no https server")]
    #[case::a_proxy("prod", json!({"server": "https://a", "proxy-url": "http://p"}), "proxy-url")]
    #[case::a_missing_file(
        "prod", json!({"server": "https://a", "certificate-authority": "/nonexistent"}), "cannot be read")]
    fn a_context_that_does_not_serve_is_refused(
        #[case] context: &str,
        #[case] cluster: Value,
        #[case] hint: &str,
    ) {
        let error = ServerAddress::of(&user(cluster), context)
            .unwrap_err()
            .to_string();
        assert!(error.contains(hint), "{error}");
    }

    #[test]
    fn a_context_gives_the_address() {
        let cluster = json!({
            "server": "https://a:6443", "tls-server-name": "k8s", "certificate-authority-data": "b3du",
            "insecure-skip-tls-verify": true,
        });
        let expected = ServerAddress {
            server: "https://a:6443".to_owned(),
            tls_server_name: Some("k8s".to_owned()),
            authority: Some("b3du".to_owned()),
        };
        assert_eq!(ServerAddress::of(&user(cluster), "prod").unwrap(), expected);
    }

    #[rstest]
    #[case::complete(&[("token", "t"), ("ca.crt", "ca")], true)]
    #[case::not_written_yet(&[], false)]
    #[case::without_authority(&[("token", "t")], false)]
    #[case::empty(&[("token", ""), ("ca.crt", "ca")], false)]
    fn a_token_is_read_when_it_is_written(#[case] keys: &[(&str, &str)], #[case] expected: bool) {
        let keys = keys.iter();
        let keys =
            keys.map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
        let secret = Secret {
            data: Some(keys.collect()),
            ..Secret::default()
        };
        assert_eq!(Token::of(&secret).is_some(), expected);
    }

    #[test]
    fn what_the_operator_refuses_is_not_given_out() {
        let server = ServerAddress {
            server: "https://a".to_owned(),
            tls_server_name: None,
            authority: None,
        };
        let error = kubeconfig("prod", &server, &token())
            .unwrap_err()
            .to_string();
        assert!(error.contains("would be refused"), "{error}");
        assert!(!error.contains("secret-token"), "{error}");
    }

    #[rstest]
    #[case::plain("prod", "prod-kubeconfig")]
    #[case::of_eks(
        "arn:aws:eks:eu-west-1:1:cluster/Prod",
        "arn-aws-eks-eu-west-1-1-cluster-prod-kubeconfig"
    )]
    #[case::with_a_sign_at_the_end("kind@", "kind-kubeconfig")]
    fn a_secret_is_named_after_the_context(#[case] context: &str, #[case] expected: &str) {
        assert_eq!(secret_name(context), expected);
    }
}
