//! How bundles of many objects become batches that Route 53 takes.

use std::collections::{BTreeMap, BTreeSet};

use super::record::{Action, Change, Content, Kind};
use super::{Bundle, Place};

/// The most record elements of a batch, what is upserted counting twice.
const MOST_RECORDS: usize = 1000;
/// The most characters of values in a batch, what is upserted counting twice.
const MOST_CHARACTERS: usize = 32_000;

/// What counts against the limits of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    /// Record elements.
    pub(crate) records: usize,
    /// Characters of values.
    pub(crate) characters: usize,
}

impl Weight {
    fn of<'c>(changes: impl IntoIterator<Item = &'c Change>) -> Self {
        let mut all = Self::default();
        for Change { action, set } in changes {
            let times = match action {
                Action::Upsert => 2,
                Action::Create | Action::Delete => 1,
            };
            let (records, characters) = match &set.content {
                Content::Values { values, .. } => (
                    values.len(),
                    values.iter().map(|one| one.chars().count()).sum(),
                ),
                // Route 53 speaks of values alone; an alias is counted as one to be safe.
                Content::Alias { .. } => (1, 0),
            };
            all.records += times * records;
            all.characters += times * characters;
        }
        all
    }

    fn fits(self) -> bool {
        self.records <= MOST_RECORDS && self.characters <= MOST_CHARACTERS
    }

    fn and(self, other: Self) -> Self {
        Self {
            records: self.records + other.records,
            characters: self.characters + other.characters,
        }
    }
}

/// A bundle, and who is told its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Load<T> {
    /// Who handed it in.
    pub(crate) from: T,
    /// The bundle.
    pub(crate) bundle: Bundle,
}

/// Bundles that go to Route 53 in one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Batch<T> {
    /// Where.
    pub(crate) place: Place,
    /// What, in order.
    pub(crate) loads: Vec<Load<T>>,
}

impl<T> Batch<T> {
    /// All its changes, in order.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.loads.iter().flat_map(|load| &load.bundle.changes)
    }

    /// What it counts.
    pub(crate) fn weight(&self) -> Weight {
        Weight::of(self.changes())
    }

    /// A refused batch as two smaller ones.
    ///
    /// # Errors
    /// It is one bundle alone: that is the one Route 53 refuses.
    pub(crate) fn halves(mut self) -> Result<[Self; 2], Self> {
        if self.loads.len() < 2 {
            return Err(self);
        }
        let second = Self {
            loads: self.loads.split_off(self.loads.len() / 2),
            place: self.place.clone(),
        };
        Ok([self, second])
    }
}

/// The batches for a queue of bundles: by place, and in the order of the queue.
///
/// A bundle is never split. One that touches a record set of an earlier one goes into a later batch:
/// Route 53 takes no two changes of a record set but a deletion and a creation, and what two objects
/// ask for must not depend on each other's fate.
pub(crate) fn packed<T>(queue: impl IntoIterator<Item = Load<T>>) -> Vec<Batch<T>> {
    let mut places: BTreeMap<Place, Vec<Load<T>>> = BTreeMap::new();
    for load in queue {
        places
            .entry(load.bundle.place.clone())
            .or_default()
            .push(load);
    }
    let batches = places
        .into_iter()
        .flat_map(|(place, loads)| fill(&place, loads));
    batches.collect()
}

