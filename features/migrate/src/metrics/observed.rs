//! What a pass adds to the series, from the status before and after it. Pure.

use std::time::Duration;

use api::migrate::{
    CheckId, HoldReason, Location, Phase, Severity, StallReason, StatefulSetMigrationStatus,
    StepName, conditions,
};
use engine::{Report, Truth};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kernel::find;

/// The part of an object that is counted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Counted<'a> {
    pub(super) status: &'a StatefulSetMigrationStatus,
    pub(super) stall: Option<StallReason>,
    pub(super) hold: Option<HoldReason>,
}

impl<'a> Counted<'a> {
    pub(super) fn before(status: &'a StatefulSetMigrationStatus, conditions: &[Condition]) -> Self {
        let reason = |kind| {
            let condition = find(conditions, kind).filter(|one| one.status == "True");
            condition.map(|one| one.reason.clone()).unwrap_or_default()
        };
        Self {
            status,
            stall: reason(conditions::STALLED).parse().ok(),
            hold: reason(conditions::PAUSED).parse().ok(),
        }
    }

    /// Conditions that the report does not name are as before.
    pub(super) fn after(
        status: &'a StatefulSetMigrationStatus,
        report: &Report,
        before: &Self,
    ) -> Self {
        let reason = |kind| {
            let (truth, reason) = report.get(kind)?;
            Some(if truth == Truth::True {
                reason.code.to_string()
            } else {
                String::new()
            })
        };
        Self {
            status,
            stall: match reason(conditions::STALLED) {
                Some(reason) => reason.parse().ok(),
                None => before.stall,
            },
            hold: match reason(conditions::PAUSED) {
                Some(reason) => reason.parse().ok(),
                None => before.hold,
            },
        }
    }

    /// The step that the run is at.
    fn step(&self) -> Option<(StepName, Option<i32>)> {
        let mut ordinals = self.status.ordinals.iter();
        let moving = ordinals.find(|ordinal| ordinal.location == Location::Moving);
        if let Some(moving) = moving {
            return Some((moving.step?, Some(moving.ordinal)));
        }
        let intent = self.status.intent.as_ref()?;
        Some((intent.step, intent.ordinal))
    }
}

/// Something to count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Sample {
    /// An ordinal was down for so many seconds.
    Downtime(f64),
    /// A part of that took so many seconds.
    Segment(&'static str, f64),
    /// A stall has begun.
    Stall(StallReason),
    /// A hold has begun.
    Hold(HoldReason),
    /// A check was made and has not passed.
    FailedCheck(CheckId),
    /// A rollback has begun.
    Rollback,
    /// A run has gone on.
    Progress,
}

/// What a pass adds to the series.
///
/// | before and after                                     | sample                                |
/// |------------------------------------------------------|---------------------------------------|
/// | an ordinal of the window has arrived                 | its downtime and segments             |
/// | another stall, or the first                          | that stall                            |
/// | another hold, or the first                           | that hold                             |
/// | other checks                                         | each Blocker and Warning of them, once |
/// | another phase, now `RollingBack`                     | a rollback                            |
/// | another phase, intent, or step or place of an ordinal | progress                             |
pub(super) fn observed(before: &Counted<'_>, after: &Counted<'_>) -> Vec<Sample> {
    let mut samples = downtimes(before.status, after.status);
    let is_new = after.stall.filter(|_| after.stall != before.stall);
    samples.extend(is_new.map(Sample::Stall));
    let is_new = after.hold.filter(|_| after.hold != before.hold);
    samples.extend(is_new.map(Sample::Hold));
    samples.extend(failed_checks(before.status, after.status));
    let has_phase_changed = before.status.phase != after.status.phase;
    if has_phase_changed && after.status.phase == Some(Phase::RollingBack) {
        samples.push(Sample::Rollback);
    }
    let steps = |status: &StatefulSetMigrationStatus| {
        let steps = status.ordinals.iter();
        let steps = steps.map(|ordinal| (ordinal.ordinal, ordinal.location, ordinal.step));
        steps.collect::<Vec<_>>()
    };
    let has_moved = steps(before.status) != steps(after.status);
    if has_phase_changed || has_moved || before.status.intent != after.status.intent {
        samples.push(Sample::Progress);
    }
    samples
}

fn downtimes(
    before: &StatefulSetMigrationStatus,
    after: &StatefulSetMigrationStatus,
) -> Vec<Sample> {
    let mut samples = Vec::new();
    for ordinal in &after.ordinals {
        let is_of_window = after
            .window
            .is_some_and(|window| window.contains(ordinal.ordinal));
        let location_before = before.ordinal(ordinal.ordinal).map(|one| one.location);
        let has_arrived = ordinal.location != Location::Moving
            && location_before.is_some_and(|before| before != ordinal.location);
        if !is_of_window || !has_arrived {
            continue;
        }
        let segments = ordinal.segments;
        let segments = [
            ("terminate", segments.terminate),
            ("detach", segments.detach),
            ("handover", segments.handover),
            ("attach", segments.attach),
            ("start", segments.start),
        ];
        samples.extend(ordinal.downtime_seconds.map(Sample::Downtime));
        let segments = segments.into_iter();
        samples
            .extend(segments.filter_map(|(name, seconds)| Some(Sample::Segment(name, seconds?))));
    }
    samples
}

fn failed_checks(
    before: &StatefulSetMigrationStatus,
    after: &StatefulSetMigrationStatus,
) -> Vec<Sample> {
    let checks = after
        .preflight
        .iter()
        .filter(|_| before.preflight != after.preflight)
        .flat_map(|preflight| &preflight.checks);
    let failed = checks.filter(|finding| match finding.severity {
        Severity::Blocker | Severity::Warning => true,
        Severity::Info => false,
    });
    let mut ids: Vec<CheckId> = failed.map(|finding| finding.id).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.into_iter().map(Sample::FailedCheck).collect()
}

/// What the process remembers of one object.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Remembered {
    pub(super) phase: Option<Phase>,
    /// How many ordinals are at each location, in the order of [`Location::ALL`].
    pub(super) ordinals: [i64; 3],
    /// The step that its run is at, and since when.
    pub(super) step: Option<((StepName, Option<i32>), Duration)>,
}

impl Remembered {
    /// What is remembered after a pass, and the step that has ended with its length. A step that began before
    /// this process did is not measured.
    pub(super) fn advanced(
        &self,
        after: &Counted<'_>,
        elapsed: Duration,
    ) -> (Self, Option<(StepName, Duration)>) {
        let at = after.step();
        let ended = self.step.filter(|(step, _)| Some(*step) != at);
        let step = match (self.step, at) {
            (Some(before), Some(at)) if before.0 == at => Some(before),
            (_, at) => at.map(|at| (at, elapsed)),
        };
        let ordinals = Location::ALL.iter().map(|location| {
            let ordinals = after.status.ordinals.iter();
            let there = ordinals.filter(|ordinal| ordinal.location == *location);
            i64::try_from(there.count()).unwrap_or(i64::MAX)
        });
        let mut counts = [0; 3];
        for (slot, count) in counts.iter_mut().zip(ordinals) {
            *slot = count;
        }
        let next = Self {
            phase: after.status.phase,
            ordinals: counts,
            step,
        };
        let ended = ended.map(|((step, _), since)| (step, elapsed.saturating_sub(since)));
        (next, ended)
    }
}
