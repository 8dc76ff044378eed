//! A restart with 10,000 steady tenants: all are compared by a list, and nothing is written.

use std::time::Duration;

use testkit::Result;

use super::super::bar::Bar;
use super::super::cluster::peak;
use super::super::found::Found;
use super::STEADY;
use super::audit::shown;
use super::calls::count;
use super::setup::{Pace, TenantsSetup};
use crate::progress::Progress;
use crate::verdict::Error;

/// Tenants on a page of a list.
const PAGE: usize = 100;
const PATIENCE: Duration = Duration::from_secs(5 * 60);

pub(super) async fn measure(
    setup: &TenantsSetup,
    size: usize,
    progress: &Progress,
) -> Result<Found> {
    progress.step("10,000 steady tenants: restart");
    let begin = setup.now()?;
    setup.run(Pace::Real).await?;
    setup.until_swept(PATIENCE).await?;

    let (calls, writes) = (setup.calls(begin)?, setup.writes(begin).await?);
    let pages = calls.done("ListDistributionTenants").count();
    if pages < STEADY.count.div_ceil(PAGE) {
        let message = format!("{pages} pages were listed, so not all tenants were compared");
        return Err(Error::new(message).into());
    }
    let memory = peak(setup.cluster.operator())?;
    setup.cluster.stop().await?;
    let mut notes = vec![
        format!("restart: {}", calls.summary()),
        format!("  an object has {size} bytes"),
    ];
    notes.extend(shown(&writes));
    Ok(Found {
        bars: vec![
            Bar::at_most(
                "restart with 10,000 steady tenants: CloudFront calls until swept",
                calls.cloudfront(),
                150.0,
                "",
            )
            .whole(),
            Bar::at_most("restart: AWS writes until swept", calls.writes(), 0.0, "").whole(),
            Bar::at_most(
                "restart: writes to Kubernetes but Leases",
                count(writes.iter()),
                0.0,
                "",
            )
            .whole(),
            Bar::at_most(
                "restart: peak resident memory, 10,000 objects of 3 KB",
                memory,
                128.0,
                " MiB",
            ),
        ],
        notes,
    })
}
