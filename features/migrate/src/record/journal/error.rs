//! Why a journal cannot be stored, or a run cannot be restored from it.

use super::super::RECORD_LIMIT;
use super::VERSION;

/// A journal that does not fit in a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "journal of StatefulSetMigration {object}: found {} KiB, need at most {} KiB; set dormantClaims: \
     Leave if claims outside the window are many, or scale the StatefulSet down",
    .bytes.div_ceil(1024), RECORD_LIMIT / 1024
)]
pub struct JournalTooLarge {
    /// The migration, as `<namespace>/<name>`.
    pub object: String,
    /// The size.
    pub bytes: usize,
}

/// Why a run cannot be restored from a lock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The lock does not have the key.
    #[error("{0}: found none, need the text that Pontoon wrote; use the lock in the other cluster")]
    Absent(&'static str),
    /// The text is not what it should be.
    #[error(
        "{key}: found a text that cannot be read ({reason}), need the text that Pontoon wrote; use \
         the lock in the other cluster"
    )]
    NotJson {
        /// The key of the lock.
        key: &'static str,
        /// The parser's reason.
        reason: String,
    },
    /// Another version of Pontoon wrote it.
    #[error(
        "journal: found version {}, need version {}; use the version of Pontoon that wrote it",
        .0.map_or_else(|| "none".to_owned(), |version| version.to_string()), VERSION
    )]
    Version(Option<u64>),
    /// It has a field, or a value, that this version would lose.
    #[error(
        "{key}: found {path} with a value that this version does not understand, need a record \
         that it understands whole; use the version of Pontoon that wrote it"
    )]
    NotUnderstood {
        /// The key of the lock.
        key: &'static str,
        /// The first such field, such as `.ordinals.0.place`.
        path: String,
    },
    /// The journal is of another run than the lock, or of none.
    #[error(
        "journal: found run {found:?}, need run {holder:?}, which holds the lock; use the lock in \
         the other cluster"
    )]
    OtherRun {
        /// The run of the lock.
        holder: String,
        /// The run of the journal.
        found: String,
    },
    /// The lock does not name a migration.
    #[error("object: found {0:?}, need <namespace>/<name> of the migration")]
    NoObject(String),
}
