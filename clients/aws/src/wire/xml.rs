//! An XML body to send.

use std::fmt::Write as _;

/// An element: attributes, and a text or elements in it.
#[derive(Clone, PartialEq, Eq)]
pub struct XmlElement {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    content: Content,
}

#[derive(Clone, PartialEq, Eq)]
enum Content {
    Text(String),
    Elements(Vec<XmlElement>),
}

impl XmlElement {
    /// An element without content. The root of a body has a [namespace](Self::namespace).
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            attributes: Vec::new(),
            content: Content::Elements(Vec::new()),
        }
    }

    /// The namespace of it and of all in it.
    #[must_use]
    pub fn namespace(self, uri: &str) -> Self {
        self.attribute("xmlns", uri)
    }

    /// An attribute.
    #[must_use]
    pub fn attribute(mut self, name: &'static str, value: &str) -> Self {
        self.attributes.push((name, value.to_owned()));
        self
    }

    /// An element in it that has a text.
    #[must_use]
    pub fn text(self, name: &'static str, text: impl Into<String>) -> Self {
        self.child(Self {
            content: Content::Text(text.into()),
            ..Self::new(name)
        })
    }

    /// An element in it.
    #[must_use]
    pub fn child(mut self, child: Self) -> Self {
        match &mut self.content {
            Content::Elements(elements) => elements.push(child),
            Content::Text(_) => self.content = Content::Elements(vec![child]),
        }
        self
    }

    /// As a body.
    pub(super) fn written(&self) -> String {
        let mut all = String::new();
        self.write(&mut all);
        all
    }

    fn write(&self, all: &mut String) {
        let Self {
            name,
            attributes,
            content,
        } = self;
        all.push('<');
        all.push_str(name);
        for (attribute, value) in attributes {
            write!(
                all,
                " {attribute}=\"{}\"",
                safe(value).replace('"', "&quot;")
            )
            .expect("writing to a string works");
        }
        match content {
            Content::Text(text) if !text.is_empty() => {
                all.push('>');
                all.push_str(&safe(text));
            }
            Content::Elements(elements) if !elements.is_empty() => {
                all.push('>');
                for element in elements {
                    element.write(all);
                }
            }
            Content::Text(_) | Content::Elements(_) => return all.push_str(" />"),
        }
        write!(all, "</{name}>").expect("writing to a string works");
    }
}

/// A text without the characters that XML reserves. A parser would read a bare carriage return as a
/// line feed.
fn safe(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('\r', "&#xD;")
}
