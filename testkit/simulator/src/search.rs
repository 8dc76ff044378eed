//! Runs many schedules, and shrinks the first that breaks a law.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZero;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::{Effect, KindCore};

use crate::Model;
use crate::schedule::{Happening, Schedule, sorts};
use crate::simulation::{Failure, run};

/// From this number of seeds on, a search uses all cores.
const MANY: u64 = 10_000;

/// Which seeds a test runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeds(Range<u64>);

impl Seeds {
    /// The seeds that `cargo xtask sim` names, else the first `count`.
    ///
    /// `PONTOON_SIM_SEED` runs one seed; `PONTOON_SIM_SEEDS` runs that many.
    pub fn first(count: u64) -> Self {
        let named = |name: &str| std::env::var(name).ok()?.parse().ok();
        match (named("PONTOON_SIM_SEED"), named("PONTOON_SIM_SEEDS")) {
            (Some(seed), _) => Self(seed..seed + 1),
            (None, Some(count)) => Self(0..count),
            (None, None) => Self(0..count),
        }
    }

    /// The first `count` seeds, whatever `cargo xtask sim` names: for tests of the simulator itself.
    pub fn exactly(count: u64) -> Self {
        Self(0..count)
    }

    fn len(&self) -> u64 {
        self.0.end - self.0.start
    }
}

/// A seed that breaks a law, with the smallest schedule that still breaks one.
#[derive(Debug)]
pub struct Found {
    /// The seed; none for an enumerated schedule.
    pub seed: Option<u64>,
    /// The law, and what led to it.
    pub failure: Failure,
    /// The schedule, shrunk.
    pub schedule: Schedule,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seed {
            Some(seed) => writeln!(f, "seed {seed}; run it alone with --seed {seed}")?,
            None => writeln!(f, "schedule {:?}", self.schedule)?,
        }
        self.failure.fmt(f)
    }
}

/// Runs the seeds; very many on all cores. Returns the kill points that were reached.
///
/// # Errors
/// The first seed that was found to break a law.
pub fn search<K: KindCore, M: Model<K>>(
    core: &K,
    seeds: &Seeds,
    is_guarded: bool,
) -> Result<BTreeSet<String>, Box<Found>> {
    let (next, end) = (AtomicU64::new(seeds.0.start), seeds.0.end);
    let work = || {
        let mut points = BTreeSet::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return Ok(points);
            }
            let schedule = Schedule::from_seed(seed);
            let tried = try_schedule::<K, M>(core, schedule, Some(seed), is_guarded);
            points.extend(tried.inspect_err(|_| next.store(end, Ordering::Relaxed))?);
        }
    };
    if seeds.len() < MANY {
        return work(); // tests run side by side already
    }
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let mut points = BTreeSet::new();
        for worker in workers {
            let found = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
            points.extend(found?);
        }
        Ok(points)
    })
}

/// Runs every schedule with up to two happenings in its first `points` entries, from the first objects
/// `0..firsts`. Returns how many there were.
///
/// # Errors
/// The first schedule that breaks a law.
pub fn enumerate<K: KindCore, M: Model<K>>(
    core: &K,
    firsts: u8,
    points: usize,
) -> Result<usize, Box<Found>> {
    let mut count = 0;
    for first in 0..firsts {
        for one in 0..points {
            for two in one..points {
                for happening in sorts() {
                    let others = if one == two { vec![happening] } else { sorts() };
                    for other in others {
                        let mut tape = vec![Happening::Nothing; two + 1];
                        (tape[one], tape[two]) = (happening, other);
                        try_schedule::<K, M>(core, Schedule { first, tape }, None, true)?;
                        count += 1;
                    }
                }
            }
        }
    }
    Ok(count)
}

fn try_schedule<K: KindCore, M: Model<K>>(
    core: &K,
    mut schedule: Schedule,
    seed: Option<u64>,
    is_guarded: bool,
) -> Result<BTreeSet<String>, Box<Found>> {
    let outcome = run::<K, M>(core, &schedule, is_guarded, false);
    outcome.map_err(|_| {
        let fails = |schedule: &Schedule| run::<K, M>(core, schedule, is_guarded, false).is_err();
        shrink(&mut schedule, fails);
        let traced = run::<K, M>(core, &schedule, is_guarded, true);
        let failure = traced.expect_err("the same schedule has failed before");
        Box::new(Found {
            seed,
            failure,
            schedule,
        })
    })
}

/// Removes entries, or replaces them by `Nothing`, as long as a law still breaks.
fn shrink(schedule: &mut Schedule, fails: impl Fn(&Schedule) -> bool) {
    loop {
        let before = schedule.clone();
        for index in (0..schedule.tape.len()).rev() {
            let mut shorter = schedule.clone();
            shorter.tape.remove(index);
            let mut calmer = schedule.clone();
            calmer.tape[index] = Happening::Nothing;
            if fails(&shorter) {
                *schedule = shorter;
            } else if fails(&calmer) {
                *schedule = calmer;
            }
        }
        if *schedule == before {
            return;
        }
    }
}

/// Runs the seeds, and fails unless every law holds and every kill point of the kind was reached.
///
/// # Panics
/// With the trace of the first broken law, or with the kill points that were never reached.
pub fn check<K: KindCore, M: Model<K>>(core: &K, seeds: &Seeds) {
    let points = match search::<K, M>(core, seeds, true) {
        Ok(points) => points,
        Err(found) => panic!("{found}"),
    };
    // A few seeds reach what they reach.
    let are_few = seeds.len() < 1_000;
    let writes = ["metadata", "status"].into_iter();
    let names = <K::Step as Effect>::NAMES.iter().copied().chain(writes);
    let expected = names
        .flat_map(|name| ["before", "after"].map(|side| format!("{}.{name}.{side}", core.name())));
    let missed: Vec<String> = expected.filter(|point| !points.contains(point)).collect();
    assert!(
        are_few || missed.is_empty(),
        "kill points that no schedule reached: {missed:?}"
    );
}
