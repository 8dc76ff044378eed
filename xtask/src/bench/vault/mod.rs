//! The bars of the vault feature, measured in one run: the operator as users get it, against a real
//! Vault, with a proxy in between that counts, and a real API server.
//!
//! ```text
//! large site: 5,000 policies and 5,000 roles made ─▶ some edited ─▶ restart ─▶ two resyncs
//! bulk site:  300 policies and 300 roles made at once ─▶ as many writes by a bare loop ─▶ deleted
//! small site: edits on one connection, while another one is well or a black hole
//! ```
//! Calls are counted by the proxy, writes and times come from the API server's audit log.

mod audit;
mod bulk;
mod calls;
mod crowd;
mod edits;
mod hole;
mod pairs;
mod restart;
mod setup;
mod steady;

use std::path::Path;

use testkit::tools::Tool;

use self::pairs::Pairs;
use self::setup::VaultSetup;
use super::build;
use super::found::Found;
use crate::cargo::OperatorBuild;
use crate::progress::Progress;
use crate::tools;
use crate::verdict::{Error, Verdict};

/// The servers that the operator is measured against.
const SERVERS: [Tool; 3] = [Tool::KubeApiserver, Tool::Etcd, Tool::Vault];

/// Requests per second of the crowd's connection.
const RATE: u32 = 100;
/// The contract's 5,000 policies, each with a role that binds it.
const CROWD: Pairs = Pairs {
    connection: "main",
    count: 5_000,
    namespaces: 50,
    requests_per_second: Some(RATE),
};

/// Measures all bars and prints them.
pub(super) fn run() -> Result<Verdict, Error> {
    run_parts("vault", &[Part::Crowd, Part::Bulk, Part::Hole])
}

/// Measures only the bars of bulk creation and deletion, which takes a few minutes.
pub(super) fn run_bulk() -> Result<Verdict, Error> {
    run_parts("vault-bulk", &[Part::Bulk])
}

/// A part of the bench with its own setup.
#[derive(Clone, Copy)]
enum Part {
    Crowd,
    Bulk,
    Hole,
}

fn run_parts(name: &'static str, parts: &[Part]) -> Result<Verdict, Error> {
    let progress = Progress::new();
    let operator = progress.aside("building pontoon in release", || {
        build::release(OperatorBuild::Plain)
    })?;
    tools::ensure(&SERVERS, &progress)?;
    crate::wait(async {
        let mut found = Found::begun();
        for part in parts {
            let measured = part.measure(&operator, &progress).await;
            found.add(measured.map_err(|error| Error::new(format!("{error:#}")))?);
        }
        drop(progress);
        Ok(found.print(name, &SERVERS))
    })
}

impl Part {
    async fn measure(self, operator: &Path, progress: &Progress) -> testkit::Result<Found> {
        match self {
            Self::Crowd => crowd(operator, progress).await,
            Self::Bulk => {
                progress.step("starting a site for many at once");
                let setup = VaultSetup::start(operator, &[bulk::BULK]).await?;
                bulk::measure(&setup, progress).await
            }
            Self::Hole => {
                progress.step("starting a small site");
                let small = VaultSetup::start(operator, &[hole::OURS, hole::THEIRS]).await?;
                hole::measure(&small, progress).await
            }
        }
    }
}

async fn crowd(operator: &Path, progress: &Progress) -> testkit::Result<Found> {
    progress.step("starting a large site");
    let large = VaultSetup::start(operator, &[CROWD]).await?;
    let mut found = crowd::measure(&large, progress).await?;
    found.add(edits::measure(&large, progress).await?);
    found.add(restart::measure(&large, progress).await?);
    found.add(steady::measure(&large, progress).await?);
    Ok(found)
}
