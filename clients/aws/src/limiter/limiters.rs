//! The limiter of every account, region and limit.

use std::collections::BTreeMap;
use std::sync::Arc;

use kernel::SharedClock;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Limiter, RateRange};

/// The limit that applies to a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    /// The service, and the part of it if the service has several limits; a metric label.
    pub(crate) label: &'static str,
    pub(crate) rates: RateRange,
}

/// What one limiter is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LimiterKey {
    /// The account's number.
    pub(crate) account: Arc<str>,
    /// The label of the limit.
    pub(crate) label: &'static str,
    /// The region; `None` is the usual one of the service.
    pub(crate) region: Option<Arc<str>>,
}

/// All limiters; each is created on first use.
#[derive(Debug)]
pub(crate) struct Limiters {
    clock: SharedClock,
    by_key: Mutex<BTreeMap<LimiterKey, Arc<Limiter>>>,
    /// Notified when a ticket joins a queue.
    ticket_added: Arc<Notify>,
}

impl Limiters {
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self {
            clock,
            by_key: Mutex::default(),
            ticket_added: Arc::default(),
        }
    }

    /// The limiter of this account, region (`None` is the usual one of the service) and limit.
    pub(crate) fn of(
        &self,
        account: &Arc<str>,
        region: Option<&str>,
        limit: Limit,
    ) -> Arc<Limiter> {
        let key = LimiterKey {
            account: Arc::clone(account),
            label: limit.label,
            region: region.map(Into::into),
        };
        let mut all = self.by_key.lock();
        let limiter = all.entry(key).or_insert_with(|| {
            let clock = Arc::clone(&self.clock);
            let ticket_added = Arc::clone(&self.ticket_added);
            Arc::new(Limiter::new(limit.rates, clock, ticket_added))
        });
        Arc::clone(limiter)
    }

    /// All limiters.
    pub(crate) fn all(&self) -> Vec<(LimiterKey, Arc<Limiter>)> {
        let all = self.by_key.lock();
        let copied = all
            .iter()
            .map(|(key, limiter)| (key.clone(), Arc::clone(limiter)));
        copied.collect()
    }

    /// Wakes the owners of tickets when a permit is ready, for as long as it is polled.
    pub(crate) async fn attend(&self) {
        loop {
            let due = {
                let all = self.all();
                all.iter().filter_map(|(_, limiter)| limiter.serve()).min()
            };
            match due {
                None => self.ticket_added.notified().await,
                Some(wait) => tokio::select! {
                    () = tokio::time::sleep(self.clock.real(wait)) => {}
                    () = self.ticket_added.notified() => {}
                },
            }
        }
    }
}
