//! The capture of a run, and what it translates to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::migrate::HoldReason;
use k8s_openapi::api::core::v1::Secret;
use kernel::Ownership;
use serde_json::Value;

use super::freezing::live;
use super::{Pass, Plan};
use crate::migration::documents::version;
use crate::migration::extract;
use crate::migration::observation::{SetState, Version};
use crate::migration::rendered::{Rendered, Translation, rendered};
use crate::record::capture::{
    Capture, CaptureCopies, CapturedObjects, PackedCapture, any_intact, compare,
};
use crate::translate::Document;
use crate::translate::edits::{edits, edits_of_sent};

/// The capture of a run, and what it translates to.
#[derive(Debug, PartialEq)]
pub(super) struct Captured {
    pub(super) copies: CaptureCopies,
    pub(super) packed: PackedCapture,
    pub(super) rendered: Rendered,
}

/// Everything that [`Captured`] depends on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CaptureKey {
    pub(super) beside: Option<Version>,
    pub(super) in_source: Option<Version>,
    pub(super) recorded: Option<String>,
    pub(super) ordinals: BTreeSet<i32>,
    pub(super) zones: BTreeMap<String, String>,
    pub(super) foreign_volumes: BTreeSet<String>,
    pub(super) own_volumes: BTreeMap<String, String>,
}

impl Pass<'_> {
    /// Continues with what the capture translates to. A run that has captured nothing yet captures now.
    pub(super) fn with_capture(mut self, next: impl FnOnce(Self, &Captured) -> Plan) -> Plan {
        let key = self.capture_key();
        let remembered = self.memory.captured.take().filter(|(of, _)| *of == key);
        let captured = match remembered {
            Some((_, captured)) => captured,
            None => match self.captured(&key) {
                Ok(captured) => Arc::new(captured),
                Err((reason, message)) => return self.holds(reason, message),
            },
        };
        if matches!(captured.copies, CaptureCopies::Ours(_)) {
            self.memory.captured = Some((key, captured.clone()));
        }
        next(self, &captured)
    }

    /// Finds out what was edited in the templates whose hashes are not the recorded ones.
    pub(super) fn find_edits(&mut self, captured: &Captured) {
        let Some(recorded) = &self.record.capture else {
            return;
        };
        let is_edited = |set: &SetState, hash: &str| set.template_hash != hash;
        let source = self.observation.source.set.as_mut();
        if let Some(set) = source.filter(|set| is_edited(set, &recorded.template_sha256)) {
            let before = Document::read(captured.packed.capture().stateful_set().clone());
            let after = live(self.input.source.set.as_ref());
            if let (Ok(before), Some(after)) = (before, after) {
                set.edits = edits(&before, &after);
            }
        }
        let sent = recorded.dest_template_sha256.as_deref();
        let destination = self.observation.destination.set.as_mut();
        if let Some(set) = destination.filter(|set| sent.is_some_and(|sent| is_edited(set, sent))) {
            let after = live(self.input.destination.set.as_ref());
            if let Some(after) = after {
                set.edits = edits_of_sent(&captured.rendered.set, &after);
            }
        }
    }

    fn capture_key(&self) -> CaptureKey {
        CaptureKey {
            beside: self.input.capture.map(version),
            in_source: self.input.source.capture.as_ref().map(version),
            recorded: self
                .record
                .capture
                .as_ref()
                .map(|capture| capture.sha256.clone()),
            ordinals: self.record.ordinals.iter().map(|one| one.ordinal).collect(),
            zones: self.zones(),
            foreign_volumes: self.foreign_volumes(),
            own_volumes: self.own_volumes(),
        }
    }

    fn captured(&self, key: &CaptureKey) -> Result<Captured, (HoldReason, String)> {
        let beside = self.input.capture.and_then(secret);
        let in_source = self.input.source.capture.as_ref().and_then(secret);
        let recorded = key.recorded.as_deref();
        let copies = compare(beside.as_ref(), in_source.as_ref(), &self.run, recorded);
        let packed = match &copies {
            CaptureCopies::Ours(packed)
            | CaptureCopies::LoneCopy {
                capture: packed, ..
            } => packed.clone(),
            // Once both copies were there, either of them suffices.
            CaptureCopies::OtherContent { error, .. } => {
                let copies = [&beside, &in_source].into_iter().flatten();
                let intact = recorded.and_then(|_| any_intact(copies, &self.run, recorded));
                intact.ok_or_else(|| {
                    let message = format!("{error}; remove that Secret and raise spec.retry");
                    (HoldReason::DestinationConflict, message)
                })?
            }
            CaptureCopies::Missing => self.new_capture(recorded)?,
        };
        let translation = Translation {
            spec: self.input.spec,
            run: &self.run,
            ordinals: &key.ordinals,
            zones: &key.zones,
            foreign_volumes: &key.foreign_volumes,
            own_volumes: &key.own_volumes,
        };
        let rendered = rendered(packed.capture(), &translation).map_err(|refusal| {
            let message = format!(
                "the capture cannot be translated: {refusal}; set spec.abort, repair the source and start again"
            );
            (HoldReason::SourceEdited, message)
        })?;
        Ok(Captured {
            copies,
            packed,
            rendered,
        })
    }

    /// Captures the source as it is now, unless a capture was recorded already.
    pub(super) fn new_capture(
        &self,
        recorded: Option<&str>,
    ) -> Result<PackedCapture, (HoldReason, String)> {
        if recorded.is_some() {
            let message = "both Secrets of the capture are gone; restore one from a backup and raise spec.retry";
            return Err((HoldReason::DestinationConflict, message.to_owned()));
        }
        let source = self.input.source;
        let stateful_set = source.set.clone().ok_or_else(|| {
            let message =
                "the StatefulSet of the source is gone; create it again and raise spec.retry";
            (HoldReason::SourceVanished, message.to_owned())
        })?;
        let owner = version(&stateful_set).uid;
        let revisions = source.controller_revisions.iter();
        let revisions = revisions.filter(|revision| extract::is_controlled_by(revision, &owner));
        let objects = CapturedObjects {
            controller_revisions: revisions.cloned().collect(),
            stateful_set,
            claims: source.claims.clone(),
            volumes: source.volumes.clone(),
        };
        let packed = Capture::new(&self.run, objects).pack();
        packed.map_err(|large| (HoldReason::SourceEdited, large.to_string()))
    }

    /// The zones of the record: EC2 is not asked again.
    fn zones(&self) -> BTreeMap<String, String> {
        let claims = self
            .record
            .ordinals
            .iter()
            .flat_map(|ordinal| &ordinal.claims);
        let zones = claims.filter_map(|claim| Some((claim.volume_id.clone(), claim.zone.clone()?)));
        zones.collect()
    }

    fn own_volumes(&self) -> BTreeMap<String, String> {
        let ordinals = self.record.ordinals.iter();
        let claims = ordinals.flat_map(|ordinal| &ordinal.claims);
        let made = claims.filter_map(|claim| Some((claim.name.clone(), claim.dest_pv.clone()?)));
        made.collect()
    }

    fn foreign_volumes(&self) -> BTreeSet<String> {
        let volumes = self.observation.destination.volumes.iter();
        let foreign = volumes.filter(|(_, volume)| volume.ownership != Ownership::Ours);
        foreign.map(|(name, _)| name.clone()).collect()
    }
}

fn secret(value: &Value) -> Option<Secret> {
    serde_json::from_value(value.clone()).ok()
}
