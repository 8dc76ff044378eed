//! A path in a document.

use std::fmt;

/// A path as its segments, unescaped; it prints as a JSON pointer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Path(Vec<String>);

impl Path {
    /// Reads a JSON pointer; the leading slash may be left out.
    pub(super) fn parse(pointer: &str) -> Self {
        let pointer = pointer.strip_prefix('/').unwrap_or(pointer);
        if pointer.is_empty() {
            return Self::default();
        }
        let unescape = |segment: &str| segment.replace("~1", "/").replace("~0", "~");
        Self(pointer.split('/').map(unescape).collect())
    }

    pub(super) fn push(&mut self, segment: String) {
        self.0.push(segment);
    }

    pub(super) fn pop(&mut self) {
        self.0.pop();
    }

    /// Whether `self`, in which `*` stands for any one segment, matches `path`.
    pub(super) fn matches(&self, path: &Self) -> bool {
        let same = |(pattern, segment): (&String, &String)| pattern == "*" || pattern == segment;
        self.0.len() == path.0.len() && self.0.iter().zip(&path.0).all(same)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|segment| write!(f, "/{}", segment.replace('~', "~0").replace('/', "~1")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_star_stands_for_one_segment() {
        let pattern = Path::parse("/spec/*/image");
        assert!(pattern.matches(&Path::parse("/spec/name=web/image")));
        assert!(!pattern.matches(&Path::parse("/spec/image")));
        assert!(!pattern.matches(&Path::parse("/spec/a/b/image")));
    }

    #[test]
    fn slashes_in_keys_are_escaped() {
        let mut path = Path::parse("metadata/annotations");
        path.push("pontoon.io/~paused".to_owned());
        assert_eq!(
            path.to_string(),
            "/metadata/annotations/pontoon.io~1~0paused"
        );
    }

    proptest! {
        #[test]
        fn a_printed_path_reads_back(segments in proptest::collection::vec("[a~/01*]{1,4}", 0..4)) {
            let path = Path(segments);
            prop_assert_eq!(Path::parse(&path.to_string()), path);
        }
    }
}
