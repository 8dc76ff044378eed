//! Places an object has left: which of what it remembers is elsewhere now, and what is kept. Pure.

use std::time::Duration;

use api::vault::{IntentKind, PreviousName, SyncStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Record, Target};
use crate::owner;
use crate::place::Place;

/// What a status remembers of the Vault at hand.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// Where the object is.
    pub(super) records: Vec<Record>,
    /// Where it was, and what is kept there for a while.
    pub(super) previous: Vec<PreviousName>,
}

impl Recorded {
    /// The record of what was last written to `place`, if the object is there.
    pub(super) fn current(&self, place: &Place) -> Option<&Record> {
        self.records.iter().find(|record| record.place.is(place))
    }

    /// What tells that `place` is ours. An object may move back to a place that it has left.
    pub(super) fn owner<'a>(&'a self, place: &'a Place) -> owner::Recorded<'a> {
        let current = self.current(place).map(|record| record.owner.as_deref());
        let is_it = |entry: &&PreviousName| {
            let named = entry.vault_path.as_deref().and_then(Place::parse);
            named.is_some_and(|named| named.is(place))
        };
        let previous = self.previous.iter().find(is_it);
        let previous = previous.map(|entry| entry.owner.as_deref());
        let recorded = current.or(previous);
        owner::Recorded {
            owner: recorded.flatten(),
            name: recorded.map(|_| place.name()),
        }
    }
}

/// Where an object was and is no longer, once its targets are true.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    /// Kept for a while: tokens were issued under it.
    pub(super) moved: Vec<Record>,
    /// Not wanted any more: nothing took its place.
    pub(super) dropped: Vec<Record>,
}

/// Tells moves from removals: what has a successor in the same slot has moved.
pub(super) fn left(records: &[Record], elsewhere: &[Record], targets: &[&Target]) -> Left {
    let mut left = Left {
        moved: elsewhere.to_vec(),
        dropped: Vec::new(),
    };
    for record in records {
        if targets.iter().any(|target| target.place.is(&record.place)) {
            continue;
        }
        if targets.iter().any(|target| target.slot == record.slot) {
            left.moved.push(record.clone());
        } else {
            left.dropped.push(record.clone());
        }
    }
    left
}

/// Where an open create is announced that the object does not want any more and that is not on record;
/// with the hash of what was to be created.
pub(super) fn abandoned(
    sync: &SyncStatus,
    records: &[Record],
    targets: &[Target],
) -> Option<(Place, String)> {
    let intent = sync.intent.as_ref();
    let create = intent.filter(|intent| intent.kind == Some(IntentKind::Create))?;
    let at = create.vault_path.as_deref().and_then(Place::parse)?;
    let earlier = sync.previous_names.iter();
    let mut earlier = earlier.filter_map(|entry| Place::parse(entry.vault_path.as_deref()?));
    let is_known = targets.iter().any(|target| target.place.is(&at))
        || records.iter().any(|record| record.place.is(&at))
        || earlier.any(|earlier| earlier.is(&at));
    let hash = create.canonical_hash.clone().unwrap_or_default();
    (!is_known).then_some((at, hash))
}

/// Whether an entry names a place where the object is now: what is there must not go when the grace
/// of the entry ends. `is_here` tells of a connection whether it leads to the Vault at hand.
pub(super) fn is_current(
    entry: &PreviousName,
    targets: &[&Target],
    is_here: impl Fn(Option<&str>) -> bool,
) -> bool {
    let place = entry.vault_path.as_deref().and_then(Place::parse);
    let is_target = place.is_some_and(|place| targets.iter().any(|target| target.place.is(&place)));
    is_target && is_here(entry.connection.as_deref())
}

/// The earlier places after a move: what was left is added, what was returned to is not kept apart.
pub(super) fn kept(
    previous: &[PreviousName],
    moved: &[Record],
    targets: &[&Target],
    connection: &str,
    is_here: impl Fn(Option<&str>) -> bool,
    until: Timestamp,
) -> Vec<PreviousName> {
    let is_current = |entry: &PreviousName| is_current(entry, targets, &is_here);
    let mut kept: Vec<PreviousName> = previous
        .iter()
        .filter(|entry| !is_current(entry))
        .cloned()
        .collect();
    for record in moved {
        let entry = PreviousName {
            vault_path: Some(record.place.to_string()),
            connection: Some(
                record
                    .connection
                    .clone()
                    .unwrap_or_else(|| connection.to_owned()),
            ),
            owner: record.owner.clone(),
            until: Some(Time(until)),
        };
        let same = |known: &PreviousName| {
            known.vault_path == entry.vault_path && known.connection == entry.connection
        };
        if !is_current(&entry) && !kept.iter().any(same) {
            kept.push(entry);
        }
    }
    kept
}

