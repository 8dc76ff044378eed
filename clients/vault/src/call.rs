//! One request, and what its answer means.

use kernel::redact;
use reqwest::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Error;
use crate::mount::path;
use crate::transport::Answer;

/// Vault's messages can be long; an error keeps this much of them.
const LONGEST_MESSAGE: usize = 2048;

/// A request to be made: what a caller asks, without who asks it. It has no `Debug`: bodies hold
/// secrets.
pub(crate) struct Call {
    /// Names the call in metrics.
    pub(crate) operation: &'static str,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Option<Value>,
    /// Texts that must not come back in a message.
    pub(crate) secrets: Vec<String>,
}

impl Call {
    fn new(operation: &'static str, method: Method, parts: &[&str]) -> Result<Self, Error> {
        Ok(Self {
            operation,
            method,
            path: path(parts)?,
            body: None,
            secrets: Vec::new(),
        })
    }

    pub(crate) fn get(operation: &'static str, parts: &[&str]) -> Result<Self, Error> {
        Self::new(operation, Method::GET, parts)
    }

    pub(crate) fn list(operation: &'static str, parts: &[&str]) -> Result<Self, Error> {
        let list = Method::from_bytes(b"LIST").expect("LIST is a token of HTTP");
        Self::new(operation, list, parts)
    }

    pub(crate) fn put(operation: &'static str, parts: &[&str]) -> Result<Self, Error> {
        Self::new(operation, Method::PUT, parts)
    }

    pub(crate) fn post(operation: &'static str, parts: &[&str]) -> Result<Self, Error> {
        Self::new(operation, Method::POST, parts)
    }

    pub(crate) fn patch(operation: &'static str, parts: &[&str]) -> Result<Self, Error> {
        Self::new(operation, Method::PATCH, parts)
    }

    pub(crate) fn delete(operation: &'static str, parts: &[&str]) -> Result<Self, Error> {
        Self::new(operation, Method::DELETE, parts)
    }

    pub(crate) fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// Keeps `secrets` out of messages.
    pub(crate) fn hiding(mut self, secrets: impl IntoIterator<Item = String>) -> Self {
        self.secrets.extend(secrets);
        self
    }

    /// Whether it changes what Vault holds.
    pub(crate) fn writes(&self) -> bool {
        self.method != Method::GET && self.method.as_str() != "LIST"
    }

    /// How errors name it.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// The answer if it is one; else what is wrong. The only place where a status means anything.
    pub(crate) fn judged(
        &self,
        answer: Answer,
        address: &str,
        token: &str,
    ) -> Result<Answer, Error> {
        let status = answer.status;
        if (200..300).contains(&status) {
            return Ok(answer);
        }
        let call = self.name();
        let message = self.message(&answer, token);
        Err(match status {
            400 if message.contains("check-and-set") => Error::CheckAndSet { call, message },
            400 if message.contains("path is already in use") => {
                Error::AlreadyExists { call, message }
            }
            403 => Error::Denied { call, message },
            404 => Error::NotFound { call, message },
            412 => Error::Stale { call, message },
            429 => Error::Throttled {
                call,
                retry_after: answer.retry_after,
            },
            503 if message.contains("Vault is sealed") => Error::Sealed {
                address: address.to_owned(),
            },
            // A server that was never initialised says so with either.
            400 | 503 if message.contains("not initialized") => Error::Uninitialised {
                address: address.to_owned(),
            },
            500.. => Error::Failed {
                call,
                status,
                message,
            },
            _ => Error::Invalid { call, message },
        })
    }

    /// Vault's words without our secrets.
    fn message(&self, answer: &Answer, token: &str) -> String {
        let told = serde_json::from_slice::<Told>(&answer.body);
        let text = match told {
            Ok(told) => {
                let errors = told.errors.unwrap_or_default();
                errors.iter().map(|one| tidy(one)).collect::<Vec<_>>()
            }
            Err(_) if answer.body.is_empty() => vec![format!("status {}", answer.status)],
            // Not Vault's: a load balancer, perhaps. Its pages are long and say little.
            Err(_) => vec![format!(
                "status {}, and no JSON: not Vault itself answered",
                answer.status
            )],
        };
        let mut secrets: Vec<&str> = self.secrets.iter().map(String::as_str).collect();
        secrets.push(token);
        kernel::cap(&redact(&text.join("; "), &secrets), LONGEST_MESSAGE)
    }
}

/// The errors of an answer.
#[derive(Deserialize)]
struct Told {
    errors: Option<Vec<String>>,
}

/// Vault lists several errors as `2 errors occurred:\n\t* one\n\t* two\n\n`; here: `one; two`.
fn tidy(error: &str) -> String {
    if !error.contains("\n\t* ") {
        return error.trim().to_owned();
    }
    let parts: Vec<&str> = error.split("\n\t* ").skip(1).map(str::trim).collect();
    parts.join("; ")
}

/// What Vault said to a write that it took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Its warnings, such as fields it does not know.
    pub warnings: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Warned {
    warnings: Option<Vec<String>>,
}

