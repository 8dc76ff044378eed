//! What the record of an ordinal remembers after a decision about it.

use api::migrate::{Location, NodeRecord, OrdinalRecord, StepName};

use super::Moves;
use crate::migration::decision::{Change, Decision, Step};
use crate::migration::handover::{Direction, changed_tags, found_snapshot};
use crate::migration::progress;

impl Moves<'_> {
    /// The record of an ordinal after this decision about it.
    pub(super) fn advanced(&self, record: &OrdinalRecord, decision: &Decision) -> OrdinalRecord {
        match decision {
            // A person acts first: the record stays.
            Decision::Hold(_) | Decision::Fail(_) => record.clone(),
            Decision::Wait(_)
            | Decision::Act(_)
            | Decision::ReadDisks { .. }
            | Decision::ReadSnapshots { .. }
            | Decision::Done => {
                let mut next =
                    progress::advanced(record, self.direction, decision.step(), self.now);
                if matches!(decision, Decision::Act(step) if is_release(step)) {
                    self.remember_pod(&mut next);
                }
                if decision.step() == Some(StepName::Retag) {
                    self.remember_tags(&mut next);
                }
                if !self.is_dormant(next.ordinal) {
                    progress::seen(&mut next, self.is_ready_at_origin(record), self.now);
                }
                self.remember_snapshots(&mut next, decision);
                next
            }
        }
    }

    /// Whether the pod that is to go is still Ready in the old cluster.
    pub(super) fn is_ready_at_origin(&self, record: &OrdinalRecord) -> bool {
        let cluster = self.observation.cluster(self.direction.from());
        let name = format!("{}-{}", self.spec.stateful_set_name, record.ordinal);
        let pod = cluster.pods.get(&name);
        pod.is_some_and(|pod| pod.ready_since.is_some())
    }

    /// Records the snapshots that EC2 shows, and an attempt that was lost.
    pub(super) fn remember_snapshots(&self, record: &mut OrdinalRecord, decision: &Decision) {
        if let Decision::Act(Step {
            change: Change::CreateSnapshot { attempt, .. },
            ..
        }) = decision
        {
            record.attempts = *attempt;
        }
        let Some(read) = self.observation.snapshots.get(&record.ordinal) else {
            return;
        };
        for claim in &mut record.claims {
            let id = found_snapshot(read, &claim.name).map(str::to_owned);
            claim.snapshot_id = claim.snapshot_id.take().or(id);
        }
    }

    /// Records the tags of the disks as they are before the first change.
    pub(super) fn remember_tags(&self, record: &mut OrdinalRecord) {
        let Some(names) = self.spec.fence_names() else {
            return;
        };
        for claim in record
            .claims
            .iter_mut()
            .filter(|claim| claim.old_tags.is_none())
        {
            let read = self.observation.disks.get(&claim.volume_id);
            let disk = read.and_then(|read| read.disk.as_ref());
            claim.old_tags = disk.map(|disk| changed_tags(&disk.tags, names));
        }
    }

    /// The UID of the pod that the release was about. Before it, a pod may come back with another one.
    pub(super) fn released_pod<'r>(&self, record: &'r OrdinalRecord) -> Option<&'r str> {
        let is_back = self.direction == Direction::Back;
        let of_this_move = record.step.filter(|step| step.is_rollback() == is_back);
        of_this_move.filter(|_| record.location == Location::Moving)?;
        match self.direction {
            Direction::Forward => record.source_pod_uid.as_deref(),
            Direction::Back => record.dest_pod_uid.as_deref(),
        }
    }

    /// Records the pod that is to go, and its node: the evidence of the later steps is about them.
    pub(super) fn remember_pod(&self, record: &mut OrdinalRecord) {
        let cluster = self.observation.cluster(self.direction.from());
        let name = format!("{}-{}", self.spec.stateful_set_name, record.ordinal);
        let pod = cluster.pods.get(&name);
        let uid = pod.map(|pod| pod.version.uid.clone());
        match self.direction {
            Direction::Forward => record.source_pod_uid = uid,
            Direction::Back => record.dest_pod_uid = uid,
        }
        record.node = pod.and_then(|pod| pod.node.as_ref()).map(|name| {
            let node = cluster.nodes.get(name);
            NodeRecord {
                name: name.clone(),
                instance: node.and_then(|node| node.instance.clone()),
                boot_id: node.map(|node| node.boot_id.clone()),
            }
        });
    }
}

fn is_release(step: &Step) -> bool {
    matches!(step.name, StepName::Release | StepName::RRelease)
}
