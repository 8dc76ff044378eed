//! The engine's bars, measured in one run: the operator as a process, against a real API server.
//!
//! ```text
//! small cluster: idle ─▶ start ─▶ waves of 4,000 applies (bare loop, ours, with a bad object) ─▶ succession
//! large cluster: 10,000 objects ─▶ memory ─▶ edits ─▶ one resync
//! ```
//! Times come from the API server's audit log where they can: one clock for the bare loop and for
//! ours, and nothing of the measuring in between.

mod bar;
mod build;
mod cluster;
mod crowd;
mod idle;
mod succession;
mod wave;

use std::path::Path;

use testkit::tools::Tool;

use self::bar::Bar;
use self::cluster::Cluster;
use super::machine;
use crate::progress::Progress;
use crate::tools;
use crate::verdict::{Error, Verdict};

/// What a stage of the bench found out.
#[derive(Default)]
struct Found {
    bars: Vec<Bar>,
    /// What the bars were computed from, for the reader.
    notes: Vec<String>,
}

impl Found {
    fn add(&mut self, more: Self) {
        self.bars.extend(more.bars);
        self.notes.extend(more.notes);
    }
}

/// Measures all bars and prints them.
pub(super) fn run() -> Result<Verdict, Error> {
    let progress = Progress::new();
    let builds = progress.aside(
        "building pontoon in release, with and without its test kinds",
        build::builds,
    )?;
    tools::ensure(&[Tool::Etcd, Tool::KubeApiserver], &progress)?;
    crate::wait(async {
        let mut found = measure(&builds.chaos, &progress)
            .await
            .map_err(|error| Error::new(format!("{error:#}")))?;
        drop(progress);
        found.bars.push(build::size(&builds.plain)?);
        Ok(print(&found))
    })
}

async fn measure(operator: &Path, progress: &Progress) -> testkit::Result<Found> {
    let mut found = Found::default();
    found.notes.push(format!(
        "load before the start: {}; ratios mean little beside other work\n",
        machine::load()
    ));
    progress.step("starting a small cluster");
    let small = Cluster::start(operator).await?;
    found.add(idle::measure(&small, progress).await?);
    found.add(wave::measure(&small, progress).await?);
    found.add(succession::measure(&small, progress).await?);
    drop(small);
    progress.step("starting a large cluster");
    let large = Cluster::start(operator).await?;
    found.add(crowd::measure(&large, progress).await?);
    Ok(found)
}

fn print(found: &Found) -> Verdict {
    println!("{}\n", machine::description());
    println!("{}\n", bar::table(&found.bars));
    println!("{}\n", found.notes.join("\n"));
    let met = found.bars.iter().filter(|bar| bar.is_met()).count();
    println!("bench engine: {met} of {} bars met", found.bars.len());
    Verdict::of(met == found.bars.len())
}
