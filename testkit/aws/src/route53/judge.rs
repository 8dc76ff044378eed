//! Whose a record is, by the TXT record beside it.

use sha2::{Digest as _, Sha256};

use super::batch::{Action, Change};
use super::record::{Data, RecordSet};
use super::zones::Zone;
use crate::oracle::{Declared, Living};
use crate::service::Leak;
use crate::shelf::View;

const PREFIX: &str = "_pontoon-owner";
/// The longest name, its final dot not counted.
const LONGEST: usize = 253;

/// Cluster and object an ownership record names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) cluster: String,
    pub(crate) object: String,
}

/// The name of the ownership record beside `name` in `zone`; all as kept.
pub(crate) fn owner_name(name: &str, zone: &str) -> String {
    let plain = name.replace("\\052", "_wildcard");
    let beside = format!("{PREFIX}.{plain}");
    if beside.trim_end_matches('.').len() <= LONGEST {
        return beside;
    }
    let named = name.trim_end_matches('.').replace("\\052", "*");
    let digest = Sha256::digest(named.as_bytes());
    let (head, _) = digest.split_at(8);
    let number = head
        .iter()
        .fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    format!("{PREFIX}-{number:016x}.{zone}")
}

/// The owner a TXT record of ours names; `None` for all other records.
pub(crate) fn owner(record: &RecordSet) -> Option<Owner> {
    let Data::Values { values, .. } = &record.data else {
        return None;
    };
    if record.kind != "TXT" || !record.name.starts_with(PREFIX) {
        return None;
    }
    // A long value comes in several strings; together they are one text.
    let joined: String = values.first()?.split('"').skip(1).step_by(2).collect();
    let fields: Vec<_> = joined
        .split(',')
        .filter_map(|field| field.split_once('='))
        .collect();
    let value = |name: &str| {
        let mut found = fields.iter().filter(|(key, _)| *key == name);
        found.next().map(|(_, value)| (*value).to_owned())
    };
    (value("heritage")? == "pontoon").then_some(Owner {
        cluster: value("owner")?,
        object: value("resource")?,
    })
}

/// The changes of a batch that touch what is not ours: which rule, and which record.
pub(crate) fn foreign(
    zone: &Zone,
    changes: &[Change],
    declared: &Declared,
) -> Vec<(&'static str, String)> {
    let touched = changes.iter().flat_map(|Change { action, record }| {
        let there = zone.records.get(&record.key(), View::Live);
        let (rule, there): (_, Vec<_>) = match action {
            Action::Delete => ("foreignDeleted", there.into_iter().collect()),
            Action::Upsert if there.is_some() => ("foreignChanged", there.into_iter().collect()),
            Action::Create | Action::Upsert => ("foreignClaimed", claimed(zone, record)),
        };
        let foreign = there
            .into_iter()
            .filter(|there| !is_ours(zone, there, declared));
        foreign
            .map(|there| (rule, there.told()))
            .collect::<Vec<_>>()
    });
    touched.collect()
}

/// The records that were there before calls made any, beside a new ownership record.
fn claimed<'a>(zone: &'a Zone, record: &RecordSet) -> Vec<&'a RecordSet> {
    let beside = record
        .name
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.strip_prefix('.'))
        .filter(|_| owner(record).is_some());
    let Some(beside) = beside else {
        return Vec::new();
    };
    let name = beside.replace("_wildcard.", "\\052.");
    let leading = |one: &&RecordSet| ["CNAME", "A", "AAAA"].contains(&one.kind.as_str());
    let there = zone.at(&name).filter(leading);
    there.filter(|one| one.seeded).collect()
}

fn is_ours(zone: &Zone, record: &RecordSet, declared: &Declared) -> bool {
    let own =
        |record: &RecordSet| owner(record).is_some_and(|owner| declared.is_ours(&owner.cluster));
    let beside = || {
        let txt = zone.record(&owner_name(&record.name, &zone.name), "TXT");
        txt.is_some_and(own)
    };
    own(record) || beside() || declared.owns(&names(record).each_ref().map(String::as_str))
}

/// The names a test may call a record by: with and without its dot, and as a wildcard.
fn names(record: &RecordSet) -> [String; 3] {
    let bare = record.name.trim_end_matches('.').to_owned();
    let star = bare.replace("\\052", "*");
    [record.name.clone(), bare, star]
}

/// Our records without a living object, and records written by calls that nobody owns.
pub(crate) fn leaks(zone: &Zone, declared: &Declared, living: &Living) -> Vec<Leak> {
    let all = zone.records.list(View::Live);
    let leaked = all.filter_map(|(_, record)| {
        let names = names(record);
        if living.retains(&names.each_ref().map(String::as_str)) {
            return None;
        }
        let told = format!("{} in zone {}", record.told(), zone.id);
        if let Some(owner) = owner(record) {
            let lost =
                declared.is_ours(&owner.cluster) && !living.has(&owner.cluster, &owner.object);
            return lost.then(|| Leak {
                kind: "ownerRecord",
                detail: format!("{told} of {}", owner.object),
            });
        }
        let beside = zone.record(&owner_name(&record.name, &zone.name), "TXT");
        match beside.and_then(owner) {
            Some(Owner { cluster, object }) => {
                let lost = declared.is_ours(&cluster) && !living.has(&cluster, &object);
                lost.then(|| Leak {
                    kind: "record",
                    detail: format!("{told} of {object}"),
                })
            }
            None => (!record.seeded).then(|| Leak {
                kind: "record",
                detail: format!("{told}, written by a call and owned by nobody"),
            }),
        }
    });
    leaked.collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rstest::rstest;

    use super::super::name;
    use super::*;

    fn txt(name: &str, value: &str) -> RecordSet {
        RecordSet {
            name: name::kept(name).expect("a name"),
            kind: "TXT".to_owned(),
            set: None,
            weight: None,
            data: Data::Values {
                ttl: 300,
                values: vec![value.to_owned()],
            },
            settles: Timestamp::MIN,
            seeded: false,
        }
    }

    #[rstest]
    #[case::ours("\"heritage=pontoon,owner=c1,resource=web/acme\"", true)]
    #[case::in_two_strings("\"heritage=pontoon,owner=c1,res\" \"ource=web/acme\"", true)]
    #[case::of_external_dns("\"heritage=external-dns,external-dns/owner=x\"", false)]
    #[case::something_else("\"v=spf1\"", false)]
    fn an_owner_is_read(#[case] value: &str, #[case] found: bool) {
        let expected = found.then(|| Owner {
            cluster: "c1".to_owned(),
            object: "web/acme".to_owned(),
        });
        assert_eq!(owner(&txt("_pontoon-owner.a.example.com", value)), expected);
        assert_eq!(owner(&txt("a.example.com", value)), None);
    }

    #[test]
    fn the_owner_lies_beside_its_name_or_by_digest_in_the_zone() {
        assert_eq!(
            owner_name("a.example.com.", "example.com."),
            "_pontoon-owner.a.example.com."
        );
        assert_eq!(
            owner_name("\\052.example.com.", "example.com."),
            "_pontoon-owner._wildcard.example.com."
        );
        let long = vec!["a".repeat(60); 4].join(".") + ".";
        let name = owner_name(&long, "example.com.");
        let digest = name
            .strip_prefix("_pontoon-owner-")
            .and_then(|rest| rest.strip_suffix(".example.com."));
        assert_eq!(digest.map(str::len), Some(16), "{name}");
    }
}
