//! Status and conditions of a Probe, from world and outcome.

use api::probe::{Behaviour, ProbeStatus, READY, reasons};
use engine::{Ended, Note, Report};
use kernel::{Ownership, Reason};

use super::plan::{marker, ownership};
use super::{OutsideName, ProbeCore, Seen, World};

/// | ended      | name on record                              | Ready             |
/// |------------|---------------------------------------------|-------------------|
/// | announcing | the name                                    | unchanged         |
/// | done       | none if nothing is desired and nothing ours | True              |
/// | stopped    | the same                                    | False, the reason |
///
/// A Probe that is Quiet keeps its status.
pub(super) fn status(
    core: &ProbeCore,
    world: &World,
    ended: &Ended<OutsideName>,
) -> (ProbeStatus, Report) {
    let spec = &world.object.resource.spec;
    let mut status = world.object.status.clone();
    if spec.behaviour == Behaviour::Quiet {
        return (status, Report::default());
    }
    let is_nothing_ours = match &world.observed.thing {
        Seen::Unread => false,
        Seen::Absent => true,
        Seen::Present(thing) => ownership(thing, &marker(core, world)) != Ownership::Ours,
    };
    if spec.outside.is_none() && is_nothing_ours {
        status.outside_name = None;
    }
    let (is_ready, reason) = match ended {
        Ended::Announcing(intents) => {
            if let Some(OutsideName(name)) = intents.first() {
                status.outside_name = Some(name.clone());
            }
            return (status, Report::default());
        }
        Ended::Previewed(_) => return (status, Report::default()),
        Ended::Done { .. } => {
            let message = "all is as the spec says";
            (true, Reason::new(reasons::SUCCEEDED, message))
        }
        Ended::Stopped(stop) => (false, stop.reason().clone()),
    };
    let note = if is_ready {
        Note::normal
    } else {
        Note::warning
    };
    let note = note(reason.code.to_string(), reason.message.clone());
    let report = Report::default()
        .condition(READY, is_ready, reason)
        .event_on_new_reason(READY, note);
    (status, report)
}
