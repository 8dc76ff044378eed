//! Owners of external resources: the markers we set, and how a marker is read.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::ObjectKey;
use crate::names::hex;

/// The tag that names the cluster of an external resource.
pub const MARKER_CLUSTER: &str = "pontoon.io/cluster";
/// The tag that names the object of an external resource.
pub const MARKER_OBJECT: &str = "pontoon.io/object";
/// The annotation that stops all effects for an object while it is `"true"`.
pub const PAUSED: &str = "pontoon.io/paused";
/// The annotation that requests one pass at once, without back-off.
pub const RECONCILE_NOW: &str = "pontoon.io/reconcile-now";
/// The annotation that stores what was last applied, as a hash.
pub const APPLIED: &str = "pontoon.io/applied";

/// AWS accepts tag values of up to 256 characters.
const MARKER_LIMIT: usize = 256;
/// Legal in tag values, and not in the names of namespaced objects.
const HASHED: &str = "@sha256:";
const HASH_LENGTH: usize = 64;

/// The identity of this cluster in markers.
///
/// Changing it orphans all resources with the old one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(String);

impl ClusterId {
    /// Accepts 1 to 63 visible ASCII characters.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidClusterId> {
        let text = text.into();
        let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        if visible && (1..=63).contains(&text.len()) {
            Ok(Self(text))
        } else {
            Err(InvalidClusterId { text })
        }
    }

    /// The identity as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ClusterId {
    type Err = InvalidClusterId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

/// A text that cannot identify a cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} cannot identify a cluster; use 1 to 63 visible ASCII characters without spaces, \
     such as the UID of the kube-system namespace"
)]
pub struct InvalidClusterId {
    text: String,
}

/// The name of an object in a marker: `<namespace>/<name>`, or `<name>` if cluster-scoped.
///
/// Beyond 256 characters: its start, and a hash of the whole. Two objects never have the same.
pub fn object_marker(key: &ObjectKey) -> String {
    let text = key.to_string();
    // Names of some cluster-scoped kinds may contain anything; one that looks hashed is hashed.
    if text.chars().count() <= MARKER_LIMIT && !text.contains(HASHED) {
        return text;
    }
    let room = MARKER_LIMIT - HASHED.len() - HASH_LENGTH;
    let readable: String = text.chars().take(room).collect();
    let hash = hex(&Sha256::digest(text));
    format!("{readable}{HASHED}{hash}")
}

/// The marker of an external resource: the cluster and the object it was created for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Marker {
    /// The cluster.
    pub cluster: ClusterId,
    /// The object, as [`object_marker`] names it.
    pub object: String,
}

impl Marker {
    /// The marker of resources for the object `key` of `cluster`.
    pub fn new(cluster: &ClusterId, key: &ObjectKey) -> Self {
        Self {
            cluster: cluster.clone(),
            object: object_marker(key),
        }
    }

    /// The marker as tags, to be set when the resource is created.
    pub fn tags(&self) -> [(&'static str, &str); 2] {
        [
            (MARKER_CLUSTER, self.cluster.as_str()),
            (MARKER_OBJECT, &self.object),
        ]
    }

    /// Whether a resource with `tags` was created for exactly this object.
    ///
    /// Without a marker, or with half of one, it is foreign.
    pub fn is_ours<'t>(&self, tags: impl IntoIterator<Item = (&'t str, &'t str)>) -> bool {
        let (mut cluster, mut object) = (None, None);
        for (name, value) in tags {
            match name {
                MARKER_CLUSTER => cluster = Some(value),
                MARKER_OBJECT => object = Some(value),
                _ => {}
            }
        }
        cluster == Some(self.cluster.as_str()) && object == Some(self.object.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn marker() -> Marker {
        let cluster = ClusterId::new("prod-1").unwrap();
        Marker::new(&cluster, &ObjectKey::namespaced("payments", "api"))
    }

    #[rstest]
    #[case::empty("")]
    #[case::too_long(&"x".repeat(64))]
    #[case::space("prod 1")]
    #[case::control("prod\n")]
    #[case::not_ascii("pröd")]
    fn a_bad_cluster_id_is_refused_with_the_rule(#[case] text: &str) {
        let error = text.parse::<ClusterId>().unwrap_err().to_string();
        assert!(error.contains("1 to 63 visible ASCII"), "{error}");
    }

    #[test]
    fn a_uid_identifies_a_cluster() {
        let uid = "0f2b1f0e-6f0a-4c9e-9d55-5a3d1c6a7b11";
        assert_eq!(uid.parse::<ClusterId>().unwrap().to_string(), uid);
    }

    #[test]
    fn a_marker_names_cluster_and_object() {
        assert_eq!(
            marker().tags(),
            [
                ("pontoon.io/cluster", "prod-1"),
                ("pontoon.io/object", "payments/api")
            ]
        );
    }

    #[test]
    fn only_both_tags_together_make_it_ours() {
        let cluster = (MARKER_CLUSTER, "prod-1");
        let object = (MARKER_OBJECT, "payments/api");
        assert!(marker().is_ours([("Name", "x"), object, cluster]));
        assert!(marker().is_ours(marker().tags()));
        assert!(!marker().is_ours([]));
        assert!(!marker().is_ours([cluster]));
        assert!(!marker().is_ours([object]));
        assert!(!marker().is_ours([(MARKER_CLUSTER, "prod-2"), object]));
        assert!(!marker().is_ours([cluster, (MARKER_OBJECT, "payments/web")]));
    }

    #[test]
    fn a_marker_that_just_fits_stays_readable() {
        let key = ObjectKey::namespaced("n".repeat(10), "x".repeat(245));
        assert_eq!(object_marker(&key), key.to_string());
    }

    #[test]
    fn long_markers_are_hashed_and_differ_by_the_last_character() {
        let long = |last: &str| ObjectKey::namespaced("n".repeat(63), "x".repeat(252) + last);
        let (a, b) = (object_marker(&long("a")), object_marker(&long("b")));
        assert_eq!(a.len(), MARKER_LIMIT);
        assert!(a.starts_with(&"n".repeat(63)));
        assert_ne!(a, b);
    }

    #[test]
    fn no_object_name_equals_the_hash_of_another() {
        let long = ObjectKey::cluster("x".repeat(300));
        let poser = ObjectKey::cluster(object_marker(&long));
        assert_ne!(object_marker(&poser), object_marker(&long));
        assert!(object_marker(&poser).len() <= MARKER_LIMIT);
    }
}
