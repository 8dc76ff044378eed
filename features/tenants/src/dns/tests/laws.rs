//! What holds whatever happens.

use std::collections::BTreeSet;

use api::tenants::{DriftPolicy, RecordAdoption};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::chance::{Deed, Event, Run, ZONES, any_event, any_spec};
use super::model::World;
use super::{owner, records};
use crate::dns::Spot;
use crate::dns::ledger;
use crate::dns::plan::{Served, Step};
use crate::dns::record::{Content, Likeness, RecordSet};
use crate::dns::verdict::Verdict;
use crate::dns::want::{Want, Wanted};

/// What is sent was recorded by an earlier pass.
pub(super) fn is_recorded_first(world: &World, step: &Step) -> Result<(), TestCaseError> {
    for bundle in &step.submit {
        let spot = bundle.spot();
        let here: Vec<_> = world
            .status
            .iter()
            .filter(|one| Spot::of(one) == spot)
            .collect();
        prop_assert!(!here.is_empty(), "{bundle:?} is nowhere in the status");
        for set in bundle.puts() {
            let is_named = here.iter().any(|one| set.likeness(one) == Likeness::Same);
            prop_assert!(is_named, "{set:?} is not in the status: {here:?}");
        }
    }
    Ok(())
}

/// Where our mark is, the status names what we wrote.
fn nothing_is_forgotten(world: &World) -> Result<(), TestCaseError> {
    for (spot, kinds) in &world.authored {
        if !world.is_marked(spot) {
            continue;
        }
        for kind in kinds {
            let Some(set) = world.zones.get(&spot.zone, &spot.name, kind) else {
                continue;
            };
            let mut here = world.status.iter().filter(|one| Spot::of(one) == *spot);
            let is_named = here.any(|one| set.likeness(one) != Likeness::Other);
            prop_assert!(
                is_named,
                "{spot:?} is forgotten: {set:?}, {:?}",
                world.status
            );
        }
    }
    Ok(())
}

/// Whether the zone has what is wanted at a name, perhaps alone, and our mark.
fn is_in_place(world: &World, wanted: &Wanted, alone: bool) -> bool {
    let Wanted { spot, records, .. } = wanted;
    let there = world
        .zones
        .sets(&spot.zone)
        .filter(|set| set.name == spot.name);
    let pointers: Vec<_> = there.filter(|set| set.pointer().is_some()).collect();
    let is_there = |record| {
        pointers
            .iter()
            .any(|set| set.likeness(record) == Likeness::Same)
    };
    let is_alone = pointers.len() == records.len() || !alone;
    records.iter().all(is_there) && is_alone && world.is_marked(spot)
}

fn ours(world: &World) -> Vec<String> {
    let mark = RecordSet::txt("", owner().txt());
    let zones = ZONES.iter().flat_map(|(id, _)| world.zones.sets(id));
    let ours = zones.filter(|set| match (&set.content, &mark.content) {
        (Content::Values { values, .. }, Content::Values { values: own, .. }) => values == own,
        (Content::Values { .. } | Content::Alias { .. }, _) => false,
    });
    ours.map(|set| set.name.clone()).collect()
}

proptest! {
    #[test]
    fn what_is_not_ours_is_never_touched_and_what_is_never_forgotten(
        events in vec(any_event(), 0..60),
        last in option::of(any_spec()),
    ) {
        let mut run = Run::new();
        for event in &events {
            run.take(event)?;
            prop_assert_eq!(&run.world.wrongs, &Vec::<String>::new());
            nothing_is_forgotten(&run.world)?;
        }

        // In the end every name has its records, or the condition says what keeps it out.
        let last = last.map_or(Some(run.world.want.clone()), |spec| spec.want());
        if let Some(Want::These { names, adoption, .. }) = last {
            let drift = DriftPolicy::Enforce;
            let served = names.iter().map(|one| one.spot.name.clone()).collect();
            run.world.served = Served::These(served);
            run.world.want = Want::These { names: names.clone(), adoption, drift };
            let step = run.calm();
            let clashes = match &step.verdict {
                Some(Verdict::Conflict(clashes)) => clashes.as_slice(),
                Some(Verdict::Ready { .. }) => &[],
                other => panic!("{other:?} is no end: {:?}", run.world.status),
            };
            for wanted in &names {
                let was_disturbed = run.disturbed.contains(&wanted.spot);
                let in_place = is_in_place(&run.world, wanted, !was_disturbed);
                let in_sync = step.insync.contains(&wanted.spot.name);
                prop_assert_eq!(in_place, in_sync, "{:?}", wanted.spot);
                prop_assert!(in_sync || was_disturbed, "{:?} {:?}", wanted.spot, clashes);
            }
            let is_wanted = |spot: &Spot| names.iter().any(|one| one.spot == *spot);
            for record in &step.records {
                let (spot, name) = (Spot::of(record), &record.name);
                let moves = names.iter().any(|one| one.spot.name == *name);
                prop_assert!(is_wanted(&spot) || moves && !step.insync.contains(name));
            }

            // And then it is quiet.
            let sent = run.world.log.len();
            run.world.list();
            let quiet = run.world.pass();
            prop_assert_eq!((&quiet.submit, &quiet.reads), (&vec![], &vec![]));
            prop_assert_eq!(&quiet.records, &step.records);
            prop_assert_eq!(run.world.log.len(), sent);
        }

        // And when all goes, nothing of ours is left.
        run.world.want = Want::Nothing;
        let step = run.calm();
        prop_assert_eq!(&step.records, &vec![]);
        prop_assert_eq!(ours(&run.world), Vec::<String>::new());
        for (spot, kinds) in &run.world.authored {
            if !run.disturbed.contains(spot) {
                prop_assert_eq!(kinds, &BTreeSet::new(), "{:?} is left", spot);
            }
        }
        prop_assert_eq!(&run.world.wrongs, &Vec::<String>::new());
        prop_assert!(run.world.known.is_empty());
    }

    #[test]
    fn what_somebody_owns_is_never_taken_over(
        events in vec(any_event(), 0..40),
        target in select(vec!["x.net", "d0.cloudfront.net"]),
        external in any::<bool>(),
    ) {
        let mut run = Run::new();
        let deed = if external { Deed::MarkExternal } else { Deed::Mark };
        run.others(0, 0, Deed::Point(target));
        run.others(0, 0, deed);
        let at_a = |run: &Run| {
            let sets = run.world.zones.sets("Z1").filter(|set| set.name.ends_with("a.example.com"));
            sets.cloned().collect::<Vec<_>>()
        };
        let before = at_a(&run);
        for event in &events {
            if matches!(event, Event::Others(..)) {
                continue;
            }
            run.take(event)?;
            if let Want::These { adoption, .. } = &mut run.world.want {
                *adoption = RecordAdoption::Overwrite;
            }
            prop_assert_eq!(at_a(&run), before.clone());
        }
    }

    #[test]
    fn entries_are_listed_in_one_order(shuffled in vec(0..6_usize, 0..12)) {
        let all = records(
            "Applied CNAME d0 300 + Deleting CNAME d0 300 + Planned CNAME d1 300 \
             + Planned CNAME d1 600 + Applied A d0 + Planned AAAA d0",
        );
        let drawn: Vec<_> = shuffled.iter().map(|at| all[*at].clone()).collect();
        let mut reversed = drawn.clone();
        reversed.reverse();
        prop_assert_eq!(ledger::sorted(drawn), ledger::sorted(reversed));
    }
}
