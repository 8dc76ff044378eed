//! Status, computed only from how the attempt ended.

use api::probe::{Probe, ProbeStatus, READY, reasons};
use engine::{Note, Pass};
use kernel::{Conditions, Reason, Stop, find};

use super::Error;
use super::apply::Applied;

pub(super) fn status(
    probe: &Probe,
    ended: &Result<Applied, Stop<Error>>,
    pass: &Pass,
) -> ProbeStatus {
    let mut status = probe.status.clone().unwrap_or_default();
    let mut set = Conditions::new(
        &status.conditions,
        probe.metadata.generation,
        pass.clock().now(),
    );
    match ended {
        Ok(applied) => {
            set.yes(
                READY,
                &Reason::new(reasons::SUCCEEDED, "all is as the spec says"),
            );
            status.outside_name.clone_from(&applied.outside_name);
        }
        Err(Stop::Again) => {}
        Err(Stop::Waiting { reason, .. } | Stop::Blocked { reason }) => {
            set.no(READY, reason);
        }
        Err(Stop::Failed(error)) => {
            set.no(READY, &Reason::new(reasons::FAILED, error.to_string()));
        }
    }
    let (conditions, changed) = set.into_parts();
    status.conditions = conditions;
    if changed {
        status.last_reconcile_id = Some(pass.id().to_owned()); // an ID alone is no reason to write
    }
    status
}

/// An event for each transition of `Ready`, with the reason of the condition.
pub(super) fn tell(probe: &Probe, now: &ProbeStatus, pass: &Pass) {
    let before = probe
        .status
        .as_ref()
        .and_then(|status| find(&status.conditions, READY));
    let Some(ready) = find(&now.conditions, READY) else {
        return;
    };
    if before.is_some_and(|before| before.status == ready.status && before.reason == ready.reason) {
        return;
    }
    let note = if ready.status == "True" {
        Note::normal
    } else {
        Note::warning
    };
    pass.event(note(ready.reason.clone(), ready.message.clone()));
}
