//! One request, and the classification of its answer.

use kernel::redact;
use reqwest::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Error;
use crate::mount::path;
use crate::transport::Answer;

/// Vault's messages can be long; an error keeps at most this many bytes.
const LONGEST_MESSAGE: usize = 2048;

/// A request without the credentials of its caller. It has no `Debug`, because bodies contain
/// secrets.
pub(crate) struct Call {
    /// Names the call in metrics.
    pub(crate) operation: &'static str,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Option<Value>,
    /// Texts that must not appear in an error message.
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

    /// Redacts `secrets` in error messages.
    pub(crate) fn hiding(mut self, secrets: impl IntoIterator<Item = String>) -> Self {
        self.secrets.extend(secrets);
        self
    }

    /// Whether it changes anything in Vault.
    pub(crate) fn writes(&self) -> bool {
        self.method != Method::GET && self.method.as_str() != "LIST"
    }

    /// Its name in errors.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// The answer if its status is a success, else the error. Only this function interprets a status.
    pub(crate) fn classified(
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
            // A server that was never initialised answers with either.
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

    /// Vault's message without our secrets.
    fn message(&self, answer: &Answer, token: &str) -> String {
        let body = serde_json::from_slice::<ErrorBody>(&answer.body);
        let text = match body {
            Ok(body) => {
                let errors = body.errors.unwrap_or_default();
                errors.iter().map(|one| tidy(one)).collect::<Vec<_>>()
            }
            Err(_) if answer.body.is_empty() => vec![format!("status {}", answer.status)],
            // Not from Vault, perhaps from a load balancer: its page is long and of little use.
            Err(_) => vec![format!(
                "status {} without JSON: the answer is not from Vault",
                answer.status
            )],
        };
        let mut secrets: Vec<&str> = self.secrets.iter().map(String::as_str).collect();
        secrets.push(token);
        kernel::cap(&redact(&text.join("; "), &secrets), LONGEST_MESSAGE)
    }
}

/// The body of an error response.
#[derive(Deserialize)]
struct ErrorBody {
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

/// The result of a successful write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Vault's warnings, for example about unknown fields.
    pub warnings: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Warned {
    warnings: Option<Vec<String>>,
}

impl Answer {
    /// The value of the field `data`.
    pub(crate) fn payload<T: DeserializeOwned>(&self, call: &str) -> Result<T, Error> {
        #[derive(Deserialize)]
        struct Enveloped<T> {
            data: T,
        }
        Ok(self.parsed::<Enveloped<T>>(call)?.data)
    }

    /// The whole body.
    pub(crate) fn parsed<T: DeserializeOwned>(&self, call: &str) -> Result<T, Error> {
        // serde's message may quote the body, which may be a secret: give line and column only.
        serde_json::from_slice(&self.body).map_err(|error| Error::Failed {
            call: call.to_owned(),
            status: self.status,
            message: format!(
                "the answer cannot be parsed (line {}, column {})",
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

/// The answer to a read, or `None` if the object does not exist. A missing mount stays an error:
/// Vault gives it a message, which a missing object does not have.
pub(crate) fn present(answer: Result<Answer, Error>) -> Result<Option<Answer>, Error> {
    match answer {
        Err(Error::NotFound { message, .. }) if message.is_empty() => Ok(None),
        answer => answer.map(Some),
    }
}

/// The result of a deletion; an object that is already gone is a success.
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
        Some(answer) => Ok(answer.payload::<Keys>(call)?.keys),
        None => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kernel::Class;
    use rstest::rstest;

    use super::*;

    fn classified(status: u16, body: &str) -> Error {
        let call = Call::get("policy_read", &["sys/policies/acl", "x"])
            .unwrap()
            .hiding(["s3cr3t-value".to_owned()]);
        let answer = Answer {
            status,
            retry_after: Some(Duration::from_secs(7)),
            body: body.as_bytes().to_vec(),
        };
        call.classified(answer, "http://vault", "hvs.token")
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
        let error = classified(status, body);
        assert_eq!(error.class(), class);
        let is_server_error = class == Class::Transient;
        assert_eq!(error.may_have_happened(), is_server_error, "{error}");
    }

    #[test]
    fn an_error_has_vaults_message_without_our_secrets() {
        let body =
            r#"{"errors":["2 errors occurred:\n\t* no s3cr3t-value\n\t* bad hvs.token\n\n"]}"#;
        assert_eq!(
            classified(400, body).to_string(),
            "GET sys/policies/acl/x: Vault refuses this: no ***; bad ***"
        );
    }

    #[test]
    fn throttling_says_when_to_retry() {
        assert_eq!(
            classified(429, "").retry_after(),
            Some(Duration::from_secs(7))
        );
    }

    #[test]
    fn an_unreadable_answer_is_not_quoted() {
        let answer = Answer {
            status: 200,
            retry_after: None,
            body: br#"{"data": "hush-hush"}"#.to_vec(),
        };
        let error = answer.payload::<u32>("GET x").unwrap_err().to_string();
        assert!(!error.contains("hush"), "{error}");
    }

    #[test]
    fn a_missing_object_is_none_and_a_missing_mount_an_error() {
        let missing = |body| Err(classified(404, body));
        assert!(present(missing(r#"{"errors":[]}"#)).unwrap().is_none());
        assert!(present(missing(r#"{"errors":["no handler for route"]}"#)).is_err());
        assert!(gone(missing(r#"{"errors":["no handler for route"]}"#)).is_ok());
    }
}
