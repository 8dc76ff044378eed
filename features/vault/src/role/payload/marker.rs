//! Our sign on a role: `alias_metadata`, with the keys of a policy's header.
//!
//! Servers that do not know the field drop it without a word; a role there has no marker.

use serde_json::{Map, Value};

use crate::language::text::{Header, Marker, SENTINEL};

/// Where it is.
pub(super) const FIELD: &str = "alias_metadata";
const MANAGED_BY: &str = "managed-by";
const AUTH_MOUNT: &str = "auth-mount";
const CLUSTER: &str = "cluster";
const RESOURCE: &str = "k8s-resource";
const KIND: &str = "k8s-kind";

/// The marker as it is sent.
pub(super) fn written(header: &Header) -> Value {
    let Header {
        auth_mount,
        cluster,
        resource,
        kind,
    } = header;
    let keys = [
        (MANAGED_BY, Some(SENTINEL)),
        (AUTH_MOUNT, auth_mount.as_deref()),
        (CLUSTER, cluster.as_deref()),
        (RESOURCE, Some(resource)),
        (KIND, Some(kind)),
    ];
    let given = keys
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?.into())));
    Value::Object(given.collect())
}

/// The marker of a role in Vault, if it is one of ours or of another cluster's operator.
pub(crate) fn marker(live: &Map<String, Value>) -> Option<Marker> {
    let found = live.get(FIELD)?.as_object()?;
    let value = |key| found.get(key).and_then(Value::as_str).map(str::to_owned);
    (value(MANAGED_BY).as_deref() == Some(SENTINEL)).then(|| Marker {
        auth_mount: value(AUTH_MOUNT),
        cluster: value(CLUSTER),
        resource: value(RESOURCE),
        kind: value(KIND),
    })
}
