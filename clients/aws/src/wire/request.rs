//! A request before it has a host and a signature.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use super::{Form, XmlElement, escaped, escaped_except};

/// Method, path, query, headers and body of a request.
///
/// # Errors
/// A path parameter without a value, or with a segment `.` or `..`, makes the request invalid: sending
/// it is refused as [`Error::Request`](crate::Error::Request), because a path without its last part is
/// often the whole list.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) headers: Vec<(Cow<'static, str>, String)>,
    pub(super) body: Vec<u8>,
    pub(super) is_body_signed: bool,
}

impl Request {
    /// A request of a REST service. The path names its parameters: `/2015-03-31/functions/{Name}`;
    /// a parameter that may have slashes is written `{Key+}`.
    pub fn new(method: &'static str, path: &str) -> Self {
        Self {
            method,
            path: path.to_owned(),
            query: Vec::new(),
            headers: Vec::new(),
            body: Vec::new(),
            is_body_signed: true,
        }
    }

    /// A request in the json protocol: `version` is `1.0` or `1.1`, `target` the service and its
    /// operation as the service names them: `CertificateManager.DescribeCertificate`.
    pub fn json(version: &str, target: &str, body: &Value) -> Self {
        let content_type = format!("application/x-amz-json-{version}");
        let request = Self::new("POST", "/").header("x-amz-target", target);
        request.body(content_type, body.to_string())
    }

    /// A request in the query protocol.
    pub fn form(form: &Form) -> Self {
        let content_type = "application/x-www-form-urlencoded; charset=utf-8";
        Self::new("POST", "/").body(content_type, form.encoded())
    }

    /// The value of a path parameter. All its characters are escaped that may not be in a path.
    #[must_use]
    pub fn path(mut self, name: &str, value: &str) -> Self {
        // Clients and servers remove such segments, even if they are escaped.
        let is_relative = |segment: &str| matches!(segment, "." | "..");
        if !value.is_empty() && !is_relative(value) {
            self.path = self.path.replace(&format!("{{{name}}}"), &escaped(value));
        }
        if !value.is_empty() && !value.split('/').any(is_relative) {
            let whole = escaped_except(value, "/");
            self.path = self.path.replace(&format!("{{{name}+}}"), &whole);
        }
        self
    }

    /// A parameter of the query.
    #[must_use]
    pub fn query(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.query.push((name.into(), value.into()));
        self
    }

    /// A header; it is signed too. The name is in lower case.
    #[must_use]
    pub fn header(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// A body of rest-json.
    #[must_use]
    pub fn json_body(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    /// A body of rest-xml.
    #[must_use]
    pub fn xml_body(self, body: &XmlElement) -> Self {
        self.body("application/xml", body.written())
    }

    /// A body of this type.
    #[must_use]
    pub fn body(mut self, content_type: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self.header("content-type", content_type)
    }

    /// Leaves the body out of the signature. Only S3 accepts that.
    #[must_use]
    pub fn unsigned_body(mut self) -> Self {
        self.is_body_signed = false;
        self
    }

    /// Its address at this endpoint.
    ///
    /// # Errors
    /// The path parameter that has no valid value.
    pub(super) fn url(&self, endpoint: &str) -> Result<String, String> {
        if let Some((_, unset)) = self.path.split_once('{') {
            let (name, _) = unset.split_once('}').unwrap_or((unset, ""));
            let name = name.trim_end_matches('+');
            return Err(format!("{name} has no value, or a segment . or .."));
        }
        let pairs = self.query.iter();
        let pairs = pairs.map(|(name, value)| format!("{}={}", escaped(name), escaped(value)));
        let query = pairs.collect::<Vec<_>>().join("&");
        let mark = if query.is_empty() { "" } else { "?" };
        let endpoint = endpoint.trim_end_matches('/');
        Ok(format!("{endpoint}{}{mark}{query}", self.path))
    }
}

/// Without headers and body, which may have secrets.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
