//! What the oracle of EC2 reports.

use jiff::Timestamp;

use super::Ec2;
use super::content::Beginnings;
use super::volume::Volume;
use crate::service::{Moment, Outcome, Violation};

/// What an operator must never do, not even in vain.
const FORBIDDEN: &[&str] = &["AttachVolume", "DetachVolume", "DeleteVolume"];

/// The violations, and what is needed to find them.
#[derive(Debug, Clone, Default)]
pub(super) struct Judge {
    pub(super) violations: Vec<Violation>,
    pub(super) beginnings: Beginnings,
}

impl Judge {
    pub(super) fn report(&mut self, rule: &'static str, detail: String, time: Timestamp) {
        self.violations.push(Violation { time, rule, detail });
    }

    /// A volume with a new attachment: only what control made shareable may have two.
    pub(super) fn attached(&mut self, volume: &Volume, now: Timestamp) {
        if volume.attachments.len() < 2 || volume.may_share {
            return;
        }
        let instances = volume.attachments.iter().map(|one| one.instance.as_str());
        let instances = instances.collect::<Vec<_>>().join(" and ");
        let detail = format!("{} is attached to {instances}", volume.id);
        self.report("twoAttachments", detail, now);
    }
}

impl Ec2 {
    /// A call of the operator that only the drivers of a cluster may make.
    pub(super) fn judge_call(&mut self, moment: &Moment<'_>, outcome: &Outcome<'_>) {
        let operation = outcome.operation;
        let Some(caller) = outcome.caller else { return };
        if !FORBIDDEN.contains(&operation.name.as_str())
            || !moment.declared.is_operator(Some(caller))
        {
            return;
        }
        let volume = operation.resource.as_deref().unwrap_or("no volume");
        let detail = format!("{} called {} of {volume}", caller.name(), operation.name);
        self.judge.report("operatorMovedDisk", detail, moment.now);
    }

    /// A detach of a disk that the instance has not unmounted.
    pub(super) fn judge_detach(&mut self, volume: &str, instance: &str, by: &str, now: Timestamp) {
        let disk = self.inventory.disks.get(volume);
        if disk.is_some_and(|disk| disk.mounted.contains(instance)) {
            let detail = format!("{by} detached {volume} from {instance}, which has it mounted");
            self.judge.report("detachedDirty", detail, now);
        }
    }
}
