//! The events of a migration. Pure.

use api::migrate::{
    Abort, HoldReason, Location, OrdinalRecord, Phase, StatefulSetMigrationStatus, StepName,
    conditions as kinds, events, reasons,
};
use engine::Note;
use kernel::cap;

use super::conditions::{self, ABORT_REQUIRED};
use super::{Shown, failure};

/// The most bytes of `spec.migrationId` in an event.
const MIGRATION_ID_BYTES: usize = 64;

/// Events that come when their condition gets another status or reason.
///
/// | condition         | was True      | becomes                | event                           |
/// |-------------------|---------------|------------------------|---------------------------------|
/// | `Stalled`         | any           | True                   | warning, the stall              |
/// | `Stalled`         | yes           | False                  | StallEnded                      |
/// | `Paused`          | any           | True, by a hold        | warning, the hold               |
/// | `Paused`          | any           | True, for other causes | its reason                      |
/// | `Paused`          | yes, by a hold | False, another cause  | HoldEnded                       |
/// | `DeletionBlocked` | any           | True                   | warning, DeletionBlocked        |
/// | `Ready`           | any           | False, InvalidSpec     | warning, InvalidSpec            |
pub(super) fn of_conditions(shown: &Shown<'_>) -> Vec<(&'static str, Note)> {
    let after = conditions::conditions(shown);
    let mut notes = Vec::new();
    for (kind, truth, reason) in &after {
        let (code, message) = (reason.code.to_string(), reason.message.clone());
        let before = shown.reason_before(kind);
        match (*kind, *truth) {
            (kinds::STALLED, true) => notes.push((*kind, shown.warning(&code, &message))),
            (kinds::STALLED, false) => {
                let note = |before| format!("{before} is over; the run goes on");
                let note = before.map(note);
                notes.extend(note.map(|text| (*kind, shown.normal(events::STALL_ENDED, &text))));
            }
            (kinds::PAUSED, is_paused) => {
                let ended = before.filter(|before| is_hold(before) && *before != code);
                let note = ended.map(|before| format!("{before} is over"));
                notes.extend(note.map(|text| (*kind, shown.normal(events::HOLD_ENDED, &text))));
                if is_paused && is_hold(&code) {
                    notes.push((*kind, shown.warning(&code, &message)));
                } else if is_paused {
                    notes.push((*kind, shown.normal(&code, &message)));
                }
            }
            (kinds::DELETION_BLOCKED, true) => {
                notes.push((
                    *kind,
                    shown.warning(events::DELETION_BLOCKED, ABORT_REQUIRED),
                ));
            }
            (kinds::READY, false) if code == reasons::INVALID_SPEC => {
                notes.push((*kind, shown.warning(&code, &message)));
            }
            _ => {} // the other conditions follow the phase, which has its own event
        }
    }
    notes
}

fn is_hold(reason: &str) -> bool {
    reason.parse::<HoldReason>().is_ok()
}

/// Events about what this pass has found done, from the record before and after it: checks, phases, ordinals,
/// snapshots, clean-up, a failure, a rollback that comes too late.
pub(super) fn of_record(shown: &Shown<'_>) -> Vec<Note> {
    let mut notes = Vec::new();
    notes.extend(checked(shown));
    notes.extend(shown.arrivals());
    notes.extend(shown.snapshots());
    notes.extend(shown.cleaned());
    notes.extend(shown.phases());
    notes.extend(shown.failure());
    notes.extend(shown.refused_rollback());
    notes
}

/// The checks have been made.
fn checked(shown: &Shown<'_>) -> Option<Note> {
    let (before, after) = (&shown.before().preflight, &shown.status.preflight);
    let count = after
        .as_ref()
        .filter(|_| before != after)
        .map(|preflight| preflight.checks.len())?;
    let text = format!("the checks were made; status.preflight has {count} findings");
    Some(shown.normal(Phase::PreFlightChecks.as_str(), &text))
}

