//! The kill points of a run: `<step>:<ordinal>:<before|after>`, with `-` for a step of the whole run. Pure.
//!
//! | point  | of a change                                     | of a wait                                    |
//! |--------|-------------------------------------------------|----------------------------------------------|
//! | before | its intent is saved; a pass begins to make it   | status names it; a pass begins its first look |
//! | after  | it was made; the status is not written          | its evidence was seen; the status is not written |
//!
//! A wait whose evidence is there at once has no pass of its own: both of its points are reached in the pass
//! that goes on.

use api::migrate::{Intent, Location, OrdinalRecord, Phase, StatefulSetMigrationStatus, StepName};
use engine::{Effect, KillPoint};

use super::{Decided, Move, Write};

const BEFORE: &str = "before";
const AFTER: &str = "after";

/// The steps of a move that only wait, in their order.
const FORWARD: [StepName; 6] = [
    StepName::Gate,
    StepName::Gone,
    StepName::Detach,
    StepName::Confirm,
    StepName::Attach,
    StepName::Ready,
];
/// Those of the way back.
const BACK: [StepName; 6] = [
    StepName::Gate,
    StepName::RGone,
    StepName::RDetach,
    StepName::RConfirm,
    StepName::RAttach,
    StepName::RReady,
];

/// The names of a point. What a rollback removes in the destination counts by ordinal and as a whole.
fn names(step: StepName, ordinal: Option<i32>, moment: &str) -> Vec<String> {
    let of_ordinal = ordinal.map(|ordinal| format!("{step}:{ordinal}:{moment}"));
    let is_of_run = ordinal.is_none() || step == StepName::RClean;
    let of_run = is_of_run.then(|| format!("{step}:-:{moment}"));
    of_ordinal.into_iter().chain(of_run).collect()
}

fn points(step: StepName, ordinal: Option<i32>, moment: &str, about: &str) -> Vec<KillPoint> {
    let point = |name| KillPoint {
        name,
        about: about.to_owned(),
    };
    names(step, ordinal, moment)
        .into_iter()
        .map(point)
        .collect()
}

/// The points at which a pass begins: of the saved intent, unless its change is confirmed, and of each wait.
pub(super) fn at_begin(record: &StatefulSetMigrationStatus) -> Vec<KillPoint> {
    let intent = record.intent.as_ref();
    let intent = intent.filter(|intent| !is_confirmed(record, intent));
    let announced = intent.map(|intent| (intent.step, intent.ordinal));
    let change = intent.into_iter().flat_map(|intent| {
        let Intent { step, ordinal, .. } = *intent;
        points(step, ordinal, BEFORE, &intent.token)
    });
    let ordinals = record.ordinals.iter();
    let waits = ordinals.filter_map(|one| Some((one.step?, Some(one.ordinal))));
    let waits = waits.filter(|(step, _)| FORWARD.contains(step) || BACK.contains(step));
    let is_soaking = record.phase == Some(Phase::Finalizing) && !is_soaked(record, None);
    let soak = is_soaking.then_some((StepName::Soak, None));
    let waits = waits.chain(soak).filter(|wait| Some(*wait) != announced);
    let waits = waits.flat_map(|(step, ordinal)| points(step, ordinal, BEFORE, ""));
    change.chain(waits).collect()
}

/// A step of an ordinal in motion is confirmed once the ordinal is at a later one. Every other intent is replaced
/// by the next one.
fn is_confirmed(record: &StatefulSetMigrationStatus, intent: &Intent) -> bool {
    let ordinal = intent.ordinal.and_then(|ordinal| record.ordinal(ordinal));
    let step = ordinal.and_then(|ordinal| ordinal.step);
    step.is_some_and(|step| step != intent.step)
}

