//! The path of a seed: `<mount>/data/<path>`.

use std::fmt;

/// A path in a KV engine of version 2. Its mount is one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KvPath {
    pub(crate) mount: String,
    pub(crate) path: String,
}

impl KvPath {
    /// Parses the path in a spec.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::below("data/", text)
    }

    /// Parses a path of the form `<mount>/metadata/<path>`.
    pub(crate) fn of_metadata(text: &str) -> Option<Self> {
        Self::below("metadata/", text)
    }

    fn below(part: &str, text: &str) -> Option<Self> {
        let (mount, below) = text.split_once('/')?;
        let path = below.strip_prefix(part)?;
        (!mount.is_empty() && !path.is_empty()).then(|| Self {
            mount: mount.to_owned(),
            path: path.to_owned(),
        })
    }
}

/// The form in a spec.
impl fmt::Display for KvPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/data/{}", self.mount, self.path)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("secret/data/team-a/seed", "secret", "team-a/seed")]
    #[case::data_twice("secret/data/a/data/b", "secret", "a/data/b")]
    #[case::a_mount_called_data("data/data/x", "data", "x")]
    fn a_path_reads_back(#[case] text: &str, #[case] mount: &str, #[case] path: &str) {
        let parsed = KvPath::parse(text).unwrap();
        assert_eq!((&*parsed.mount, &*parsed.path), (mount, path));
        assert_eq!(parsed.to_string(), text);
    }

    #[rstest]
    #[case::no_data("secret/team-a/seed")]
    #[case::a_mount_of_two_segments("team/kv/data/x")]
    #[case::nothing_below("secret/data/")]
    #[case::no_mount("/data/x")]
    fn other_texts_are_no_paths(#[case] text: &str) {
        assert_eq!(KvPath::parse(text), None);
    }
}
