//! The durable records of a run: with them a run can be continued or undone after any crash.
//!
//! | record  | object                                | contents                                     |
//! |---------|---------------------------------------|----------------------------------------------|
//! | capture | immutable Secret, in both clusters    | the StatefulSet, its claims and volumes      |
//! | lock    | ConfigMap, in both clusters           | whose run it is, its spec, its journal       |
//! | journal | a key of the lock                     | the part of the status that a run depends on |
//! | marker  | annotation of the objects of a run    | the id of the run                            |
//!
//! Everything here is pure. Reading, creating and deleting these objects is the caller's part.

pub mod capture;
pub mod hashes;
pub mod journal;
pub mod lock;
pub mod marker;
pub mod mirror;
pub mod names;

/// Most bytes of a capture or of a journal.
///
/// The API server refuses a Secret or a ConfigMap over 1 MiB; the difference is for the other keys.
pub const RECORD_LIMIT: usize = 900 * 1024;
