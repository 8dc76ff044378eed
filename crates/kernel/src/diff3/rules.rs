//! The kinds of fields, which a plain JSON document does not contain.

use serde_json::Value;

use super::path::Path;

/// Rules for the fields of a document, by path, for [`diff3`](crate::diff3()).
///
/// A path is a JSON pointer in which `*` stands for any one segment: a key, an index, or an element
/// of a list map.
///
/// ```
/// # use kernel::{ListKey, Rules};
/// let rules = Rules::new()
///     .list_map("/spec/containers", ["name"])
///     .list_map(
///         "/spec/containers/*/ports",
///         [ListKey::new("containerPort"), ListKey::new("protocol").or("TCP")],
///     )
///     .set("/spec/containers/*/args")
///     .theirs("/spec/replicas");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Rules {
    lists: Vec<(Path, ListKind)>,
    theirs: Vec<Path>,
    defaulted: Vec<Path>,
}

/// A field that identifies the elements of a list map, alone or with others.
#[derive(Debug, Clone, PartialEq)]
pub struct ListKey {
    pub(super) field: String,
    pub(super) default: Option<Value>,
}

impl ListKey {
    /// The field `field`, which every element must have.
    pub fn new(field: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            default: None,
        }
    }

    /// An element without the field counts as one with the value `default`.
    #[must_use]
    pub fn or(self, default: impl Into<Value>) -> Self {
        Self {
            default: Some(default.into()),
            ..self
        }
    }
}

impl From<&str> for ListKey {
    fn from(field: &str) -> Self {
        Self::new(field)
    }
}

/// The kind of a list whose elements are not compared by position.
#[derive(Debug, Clone)]
pub(super) enum ListKind {
    Map { keys: Vec<ListKey> },
    Set,
    Unordered,
}

impl Rules {
    /// No rules: objects field by field, lists in order.
    pub fn new() -> Self {
        Self::default()
    }

    /// The list at `path` is a map of objects, identified by their fields `keys` together.
    ///
    /// Elements are ours one by one: those that only live has belong to others. If an element lacks a key
    /// that has no default, or two have the same keys, the list counts as [`Rules::unordered`].
    #[must_use]
    pub fn list_map<K: Into<ListKey>>(self, path: &str, keys: impl IntoIterator<Item = K>) -> Self {
        let keys = keys.into_iter().map(Into::into).collect();
        self.list_kind(path, ListKind::Map { keys })
    }

    /// The list at `path` is a set. Elements are ours one by one: those that only live has belong to
    /// others.
    ///
    /// # When not to use it
    /// If the list as a whole is ours and an additional element is drift: that is
    /// [`Rules::unordered`].
    #[must_use]
    pub fn set(self, path: &str) -> Self {
        self.list_kind(path, ListKind::Set)
    }

    /// The list at `path` is ours as a whole, in any order.
    #[must_use]
    pub fn unordered(self, path: &str) -> Self {
        self.list_kind(path, ListKind::Unordered)
    }

    /// The value at `path` and below belongs to the service, whatever desired contains.
    #[must_use]
    pub fn theirs(mut self, path: &str) -> Self {
        self.theirs.push(Path::parse(path));
        self
    }

    /// The service sets a default at `path` if desired has no value there, so removing the value from
    /// desired is not a change.
    #[must_use]
    pub fn defaulted(mut self, path: &str) -> Self {
        self.defaulted.push(Path::parse(path));
        self
    }

    fn list_kind(mut self, path: &str, kind: ListKind) -> Self {
        self.lists.push((Path::parse(path), kind));
        self
    }

    /// The kind of the list at `path`; the last rule applies.
    pub(super) fn list(&self, path: &Path) -> Option<&ListKind> {
        self.lists
            .iter()
            .rev()
            .find(|(pattern, _)| pattern.matches(path))
            .map(|(_, kind)| kind)
    }

    pub(super) fn is_theirs(&self, path: &Path) -> bool {
        self.theirs.iter().any(|pattern| pattern.matches(path))
    }

    pub(super) fn is_defaulted(&self, path: &Path) -> bool {
        self.defaulted.iter().any(|pattern| pattern.matches(path))
    }
}
