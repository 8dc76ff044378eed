//! Signed plain requests: how services are called that have no SDK crate here.
//!
//! ```text
//! Request (method, path, query, headers, body) ──▶ endpoint ──▶ signature ──▶ connector ──▶ Answer
//! ```
//! A service module builds requests by the protocol of its service and reads the answers:
//!
//! | protocol | request | answer |
//! |---|---|---|
//! | rest-json | [`Request::new`], [`Request::json_body`] | [`Answer::json`] |
//! | rest-xml | [`Request::new`], [`Request::xml_body`] | [`Answer::xml`] |
//! | query, ec2 | [`Request::form`] | [`Answer::xml`] |
//! | json 1.0, 1.1 | [`Request::json`] | [`Answer::json`] |
//!
//! [`Account::send`](crate::Account::send) sends them under the same limits, credentials, guards and
//! time-outs as calls of the SDK, through the same connections. Nothing is retried.
//!
//! Requests are signed with the time of the machine. A clock that is wrong by more than five minutes
//! is not corrected: AWS refuses the signature, which is [`Fault::Credentials`](crate::Fault).

mod answer;
mod endpoint;
mod form;
mod refusal;
mod request;
mod sign;
mod xml;

pub use answer::{Answer, XmlDocument, XmlNode};
pub(crate) use endpoint::{Endpoint, Hosts, Variants, configured};
pub use form::Form;
pub(crate) use refusal::WireRefusal;
pub use request::Request;
pub(crate) use sign::{Scope, SignedRequest, sign};
pub use xml::XmlElement;

use aws_smithy_runtime_api::client::http::{HttpConnector as _, SharedHttpConnector};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;

/// An answer longer than this is not read.
const LONGEST_ANSWER: usize = 32 * 1024 * 1024;

/// Sends a request; the answer's body is complete, and in memory.
pub(crate) async fn exchange(
    connector: &SharedHttpConnector,
    request: HttpRequest,
) -> Result<HttpResponse, SdkError<WireRefusal, HttpResponse>> {
    let mut response = match connector.call(request).await {
        Ok(response) => response,
        Err(error) => return Err(SdkError::dispatch_failure(error)),
    };
    match collected(response.take_body()).await {
        Ok(body) => *response.body_mut() = SdkBody::from(body),
        Err(reason) => return Err(SdkError::response_error(reason, response)),
    }
    if response.status().is_success() {
        return Ok(response);
    }
    let refusal = WireRefusal::read(&response);
    Err(SdkError::service_error(refusal, response))
}

async fn collected(body: SdkBody) -> Result<Vec<u8>, String> {
    let mut stream = ByteStream::new(body);
    let mut all = Vec::new();
    while let Some(part) = stream.try_next().await.map_err(|error| error.to_string())? {
        if all.len() + part.len() > LONGEST_ANSWER {
            return Err(format!("it is longer than {LONGEST_ANSWER} bytes"));
        }
        all.extend_from_slice(&part);
    }
    Ok(all)
}

/// A text as it stands in a path or a query: all bytes are escaped but letters, digits and `-._~`.
pub(crate) fn escaped(text: &str) -> String {
    escaped_except(text, "")
}

/// The same; the characters of `plain` are not escaped either.
fn escaped_except(text: &str, plain: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for byte in text.bytes() {
        let char = char::from(byte);
        if byte.is_ascii_alphanumeric() || "-._~".contains(char) || plain.contains(char) {
            all.push(char);
        } else {
            let digit = |half: u8| char::from(b"0123456789ABCDEF"[usize::from(half)]);
            all.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    all
}

#[cfg(test)]
mod botocore;
#[cfg(test)]
mod tests;
