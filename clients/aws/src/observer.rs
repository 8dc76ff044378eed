//! The interface for metrics of calls.

use std::time::Duration;

use kernel::Class;

use crate::Operation;

/// Is notified of every call that was sent, for metrics.
pub trait Observer: Send + Sync {
    /// A call ended after `took`, not counting the wait for a permit: with an answer, or with an
    /// error of this class.
    fn called(&self, operation: Operation, took: Duration, error: Option<Class>);
}

/// Measures nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn called(&self, _operation: Operation, _took: Duration, _error: Option<Class>) {}
}
