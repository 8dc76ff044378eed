//! The questions to those who give keys, and their answers.

use std::fmt::Write as _;
use std::time::Duration;

use kernel::{cap, redact, tcp};
use reqwest::{RequestBuilder, Url, redirect};
use serde::Deserialize;
use vault_client::{AwsKeys, Secret};

use super::{Authorization, KeysProblem, environment};

/// STS gives no keys a shorter life; ours are used once, at once.
const LIFE_SECONDS: &str = "900";
/// What is next door answers at once or not at all; three questions must fit into one login.
const NEARBY: Duration = Duration::from_secs(2);
const STS_TIMEOUT: Duration = Duration::from_secs(8);
/// Keys take two kilobytes.
const LARGEST_ANSWER: usize = 64 << 10;
/// More of a complaint helps nobody.
const TOLD: usize = 512;
const NOT_UNDERSTOOD: &str = "something that we do not understand";

/// Changes the JWT of a ServiceAccount for keys of `role`.
pub(super) async fn sts(
    sts: &Url,
    role: &str,
    session: &str,
    token_file: &str,
) -> Result<AwsKeys, KeysProblem> {
    let token = file(token_file).await?;
    let body = form(&[
        ("Action", "AssumeRoleWithWebIdentity"),
        ("Version", "2011-06-15"),
        ("DurationSeconds", LIFE_SECONDS),
        ("RoleArn", role),
        ("RoleSessionName", session),
        ("WebIdentityToken", token.expose()),
    ]);
    let name = format!("STS at {}, asked for {role},", host(sts));
    let asked = Asked::new(name, STS_TIMEOUT)?;
    let request = asked.http.post(sts.clone()).body(body);
    let request = request.header("Content-Type", "application/x-www-form-urlencoded");
    let answer = asked.answer(request).await?;
    if answer.status == 200
        && let Some(keys) = assumed(&answer.body)
    {
        return Ok(keys);
    }
    let said = complaint(&answer.body).unwrap_or_else(|| NOT_UNDERSTOOD.to_owned());
    Err(asked.refused(answer.status, &redact(&said, &[token.expose()])))
}

/// What the node keeps for this container.
pub(super) async fn container(
    url: Url,
    authorization: Authorization,
) -> Result<AwsKeys, KeysProblem> {
    let token = match authorization {
        Authorization::None => None,
        Authorization::Given(token) => Some(token),
        Authorization::File(path) => Some(file(&path).await?),
    };
    // Not the path: on ECS, knowing it is enough to get the keys.
    let asked = Asked::new(format!("{}, which has our keys,", host(&url)), NEARBY)?;
    let mut request = asked.http.get(url);
    if let Some(token) = token {
        request = request.header("Authorization", token.expose());
    }
    asked.document(request).await
}

/// What the instance has for everything on it.
pub(super) async fn instance(metadata: &Url) -> Result<AwsKeys, KeysProblem> {
    let asked = Asked::new("the instance's metadata".to_owned(), NEARBY)?;
    let keys = async {
        let base = metadata.as_str().trim_end_matches('/');
        let token = asked
            .http
            .put(format!("{base}/latest/api/token"))
            .header("X-aws-ec2-metadata-token-ttl-seconds", "60");
        let token = Secret::new(asked.good(token).await?);
        let get = |path: &str| {
            let url = format!("{base}/latest/meta-data/iam/security-credentials/{path}");
            let request = asked.http.get(url);
            request.header("X-aws-ec2-metadata-token", token.expose())
        };
        let roles = asked.good(get("")).await?;
        let role = roles.lines().next().unwrap_or_default();
        asked.document(get(role.trim())).await
    };
    let keys: Result<_, KeysProblem> = keys.await;
    keys.map_err(|problem| KeysProblem::Nowhere(problem.to_string()))
}

fn host(url: &Url) -> &str {
    url.host_str().unwrap_or_default()
}

async fn file(path: &str) -> Result<Secret, KeysProblem> {
    let text = tokio::fs::read_to_string(path).await;
    let text = text.map_err(|error| environment(format!("{path} cannot be read: {error}")))?;
    Ok(Secret::new(text.trim().to_owned()))
}

/// Somebody who gives keys.
struct Asked {
    name: String,
    http: reqwest::Client,
}

