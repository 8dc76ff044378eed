//! The part of a rollback that gives the source its StatefulSet back, if the run has deleted it.

use api::migrate::{StallReason, StepName};

use super::captured::Captured;
use super::{Next, Pass, Plan};
use crate::migration::decision::{Change, Decision, ObjectKind};
use crate::migration::handover::Direction;
use crate::migration::interference;
use crate::migration::observation::Side;
use crate::migration::orphan::{is_recreated, recreated, recreated_by_others, remaining};
use crate::translate::window::Window;

impl Pass<'_> {
    /// From now on its absence is no longer the work of this run.
    pub(super) fn notice_recreation(&mut self) {
        let set = self.observation.source.set.as_ref();
        if set.is_some_and(|set| is_recreated(&self.record, set)) {
            self.record.orphan_started = false;
        }
    }

    /// | StatefulSet of the source            | so                                                         |
    /// |--------------------------------------|------------------------------------------------------------|
    /// | the recorded one                     | it was not deleted: undo the freeze; being deleted: wait   |
    /// | of somebody else                     | hold                                                       |
    /// | gone                                 | create it for the ordinals that never left                 |
    /// | gone, the server has no ordinals     | create it whole                                            |
    pub(super) fn recreate(self, input: &Captured) -> Plan {
        let name = &self.input.spec.stateful_set_name;
        if let Some(set) = &self.observation.source.set {
            if self.record.source_stateful_set_uid.as_ref() != Some(&set.version.uid) {
                let hold = recreated_by_others(set, name);
                return self.decided(Decision::Hold(hold));
            }
            if set.is_terminating {
                let detail = format!("StatefulSet {name} in the source is being deleted");
                let reason = StallReason::DeletionPending;
                return self.decided(Decision::wait(StepName::RRecreate, None, reason, detail));
            }
            return self.undo(input);
        }
        if let Some(hold) = interference::lock(&self.judged(Direction::Back)) {
            return self.decided(Decision::Hold(hold));
        }
        if let Some(step) = self.due_mirror() {
            return self.ends(Next::Mirror(step));
        }
        let captured = input.packed.capture().stateful_set();
        let change = Change::Create {
            side: Side::Source,
            kind: ObjectKind::StatefulSet,
            body: recreated(captured, &self.run, self.returning_ordinals()),
        };
        self.decided(Decision::act(StepName::RRecreate, None, change))
    }

    /// The ordinals of the new StatefulSet; none: all, as captured.
    fn returning_ordinals(&self) -> Option<Window> {
        if self.record.without_ordinals {
            return None;
        }
        let set = &self.input.spec.stateful_set_name;
        let window = remaining(&self.record, &self.observation, set)?;
        let recorded = self.record.window?;
        (window.start != recorded.start).then_some(window)
    }
}
