//! One call, and the classification of its error.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use aws_types::request_id::RequestId;
use kernel::{GuardedBody, cap, redact};

use crate::{Error, Keys, Operation, Refusal};

/// AWS's messages can be long; an error keeps at most this many bytes.
const LONGEST_MESSAGE: usize = 2048;

/// An operation and the resource it is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) operation: Operation,
    pub(crate) resource: &'a str,
    /// Its region, if that is not the usual one of the service.
    pub(crate) region: Option<&'a str>,
    /// How long it may take, if that is shorter than the time-out of all calls.
    pub(crate) timeout: Option<Duration>,
    /// Whether it only checks permissions, so that no guard applies.
    pub(crate) is_dry_run: bool,
}

impl<'a> Call<'a> {
    pub(crate) fn new(operation: Operation, resource: &'a str) -> Self {
        Self {
            operation,
            resource,
            region: None,
            timeout: None,
            is_dry_run: false,
        }
    }

    /// The same in this region.
    pub(crate) fn within(self, region: &'a str) -> Self {
        Self {
            region: Some(region),
            ..self
        }
    }

    /// The same, ended after this long.
    pub(crate) fn ended_after(self, timeout: Duration) -> Self {
        Self {
            timeout: Some(timeout),
            ..self
        }
    }

    /// The same as a dry run.
    pub(crate) fn dry_run(self) -> Self {
        Self {
            is_dry_run: true,
            ..self
        }
    }

    /// How long it may take, given the time-out of all calls.
    pub(crate) fn longest(&self, usual: Duration) -> Duration {
        self.timeout.map_or(usual, |own| own.min(usual))
    }

    /// Whether it may only be sent while the guards are open.
    pub(crate) fn is_guarded(&self) -> bool {
        self.operation.writes() && !self.is_dry_run
    }

    /// The error of a failed call, with the secrets of `keys` redacted.
    pub(crate) fn failed<E>(&self, error: &SdkError<E, HttpResponse>, keys: Option<&Keys>) -> Error
    where
        E: ProvideErrorMetadata + StdError + 'static,
    {
        if let Some(deposed) = GuardedBody::refused(error) {
            return deposed.into();
        }
        let operation = self.operation;
        let resource = self.resource.to_owned();
        match (error, error.raw_response()) {
            // AWS did what was requested, but we cannot parse the answer.
            (SdkError::ServiceError(_), Some(answer)) if answer.status().is_success() => {
                Error::Unreadable {
                    operation,
                    resource,
                    reason: tidied(&root(error), keys),
                }
            }
            (SdkError::ServiceError(_), Some(answer)) => {
                let response = ErrorResponse::read(error, answer);
                Error::Refused(Box::new(Refusal {
                    operation,
                    resource,
                    code: response.code,
                    message: tidied(&response.message, keys),
                    status: answer.status().as_u16(),
                    request_id: error.request_id().map(str::to_owned),
                }))
            }
            (SdkError::ConstructionFailure(_), _) => Error::Request {
                operation,
                resource,
                wrong: tidied(&root(error), keys),
            },
            (SdkError::DispatchFailure(failure), _) if failure.is_user() => Error::Request {
                operation,
                resource,
                wrong: tidied(&root(error), keys),
            },
            (SdkError::ResponseError(_), _) => Error::Unreadable {
                operation,
                resource,
                reason: tidied(&root(error), keys),
            },
            // Time-outs, broken connections, and variants that the SDK may add.
            _ => self.silent(tidied(&root(error), keys)),
        }
    }

    /// The request was sent, and no answer came.
    pub(crate) fn silent(&self, reason: String) -> Error {
        Error::NoAnswer {
            operation: self.operation,
            resource: self.resource.to_owned(),
            reason,
        }
    }

    /// The answer lacks a required field.
    pub(crate) fn lacks(&self, what: &str) -> Error {
        Error::Unreadable {
            operation: self.operation,
            resource: self.resource.to_owned(),
            reason: format!("it has no {what}"),
        }
    }

    /// The request cannot be built.
    pub(crate) fn wrong(&self, error: &impl fmt::Display) -> Error {
        Error::Request {
            operation: self.operation,
            resource: self.resource.to_owned(),
            wrong: error.to_string(),
        }
    }
}

/// Code and message of an error response.
#[derive(Debug, Default, PartialEq, Eq)]
struct ErrorResponse {
    code: String,
    message: String,
}

impl ErrorResponse {
    fn read<E: ProvideErrorMetadata>(
        error: &SdkError<E, HttpResponse>,
        answer: &HttpResponse,
    ) -> Self {
        match error.code() {
            Some(code) => Self {
                code: code.to_owned(),
                message: error.message().unwrap_or_default().to_owned(),
            },
            None => Self::of_body(answer.body().bytes().unwrap_or_default()),
        }
    }

