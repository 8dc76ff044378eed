//! The marker on a seed: keys in its `custom_metadata`.

use std::collections::BTreeMap;

use api::vault::names::SENTINEL;
use jiff::Timestamp;

use super::KIND;
use crate::language::text::{Header, Marker};

const MANAGED_BY: &str = "managed-by";
const RESOURCE: &str = "k8s-resource";
const MANAGED_AT: &str = "managed-at";
const LAST_UPDATED: &str = "last-updated";
const AUTH_MOUNT: &str = "auth-mount";
const CLUSTER: &str = "cluster";

/// The keys of the marker. Only the first marker has `managed-at`: a patch keeps keys that it omits.
pub(super) fn keys(header: &Header, is_first: bool, now: Timestamp) -> BTreeMap<String, String> {
    let time = now.strftime("%FT%TZ").to_string();
    let keys = [
        (MANAGED_BY, Some(SENTINEL)),
        (RESOURCE, Some(&*header.resource)),
        (MANAGED_AT, is_first.then_some(&*time)),
        (LAST_UPDATED, Some(&*time)),
        (AUTH_MOUNT, header.auth_mount.as_deref()),
        (CLUSTER, header.cluster.as_deref()),
    ];
    keys.into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())))
        .collect()
}

/// The marker in `custom`, if there is one. Only seeds are marked this way, so it has no kind.
pub(crate) fn found(custom: &BTreeMap<String, String>) -> Option<Marker> {
    let value = |key: &str| custom.get(key).cloned();
    (value(MANAGED_BY).as_deref() == Some(SENTINEL)).then(|| Marker {
        auth_mount: value(AUTH_MOUNT),
        cluster: value(CLUSTER),
        resource: value(RESOURCE),
        kind: Some(KIND.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner;

    fn header() -> Header {
        Header {
            auth_mount: Some("kubernetes".to_owned()),
            cluster: None,
            resource: "team-a/seed".to_owned(),
            kind: KIND.to_owned(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millisecond(second * 1000 + 17).unwrap()
    }

    #[test]
    fn a_marker_reads_back() {
        let keys = keys(&header(), true, at(0));
        assert_eq!(found(&keys), Some(owner::marker(&header())));
        assert_eq!(keys["managed-by"], "vault-access-operator");
        assert_eq!(keys["managed-at"], "1970-01-01T00:00:00Z");
        assert!(!keys.contains_key("cluster"));
    }

    #[test]
    fn a_second_marker_keeps_managed_at() {
        let second = keys(&header(), false, at(60));
        assert!(!second.contains_key("managed-at"));
        assert_eq!(second["last-updated"], "1970-01-01T00:01:00Z");
    }

    #[test]
    fn keys_of_others_are_no_marker() {
        let others = [("managed-by".to_owned(), "terraform".to_owned())].into();
        assert_eq!(found(&others), None);
        assert_eq!(found(&BTreeMap::new()), None);
    }
}
