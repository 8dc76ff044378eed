//! How change sets of many objects become batches that Route 53 accepts. Pure.

use std::collections::BTreeSet;

use super::{ChangeSet, ZoneAccess};
use crate::route53::{Action, Answer, Change};

/// The most record elements of a batch; those that are upserted count twice.
const MOST_RECORDS: usize = 1000;
/// The most characters of values in a batch; those that are upserted count twice.
const MOST_CHARACTERS: usize = 32_000;

/// What counts against the limits of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weight {
    /// Record elements.
    pub records: usize,
    /// Characters of values.
    pub characters: usize,
}

impl Weight {
    fn of<'c>(changes: impl IntoIterator<Item = &'c Change>) -> Self {
        let mut all = Self::default();
        for Change { action, record } in changes {
            let times = match action {
                Action::Upsert => 2,
                Action::Create | Action::Delete => 1,
            };
            let (records, characters) = match &record.answer {
                Answer::Values { values, .. } => (
                    values.len(),
                    values.iter().map(|one| one.chars().count()).sum(),
                ),
                // The limits name only values; an alias counts as one to be safe.
                Answer::Alias(_) => (1, 0),
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

/// A change set, and who submitted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load<T> {
    /// Who submitted it.
    pub from: T,
    /// The change set.
    pub set: ChangeSet,
}

/// Change sets that are sent in one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch<T> {
    /// Where they are sent.
    pub access: ZoneAccess,
    /// The change sets, in order.
    pub loads: Vec<Load<T>>,
}

impl<T> Batch<T> {
    /// All its changes, in order.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.loads.iter().flat_map(|load| &load.set.changes)
    }

    /// What it counts.
    pub fn weight(&self) -> Weight {
        Weight::of(self.changes())
    }

    /// A refused batch as two smaller ones.
    ///
    /// # Errors
    /// It has only one change set: that is the one that Route 53 refuses.
    pub fn halves(mut self) -> Result<[Self; 2], Self> {
        if self.loads.len() < 2 {
            return Err(self);
        }
        let second = Self {
            loads: self.loads.split_off(self.loads.len() / 2),
            access: self.access.clone(),
        };
        Ok([self, second])
    }
}

/// Takes the next batch out of a queue: the first load that `is_open`, and those with the same access
/// and an origin that `goes_with` its own. The others stay in their order.
///
/// A change set is never split. One that touches a record set of an earlier one goes into a later
/// batch: Route 53 accepts no two changes of a record set but a deletion and a creation, and what two
/// objects ask for must not depend on each other's success.
pub fn next<T>(
    queue: &mut Vec<Load<T>>,
    is_open: impl Fn(&Load<T>) -> bool,
    goes_with: impl Fn(&T, &T) -> bool,
) -> Option<Batch<T>> {
    let first = queue.iter().position(is_open)?;
    let access = queue[first].set.access.clone();
    let mut filling = Filling::default();
    let (mut left, mut is_full) = (Vec::new(), false);
    for (at, load) in std::mem::take(queue).into_iter().enumerate() {
        let fits = load.set.access == access
            && match filling.loads.first() {
                Some(one) => goes_with(&one.from, &load.from),
                None => at == first,
            };
        if is_full || !fits {
            left.push(load);
        } else if let Err(load) = filling.add(load) {
            is_full = true;
            left.push(load);
        }
    }
    *queue = left;
    let loads = filling.loads;
    Some(Batch { access, loads })
}

