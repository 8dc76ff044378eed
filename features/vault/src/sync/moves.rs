//! Places an object has left: which of what it remembers is elsewhere now, and what is kept. Pure.

use std::time::Duration;

use api::vault::PreviousName;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Record, Target};
use crate::place::Place;

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

/// The earlier places after a move: what was left is added, what was returned to is not kept apart.
pub(super) fn kept(
    previous: &[PreviousName],
    moved: &[Record],
    targets: &[&Target],
    connection: &str,
    until: Timestamp,
) -> Vec<PreviousName> {
    let is_target = |entry: &PreviousName| {
        let here = entry
            .connection
            .as_deref()
            .is_none_or(|name| name == connection);
        let place = entry.vault_path.as_deref().and_then(Place::parse);
        here && place.is_some_and(|place| targets.iter().any(|target| target.place.is(&place)))
    };
    let mut kept: Vec<PreviousName> = previous
        .iter()
        .filter(|entry| !is_target(entry))
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
        if !kept.iter().any(same) {
            kept.push(entry);
        }
    }
    kept
}

/// How long until the first of them may go.
pub(super) fn next_end(previous: &[PreviousName], now: Timestamp) -> Option<Duration> {
    let ends = previous.iter().filter_map(|entry| entry.until.as_ref());
    let first = ends.map(|until| until.0).min()?;
    Some(Duration::try_from(first.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::policy::Policy;
    use crate::place::Wanted;

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

    #[test]
    fn moving_back_swaps_the_places() {
        let until = Timestamp::UNIX_EPOCH;
        let new = target("new", None);
        let kept_then = kept(&[], &[record("old", None)], &[&new], "c", until);
        assert_eq!(
            kept_then[0].vault_path.as_deref(),
            Some("sys/policies/acl/old")
        );
        let back = target("old", None);
        let kept_now = kept(&kept_then, &[record("new", None)], &[&back], "c", until);
        assert_eq!(kept_now.len(), 1);
        assert_eq!(
            kept_now[0].vault_path.as_deref(),
            Some("sys/policies/acl/new")
        );
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
        assert_eq!(end(&[entry(50)]), Some(0));
        assert_eq!(end(&[]), None);
    }
}
