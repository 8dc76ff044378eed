//! What holds whatever happens: tricks of the network, crashes, edits here and there.

use std::time::Duration;

use api::tenants::{DriftPolicy, reasons};
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::diff;
use super::model::Trick;
use super::world::{NAME, World, declared};
use super::{by_name, marks};
use crate::tags::{Tags, Whose, whose};

#[derive(Debug, Clone)]
enum Act {
    /// The next look is due.
    Run,
    /// Something it follows changed.
    Wake,
    Wait(u64),
    Edit {
        ipv6: bool,
        enabled: bool,
        tagged: bool,
    },
    Policy(DriftPolicy),
    /// Others change it.
    Console {
        ipv6: bool,
        enabled: bool,
    },
    /// Others delete it.
    Remove,
    /// Others take it over.
    Seize,
    Crash,
    /// The process dies before the next pass records anything.
    Die,
    Delete,
    Trick(Trick),
}

fn any_trick() -> impl Strategy<Value = Trick> {
    prop_oneof![
        3 => Just(Trick::Fair),
        1 => Just(Trick::CutBefore),
        2 => Just(Trick::CutAfter),
        1 => Just(Trick::Breaks),
        1 => Just(Trick::Throttles),
        1 => Just(Trick::Denies),
        1 => Just(Trick::Stale),
    ]
}

fn any_policy() -> impl Strategy<Value = DriftPolicy> {
    prop_oneof![
        Just(DriftPolicy::Enforce),
        Just(DriftPolicy::Report),
        Just(DriftPolicy::Suspend),
    ]
}

fn any_act() -> impl Strategy<Value = Act> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    prop_oneof![
        8 => Just(Act::Run),
        2 => Just(Act::Wake),
        2 => (1..400_u64).prop_map(Act::Wait),
        3 => flags.prop_map(|(ipv6, enabled, tagged)| Act::Edit { ipv6, enabled, tagged }),
        1 => any_policy().prop_map(Act::Policy),
        2 => any::<(bool, bool)>().prop_map(|(ipv6, enabled)| Act::Console { ipv6, enabled }),
        1 => Just(Act::Remove),
        1 => Just(Act::Seize),
        1 => Just(Act::Crash),
        1 => Just(Act::Die),
        1 => Just(Act::Delete),
        5 => any_trick().prop_map(Act::Trick),
    ]
}

/// Whose group of that name is there before the object.
#[derive(Debug, Clone, Copy)]
enum Before {
    Nobodys,
    Unmarked,
    Others,
}

fn any_start() -> impl Strategy<Value = (Before, bool, bool, u64)> {
    let before = prop_oneof![
        4 => Just(Before::Nobodys),
        1 => Just(Before::Unmarked),
        1 => Just(Before::Others),
    ];
    let lag = prop_oneof![2 => Just(0), 1 => 1..90_u64];
    (before, any::<bool>(), any::<bool>(), lag)
}

fn start((before, adopts, echoes, lag): (Before, bool, bool, u64)) -> World {
    let mut world = World::new();
    world.object.adoption = adopts.then(by_name);
    world.cloud.echoes = echoes;
    world.cloud.lag = Duration::from_secs(lag);
    let tags = match before {
        Before::Nobodys => return world,
        Before::Unmarked => Tags::new(),
        Before::Others => marks("other"),
    };
    world.cloud.make(NAME, tags, diff::body(&declared()));
    world
}

/// What others did, for the books.
#[derive(Debug, Default)]
struct Deeds {
    removed: usize,
    seized: bool,
}

