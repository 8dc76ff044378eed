//! The turns of every account and limit.

use std::collections::BTreeMap;
use std::sync::Arc;

use kernel::SharedClock;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Limits, Turns};

/// Which limit a call falls under.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lane {
    /// The service, and what of it if it has several; a metric label.
    pub(crate) label: &'static str,
    pub(crate) limits: Limits,
}

/// All turns there are, made when they are first asked for.
#[derive(Debug)]
pub(crate) struct Lanes {
    clock: SharedClock,
    by_account: Mutex<BTreeMap<(Arc<str>, &'static str), Arc<Turns>>>,
    /// Someone left a ticket.
    news: Arc<Notify>,
}

impl Lanes {
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self {
            clock,
            by_account: Mutex::default(),
            news: Arc::default(),
        }
    }

    /// The turns of this account under this limit.
    pub(crate) fn of(&self, account: &Arc<str>, lane: Lane) -> Arc<Turns> {
        let mut all = self.by_account.lock();
        let turns = all
            .entry((Arc::clone(account), lane.label))
            .or_insert_with(|| {
                let (clock, news) = (Arc::clone(&self.clock), Arc::clone(&self.news));
                Arc::new(Turns::new(lane.limits, clock, news))
            });
        Arc::clone(turns)
    }

    /// Everything there is: account, limit, turns.
    pub(crate) fn all(&self) -> Vec<(Arc<str>, &'static str, Arc<Turns>)> {
        let all = self.by_account.lock();
        all.iter()
            .map(|((account, label), turns)| (Arc::clone(account), *label, Arc::clone(turns)))
            .collect()
    }

    /// Serves those who left tickets, for as long as it is polled.
    pub(crate) async fn attend(&self) {
        loop {
            let due = {
                let all = self.all();
                all.iter().filter_map(|(.., turns)| turns.serve()).min()
            };
            match due {
                None => self.news.notified().await,
                Some(wait) => tokio::select! {
                    () = tokio::time::sleep(self.clock.real(wait)) => {}
                    () = self.news.notified() => {}
                },
            }
        }
    }
}
