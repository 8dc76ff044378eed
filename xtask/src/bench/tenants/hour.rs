//! 10,000 steady tenants, from one hourly listing of their zone to the next. Sweeps, the listing and
//! the daily read of each tenant all run on the same clock.

use std::time::Duration;

use jiff::Timestamp;
use testkit::{Result, eventually_within};
use tokio::time::sleep;

use super::super::bar::Bar;
use super::super::cluster::peak;
use super::super::found::Found;
use super::STEADY;
use super::audit::shown;
use super::calls::count;
use super::setup::{Pace, TenantsSetup};
use crate::progress::Progress;

/// Named in the bars of this stage and of the next.
pub(super) const FACTOR: u32 = 24;
const POLL: Duration = Duration::from_secs(5);
/// The first listing comes at most an hour and a tenth after the start, the next one as long after
/// it; half an hour more is for a busy machine.
const PATIENCE: Duration =
    Duration::from_secs(2 * 66 * 60 / FACTOR as u64 + 30 * 60 / FACTOR as u64);
const HOUR: f64 = 3_600.0;
/// The reference reads each tenant every five minutes.
const REFERENCE: usize = 12;

pub(super) async fn measure(setup: &TenantsSetup, progress: &Progress) -> Result<Found> {
    progress.step("10,000 steady tenants: an hour between two listings of the zone (time ×24)");
    setup.run(Pace::Times(FACTOR)).await?;
    setup.until_swept(PATIENCE).await?;
    let (begin, began) = (setup.now()?, setup.time()?);
    let attempt = async || {
        sleep(POLL).await;
        let listings = setup.calls(begin)?.listings();
        Ok(listings.first_chunk::<2>().copied())
    };
    let listed = eventually_within(PATIENCE, "the zone is listed twice", attempt);
    let [from, to] = listed.await?;

    let (calls, writes) = (setup.calls(begin)?, setup.writes(begin).await?);
    let seconds = span(from, to);
    let within = calls.between(from, to);
    let memory = peak(setup.cluster.operator())?;
    let mut notes = vec![
        format!(
            "steady: {} in {:.0} min; the reference's loop would be {} calls an hour and more",
            within.summary(),
            seconds / 60.0,
            REFERENCE * STEADY.count,
        ),
        format!(
            "  writes are those of {:.0} min",
            span(began, setup.time()?) / 60.0
        ),
    ];
    notes.extend(shown(&writes));
    Ok(Found {
        bars: vec![
            Bar::at_most(
                "10,000 steady tenants, time ×24: AWS calls an hour",
                within.count() * HOUR / seconds,
                2_400.0,
                "",
            )
            .whole(),
            Bar::at_most("steady, time ×24: AWS writes", calls.writes(), 0.0, "").whole(),
            Bar::at_most(
                "steady, time ×24: writes to Kubernetes but Leases",
                count(writes.iter()),
                0.0,
                "",
            )
            .whole(),
            Bar::at_most(
                "steady, time ×24: peak resident memory, 10,000 objects of 3 KB",
                memory,
                128.0,
                " MiB",
            ),
        ],
        notes,
    })
}

fn span(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}
