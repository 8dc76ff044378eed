//! What is to be done about an invalidation, and what an error means for it. Pure.

use std::time::Duration;

use api::tenants::{InvalidationPhase as Phase, InvalidationStatus, reasons};
use aws::Fault;
use jiff::{SignedDuration, Timestamp};

use super::tenant::Standing;
use crate::failure::{Failure, Says, Way, counted, failure};

/// So long after it was made an invalidation may still be unknown to those who are asked for it.
const GRACE: SignedDuration = SignedDuration::from_secs(2 * 60);

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// It has ended and its time is over: the object goes.
    Remove,
    /// It has ended, and goes after that.
    Rest(Duration),
    /// The tenant is not there to be asked about.
    Wait(String),
    /// Ask for it.
    Create { tenant: String },
    /// Ask how it stands.
    Poll { tenant: String, id: String },
    /// It can never be known how it ended.
    GiveUp(String),
}

/// | phase             | tenant  | id  | so                              |
/// |-------------------|---------|-----|---------------------------------|
/// | Completed, Failed |         |     | rest, and go when time is over  |
/// | else              | there   | no  | create                          |
/// | else              | there   | yes | poll                            |
/// | else              | not yet |     | wait                            |
/// | else              | gone    | no  | wait: it may come               |
/// | else              | gone    | yes | give up: it went with its cache |
pub(super) fn step(
    status: &InvalidationStatus,
    ttl: i64,
    tenant: (&str, Standing),
    now: Timestamp,
) -> Step {
    match status.phase {
        Some(Phase::Completed | Phase::Failed) => return rest(status, ttl, now),
        Some(Phase::Pending | Phase::InProgress) | None => {}
    }
    let (name, standing) = tenant;
    match (standing, &status.id) {
        (Standing::There(tenant), Some(id)) => Step::Poll {
            tenant,
            id: id.clone(),
        },
        (Standing::There(tenant), None) => Step::Create { tenant },
        (Standing::Missing, Some(id)) => Step::GiveUp(format!(
            "DistributionTenant {name} is gone, and how invalidation {id} ended cannot be told"
        )),
        (Standing::Missing, None) => {
            Step::Wait(format!("DistributionTenant {name} does not exist"))
        }
        (Standing::Unmade, _) => Step::Wait(format!(
            "DistributionTenant {name} is not in CloudFront yet"
        )),
        (Standing::Going, _) => Step::Wait(format!("DistributionTenant {name} is being deleted")),
    }
}

fn rest(status: &InvalidationStatus, ttl: i64, now: Timestamp) -> Step {
    let ended = status
        .finished_time
        .as_ref()
        .or(status.create_time.as_ref());
    let age = ended.map_or(SignedDuration::ZERO, |time| now.duration_since(time.0));
    let left = SignedDuration::from_secs(ttl).saturating_sub(age);
    match Duration::try_from(left) {
        Ok(left) if !left.is_zero() => Step::Rest(left),
        Ok(_) | Err(_) => Step::Remove,
    }
}

/// What a failure means for an invalidation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failed {
    /// It ends here.
    Finally {
        counted: Option<&'static str>,
        why: String,
    },
    /// It is tried again.
    ForNow(Failure),
    /// It was made a moment ago and is not known everywhere: nothing is wrong.
    TooEarly,
}

/// | call   | error                          | so                                        |
/// |--------|--------------------------------|-------------------------------------------|
/// | create | the paths are refused          | failed                                    |
/// | create | no such tenant                 | waits: its own pass finds out             |
/// | create | too many at once               | waits                                     |
/// | poll   | no such tenant or invalidation | early: nothing; else failed, never known  |
/// | any    | else                           | as any error                              |
pub(super) fn failed(error: &aws::Error, status: &InvalidationStatus, now: Timestamp) -> Failed {
    let meant = Failure {
        counted: counted(error, Way::Group),
        ..failure(error.fault(), Way::Group)
    };
    let polls = status.id.is_some();
    match error.fault() {
        Fault::InvalidSpec | Fault::OwnershipUnverified if !polls => Failed::Finally {
            counted: meant.counted,
            why: format!("{error}; make another with other paths"),
        },
        Fault::EntityMissing if !polls => Failed::ForNow(Failure {
            says: Says::Ready(reasons::WAITING),
            counted: None,
            ..meant
        }),
        Fault::LimitExceeded => Failed::ForNow(Failure {
            says: Says::Ready(reasons::TOO_MANY_INVALIDATIONS),
            ..meant
        }),
        Fault::EntityMissing | Fault::OtherMissing if polls => {
            let made = status.create_time.as_ref();
            if made.is_some_and(|made| now.duration_since(made.0) < GRACE) {
                return Failed::TooEarly;
            }
            Failed::Finally {
                counted: None,
                why: format!("{error}; how it ended cannot be told, make another if in doubt"),
            }
        }
        Fault::EntityMissing
        | Fault::OtherMissing
        | Fault::InvalidSpec
        | Fault::OwnershipUnverified
        | Fault::DomainTaken
        | Fault::NameTaken
        | Fault::Denied
        | Fault::Credentials
        | Fault::DistributionMissing
        | Fault::ZoneMissing
        | Fault::ChangeMissing
        | Fault::Stale
        | Fault::NotDisabled
        | Fault::InUse
        | Fault::Throttled
        | Fault::ZoneBusy
        | Fault::InvalidRecords
        | Fault::Refused
        | Fault::Passing
        | Fault::Deposed => Failed::ForNow(meant),
    }
}

#[cfg(test)]
mod tests;
