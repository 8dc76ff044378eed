//! The bars of the migrate feature, measured in one run: the operator as users get it, two real clusters with
//! simulated nodes, and EC2's emulator. Everything runs in real time.
//!
//! ```text
//! three runs, one after another ─▶ twenty runs at once ─▶ eleven runs that wait for 220 disks
//! ```
//! Times come from the audit logs of both API servers and from the log of the emulator, which share a clock.

mod alone;
mod logs;
mod many;
mod moved;
mod setup;
mod totals;
mod waiting;

use testkit::disks::SetPlan;
use testkit::tools::Tool;

use self::setup::MigrateSetup;
use self::totals::Totals;
use super::build;
use super::found::Found;
use crate::cargo::OperatorBuild;
use crate::progress::Progress;
use crate::tools;
use crate::verdict::{Error, Verdict};

/// The servers that the operator is measured against, besides the emulator.
const SERVERS: [Tool; 4] = [
    Tool::KubeApiserver,
    Tool::Etcd,
    Tool::KubeControllerManager,
    Tool::KubeScheduler,
];

/// Measures all bars and prints them.
pub(super) fn run() -> Result<Verdict, Error> {
    let progress = Progress::new();
    let program = progress.aside("building pontoon in release", || {
        build::release(OperatorBuild::Plain)
    })?;
    tools::ensure(&SERVERS, &progress)?;
    crate::wait(async {
        let measured = async {
            progress.step("starting two clusters");
            let setup = MigrateSetup::start(&program).await?;
            measure(&setup, &progress).await
        };
        let found = Box::pin(measured).await;
        let found = found.map_err(|error| Error::new(format!("{error:#}")))?;
        drop(progress);
        Ok(found.print("migrate", &SERVERS))
    })
}

async fn measure(setup: &MigrateSetup, progress: &Progress) -> testkit::Result<Found> {
    let mut found = Found::begun();
    let mut totals = Totals::default();
    let alone = alone::measure(setup, &mut totals, progress).await?;
    let many = many::measure(setup, alone.seconds, &mut totals, progress).await?;
    let waiting = waiting::measure(setup, progress).await?;
    found.bars.extend(alone.overhead);
    found.bars.extend([totals.down(), many.time, alone.reads]);
    found.bars.extend(waiting.bars);
    found.bars.extend(totals.writes());
    found.bars.push(many.memory);
    found.notes.extend(alone.notes);
    found.notes.extend(many.notes);
    found.notes.extend(waiting.notes);
    found.notes.push(totals.note());
    Ok(found)
}

/// Sets of so many replicas, each in a namespace of its own.
fn numbered(name: &str, count: usize, replicas: u32) -> Vec<SetPlan> {
    let set = |number| SetPlan {
        replicas,
        ..SetPlan::new(&format!("{name}-{number}"))
    };
    (1..=count).map(set).collect()
}

/// A count as a measurement. One that is far too large becomes a number that meets no bar.
fn count(all: impl Iterator) -> f64 {
    f64::from(u32::try_from(all.count()).unwrap_or(u32::MAX))
}

/// The largest value; none of them meets no bar.
fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::max)
}
