//! The bars of the tenants feature, measured in one run: the operator as users get it, against the
//! AWS emulator and a real API server.
//!
//! ```text
//! small site: five tenants without DNS, one after another ─▶ 1,000 with DNS at once
//! slow site:  5,000 with DNS, CloudFront takes five calls a second        (time ×6)
//! large site: 10,000 put in order ─▶ restart ─▶ an hour ─▶ console edits  (time ×24 from the hour on)
//! ```
//! If time runs faster, it does so for the operator and for AWS: an hour is an hour to both, and the
//! time that this machine needs is multiplied by the factor. Only the build with the test kinds can do
//! that; everything else is measured with the plain build in real time.
//!
//! Calls and their times come from the emulator's log, writes from the API server's audit log.

mod audit;
mod calls;
mod copies;
mod crowd;
mod drift;
mod flood;
mod hour;
mod many;
mod one;
mod restart;
mod setup;

use testkit::tools::Tool;

use self::crowd::Crowd;
use self::setup::{Programs, TenantsSetup};
use super::build;
use super::found::Found;
use crate::cargo::OperatorBuild;
use crate::progress::Progress;
use crate::tools;
use crate::verdict::{Error, Verdict};

/// The servers that the operator is measured against, besides the emulator.
const SERVERS: [Tool; 2] = [Tool::KubeApiserver, Tool::Etcd];

/// The contract's 10,000 steady tenants.
const STEADY: Crowd = Crowd {
    name: "steady",
    count: 10_000,
    namespaces: 50,
    first: 200,
};

/// Measures all bars and prints them.
pub(super) fn run() -> Result<Verdict, Error> {
    let progress = Progress::new();
    let programs = progress.aside(
        "building pontoon in release, with its test kinds and plain",
        || {
            Ok::<_, Error>(Programs {
                scaled: build::release(OperatorBuild::Chaos)?,
                plain: build::release(OperatorBuild::Plain)?,
            })
        },
    )?;
    tools::ensure(&SERVERS, &progress)?;
    crate::wait(async {
        let found = measure(&programs, &progress)
            .await
            .map_err(|error| Error::new(format!("{error:#}")))?;
        drop(progress);
        Ok(found.print("tenants", &SERVERS))
    })
}

async fn measure(programs: &Programs, progress: &Progress) -> testkit::Result<Found> {
    let mut found = Found::begun();
    progress.step("starting a small site");
    let small = TenantsSetup::start(programs, &[one::ALONE, many::NEW]).await?;
    found.add(one::measure(&small, progress).await?);
    found.add(many::measure(&small, progress).await?);
    drop(small);
    progress.step("starting a slow site");
    let slow = TenantsSetup::start(programs, &[flood::FLOOD]).await?;
    found.add(flood::measure(&slow, progress).await?);
    drop(slow);
    progress.step("starting a large site");
    let large = TenantsSetup::start(programs, &[STEADY]).await?;
    let size = copies::create_all(&large, progress).await?;
    found.add(restart::measure(&large, size, progress).await?);
    found.add(hour::measure(&large, progress).await?);
    found.add(drift::measure(&large, progress).await?);
    Ok(found)
}
