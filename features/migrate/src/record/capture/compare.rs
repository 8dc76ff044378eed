//! Which copies of a capture exist, and whether they are those of our run.

use k8s_openapi::api::core::v1::Secret;

use super::packed::secret_key;
use super::{Damage, DamagedCapture, PackedCapture};

/// Where a copy of the capture is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyLocation {
    /// In the namespace of the migration; owned by it.
    BesideObject,
    /// In the namespace of the source StatefulSet; without owner.
    InSource,
}

/// The copies of a capture.
#[derive(Debug, Clone, PartialEq)]
pub enum CaptureCopies {
    /// There is none: create both.
    Missing,
    /// Both are there and intact.
    Ours(PackedCapture),
    /// One is missing: create it from the bytes of the other.
    LoneCopy {
        /// Where a copy is missing.
        missing: CopyLocation,
        /// The one that exists.
        capture: PackedCapture,
    },
    /// Something else has the name of the Secret: write nothing.
    OtherContent {
        /// Where.
        location: CopyLocation,
        /// What it is. [`Damage::OtherCapture`] is intact and of our run: an earlier pass may have
        /// created it late, after a newer capture was recorded.
        error: DamagedCapture,
    },
}

/// Compares what is under the names of both copies with the record.
///
/// | beside the migration | in the source | result                            |
/// |----------------------|---------------|-----------------------------------|
/// | none                 | none          | missing                           |
/// | intact               | intact        | ours                              |
/// | intact               | none          | lone copy, missing in the source  |
/// | none                 | intact        | lone copy, missing beside         |
/// | other                | any           | other content, beside             |
/// | none or intact       | other         | other content, in the source      |
///
/// A copy is intact if its hash is right, it is of this run, and its hash is `recorded`, which is
/// `status.capture.sha256`. Without a record, for example for a lost migration, both copies must
/// be equal.
pub fn compare(
    beside: Option<&Secret>,
    in_source: Option<&Secret>,
    run_id: &str,
    recorded: Option<&str>,
) -> CaptureCopies {
    let beside = match intact(beside, run_id, recorded) {
        Ok(beside) => beside,
        Err(error) => return other(CopyLocation::BesideObject, error),
    };
    let first = beside.as_ref().map(PackedCapture::sha256);
    let in_source = match intact(in_source, run_id, recorded.or(first)) {
        Ok(in_source) => in_source,
        Err(error) => return other(CopyLocation::InSource, error),
    };
    match (beside, in_source) {
        (None, None) => CaptureCopies::Missing,
        (Some(capture), Some(_)) => CaptureCopies::Ours(capture),
        (Some(capture), None) => CaptureCopies::LoneCopy {
            missing: CopyLocation::InSource,
            capture,
        },
        (None, Some(capture)) => CaptureCopies::LoneCopy {
            missing: CopyLocation::BesideObject,
            capture,
        },
    }
}

/// The first intact copy: after the freeze either of them suffices.
pub fn any_intact<'s>(
    copies: impl IntoIterator<Item = &'s Secret>,
    run_id: &str,
    recorded: Option<&str>,
) -> Option<PackedCapture> {
    copies
        .into_iter()
        .find_map(|secret| intact(Some(secret), run_id, recorded).ok().flatten())
}

fn intact(
    secret: Option<&Secret>,
    run_id: &str,
    expected: Option<&str>,
) -> Result<Option<PackedCapture>, DamagedCapture> {
    let Some(secret) = secret else {
        return Ok(None);
    };
    let packed = PackedCapture::from_secret(secret, run_id)?;
    match expected {
        Some(expected) if expected != packed.sha256() => Err(DamagedCapture {
            secret: secret_key(secret),
            damage: Damage::OtherCapture {
                expected: expected.to_owned(),
                found: packed.sha256().to_owned(),
            },
        }),
        Some(_) | None => Ok(Some(packed)),
    }
}

fn other(location: CopyLocation, error: DamagedCapture) -> CaptureCopies {
    CaptureCopies::OtherContent { location, error }
}
