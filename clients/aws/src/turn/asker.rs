//! Who asks for a turn.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::{Turn, Turns};

/// In which order calls are served that wait for the same limit. A class that waits gets at least
/// a tenth of the turns, whatever waits above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// What lets something go.
    Delete,
    /// What makes or changes something, and the reads needed for it.
    Edit,
    /// Whether something that takes time is done.
    Poll,
    /// The regular look at everything.
    Sweep,
}

impl Priority {
    /// All of them, the first to be served first.
    pub const ALL: [Self; 4] = [Self::Delete, Self::Edit, Self::Poll, Self::Sweep];

    /// As a metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Edit => "edit",
            Self::Poll => "poll",
            Self::Sweep => "sweep",
        }
    }
}

/// For whom a call is made: its priority, and the namespace that takes turns with others.
///
/// One that [`Account::admit`](crate::Account::admit) gave back holds a turn for its first call,
/// and its later ones go ahead of all in their class that have not begun: a pass that was let in
/// comes to its end.
#[derive(Clone)]
pub struct Asker {
    pub(super) priority: Priority,
    pub(super) namespace: Arc<str>,
    held: Option<Arc<Mutex<Option<Turn>>>>,
}

impl Asker {
    /// Someone of this namespace; what belongs to none takes turns under an empty name.
    pub fn new(priority: Priority, namespace: impl Into<Arc<str>>) -> Self {
        Self {
            priority,
            namespace: namespace.into(),
            held: None,
        }
    }

    /// The same asker with a call of another priority.
    #[must_use]
    pub fn at(&self, priority: Priority) -> Self {
        Self {
            priority,
            ..self.clone()
        }
    }

    /// The same asker, let in with this turn.
    pub(crate) fn admitted(&self, turn: Turn) -> Self {
        Self {
            held: Some(Arc::new(Mutex::new(Some(turn)))),
            ..self.clone()
        }
    }

    /// Whether it was let in.
    pub(super) fn has_begun(&self) -> bool {
        self.held.is_some()
    }

    /// The turn it holds, if it is one of `turns`.
    pub(crate) fn held(&self, turns: &Arc<Turns>) -> Option<Turn> {
        let mut held = self.held.as_ref()?.lock();
        held.take_if(|turn| turn.is_of(turns))
    }
}

impl fmt::Debug for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asker")
            .field("priority", &self.priority)
            .field("namespace", &self.namespace)
            .field("begun", &self.has_begun())
            .finish_non_exhaustive()
    }
}

/// A place in the queue for someone who does not stand there.
#[derive(Clone)]
pub struct Ticket {
    pub(super) name: Arc<str>,
    pub(super) wake: Arc<dyn Fn() + Send + Sync>,
}

impl Ticket {
    /// A ticket for whoever is named so, kind included: who asks twice under a name keeps its
    /// place. `wake` is called when the turn has come; it must not block.
    pub fn new(name: impl Into<Arc<str>>, wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            name: name.into(),
            wake: Arc::new(wake),
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// It is not one's turn yet; the ticket is in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("calls to AWS are limited; this one waits for its turn, about {} s", .ready_in.as_secs())]
pub struct Later {
    /// When the turn may come, if those ahead make one call each. The ticket's `wake` is exact.
    pub ready_in: Duration,
}