struct Answer {
    status: u16,
    body: String,
}

impl Asked {
    fn new(name: String, timeout: Duration) -> Result<Self, KeysProblem> {
        // Neither a proxy nor whoever a redirect names is to see what goes to and fro.
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .timeout(timeout)
            .tcp_keepalive(tcp::KEEPALIVE)
            .tcp_keepalive_interval(tcp::KEEPALIVE_INTERVAL)
            .tcp_keepalive_retries(tcp::KEEPALIVE_RETRIES);
        #[cfg(target_os = "linux")]
        let http = http.tcp_user_timeout(tcp::user_timeout(&[])); // no call writes
        match http.build() {
            Ok(http) => Ok(Self { name, http }),
            Err(error) => Err(environment(format!("TLS cannot be had: {}", chain(&error)))),
        }
    }

    async fn answer(&self, request: RequestBuilder) -> Result<Answer, KeysProblem> {
        let silent = |error: reqwest::Error| self.silent(chain(&error.without_url()));
        let mut sent = request.send().await.map_err(silent)?;
        let mut body = Vec::new();
        while let Some(chunk) = sent.chunk().await.map_err(silent)? {
            if body.len() + chunk.len() > LARGEST_ANSWER {
                return Err(self.refused(sent.status().as_u16(), "far too much"));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer {
            status: sent.status().as_u16(),
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }

    /// The body of an answer that is none but 200.
    async fn good(&self, request: RequestBuilder) -> Result<String, KeysProblem> {
        let Answer { status, body } = self.answer(request).await?;
        match status {
            200 => Ok(body),
            _ => Err(self.refused(status, "no keys are there for us")),
        }
    }

    /// Keys in the form that containers and instances get.
    async fn document(&self, request: RequestBuilder) -> Result<AwsKeys, KeysProblem> {
        let body = self.good(request).await?;
        // serde's words may quote the keys, so they are not passed on.
        let document: Document =
            serde_json::from_str(&body).map_err(|_| self.refused(200, NOT_UNDERSTOOD))?;
        Ok(AwsKeys {
            access_key_id: document.access_key_id,
            secret_access_key: document.secret_access_key,
            session_token: document.token,
        })
    }

    fn silent(&self, reason: String) -> KeysProblem {
        KeysProblem::Silent {
            from: self.name.clone(),
            reason,
        }
    }

    fn refused(&self, status: u16, said: &str) -> KeysProblem {
        KeysProblem::Refused {
            from: self.name.clone(),
            status,
            said: cap(said, TOLD),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    access_key_id: String,
    secret_access_key: Secret,
    token: Option<Secret>,
}

/// The keys in an answer of STS.
fn assumed(xml: &str) -> Option<AwsKeys> {
    let document = roxmltree::Document::parse(xml).ok()?;
    let mut nodes = document.descendants();
    let keys = nodes.find(|node| node.tag_name().name() == "Credentials")?;
    let text = |name: &str| {
        let mut parts = keys.children();
        let part = parts.find(|part| part.tag_name().name() == name)?;
        part.text().map(str::to_owned)
    };
    Some(AwsKeys {
        access_key_id: text("AccessKeyId")?,
        secret_access_key: Secret::new(text("SecretAccessKey")?),
        session_token: Some(Secret::new(text("SessionToken")?)),
    })
}

/// What STS says is wrong.
fn complaint(xml: &str) -> Option<String> {
    let document = roxmltree::Document::parse(xml).ok()?;
    let text = |name: &str| {
        let mut nodes = document.descendants();
        nodes.find(|node| node.tag_name().name() == name)?.text()
    };
    Some(format!("{} {}", text("Code")?, text("Message")?))
}

/// A form's body. Every byte is escaped that could mean something else than itself.
fn form(fields: &[(&str, &str)]) -> String {
    let mut body = String::new();
    for (name, value) in fields {
        let joint = if body.is_empty() { "" } else { "&" };
        write!(body, "{joint}{name}=").expect("writing to a string cannot fail");
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                body.push(char::from(byte));
            } else {
                write!(body, "%{byte:02X}").expect("writing to a string cannot fail");
            }
        }
    }
    body
}

/// An error with its causes: the outermost alone says little.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