/// A batch in the making.
struct Filling<T> {
    loads: Vec<Load<T>>,
    weight: Weight,
    /// Name and type of the record sets that it changes.
    touched: BTreeSet<(String, String)>,
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
    /// Returns a load that does not fit beside the others; the first one always fits.
    fn add(&mut self, load: Load<T>) -> Result<(), Load<T>> {
        let sets = load.set.changes.iter();
        let sets: BTreeSet<_> = sets
            .map(|change| (change.record.name.clone(), change.record.kind.clone()))
            .collect();
        let more = self.weight.and(Weight::of(&load.set.changes));
        let fits = more.fits() && self.touched.is_disjoint(&sets);
        if !fits && !self.loads.is_empty() {
            return Err(load);
        }
        self.weight = more;
        self.touched.extend(sets);
        self.loads.push(load);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::route53::zone_writer::ZoneRole;
    use crate::route53::zone_writer::tests::{access, record};

    /// The value of an ownership record.
    const OWNER: &str = "\"heritage=pontoon,owner=c1,resource=web/acme\"";

    fn packed<T>(queue: impl IntoIterator<Item = Load<T>>) -> Vec<Batch<T>> {
        let mut queue = queue.into_iter().collect();
        std::iter::from_fn(|| next(&mut queue, |_| true, |_, _| true)).collect()
    }

    /// Changes of a record and its ownership record; `length` is that of the record's value.
    fn set(name: &str, zone: &str, action: Action, length: usize) -> ChangeSet {
        let pointer = record(name, "CNAME", &"x".repeat(length));
        let owner = record(&format!("_pontoon-owner.{name}"), "TXT", OWNER);
        let changes = [pointer, owner].map(|record| Change { action, record });
        ChangeSet {
            access: access(zone),
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
        let name = format!("n{name}.example.com");
        Load {
            from: number,
            set: set(&name, &format!("Z{zone}"), action, length),
        }
    }

    #[test]
    fn what_is_upserted_counts_twice() {
        let weight = |action| Weight::of(&set("a.example.com", "Z1", action, 10).changes);
        let once = weight(Action::Create);
        assert_eq!(once.records, 2);
        let twice = weight(Action::Upsert);
        assert_eq!((twice.records, twice.characters), (4, 2 * once.characters));
        assert_eq!(weight(Action::Delete), once);
    }

    #[test]
    fn a_batch_is_filled_to_the_limit() {
        // Both values have 60 characters: 500 creations are 1000 elements and 30000 characters.
        let owner = OWNER.len();
        let sizes = |loads: &mut dyn Iterator<Item = Load<usize>>| -> Vec<_> {
            let batches = packed(loads);
            batches.iter().map(|batch| batch.loads.len()).collect()
        };
        let mut creates = (0..501).map(|n| load(n, n, 1, false, 60 - owner));
        assert_eq!(sizes(&mut creates), [500, 1]);
        let mut upserts = (0..501).map(|n| load(n, n, 1, true, 60 - owner));
        assert_eq!(sizes(&mut upserts), [250, 250, 1]);
        let mut long = (0..321).map(|n| load(n, n, 1, false, 200 - owner));
        assert_eq!(sizes(&mut long), [160, 160, 1]);
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
    fn the_access_that_waits_longest_comes_first_if_it_is_open() {
        let login = |role: &str| ZoneRole {
            role_arn: Some(role.to_owned()),
            external_id: None,
        };
        let by = |number: usize, role: &str| {
            let mut load = load(number, number, 1, false, 1);
            load.set.access.login = login(role);
            load
        };
        let queue = || [(0, "b"), (1, "a"), (2, "b"), (3, "c")].map(|(n, role)| by(n, role));
        let from = |loads: &[Load<usize>]| loads.iter().map(|load| load.from).collect::<Vec<_>>();
        let taken = |open: &[&str]| {
            let mut queue = Vec::from(queue());
            let open: Vec<_> = open.iter().map(|role| login(role)).collect();
            let is_open = |load: &Load<usize>| open.contains(&load.set.access.login);
            let batch = next(&mut queue, is_open, |_, _| true);
            (batch.map(|batch| from(&batch.loads)), from(&queue))
        };
        assert_eq!(taken(&["a", "b", "c"]), (Some(vec![0, 2]), vec![1, 3]));
        assert_eq!(taken(&["a", "c"]), (Some(vec![1]), vec![0, 2, 3]));
        assert_eq!(taken(&[]), (None, vec![0, 1, 2, 3]));
    }

    #[test]
    fn a_batch_has_only_origins_that_go_together() {
        let mut queue: Vec<_> = (0..5).map(|n| load(n, n, 1, false, 1)).collect();
        let same_parity = |one: &usize, other: &usize| one % 2 == other % 2;
        let mut from = || {
            let batch = next(&mut queue, |load| load.from != 0, same_parity).unwrap();
            batch.loads.iter().map(|load| load.from).collect::<Vec<_>>()
        };
        assert_eq!(from(), [1, 3]);
        assert_eq!(
            from(),
            [2, 4],
            "an earlier one that is not open begins no batch"
        );
        assert_eq!(queue.len(), 1);
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
        fn batches_leave_each_set_whole_in_order_and_within_limits(
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
                let changes = batch.changes().map(|one| &one.record);
                let sets: Vec<_> = changes.map(|one| (&one.name, &one.kind)).collect();
                let distinct: BTreeSet<_> = sets.iter().collect();
                prop_assert_eq!(distinct.len(), sets.len());
                for load in &batch.loads {
                    prop_assert_eq!(&load.set.access, &batch.access);
                    given.push(load.clone());
                }
            }
            let of_zone = |zone: usize, loads: &[Load<usize>]| -> Vec<usize> {
                let there = loads.iter().filter(|load| load.set.access == access(&format!("Z{zone}")));
                there.map(|load| load.from).collect()
            };
            prop_assert_eq!(given.len(), loads.len());
            for zone in 0..3 {
                prop_assert_eq!(of_zone(zone, &given), of_zone(zone, &loads));
            }
        }
    }
}
