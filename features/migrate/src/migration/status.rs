//! Status, conditions and events of a migration, from a decision and from how the pass ended. Pure.

use api::migrate::{Intent, Phase, StatefulSetMigrationStatus, conditions};
use engine::{Ended, Note, Report};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kernel::Reason;

use super::core::{Announced, Decided, World};

/// The status after a pass.
pub(super) fn status(
    decided: &Decided,
    world: &World,
    ended: &Ended<Announced>,
) -> (StatefulSetMigrationStatus, Report) {
    let mut status = decided.record.clone();
    if let Ended::Announcing(intents) = ended
        && let Some(announced) = intents.first()
    {
        status.intent = Some(Intent {
            step: announced.step,
            ordinal: announced.ordinal,
            token: announced.token.clone(),
            at: MicroTime(world.now),
        });
    }
    let phase = status.phase.unwrap_or(Phase::Pending);
    let is_ready = phase.is_over() || phase == Phase::Planned;
    let reason = Reason::new(decided.reason.clone(), decided.message.clone());
    let mut report = Report::default().condition(conditions::READY, is_ready, reason);
    for phase in &decided.phases {
        report = report.event(Note::normal(phase.as_str(), format!("phase {phase}")));
    }
    (status, report)
}
