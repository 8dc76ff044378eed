//! Which ordinal moves, and what its next change is: interference, gate and handover together. Pure.

mod alone;
mod recorded;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use api::migrate::{
    CheckId, HoldReason, Location, OrdinalRecord, SnapshotTime, StallReason,
    StatefulSetMigrationSpec, StatefulSetMigrationStatus, StepName,
};
use jiff::Timestamp;

use super::decision::{Decision, Interference, Wait};
use super::gate::{self, Gate};
use super::handover::{self, Direction, Handover, HandoverClaim, Proof, Snapshots, Tags};
use super::interference::{self, Run};
use super::observation::{Observation, Side};
use crate::translate::window::Window;

/// Everything that the decision needs.
#[derive(Debug, Clone)]
pub struct Moves<'a> {
    /// The spec of the migration.
    pub spec: &'a StatefulSetMigrationSpec,
    /// Its record.
    pub record: &'a StatefulSetMigrationStatus,
    /// The id of the run.
    pub run: &'a str,
    /// Which way ordinals go now.
    pub direction: Direction,
    /// The tags that name the migration.
    pub marker: &'a BTreeMap<String, String>,
    /// Whether the change of the saved intent was certainly not begun yet.
    pub is_intent_unused: bool,
    /// Whether a person has asked for a pause.
    pub is_paused: bool,
    /// The claims of each ordinal.
    pub claims: &'a BTreeMap<i32, Vec<HandoverClaim>>,
    /// The PodDisruptionBudget that allows no pod to be down, over the pods of both clusters together.
    pub exhausted_budget: Option<&'a str>,
    /// What was read.
    pub observation: &'a Observation,
    /// What this process has seen of the disks.
    pub proof: &'a Proof,
    /// The current time.
    pub now: Timestamp,
    /// The time since the start of the process.
    pub elapsed: Duration,
}

/// What the decision about one ordinal borrows.
struct Context {
    old_tags: BTreeMap<String, Tags>,
    accepts_unready: Vec<i32>,
    snapshots: Option<Snapshots>,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Every ordinal is where it should be.
    Complete,
    /// As many ordinals have moved as `ordinalLimit` allows.
    LimitReached,
    /// A person has asked for a pause, and no ordinal is in motion.
    Paused,
    /// Somebody interferes.
    Hold(Interference),
    /// An ordinal moves.
    Ordinal {
        /// The next change or wait; [`Decision::Done`] if it has arrived.
        decision: Decision,
        /// Its record after this pass.
        record: Box<OrdinalRecord>,
        /// What this process has seen of its disks.
        proof: Box<Proof>,
    },
}

/// The first row that fits:
///
/// | interference                       | ordinal in motion | pause asked | next ordinal  | so                  |
/// |------------------------------------|-------------------|-------------|---------------|---------------------|
/// | yes, the ordinal may not be ended  | any               | any         | any           | hold                |
/// | yes, the ordinal may be ended      | yes               | any         | any           | its handover        |
/// | no                                 | yes               | any         | any           | its handover        |
/// | no                                 | no                | any         | none          | complete            |
/// | no                                 | no                | yes         | any           | paused              |
/// | no                                 | no                | no          | over the limit | limit reached, but for dormant claims |
/// | no                                 | no                | no          | any           | its gate            |
///
/// An ordinal is in motion from the release on. Until then, a pause and the limit still stop it. A rollback that
/// has brought every ordinal back empties the destination: that the StatefulSet is missing there, or a lock, is
/// then no interference.
pub fn next(moves: &Moves<'_>) -> Next {
    let mut moving = moves.record.ordinals.iter();
    let moving =
        moving.find(|record| record.location == Location::Moving && !moves.is_parked(record));
    let candidate = moving.or_else(|| moves.next_ordinal());
    let is_parked = |record| moves.is_parked(record);
    if moves.direction == Direction::Back
        && candidate.is_none()
        && !moves.record.ordinals.iter().any(is_parked)
    {
        return interference::identity(&moves.run()).map_or(Next::Complete, Next::Hold);
    }
    if let Some(hold) = interference::found(&moves.run()).or_else(|| moves.unrecorded()) {
        let may_finish = moving.is_some_and(|record| moves.may_finish(&hold, record));
        if !may_finish {
            return Next::Hold(hold);
        }
    }
    if let Some(record) = moving.filter(|record| moves.is_in_motion(record)) {
        return moves.hand_over(record);
    }
    let Some(record) = candidate else {
        return moves.before_restart();
    };
    if moves.is_paused {
        return Next::Paused;
    }
    if !moves.is_dormant(record.ordinal) && moves.is_limit_reached() {
        return Next::LimitReached;
    }
    moves.hand_over(record)
}

