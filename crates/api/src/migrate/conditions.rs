//! Condition types: what each is a statement about.

/// The run has ended well: `Completed`, `RolledBack` or `Planned`. Otherwise the reason says where it stands.
pub const READY: &str = "Ready";
/// No preflight check blocks the run.
pub const PRE_FLIGHT_CHECKS: &str = "PreFlightChecks";
/// The source is captured, locked and protected, and the destination is prepared.
pub const SOURCE_FROZEN: &str = "SourceFrozen";
/// Every ordinal runs at the destination and the source is cleaned up, or kept as the spec says.
pub const COMPLETE: &str = "Complete";
/// The run has failed. It goes on after `retry` was raised.
pub const FAILED: &str = "Failed";
/// The run is paused: by request, at its limit of ordinals, or because somebody else changed something.
pub const PAUSED: &str = "Paused";
/// A wait is longer than its limit. It ends by itself.
pub const STALLED: &str = "Stalled";
/// The object is being deleted while ordinals are on their way. It waits for `abort`.
pub const DELETION_BLOCKED: &str = "DeletionBlocked";
