//! Whether a tombstone may be removed. Pure.
//!
//! As long as a StatefulSet could want its ordinal, a tombstone that goes lets its controller claim a new,
//! empty disk.

use std::collections::BTreeSet;

use api::migrate::names::{FENCED_PREFIX, RUN, SOURCE_PVC_LABEL, TOMBSTONE_LABEL, VOLUME_ID};
use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::Value;

use super::leftovers::{
    AuditReads, AuditedCluster, Leftover, LeftoverKind, ReleaseVerdict, annotation, disk, label,
    named_by, namespace, patched, target, title,
};
use crate::migration::decision::{Change, ObjectKind};
use crate::migration::detach::{attached_in, remaining_use};
use crate::migration::extract;
use crate::migration::observation::{ClusterState, DiskState, Side, VolumePhase};
use crate::migration::rendered::templates;
use crate::record::journal::Journal;
use crate::translate::Document;
use crate::translate::names::ClaimNames;
use crate::translate::restored::claim_ref_reset;
use crate::translate::window::Window;

/// A tombstone with what is known of it.
struct Tombstone<'r> {
    reads: &'r AuditReads,
    side: Side,
    claim: &'r Value,
    name: String,
    namespace: &'r str,
    run: &'r str,
    ordinal: Option<i32>,
}

/// The leftover of a tombstone.
pub(super) fn leftover(reads: &AuditReads, side: Side, claim: &Value, by_hand: bool) -> Leftover {
    let tombstone = Tombstone::of(reads, side, claim);
    let verdict = verdict(&tombstone, by_hand);
    Leftover {
        side,
        kind: LeftoverKind::Fence,
        object: title("PersistentVolumeClaim", claim),
        run: annotation(claim, RUN).map(str::to_owned),
        verdict,
    }
}

/// | run      | StatefulSet              | disk                                    | by hand | so                      |
/// |----------|--------------------------|-----------------------------------------|---------|-------------------------|
/// | not over, or unknown | any          | any                                     | any     | stays                   |
/// | over     | gone                     | in use in the other cluster             | any     | goes                    |
/// | over     | gone                     | dormant: bound there, and free          | any     | goes                    |
/// | over     | gone, or without ordinal | every disk of the ordinal free          | yes     | goes, the volume unbound |
/// | over     | any other                | any                                     | any     | stays                   |
fn verdict(tombstone: &Tombstone<'_>, by_hand: bool) -> ReleaseVerdict {
    if tombstone.run.is_empty() {
        return ReleaseVerdict::Stays("it names no run".to_owned());
    }
    let fate = tombstone.reads.fate(tombstone.run);
    if !fate.is_ended() {
        return ReleaseVerdict::Stays(fate.to_string());
    }
    if tombstone.claim["metadata"]["deletionTimestamp"].is_string() {
        return ReleaseVerdict::Stays("it is being deleted".to_owned());
    }
    let proven = moved_away(tombstone);
    match (proven, by_hand) {
        (Ok(why), _) => ReleaseVerdict::Release {
            changes: vec![tombstone.removal()],
            why,
        },
        (Err(why), false) => ReleaseVerdict::Stays(why),
        (Err(_), true) => match free_by_hand(tombstone) {
            Ok(changes) => ReleaseVerdict::Release {
                changes,
                why: "every disk of its ordinal is free".to_owned(),
            },
            Err(why) => ReleaseVerdict::Stays(why),
        },
    }
}

/// The disk is used in the other cluster, and no StatefulSet here wants the claim. Else why not.
fn moved_away(tombstone: &Tombstone<'_>) -> Result<String, String> {
    if let Some((set, _)) = tombstone.stateful_set() {
        return Err(format!(
            "StatefulSet {} exists, and would get an empty disk; delete it first, or pass --by-hand after a \
             rollback by hand",
            extract::name(set)
        ));
    }
    let disk = tombstone.disk()?;
    let read = tombstone.reads.disks.get(&disk);
    let read = read.ok_or_else(|| format!("disk {disk} was not read from EC2"))?;
    let other = tombstone.side.other();
    if attached_in(&state(tombstone.reads.cluster(other), None), read) {
        return Ok(format!("disk {disk} is in use in the {other}"));
    }
    let is_free = read.disk.as_ref().is_some_and(DiskState::is_free);
    let there = named_by(tombstone.reads, other, &disk);
    let is_bound =
        there.is_some_and(|volume| extract::volume(volume, "").phase == VolumePhase::Bound);
    if tombstone.is_dormant() && is_free && is_bound {
        return Ok(format!(
            "disk {disk} is bound in the {other} and has no pod"
        ));
    }
    Err(format!("disk {disk} is not in use in the {other}"))
}

