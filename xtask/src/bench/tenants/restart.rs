//! A restart with 10,000 tenants in order: all are compared by a list, and nothing is written.

use std::time::Duration;

use testkit::Result;

use super::super::bar::Bar;
use super::super::cluster::peak;
use super::super::found::Found;
use super::STEADY;
use super::audit::shown;
use super::calls::count;
use super::site::{Pace, Site};
use crate::progress::Progress;
use crate::verdict::Error;

/// Tenants on a page of a list.
const PAGE: usize = 100;
const PATIENCE: Duration = Duration::from_secs(5 * 60);

pub(super) async fn measure(site: &Site, size: usize, progress: &Progress) -> Result<Found> {
    progress.step("10,000 steady tenants: restart");
    let begin = site.now()?;
    site.run(Pace::Real).await?;
    site.until_swept(PATIENCE).await?;

    let (calls, writes) = (site.calls(begin)?, site.writes(begin).await?);
    let pages = calls.done("ListDistributionTenants").count();
    if pages < STEADY.count.div_ceil(PAGE) {
        let message = format!("{pages} pages were listed, so not all tenants were compared");
        return Err(Error::new(message).into());
    }
    let memory = peak(site.cluster.operator())?;
    site.cluster.stop().await?;
    let mut notes = vec![
        format!("restart: {}", calls.told()),
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
