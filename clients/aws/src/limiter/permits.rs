//! A permit queue, its clock, and the callers that wait in it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kernel::SharedClock;
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, Notify};

use super::bucket::RateRange;
use super::permit_queue::{PermitQueue, Who};
use super::queue::QueueKey;
use super::{Caller, Later, Ticket};

/// One waiting caller watches the clock for all, but it may no longer be polled. After this long
/// the other callers check for themselves.
const PATIENCE: Duration = Duration::from_secs(1);

/// Gives permits for the calls of one account under one limit.
pub(crate) struct Limiter {
    clock: SharedClock,
    state: Mutex<State>,
    /// Locked by the caller that watches the clock for all present callers.
    watch: AsyncMutex<()>,
    /// Notified when a ticket joins the queue.
    ticket_added: Arc<Notify>,
}

struct State {
    queue: PermitQueue,
    wakes: HashMap<u64, Wake>,
    /// Present callers that were served and have not noticed yet.
    served: HashSet<u64>,
}

/// How to wake a caller that was served.
enum Wake {
    Present(Arc<Notify>),
    Ticket(Arc<dyn Fn() + Send + Sync>),
}

impl Limiter {
    pub(crate) fn new(rates: RateRange, clock: SharedClock, ticket_added: Arc<Notify>) -> Self {
        let queue = PermitQueue::new(rates, clock.elapsed());
        Self {
            clock,
            state: Mutex::new(State {
                queue,
                wakes: HashMap::new(),
                served: HashSet::new(),
            }),
            watch: AsyncMutex::default(),
            ticket_added,
        }
    }

    /// Waits for a permit. Dropping the future costs no permit.
    pub(crate) async fn take(self: &Arc<Self>, caller: &Caller) -> Permit {
        if let Some(permit) = caller.take_permit(self) {
            return permit;
        }
        self.serve();
        let waiter = {
            let mut state = self.state.lock();
            if state.queue.take() {
                return self.permit();
            }
            let id = state.queue.join(caller.queue_key(), Who::Present);
            let woken = Arc::<Notify>::default();
            state.wakes.insert(id, Wake::Present(Arc::clone(&woken)));
            Waiter {
                limiter: self,
                id,
                woken,
            }
        };
        while !waiter.is_served() {
            tokio::select! {
                biased;
                () = waiter.woken.notified() => {}
                () = self.watched() => {}
                () = tokio::time::sleep(PATIENCE) => {
                    self.serve();
                }
            }
        }
        self.permit()
    }

    /// A permit if one is ready for the ticket; otherwise the ticket joins the queue, or stays in it.
    pub(crate) fn claim(
        self: &Arc<Self>,
        caller: &Caller,
        ticket: &Ticket,
    ) -> Result<Permit, Later> {
        if let Some(permit) = caller.take_permit(self) {
            return Ok(permit);
        }
        self.serve();
        let mut state = self.state.lock();
        if state.queue.fetch(&ticket.name) {
            return Ok(self.permit());
        }
        if state.queue.take() {
            return Ok(self.permit());
        }
        let who = Who::Ticket(Arc::clone(&ticket.name));
        let id = state.queue.join(caller.queue_key(), who);
        let wake = Wake::Ticket(Arc::clone(&ticket.wake));
        state.wakes.insert(id, wake);
        let ready_in = state.queue.expected_wait(caller.priority);
        drop(state);
        self.ticket_added.notify_one();
        Err(Later { ready_in })
    }

    /// Removes a ticket.
    pub(crate) fn withdraw(&self, name: &str) {
        let mut state = self.state.lock();
        if let Some(id) = state.queue.withdraw(name) {
            state.wakes.remove(&id);
        }
    }

    /// Serves the next callers; returns how long until another may be served.
    pub(crate) fn serve(&self) -> Option<Duration> {
        let (woken, due) = {
            let mut state = self.state.lock();
            let now = self.clock.elapsed();
            let served = state.queue.serve(now);
            let woken: Vec<Wake> = served
                .into_iter()
                .filter_map(|id| {
                    let wake = state.wakes.remove(&id)?;
                    if let Wake::Present(_) = wake {
                        state.served.insert(id);
                    }
                    Some(wake)
                })
                .collect();
            (woken, state.queue.due(now))
        };
        // Without the lock: a woken caller may take the next permit at once.
        for wake in woken {
            match wake {
                Wake::Present(woken) => woken.notify_one(),
                Wake::Ticket(wake) => wake(),
            }
        }
        due
    }

    /// Waits until a caller may be served, and serves it. One present caller does this for all.
    async fn watched(&self) {
        let _alone = self.watch.lock().await;
        if let Some(wait) = self.serve() {
            tokio::time::sleep(self.clock.real(wait)).await;
            self.serve();
        }
    }

    /// AWS throttled a call.
    pub(crate) fn throttled(&self) {
        let now = self.clock.elapsed();
        self.state.lock().queue.throttled(now);
    }

    /// Calls per second now, and how many callers wait, by class.
    pub(crate) fn gauge(&self) -> (f64, [usize; 4]) {
        self.serve();
        let state = self.state.lock();
        (state.queue.rate(), state.queue.depth())
    }

    fn permit(self: &Arc<Self>) -> Permit {
        Permit {
            limiter: Arc::clone(self),
            spent: false,
        }
    }

    fn refund(&self) {
        self.state.lock().queue.refund();
        self.serve();
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Limiter")
            .field("rate", &state.queue.rate())
            .field("waiting", &state.queue.depth())
            .finish_non_exhaustive()
    }
}

impl Caller {
    fn queue_key(&self) -> QueueKey {
        QueueKey {
            priority: self.priority,
            namespace: Arc::clone(&self.namespace),
            begun: self.has_begun(),
        }
    }
}

/// A present caller in the queue. Dropping it leaves the queue and returns an unused permit.
struct Waiter<'a> {
    limiter: &'a Limiter,
    id: u64,
    woken: Arc<Notify>,
}

impl Waiter<'_> {
    fn is_served(&self) -> bool {
        self.limiter.state.lock().served.remove(&self.id)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut state = self.limiter.state.lock();
        state.wakes.remove(&self.id);
        state.queue.leave(self.id);
        if state.served.remove(&self.id) {
            drop(state);
            self.limiter.refund();
        }
    }
}

/// The right to make one call. Dropping it returns it, unless it was spent.
pub(crate) struct Permit {
    limiter: Arc<Limiter>,
    spent: bool,
}

impl Permit {
    /// The call is made.
    pub(crate) fn spend(mut self) {
        self.spent = true;
    }

    pub(crate) fn is_of(&self, limiter: &Arc<Limiter>) -> bool {
        Arc::ptr_eq(&self.limiter, limiter)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.spent {
            self.limiter.refund();
        }
    }
}

#[cfg(test)]
mod tests;
