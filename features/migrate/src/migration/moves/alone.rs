//! Ordinals of a source whose StatefulSet this run has deleted: their pods run alone.

use api::migrate::{Location, OrdinalRecord, StepName};

use super::{Moves, Next};
use crate::migration::decision::{Decision, Interference};
use crate::migration::handover::{self, Direction};
use crate::migration::orphan::is_orphaned;

impl Moves<'_> {
    /// Whether the source has no StatefulSet by the work of this run.
    pub(super) fn is_orphaned(&self) -> bool {
        is_orphaned(self.record, self.observation)
    }

    /// Whether an ordinal on its way back waits until the StatefulSet of the source can be created again.
    pub(super) fn is_parked(&self, record: &OrdinalRecord) -> bool {
        self.direction == Direction::Back
            && self.is_orphaned()
            && record.location == Location::Moving
            && record.step == Some(StepName::RGrow)
    }

    /// Without a StatefulSet in the source the record shows whether an ordinal has left it: its pod may be lost
    /// for other reasons.
    ///
    /// | recorded step  | its pod in the source     | has left |
    /// |----------------|---------------------------|----------|
    /// | after release  | any                       | yes      |
    /// | release        | gone, ending, or another  | yes      |
    /// | release        | there                     | no       |
    /// | gate, or none  | any                       | no       |
    pub(super) fn has_left(&self, record: &OrdinalRecord) -> bool {
        let step = record.step.filter(|step| !step.is_rollback());
        let Some(step) = step.filter(|_| record.location == Location::Moving) else {
            return false;
        };
        let name = format!("{}-{}", self.spec.stateful_set_name, record.ordinal);
        let pod = self.observation.source.pods.get(&name);
        let is_there = pod.is_some_and(|pod| {
            let recorded = record.source_pod_uid.as_ref();
            !pod.is_terminating && recorded.is_none_or(|uid| *uid == pod.version.uid)
        });
        step > StepName::Release || (step == StepName::Release && !is_there)
    }

    /// The ordinals that the source still runs without a StatefulSet.
    pub(super) fn orphans(&self) -> Option<Vec<i32>> {
        let is_alone = self.direction == Direction::Forward && self.is_orphaned();
        is_alone.then(|| {
            let ordinals = self.record.ordinals.iter();
            let there = ordinals.filter(|record| {
                let is_of_window = !self.is_dormant(record.ordinal);
                is_of_window && record.location != Location::Destination && !self.has_left(record)
            });
            there.map(|record| record.ordinal).collect()
        })
    }

    /// Every ordinal that waits for the StatefulSet of the source is free, by live reads.
    pub(super) fn before_restart(&self) -> Next {
        let parked = self.record.ordinals.iter();
        let parked: Vec<&OrdinalRecord> = parked.filter(|one| self.is_parked(one)).collect();
        for record in &parked {
            let decision = match self.before_restart_of(record) {
                Ok(Decision::Done) => continue,
                Ok(Decision::ReadDisks {
                    step, not_before, ..
                }) => {
                    let claims = parked.iter().flat_map(|record| &record.claims);
                    let ids = claims.map(|claim| claim.volume_id.clone()).collect();
                    Decision::ReadDisks {
                        step,
                        ids,
                        not_before,
                    }
                }
                Ok(decision) => decision,
                Err(hold) => return Next::Hold(hold),
            };
            return Next::Ordinal {
                decision,
                record: Box::new((*record).clone()),
                proof: Box::new(self.proof.clone()),
            };
        }
        Next::Complete
    }

    pub(super) fn before_restart_of(
        &self,
        record: &OrdinalRecord,
    ) -> Result<Decision, Interference> {
        let claims = self.claims_of(record)?;
        let context = self.context(record);
        Ok(handover::before_restart(
            &self.handover(record, claims, &context),
        ))
    }
}
