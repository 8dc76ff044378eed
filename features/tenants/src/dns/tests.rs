//! What tests of this module share: records, sets and answers written as words.

mod answers;
mod chance;
mod hold;
mod laws;
mod model;
mod others;
mod removal;
mod stories;

use api::tenants::{DnsRecord, RecordState, RecordType};
use aws::route53::zone_writer::batch::{self, Batch, Load};
use aws::route53::zone_writer::{ZoneAccess, ZoneRole};
use kernel::{ClusterId, ObjectKey};

use super::owner::Owner;
use super::record::{Action, Change, Content, Kind, RecordSet};
use super::{Bundle, Spot, Zone};

pub(super) const D0: &str = "d0.cloudfront.net";
pub(super) const A: &str = "a.example.com";
const MARK: &str = "_pontoon-owner.a.example.com";

pub(super) fn owner() -> Owner {
    let cluster = ClusterId::new("c1").expect("a cluster");
    Owner::new(&cluster, &ObjectKey::namespaced("web", "acme"))
}

pub(super) fn zone(id: &str, name: &str) -> Zone {
    Zone {
        id: id.to_owned(),
        name: name.to_owned(),
        private: false,
    }
}

pub(super) fn zone_access(zone: &str) -> ZoneAccess {
    ZoneAccess {
        zone: zone.to_owned(),
        login: ZoneRole::default(),
    }
}

pub(super) fn a_spot() -> Spot {
    Spot {
        zone: "Z1".to_owned(),
        name: A.to_owned(),
    }
}

pub(super) fn a_bundle() -> Bundle {
    Bundle {
        place: zone_access("Z1"),
        name: A.to_owned(),
        changes: vec![Change::create(RecordSet::of(&cname(A, 300, D0)))],
    }
}

/// All batches of these bundles.
fn packed(bundles: impl IntoIterator<Item = Bundle>) -> Vec<Batch<Bundle>> {
    let loads = bundles.into_iter().map(|bundle| Load {
        set: (&bundle).into(),
        from: bundle,
    });
    let mut queue = loads.collect();
    std::iter::from_fn(|| batch::next(&mut queue, |_| true, |_, _| true)).collect()
}

fn planned(kind: RecordType, name: &str, ttl: Option<i64>, target: &str) -> DnsRecord {
    DnsRecord {
        zone_id: "Z1".to_owned(),
        name: name.to_owned(),
        kind,
        ttl,
        target: target.to_owned(),
        role_arn: None,
        external_id: None,
        state: RecordState::Planned,
        change_id: None,
    }
}

pub(super) fn cname(name: &str, ttl: i64, target: &str) -> DnsRecord {
    planned(RecordType::Cname, name, Some(ttl), target)
}

pub(super) fn alias(kind: RecordType, name: &str, target: &str) -> DnsRecord {
    planned(kind, name, None, target)
}

/// A set at `a.example.com` with these values.
pub(super) fn foreign(kind: &str, values: &[&str]) -> RecordSet {
    RecordSet {
        name: A.to_owned(),
        kind: Kind::of(kind),
        content: Content::Values {
            ttl: 300,
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        },
        routed: false,
    }
}

pub(super) fn txt(name: &str, values: &[&str]) -> RecordSet {
    RecordSet {
        name: name.to_owned(),
        ..foreign("TXT", values)
    }
}

/// `d0` is the endpoint of that name; all else stays.
fn endpoint(word: &str) -> String {
    match word {
        "d0" | "d1" | "d2" => format!("{word}.cloudfront.net"),
        other => other.to_owned(),
    }
}

fn told(target: &str) -> &str {
    target.strip_suffix(".cloudfront.net").unwrap_or(target)
}

