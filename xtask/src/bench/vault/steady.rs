//! 10,000 steady objects, for two resyncs.

use testkit::Result;

use super::super::bar::Bar;
use super::super::found::Found;
use super::CROWD;
use super::restart::RESYNC;
use super::setup::{SHOWN, VaultSetup, number, shown};
use crate::progress::Progress;
use crate::verdict::Error;

const RESYNCS: u32 = 2;

pub(super) async fn measure(setup: &VaultSetup, progress: &Progress) -> Result<Found> {
    progress.step("10,000 objects: two resyncs");
    // A resync is at most a tenth early, so in this time no object is due more often.
    let span = RESYNC.mul_f64(0.9) * RESYNCS;
    let begin = setup.now();
    tokio::time::sleep(span).await;

    let (calls, writes) = (setup.calls(begin), setup.writes(begin).await?);
    let reads = calls.reads();
    if reads.len() != CROWD.objects() {
        let message = format!("{} objects were looked at in two resyncs", reads.len());
        return Err(Error::new(message).into());
    }
    let most = reads.values().max().copied().unwrap_or_default();
    let mut notes = vec![format!(
        "two resyncs: {} reads of {} objects, {} looks at Vault's health in {} s",
        reads.values().sum::<usize>(),
        reads.len(),
        calls.probes(),
        span.as_secs(),
    )];
    notes.extend(writes.iter().take(SHOWN).map(shown));
    setup.cluster.stop().await?;
    Ok(Found {
        bars: vec![
            Bar::at_most(
                "resyncs: most reads of one object in each",
                number(most)? / f64::from(RESYNCS),
                1.0,
                "",
            ),
            Bar::at_most("resyncs: writes to Vault", number(calls.writes())?, 0.0, "").whole(),
            Bar::at_most(
                "resyncs: writes to Kubernetes but Leases",
                number(writes.len())?,
                0.0,
                "",
            )
            .whole(),
            Bar::at_most("resyncs: lists", number(calls.lists())?, 0.0, "").whole(),
            Bar::at_most(
                "resyncs: calls of a connection's own in a health interval",
                number(calls.most_upkeep())?,
                2.0,
                "",
            )
            .whole(),
        ],
        notes,
    })
}
