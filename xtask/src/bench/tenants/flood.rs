//! 5,000 tenants with DNS while CloudFront takes five calls a second: how long, how often in vain,
//! and whether the many in one namespace hold up the few in the others.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use testkit::Result;

use super::super::bar::Bar;
use super::super::cluster::peak;
use super::super::found::Found;
use super::audit::lasted;
use super::calls::Calls;
use super::crowd::Crowd;
use super::site::{Pace, Site};
use crate::progress::Progress;
use crate::verdict::Error;

/// The first namespace has nearly half of them, and is filled first.
pub(super) const FLOOD: Crowd = Crowd {
    name: "flood",
    count: 5_000,
    namespaces: 20,
    first: 2_150,
};
/// Named in the bars.
const FACTOR: u32 = 6;
/// Twice what the bar allows.
const PATIENCE: Duration = Duration::from_secs(2 * 2_100 / FACTOR as u64);

pub(super) async fn measure(site: &Site, progress: &Progress) -> Result<Found> {
    progress.step("5,000 new tenants, CloudFront takes five calls a second (time ×6)");
    site.switch(json!({"cloudfront": {"rate": 5, "deployDelay": 60}}))?;
    site.run(Pace::Times(FACTOR)).await?;
    let (begin, began) = (site.now()?, site.time()?);
    site.cluster.create(FLOOD.all()).await?;
    site.until_ready(FLOOD, FLOOD.count, PATIENCE).await?;

    let entries = site.cluster.plane.entries_since(begin.kubernetes).await?;
    let seconds = lasted(&entries).ok_or_else(|| Error::new("the audit log shows no making"))?;
    let seconds = seconds * f64::from(FACTOR);
    let calls = site.calls(begin)?;
    let memory = peak(site.cluster.operator())?;
    site.cluster.stop().await?;
    let half = SignedDuration::try_from_secs_f64(seconds / 2.0)?;
    let shares = shares(&calls, began.checked_add(half)?);
    let idle = shares.iter().filter(|share| **share <= 0.0);
    let least = shares.iter().copied().fold(f64::NAN, f64::min);
    let bars = vec![
        Bar::at_most(
            "5,000 tenants, CloudFront at 5 calls a second, time ×6: until all are Ready",
            seconds,
            2_100.0,
            " s",
        ),
        Bar::at_most(
            "5,000 tenants, time ×6: calls of CloudFront that were throttled",
            100.0 * calls.throttled() / calls.cloudfront(),
            3.0,
            " %",
        )
        .fine(),
        Bar::at_most(
            "5,000 tenants, time ×6: namespaces of 20 with none created at half time",
            super::calls::count(idle),
            0.0,
            "",
        )
        .whole(),
    ];
    let notes = vec![
        format!("5,000 tenants: {}", calls.told()),
        format!(
            "  created at half time: {:.0} % of the namespace with {}, {:.0} % of the slowest",
            100.0 * shares[0],
            FLOOD.first,
            100.0 * least,
        ),
        format!("  peak resident memory {memory:.1} MiB"),
    ];
    Ok(Found { bars, notes })
}

/// Which share of each namespace's tenants CloudFront had by then.
fn shares(calls: &Calls, by: Timestamp) -> Vec<f64> {
    let namespaces = |numbers: &mut dyn Iterator<Item = usize>| {
        let mut counts = vec![0_u32; FLOOD.namespaces];
        for number in numbers {
            counts[FLOOD.namespace(number)] += 1;
        }
        counts
    };
    let creates = calls.done("CreateDistributionTenant");
    let early = creates.filter(|call| call.time <= by);
    let made = namespaces(&mut early.filter_map(|call| FLOOD.number(call.resource())));
    let all = namespaces(&mut (0..FLOOD.count));
    let share = |(made, all)| f64::from(made) / f64::from(all);
    made.into_iter().zip(all).map(share).collect()
}
