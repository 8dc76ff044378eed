//! A restart with 10,000 steady objects: each is read once, and nothing is written.

use std::time::Duration;

use testkit::Result;

use super::super::bar::Bar;
use super::super::cluster::peak;
use super::super::found::Found;
use super::CROWD;
use super::audit::is_upkeep;
use super::setup::{SHOWN, VaultSetup, number, shown};
use crate::progress::Progress;
use crate::verdict::Error;

/// Longer than the first read of all of them takes at the allowed rate.
pub(super) const RESYNC: Duration = Duration::from_secs(180);
const PATIENCE: Duration = Duration::from_secs(20 * 60);

pub(super) async fn measure(setup: &VaultSetup, progress: &Progress) -> Result<Found> {
    progress.step("10,000 objects: restart");
    setup.cluster.stop().await?;
    let begin = setup.now();
    let resync = format!("--vault-resync={}s", RESYNC.as_secs());
    setup.cluster.run(&[&resync]).await?;
    setup.until_quiet(PATIENCE).await?;

    let (calls, written) = (setup.calls(begin), setup.writes(begin).await?);
    let reads = calls.reads();
    if reads.len() != CROWD.objects() {
        let message = format!("{} objects were looked at after the restart", reads.len());
        return Err(Error::new(message).into());
    }
    let most = reads.values().max().copied().unwrap_or_default();
    let (upkeep, writes): (Vec<_>, Vec<_>) = written.iter().partition(|one| is_upkeep(one));
    let memory = peak(setup.cluster.operator())?;
    let mut notes = vec![format!(
        "restart: {} reads of {} objects, {} calls in all, {} requests about the login",
        reads.values().sum::<usize>(),
        reads.len(),
        calls.count(),
        upkeep.len(),
    )];
    notes.extend(writes.iter().take(SHOWN).map(|one| shown(one)));
    Ok(Found {
        bars: vec![
            Bar::at_most("restart: peak resident memory", memory, 150.0, " MiB"),
            Bar::at_most("restart: most reads of one object", number(most)?, 1.0, "").whole(),
            Bar::at_most("restart: writes to Vault", number(calls.writes())?, 0.0, "").whole(),
            Bar::at_most(
                "restart: writes to Kubernetes but Leases and the login",
                number(writes.len())?,
                0.0,
                "",
            )
            .whole(),
            Bar::at_most("restart: logins", number(calls.logins())?, 1.0, "").whole(),
        ],
        notes,
    })
}
