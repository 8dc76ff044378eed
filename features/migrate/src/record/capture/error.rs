//! Why a capture cannot be stored, or read back.

use super::super::RECORD_LIMIT;
use super::VERSION;

/// A part of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapturePart {
    /// The StatefulSet.
    StatefulSet,
    /// Its ControllerRevisions.
    Revisions,
    /// The PersistentVolumeClaims.
    Claims,
    /// The PersistentVolumes.
    Volumes,
}

impl CapturePart {
    /// How to make it smaller.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::StatefulSet => {
                "shorten annotations and inline texts of the StatefulSet, for example move a long \
                 script from its template to a ConfigMap"
            }
            Self::Revisions => {
                "set spec.revisionHistoryLimit to 1 and wait until older ControllerRevisions are \
                 deleted"
            }
            Self::Claims => {
                "remove large annotations from the claims, and delete claims outside the window \
                 that nobody needs"
            }
            Self::Volumes => {
                "remove large annotations from the PersistentVolumes, and delete claims outside \
                 the window that nobody needs"
            }
        }
    }
}

/// A capture that does not fit in a Secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "capture of StatefulSet {stateful_set}: found {} KiB compressed, need at most {} KiB; {}",
    .bytes.div_ceil(1024), RECORD_LIMIT / 1024, .largest.remedy()
)]
pub struct CaptureTooLarge {
    /// The StatefulSet, as `<namespace>/<name>`.
    pub stateful_set: String,
    /// The compressed size.
    pub bytes: usize,
    /// The part with most bytes.
    pub largest: CapturePart,
}

/// A Secret that is not an intact capture of the run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Secret {secret}: {damage}")]
pub struct DamagedCapture {
    /// The Secret, as `<namespace>/<name>`.
    pub secret: String,
    /// What is wrong.
    pub damage: Damage,
}

/// Why a Secret is not an intact capture of the run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// A key is missing.
    #[error("found no key {0}, need the capture of this migration; rename or delete the Secret")]
    NoKey(&'static str),
    /// The hash is not that of the content.
    #[error(
        "found content that does not match its sha256; restore the Secret from a backup, or delete \
         it if the other copy is intact"
    )]
    HashDiffers,
    /// The hash is right, but the content is no capture.
    #[error("found content that is no capture; rename or delete the Secret")]
    Unreadable,
    /// Another version of Pontoon wrote it.
    #[error(
        "found version {}, need version {}; use the version of Pontoon that wrote it",
        .0.map_or_else(|| "none".to_owned(), |version| version.to_string()), VERSION
    )]
    Version(Option<u64>),
    /// It is the capture of another run.
    #[error(
        "found the capture of run {0}, need that of this migration; rename or delete the Secret"
    )]
    OtherRun(String),
    /// It is intact and of this run, but not the capture that the status names.
    #[error("found the capture {found}, need {expected}, which the status of the migration names")]
    OtherCapture {
        /// The hash in the status, or of the other copy.
        expected: String,
        /// The hash of this one.
        found: String,
    },
}
