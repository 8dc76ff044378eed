//! The bars of the vault feature, measured in one run: the operator as users get it, against a real
//! Vault, with a proxy in between that counts, and a real API server.
//!
//! ```text
//! large site: 5,000 policies and 5,000 roles made ─▶ some edited ─▶ restart ─▶ two resyncs
//! small site: edits on one connection, while another one is well or a black hole
//! ```
//! Calls are counted by the proxy, writes and times come from the API server's audit log.

mod audit;
mod calls;
mod crowd;
mod edits;
mod hole;
mod pairs;
mod restart;
mod site;
mod steady;

use std::path::Path;

use testkit::tools::Tool;

use self::pairs::Pairs;
use self::site::Site;
use super::build;
use super::found::Found;
use crate::cargo::OperatorBuild;
use crate::progress::Progress;
use crate::tools;
use crate::verdict::{Error, Verdict};

/// What the operator is measured against.
const SERVERS: [Tool; 3] = [Tool::KubeApiserver, Tool::Etcd, Tool::Vault];

/// The contract's 5,000 policies, each with a role that binds it.
const CROWD: Pairs = Pairs {
    connection: "main",
    count: 5_000,
    namespaces: 50,
};

/// Measures all bars and prints them.
pub(super) fn run() -> Result<Verdict, Error> {
    let progress = Progress::new();
    let operator = progress.aside("building pontoon in release", || {
        build::release(OperatorBuild::Plain)
    })?;
    tools::ensure(&SERVERS, &progress)?;
    crate::wait(async {
        let found = measure(&operator, &progress)
            .await
            .map_err(|error| Error::new(format!("{error:#}")))?;
        drop(progress);
        Ok(found.print("vault", &SERVERS))
    })
}

async fn measure(operator: &Path, progress: &Progress) -> testkit::Result<Found> {
    let mut found = Found::begun();
    progress.step("starting a large site");
    let large = Site::start(operator, &[CROWD]).await?;
    found.add(crowd::measure(&large, progress).await?);
    found.add(edits::measure(&large, progress).await?);
    found.add(restart::measure(&large, progress).await?);
    found.add(steady::measure(&large, progress).await?);
    drop(large);
    progress.step("starting a small site");
    let small = Site::start(operator, &[hole::OURS, hole::THEIRS]).await?;
    found.add(hole::measure(&small, progress).await?);
    Ok(found)
}
