//! What an error of AWS means for an object: which conditions say so, how it is counted, and when
//! it is tried again.
//!
//! | again   | when                                                         |
//! |---------|--------------------------------------------------------------|
//! | at once | the view was old: read and decide anew                       |
//! | slow    | a person has to act: 5 minutes, and 30 once an hour has gone |
//! | after   | a time of its own                                            |
//! | backoff | it passes: 1 s, doubling to 5 minutes                        |

use std::time::Duration;

use api::tenants::{ValidationTokenHost, reasons};
use aws::Fault;
use kernel::spread;

/// The first pace of what waits for a person, and the pace once it has waited long.
const SLOW: Duration = Duration::from_secs(5 * 60);
const SLOWER: Duration = Duration::from_secs(30 * 60);
/// After this long the slower pace is enough.
const LONG: Duration = Duration::from_secs(60 * 60);
/// How far the slow paces are spread.
const SPREAD: f64 = 0.2;

const THROTTLED: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(90));
const CREDENTIALS: Duration = Duration::from_secs(60);
const OWNERSHIP: Duration = Duration::from_secs(5 * 60);
const DISABLING: Duration = Duration::from_secs(30);

/// So many failures in a row of something that passes are told; fewer are not worth a word.
pub(crate) const PATIENCE: u32 = 3;

/// On which way an error was met: the same code means another thing there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Looking at the distribution before anything is written.
    Validation,
    /// Making or changing a tenant; `missing` tells what an `EntityNotFound` is about.
    Tenant {
        missing: Missing,
        host: Option<ValidationTokenHost>,
    },
    /// Making, changing or deleting a connection group.
    Group,
    /// Finding out where records have to point.
    Target,
    /// Route 53, and the credentials for it.
    Dns,
}

/// What CloudFront means by `EntityNotFound`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Distribution,
    Group,
}

/// Which conditions an error speaks in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Says {
    /// None: what they say still holds.
    Nothing,
    /// Ready alone.
    Ready(&'static str),
    /// Ready and Synced.
    Both(&'static str),
    /// DNSReady, and Ready as far as the spec is held up.
    Dns(&'static str),
}

/// When it is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    AtOnce,
    Slow,
    After(Duration),
    /// Somewhere between the two.
    Between(Duration, Duration),
    Backoff,
}

/// What an error means for an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) says: Says,
    /// The value of the label `error_type`; none: it is not counted.
    pub(crate) counted: Option<&'static str>,
    pub(crate) again: Again,
}

impl Failure {
    const fn new(says: Says, counted: Option<&'static str>, again: Again) -> Self {
        Self {
            says,
            counted,
            again,
        }
    }
}

/// What `fault` means on `way`.
pub(crate) fn failure(fault: Fault, way: Way) -> Failure {
    match way {
        Way::Dns => of_dns(fault),
        Way::Validation | Way::Tenant { .. } | Way::Group | Way::Target => {
            of_cloudfront(fault, way)
        }
    }
}

/// As what `error` is counted; none if it is not: what we refuse ourselves is no error of AWS.
pub(crate) fn counted(error: &aws::Error, way: Way) -> Option<&'static str> {
    let meant = failure(error.fault(), way);
    meant.counted.filter(|_| !error.is_our_refusal())
}

