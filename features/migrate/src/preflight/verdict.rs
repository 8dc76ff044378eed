//! What follows from the results of the checks.

use api::migrate::{Severity, StallReason, StatefulSetMigrationSpec};

use super::finding::CheckOutcome;
use super::reading::{Obstacle, Outage};

/// Whether the run may begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Passed,
    /// It may not, because of these, until somebody changes something.
    Blocked(Vec<CheckOutcome>),
    /// It may not yet: a cluster or EC2 does not answer.
    Stalled {
        /// Which of them.
        reason: StallReason,
        /// What was to be read, and the message of the call.
        message: String,
    },
}

/// Judges the results of [`check`](super::check) by what the spec accepts.
///
/// | severity | acknowledged            | force | stops |
/// |----------|-------------------------|-------|-------|
/// | Blocker  | no                      | any   | yes   |
/// | Blocker  | yes, and it may be      | any   | no    |
/// | Blocker  | yes, but it must not be | any   | yes   |
/// | Warning  | no                      | no    | yes   |
/// | Warning  | yes                     | any   | no    |
/// | Warning  | any                     | yes   | no    |
/// | Info     | any                     | any   | no    |
///
/// A part that could not be reached goes before all others that stop: it ends by itself.
pub fn verdict(results: &[CheckOutcome], spec: &StatefulSetMigrationSpec) -> Verdict {
    let stopping = results.iter().filter(|result| !is_accepted(result, spec));
    for result in stopping.clone() {
        if let Some(Obstacle::Unreachable(outage)) = &result.obstacle {
            return Verdict::Stalled {
                reason: reason(outage),
                message: format!("{}: {}", result.finding.subject, outage.message()),
            };
        }
    }
    let blocking: Vec<CheckOutcome> = stopping.cloned().collect();
    if blocking.is_empty() {
        Verdict::Passed
    } else {
        Verdict::Blocked(blocking)
    }
}

fn reason(outage: &Outage) -> StallReason {
    match outage {
        Outage::Cluster(_) => StallReason::ClusterUnreachable,
        Outage::Login(_) => StallReason::AuthFailed,
        Outage::Ec2(_) => StallReason::Ec2Unavailable,
    }
}

fn is_accepted(result: &CheckOutcome, spec: &StatefulSetMigrationSpec) -> bool {
    let id = result.finding.id;
    let is_acknowledged =
        || id.is_acknowledgeable() && spec.acknowledges(id.as_str(), result.ordinal);
    match result.finding.severity {
        Severity::Blocker => is_acknowledged(),
        Severity::Warning => spec.force || is_acknowledged(),
        Severity::Info => true,
    }
}

/// Whether the result stops the run whatever the spec accepts.
pub(super) fn is_final(result: &CheckOutcome) -> bool {
    let id = result.finding.id;
    result.finding.severity == Severity::Blocker && !id.is_acknowledgeable()
}