impl Answer {
    /// What is under `data`.
    pub(crate) fn data<T: DeserializeOwned>(&self, call: &str) -> Result<T, Error> {
        #[derive(Deserialize)]
        struct Enveloped<T> {
            data: T,
        }
        Ok(self.parsed::<Enveloped<T>>(call)?.data)
    }

    /// The whole body.
    pub(crate) fn parsed<T: DeserializeOwned>(&self, call: &str) -> Result<T, Error> {
        // serde's words may quote the body, which may be a secret: line and column will do.
        serde_json::from_slice(&self.body).map_err(|error| Error::Failed {
            call: call.to_owned(),
            status: self.status,
            message: format!(
                "the answer does not read as Vault's (line {}, column {})",
                error.line(),
                error.column()
            ),
        })
    }

    pub(crate) fn written(&self) -> Written {
        let warned: Warned = serde_json::from_slice(&self.body).unwrap_or_default();
        Written {
            warnings: warned.warnings.unwrap_or_default(),
        }
    }
}

/// The answer to a read, or `None` if the thing does not exist. A missing mount stays an error:
/// it has words, and a missing thing has none.
pub(crate) fn present(answer: Result<Answer, Error>) -> Result<Option<Answer>, Error> {
    match answer {
        Err(Error::NotFound { message, .. }) if message.is_empty() => Ok(None),
        answer => answer.map(Some),
    }
}

/// Success of a deletion: gone is gone, whoever did it.
pub(crate) fn gone(answer: Result<Answer, Error>) -> Result<(), Error> {
    match answer {
        Err(Error::NotFound { .. }) => Ok(()),
        answer => answer.map(drop),
    }
}

/// The keys of a list; none if there is nothing to list.
pub(crate) fn keys(call: &str, answer: Result<Answer, Error>) -> Result<Vec<String>, Error> {
    #[derive(Deserialize)]
    struct Keys {
        keys: Vec<String>,
    }
    match present(answer)? {
        Some(answer) => Ok(answer.data::<Keys>(call)?.keys),
        None => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kernel::Class;
    use rstest::rstest;

    use super::*;

    fn judged(status: u16, body: &str) -> Error {
        let call = Call::get("policy_read", &["sys/policies/acl", "x"])
            .unwrap()
            .hiding(["s3cr3t-value".to_owned()]);
        let answer = Answer {
            status,
            retry_after: Some(Duration::from_secs(7)),
            body: body.as_bytes().to_vec(),
        };
        call.judged(answer, "http://vault", "hvs.token")
            .map(|answer| answer.status)
            .unwrap_err()
    }

    #[rstest] //                 status body                                            class
    #[case::lost_cas(
        400,
        r#"{"errors":["check-and-set parameter did not match"]}"#,
        Class::Conflict
    )]
    #[case::wrong(400, r#"{"errors":["bad"]}"#, Class::Invalid)]
    #[case::denied(403, r#"{"errors":["permission denied"]}"#, Class::Denied)]
    #[case::missing(404, r#"{"errors":[]}"#, Class::NotFound)]
    #[case::method(405, r#"{"errors":["unsupported operation"]}"#, Class::Invalid)]
    #[case::behind(412, r#"{"errors":[]}"#, Class::Stale)]
    #[case::too_many(429, "", Class::Throttled)]
    #[case::broken(500, r#"{"errors":["internal error"]}"#, Class::Transient)]
    #[case::gateway(502, "<html>", Class::Transient)]
    #[case::gateway_503(503, "<html>", Class::Transient)]
    #[case::sealed(503, r#"{"errors":["Vault is sealed"]}"#, Class::Sealed)]
    fn a_status_has_one_class(#[case] status: u16, #[case] body: &str, #[case] class: Class) {
        let error = judged(status, body);
        assert_eq!(error.class(), class);
        let is_server_error = class == Class::Transient;
        assert_eq!(error.may_have_happened(), is_server_error, "{error}");
    }

    #[test]
    fn a_message_keeps_vaults_words_and_none_of_our_secrets() {
        let body =
            r#"{"errors":["2 errors occurred:\n\t* no s3cr3t-value\n\t* bad hvs.token\n\n"]}"#;
        assert_eq!(
            judged(400, body).to_string(),
            "GET sys/policies/acl/x: Vault refuses this: no ***; bad ***"
        );
    }

    #[test]
    fn throttling_says_when_to_ask_again() {
        assert_eq!(judged(429, "").retry_after(), Some(Duration::from_secs(7)));
    }

    #[test]
    fn an_unreadable_answer_is_not_quoted() {
        let answer = Answer {
            status: 200,
            retry_after: None,
            body: br#"{"data": "hush-hush"}"#.to_vec(),
        };
        let error = answer.data::<u32>("GET x").unwrap_err().to_string();
        assert!(!error.contains("hush"), "{error}");
    }

    #[test]
    fn a_missing_thing_is_none_and_a_missing_mount_an_error() {
        let missing = |body| Err(judged(404, body));
        assert!(present(missing(r#"{"errors":[]}"#)).unwrap().is_none());
        assert!(present(missing(r#"{"errors":["no handler for route"]}"#)).is_err());
        assert!(gone(missing(r#"{"errors":["no handler for route"]}"#)).is_ok());
    }
}
