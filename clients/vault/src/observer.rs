//! Who counts.

/// Told of every call that was made, for metrics.
pub trait Observer: Send + Sync {
    /// A call of this `operation` ended: `success` or `failure`. That nothing is there is a success
    /// of a read or a deletion. Calls that we refused ourselves are not told.
    fn called(&self, operation: &'static str, status: &'static str);

    /// A login succeeded. The use of a static token is none.
    fn logged_in(&self);
}

/// Counts nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn called(&self, _operation: &'static str, _status: &'static str) {}

    fn logged_in(&self) {}
}
