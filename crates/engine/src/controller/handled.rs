//! Which version of an object a pass has handled.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::stored::Stored;

/// The version of an object that a pass has handled: its number, or a hash of a version that is not a
/// number. The type is small because there is one value per object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Handled(u64);

impl Handled {
    /// Marks a hash. The revisions of etcd never reach this number.
    const HASH: u64 = 1 << 63;

    pub(super) fn of(object: &Stored) -> Self {
        match object.version() {
            0 => {
                let mut hash = DefaultHasher::new();
                object.resource_version().hash(&mut hash);
                Self(hash.finish() | Self::HASH)
            }
            number => Self(number),
        }
    }

    /// Whether `object` has a newer version. Versions that are not numbers have no order, so any other
    /// version counts as newer.
    pub(super) fn is_older_than(self, object: &Stored) -> bool {
        let version = Self::of(object);
        if (self.0 | version.0) & Self::HASH == 0 {
            self.0 < version.0
        } else {
            self != version
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::{Kind, Projection};

    #[rstest]
    #[case::equal("7", "7", false)]
    #[case::higher("7", "8", true)]
    #[case::lower("7", "6", false)]
    #[case::equal_text("b7", "b7", false)]
    #[case::other_text("b7", "a6", true)]
    #[case::text_after_a_number("7", "b7", true)]
    #[case::number_after_a_text("b7", "7", true)]
    fn a_version_is_newer(#[case] handled: &str, #[case] seen: &str, #[case] expected: bool) {
        let stored = |version: &str| {
            let object = json!({"metadata": {"name": "n", "resourceVersion": version}});
            let kind = Kind::of::<ConfigMap>();
            Stored::read(&kind, &object.to_string(), &Projection::Full).unwrap()
        };
        let handled = Handled::of(&stored(handled));
        assert_eq!(handled.is_older_than(&stored(seen)), expected);
    }
}
