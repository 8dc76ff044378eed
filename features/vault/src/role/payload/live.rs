//! What a role in Vault tells us.

use api::vault::RoleFamily;
use serde_json::{Map, Value};

use super::Payload;

/// The family of a role, by what only roles for JWTs say.
pub(crate) fn family(live: &Map<String, Value>) -> RoleFamily {
    if live.contains_key("user_claim") {
        RoleFamily::Jwt
    } else {
        RoleFamily::Kubernetes
    }
}

/// Fields that were sent to say something, and that the role read after it does not have: the
/// server does not know them. The marker is not asked for, since many servers drop it.
///
/// # When not to use it
/// For a role that others may have edited since the write: Vault leaves an empty `audience` out, so
/// one that was cleared looks like one that was never kept. A field with another value is an edit.
pub(crate) fn not_echoed(sent: &Payload, live: &Map<String, Value>) -> Vec<String> {
    let sent = sent.canonical();
    let lost = sent
        .fields()
        .keys()
        .filter(|field| !live.contains_key(**field));
    lost.map(|field| (*field).to_owned()).collect()
}
