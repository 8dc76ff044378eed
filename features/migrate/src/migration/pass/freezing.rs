//! The part of a pass before any pod goes down.

use std::collections::BTreeSet;

use api::migrate::{
    CaptureRecord, FailReason, HoldReason, Phase, StatefulSetMigrationStatus, StepName, Strategy,
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::Value;

use super::captured::Captured;
use super::{Next, Pass, Plan};
use crate::migration::decision::{Decision, Interference};
use crate::migration::documents::version;
use crate::migration::extract;
use crate::migration::freeze::{self, Freeze, LockState, New, NewPair};
use crate::migration::observation::Side;
use crate::migration::rendered::{Rendered, templates};
use crate::record::capture::{CaptureCopies, PackedCapture};
use crate::record::hashes::template_sha256;
use crate::record::lock::{LockAction, LockGoal, next_action};
use crate::translate::Document;
use crate::translate::names::ClaimNames;

impl Pass<'_> {
    pub(super) fn freeze(mut self, input: &Captured) -> Plan {
        let locks: Option<Vec<LockState>> = Side::BOTH
            .into_iter()
            .map(|side| self.lock_state(side))
            .collect();
        let Some(locks) = locks else {
            return self.holds(
                HoldReason::LockLost,
                "the journal is too large for a ConfigMap; split the StatefulSet".to_owned(),
            );
        };
        let set = self.source_set();
        let template = set
            .as_ref()
            .map(|set| template_sha256(set.value()))
            .unwrap_or_default();
        let captured = template_sha256(input.packed.capture().stateful_set());
        let is_captured = matches!(input.copies, CaptureCopies::Ours(_));
        if is_captured && self.record.capture.is_none() {
            self.record.capture = Some(CaptureRecord {
                secret: input.packed.name(),
                sha256: input.packed.sha256().to_owned(),
                template_sha256: captured.clone(),
                dest_template_sha256: None,
            });
        }
        let claims = self.claims_of_set(input);
        let moved = input.rendered.claims.values().flatten();
        let moved: BTreeSet<&String> = moved.map(|claim| &claim.source_volume).collect();
        let volumes = self.input.source.volumes.iter();
        let volumes = volumes.filter(|volume| moved.contains(&extract::name(volume)));
        let volumes: Vec<_> = volumes.filter_map(|volume| live(Some(volume))).collect();
        let pairs = self.new_pairs(&input.rendered);
        let new_set = New {
            wanted: input.rendered.set.clone(),
            live: live(self.input.destination.set.as_ref()),
        };
        self.record_pairs(&pairs);
        let source_cluster = self.record.source_cluster_uid.as_deref();
        let is_one_capture = source_cluster == Some(self.input.management_cluster)
            && self.input.namespace == self.input.spec.source_namespace;
        let freeze = Freeze {
            run: &self.run,
            namespace: self.input.namespace,
            source_namespace: &self.input.spec.source_namespace,
            owner: (!is_one_capture).then_some(self.input.owner),
            copies: &input.copies,
            orphans: self.record.strategy == Some(Strategy::OrphanAdopt),
            orphan_started: self.record.orphan_started,
            source_uid: self.record.source_stateful_set_uid.as_deref(),
            capture: Some(&input.packed),
            locks: &locks,
            set: set.as_ref(),
            captured_template: Some(&captured),
            template: &template,
            claims: &claims,
            volumes: &volumes,
            pairs: &pairs,
            new_set: &new_set,
        };
        if let Some(hold) = self.outdated_copy(input) {
            return self.decided(Decision::Hold(hold));
        }
        let intent = self.input.record.intent.as_ref();
        let at = intent.map_or(StepName::Capture, |intent| intent.step);
        let has_only_locks = matches!(at, StepName::Capture | StepName::Lock | StepName::RUnlock);
        let refused = freeze::refused(&freeze).filter(|_| has_only_locks);
        if refused.is_some() || at == StepName::RUnlock {
            return self.gives_way(refused);
        }
        let decision = freeze::next(&freeze);
        if decision != Decision::Done {
            return self.starts(decision);
        }
        if let (Some(capture), Some(set)) = (&mut self.record.capture, &new_set.live) {
            capture.dest_template_sha256 = Some(template_sha256(set.value()));
        }
        self.goes_on(Phase::MigratingPods)
    }

    /// Nothing was changed yet but for locks and captures. Ours go, and the run begins anew: with a failure if another
    /// run has the StatefulSet, else with the checks.
    fn gives_way(mut self, refused: Option<Interference>) -> Plan {
        self.record.capture = None;
        if let Some(change) = self.unlock(LockGoal::Remove).into_iter().next() {
            return self.decided(Decision::act(StepName::RUnlock, None, change));
        }
        let former = self.record;
        self.record = StatefulSetMigrationStatus {
            run_id: former.run_id,
            conditions: former.conditions,
            preflight: former.preflight,
            observed_generation: former.observed_generation,
            observed_retry: former.observed_retry,
            ..StatefulSetMigrationStatus::default()
        };
        let foreign = refused.filter(|hold| hold.reason == HoldReason::LockLost);
        let Some(foreign) = foreign else {
            return self.goes_on(Phase::PreFlightChecks);
        };
        self.record.failure = Some(FailReason::PreflightBlocked);
        self.record.last_error = Some(foreign.message);
        self.goes_on(Phase::Failed)
    }

    /// A run that gave way has left its copy beside the migration, which the operator may not delete. It counts only
    /// while it shows the source as it is.
    fn outdated_copy(&self, input: &Captured) -> Option<Interference> {
        let is_left =
            !self.record.started && matches!(input.copies, CaptureCopies::LoneCopy { .. });
        let now = is_left.then(|| self.new_capture(None).ok())??;
        let content = |packed: &PackedCapture| {
            let capture = packed.capture();
            let objects = capture.claims().iter().chain(capture.volumes());
            let objects: BTreeSet<String> = objects.map(|one| version(one).uid).collect();
            (capture.template_sha256(), objects)
        };
        (content(&now) != content(&input.packed)).then(|| Interference {
            reason: HoldReason::DestinationConflict,
            ordinal: None,
            message: format!(
                "Secret {}/{} has an earlier capture of the source; delete it and raise spec.retry",
                self.input.namespace,
                input.packed.name()
            ),
        })
    }

    /// Records the objects of the destination once they are bound.
    fn record_pairs(&mut self, pairs: &[NewPair]) {
        let ordinals = self.record.ordinals.iter_mut();
        for claim in ordinals.flat_map(|ordinal| &mut ordinal.claims) {
            let mut pairs = pairs.iter().filter(|pair| pair.is_bound());
            let pair = pairs.find(|pair| pair.claim.wanted.name() == claim.name);
            let live = pair.and_then(|pair| pair.claim.live.as_ref());
            if let (Some(pair), Some(live)) = (pair, live) {
                claim.dest_pv = Some(pair.volume.wanted.name().to_owned());
                claim.dest_pvc_uid = live.uid().map(str::to_owned);
            }
        }
    }

    /// The first change outside starts the run.
    fn starts(mut self, decision: Decision) -> Plan {
        self.record.started |= matches!(decision, Decision::Act(_));
        if matches!(&decision, Decision::Act(step) if step.name == StepName::Orphan) {
            self.record.orphan_started = true;
            let intent = self.input.record.intent.as_ref();
            let is_saved = intent.is_some_and(|intent| intent.step == StepName::Orphan);
            if let Some(step) = self.due_mirror().filter(|_| is_saved) {
                return self.ends(Next::Mirror(step));
            }
        }
        self.decided(decision)
    }

    fn lock_state(&self, side: Side) -> Option<LockState> {
        let (documents, namespace) = match side {
            Side::Source => (self.input.source, &self.input.spec.source_namespace),
            Side::Destination => (self.input.destination, &self.input.spec.dest_namespace),
        };
        let wanted = self.lock(LockGoal::Acquire)?;
        let found = documents.stored_lock();
        let action = match next_action(LockGoal::Acquire, found.as_ref(), &wanted) {
            // Its journal is brought up to date before the next step that needs it.
            LockAction::Rewrite if found.as_ref().is_some_and(|lock| lock.state == "Active") => {
                LockAction::Nothing
            }
            action => action,
        };
        Some(LockState {
            side,
            wanted,
            found: documents.lock.as_ref().map(version),
            action,
            namespace: namespace.clone(),
            set: self.input.spec.stateful_set_name.clone(),
        })
    }

    /// Every claim of the set in the source, also dormant ones that stay.
    fn claims_of_set(&self, input: &Captured) -> Vec<Document<PersistentVolumeClaim>> {
        let set = Document::read(input.packed.capture().stateful_set().clone());
        let templates = set.map(|set| templates(&set)).unwrap_or_default();
        let names = ClaimNames {
            stateful_set: &self.input.spec.stateful_set_name,
            templates: &templates,
        };
        let claims = self.input.source.claims.iter();
        let claims = claims.filter(|claim| names.parse(&extract::name(claim)).is_some());
        claims.filter_map(|claim| live(Some(claim))).collect()
    }

    fn new_pairs(&self, rendered: &Rendered) -> Vec<NewPair> {
        let destination = self.input.destination;
        let of_name = |documents: &[Value], name: &str| {
            documents
                .iter()
                .find(|one| extract::name(one) == name)
                .cloned()
        };
        let pairs = rendered.pairs.values().map(|pair| NewPair {
            volume: New {
                live: live(of_name(&destination.volumes, pair.volume.name()).as_ref()),
                wanted: pair.volume.clone(),
            },
            claim: New {
                live: live(of_name(&destination.claims, pair.claim.name()).as_ref()),
                wanted: pair.claim.clone(),
            },
        });
        pairs.collect()
    }
}

pub(super) fn live<K: k8s_openapi::Resource>(value: Option<&Value>) -> Option<Document<K>> {
    Document::read(value?.clone()).ok()
}

#[cfg(test)]
mod tests;
