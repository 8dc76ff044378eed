//! Status and conditions of a Mirror, from world and outcome.

use api::probe::{MirrorStatus, READY, reasons};
use engine::{Ended, Note, Report};
use kernel::Reason;

use super::plan::used_acceptance;
use super::{PinnedCluster, World};

/// | ended      | pinned cluster | accepted cluster    | Ready             |
/// |------------|----------------|---------------------|-------------------|
/// | announcing | the announced  | [`used_acceptance`] | unchanged         |
/// | previewed  | unchanged      | unchanged           | unchanged         |
/// | done       | unchanged      | [`used_acceptance`] | True              |
/// | stopped    | unchanged      | [`used_acceptance`] | False, the reason |
pub(super) fn status(world: &World, ended: &Ended<PinnedCluster>) -> (MirrorStatus, Report) {
    let mut status = world.object.status.clone();
    let (is_ready, reason) = match ended {
        Ended::Announcing(intents) => {
            if let Some(PinnedCluster(cluster)) = intents.first() {
                status.cluster = Some(cluster.clone());
            }
            status.accepted_cluster = used_acceptance(world, status.cluster.as_deref());
            return (status, Report::default());
        }
        Ended::Previewed(_) => return (status, Report::default()),
        Ended::Done { .. } => {
            let message = "the copy is as the spec says";
            (true, Reason::new(reasons::SUCCEEDED, message))
        }
        Ended::Stopped(stop) => (false, stop.reason().clone()),
    };
    status.accepted_cluster = used_acceptance(world, status.cluster.as_deref());
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
