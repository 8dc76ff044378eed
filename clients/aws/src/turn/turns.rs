//! A line, its clock, and those who wait in it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kernel::SharedClock;
use parking_lot::Mutex;
use tokio::sync::{Mutex as Alone, Notify};

use super::bucket::Limits;
use super::line::{Line, Who};
use super::queue::Place;
use super::{Asker, Later, Ticket};

/// Whoever watches the clock for all may not be polled any more, without having left. Then the
/// others look for themselves, after this long.
const PATIENCE: Duration = Duration::from_secs(1);

/// The turns of one account under one limit.
pub(crate) struct Turns {
    clock: SharedClock,
    state: Mutex<State>,
    /// Held by the one of those present who watches the clock for all of them.
    watch: Alone<()>,
    /// Tells who attends to tickets that there is one more.
    news: Arc<Notify>,
}

struct State {
    line: Line,
    wakes: HashMap<u64, Wake>,
    /// Those present who were served and have not noticed yet.
    served: HashSet<u64>,
}

/// How to tell someone that its turn has come.
enum Wake {
    Present(Arc<Notify>),
    Ticket(Arc<dyn Fn() + Send + Sync>),
}

impl Turns {
    pub(crate) fn new(limits: Limits, clock: SharedClock, news: Arc<Notify>) -> Self {
        let line = Line::new(limits, clock.elapsed());
        Self {
            clock,
            state: Mutex::new(State {
                line,
                wakes: HashMap::new(),
                served: HashSet::new(),
            }),
            watch: Alone::default(),
            news,
        }
    }

    /// Waits for a turn. Dropping the wait costs nothing.
    pub(crate) async fn take(self: &Arc<Self>, asker: &Asker) -> Turn {
        if let Some(turn) = asker.held(self) {
            return turn;
        }
        self.serve();
        let seat = {
            let mut state = self.state.lock();
            if state.line.take() {
                return self.turn();
            }
            let id = state.line.join(asker.place(), Who::Present);
            let woken = Arc::<Notify>::default();
            state.wakes.insert(id, Wake::Present(Arc::clone(&woken)));
            Seat {
                turns: self,
                id,
                woken,
            }
        };
        while !seat.is_served() {
            tokio::select! {
                biased;
                () = seat.woken.notified() => {}
                () = self.watched() => {}
                () = tokio::time::sleep(PATIENCE) => {
                    self.serve();
                }
            }
        }
        self.turn()
    }

    /// A turn if it is the ticket's; else the ticket waits, or goes on waiting.
    pub(crate) fn claim(self: &Arc<Self>, asker: &Asker, ticket: &Ticket) -> Result<Turn, Later> {
        if let Some(turn) = asker.held(self) {
            return Ok(turn);
        }
        self.serve();
        let mut state = self.state.lock();
        if state.line.fetch(&ticket.name) {
            return Ok(self.turn());
        }
        if state.line.take() {
            return Ok(self.turn());
        }
        let who = Who::Ticket(Arc::clone(&ticket.name));
        let id = state.line.join(asker.place(), who);
        let wake = Wake::Ticket(Arc::clone(&ticket.wake));
        state.wakes.insert(id, wake);
        let ready_in = state.line.outlook(asker.priority);
        drop(state);
        self.news.notify_one();
        Err(Later { ready_in })
    }

    /// Gives up a ticket.
    pub(crate) fn withdraw(&self, name: &str) {
        let mut state = self.state.lock();
        if let Some(id) = state.line.withdraw(name) {
            state.wakes.remove(&id);
        }
    }

    /// Serves whoever is next, and tells how long until someone else may be.
    pub(crate) fn serve(&self) -> Option<Duration> {
        let (woken, due) = {
            let mut state = self.state.lock();
            let now = self.clock.elapsed();
            let served = state.line.serve(now);
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
            (woken, state.line.due(now))
        };
        // Without the lock: whoever is woken may ask for the next turn at once.
        for wake in woken {
            match wake {
                Wake::Present(woken) => woken.notify_one(),
                Wake::Ticket(wake) => wake(),
            }
        }
        due
    }

    /// Waits until someone may be served, and serves; one of those present does it for all.
    async fn watched(&self) {
        let _alone = self.watch.lock().await;
        if let Some(wait) = self.serve() {
            tokio::time::sleep(self.clock.real(wait)).await;
            self.serve();
        }
    }

    /// AWS said: too many.
    pub(crate) fn throttled(&self) {
        let now = self.clock.elapsed();
        self.state.lock().line.throttled(now);
    }

    /// Calls a second now, and how many wait, by class.
    pub(crate) fn gauge(&self) -> (f64, [usize; 4]) {
        self.serve();
        let state = self.state.lock();
        (state.line.rate(), state.line.depth())
    }

    fn turn(self: &Arc<Self>) -> Turn {
        Turn {
            turns: Arc::clone(self),
            spent: false,
        }
    }

    fn refund(&self) {
        self.state.lock().line.refund();
        self.serve();
    }
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Turns")
            .field("rate", &state.line.rate())
            .field("waiting", &state.line.depth())
            .finish_non_exhaustive()
    }
}

impl Asker {
    fn place(&self) -> Place {
        Place {
            priority: self.priority,
            namespace: Arc::clone(&self.namespace),
            begun: self.has_begun(),
        }
    }
}

/// A place of someone present. Who goes away leaves the queue, and the turn if it has come.
struct Seat<'a> {
    turns: &'a Turns,
    id: u64,
    woken: Arc<Notify>,
}

impl Seat<'_> {
    fn is_served(&self) -> bool {
        self.turns.state.lock().served.remove(&self.id)
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.state.lock();
        state.wakes.remove(&self.id);
        state.line.leave(self.id);
        if state.served.remove(&self.id) {
            drop(state);
            self.turns.refund();
        }
    }
}

/// The right to one call. It goes back unless it is spent.
pub(crate) struct Turn {
    turns: Arc<Turns>,
    spent: bool,
}

impl Turn {
    /// The call is made.
    pub(crate) fn spend(mut self) {
        self.spent = true;
    }

    pub(crate) fn is_of(&self, turns: &Arc<Turns>) -> bool {
        Arc::ptr_eq(&self.turns, turns)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.spent {
            self.turns.refund();
        }
    }
}

#[cfg(test)]
mod tests;