/// Records from `CNAME d0 300 + A d0`, and `Applied CNAME d0 300 C1` with state and change.
pub(super) fn records(text: &str) -> Vec<DnsRecord> {
    let entries = text.split(" + ").filter(|entry| !entry.is_empty());
    let records = entries.map(|entry| {
        let mut words = entry.split(' ').peekable();
        let state = match words.peek() {
            Some(&"Planned") => Some(RecordState::Planned),
            Some(&"Applied") => Some(RecordState::Applied),
            Some(&"Deleting") => Some(RecordState::Deleting),
            _ => None,
        };
        words.next_if(|_| state.is_some());
        let Kind::Pointer(kind) = Kind::of(words.next().expect("a type")) else {
            panic!("{entry} leads nowhere");
        };
        let target = endpoint(words.next().expect("a target"));
        let ttl = words.next_if(|_| kind == RecordType::Cname);
        let ttl = ttl.map(|ttl| ttl.parse().expect("a number"));
        DnsRecord {
            state: state.unwrap_or(RecordState::Planned),
            change_id: words.next().map(str::to_owned),
            ..planned(kind, A, ttl, &target)
        }
    });
    records.collect()
}

/// Records in the words of [`records`].
fn written(records: &[DnsRecord]) -> String {
    let entries = records.iter().map(|record| {
        let state = match record.state {
            RecordState::Planned => "Planned",
            RecordState::Applied => "Applied",
            RecordState::Deleting => "Deleting",
        };
        let ttl = record.ttl.map(|ttl| format!(" {ttl}")).unwrap_or_default();
        let change = record.change_id.as_ref().map(|id| format!(" {id}"));
        let (kind, target) = (record.kind.as_str(), told(&record.target));
        format!("{state} {kind} {target}{ttl}{}", change.unwrap_or_default())
    });
    entries.collect::<Vec<_>>().join(" + ")
}

/// Live sets from `CNAME x.net 300 + A d0 + MX m 300 + mark ours + external-dns`.
///
/// `routed` before a set makes it one of several; a mark is `ours`, `other` or `text`, and `odd` is
/// ours with another ttl.
pub(super) fn sets(text: &str) -> Vec<RecordSet> {
    let entries = text.split(" + ").filter(|entry| !entry.is_empty());
    entries.map(set).collect()
}

fn set(entry: &str) -> RecordSet {
    let words: Vec<_> = entry.split(' ').collect();
    match words.as_slice() {
        ["routed", ..] => RecordSet {
            routed: true,
            ..set(entry.strip_prefix("routed ").expect("it begins so"))
        },
        ["mark", "ours"] => RecordSet::txt(MARK, owner().txt()),
        ["mark", "odd"] => txt_with_ttl(60),
        ["mark", "other"] => txt(MARK, &["\"heritage=pontoon,owner=c2,resource=a/b\""]),
        ["mark", "text"] => txt(MARK, &["\"hello\""]),
        ["external-dns"] => txt(
            "cname-a.example.com",
            &["\"heritage=external-dns,external-dns/owner=x\""],
        ),
        [kind, value, ttl] => RecordSet {
            content: Content::Values {
                ttl: ttl.parse().expect("a number"),
                values: vec![endpoint(value)],
            },
            ..foreign(kind, &[])
        },
        [_, _] => RecordSet::of(&records(entry)[0]),
        _ => panic!("what is {entry:?}?"),
    }
}

fn txt_with_ttl(ttl: i64) -> RecordSet {
    let values = vec![owner().txt()];
    RecordSet {
        content: Content::Values { ttl, values },
        ..txt(MARK, &[])
    }
}

/// Changes as `CREATE CNAME d0 300, DELETE mark`.
fn changes(bundles: &[Bundle]) -> String {
    let changes = bundles.iter().flat_map(|bundle| &bundle.changes);
    let told = changes.map(|Change { action, set }| {
        let action = match action {
            Action::Create => "CREATE",
            Action::Upsert => "UPSERT",
            Action::Delete => "DELETE",
        };
        let value = match (&set.content, &set.kind) {
            (_, Kind::Txt) => return format!("{action} mark"),
            (Content::Values { ttl, values }, _) => format!("{} {ttl}", told(&values.join(","))),
            (Content::Alias { target, .. }, _) => told(target).to_owned(),
        };
        format!("{action} {} {value}", set.kind.as_str())
    });
    told.collect::<Vec<_>>().join(", ")
}
