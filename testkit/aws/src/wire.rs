//! Requests and answers for services, without the HTTP library.

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::protocol::ApiError;

/// One whole request: the body is read before the request is handled.
#[derive(Debug, Clone)]
pub struct Request {
    /// HTTP method.
    pub method: Method,
    /// Path as sent, still percent-encoded.
    pub path: String,
    /// Query parameters, decoded, in order.
    pub query: Vec<(String, String)>,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
    form: Vec<(String, String)>,
}

impl Request {
    /// A request from its parts; decodes a form body (Query protocol).
    pub fn new(method: Method, path: &str, query: &str, headers: HeaderMap, body: Bytes) -> Self {
        let kind = headers
            .get("content-type")
            .and_then(|kind| kind.to_str().ok())
            .unwrap_or_default();
        let form = if kind.starts_with("application/x-www-form-urlencoded") {
            pairs(&String::from_utf8_lossy(&body))
        } else {
            Vec::new()
        };
        Self {
            method,
            path: path.to_owned(),
            query: pairs(query),
            headers,
            body,
            form,
        }
    }

    /// A header's text; `None` if it is absent or not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The first query parameter of this name.
    pub fn query_value(&self, name: &str) -> Option<&str> {
        first(&self.query, name)
    }

    /// A parameter of the Query protocol: from the form body, else from the query string.
    pub fn param(&self, name: &str) -> Option<&str> {
        first(&self.form, name).or_else(|| first(&self.query, name))
    }

    /// The operation in `X-Amz-Target: <prefix>.<operation>`, if the prefix is this one.
    pub fn target(&self, prefix: &str) -> Option<&str> {
        self.header("x-amz-target")?
            .strip_prefix(prefix)?
            .strip_prefix('.')
    }

    /// The path's segments, decoded, without empty ones.
    pub fn segments(&self) -> Vec<String> {
        self.path
            .split('/')
            .filter(|part| !part.is_empty())
            .map(|part| decoded(part, false))
            .collect()
    }

    /// The body as JSON; an empty body counts as `{}`, as in AWS.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        let body: &[u8] = if self.body.is_empty() {
            b"{}"
        } else {
            &self.body
        };
        serde_json::from_slice(body)
            .map_err(|wrong| ApiError::new(400, "SerializationException", &wrong.to_string()))
    }
}

/// The answer of a service.
#[derive(Debug, Clone)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Headers beside the content type; names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// Media type of the body.
    pub content_type: &'static str,
    /// Body.
    pub body: Bytes,
}

impl Response {
    /// A JSON answer. `content_type` is `application/x-amz-json-1.1` or similar.
    pub fn json(status: u16, content_type: &'static str, body: &Value) -> Self {
        Self {
            status,
            headers: Vec::new(),
            content_type,
            body: body.to_string().into(),
        }
    }

    /// An XML answer from a finished document.
    pub fn xml(status: u16, document: String) -> Self {
        Self {
            status,
            headers: Vec::new(),
            content_type: "text/xml",
            body: document.into(),
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }
}

fn first<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs
        .iter()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.as_str())
}

fn pairs(encoded: &str) -> Vec<(String, String)> {
    let parts = encoded.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decoded(name, true), decoded(value, true))
        })
        .collect()
}

/// Percent-decoding; in forms and queries `+` is a blank. An invalid `%` stays unchanged.
fn decoded(text: &str, plus_is_blank: bool) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|pair| std::str::from_utf8(pair).ok());
        if let Some(byte) = hex.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            out.push(byte);
            rest = &tail[2..];
            continue;
        }
        out.push(if *first == b'+' && plus_is_blank {
            b' '
        } else {
            *first
        });
        rest = tail;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("a", "a")]
    #[case::blank("a+b%20c", "a b c")]
    #[case::slash("arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr", "arn:aws:iam::1:role/r")]
    #[case::stray_percent("100%", "100%")]
    #[case::not_hex("%zz", "%zz")]
    #[case::beyond_ascii("%C3%A4", "ä")]
    fn a_form_value_is_decoded(#[case] sent: &str, #[case] read: &str) {
        assert_eq!(decoded(sent, true), read);
    }

    #[test]
    fn a_plus_in_a_path_stays_a_plus() {
        let request = Request::new(
            Method::GET,
            "/a+b/%2Fc//",
            "",
            HeaderMap::new(),
            Bytes::new(),
        );
        assert_eq!(request.segments(), ["a+b", "/c"]);
    }
}
