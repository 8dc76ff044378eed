//! Keys of AWS, from where the environment says they are.
//!
//! | the first of these that is set              | gives                                         |
//! |---------------------------------------------|-----------------------------------------------|
//! | `AWS_ACCESS_KEY_ID`                         | the keys themselves                           |
//! | `AWS_WEB_IDENTITY_TOKEN_FILE`               | a JWT that STS changes for keys of a role     |
//! | `AWS_CONTAINER_CREDENTIALS_RELATIVE_URI`, `…_FULL_URI` | an address next door (Pod Identity) |
//! | none                                        | the instance's metadata (IMDSv2)              |
//!
//! Asked at each login and not kept: a login comes once in the life of Vault's token.

mod ask;

use std::net::IpAddr;

use kernel::Class;
use reqwest::Url;
use vault_client::{AwsKeys, Secret, Source, SourceError};

use super::config::Problem;

const INSTANCE: &str = "http://169.254.169.254";
const CONTAINER: &str = "http://169.254.170.2";
/// Addresses that never leave the node, so that plain text is fine: ECS, and EKS Pod Identity.
const NEXT_DOOR: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];
/// How our sessions are called where nobody says otherwise.
const SESSION: &str = "pontoon";

/// Why there are no keys. Holds none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeysProblem {
    /// The environment contradicts itself.
    #[error("the operator's environment does not lead to AWS keys: {0}")]
    Environment(String),
    /// Nobody has any.
    #[error(
        "there are no AWS keys: none of AWS_ACCESS_KEY_ID, AWS_WEB_IDENTITY_TOKEN_FILE and \
         AWS_CONTAINER_CREDENTIALS_FULL_URI is set, and the instance's metadata gives none \
         ({0}); give the operator's ServiceAccount an IAM role"
    )]
    Nowhere(String),
    /// There was no answer.
    #[error("{from} does not answer: {reason}; it is asked again")]
    Silent { from: String, reason: String },
    /// It said no.
    #[error("{from} gives us no AWS keys; it answered {status}: {said}")]
    Refused {
        from: String,
        status: u16,
        said: String,
    },
}

impl KeysProblem {
    /// What it means to the caller.
    pub(crate) fn class(&self) -> Class {
        match self {
            Self::Silent { .. } => Class::Transient,
            Self::Refused { status: 429, .. } => Class::Throttled,
            Self::Refused { status: 500.., .. } => Class::Transient,
            Self::Environment(_) | Self::Nowhere(_) | Self::Refused { .. } => Class::Denied,
        }
    }
}

/// Keys of this process, asked for at each login. `region` is the one whose STS is asked.
pub(crate) fn source(region: Option<String>) -> Source<AwsKeys> {
    Source::new(move || {
        let origin = Origin::find(&|name| std::env::var(name).ok(), region.as_deref());
        async move {
            let keys = async { origin?.keys().await };
            let keys = keys.await;
            keys.map_err(|problem| SourceError::new(Problem::from(problem)))
        }
    })
}

/// Whether `text` can be the name of a region; it becomes a part of a host's name.
pub(crate) fn is_region(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(fits)
}

/// Where keys come from.
#[derive(Debug)]
enum Origin {
    Given(AwsKeys),
    WebIdentity {
        sts: Url,
        role: String,
        session: String,
        token_file: String,
    },
    Container {
        url: Url,
        authorization: Authorization,
    },
    Instance {
        metadata: Url,
    },
}

/// What a container shows to get its keys.
#[derive(Debug)]
enum Authorization {
    None,
    Given(Secret),
    File(String),
}