fn of_cloudfront(fault: Fault, way: Way) -> Failure {
    use Again::{AtOnce, Backoff, Slow};
    use Says::{Both, Nothing, Ready};
    match fault {
        Fault::DomainTaken => told(Both(reasons::DOMAIN_CONFLICT), "domain_conflict", Slow),
        Fault::NameTaken => told(Both(reasons::NOT_OWNED), "name_conflict", Slow),
        Fault::Denied => told(Both(reasons::ACCESS_DENIED), "access_denied", Slow),
        Fault::Credentials => told(
            Both(reasons::ACCESS_DENIED),
            "access_denied",
            Again::After(CREDENTIALS),
        ),
        Fault::OwnershipUnverified => match way {
            Way::Tenant {
                host: Some(ValidationTokenHost::Cloudfront),
                ..
            } => told(
                Ready(reasons::DOMAIN_VALIDATION_PENDING),
                "domain_validation_pending",
                Again::After(OWNERSHIP),
            ),
            Way::Tenant { .. } | Way::Validation | Way::Group | Way::Target | Way::Dns => {
                invalid_spec()
            }
        },
        Fault::InvalidSpec => invalid_spec(),
        Fault::DistributionMissing => no_distribution(way),
        Fault::EntityMissing => match way {
            Way::Validation
            | Way::Tenant {
                missing: Missing::Distribution,
                ..
            } => no_distribution(way),
            Way::Tenant {
                missing: Missing::Group,
                ..
            }
            | Way::Group => no_group(Ready(reasons::INVALID_SPEC)),
            Way::Target | Way::Dns => no_group(Says::Dns(reasons::DNS_ERROR)),
        },
        Fault::LimitExceeded => told(Both(reasons::LIMIT_EXCEEDED), "limit_exceeded", Slow),
        Fault::Stale => Failure::new(Nothing, None, AtOnce),
        Fault::NotDisabled => {
            Failure::new(Ready(reasons::DISABLING), None, Again::After(DISABLING))
        }
        Fault::InUse => Failure::new(Ready(reasons::IN_USE), None, Slow),
        Fault::Throttled | Fault::ZoneBusy => told(Nothing, "throttling", between()),
        Fault::ZoneMissing
        | Fault::ChangeMissing
        | Fault::OtherMissing
        | Fault::InvalidRecords
        | Fault::Refused => told(Both(reasons::AWS_ERROR), "unknown", Slow),
        Fault::Passing => told(Both(reasons::AWS_ERROR), "retryable", Backoff),
        Fault::Deposed => Failure::new(Nothing, None, Backoff),
    }
}

fn of_dns(fault: Fault) -> Failure {
    use Again::{Backoff, Slow};
    use Says::{Dns, Nothing};
    match fault {
        Fault::ZoneMissing => told(Dns(reasons::DNS_ERROR), "dns_zone_not_found", Slow),
        Fault::Denied => told(Dns(reasons::DNS_ERROR), "dns_access_denied", Slow),
        Fault::Credentials => told(
            Dns(reasons::DNS_ERROR),
            "dns_access_denied",
            Again::After(CREDENTIALS),
        ),
        Fault::InvalidRecords => told(Dns(reasons::DNS_ERROR), "dns_invalid_input", Slow),
        Fault::EntityMissing => no_group(Dns(reasons::DNS_ERROR)),
        Fault::Throttled | Fault::ZoneBusy => {
            told(Nothing, "dns_throttling", Again::After(THROTTLED.0))
        }
        Fault::ChangeMissing => Failure::new(Nothing, None, Again::AtOnce),
        Fault::Passing => told(Dns(reasons::DNS_ERROR), "dns_retryable", Backoff),
        Fault::DomainTaken
        | Fault::NameTaken
        | Fault::OwnershipUnverified
        | Fault::InvalidSpec
        | Fault::DistributionMissing
        | Fault::OtherMissing
        | Fault::LimitExceeded
        | Fault::Stale
        | Fault::NotDisabled
        | Fault::InUse
        | Fault::Refused => told(Dns(reasons::DNS_ERROR), "dns_error", Slow),
        Fault::Deposed => Failure::new(Nothing, None, Backoff),
    }
}

const fn told(says: Says, counted: &'static str, again: Again) -> Failure {
    Failure::new(says, Some(counted), again)
}

const fn invalid_spec() -> Failure {
    told(
        Says::Both(reasons::INVALID_SPEC),
        "invalid_spec",
        Again::Slow,
    )
}

const fn no_group(says: Says) -> Failure {
    told(says, "connection_group_not_found", Again::Slow)
}

fn no_distribution(way: Way) -> Failure {
    let reason = if way == Way::Validation {
        reasons::VALIDATION_FAILED
    } else {
        reasons::INVALID_SPEC
    };
    told(Says::Both(reason), "distribution_not_found", Again::Slow)
}

const fn between() -> Again {
    Again::Between(THROTTLED.0, THROTTLED.1)
}

impl Again {
    /// How long to wait if the object has been told so for `since`, and `random` of 0 to 1 spreads
    /// it; none: the engine's back-off.
    pub(crate) fn wait(self, since: Duration, random: f64) -> Option<Duration> {
        match self {
            Self::AtOnce => Some(Duration::ZERO),
            Self::Slow => Some(slow(since, random)),
            Self::After(wait) => Some(wait),
            Self::Between(least, most) => Some(least + most.saturating_sub(least).mul_f64(random)),
            Self::Backoff => None,
        }
    }
}

/// The pace of what waits for a person and has waited for `since`.
pub(crate) fn slow(since: Duration, random: f64) -> Duration {
    let pace = if since >= LONG { SLOWER } else { SLOW };
    spread(pace, SPREAD, random)
}

#[cfg(test)]
mod tests;
