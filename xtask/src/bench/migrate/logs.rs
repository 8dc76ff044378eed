//! The logs of both API servers and of EC2, and what to look for in them.

use std::ops::RangeBounds;

use jiff::Timestamp;
use serde::Deserialize;
use testkit::Entry;

use super::setup::ROLE;

/// The accounts of the operator, in its own cluster and in those of a run, begin with this.
const OPERATOR: &str = "system:serviceaccount:pontoon";
/// The controllers of a cluster.
pub(super) const CONTROLLERS: &str = "system:serviceaccount:kube-system:";
/// The nodes and the attacher of a cluster.
pub(super) const SIMULATORS: &str = "system:disk-simulators";

/// What happened in both clusters and in EC2.
#[derive(Debug, Default)]
pub(super) struct Logs {
    pub(super) source: Vec<Entry>,
    pub(super) destination: Vec<Entry>,
    pub(super) calls: Vec<Call>,
    pub(super) disks: Vec<DiskEvent>,
}

/// A call of AWS.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Call {
    pub(super) seq: u64,
    pub(super) time: Timestamp,
    caller: Option<String>,
    operation: Option<String>,
    body: String,
}

/// What happened to a disk.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct DiskEvent {
    pub(super) time: Timestamp,
    pub(super) event: String,
    #[serde(default)]
    pub(super) volume: String,
}

impl Call {
    /// Whether the operator reads volumes.
    pub(super) fn is_read(&self) -> bool {
        self.is_of_operator() && self.operation.as_deref() == Some("DescribeVolumes")
    }

    /// Whether the operator changes something.
    pub(super) fn is_write(&self) -> bool {
        let operation = self.operation.as_deref().unwrap_or_default();
        self.is_of_operator()
            && !["Describe", "Get"]
                .iter()
                .any(|read| operation.starts_with(read))
    }

    fn is_of_operator(&self) -> bool {
        self.caller.as_deref() == Some(ROLE)
    }

    /// Whether it is about a disk.
    pub(super) fn names(&self, disk: &str) -> bool {
        self.body.contains(disk)
    }
}

/// A successful write of an object, dry runs left out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sought<'a> {
    /// The user begins with this.
    user: &'a str,
    verb: &'a str,
    resource: &'a str,
    subresource: &'a str,
    /// Empty for objects of the whole cluster.
    namespace: &'a str,
    name: Option<&'a str>,
}

impl<'a> Sought<'a> {
    /// A write by somebody whose name begins with `user`.
    pub(super) fn by(user: &'a str, verb: &'a str, resource: &'a str, namespace: &'a str) -> Self {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Self {
            user,
            verb,
            resource,
            subresource,
            namespace,
            name: None,
        }
    }

    /// A write by the operator.
    pub(super) fn ours(verb: &'a str, resource: &'a str, namespace: &'a str) -> Self {
        Self::by(OPERATOR, verb, resource, namespace)
    }

    /// Of this object alone.
    pub(super) fn named(self, name: &'a str) -> Self {
        Self {
            name: Some(name),
            ..self
        }
    }

    fn is(&self, entry: &Entry) -> bool {
        entry.user.starts_with(self.user)
            && entry.verb == self.verb
            && entry.resource == self.resource
            && entry.subresource == self.subresource
            && entry.namespace == self.namespace
            && self.name.is_none_or(|name| entry.name == name)
            && entry.code < 300
            && !entry.request_uri.contains("dryRun=")
    }

    /// The first such write within `span`.
    pub(super) fn first(
        &self,
        entries: &[Entry],
        span: impl RangeBounds<Timestamp>,
    ) -> Option<Timestamp> {
        self.times(entries, span).min()
    }

    /// The last such write within `span`.
    pub(super) fn last(
        &self,
        entries: &[Entry],
        span: impl RangeBounds<Timestamp>,
    ) -> Option<Timestamp> {
        self.times(entries, span).max()
    }

    fn times(
        &self,
        entries: &[Entry],
        span: impl RangeBounds<Timestamp>,
    ) -> impl Iterator<Item = Timestamp> {
        let found = entries.iter().filter(|entry| self.is(entry));
        let times = found.map(|entry| entry.time);
        times.filter(move |time| span.contains(time))
    }
}

/// Whether the operator has tried to write this, Leases left out. Refused attempts and dry runs count.
pub(super) fn is_write_of_operator(entry: &Entry) -> bool {
    entry.user.starts_with(OPERATOR) && entry.is_write() && !entry.is_lease()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn at(millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(millisecond).unwrap()
    }

    /// `<user> <verb> <resource>[/<subresource>] [<namespace>/]<name>`
    pub(in super::super) fn entry(millisecond: i64, text: &str) -> Entry {
        let parts: Vec<&str> = text.split(' ').collect();
        let [user, verb, resource, name] = parts[..] else {
            panic!("four words: {text}");
        };
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        Entry {
            time: at(millisecond),
            verb: verb.into(),
            user: match user {
                "pontoon" => "system:serviceaccount:pontoon-migrate:pontoon-migrate-source".into(),
                "controller" => format!("{CONTROLLERS}statefulset-controller"),
                "simulator" => SIMULATORS.into(),
                other => other.into(),
            },
            user_agent: String::new(),
            group: String::new(),
            resource: resource.into(),
            subresource: subresource.into(),
            namespace: namespace.into(),
            name: name.into(),
            code: 200,
            request_uri: String::new(),
        }
    }

    #[test]
    fn neither_a_dry_run_nor_a_refusal_is_an_effect() {
        let effect = entry(3, "pontoon patch statefulsets shop/web");
        let dry = Entry {
            request_uri: "/x?dryRun=All".into(),
            ..entry(1, "pontoon patch statefulsets shop/web")
        };
        let refused = Entry {
            code: 409,
            ..entry(2, "pontoon patch statefulsets shop/web")
        };
        let entries = [dry, refused, effect];
        let patch = Sought::ours("patch", "statefulsets", "shop").named("web");
        assert_eq!(patch.first(&entries, ..), Some(at(3)));
        assert_eq!(
            entries
                .iter()
                .filter(|one| is_write_of_operator(one))
                .count(),
            3
        );
    }

    #[test]
    fn first_and_last_are_those_within_the_span() {
        let patches = [5, 1, 9].map(|time| entry(time, "pontoon patch configmaps a/b"));
        let patch = Sought::ours("patch", "configmaps", "a");
        assert_eq!(patch.first(&patches, at(2)..), Some(at(5)));
        assert_eq!(patch.last(&patches, ..at(9)), Some(at(5)));
        assert_eq!(patch.first(&patches, at(10)..), None);
    }

    #[test]
    fn only_calls_of_the_operator_count() {
        let call = |caller: &str, operation: &str| Call {
            seq: 1,
            time: at(0),
            caller: Some(caller.to_owned()),
            operation: Some(operation.to_owned()),
            body: "Filter.1.Value.1=vol-1".to_owned(),
        };
        assert!(call(ROLE, "DescribeVolumes").is_read());
        assert!(!call("attacher-src", "DescribeVolumes").is_read());
        assert!(call(ROLE, "CreateTags").is_write());
        assert!(!call(ROLE, "DescribeVolumes").is_write());
        assert!(!call("attacher-src", "DetachVolume").is_write());
        assert!(call(ROLE, "DescribeVolumes").names("vol-1"));
    }
}
