//! The engine's bars, measured in one run: the operator as a process, against a real API server.
//!
//! ```text
//! small cluster: idle ─▶ start ─▶ waves of 4,000 applies (bare loop, ours, with a bad object) ─▶ succession
//! large cluster: 10,000 objects ─▶ memory ─▶ edits ─▶ one resync
//! ```
//! Times come from the API server's audit log if possible: one clock for the bare loop and for the
//! operator, without the overhead of measuring.

mod crowd;
mod idle;
mod probes;
mod size;
mod succession;
mod wave;

use std::path::Path;

use testkit::tools::Tool;

use super::build;
use super::found::Found;
use crate::cargo::OperatorBuild;
use crate::progress::Progress;
use crate::tools;
use crate::verdict::{Error, Verdict};

/// The servers that the operator is measured against.
const SERVERS: [Tool; 2] = [Tool::KubeApiserver, Tool::Etcd];

/// Measures all bars and prints them.
pub(super) fn run() -> Result<Verdict, Error> {
    let progress = Progress::new();
    let (chaos, plain) = progress.aside(
        "building pontoon in release, with and without its test kinds",
        || {
            let chaos = build::release(OperatorBuild::Chaos)?;
            Ok((chaos, build::release(OperatorBuild::Plain)?))
        },
    )?;
    tools::ensure(&SERVERS, &progress)?;
    crate::wait(async {
        let mut found = measure(&chaos, &progress)
            .await
            .map_err(|error| Error::new(format!("{error:#}")))?;
        drop(progress);
        found.bars.push(size::size(&plain)?);
        Ok(found.print("engine", &SERVERS))
    })
}

async fn measure(operator: &Path, progress: &Progress) -> testkit::Result<Found> {
    let mut found = Found::begun();
    progress.step("starting a small cluster");
    let small = probes::cluster(operator).await?;
    found.add(idle::measure(&small, progress).await?);
    found.add(wave::measure(&small, progress).await?);
    found.add(succession::measure(&small, progress).await?);
    drop(small);
    progress.step("starting a large cluster");
    let large = probes::cluster(operator).await?;
    found.add(crowd::measure(&large, progress).await?);
    Ok(found)
}
