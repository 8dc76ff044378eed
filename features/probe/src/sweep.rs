//! One look at everything outside instead of one per object: who misses its thing is woken.

use std::sync::Arc;
use std::time::Duration;

use api::probe::Probe;
use engine::{Cache, Deck, Kind, Running, WatchKey};

use crate::outside::{Error, Outside};

/// Sweeps every so often, for as long as this process leads.
pub(crate) fn start(deck: &Deck, outside: Outside, probes: Running, every: Duration) {
    let cache = deck.hub.cache(WatchKey::all(Kind::of::<Probe>()));
    let (probes, clock) = (Arc::new(probes), deck.clock.clone());
    deck.task("sweep", move || {
        let (outside, probes, cache, clock) = (
            outside.clone(),
            probes.clone(),
            cache.clone(),
            clock.clone(),
        );
        async move {
            loop {
                tokio::time::sleep(clock.real(every)).await;
                if let Err(error) = sweep(&outside, &probes, &cache).await {
                    tracing::warn!(%error, "sweep failed; the next one comes");
                }
            }
        }
    });
}

async fn sweep(outside: &Outside, probes: &Running, cache: &Cache) -> Result<(), Error> {
    let there = outside.names().await?;
    let kind = Kind::of::<Probe>();
    for held in cache.store().all() {
        let Ok(probe) = held.parse::<Probe>(&kind) else {
            continue;
        };
        let recorded = probe.status.and_then(|status| status.outside_name);
        if recorded.is_some_and(|name| !there.contains(&name)) {
            probes.wake(held.key());
        }
    }
    Ok(())
}
