//! Status and conditions of a bucket, from world and outcome.

use engine::{Ended, Report};
use kernel::Reason;

use super::plan::is_ours;
use super::{BucketRecord, ClaimIntent, Status, World};

/// | ended                | record                                | Ready                |
/// |----------------------|---------------------------------------|----------------------|
/// | announcing           | the intent, and no bucket             | False, Creating      |
/// | done, live = desired | what was read; last applied = desired | True                 |
/// | done, live ≠ desired | what was read                         | False, DriftDetected |
/// | done, nothing read   | unchanged                             | unchanged            |
/// | stopped              | what was read                         | False, the reason    |
///
/// A read that is older than the record does not change what was last applied.
pub(crate) fn status(world: &World, ended: &Ended<ClaimIntent>) -> (Status, Report) {
    let World {
        object, observed, ..
    } = world;
    let mut buckets = observed.buckets.iter().flatten();
    let ours = buckets.find(|bucket| is_ours(world, bucket));
    let desired = &object.resource.spec.config;
    let is_desired = ours.is_some_and(|bucket| bucket.config == *desired);
    let mut status = object.status.clone();
    if let Some(bucket) = ours {
        let before = object.status.bucket.as_ref();
        let before = before.filter(|before| before.id == bucket.id);
        let is_stale = before.is_some_and(|before| bucket.version < before.version);
        let last_applied = if is_desired && !is_stale {
            Some(desired.clone())
        } else {
            before.and_then(|before| before.last_applied.clone())
        };
        let version = before.map_or(bucket.version, |before| before.version.max(bucket.version));
        status = Status {
            intent: None,
            bucket: Some(BucketRecord {
                id: bucket.id,
                version,
                since: before.map_or(world.now, |before| before.since),
                last_applied,
            }),
        };
    }
    let (is_ready, reason) = match ended {
        Ended::Announcing(intents) => {
            if let Some(intent) = intents.first() {
                status = Status {
                    intent: Some(intent.clone()),
                    bucket: None,
                };
            }
            let message = "the bucket is about to be created or changed";
            (false, Reason::new("Creating", message))
        }
        Ended::Previewed(_) => return (status, Report::default()),
        Ended::Done { .. } if observed.buckets.is_none() => return (status, Report::default()),
        Ended::Done { .. } if is_desired => {
            (true, Reason::new("Synced", "the bucket is as desired"))
        }
        Ended::Done { .. } => {
            let message = "the bucket was changed outside; set drift to Correct to undo it";
            (false, Reason::new("DriftDetected", message))
        }
        Ended::Stopped(stop) => (false, stop.reason().clone()),
    };
    let report = Report::default().condition("Ready", is_ready, reason);
    (status, report)
}
