//! What a migration needs between two passes: reads of disks, and connections. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use api::migrate::StepName;

use super::{Decided, Situation};
use crate::migration::decision::Wait;

/// A run that has ended, has failed or was not begun keeps no connection: the next pass that needs one connects
/// again.
pub fn needs_no_cluster(situation: &Situation) -> bool {
    match situation {
        Situation::Resting | Situation::InvalidSpec => true,
        Situation::Progressing
        | Situation::Waiting { .. }
        | Situation::Held(_)
        | Situation::PauseRequested
        | Situation::LimitReached
        | Situation::AwaitingAbort
        | Situation::CallFailed => false,
    }
}

/// The disks whose changes end the wait of a run, and the time at which a read of them is due.
///
/// | step                     | disks               | due                         |
/// |--------------------------|---------------------|-----------------------------|
/// | detach, attach           | of the ordinal      | none: a change matters      |
/// | confirm                  | of the ordinal      | at the end of the wait      |
/// | any other                | none                | none                        |
pub fn awaited(decided: &Decided, elapsed: Duration) -> (BTreeSet<String>, Option<Duration>) {
    let Situation::Waiting { wait, .. } = &decided.situation else {
        return (BTreeSet::new(), None);
    };
    let is_second_read = matches!(wait.step, StepName::Confirm | StepName::RConfirm);
    let is_watched = matches!(
        wait.step,
        StepName::Detach | StepName::RDetach | StepName::Attach | StepName::RAttach
    );
    if !is_second_read && !is_watched {
        return (BTreeSet::new(), None);
    }
    let due = wait.after.filter(|_| is_second_read);
    let due = due.map(|after| elapsed + after);
    (disks_of(decided, wait), due)
}

fn disks_of(decided: &Decided, wait: &Wait) -> BTreeSet<String> {
    let ordinals = decided.record.ordinals.iter();
    let waiting = ordinals.filter(|ordinal| Some(ordinal.ordinal) == wait.ordinal);
    waiting
        .flat_map(|ordinal| &ordinal.claims)
        .map(|claim| claim.volume_id.clone())
        .collect()
}

#[cfg(test)]
mod tests;
