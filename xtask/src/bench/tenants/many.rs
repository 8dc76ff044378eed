//! 1,000 tenants with DNS in one zone, at once: the calls of AWS and of the API server.

use std::time::Duration;

use testkit::Result;
use tokio::time::sleep;

use super::super::bar::Bar;
use super::super::found::Found;
use super::audit::{Written, lasted};
use super::crowd::Crowd;
use super::one::{ALONE, LATE};
use super::setup::{Pace, TenantsSetup};
use crate::progress::Progress;
use crate::verdict::Error;

pub(super) const NEW: Crowd = Crowd {
    name: "new",
    count: 1_000,
    namespaces: 10,
    first: 100,
};
const PATIENCE: Duration = Duration::from_secs(15 * 60);

pub(super) async fn measure(setup: &TenantsSetup, progress: &Progress) -> Result<Found> {
    progress.step("1,000 new tenants with DNS in one zone");
    // A new process, so that nothing is cached.
    setup.run(Pace::Real).await?;
    let begin = setup.now()?;
    setup.cluster.create(NEW.all()).await?;
    let ready = NEW.count + ALONE.count;
    setup.until_ready(NEW, ready, PATIENCE).await?;
    let entries = setup.cluster.plane.entries_since(begin.kubernetes).await?;
    let seconds = lasted(&entries).ok_or_else(|| Error::new("the audit log shows no making"))?;
    sleep(LATE).await;

    let calls = setup.calls(begin)?;
    let written = Written::among(&setup.writes(begin).await?);
    setup.cluster.stop().await?;
    let at_most = |what, operation, most| Bar::at_most(what, calls.of(operation), most, "").whole();
    let bars = vec![
        at_most(
            "1,000 new tenants: Creates",
            "CreateDistributionTenant",
            1_000.0,
        ),
        at_most(
            "1,000 new tenants: ChangeResourceRecordSets",
            "ChangeResourceRecordSets",
            25.0,
        ),
        at_most("1,000 new tenants: GetDistribution", "GetDistribution", 5.0),
        at_most(
            "1,000 new tenants: ListConnectionGroups",
            "ListConnectionGroups",
            5.0,
        ),
        at_most(
            "1,000 new tenants: DescribeCertificate",
            "DescribeCertificate",
            5.0,
        ),
        Bar::at_most(
            "1,000 new tenants: most writes of one object",
            written.most(),
            6.0,
            "",
        )
        .whole(),
    ];
    let notes = vec![
        format!("1,000 new tenants: {seconds:.0} s from the first create to the last status"),
        format!("  {}", calls.summary()),
        format!("  {}", written.summary()),
    ];
    Ok(Found { bars, notes })
}
