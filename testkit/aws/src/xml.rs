//! Writing XML: elements as values, with text escaped.

pub mod read;

use std::fmt::Write as _;

/// One XML element, built up and then written as a document.
///
/// It writes the answers of the emulated services; [`read`] parses their requests.
#[derive(Debug, Clone)]
pub struct Element {
    name: String,
    namespace: Option<String>,
    inside: Vec<Inside>,
}

#[derive(Debug, Clone)]
enum Inside {
    Element(Element),
    Text(String),
}

impl Element {
    /// An empty element. `name` is not escaped: pass a literal, never a caller's text.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            namespace: None,
            inside: Vec::new(),
        }
    }

    /// Declares the default namespace on this element.
    #[must_use]
    pub fn xmlns(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Adds an element inside.
    #[must_use]
    pub fn child(mut self, child: Element) -> Self {
        self.inside.push(Inside::Element(child));
        self
    }

    /// Adds an element that holds only text.
    #[must_use]
    pub fn leaf(self, name: &str, text: &str) -> Self {
        let mut leaf = Self::new(name);
        leaf.inside.push(Inside::Text(text.to_owned()));
        self.child(leaf)
    }

    /// Adds an element that holds only text, if there is any.
    #[must_use]
    pub fn leaf_if(self, name: &str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.leaf(name, text),
            None => self,
        }
    }

    /// Adds elements inside.
    #[must_use]
    pub fn children(mut self, children: impl IntoIterator<Item = Element>) -> Self {
        let children = children.into_iter().map(Inside::Element);
        self.inside.extend(children);
        self
    }

    /// The whole document, declaration included.
    pub fn document(&self) -> String {
        let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        out.push('<');
        out.push_str(&self.name);
        if let Some(namespace) = &self.namespace {
            let _ = write!(out, " xmlns=\"{}\"", escape(namespace));
        }
        out.push('>');
        for inside in &self.inside {
            match inside {
                Inside::Element(element) => element.write(out),
                Inside::Text(text) => out.push_str(&escape(text)),
            }
        }
        let _ = write!(out, "</{}>", self.name);
    }
}

/// Text escaped for XML content and quoted attributes.
///
/// A carriage return is written as a reference, because parsers convert a bare one to a line feed.
/// Characters that XML 1.0 does not allow become U+FFFD.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\r' => out.push_str("&#13;"),
            '\t' | '\n' => out.push(character),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(character),
        }
    }
    out
}
