//! The emulator's service `probe`, over HTTP.

use std::collections::BTreeSet;
use std::time::Duration;

use engine::Classified;
use kernel::{CallError, Class, Deposed, Guard, GuardedBody, redact, tcp, write_timeout};
use serde::Deserialize;
use serde_json::{Value, json};

/// Calls that hang longer are given up.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// A thing outside.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Thing {
    pub(crate) name: String,
    pub(crate) value: String,
    #[serde(default)]
    pub(crate) marker: Option<String>,
}

/// Why the outside did not do what was asked. Text is redacted before it gets here.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{what}: the outside cannot be reached: {message}; tried again with back-off")]
    Unreachable { what: String, message: String },
    #[error("{what}: the outside answered {status} {code}: {message}")]
    Answer {
        what: String,
        status: u16,
        code: String,
        message: String,
    },
    #[error("{what}: {source}")]
    Deposed { what: String, source: Deposed },
}

impl Classified for Error {
    fn class(&self) -> Class {
        match self {
            Self::Unreachable { .. } => Class::Unreachable,
            Self::Deposed { .. } => Class::Deposed,
            Self::Answer { code, .. } if code == "ResourceNotFoundException" => Class::NotFound,
            Self::Answer { code, .. } if code.contains("Throttling") => Class::Throttled,
            Self::Answer { status: 403, .. } => Class::Denied,
            Self::Answer { status: 500.., .. } => Class::Transient,
            Self::Answer { .. } => Class::Invalid,
        }
    }
}

impl From<Error> for CallError {
    fn from(error: Error) -> Self {
        Self::of_class(error.class(), error.to_string())
    }
}

/// A client that writes only while its guards hold.
#[derive(Debug, Clone)]
pub(crate) struct Outside {
    url: String,
    guards: Vec<Guard>,
    http: reqwest::Client,
}

impl Outside {
    pub(crate) fn new(url: String, guards: Vec<Guard>) -> Self {
        let http = reqwest::Client::builder()
            .tcp_keepalive(tcp::KEEPALIVE)
            .tcp_keepalive_interval(tcp::KEEPALIVE_INTERVAL)
            .tcp_keepalive_retries(tcp::KEEPALIVE_RETRIES);
        #[cfg(target_os = "linux")]
        let http = http.tcp_user_timeout(tcp::user_timeout(&guards));
        let http = http.build();
        Self {
            url,
            guards,
            http: http.expect("the TLS provider is installed first thing in main"),
        }
    }

    pub(crate) async fn find(&self, name: &str) -> Result<Option<Thing>, Error> {
        match self.call("Get", name, &json!({"name": name}), &[]).await {
            Ok(answer) => Ok(serde_json::from_value(answer).ok()),
            Err(error) if error.class() == Class::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The names of all things there.
    pub(crate) async fn names(&self) -> Result<BTreeSet<String>, Error> {
        let answer = self.call("List", "things", &json!({}), &[]).await?;
        let things = answer["things"].as_array().into_iter().flatten();
        Ok(things
            .filter_map(|thing| Some(thing["name"].as_str()?.to_owned()))
            .collect())
    }

    pub(crate) async fn put(&self, thing: &Thing) -> Result<(), Error> {
        self.may_write("Put", &thing.name)?;
        let body = json!({"name": thing.name, "value": thing.value, "marker": thing.marker});
        self.call("Put", &thing.name, &body, &[&thing.value])
            .await
            .map(drop)
    }

    pub(crate) async fn delete(&self, name: &str, marker: &str) -> Result<(), Error> {
        self.may_write("Delete", name)?;
        let gone = self
            .call(
                "Delete",
                name,
                &json!({"name": name, "marker": marker}),
                &[],
            )
            .await;
        match gone {
            Err(error) if error.class() == Class::NotFound => Ok(()),
            other => other.map(drop),
        }
    }

    fn may_write(&self, operation: &str, name: &str) -> Result<(), Error> {
        let held = self.guards.iter().try_for_each(Guard::check);
        held.map_err(|source| Error::Deposed {
            what: format!("{operation} {name}"),
            source,
        })
    }

    async fn call(
        &self,
        operation: &str,
        name: &str,
        body: &Value,
        secrets: &[&str],
    ) -> Result<Value, Error> {
        let what = format!("{operation} {name}");
        let lost = |error: reqwest::Error| match GuardedBody::refused(&error) {
            Some(source) => Error::Deposed {
                what: what.clone(),
                source,
            },
            None => Error::Unreachable {
                what: what.clone(),
                message: redact(&error.to_string(), secrets),
            },
        };
        let guards = match operation {
            "Get" | "List" => Vec::new(),
            _ => self.guards.clone(),
        };
        let response = self
            .http
            .post(&self.url)
            .timeout(write_timeout(CALL_TIMEOUT, &guards))
            .header("x-amz-target", format!("Probe.{operation}"))
            .header("x-amz-date", "20260101T000000Z")
            .header("content-type", "application/x-amz-json-1.1")
            .header(
                "authorization",
                "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/probe/aws4_request, SignedHeaders=host, Signature=00",
            )
            .body(reqwest::Body::wrap(GuardedBody::new(body.to_string(), guards)))
            .send()
            .await
            .map_err(lost)?;
        let status = response.status();
        let text = response.text().await.map_err(lost)?;
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        if status.is_success() {
            return Ok(answer);
        }
        let code = answer["__type"].as_str().unwrap_or("Unknown");
        let message = answer["message"].as_str().unwrap_or(&text);
        Err(Error::Answer {
            what,
            status: status.as_u16(),
            code: code.rsplit('#').next().unwrap_or(code).to_owned(),
            message: redact(message, secrets),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::{Clock as _, RealClock, TestClock};
    use std::net::TcpListener;
    use std::sync::Arc;

    #[tokio::test]
    async fn a_write_ends_before_another_leader_may_write() {
        rustls::crypto::aws_lc_rs::default_provider()
            .install_default()
            .ok();
        // It takes connections into its backlog, and answers nobody.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        // Its clock stands still: it is nearly over, and stays so.
        let guard = Guard::new(Arc::new(TestClock::new())).with_margin(Duration::from_millis(100));
        guard.allow_until(Duration::from_millis(100));
        let outside = Outside::new(url, vec![guard]);
        let real = RealClock::new();
        let error = outside.delete("thing", "marker").await.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        assert!(real.elapsed() < CALL_TIMEOUT / 2, "{error}");
    }
}
