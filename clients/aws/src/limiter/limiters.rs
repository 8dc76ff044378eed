//! The limiter of every account and limit.

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

/// All limiters; each is created on first use.
#[derive(Debug)]
pub(crate) struct Limiters {
    clock: SharedClock,
    by_account: Mutex<BTreeMap<(Arc<str>, &'static str), Arc<Limiter>>>,
    /// Notified when a ticket joins a queue.
    ticket_added: Arc<Notify>,
}

impl Limiters {
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self {
            clock,
            by_account: Mutex::default(),
            ticket_added: Arc::default(),
        }
    }

    /// The limiter of this account and limit.
    pub(crate) fn of(&self, account: &Arc<str>, limit: Limit) -> Arc<Limiter> {
        let mut all = self.by_account.lock();
        let limiter = all
            .entry((Arc::clone(account), limit.label))
            .or_insert_with(|| {
                let clock = Arc::clone(&self.clock);
                let ticket_added = Arc::clone(&self.ticket_added);
                Arc::new(Limiter::new(limit.rates, clock, ticket_added))
            });
        Arc::clone(limiter)
    }

    /// All limiters, with their account and the label of their limit.
    pub(crate) fn all(&self) -> Vec<(Arc<str>, &'static str, Arc<Limiter>)> {
        let all = self.by_account.lock();
        all.iter()
            .map(|((account, label), limiter)| (Arc::clone(account), *label, Arc::clone(limiter)))
            .collect()
    }

    /// Wakes the owners of tickets when a permit is ready, for as long as it is polled.
    pub(crate) async fn attend(&self) {
        loop {
            let due = {
                let all = self.all();
                all.iter().filter_map(|(.., limiter)| limiter.serve()).min()
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
