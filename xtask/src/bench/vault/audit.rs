//! The requests to the API server, from its audit log: one clock for all of them.

use std::collections::HashMap;

use jiff::Timestamp;
use testkit::Entry;

use super::pairs::Kind;

/// Whether it writes the status of a policy or a role.
pub(super) fn is_status(entry: &Entry) -> bool {
    is_of_pair(entry) && entry.is_write() && entry.subresource == "status"
}

/// Whether it changes a policy or a role itself.
pub(super) fn is_patch(entry: &Entry) -> bool {
    is_of_pair(entry) && entry.verb == "patch" && entry.subresource.is_empty()
}

/// Whether it is about the login of a connection: the request for a token, Vault's review of the token
/// with the operator's account, and the connection's status.
pub(super) fn is_upkeep(entry: &Entry) -> bool {
    (entry.resource == "serviceaccounts" && entry.subresource == "token")
        || entry.resource == "tokenreviews"
        || (entry.resource == "vaultconnections" && entry.subresource == "status")
}

fn is_of_pair(entry: &Entry) -> bool {
    Kind::BOTH
        .iter()
        .any(|kind| kind.plural() == entry.resource)
}

/// Seconds from the first create of a policy or a role to the last status, if there are both.
pub(super) fn lasted(entries: &[Entry]) -> Option<f64> {
    let is_create = |one: &&Entry| is_of_pair(one) && one.verb == "create";
    let first = entries.iter().filter(is_create).map(|one| one.time).min()?;
    let statuses = entries.iter().filter(|one| is_status(one));
    let last = statuses.map(|one| one.time).max()?;
    Some(last.duration_since(first).as_secs_f64())
}

/// Milliseconds between the API server's receipt of each edit and of the next status of the same
/// object; none for an edit without a later status.
pub(super) fn waits(writes: &[Entry]) -> Vec<Option<f64>> {
    let mut statuses: HashMap<_, Vec<Timestamp>> = HashMap::new();
    for entry in writes.iter().filter(|one| is_status(one)) {
        statuses.entry(object(entry)).or_default().push(entry.time);
    }
    let wait = |edit: &Entry| {
        let times = statuses.get(&object(edit))?.iter();
        let next = times.filter(|time| **time >= edit.time).min()?;
        Some(next.duration_since(edit.time).as_secs_f64() * 1000.0)
    };
    let edits = writes.iter().filter(|one| is_edit(one));
    edits.map(wait).collect()
}

fn object(entry: &Entry) -> (&str, &str, &str) {
    (&entry.resource, &entry.namespace, &entry.name)
}

/// The bench edits by merge patches; the operator changes only new objects.
fn is_edit(entry: &Entry) -> bool {
    entry.group == "vault.platform.io" && entry.verb == "patch" && entry.subresource.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, subresource: &str, milliseconds: i64) -> Entry {
        Entry {
            time: Timestamp::from_millisecond(milliseconds).unwrap(),
            verb: "patch".into(),
            user: String::new(),
            user_agent: String::new(),
            group: "vault.platform.io".into(),
            resource: "vaultpolicies".into(),
            subresource: subresource.into(),
            namespace: "team-a".into(),
            name: name.into(),
            code: 200,
            request_uri: String::new(),
        }
    }

    #[test]
    fn creation_lasts_from_the_first_create_to_the_last_status() {
        let create = |milliseconds| Entry {
            verb: "create".into(),
            ..entry("a", "", milliseconds)
        };
        let other = Entry {
            resource: "vaultconnections".into(),
            ..entry("main", "status", 9_000)
        };
        let entries = [
            create(2_000),
            create(1_000),
            entry("a", "status", 4_500),
            entry("b", "status", 3_000),
            other,
        ];
        assert_eq!(lasted(&entries), Some(3.5));
        assert_eq!(lasted(&entries[..2]), None);
    }

    #[test]
    fn an_edit_waits_for_the_next_status_of_its_own_object() {
        let writes = [
            entry("a", "status", 90), // of before
            entry("a", "", 100),
            entry("b", "status", 105),
            entry("a", "status", 130),
            entry("a", "", 200),
            entry("a", "status", 210),
        ];
        assert_eq!(waits(&writes), [Some(30.0), Some(10.0)]);
    }

    #[test]
    fn an_edit_without_a_status_has_no_wait() {
        let writes = [entry("a", "status", 90), entry("a", "", 100)];
        assert_eq!(waits(&writes), [None]);
    }
}