    /// Route 53 also reports an error as `<InvalidChangeBatch><Messages><Message>…`, which the SDK
    /// does not know. Any other body without a code is not from AWS, for example a proxy's page.
    fn of_body(body: &[u8]) -> Self {
        let text = std::str::from_utf8(body).unwrap_or_default();
        let Ok(document) = roxmltree::Document::parse(text) else {
            return Self::default();
        };
        let root = document.root_element();
        let is_message = |node: &roxmltree::Node<'_, '_>| node.tag_name().name() == "Message";
        let messages: Vec<&str> = root
            .descendants()
            .filter(is_message)
            .filter_map(|node| node.text())
            .collect();
        if messages.is_empty() {
            return Self::default();
        }
        Self {
            code: root.tag_name().name().to_owned(),
            message: messages.join("; "),
        }
    }
}

fn tidied(message: &str, keys: Option<&Keys>) -> String {
    let secret = keys.map(|keys| keys.secret_access_key.expose().as_str());
    let token = keys.and_then(|keys| keys.session_token.as_ref());
    let token = token.map(|token| token.expose().as_str());
    let secrets: Vec<&str> = [secret, token].into_iter().flatten().collect();
    cap(&redact(message.trim(), &secrets), LONGEST_MESSAGE)
}

/// An error and all its sources, outermost first.
pub(crate) fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// The message of the innermost source.
fn root(error: &(dyn StdError + 'static)) -> String {
    let root = causes(error).last();
    root.map(ToString::to_string).unwrap_or_default()
}

/// The messages of an error and of all its sources, on one line.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut texts: Vec<String> = causes(error)
        .map(|one| one_line(&one.to_string()))
        .collect();
    texts.dedup();
    texts.join(": ")
}

/// The lines of a text joined with `; `, or with a space after a colon.
fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.join("; ").replace(":; ", ": ")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none_of_its_own(None, 30)]
    #[case::a_shorter_one(Some(5), 5)]
    #[case::a_longer_one(Some(60), 30)]
    fn a_call_ends_after_the_shorter_time_out(#[case] own: Option<u64>, #[case] seconds: u64) {
        let mut call = Call::new(Operation::GetChange, "C1");
        if let Some(own) = own {
            call = call.ended_after(Duration::from_secs(own));
        }
        let longest = call.longest(Duration::from_secs(30));
        assert_eq!(longest, Duration::from_secs(seconds));
    }

    #[test]
    fn only_writes_that_are_no_dry_runs_are_guarded() {
        let write = Call::new(Operation::CreateTags, "vol-1");
        assert!(write.is_guarded());
        assert!(!write.dry_run().is_guarded());
        assert!(!Call::new(Operation::DescribeVolumes, "").is_guarded());
    }

    #[test]
    fn the_error_format_of_a_change_batch_is_read() {
        let body = br#"<?xml version="1.0"?>
            <InvalidChangeBatch xmlns="https://route53.amazonaws.com/doc/2013-04-01/">
              <Messages><Message>Tried to delete x but it was not found</Message>
              <Message>RRSet with DNS name y. is not permitted</Message></Messages>
              <RequestId>1</RequestId>
            </InvalidChangeBatch>"#;
        let response = ErrorResponse {
            code: "InvalidChangeBatch".to_owned(),
            message: "Tried to delete x but it was not found; \
                      RRSet with DNS name y. is not permitted"
                .to_owned(),
        };
        assert_eq!(ErrorResponse::of_body(body), response);
    }

    #[test]
    fn a_page_that_is_not_from_aws_has_no_code() {
        for body in ["", "<html><body>Bad Gateway</body></html>", "no XML", "{}"] {
            assert_eq!(
                ErrorResponse::of_body(body.as_bytes()),
                ErrorResponse::default()
            );
        }
    }

    #[test]
    fn a_list_of_causes_is_one_line() {
        let text = "none found. Attempted:\n  Environment: not set\n  Profile: not enabled";
        let one = "none found. Attempted: Environment: not set; Profile: not enabled";
        assert_eq!(chain(&std::io::Error::other(text)), one);
    }

    #[test]
    fn secrets_are_redacted() {
        let keys = Keys {
            access_key_id: "AKIA".to_owned(),
            secret_access_key: "s3cret-key".to_owned().into(),
            session_token: Some("s3cret-token".to_owned().into()),
        };
        let text = "signed with s3cret-key and s3cret-token ";
        assert_eq!(tidied(text, Some(&keys)), "signed with *** and ***");
    }
}