fn act(world: &mut World, act: Act, deeds: &mut Deeds) {
    match act {
        Act::Run => world.run(),
        Act::Wake => world.pass(false),
        Act::Wait(seconds) => world.cloud.now += Duration::from_secs(seconds),
        Act::Edit {
            ipv6,
            enabled,
            tagged,
        } => world.edit(|object| {
            object.declared.ipv6_enabled = ipv6;
            object.declared.enabled = enabled;
            let tag = tagged.then(|| ("team".to_owned(), "a".to_owned()));
            object.declared.tags = tag.into_iter().collect();
        }),
        Act::Policy(policy) => world.edit(|object| object.policy = policy),
        Act::Console { ipv6, enabled } => {
            let live = world.cloud.named(NAME);
            let Some((id, mut body)) = live.and_then(|kept| {
                let version = kept.live()?;
                Some((kept.id().to_owned(), version.body.clone()))
            }) else {
                return;
            };
            body.ipv6_enabled = ipv6;
            body.enabled = enabled;
            world.cloud.put(&id, Some(body));
            world.cloud.forgive();
        }
        Act::Remove => {
            if let Some(id) = world.cloud.named(NAME).map(|kept| kept.id().to_owned()) {
                world.cloud.put(&id, None);
                world.cloud.forgive();
                deeds.removed += 1;
            }
        }
        Act::Seize => {
            // Where reads are behind nobody can see it in time.
            let seen_at_once = world.cloud.lag.is_zero();
            let id = world.cloud.named(NAME).map(|kept| kept.id().to_owned());
            if let Some(id) = id.filter(|_| seen_at_once) {
                world.cloud.kept.get_mut(&id).unwrap().tags = marks("thief");
                world.cloud.forgive();
                deeds.seized = true;
            }
        }
        Act::Crash => world.crash(),
        Act::Die => world.dies = true,
        Act::Delete => world.delete(),
        Act::Trick(trick) => {
            world.cloud.tricks.push_back(trick);
            world.cloud.forgive();
        }
    }
}

fn ours(world: &World) -> usize {
    let kept = world.cloud.kept.values();
    let there = kept.filter(|kept| kept.live().is_some());
    there
        .filter(|kept| whose(&kept.tags, &world.cloud.marker) == Whose::Ours)
        .count()
}

/// Nothing more happens, and time goes by.
fn calm(world: &mut World) {
    world.cloud.tricks.clear();
    world.cloud.lag = Duration::ZERO;
    world.dies = false;
    world.cloud.forgive();
    for _ in 0..80 {
        world.run();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn nobody_is_wronged_and_nothing_leaks(begin in any_start(), acts in vec(any_act(), 0..60)) {
        let mut world = start(begin);
        let mut deeds = Deeds::default();
        for one in acts {
            act(&mut world, one, &mut deeds);
            prop_assert_eq!(&world.cloud.violations, &Vec::<String>::new());
            prop_assert!(ours(&world) <= 1);
        }
        calm(&mut world);
        prop_assert_eq!(&world.cloud.violations, &Vec::<String>::new());
        if world.object.deleting {
            prop_assert!(world.gone, "{:?}", world.ready());
        }
        if world.gone {
            prop_assert_eq!(ours(&world), 0);
        }
    }

    #[test]
    fn in_the_end_it_is_what_the_spec_says(begin in any_start(), acts in vec(any_act(), 0..60)) {
        let mut world = start(begin);
        let mut deeds = Deeds::default();
        for one in acts {
            act(&mut world, one, &mut deeds);
        }
        calm(&mut world);
        if world.gone {
            return Ok(());
        }
        let ready = world.ready();
        let Some(kept) = world.cloud.named(NAME) else {
            prop_assert_eq!(ready, (reasons::EXTERNALLY_DELETED.to_owned(), false));
            prop_assert_ne!(world.object.policy, DriftPolicy::Enforce);
            return Ok(());
        };
        if whose(&kept.tags, &world.cloud.marker) != Whose::Ours {
            // Seen by tags, at the latest once a day.
            prop_assert!(deeds.seized || ready.0 == reasons::NOT_OWNED, "{ready:?}");
            return Ok(());
        }
        prop_assert_eq!(ready, (reasons::DEPLOYED.to_owned(), true));
        let live = &kept.live().unwrap().body;
        let differs = diff::differing(&diff::body(&world.object.declared), live);
        prop_assert_eq!(&differs, &world.object.status.drift);
        if world.object.policy == DriftPolicy::Enforce {
            prop_assert!(differs.is_empty());
            // Else a lost answer may be found out at the daily look, or be left as drift.
            let declared = world.object.declared.tags.iter();
            for (key, value) in declared.filter(|_| world.cloud.echoes) {
                prop_assert_eq!(kept.tags.get(key), Some(value));
            }
        }
    }

    #[test]
    fn it_is_made_as_often_as_others_remove_it(acts in vec(any_act(), 0..60), echoes: bool) {
        let mut world = start((Before::Nobodys, false, echoes, 0));
        let mut deeds = Deeds::default();
        let mut made = 0;
        for one in acts {
            let before = world.cloud.kept.len();
            act(&mut world, one, &mut deeds);
            made += world.cloud.kept.len() - before;
        }
        prop_assert!(made <= deeds.removed + 1, "{made} made, {} removed", deeds.removed);
    }
}
