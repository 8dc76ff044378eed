//! Tenants without DNS, one after another: the time until the create call, and the writes.

use std::time::Duration;

use jiff::Timestamp;
use testkit::Result;
use tokio::time::sleep;

use super::super::bar::Bar;
use super::super::cluster::PATIENCE;
use super::super::found::Found;
use super::audit::Written;
use super::crowd::Crowd;
use super::setup::{Pace, TenantsSetup};
use crate::progress::Progress;
use crate::verdict::Error;

pub(super) const ALONE: Crowd = Crowd {
    name: "alone",
    count: 5,
    namespaces: 1,
    first: 5,
};
/// The pause between two tenants.
const PAUSE: Duration = Duration::from_secs(3);
/// Late writes are done by then: a tenant in progress is read every half minute.
pub(super) const LATE: Duration = Duration::from_secs(45);

pub(super) async fn measure(setup: &TenantsSetup, progress: &Progress) -> Result<Found> {
    progress.step("five tenants without DNS, one after another");
    setup.run(Pace::Real).await?;
    // The API server is slow with the first object of a new kind.
    let dry = format!("{}?dryRun=All", ALONE.home_path(0));
    setup.cluster.create([(dry, ALONE.plain(0))]).await?;
    let begin = setup.now()?;
    let mut applied = Vec::new();
    for number in 0..ALONE.count {
        applied.push(Timestamp::now());
        let object = (ALONE.home_path(number), ALONE.plain(number));
        setup.cluster.create([object]).await?;
        sleep(PAUSE).await;
    }
    setup.until_ready(ALONE, ALONE.count, PATIENCE).await?;
    sleep(LATE).await;

    let calls = setup.calls(begin)?;
    let wait = |(number, applied): (usize, &Timestamp)| {
        let name = ALONE.tenant(number);
        let mut creates = calls.done("CreateDistributionTenant");
        let create = creates.find(|call| call.resource() == name)?;
        Some(create.time.duration_since(*applied).as_secs_f64())
    };
    let waits: Option<Vec<f64>> = applied.iter().enumerate().map(wait).collect();
    let waits = waits.ok_or_else(|| Error::new("a tenant is ready that nobody has created"))?;
    let slowest = waits.iter().copied().fold(f64::NAN, f64::max);
    let written = Written::among(&setup.writes(begin).await?);
    setup.cluster.stop().await?;
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
        notes: vec![format!(
            "without DNS: {}; {}",
            calls.summary(),
            written.summary()
        )],
    })
}