/// The points at its begin, and those of the waits that a pass has seen the end of, by what it decides now.
pub(super) fn reached(before: &StatefulSetMigrationStatus, decided: &Decided) -> Vec<KillPoint> {
    let mut reached = at_begin(before);
    let mut ended = Vec::new();
    let was_moving = |one: &&OrdinalRecord| one.location == Location::Moving;
    let (moving, others): (Vec<_>, Vec<_>) = before.ordinals.iter().partition(was_moving);
    for earlier in moving.into_iter().chain(others) {
        let Some(now) = decided.record.ordinal(earlier.ordinal) else {
            continue;
        };
        let window = decided.record.window.as_ref();
        let is_dormant = window.is_some_and(|window| !window.contains(now.ordinal));
        let waits = ended_waits(earlier, now, is_dormant);
        ended.extend(waits.into_iter().map(|wait| (wait, Some(now.ordinal))));
    }
    let change = match &decided.next {
        Move::Write(write) => Some(write.step().name),
        Move::Read(_) | Move::Wait(_) | Move::Block | Move::End | Move::Fail(_) => None,
    };
    if !is_soaked(before, None) && is_soaked(&decided.record, change) {
        ended.push((StepName::Soak, None));
    }
    for (wait, ordinal) in ended {
        for moment in [BEFORE, AFTER] {
            let mut new = points(wait, ordinal, moment, "");
            new.retain(|point| !reached.contains(point));
            reached.extend(new);
        }
    }
    reached
}

/// Whether the soak is over, by the record or the change that comes next.
fn is_soaked(record: &StatefulSetMigrationStatus, change: Option<StepName>) -> bool {
    let announced = record.intent.as_ref().map(|intent| intent.step);
    let mut steps = [announced, change].into_iter().flatten();
    let is_after = steps.any(|step| step > StepName::Soak);
    record.cleanup_started
        || record.phase == Some(Phase::Completed)
        || (record.phase == Some(Phase::Finalizing) && is_after)
}

/// The waits of an ordinal that have ended between two records of it.
///
/// | earlier                     | now              | ended                                         |
/// |-----------------------------|------------------|-----------------------------------------------|
/// | the same, or any            | the same, a gate | none                                          |
/// | not in motion               | in motion        | those before its step, the gate too           |
/// | in motion the same way      | in motion        | those from the earlier step, before this one  |
/// | in motion the other way     | in motion        | those before its step, without the gate       |
/// | any of these                | arrived          | all that are left                             |
///
/// Claims that no pod uses have no gate and no pod to wait for.
fn ended_waits(earlier: &OrdinalRecord, now: &OrdinalRecord, is_dormant: bool) -> Vec<StepName> {
    let is_same = (earlier.location, earlier.step) == (now.location, now.step);
    if is_same || now.step == Some(StepName::Gate) {
        return Vec::new();
    }
    let is_back = match now.step {
        Some(step) => step.is_rollback(),
        None => now.location == Location::Source,
    };
    let waits = if is_back { BACK } else { FORWARD };
    let first = match earlier.step {
        Some(step) if earlier.location == Location::Moving && step.is_rollback() == is_back => step,
        _ if earlier.location == Location::Moving => waits[1],
        Some(_) | None => waits[0],
    };
    let is_of_disks = |step: &StepName| *step == waits[2] || *step == waits[3];
    let ended = waits.into_iter().filter(|wait| *wait >= first);
    let ended = ended.filter(|wait| now.step.is_none_or(|step| *wait < step));
    ended
        .filter(|wait| !is_dormant || is_of_disks(wait))
        .collect()
}

impl Effect for Write {
    const NAMES: &'static [&'static str] = &[
        "mirror",
        "capture",
        "lock",
        "protect",
        "hydrate",
        "prepare",
        "orphan",
        "release",
        "narrow",
        "gone",
        "fence",
        "snapshot",
        "retag",
        "grow",
        "clean-pv",
        "clean-sts",
        "clean-fence",
        "mark-moved",
        "restore",
        "unlock",
        "r-recreate",
        "r-release",
        "r-gone",
        "r-fence",
        "r-retag",
        "r-unfence",
        "r-grow",
        "r-drain",
        "r-clean",
        "r-restore",
        "r-unlock",
        "leave",
    ];

    fn name(&self) -> &'static str {
        match self {
            Self::Change(step) => step.name.as_str(),
            Self::Mirror(_) => "mirror",
        }
    }

    fn points_after(&self) -> Vec<String> {
        match self {
            Self::Change(step) => names(step.name, step.ordinal, AFTER),
            Self::Mirror(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
