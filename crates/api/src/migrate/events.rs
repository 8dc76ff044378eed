//! Reasons of events that are no reasons of conditions. An event about a phase, stall, hold or failure has
//! the text of that phase or reason.

/// An ordinal runs at the destination; the message names its downtime.
pub const ORDINAL_MOVED: &str = "OrdinalMoved";
/// An ordinal runs at the source again; the message names its downtime.
pub const ORDINAL_RETURNED: &str = "OrdinalReturned";
/// A snapshot was started; the message names it.
pub const SNAPSHOT_CREATED: &str = "SnapshotCreated";
/// The source of an ordinal, or its StatefulSet, was cleaned up.
pub const SOURCE_CLEANED: &str = "SourceCleaned";
/// A stall is over.
pub const STALL_ENDED: &str = "StallEnded";
/// A hold is over.
pub const HOLD_ENDED: &str = "HoldEnded";
/// Warning: the source is being cleaned up, so the run cannot go back. A new migration can move it back.
pub const ROLLBACK_REFUSED: &str = "RollbackRefused";
/// Warning: the object is deleted while ordinals are on their way; the message names the choices.
pub const DELETION_BLOCKED: &str = "DeletionBlocked";
