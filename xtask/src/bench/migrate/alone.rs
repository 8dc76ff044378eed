//! Runs of five ordinals, one after another: what the operator adds to each ordinal, and its reads of EC2.

use std::time::Duration;

use serde_json::json;
use testkit::Result;

use super::super::bar::{Bar, median};
use super::moved::{Overhead, Run, Steps};
use super::setup::MigrateSetup;
use super::totals::Totals;
use super::{count, largest, numbered};
use crate::progress::Progress;
use crate::table::table;
use crate::verdict::Error;

const RUNS: usize = 3;
/// How long a run may take before the bench gives up.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);
/// The contract's rate of reads while volumes wait, a second and 200 volumes.
pub(super) const READS_A_SECOND: f64 = 1.3;
/// What it allows an ordinal in addition.
const READS_OF_ORDINAL: f64 = 4.0;

pub(super) struct Alone {
    pub(super) overhead: Vec<Bar>,
    pub(super) reads: Bar,
    /// Seconds from the creation of a migration to its last status.
    pub(super) seconds: f64,
    pub(super) notes: Vec<String>,
}

pub(super) async fn measure(
    setup: &MigrateSetup,
    totals: &mut Totals,
    progress: &Progress,
) -> Result<Alone> {
    progress.step("three runs, one after another");
    let sets = numbered("alone", RUNS, 5);
    setup.create_sets(&sets).await?;
    let (mut steps, mut seconds, mut reads) = (Vec::new(), Vec::new(), Vec::new());
    for set in &sets {
        let begin = setup.now()?;
        let set = std::slice::from_ref(set);
        setup.migrate(set, &json!({})).await?;
        let completed = |status: &serde_json::Value| status["phase"] == "Completed";
        setup
            .until("the run is Completed", set, PATIENCE, completed)
            .await?;
        let logs = setup.logs(begin).await?;
        let run = Run {
            logs: &logs,
            set: &set[0],
        };
        let own = steps_of(&run)?;
        reads.extend(own.iter().map(|steps| share_of_reads(&run, steps)));
        steps.extend(own);
        let (from, to) = run
            .span()
            .ok_or_else(|| Error::new("the run is not logged"))?;
        seconds.push(to.duration_since(from).as_secs_f64());
        totals.add(&run);
    }
    let overheads: Vec<Overhead> = steps.iter().map(Steps::overhead).collect();
    let totals: Vec<f64> = overheads.iter().map(|one| one.total * 1e3).collect();
    let seconds = median(&seconds);
    Ok(Alone {
        overhead: vec![
            Bar::at_most(
                "own overhead of an ordinal, median of 15",
                median(&totals),
                300.0,
                " ms",
            ),
            Bar::at_most(
                "own overhead of an ordinal, largest of 15",
                largest(&totals),
                600.0,
                " ms",
            ),
        ],
        reads: Bar::at_most(
            "DescribeVolumes of an ordinal ÷ allowed, largest of 15",
            largest(&reads),
            1.0,
            "",
        )
        .fine(),
        notes: notes(&overheads, seconds),
        seconds,
    })
}

fn steps_of(run: &Run<'_>) -> Result<Vec<Steps>> {
    let steps = run.set.ordinals().map(|ordinal| {
        let missing = || Error::new(format!("the logs lack evidence of ordinal {ordinal}"));
        run.steps(ordinal).ok_or_else(missing)
    });
    Ok(steps.collect::<Result<_, _>>()?)
}

/// The reads of EC2 from the end of the pod in the source until it is Ready in the destination, divided by those
/// that the contract allows for this time.
fn share_of_reads(run: &Run<'_>, steps: &Steps) -> f64 {
    let waiting = steps.pod_gone..steps.ready;
    let reads = run.logs.calls.iter().filter(|call| call.is_read());
    let made = count(reads.filter(|call| waiting.contains(&call.time)));
    let seconds = steps.ready.duration_since(steps.pod_gone).as_secs_f64();
    made / (READS_A_SECOND * seconds + READS_OF_ORDINAL)
}

fn notes(overheads: &[Overhead], seconds: f64) -> Vec<String> {
    let gaps: [(&str, fn(&Overhead) -> f64); 5] = [
        ("disk free → claim deleted", |one| one.fence),
        ("claim gone → tombstone", |one| one.tombstone),
        ("fenced, two seconds over → grown", |one| one.grow),
        ("pod Ready → next effect", |one| one.next),
        ("their sum", Overhead::sum),
    ];
    let row = |(name, gap): (&str, fn(&Overhead) -> f64)| {
        let all: Vec<f64> = overheads.iter().map(|one| gap(one) * 1e3).collect();
        let [middle, most] = [median(&all), largest(&all)].map(|value| format!("{value:.0}"));
        [name.to_owned(), middle, most]
    };
    let rows = gaps.map(row).into();
    let table = table(["GAP", "MEDIAN MS", "LARGEST MS"], rows);
    vec![
        format!("one run alone: {seconds:.1} s\n"),
        table,
        String::new(),
    ]
}
