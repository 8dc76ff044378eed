//! How bundles of many objects become batches that Route 53 takes.

use std::collections::BTreeSet;

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

/// Takes the next batch out of a queue: for the way in that is open and that somebody has waited
/// for longest. What it leaves stays in its order.
///
/// A bundle is never split. One that touches a record set of an earlier one goes into a later batch:
/// Route 53 takes no two changes of a record set but a deletion and a creation, and what two objects
/// ask for must not depend on each other's fate.
pub(crate) fn next<T>(
    queue: &mut Vec<Load<T>>,
    is_open: impl Fn(&Place) -> bool,
) -> Option<Batch<T>> {
    let mut places = queue.iter().map(|load| &load.bundle.place);
    let place = places.find(|place| is_open(place))?.clone();
    let mut filling = Filling::default();
    let (mut left, mut is_full) = (Vec::new(), false);
    for load in std::mem::take(queue) {
        if is_full || load.bundle.place != place {
            left.push(load);
        } else if let Err(load) = filling.add(load) {
            is_full = true;
            left.push(load);
        }
    }
    *queue = left;
    let loads = filling.loads;
    Some(Batch { place, loads })
}

/// A batch in the making.
struct Filling<T> {
    loads: Vec<Load<T>>,
    weight: Weight,
    touched: BTreeSet<(String, Kind)>,
}

impl<T> Default for Filling<T> {
    fn default() -> Self {
        Self {
            loads: Vec::new(),
            weight: Weight::default(),
            touched: BTreeSet::new(),
        }
    }
}

impl<T> Filling<T> {
    /// Gives back what does not go with the rest; what is alone always goes.
    fn add(&mut self, load: Load<T>) -> Result<(), Load<T>> {
        let keys = load.bundle.changes.iter();
        let keys: BTreeSet<_> = keys
            .map(|change| (change.set.name.clone(), change.set.kind.clone()))
            .collect();
        let more = self.weight.and(Weight::of(&load.bundle.changes));
        let goes_along = more.fits() && self.touched.is_disjoint(&keys);
        if !goes_along && !self.loads.is_empty() {
            return Err(load);
        }
        self.weight = more;
        self.touched.extend(keys);
        self.loads.push(load);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::dns::Login;
    use crate::dns::record::RecordSet;
    use crate::dns::tests::{cname, owner, packed, place};

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
    fn the_way_in_that_was_waited_for_longest_comes_first_if_it_is_open() {
        let login = |role: &str| Login {
            role_arn: Some(role.to_owned()),
            external_id: None,
        };
        let by = |number: usize, role: &str| {
            let mut load = load(number, number, 1, false, 1);
            load.bundle.place.login = login(role);
            load
        };
        let queue = || [(0, "b"), (1, "a"), (2, "b"), (3, "c")].map(|(n, role)| by(n, role));
        let from = |loads: &[Load<usize>]| loads.iter().map(|load| load.from).collect::<Vec<_>>();
        let taken = |open: &[&str]| {
            let mut queue = Vec::from(queue());
            let open: Vec<_> = open.iter().map(|role| login(role)).collect();
            let batch = next(&mut queue, |place| open.contains(&place.login));
            (batch.map(|batch| from(&batch.loads)), from(&queue))
        };
        assert_eq!(taken(&["a", "b", "c"]), (Some(vec![0, 2]), vec![1, 3]));
        assert_eq!(taken(&["a", "c"]), (Some(vec![1]), vec![0, 2, 3]));
        assert_eq!(taken(&[]), (None, vec![0, 1, 2, 3]));
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
