//! The writes to the API server, from its audit log.

use std::collections::BTreeMap;

use testkit::Entry;

use super::crowd::PLURAL;

/// How many unexpected writes are shown.
const SHOWN: usize = 5;

fn is_of_tenant(entry: &Entry) -> bool {
    entry.resource == PLURAL
}

/// How often each tenant's object was written, including finalizer, status and refused attempts.
#[derive(Debug, Default)]
pub(super) struct Written {
    counts: BTreeMap<(String, String), u32>,
}

impl Written {
    /// Counts the operator's writes.
    pub(super) fn among(writes: &[Entry]) -> Self {
        let mut counts: BTreeMap<_, u32> = BTreeMap::new();
        for write in writes.iter().filter(|one| is_of_tenant(one)) {
            let object = (write.namespace.clone(), write.name.clone());
            *counts.entry(object).or_default() += 1;
        }
        Self { counts }
    }

    /// The most writes of one object.
    pub(super) fn most(&self) -> f64 {
        let most = self.counts.values().max();
        f64::from(most.copied().unwrap_or_default())
    }

    /// How many objects were written how often, as text.
    pub(super) fn summary(&self) -> String {
        let mut objects: BTreeMap<u32, usize> = BTreeMap::new();
        for count in self.counts.values() {
            *objects.entry(*count).or_default() += 1;
        }
        let summary = objects
            .iter()
            .map(|(writes, objects)| format!("{objects} objects {writes} times"));
        summary.collect::<Vec<_>>().join(", ")
    }
}

/// Seconds from the first create of a tenant to the last status of one, if there are both.
pub(super) fn lasted(entries: &[Entry]) -> Option<f64> {
    let of_tenants = || entries.iter().filter(|one| is_of_tenant(one));
    let creates = of_tenants().filter(|one| one.verb == "create");
    let statuses = of_tenants().filter(|one| one.is_write() && one.subresource == "status");
    let first = creates.map(|one| one.time).min()?;
    let last = statuses.map(|one| one.time).max()?;
    Some(last.duration_since(first).as_secs_f64())
}

/// Unexpected writes, as text.
pub(super) fn shown(writes: &[Entry]) -> impl Iterator<Item = String> {
    let shown = |write: &Entry| format!("  {} {} {}", write.verb, write.code, write.request_uri);
    writes.iter().take(SHOWN).map(shown)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn entry(verb: &str, name: &str, subresource: &str, second: i64) -> Entry {
        Entry {
            time: Timestamp::from_second(second).unwrap(),
            verb: verb.into(),
            user: String::new(),
            user_agent: String::new(),
            group: "cloudfront-tenant-operator.io".into(),
            resource: PLURAL.into(),
            subresource: subresource.into(),
            namespace: "web".into(),
            name: name.into(),
            code: 200,
            request_uri: String::new(),
        }
    }

    #[test]
    fn finalizer_and_status_count_and_events_do_not() {
        let event = Entry {
            resource: "events".into(),
            ..entry("create", "a", "", 3)
        };
        let writes = [
            entry("patch", "a", "", 1),
            entry("patch", "a", "status", 2),
            entry("patch", "b", "status", 2),
            event,
        ];
        let written = Written::among(&writes);
        assert!((written.most() - 2.0).abs() < f64::EPSILON);
        assert_eq!(written.summary(), "1 objects 1 times, 1 objects 2 times");
    }

    #[test]
    fn creation_lasts_from_the_first_create_to_the_last_status() {
        let entries = [
            entry("create", "a", "", 2),
            entry("create", "b", "", 3),
            entry("patch", "b", "status", 9),
            entry("patch", "a", "status", 8),
        ];
        assert_eq!(lasted(&entries), Some(7.0));
        assert_eq!(lasted(&entries[..2]), None);
    }
}