impl Origin {
    /// `env` looks up a variable; an empty one counts as unset.
    fn find(
        env: &dyn Fn(&str) -> Option<String>,
        region: Option<&str>,
    ) -> Result<Self, KeysProblem> {
        let env = |name: &str| env(name).filter(|value| !value.trim().is_empty());
        if let Some(access_key_id) = env("AWS_ACCESS_KEY_ID") {
            let secret = env("AWS_SECRET_ACCESS_KEY");
            return Ok(Self::Given(AwsKeys {
                access_key_id,
                secret_access_key: with(secret, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")?
                    .into(),
                session_token: env("AWS_SESSION_TOKEN").map(Secret::new),
            }));
        }
        if let Some(token_file) = env("AWS_WEB_IDENTITY_TOKEN_FILE") {
            let role = env("AWS_ROLE_ARN");
            return Ok(Self::WebIdentity {
                sts: sts(&env, region)?,
                role: with(role, "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN")?,
                session: env("AWS_ROLE_SESSION_NAME").unwrap_or_else(|| SESSION.to_owned()),
                token_file,
            });
        }
        let relative = env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
        let relative = relative.map(|path| format!("{CONTAINER}{path}"));
        if let Some(url) = relative.or_else(|| env("AWS_CONTAINER_CREDENTIALS_FULL_URI")) {
            let file = env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").map(Authorization::File);
            let token = || env("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(Secret::new);
            return Ok(Self::Container {
                url: near(&url)?,
                authorization: file
                    .or_else(|| token().map(Authorization::Given))
                    .unwrap_or(Authorization::None),
            });
        }
        if env("AWS_EC2_METADATA_DISABLED").is_some_and(|off| off.eq_ignore_ascii_case("true")) {
            let off = "it is switched off by AWS_EC2_METADATA_DISABLED";
            return Err(KeysProblem::Nowhere(off.to_owned()));
        }
        let metadata = env("AWS_EC2_METADATA_SERVICE_ENDPOINT");
        let metadata = metadata.unwrap_or_else(|| INSTANCE.to_owned());
        Ok(Self::Instance {
            metadata: url(&metadata)?,
        })
    }

    async fn keys(self) -> Result<AwsKeys, KeysProblem> {
        match self {
            Self::Given(keys) => Ok(keys),
            Self::WebIdentity {
                sts,
                role,
                session,
                token_file,
            } => ask::sts(&sts, &role, &session, &token_file).await,
            Self::Container { url, authorization } => ask::container(url, authorization).await,
            Self::Instance { metadata } => ask::instance(&metadata).await,
        }
    }
}

/// What must be set beside `first`.
fn with(value: Option<String>, first: &str, second: &str) -> Result<String, KeysProblem> {
    value.ok_or_else(|| environment(format!("{first} is set, so set {second}, too")))
}

fn environment(wrong: String) -> KeysProblem {
    KeysProblem::Environment(wrong)
}

fn url(text: &str) -> Result<Url, KeysProblem> {
    let url = Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"));
    url.ok_or_else(|| environment(format!("{text:?} is no address")))
}

/// The STS of this process; Vault may know another one.
fn sts(env: &dyn Fn(&str) -> Option<String>, region: Option<&str>) -> Result<Url, KeysProblem> {
    if let Some(endpoint) = env("AWS_ENDPOINT_URL_STS").or_else(|| env("AWS_ENDPOINT_URL")) {
        return url(&endpoint);
    }
    let region = region.map(str::to_owned);
    let region = region.or_else(|| env("AWS_REGION").or_else(|| env("AWS_DEFAULT_REGION")));
    match region {
        None => url("https://sts.amazonaws.com/"),
        Some(region) if !is_region(&region) => {
            Err(environment(format!("{region:?} is no region of AWS")))
        }
        Some(region) if region.starts_with("cn-") => {
            url(&format!("https://sts.{region}.amazonaws.com.cn/"))
        }
        Some(region) => url(&format!("https://sts.{region}.amazonaws.com/")),
    }
}

/// An address that may be given a container's token: next door, or over TLS.
fn near(text: &str) -> Result<Url, KeysProblem> {
    let url = url(text)?;
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = host.parse().is_ok_and(|host: IpAddr| host.is_loopback());
    if url.scheme() == "https" || is_loopback || host == "localhost" || NEXT_DOOR.contains(&host) {
        return Ok(url);
    }
    let wrong = format!("{host} would give keys in plain text over a network; use https");
    Err(environment(wrong))
}

#[cfg(test)]
mod tests;