/// How long until the next grace ends. What is kept past its grace waits for others: its pass comes
/// when they change, or with the resync.
pub(super) fn next_end(previous: &[PreviousName], now: Timestamp) -> Option<Duration> {
    let ends = previous.iter().filter_map(|entry| entry.until.as_ref());
    let next = ends.map(|until| until.0).filter(|end| *end > now).min()?;
    Duration::try_from(next.duration_since(now)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::policy::Policy;
    use crate::place::Wanted;
    use api::vault::Intent;
    use rstest::rstest;

    fn place(name: &str) -> Place {
        Place::Policy {
            name: name.to_owned(),
        }
    }

    fn record(name: &str, slot: Option<&str>) -> Record {
        Record {
            place: place(name),
            slot: slot.map(str::to_owned),
            hash: None,
            sent: None,
            owner: None,
            connection: None,
        }
    }

    fn target(name: &str, slot: Option<&str>) -> Target {
        Target {
            place: place(name),
            slot: slot.map(str::to_owned),
            wanted: Wanted::Policy {
                text: String::new(),
                canonical: Policy::parse("").unwrap(),
            },
        }
    }

    #[test]
    fn what_has_a_successor_has_moved_and_what_has_none_is_dropped() {
        let records = [
            record("same", None),
            record("old", Some("a")),
            record("gone", Some("b")),
        ];
        let targets = [target("SAME", None), target("new", Some("a"))];
        let left = left(&records, &[], &targets.iter().collect::<Vec<_>>());
        assert_eq!(left.moved, [records[1].clone()]);
        assert_eq!(left.dropped, [records[2].clone()]);
    }

    #[rstest]
    #[case::elsewhere(IntentKind::Create, "elsewhere", true)]
    #[case::where_it_is_wanted(IntentKind::Create, "WANTED", false)]
    #[case::where_it_is_on_record(IntentKind::Create, "recorded", false)]
    #[case::at_an_earlier_place(IntentKind::Create, "earlier", false)]
    #[case::a_correction(IntentKind::Correct, "elsewhere", false)]
    fn an_announced_create_is_abandoned(
        #[case] kind: IntentKind,
        #[case] name: &str,
        #[case] expected: bool,
    ) {
        let sync = SyncStatus {
            intent: Some(Intent {
                kind: Some(kind),
                vault_path: Some(place(name).to_string()),
                canonical_hash: Some("h".to_owned()),
                ..Intent::default()
            }),
            previous_names: vec![PreviousName {
                vault_path: Some(place("earlier").to_string()),
                ..PreviousName::default()
            }],
            ..SyncStatus::default()
        };
        let (records, targets) = ([record("recorded", None)], [target("wanted", None)]);
        let found = abandoned(&sync, &records, &targets);
        assert_eq!(found, expected.then(|| (place(name), "h".to_owned())));
    }

    #[test]
    fn moving_back_swaps_the_places() {
        let until = Timestamp::UNIX_EPOCH;
        let new = target("new", None);
        let here = |_: Option<&str>| true;
        let kept_then = kept(&[], &[record("old", None)], &[&new], "c", here, until);
        assert_eq!(
            kept_then[0].vault_path.as_deref(),
            Some("sys/policies/acl/old")
        );
        let back = target("old", None);
        let moved = [record("new", None)];
        let kept_now = kept(&kept_then, &moved, &[&back], "c", here, until);
        assert_eq!(kept_now.len(), 1);
        assert_eq!(
            kept_now[0].vault_path.as_deref(),
            Some("sys/policies/acl/new")
        );
    }

    // The object is at `p` over the connection `c`; `alias` leads to the same Vault, `far` does not.
    #[rstest]
    #[case::over_the_same_connection("c", false)]
    #[case::over_another_to_the_same_vault("alias", false)]
    #[case::in_another_vault("far", true)]
    fn the_current_place_is_no_earlier_one(#[case] connection: &str, #[case] stays: bool) {
        let is_here = |name: Option<&str>| name != Some("far");
        let before = Record {
            connection: Some(connection.to_owned()),
            ..record("P", None)
        };
        let until = Timestamp::UNIX_EPOCH;
        let now = target("p", None);
        let added = kept(&[], &[before], &[&now], "c", is_here, until);
        assert_eq!(!added.is_empty(), stays, "added");
        let entry = PreviousName {
            vault_path: Some(place("P").to_string()),
            connection: Some(connection.to_owned()),
            ..PreviousName::default()
        };
        let kept = kept(&[entry], &[], &[&now], "c", is_here, until);
        assert_eq!(!kept.is_empty(), stays, "kept");
    }

    #[rstest]
    #[case::where_it_is("new", Some("new"), Some("new-owner"))]
    #[case::where_it_was("OLD", Some("OLD"), Some("old-owner"))]
    #[case::where_it_never_was("other", None, None)]
    fn a_recorded_place_is_ours_to_move_back_to(
        #[case] name: &str,
        #[case] recorded: Option<&str>,
        #[case] owner: Option<&str>,
    ) {
        let mut current = record("new", None);
        current.owner = Some("new-owner".to_owned());
        let previous = PreviousName {
            vault_path: Some(place("old").to_string()),
            owner: Some("old-owner".to_owned()),
            ..PreviousName::default()
        };
        let status = Recorded {
            records: vec![current],
            previous: vec![previous],
        };
        let place = place(name);
        assert_eq!(
            status.owner(&place),
            owner::Recorded {
                owner,
                name: recorded
            }
        );
        assert_eq!(status.current(&place).is_some(), name == "new");
    }

    #[test]
    fn the_first_end_counts() {
        let entry = |seconds| PreviousName {
            until: Some(Time(Timestamp::from_second(seconds).unwrap())),
            ..PreviousName::default()
        };
        let now = Timestamp::from_second(100).unwrap();
        let end = |entries: &[PreviousName]| next_end(entries, now).map(|end| end.as_secs());
        assert_eq!(end(&[entry(130), entry(110)]), Some(10));
        assert_eq!(end(&[entry(101)]), Some(1));
        assert_eq!(end(&[entry(50)]), None, "what waits for others has no time");
        assert_eq!(end(&[entry(100), entry(50), entry(110)]), Some(10));
        assert_eq!(end(&[]), None);
    }
}
