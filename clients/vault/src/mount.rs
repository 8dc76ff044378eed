//! Where an auth method is mounted, and how paths are built.

use std::fmt;
use std::fmt::Write as _;

use crate::Error;

/// The path of an auth method below `auth/`. `x`, `auth/x` and `x/` are the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuthMount(String);

impl AuthMount {
    /// The mount that `text` names.
    pub fn new(text: &str) -> Self {
        let bare = text.trim_matches('/');
        Self(bare.strip_prefix("auth/").unwrap_or(bare).to_owned())
    }

    /// As `sys/auth` lists it: below `auth/`, with a slash at the end.
    pub(crate) fn listed(path: &str) -> Self {
        Self(path.trim_matches('/').to_owned())
    }

    /// Without `auth/` and without slashes at the ends.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AuthMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `parts` as the path of a URL. A part may contain slashes, but no segment that a URL would drop:
/// `a/../b` is a different path than the one in a policy.
pub(crate) fn path(parts: &[&str]) -> Result<String, Error> {
    let whole = parts.join("/");
    let lost = |segment: &str| matches!(segment, "" | "." | "..");
    if whole.split('/').any(lost) {
        return Err(Error::Invalid {
            call: whole,
            message: "a path has no empty segments, no `.` and no `..`".to_owned(),
        });
    }
    Ok(encoded(&whole))
}

/// Percent-encoded except for slashes and the unreserved characters of RFC 3986.
fn encoded(path: &str) -> String {
    path.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            write!(text, "%{byte:02X}").expect("writing to a string cannot fail");
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::bare("kubernetes")]
    #[case::with_prefix("auth/kubernetes")]
    #[case::with_slash("kubernetes/")]
    #[case::with_all("/auth/kubernetes/")]
    fn every_notation_of_a_mount_is_the_same_mount(#[case] text: &str) {
        assert_eq!(AuthMount::new(text).as_str(), "kubernetes");
    }

    #[test]
    fn a_mount_may_have_several_segments() {
        assert_eq!(AuthMount::new("auth/team/k8s/").as_str(), "team/k8s");
    }

    #[rstest]
    #[case::parent(&["secret", "data", "../../sys/seal"])]
    #[case::self_reference(&["secret", "./x"])]
    #[case::empty(&["sys/policies/acl", ""])]
    #[case::double_slash(&["secret", "a//b"])]
    fn a_path_that_a_url_would_change_is_refused(#[case] parts: &[&str]) {
        assert!(matches!(path(parts), Err(Error::Invalid { .. })));
    }

    #[test]
    fn names_are_encoded_and_slashes_kept() {
        let path = path(&["sys/policies/acl", "a b?c#d%e/é"]).unwrap();
        assert_eq!(path, "sys/policies/acl/a%20b%3Fc%23d%25e/%C3%A9");
    }
}
