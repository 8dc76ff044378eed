//! Tenants without DNS, one after another: how soon CloudFront hears of them, and what is written.

use std::time::Duration;

use jiff::Timestamp;
use testkit::Result;
use tokio::time::sleep;

use super::super::bar::Bar;
use super::super::cluster::PATIENCE;
use super::super::found::Found;
use super::audit::Written;
use super::crowd::Crowd;
use super::site::{Pace, Site};
use crate::progress::Progress;
use crate::verdict::Error;

pub(super) const ALONE: Crowd = Crowd {
    name: "alone",
    count: 5,
    namespaces: 1,
    first: 5,
};
/// Between one and the next.
const PAUSE: Duration = Duration::from_secs(3);
/// Whatever is written late is written by then: what is in progress is looked at every half minute.
pub(super) const LATE: Duration = Duration::from_secs(45);

pub(super) async fn measure(site: &Site, progress: &Progress) -> Result<Found> {
    progress.step("five tenants without DNS, one after another");
    site.run(Pace::Real).await?;
    // The API server takes its time over the first object of a kind that is new to it.
    let dry = format!("{}?dryRun=All", ALONE.home_path(0));
    site.cluster.create([(dry, ALONE.plain(0))]).await?;
    let begin = site.now()?;
    let mut applied = Vec::new();
    for number in 0..ALONE.count {
        applied.push(Timestamp::now());
        let object = (ALONE.home_path(number), ALONE.plain(number));
        site.cluster.create([object]).await?;
        sleep(PAUSE).await;
    }
    site.until_ready(ALONE, ALONE.count, PATIENCE).await?;
    sleep(LATE).await;

    let calls = site.calls(begin)?;
    let wait = |(number, applied): (usize, &Timestamp)| {
        let name = ALONE.tenant(number);
        let mut creates = calls.done("CreateDistributionTenant");
        let create = creates.find(|call| call.resource() == name)?;
        Some(create.time.duration_since(*applied).as_secs_f64())
    };
    let waits: Option<Vec<f64>> = applied.iter().enumerate().map(wait).collect();
    let waits = waits.ok_or_else(|| Error::new("a tenant is ready that nobody has created"))?;
    let slowest = waits.iter().copied().fold(f64::NAN, f64::max);
    let written = Written::among(&site.writes(begin).await?);
    site.cluster.stop().await?;
    Ok(Found {
        bars: vec![
            Bar::at_most(
                "a tenant without DNS, slowest of 5: apply to Create",
                slowest,
                2.0,
                " s",
            )
            .fine(),
            Bar::at_most(
                "a tenant without DNS, most of 5: writes of its object",
                written.most(),
                4.0,
                "",
            )
            .whole(),
        ],
        notes: vec![format!("without DNS: {}; {}", calls.told(), written.told())],
    })
}