/// Every disk of the ordinal is free, so that its volumes may be bound here again. Else why not.
fn free_by_hand(tombstone: &Tombstone<'_>) -> Result<Vec<Change>, String> {
    let ordinal = tombstone.ordinal.ok_or("its ordinal is not known")?;
    if let Some((set, window)) = tombstone.stateful_set()
        && window.contains(ordinal)
    {
        return Err(format!(
            "StatefulSet {} wants ordinal {ordinal}; shrink it first, and widen it after the release",
            extract::name(set)
        ));
    }
    for (claim, disk) in tombstone.claim_set(ordinal)? {
        is_free(tombstone, &claim, &disk)?;
    }
    let volume = tombstone
        .volume()
        .ok_or("its volume is gone, so no claim can be bound to the disk")?;
    let state = extract::volume(volume, tombstone.run);
    if !state.is_retained {
        return Err(format!(
            "the policy of PersistentVolume {} is not Retain",
            extract::name(volume)
        ));
    }
    let mut changes = Vec::new();
    if state.claim.is_some_and(|claim| claim.uid.is_some()) {
        // First the volume is reserved for the name; else a claim of this name would get a new disk.
        changes.push(patched(
            tombstone.side,
            ObjectKind::Volume,
            volume,
            claim_ref_reset(),
        ));
    }
    changes.push(tombstone.removal());
    Ok(changes)
}

/// No cluster shows a use of the disk, and EC2, which was read after that, shows it as free.
fn is_free(tombstone: &Tombstone<'_>, claim: &str, disk: &str) -> Result<(), String> {
    for side in Side::BOTH {
        let cluster = tombstone.reads.cluster(side);
        let volume = named_by(tombstone.reads, side, disk);
        let reference = volume.and_then(|volume| extract::volume(volume, "").claim);
        let (namespace, claim) = match &reference {
            Some(reference) => (&*reference.namespace, &*reference.name),
            None => (tombstone.namespace, claim),
        };
        let name = volume.map(extract::name).unwrap_or_default();
        let cluster = state(cluster, Some(namespace));
        if let Some(used) = remaining_use(&cluster, claim, &name, disk, None) {
            return Err(format!("disk {disk} is not free in the {side}: {used}"));
        }
    }
    let read = tombstone.reads.disks.get(disk);
    let found = read.and_then(|read| read.disk.as_ref());
    match found {
        Some(found) if found.is_free() => Ok(()),
        Some(found) => Err(format!("disk {disk} is {} in EC2", found.state)),
        None => Err(format!("disk {disk} was not found in EC2")),
    }
}

impl<'r> Tombstone<'r> {
    fn of(reads: &'r AuditReads, side: Side, claim: &'r Value) -> Self {
        let fenced = claim["spec"]["volumeName"].as_str().unwrap_or_default();
        let ordinal = fenced
            .strip_prefix(FENCED_PREFIX)
            .and_then(|suffix| suffix.rsplit_once('-'));
        Self {
            reads,
            side,
            claim,
            name: extract::name(claim),
            namespace: namespace(claim).unwrap_or_default(),
            run: annotation(claim, RUN).unwrap_or_default(),
            ordinal: ordinal.and_then(|(_, ordinal)| ordinal.parse().ok()),
        }
    }

    fn removal(&self) -> Change {
        Change::Delete {
            side: self.side,
            target: target(ObjectKind::Claim, self.claim),
            orphans_dependents: false,
        }
    }

    /// The StatefulSet whose claim has this name, with its window.
    fn stateful_set(&self) -> Option<(&'r Value, Window)> {
        let sets = self.reads.cluster(self.side).sets.iter();
        let mut own = sets.filter(|set| namespace(set) == Some(self.namespace));
        let found = own.find(|set| {
            let Ok(document) = Document::<StatefulSet>::read((*set).clone()) else {
                return true; // what cannot be read may be it
            };
            let names = ClaimNames {
                stateful_set: document.name(),
                templates: &templates(&document),
            };
            names.parse(&self.name).is_some()
        })?;
        Some((found, extract::set(found, self.run).window()))
    }

