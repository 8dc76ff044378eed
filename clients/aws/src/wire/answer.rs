//! The answer to a plain request.

use std::fmt;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use serde_json::Value;

use crate::call::Call;
use crate::{Error, Operation};

/// A successful answer, complete.
pub struct Answer {
    operation: Operation,
    resource: String,
    response: HttpResponse,
}

impl Answer {
    pub(crate) fn new(call: &Call<'_>, response: HttpResponse) -> Self {
        Self {
            operation: call.operation,
            resource: call.resource.to_owned(),
            response,
        }
    }

    /// HTTP status.
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// The header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)
    }

    /// The body.
    pub fn bytes(&self) -> &[u8] {
        self.response.body().bytes().unwrap_or_default()
    }

    /// The body as JSON; `null` if it is empty.
    pub fn json(&self) -> Result<Value, Error> {
        if self.bytes().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(self.bytes()).map_err(|error| self.unreadable(error.to_string()))
    }

    /// The body as XML.
    pub fn xml(&self) -> Result<XmlDocument<'_>, Error> {
        let text = std::str::from_utf8(self.bytes());
        let text = text.map_err(|error| self.unreadable(error.to_string()))?;
        let document = roxmltree::Document::parse(text);
        let document = document.map_err(|error| self.unreadable(error.to_string()))?;
        Ok(XmlDocument(document))
    }

    /// The error of an answer without a required field.
    pub fn lacks(&self, what: &str) -> Error {
        self.unreadable(format!("it has no {what}"))
    }

    fn unreadable(&self, reason: String) -> Error {
        Error::Unreadable {
            operation: self.operation,
            resource: self.resource.clone(),
            reason,
        }
    }
}

/// Without the body, which may have secrets.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("operation", &self.operation)
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

/// An XML answer.
pub struct XmlDocument<'a>(roxmltree::Document<'a>);

impl XmlDocument<'_> {
    /// The outermost element.
    pub fn root(&self) -> XmlNode<'_> {
        XmlNode(self.0.root_element())
    }
}

/// An element of an XML answer. Namespaces are ignored.
#[derive(Clone, Copy)]
pub struct XmlNode<'a>(roxmltree::Node<'a, 'a>);

impl<'a> XmlNode<'a> {
    /// Its name.
    pub fn name(self) -> &'a str {
        self.0.tag_name().name()
    }

    /// The elements of this name directly in it.
    pub fn children(self, name: &str) -> impl Iterator<Item = XmlNode<'a>> {
        let children = self.0.children();
        let named =
            children.filter(move |node| node.is_element() && node.tag_name().name() == name);
        named.map(XmlNode)
    }

    /// The first of them.
    pub fn child(self, name: &str) -> Option<XmlNode<'a>> {
        self.children(name).next()
    }

    /// The text of the first element of this name directly in it; empty if the element is.
    pub fn text(self, name: &str) -> Option<&'a str> {
        let child = self.child(name)?;
        Some(child.0.text().unwrap_or_default())
    }
}
