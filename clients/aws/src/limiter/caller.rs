//! Who waits for a permit.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::{Limiter, Permit};

/// The order in which calls under the same limit get permits. A waiting class gets at least a tenth
/// of the permits, whatever waits above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Deletes something.
    Delete,
    /// Creates or changes something; also the reads that this needs.
    Edit,
    /// Checks whether a long operation has finished.
    Poll,
    /// The regular read of everything.
    Sweep,
}

impl Priority {
    /// All priorities, the highest first.
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

/// Who makes a call: its priority and its namespace. Namespaces of one class are served in turn.
///
/// A caller that [`Account::admit`](crate::Account::admit) returned holds a permit for its first
/// call. Its later calls go ahead of all callers of their class that were not admitted, so that an
/// admitted pass can finish.
#[derive(Clone)]
pub struct Caller {
    pub(super) priority: Priority,
    pub(super) namespace: Arc<str>,
    permit: Option<Arc<Mutex<Option<Permit>>>>,
}

impl Caller {
    /// A caller of this namespace; the empty name stands for cluster-scoped callers.
    pub fn new(priority: Priority, namespace: impl Into<Arc<str>>) -> Self {
        Self {
            priority,
            namespace: namespace.into(),
            permit: None,
        }
    }

    /// The same caller with a call of another priority.
    #[must_use]
    pub fn at(&self, priority: Priority) -> Self {
        Self {
            priority,
            ..self.clone()
        }
    }

    /// The same caller, admitted with this permit.
    pub(crate) fn admitted(&self, permit: Permit) -> Self {
        Self {
            permit: Some(Arc::new(Mutex::new(Some(permit)))),
            ..self.clone()
        }
    }

    /// Whether it was admitted.
    pub(super) fn has_begun(&self) -> bool {
        self.permit.is_some()
    }

    /// Takes the permit it was admitted with, if that is one of `limiter`.
    pub(crate) fn take_permit(&self, limiter: &Arc<Limiter>) -> Option<Permit> {
        let mut permit = self.permit.as_ref()?.lock();
        permit.take_if(|permit| permit.is_of(limiter))
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("priority", &self.priority)
            .field("namespace", &self.namespace)
            .field("begun", &self.has_begun())
            .finish_non_exhaustive()
    }
}

/// A position in the queue for a caller that does not block while it waits.
#[derive(Clone)]
pub struct Ticket {
    pub(super) name: Arc<str>,
    pub(super) wake: Arc<dyn Fn() + Send + Sync>,
}

impl Ticket {
    /// A ticket of this name. The name includes the kind of the object; a second request under the
    /// same name keeps the first one's position. `wake` is called when a permit is ready; it must
    /// not block.
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

/// No permit is free yet; the ticket waits in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the rate of AWS calls is limited; waiting for a permit, about {} s", .ready_in.as_secs())]
pub struct Later {
    /// Expected wait if every caller ahead makes one call. The ticket's `wake` is exact.
    pub ready_in: Duration,
}
