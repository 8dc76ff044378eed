//! Reading XML: the members of a request, by their names.

use crate::protocol::ApiError;

/// One element of a request.
#[derive(Debug, Clone, Copy)]
pub struct Node<'a, 'input>(roxmltree::Node<'a, 'input>);

/// Parses a request: its root must be `root`, in `namespace` or in none.
///
/// # Errors
/// `MalformedInput` 400 if it is no XML or another document, else the error of `take`.
pub fn document<T>(
    body: &[u8],
    root: &str,
    namespace: &str,
    take: impl FnOnce(Node<'_, '_>) -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    let text = std::str::from_utf8(body).map_err(|wrong| malformed(&wrong.to_string()))?;
    let parsed = roxmltree::Document::parse(text).map_err(|wrong| malformed(&wrong.to_string()))?;
    let found = parsed.root_element();
    if found.tag_name().name() != root {
        let message = format!("expected {root}, found {}", found.tag_name().name());
        return Err(malformed(&message));
    }
    if found
        .tag_name()
        .namespace()
        .is_some_and(|is| is != namespace)
    {
        return Err(malformed(&format!("{root} must be in {namespace}")));
    }
    take(Node(found))
}

/// The same if all members are optional: a request without any may have no body.
pub fn optional<T: Default>(
    body: &[u8],
    root: &str,
    namespace: &str,
    take: impl FnOnce(Node<'_, '_>) -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    if body.is_empty() {
        return Ok(T::default());
    }
    document(body, root, namespace, take)
}

impl<'a> Node<'a, '_> {
    /// The first member of this name.
    pub fn child(self, name: &str) -> Option<Self> {
        self.children().find(|child| child.name() == name)
    }

    /// All members.
    pub fn children(self) -> impl Iterator<Item = Self> {
        self.0
            .children()
            .filter(roxmltree::Node::is_element)
            .map(Node)
    }

    /// Its name.
    pub fn name(self) -> &'a str {
        self.0.tag_name().name()
    }

    /// All text in it.
    pub fn text(self) -> String {
        let parts = self.0.children().filter(roxmltree::Node::is_text);
        parts.filter_map(|part| part.text()).collect()
    }

    /// The text of a member; an empty one counts as absent.
    pub fn leaf(self, name: &str) -> Option<String> {
        let text = self.child(name)?.text();
        (!text.is_empty()).then_some(text)
    }

    /// The text of a required member.
    pub fn needed(self, name: &str) -> Result<String, ApiError> {
        self.leaf(name)
            .ok_or_else(|| invalid(&format!("{name} is required.")))
    }

    /// `true` or `false` in a member.
    pub fn flag(self, name: &str) -> Result<Option<bool>, ApiError> {
        let read = |text: String| {
            let message = format!("{name} must be true or false, not '{text}'.");
            text.parse().map_err(|_| invalid(&message))
        };
        self.leaf(name).map(read).transpose()
    }

    /// A whole number in a member.
    pub fn number(self, name: &str) -> Result<Option<u64>, ApiError> {
        let read = |text: String| {
            let message = format!("{name} must be a whole number, not '{text}'.");
            text.parse().map_err(|_| invalid(&message))
        };
        self.leaf(name).map(read).transpose()
    }

    /// The elements of a list, which may have several names; `None` if there is no list.
    pub fn list(self, name: &str, elements: &[&str]) -> Result<Option<Vec<Self>>, ApiError> {
        let Some(list) = self.child(name) else {
            return Ok(None);
        };
        match list.children().find(|one| !elements.contains(&one.name())) {
            None => Ok(Some(list.children().collect())),
            Some(other) => Err(malformed(&format!(
                "{name} holds {}, not {}",
                elements.join(" or "),
                other.name()
            ))),
        }
    }

    /// Refuses members that are not in `known`, so that members we do not emulate are not ignored.
    pub fn only(self, known: &[&str]) -> Result<(), ApiError> {
        match self.children().find(|one| !known.contains(&one.name())) {
            None => Ok(()),
            Some(other) => Err(malformed(&format!(
                "{} has no member {}, or the emulator does not know it",
                self.name(),
                other.name()
            ))),
        }
    }
}

fn malformed(what: &str) -> ApiError {
    ApiError::new(
        400,
        "MalformedInput",
        &format!("The request could not be read: {what}"),
    )
}

fn invalid(what: &str) -> ApiError {
    ApiError::new(400, "InvalidArgument", what)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn parsed<T>(
        body: &str,
        take: impl FnOnce(Node<'_, '_>) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        document(body.as_bytes(), "R", "urn:x", take)
    }

    #[test]
    fn members_are_found_whatever_their_order_and_prefix() {
        let body = r#"<p:R xmlns:p="urn:x"><p:B> t &amp; u </p:B><p:A>true</p:A></p:R>"#;
        let read = parsed(body, |root| Ok((root.flag("A")?, root.leaf("B"))));
        assert_eq!(read, Ok((Some(true), Some(" t & u ".to_owned()))));
    }

    #[test]
    fn an_empty_list_is_not_an_absent_one() {
        let body = r#"<R xmlns="urn:x"><Empty/><Full><member/><Old/></Full></R>"#;
        let counts = parsed(body, |root| {
            let count = |name| {
                let list = root.list(name, &["member", "Old"])?;
                Ok(list.map(|elements| elements.len()))
            };
            Ok((count("Empty")?, count("Full")?, count("None")?))
        });
        assert_eq!(counts, Ok((Some(0), Some(2), None)));
    }

    #[test]
    fn an_empty_body_is_valid_if_no_member_is_required() {
        let read = |body: &[u8]| optional(body, "R", "urn:x", |root| Ok(root.leaf("A")));
        assert_eq!(read(b""), Ok(None));
        assert_eq!(read(b"<R><A>1</A></R>"), Ok(Some("1".to_owned())));
        assert!(read(b" ").is_err());
    }

    #[rstest]
    #[case::no_xml("nope", "MalformedInput")]
    #[case::another_root("<S/>", "MalformedInput")]
    #[case::another_namespace(r#"<R xmlns="urn:y"/>"#, "MalformedInput")]
    #[case::no_boolean("<R><A>yes</A></R>", "InvalidArgument")]
    #[case::unknown_member("<R><C/></R>", "MalformedInput")]
    fn an_invalid_document_is_refused(#[case] body: &str, #[case] code: &str) {
        let read = parsed(body, |root| {
            root.only(&["A"])?;
            root.flag("A")
        });
        assert_eq!(read.unwrap_err().code, code);
    }
}
