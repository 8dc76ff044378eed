//! Drift among 10,000 tenants: the time until each edit in the console is corrected.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use testkit::{Result, eventually_within};
use tokio::time::sleep;

use super::super::bar::{Bar, median};
use super::super::found::Found;
use super::STEADY;
use super::hour::FACTOR;
use super::setup::{Moment, TenantsSetup};
use crate::progress::Progress;

const EDITS: usize = 10;
/// The time between two edits on AWS's clock: together they span more than a sweep's interval.
const APART: u32 = 40;
/// The default interval between sweeps, and the contract's allowance.
const ALLOWED: u32 = 300 + 60;
/// Three times that, in real time.
const PATIENCE: Duration = Duration::from_secs(3 * ALLOWED as u64 / FACTOR as u64);

struct Edit {
    /// The tenant's id in CloudFront.
    id: String,
    time: Timestamp,
}

/// The operator of the previous stage is still running.
pub(super) async fn measure(setup: &TenantsSetup, progress: &Progress) -> Result<Found> {
    progress.step("10,000 steady tenants: ten are edited at the console (time ×24)");
    let begin = setup.now()?;
    let mut edits = Vec::new();
    for index in 0..EDITS {
        edits.push(edited(setup, index * (STEADY.count / EDITS))?);
        sleep(Duration::from_secs(u64::from(APART)) / FACTOR).await;
    }
    let attempt = async || {
        sleep(Duration::from_secs(1)).await;
        undone(setup, begin, &edits)
    };
    let waits = eventually_within(PATIENCE, "all edits are undone", attempt).await?;

    setup.cluster.stop().await?;
    let slowest = waits.iter().copied().fold(f64::NAN, f64::max);
    let bar = Bar::at_most(
        "an edit at the console among 10,000, time ×24, slowest of 10: until undone",
        slowest,
        f64::from(ALLOWED),
        " s",
    );
    let middle = median(&waits);
    Ok(Found {
        bars: vec![bar],
        notes: vec![format!(
            "edits at the console: undone after {middle:.0} s in the median"
        )],
    })
}

fn edited(setup: &TenantsSetup, number: usize) -> Result<Edit> {
    let time = setup.time()?;
    let edit = json!({"tenant": STEADY.tenant(number), "enabled": false});
    let shown = setup.console("cloudfront", json!({"edit": edit}))?;
    let id = shown["id"].as_str().unwrap_or_default().to_owned();
    Ok(Edit { id, time })
}

/// The seconds on AWS's clock from each edit to its correction, once all are corrected.
fn undone(setup: &TenantsSetup, begin: Moment, edits: &[Edit]) -> Result<Option<Vec<f64>>> {
    let calls = setup.calls(begin)?;
    let wait = |edit: &Edit| {
        let mut updates = calls.done("UpdateDistributionTenant");
        let update = updates.find(|call| call.resource() == edit.id)?;
        Some(update.time.duration_since(edit.time).as_secs_f64())
    };
    Ok(edits.iter().map(wait).collect())
}
