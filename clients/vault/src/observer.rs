//! The interface for metrics of calls.

/// Is notified of every call that was sent, for metrics.
pub trait Observer: Send + Sync {
    /// A call of this `operation` ended with `success` or `failure`. "Not found" is a success of a
    /// read or a deletion. Calls that a guard stopped are not reported.
    fn called(&self, operation: &'static str, status: &'static str);

    /// A login succeeded. The use of a static token is not a login.
    fn logged_in(&self);
}

/// Counts nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn called(&self, _operation: &'static str, _status: &'static str) {}

    fn logged_in(&self) {}
}