impl Moves<'_> {
    fn run(&self) -> Run<'_> {
        Run {
            record: self.record,
            id: self.run,
            set: &self.spec.stateful_set_name,
            direction: self.direction,
            is_prepared: true,
            observation: self.observation,
        }
    }

    /// Whether a cluster runs the pod of an ordinal, by the window of its StatefulSet.
    fn runs(&self, side: Side, ordinal: i32) -> bool {
        let set = self.observation.cluster(side).set.as_ref();
        set.is_some_and(|set| set.window().contains(ordinal))
    }

    /// Whether the ordinal has left its old cluster, or is about to by what both clusters show.
    fn is_in_motion(&self, record: &OrdinalRecord) -> bool {
        if self.direction == Direction::Forward && self.is_orphaned() {
            return self.has_left(record) || self.runs(Side::Destination, record.ordinal);
        }
        let is_begun = record.step.is_some_and(|step| {
            !matches!(
                step,
                StepName::Gate | StepName::Release | StepName::RRelease
            )
        });
        is_begun
            || !self.runs(self.direction.from(), record.ordinal)
            || self.runs(self.direction.to(), record.ordinal)
    }

    /// Whether the ordinal may be finished although somebody interferes. The record alone does not allow it: once
    /// somebody has changed a window, the handover would have to change it back.
    fn may_finish(&self, hold: &Interference, record: &OrdinalRecord) -> bool {
        let grow = match self.direction {
            Direction::Forward => StepName::Grow,
            Direction::Back => StepName::RGrow,
        };
        let is_released = !self.runs(self.direction.from(), record.ordinal);
        let is_grown = self.runs(self.direction.to(), record.ordinal);
        record.step.is_some_and(|step| {
            interference::may_finish(hold, self.direction, step)
                && (is_grown || (is_released && step <= grow))
        })
    }

    /// Forward, an ordinal of the window that the record lacks: without it, the run would seem complete.
    fn unrecorded(&self) -> Option<Interference> {
        if self.direction == Direction::Back {
            return None;
        }
        let is_missing = |ordinal: &i32| self.record.ordinal(*ordinal).is_none();
        let missing = match self.record.window {
            None => "the ordinals of the source".to_owned(),
            Some(_) => format!("ordinal {}", self.window().ordinals().find(is_missing)?),
        };
        let message = format!(
            "the status lacks {missing}; restore it with `pontoon migrate journal --restore` and raise spec.retry"
        );
        Some(Interference {
            reason: HoldReason::LockLost,
            ordinal: None,
            message,
        })
    }

    /// The claims of an ordinal; a hold if they are not all of the recorded ones.
    fn claims_of(&self, record: &OrdinalRecord) -> Result<&[HandoverClaim], Interference> {
        let claims = self.claims.get(&record.ordinal);
        let claims = claims.filter(|claims| {
            record.claims.iter().all(|recorded| {
                let mut claims = claims.iter();
                claims.any(|claim| claim.name == recorded.name && claim.disk == recorded.volume_id)
            })
        });
        claims.map(Vec::as_slice).ok_or_else(|| Interference {
            reason: HoldReason::VolumeMissing,
            ordinal: Some(record.ordinal),
            message: format!(
                "the capture lacks claims of ordinal {}, so its disks are unknown; restore the Secret of the \
                 capture and raise spec.retry",
                record.ordinal
            ),
        })
    }

    fn window(&self) -> Window {
        let window = self.record.window.as_ref();
        window.map_or(
            Window {
                start: 0,
                replicas: 0,
            },
            |window| Window {
                start: window.start,
                replicas: window.replicas,
            },
        )
    }

    /// Forward, the lowest ordinal of the window that is in the source, then dormant claims; back, dormant claims,
    /// then the highest ordinal that is in the destination.
    fn next_ordinal(&self) -> Option<&OrdinalRecord> {
        let location = match self.direction {
            Direction::Forward => Location::Source,
            Direction::Back => Location::Destination,
        };
        let ordinals = self.record.ordinals.iter();
        let there = ordinals.filter(|record| record.location == location);
        let order = |record: &&OrdinalRecord| (self.is_dormant(record.ordinal), record.ordinal);
        match self.direction {
            Direction::Forward => there.min_by_key(order),
            Direction::Back => there.max_by_key(order),
        }
    }

    fn is_dormant(&self, ordinal: i32) -> bool {
        !self.window().contains(ordinal)
    }

    fn is_limit_reached(&self) -> bool {
        let moved = self.record.ordinals.iter().filter(|record| {
            record.location == Location::Destination && !self.is_dormant(record.ordinal)
        });
        let moved = moved.count();
        let limit = self
            .spec
            .ordinal_limit
            .filter(|_| self.direction == Direction::Forward);
        limit.is_some_and(|limit| moved >= usize::try_from(limit).unwrap_or_default())
    }

    /// Ordinals whose pods may be unready: the check `Health` is accepted for them.
    fn accepted_unready(&self) -> Vec<i32> {
        let ordinals = self.window().ordinals();
        let accepts = |ordinal: &i32| {
            self.spec
                .acknowledges(CheckId::Health.as_str(), Some(*ordinal))
        };
        ordinals.filter(accepts).collect()
    }

    fn hand_over(&self, record: &OrdinalRecord) -> Next {
        let claims = match self.claims_of(record) {
            Ok(claims) => claims,
            Err(hold) => return Next::Hold(hold),
        };
        let context = self.context(record);
        let handover = self.handover(record, claims, &context);
        let proof = self.proof.advanced(&handover);
        let is_begun = if handover.is_orphaned && self.direction == Direction::Forward {
            handover.is_dormant || self.is_in_motion(record)
        } else {
            handover.is_released() || handover.is_grown()
        };
        let decision = if is_begun {
            handover::next(&Handover {
                proof: &proof,
                ..handover
            })
        } else {
            self.begin(&handover)
        };
        let record = self.advanced(record, &decision);
        Next::Ordinal {
            decision,
            record: Box::new(record),
            proof: Box::new(proof),
        }
    }

    fn context(&self, record: &OrdinalRecord) -> Context {
        let is_wanted = self.spec.snapshots.when == SnapshotTime::AfterDetach;
        let claims = record.claims.iter();
        let recorded = claims.filter(|claim| claim.snapshot_id.is_some());
        let intent = self.record.intent.as_ref();
        Context {
            old_tags: old_tags(record),
            accepts_unready: self.accepted_unready(),
            snapshots: is_wanted.then(|| Snapshots {
                search: Snapshots::search(self.marker, self.run, record.ordinal),
                user_tags: self.spec.snapshots.tags.clone(),
                recorded: recorded.map(|claim| claim.name.clone()).collect(),
                intent: intent.map(|intent| intent.token.clone()),
                is_intent_unused: self.is_intent_unused,
            }),
        }
    }

    fn handover<'h>(
        &'h self,
        record: &'h OrdinalRecord,
        claims: &'h [HandoverClaim],
        context: &'h Context,
    ) -> Handover<'h> {
        Handover {
            direction: self.direction,
            ordinal: record.ordinal,
            window: self.window(),
            set: &self.spec.stateful_set_name,
            source_namespace: &self.spec.source_namespace,
            destination_namespace: &self.spec.dest_namespace,
            is_dormant: self.is_dormant(record.ordinal),
            is_orphaned: self.is_orphaned(),
            has_left: self.has_left(record),
            pod_uid: self.released_pod(record),
            node: record.node.as_ref().map(|node| &*node.name),
            boot_id: record
                .node
                .as_ref()
                .and_then(|node| node.boot_id.as_deref()),
            released_at: record.times.released.as_ref().map(|time| time.0),
            accepts_unclean: self
                .spec
                .acknowledges(HoldReason::UncleanDetach.as_str(), Some(record.ordinal)),
            cluster_names: self.spec.fence_names(),
            old_tags: &context.old_tags,
            snapshots: context.snapshots.as_ref(),
            claims,
            accepts_unready: &context.accepts_unready,
            observation: self.observation,
            proof: self.proof,
            now: self.now,
            elapsed: self.elapsed,
        }
    }

    /// Another ordinal of the source is down because somebody has scaled it: a release would scale it back.
    fn narrowed_source(&self, ordinal: i32) -> Option<Decision> {
        let live = self.observation.source.set.as_ref()?.window();
        let needed = self.window().source_with(ordinal)?;
        (self.direction == Direction::Forward && live != needed).then(|| {
            Decision::Wait(Wait {
                step: StepName::Gate,
                ordinal: Some(ordinal),
                reason: StallReason::SourceUnready,
                detail: format!(
                    "StatefulSet {} in the source has {live}, need {needed}; scale it back",
                    self.spec.stateful_set_name
                ),
                after: None,
            })
        })
    }

    /// The gate, then the release.
    fn begin(&self, handover: &Handover<'_>) -> Decision {
        let orphans = self.orphans();
        let is_whole = self.direction == Direction::Back && self.is_orphaned();
        let gate = gate::judge(&Gate {
            direction: self.direction,
            ordinal: handover.ordinal,
            set: &self.spec.stateful_set_name,
            claims: handover.claims,
            accepts_unready: handover.accepts_unready,
            orphans: orphans.as_deref(),
            // Without ordinals in the source, all that has moved is down together.
            exhausted_budget: self.exhausted_budget.filter(|_| !is_whole),
            observation: self.observation,
            now: self.now,
        });
        if gate != Decision::Done {
            return gate;
        }
        self.narrowed_source(handover.ordinal)
            .unwrap_or_else(|| handover::next(handover))
    }
}

fn old_tags(record: &OrdinalRecord) -> BTreeMap<String, Tags> {
    let claims = record.claims.iter();
    let tags = claims.filter_map(|claim| Some((claim.name.clone(), claim.old_tags.clone()?)));
    tags.collect()
}
