//! The end of a run: clean-up, the end of a rollback, and leaving it where it is.

use std::collections::BTreeMap;
use std::time::Duration;

use api::migrate::{CleanupPolicy, FailReason, HoldReason, Phase, StepName};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::captured::Captured;
use super::{Next, Pass, Plan};
use crate::migration::decision::{Change, Decision, Interference, Step};
use crate::migration::documents::version;
use crate::migration::extract;
use crate::migration::finish::{self, Finish, MovedClaims};
use crate::migration::handover::Direction;
use crate::migration::interference;
use crate::migration::observation::{Side, Version};
use crate::migration::rendered::templates;
use crate::migration::undo::{self, Undo};
use crate::record::lock::LockGoal;
use crate::translate::Document;
use crate::translate::names::ClaimNames;

impl Pass<'_> {
    pub(super) fn finish(mut self, input: &Captured) -> Plan {
        if let Some(step) = self.due_mirror() {
            return self.ends(Next::Mirror(step));
        }
        self.find_edits(input);
        let keeps_source = self.input.spec.source_cleanup.policy == CleanupPolicy::Keep;
        let goal = if keeps_source {
            LockGoal::Release
        } else {
            LockGoal::Remove
        };
        let unlock = self.unlock(goal);
        let settings = self.closing().destination_settings();
        let window = self.record.window;
        let moved: Vec<MovedClaims> = input
            .rendered
            .claims
            .iter()
            .map(|(ordinal, claims)| MovedClaims {
                ordinal: *ordinal,
                is_dormant: window
                    .as_ref()
                    .is_some_and(|window| !window.contains(*ordinal)),
                claims: claims.clone(),
            })
            .collect();
        let moved_to = self.moved_to(&moved);
        let decision = finish::next(&Finish {
            run: &self.run,
            set: &self.input.spec.stateful_set_name,
            source_uid: self
                .record
                .source_stateful_set_uid
                .as_deref()
                .unwrap_or_default(),
            source_namespace: &self.input.spec.source_namespace,
            keeps_source,
            soak_left: self.soak_left(),
            moved: &moved,
            moved_to: &moved_to,
            settings: &settings,
            unlock: &unlock,
            revisions: &self.left_revisions(input),
            absent_since: self.memory.source_absent_since,
            observation: &self.observation,
            now: self.input.now,
            elapsed: self.input.elapsed,
        });
        if decision == Decision::Done {
            return self.reaches(Phase::Completed);
        }
        let edited = || interference::edited(&self.judged(Direction::Forward));
        let decision = self.undisturbed(decision, StepName::Unlock, edited);
        if decision.step().is_some_and(StepName::is_cleanup) {
            self.record.cleanup_started |= matches!(decision, Decision::Act(_));
        }
        self.decided(decision)
    }

    /// A deletion that leaves the pods leaves the ControllerRevisions too.
    fn left_revisions(&self, input: &Captured) -> Vec<(String, Version)> {
        let captured = input.packed.capture().controller_revisions().iter();
        let captured: Vec<String> = captured.map(|one| version(one).uid).collect();
        let live = self.input.source.controller_revisions.iter();
        let left = live.filter(|one| {
            self.record.orphan_started
                && captured.contains(&version(one).uid)
                && extract::controller(one).is_none()
        });
        left.map(|one| (extract::name(one), version(one))).collect()
    }

    pub(super) fn unlock(&self, goal: LockGoal) -> Vec<Change> {
        let Some(lock) = self.lock(goal) else {
            return Vec::new();
        };
        let locks = Side::BOTH.map(|side| (side, lock.clone()));
        self.closing().unlock(&locks, goal)
    }

    /// What is left of the soak: it begins when the last ordinal is Ready.
    fn soak_left(&self) -> Duration {
        let times = self.record.ordinals.iter();
        let last = times
            .filter_map(|ordinal| ordinal.times.ready.as_ref())
            .map(|time| time.0)
            .max();
        let Some(last) = last else {
            return Duration::ZERO;
        };
        let passed = self.input.now.duration_since(last);
        let passed = Duration::try_from(passed).unwrap_or_default();
        self.input
            .spec
            .source_cleanup
            .soak
            .length()
            .saturating_sub(passed)
    }

    fn moved_to(&self, moved: &[MovedClaims]) -> BTreeMap<String, String> {
        let cluster = self.record.dest_cluster_uid.as_deref().unwrap_or_default();
        let namespace = &self.input.spec.dest_namespace;
        let claims = moved.iter().flat_map(|moved| &moved.claims);
        claims
            .map(|claim| {
                let place = format!("{cluster}/{namespace}/{}", claim.name);
                (claim.source_volume.clone(), place)
            })
            .collect()
    }

    /// Claims of the set in the destination that no ordinal of the run has, and that nobody has accepted. They
    /// have data that a rollback would leave behind.
    pub(super) fn extra_claims(&self, input: &Captured) -> Vec<String> {
        let accepted = HoldReason::DestExtraClaims.as_str();
        if self.input.spec.acknowledges(accepted, None) {
            return Vec::new();
        }
        let set = Document::read(input.packed.capture().stateful_set().clone());
        let templates = set.map(|set| templates(&set)).unwrap_or_default();
        let names = ClaimNames {
            stateful_set: &self.input.spec.stateful_set_name,
            templates: &templates,
        };
        let claims = self.observation.destination.claims.keys();
        let extra = claims.filter(|name| {
            names.parse(name).is_some() && !input.rendered.pairs.contains_key(*name)
        });
        extra.cloned().collect()
    }

    pub(super) fn undo(self, input: &Captured) -> Plan {
        if let Some(step) = self.due_mirror() {
            return self.ends(Next::Mirror(step));
        }
        let of_ordinals = input.rendered.claims.iter();
        let claims = of_ordinals.flat_map(|(ordinal, claims)| {
            let claims = claims.iter().cloned();
            claims.map(|claim| (*ordinal, claim))
        });
        let claims: Vec<_> = claims.collect();
        let unlock = self.unlock(LockGoal::Remove);
        let settings = self.closing().source_settings();
        let decision = undo::next(&Undo {
            set: &self.input.spec.stateful_set_name,
            namespace: &self.input.spec.dest_namespace,
            claims: &claims,
            extra_claims: &self.extra_claims(input),
            settings: &settings,
            unlock: &unlock,
            observation: &self.observation,
        });
        if decision == Decision::Done {
            return self.reaches(Phase::RolledBack);
        }
        let decision = self.undisturbed(decision, StepName::RUnlock, || None);
        self.decided(decision)
    }

    /// Until the last step, which removes the locks, nothing is changed without both of them, or against somebody
    /// who interferes.
    fn undisturbed(
        &self,
        decision: Decision,
        last: StepName,
        others: impl FnOnce() -> Option<Interference>,
    ) -> Decision {
        let is_next = decision.step().is_some_and(|step| step != last);
        // After a restart, a wait may come again although the first lock is gone.
        let intent = self.input.record.intent.as_ref();
        let is_unlocking = intent.is_some_and(|intent| intent.step == last);
        let is_judged = is_next && (matches!(decision, Decision::Act(_)) || !is_unlocking);
        let lock = || interference::lock(&self.judged(Direction::Back));
        let found = is_judged.then(|| lock().or_else(others)).flatten();
        found.map_or(decision, Decision::Hold)
    }

    /// The last change has removed everything: a capture is gone that is the only one, because the migration is in
    /// the namespace of the source.
    pub(super) fn has_unlocked(&self, at: StepName) -> bool {
        let input = self.input;
        let intent = input.record.intent.as_ref();
        let mut sides = [input.source, input.destination].into_iter();
        intent.is_some_and(|intent| intent.step == at)
            && input.capture.is_none()
            && input.source.capture.is_none()
            && sides.all(|side| side.lock.is_none())
    }

    pub(super) fn reaches(mut self, phase: Phase) -> Plan {
        self.record.completion_time = Some(Time(self.input.now));
        self.goes_on(phase)
    }

    /// `abort: Leave`: the journal goes to both locks, which are released; nothing else changes.
    pub(super) fn leave(mut self) -> Plan {
        let unlock = self.unlock(LockGoal::Release);
        if let Some(change) = unlock.into_iter().next() {
            return self.decided(Decision::Act(Step {
                name: StepName::Leave,
                ordinal: None,
                change,
            }));
        }
        self.record.failure = Some(FailReason::AbortedLeave);
        self.goes_on(Phase::Failed)
    }
}
