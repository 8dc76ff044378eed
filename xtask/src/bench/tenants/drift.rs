//! Edits at the console, among 10,000 tenants: how long until each is undone.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use testkit::{Result, eventually_within};
use tokio::time::sleep;

use super::super::bar::{Bar, median};
use super::super::found::Found;
use super::STEADY;
use super::hour::FACTOR;
use super::site::{Moment, Site};
use crate::progress::Progress;

const EDITS: usize = 10;
/// Between one edit and the next, in AWS's seconds: all of them span more than a sweep's interval.
const APART: u32 = 40;
/// The interval between sweeps, by default, and what the contract adds.
const ALLOWED: u32 = 300 + 60;
/// Thrice that, in real time.
const PATIENCE: Duration = Duration::from_secs(3 * ALLOWED as u64 / FACTOR as u64);

struct Edit {
    /// Of the tenant, in CloudFront.
    id: String,
    time: Timestamp,
}

/// The operator of the stage before goes on.
pub(super) async fn measure(site: &Site, progress: &Progress) -> Result<Found> {
    progress.step("10,000 steady tenants: ten are edited at the console (time ×24)");
    let begin = site.now()?;
    let mut edits = Vec::new();
    for turn in 0..EDITS {
        edits.push(edited(site, turn * (STEADY.count / EDITS))?);
        sleep(Duration::from_secs(u64::from(APART)) / FACTOR).await;
    }
    let look = async || {
        sleep(Duration::from_secs(1)).await;
        undone(site, begin, &edits)
    };
    let waits = eventually_within(PATIENCE, "all edits are undone", look).await?;

    site.cluster.stop().await?;
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

fn edited(site: &Site, number: usize) -> Result<Edit> {
    let time = site.time()?;
    let edit = json!({"tenant": STEADY.tenant(number), "enabled": false});
    let shown = site.console("cloudfront", json!({"edit": edit}))?;
    let id = shown["id"].as_str().unwrap_or_default().to_owned();
    Ok(Edit { id, time })
}

/// AWS's seconds from each edit to the Update that undoes it, once all are undone.
fn undone(site: &Site, begin: Moment, edits: &[Edit]) -> Result<Option<Vec<f64>>> {
    let calls = site.calls(begin)?;
    let wait = |edit: &Edit| {
        let mut updates = calls.done("UpdateDistributionTenant");
        let update = updates.find(|call| call.resource() == edit.id)?;
        Some(update.time.duration_since(edit.time).as_secs_f64())
    };
    Ok(edits.iter().map(wait).collect())
}
