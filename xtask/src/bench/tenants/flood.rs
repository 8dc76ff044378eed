//! 5,000 tenants with DNS while CloudFront accepts five calls per second: the duration, the throttled
//! calls, and whether the many tenants of one namespace delay the few of the others.

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
use super::setup::{Pace, TenantsSetup};
use crate::progress::Progress;
use crate::verdict::Error;

/// The first namespace has nearly half of the tenants, and they are created first.
pub(super) const FLOOD: Crowd = Crowd {
    name: "flood",
    count: 5_000,
    namespaces: 20,
    first: 2_150,
};
/// Named in the bars.
const FACTOR: u32 = 6;
/// Twice the target of the bar.
const PATIENCE: Duration = Duration::from_secs(2 * 2_100 / FACTOR as u64);

pub(super) async fn measure(setup: &TenantsSetup, progress: &Progress) -> Result<Found> {
    progress.step("5,000 new tenants, CloudFront takes five calls a second (time ×6)");
    setup.switch(json!({"cloudfront": {"rate": 5, "deployDelay": 60}}))?;
    setup.run(Pace::Times(FACTOR)).await?;
    let (begin, began) = (setup.now()?, setup.time()?);
    setup.cluster.create(FLOOD.all()).await?;
    setup.until_ready(FLOOD, FLOOD.count, PATIENCE).await?;

    let entries = setup.cluster.plane.entries_since(begin.kubernetes).await?;
    let seconds = lasted(&entries).ok_or_else(|| Error::new("the audit log shows no making"))?;
    let seconds = seconds * f64::from(FACTOR);
    let calls = setup.calls(begin)?;
    let memory = peak(setup.cluster.operator())?;
    setup.cluster.stop().await?;
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
        format!("5,000 tenants: {}", calls.summary()),
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

/// The share of each namespace's tenants that existed in CloudFront at that time.
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
