//! References to objects.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The name of an object, with its namespace if it has one. The context decides the kind.
///
/// Queue, timers and indices each store one per object, so clones share their text.
/// Sorted by namespace, then name; cluster-scoped objects come first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace; none for a cluster-scoped object.
    pub namespace: Option<Arc<str>>,
    /// The name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key of an object in a namespace.
    pub fn namespaced(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: Some(namespace.into()),
            name: name.into(),
        }
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: None,
            name: name.into(),
        }
    }

    /// The key from an object's metadata. An empty namespace is none.
    pub fn of(namespace: Option<&str>, name: &str) -> Self {
        Self {
            namespace: namespace.filter(|text| !text.is_empty()).map(Arc::from),
            name: Arc::from(name),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// A text that is not the name of an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} names no object; write <namespace>/<name>, or <name> if it is cluster-scoped")]
pub struct InvalidObjectKey {
    text: String,
}

impl FromStr for ObjectKey {
    type Err = InvalidObjectKey;

    /// Reads `<namespace>/<name>` or `<name>`. The API server decides whether such names are legal.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let segments: Vec<&str> = text.split('/').collect();
        match segments[..] {
            [name] if !name.is_empty() => Ok(Self::cluster(name)),
            [namespace, name] if !namespace.is_empty() && !name.is_empty() => {
                Ok(Self::namespaced(namespace, name))
            }
            _ => Err(InvalidObjectKey {
                text: text.to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case::nothing("")]
    #[case::no_name("payments/")]
    #[case::no_namespace("/api")]
    #[case::too_much("payments/api/v1")]
    fn a_malformed_key_is_refused_with_the_form(#[case] text: &str) {
        let error = text.parse::<ObjectKey>().unwrap_err().to_string();
        assert!(
            error.contains(&format!("{text:?}")) && error.contains("<namespace>/<name>"),
            "{error}"
        );
    }

    #[test]
    fn an_empty_namespace_is_none() {
        assert_eq!(ObjectKey::of(Some(""), "node"), ObjectKey::cluster("node"));
        assert_eq!(
            ObjectKey::of(Some("a"), "b"),
            ObjectKey::namespaced("a", "b")
        );
    }

    #[test]
    fn keys_sort_by_namespace_then_name_with_cluster_scoped_first() {
        let sorted = [
            ObjectKey::cluster("z"),
            ObjectKey::namespaced("a", "b"),
            ObjectKey::namespaced("a", "c"),
            ObjectKey::namespaced("b", "a"),
        ];
        assert!(sorted.is_sorted());
    }

    #[test]
    fn a_clone_shares_its_text() {
        let key = ObjectKey::namespaced("payments", "api");
        assert!(Arc::ptr_eq(&key.name, &key.clone().name));
        assert!(size_of::<ObjectKey>() <= 32);
    }

    proptest! {
        #[test]
        fn a_printed_key_reads_back(namespace in proptest::option::of("[^/]{1,9}"), name in "[^/]{1,9}") {
            let key = ObjectKey::of(namespace.as_deref(), &name);
            prop_assert_eq!(key.to_string().parse(), Ok(key));
        }
    }
}