    /// The volume here that names the claim of the tombstone.
    fn volume(&self) -> Option<&'r Value> {
        let mut volumes = self.reads.cluster(self.side).volumes.iter();
        volumes.find(|volume| {
            let claim = extract::volume(volume, "").claim;
            claim.is_some_and(|claim| claim.name == self.name && claim.namespace == self.namespace)
        })
    }

    /// The journals of its run, the one of this side first.
    fn journals(&self) -> Vec<Journal> {
        let mut locks: Vec<_> = self.reads.locks.iter().collect();
        locks.sort_by_key(|lock| lock.side != self.side);
        let own = locks
            .into_iter()
            .filter(|lock| lock.stored.holder == self.run);
        own.filter_map(|lock| Journal::parse(&lock.stored.journal).ok())
            .collect()
    }

    /// The disk that is fenced: by the volume that is left, by the journal, or by the claim that has it now.
    fn disk(&self) -> Result<String, String> {
        if let Some(disk) = self.volume().and_then(disk) {
            return Ok(disk);
        }
        let of_journal = self.journals().into_iter().find_map(|journal| {
            let ordinals = journal.record().ordinals.iter();
            let mut claims = ordinals.flat_map(|ordinal| &ordinal.claims);
            let claim = claims.find(|claim| claim.name == self.name)?;
            Some(claim.volume_id.clone())
        });
        let now = || {
            let mut claims = self.reads.cluster(self.side.other()).claims.iter();
            let claim = claims.find(|claim| label(claim, SOURCE_PVC_LABEL) == Some(&self.name))?;
            annotation(claim, VOLUME_ID).map(str::to_owned)
        };
        of_journal
            .or_else(now)
            .ok_or_else(|| "which disk it fences is not recorded any more".to_owned())
    }

    /// Whether the journal has its ordinal outside of the window.
    fn is_dormant(&self) -> bool {
        let windows = self.journals();
        let mut windows = windows.iter().filter_map(|journal| journal.record().window);
        let (Some(window), Some(ordinal)) = (windows.next(), self.ordinal) else {
            return false;
        };
        !window.contains(ordinal)
    }

    /// The claims of its ordinal with their disks: by the tombstones here, and by the journal.
    fn claim_set(&self, ordinal: i32) -> Result<BTreeSet<(String, String)>, String> {
        let fenced = &self.claim["spec"]["volumeName"];
        let claims = self.reads.cluster(self.side).claims.iter();
        let same = claims.filter(|claim| {
            namespace(claim) == Some(self.namespace) && claim["spec"]["volumeName"] == *fenced
        });
        let mut set = BTreeSet::new();
        for claim in same {
            let other = Self::of(self.reads, self.side, claim);
            set.insert((other.name.clone(), other.disk()?));
        }
        for journal in self.journals() {
            let claims = journal.record().ordinal(ordinal);
            let claims = claims.into_iter().flat_map(|record| &record.claims);
            set.extend(claims.map(|claim| (claim.name.clone(), claim.volume_id.clone())));
        }
        Ok(set)
    }
}

/// The disks that decide about fences.
pub(super) fn disks(reads: &AuditReads) -> BTreeSet<String> {
    let mut disks = BTreeSet::new();
    for side in Side::BOTH {
        let claims = reads.cluster(side).claims.iter();
        for claim in claims.filter(|claim| label(claim, TOMBSTONE_LABEL) == Some("true")) {
            let tombstone = Tombstone::of(reads, side, claim);
            disks.extend(tombstone.disk());
            let set = tombstone
                .ordinal
                .map(|ordinal| tombstone.claim_set(ordinal));
            let set = set.and_then(Result::ok).unwrap_or_default();
            disks.extend(set.into_iter().map(|(_, disk)| disk));
        }
    }
    disks
}

/// A cluster as decisions see it, with the pods of one namespace.
fn state(cluster: &AuditedCluster, of: Option<&str>) -> ClusterState {
    let pods = cluster.pods.iter();
    let pods = pods.filter(|pod| of.is_some() && namespace(pod) == of);
    let attachments = cluster.attachments.iter();
    ClusterState {
        pods: pods
            .map(|pod| (extract::name(pod), extract::pod(pod)))
            .collect(),
        volumes: extract::by_name(&cluster.volumes, |volume| extract::volume(volume, "")),
        attachments: attachments.filter_map(extract::attachment).collect(),
        nodes: extract::by_name(&cluster.nodes, extract::node),
        ..ClusterState::default()
    }
}