fn fill<T>(place: &Place, loads: Vec<Load<T>>) -> Vec<Batch<T>> {
    let mut batches: Vec<Batch<T>> = Vec::new();
    let mut weight = Weight::default();
    let mut touched: BTreeSet<(String, Kind)> = BTreeSet::new();
    for load in loads {
        let keys = load.bundle.changes.iter();
        let keys: BTreeSet<_> = keys
            .map(|change| (change.set.name.clone(), change.set.kind.clone()))
            .collect();
        let more = weight.and(Weight::of(&load.bundle.changes));
        match batches.last_mut() {
            Some(batch) if more.fits() && touched.is_disjoint(&keys) => {
                batch.loads.push(load);
                weight = more;
                touched.extend(keys);
            }
            Some(_) | None => {
                weight = Weight::of(&load.bundle.changes);
                touched = keys;
                batches.push(Batch {
                    place: place.clone(),
                    loads: vec![load],
                });
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::dns::record::RecordSet;
    use crate::dns::tests::{cname, owner, place};

    /// Changes of a record and its mark; `length` is that of the record's value.
    fn bundle(name: &str, zone: &str, action: Action, length: usize) -> Bundle {
        let record = RecordSet::of(&cname(name, 300, &"x".repeat(length)));
        let mark = RecordSet::txt(&format!("_pontoon-owner.{name}"), owner().txt());
        let changes = [record, mark].map(|set| Change { action, set });
        Bundle {
            place: place(zone),
            name: name.to_owned(),
            changes: changes.into(),
        }
    }

    fn load(number: usize, name: usize, zone: usize, upsert: bool, length: usize) -> Load<usize> {
        let action = if upsert {
            Action::Upsert
        } else {
            Action::Create
        };
        let bundle = bundle(
            &format!("n{name}.example.com"),
            &format!("Z{zone}"),
            action,
            length,
        );
        Load {
            from: number,
            bundle,
        }
    }

    #[test]
    fn what_is_upserted_counts_twice() {
        let weight = |action| Weight::of(&bundle("a.example.com", "Z1", action, 10).changes);
        let once = weight(Action::Create);
        assert_eq!(once.records, 2);
        let twice = weight(Action::Upsert);
        assert_eq!((twice.records, twice.characters), (4, 2 * once.characters));
        assert_eq!(weight(Action::Delete), once);
    }

    #[test]
    fn a_batch_is_filled_to_the_limit() {
        // 15 characters beside a mark of 45: 500 creations are 1000 elements and 30000 characters.
        let mark = owner().txt().len();
        let creates = (0..501).map(|n| load(n, n, 1, false, 60 - mark));
        let sizes: Vec<_> = packed(creates)
            .iter()
            .map(|batch| batch.loads.len())
            .collect();
        assert_eq!(sizes, [500, 1]);
        let upserts = (0..501).map(|n| load(n, n, 1, true, 60 - mark));
        let sizes: Vec<_> = packed(upserts)
            .iter()
            .map(|batch| batch.loads.len())
            .collect();
        assert_eq!(sizes, [250, 250, 1]);
        let long = (0..321).map(|n| load(n, n, 1, false, 200 - mark));
        let sizes: Vec<_> = packed(long).iter().map(|batch| batch.loads.len()).collect();
        assert_eq!(sizes, [160, 160, 1]);
    }

    #[test]
    fn what_is_too_heavy_for_any_batch_goes_alone() {
        let heavy = load(1, 1, 1, false, 40_000);
        let light = [load(0, 0, 1, false, 1), load(2, 2, 1, false, 1)];
        let [first, last] = light;
        let sizes: Vec<_> = packed([first, heavy, last])
            .iter()
            .map(|one| one.loads.len())
            .collect();
        assert_eq!(sizes, [1, 1, 1]);
    }

    #[test]
    fn a_refused_batch_is_halved_until_the_bad_one_is_alone() {
        let loads = (0..100).map(|n| load(n, n, 1, false, 1));
        let (mut accepted, mut refused, mut calls) = (Vec::new(), Vec::new(), 0);
        let mut queue = packed(loads);
        while let Some(batch) = queue.pop() {
            calls += 1;
            if batch.loads.iter().all(|load| load.from != 42) {
                accepted.extend(batch.loads.iter().map(|load| load.from));
                continue;
            }
            match batch.halves() {
                Ok(halves) => queue.extend(halves),
                Err(alone) => refused.extend(alone.loads.iter().map(|load| load.from)),
            }
        }
        accepted.sort_unstable();
        let others: Vec<_> = (0..100).filter(|n| *n != 42).collect();
        assert_eq!((refused, accepted), (vec![42], others));
        assert!(calls <= 15, "{calls}");
    }

    proptest! {
        #[test]
        fn batches_keep_every_bundle_whole_in_order_and_within_limits(
            drawn in vec((0..40_usize, 0..3_usize, any::<bool>(), 1..9000_usize), 0..60),
        ) {
            let loads: Vec<_> = drawn
                .iter()
                .enumerate()
                .map(|(at, (name, zone, upsert, length))| load(at, *name, *zone, *upsert, *length))
                .collect();
            let batches = packed(loads.clone());
            let mut given = Vec::new();
            for batch in &batches {
                let weight = batch.weight();
                prop_assert!(weight.fits() || batch.loads.len() == 1);
                let keys: Vec<_> = batch.changes().map(|one| (&one.set.name, &one.set.kind)).collect();
                let distinct: BTreeSet<_> = keys.iter().collect();
                prop_assert_eq!(distinct.len(), keys.len());
                for load in &batch.loads {
                    prop_assert_eq!(&load.bundle.place, &batch.place);
                    given.push(load.clone());
                }
            }
            let of_zone = |zone: usize, loads: &[Load<usize>]| -> Vec<usize> {
                let there = loads.iter().filter(|load| load.bundle.place == place(&format!("Z{zone}")));
                there.map(|load| load.from).collect()
            };
            prop_assert_eq!(given.len(), loads.len());
            for zone in 0..3 {
                prop_assert_eq!(of_zone(zone, &given), of_zone(zone, &loads));
            }
        }
    }
}
