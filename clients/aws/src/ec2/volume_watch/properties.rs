//! Laws of the watch, for any times of requests and answers.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::tests::{free, ids, no_answer};
use super::{Batch, LARGEST_FILTER, VolumeWatch};

/// How long a run takes.
const RUN: Duration = Duration::from_secs(20);

/// A wanted read: when it is requested, of which volume, and for how much later.
type Want = (Duration, usize, Duration);

#[derive(Debug, Clone)]
struct Plan {
    volumes: usize,
    wants: Vec<Want>,
    longest_call: Duration,
    failing: f64,
    seed: u64,
}

/// What a run read.
#[derive(Debug, Default)]
struct Run {
    /// The sizes of the batches.
    batches: Vec<usize>,
    /// When the reads of each volume began.
    reads: BTreeMap<String, Vec<Duration>>,
}

impl Run {
    fn of(plan: &Plan) -> Self {
        let mut random = fastrand::Rng::with_seed(plan.seed);
        let mut watch = VolumeWatch::default();
        watch.wait(&(), ids(plan.volumes));
        let mut wants = plan.wants.clone();
        wants.sort();
        let mut calls: Vec<(Duration, Batch)> = Vec::new();
        let (mut run, mut now) = (Self::default(), Duration::ZERO);
        loop {
            while let Some(batch) = watch.begin(now, random.f64()) {
                run.batches.push(batch.ids().len());
                for id in batch.ids() {
                    run.reads.entry(id.clone()).or_default().push(now);
                }
                let took = plan.longest_call.mul_f64(random.f64());
                calls.push((now + took, batch));
            }
            let next = watch.next_read();
            assert!(next.is_none_or(|at| at > now), "due and not begun");
            let answered = calls.iter().map(|(at, _)| *at).min();
            let wanted = wants.first().map(|(at, ..)| *at);
            let next = [next, answered, wanted].into_iter().flatten().min();
            now = now.max(next.expect("a round is due or unanswered"));
            if now > RUN {
                return run;
            }
            for (_, batch) in calls.extract_if(.., |(at, _)| *at <= now) {
                let volumes = batch.ids().iter().map(|id| free(id)).collect();
                let fails = random.f64() < plan.failing;
                watch.finish(batch, if fails { Err(no_answer()) } else { Ok(volumes) });
            }
            for (at, volume, later) in wants.extract_if(.., |(at, ..)| *at <= now) {
                watch.want(&ids(plan.volumes)[volume % plan.volumes], at + later);
            }
        }
    }
}

fn millis(longest: u64) -> impl Strategy<Value = Duration> {
    (0..=longest).prop_map(Duration::from_millis)
}

fn plans(longest_call: u64, failing: f64) -> impl Strategy<Value = Plan> {
    let want = (millis(18_000), any::<usize>(), millis(2000));
    let wants = proptest::collection::vec(want, 0..20);
    let volumes = prop_oneof![1..10_usize, 195..205_usize, 1..900_usize];
    let parts = (
        volumes,
        wants,
        millis(longest_call),
        0.0..=failing,
        any::<u64>(),
    );
    parts.prop_map(|(volumes, wants, longest_call, failing, seed)| Plan {
        volumes,
        wants,
        longest_call,
        failing,
        seed,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn calls_stay_in_the_budget(plan in plans(6000, 1.0)) {
        let run = Run::of(&plan);
        let batches = plan.volumes.div_ceil(LARGEST_FILTER);
        let regular = 1.3 * RUN.as_secs_f64() * f64::from(u32::try_from(batches).unwrap());
        let extra = batches + plan.wants.len();
        let most = regular + f64::from(u32::try_from(extra).unwrap());
        let calls = f64::from(u32::try_from(run.batches.len()).unwrap());
        prop_assert!(calls <= most, "{calls} of {most}");
    }

    #[test]
    fn a_batch_is_neither_empty_nor_too_large(plan in plans(6000, 1.0)) {
        for size in Run::of(&plan).batches {
            prop_assert!((1..=LARGEST_FILTER).contains(&size));
        }
    }

    #[test]
    fn no_volume_waits_longer_than_a_period_and_a_call(plan in plans(100, 1.0)) {
        let run = Run::of(&plan);
        // The batches of a round beyond the fourth wait for an answer.
        let longest = Duration::from_millis(1200) + 2 * plan.longest_call;
        for id in &ids(plan.volumes) {
            let mut before = Duration::ZERO;
            for at in run.reads[id].iter().chain([&RUN]) {
                prop_assert!(*at <= before + longest, "{id}: {before:?} to {at:?}");
                before = *at;
            }
        }
    }

    #[test]
    fn a_wanted_read_begins_at_its_time(plan in plans(0, 0.0)) {
        let run = Run::of(&plan);
        for (at, volume, later) in &plan.wants {
            let id = &ids(plan.volumes)[volume % plan.volumes];
            let from = *at + *later;
            if from <= RUN {
                prop_assert!(run.reads[id].contains(&from), "{id} at {from:?}");
            }
        }
    }
}