impl Shown<'_> {
    fn before(&self) -> &StatefulSetMigrationStatus {
        &self.world.object.status
    }

    fn normal(&self, reason: &str, text: &str) -> Note {
        Note::normal(reason, self.text(text))
    }

    fn warning(&self, reason: &str, text: &str) -> Note {
        Note::warning(reason, self.text(text))
    }

    /// The text with the id of the migration, if it has one.
    fn text(&self, text: &str) -> String {
        let spec = self.world.object.resource.spec.as_ref().ok();
        let id = spec
            .map(|spec| spec.migration_id.as_str())
            .unwrap_or_default();
        if id.is_empty() {
            return text.to_owned();
        }
        format!("migration {}: {text}", cap(id, MIGRATION_ID_BYTES))
    }

    fn phases(&self) -> Vec<Note> {
        let mut entered = self.decided.phases.clone();
        let now = self.phase();
        if self.before().phase != Some(now) && !entered.contains(&now) && now != Phase::Pending {
            entered.push(now);
        }
        entered
            .iter()
            .map(|phase| self.normal(phase.as_str(), phase_text(*phase)))
            .collect()
    }

    fn failure(&self) -> Option<Note> {
        let failure_before = self.before().failure;
        let is_new =
            self.before().phase != Some(Phase::Failed) || failure_before != self.status.failure;
        let cause = self
            .status
            .failure
            .filter(|_| is_new && self.phase() == Phase::Failed)?;
        Some(self.warning(cause.as_str(), &failure(self.decided, self.status)))
    }

    /// | location before | after         | event           |
    /// |-----------------|---------------|-----------------|
    /// | not there       | `Destination` | OrdinalMoved    |
    /// | not there       | `Source`      | OrdinalReturned |
    /// | any other       |               | none            |
    fn arrivals(&self) -> Vec<Note> {
        let ordinals = self.status.ordinals.iter();
        let arrived = ordinals.filter_map(|after| {
            let before = self.before().ordinal(after.ordinal)?;
            if before.location == after.location {
                return None;
            }
            match after.location {
                Location::Moving => None,
                Location::Destination => Some((events::ORDINAL_MOVED, "destination", after)),
                Location::Source => Some((events::ORDINAL_RETURNED, "source", after)),
            }
        });
        arrived
            .map(|(reason, side, ordinal)| self.normal(reason, &self.arrival_text(ordinal, side)))
            .collect()
    }

    fn arrival_text(&self, record: &OrdinalRecord, side: &str) -> String {
        let ordinal = record.ordinal;
        let window = self.status.window;
        if window.is_some_and(|window| !window.contains(ordinal)) {
            return format!("the dormant claims of ordinal {ordinal} are at the {side}");
        }
        match record.downtime_seconds {
            Some(seconds) => {
                format!("ordinal {ordinal} runs at the {side}; it was down for {seconds:.1} s")
            }
            None => format!("ordinal {ordinal} runs at the {side}"),
        }
    }

    fn snapshots(&self) -> Vec<Note> {
        let claims = self
            .status
            .ordinals
            .iter()
            .flat_map(|ordinal| ordinal.claims.iter().map(move |claim| (ordinal, claim)));
        let new = claims.filter_map(|(ordinal, claim)| {
            let snapshot = claim.snapshot_id.as_ref()?;
            let before = self.before().ordinal(ordinal.ordinal);
            let mut before = before.into_iter().flat_map(|before| &before.claims);
            let is_old = before
                .any(|one| one.name == claim.name && one.snapshot_id.as_ref() == Some(snapshot));
            (!is_old).then(|| {
                format!(
                    "snapshot {snapshot} of volume {} of claim {} was started",
                    claim.volume_id, claim.name
                )
            })
        });
        new.map(|text| self.normal(events::SNAPSHOT_CREATED, &text))
            .collect()
    }

    /// The run has left a step of the clean-up: what the intent was about is gone.
    fn cleaned(&self) -> Option<Note> {
        let about = |status: &StatefulSetMigrationStatus| {
            let intent = status.intent.as_ref()?;
            Some((intent.step, intent.ordinal))
        };
        let before = about(self.before()).filter(|before| about(self.status) != Some(*before))?;
        let (step, ordinal) = before;
        let of_ordinal = ordinal.map_or(String::new(), |ordinal| format!(" of ordinal {ordinal}"));
        let text = if step == StepName::CleanPv {
            format!(
                "the PersistentVolumes{of_ordinal} at the source are deleted; its disks are in use at the destination"
            )
        } else if step == StepName::CleanSts {
            "the StatefulSet at the source is deleted".to_owned()
        } else if step == StepName::CleanFence {
            format!("the tombstones{of_ordinal} at the source are deleted")
        } else {
            return None;
        };
        Some(self.normal(events::SOURCE_CLEANED, &text))
    }

    /// The first pass over an edited spec that asks for a rollback after the clean-up has begun.
    fn refused_rollback(&self) -> Option<Note> {
        let spec = self.world.object.resource.spec.as_ref().ok()?;
        let is_edited = self.before().observed_generation != self.status.observed_generation;
        let is_late = spec.abort == Some(Abort::Rollback) && self.status.cleanup_started;
        let text = "the source is being cleaned up, so the run ends at the destination; to move back, create a \
                    StatefulSetMigration with the clusters exchanged";
        (is_edited && is_late).then(|| self.warning(events::ROLLBACK_REFUSED, text))
    }
}

fn phase_text(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "nothing was done yet",
        Phase::PreFlightChecks => "the checks run; nothing is written outside",
        Phase::Planned => {
            "the checks passed and status.plan has the plan; nothing was written outside"
        }
        Phase::FreezingSource => {
            "the source is being captured, locked and protected, and the destination prepared"
        }
        Phase::MigratingPods => "ordinals move to the destination, one at a time",
        Phase::Finalizing => {
            "every ordinal runs at the destination; the source is cleaned up after the soak"
        }
        Phase::Completed => "the run is over; every ordinal runs at the destination",
        Phase::RollingBack => "ordinals move back to the source, one at a time",
        Phase::RolledBack => "the run is over; every ordinal runs at the source, as before",
        Phase::Failed => "the run has stopped",
    }
}
