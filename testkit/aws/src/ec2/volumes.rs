//! CreateVolume, DeleteVolume, DescribeVolumes, DescribeVolumesModifications.

use super::Ec2;
use super::access::{Asker, Resource, rehearsed};
use super::error::{bad, incorrect_state, invalid, missing, no_snapshot, no_volume, no_volumes};
use super::filter::{all_match, checked};
use super::inventory::{Once, Tags, after};
use super::request::{Params, Selection, snapshot_id, volume_id};
use super::volume::{Volume, VolumeStage, is_in};
use crate::protocol::ApiError;
use crate::shelf::View;

/// The types of volumes: smallest and largest size in GiB.
const TYPES: &[(&str, u64, u64)] = &[
    ("gp2", 1, 16_384),
    ("gp3", 1, 65_536),
    ("io1", 4, 16_384),
    ("io2", 4, 65_536),
    ("st1", 125, 16_384),
    ("sc1", 125, 16_384),
    ("standard", 1, 1024),
];

/// Whether volumes of a type can have several attachments.
pub(super) fn can_share(kind: &str) -> bool {
    matches!(kind, "io1" | "io2")
}

/// A volume to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewVolume {
    pub(super) zone: String,
    pub(super) kind: String,
    pub(super) size: Option<u64>,
    pub(super) iops: Option<u64>,
    pub(super) snapshot: Option<String>,
    pub(super) encrypted: bool,
    pub(super) kms_key: Option<String>,
    pub(super) multi_attach: bool,
    pub(super) tags: Tags,
    pub(super) token: Option<String>,
}

impl NewVolume {
    pub(super) fn read(params: Params<'_>) -> Result<Self, ApiError> {
        let owned = |name: &str| params.text(name).map(str::to_owned);
        let snapshot = params.text("SnapshotId");
        let snapshot = snapshot.map(|id| snapshot_id(id, "snapshotId").map(str::to_owned));
        Ok(Self {
            zone: params.needed("AvailabilityZone")?.to_owned(),
            kind: owned("VolumeType").unwrap_or_else(|| "gp2".to_owned()),
            size: params.number("Size")?,
            iops: params.number("Iops")?,
            snapshot: snapshot.transpose()?,
            encrypted: params.flag("Encrypted")?,
            kms_key: owned("KmsKeyId"),
            multi_attach: params.flag("MultiAttachEnabled")?,
            tags: params.created_with("volume")?,
            token: owned("ClientToken"),
        })
    }

    /// Refuses what AWS would not create, as far as the request alone shows it.
    fn check(&self, region: &str) -> Result<(), ApiError> {
        let kind = &self.kind;
        let Some((_, smallest, largest)) = TYPES.iter().find(|(name, ..)| name == kind) else {
            let message = format!("Unsupported volume type '{kind}' for volume creation.");
            return Err(bad("UnknownVolumeType", &message));
        };
        if !is_in(&self.zone, region) {
            return Err(invalid(&format!(
                "Invalid availability zone: [{}]",
                self.zone
            )));
        }
        match self.size {
            None if self.snapshot.is_none() => return Err(missing("size/snapshot")),
            Some(size) if size < *smallest => {
                return Err(invalid(&format!(
                    "Volume of {size}GiB is too small for volume type {kind}; minimum is {smallest}GiB."
                )));
            }
            Some(size) if size > *largest => {
                return Err(invalid(&format!(
                    "Volume of {size}GiB is too large for volume type {kind}; maximum is {largest}GiB."
                )));
            }
            Some(_) | None => {}
        }
        if can_share(kind) && self.iops.is_none() {
            let message = format!("The parameter iops must be specified for {kind} volumes.");
            return Err(bad("MissingParameter", &message));
        }
        if self.multi_attach && !can_share(kind) {
            let message =
                format!("Multi-Attach is not supported for {kind} volumes; use io1 or io2.");
            return Err(bad("InvalidParameterCombination", &message));
        }
        if self.kms_key.is_some() && !self.encrypted {
            let message = "The parameter KmsKeyId requires the parameter Encrypted to be set.";
            return Err(bad("InvalidParameterDependency", message));
        }
        Ok(())
    }
}

impl Ec2 {
    /// CreateVolume.
    pub(super) fn create_volume(
        &mut self,
        asker: &Asker<'_>,
        new: NewVolume,
    ) -> Result<Volume, ApiError> {
        new.check(asker.region)?;
        rehearsed(asker)?;
        if let Some(made) = self.made_before(asker, &new)? {
            return Ok(made);
        }
        let source = new.snapshot.as_deref().map(|id| {
            let snapshot = self.inventory.snapshots.get(id, View::Live);
            let own = snapshot.filter(|snapshot| snapshot.account == asker.account);
            own.cloned().ok_or_else(|| no_snapshot(id))
        });
        let source = source.transpose()?;
        let smallest = source.as_ref().map_or(0, |snapshot| snapshot.size);
        let size = new.size.unwrap_or(smallest);
        if size < smallest {
            let id = new.snapshot.unwrap_or_default();
            return Err(invalid(&format!(
                "Volume of {size}GiB is smaller than snapshot '{id}', expect size >= {smallest}GiB."
            )));
        }
        let request = format!("{new:?}");
        let own_key = new
            .encrypted
            .then(|| new.kms_key.unwrap_or_else(|| default_key(asker)));
        let timing = self.inventory.timing;
        let volume = Volume {
            id: self.inventory.id("vol"),
            account: asker.account.to_owned(),
            zone: new.zone,
            size,
            kind: new.kind,
            iops: new.iops,
            kms_key_id: own_key.or_else(|| source.and_then(|snapshot| snapshot.kms_key)),
            snapshot_id: new.snapshot,
            multi_attach: new.multi_attach,
            tags: new.tags,
            created: asker.now,
            attachments: Vec::new(),
            modification: None,
            stage: VolumeStage::Creating(Some(after(asker.now, timing.create))),
            is_seeded: false,
            may_share: false,
        };
        if let Some(token) = new.token {
            let key = (asker.account.to_owned(), token);
            let volume = volume.id.clone();
            self.inventory.once.insert(key, Once { request, volume });
        }
        self.inventory.put(volume.clone(), asker.now);
        self.inventory
            .timeline
            .add(asker.now, "created", &volume.id, None);
        Ok(volume)
    }

    /// The volume that an earlier request with the same client token made.
    fn made_before(&self, asker: &Asker<'_>, new: &NewVolume) -> Result<Option<Volume>, ApiError> {
        let Some(token) = &new.token else {
            return Ok(None);
        };
        let key = (asker.account.to_owned(), token.clone());
        let Some(once) = self.inventory.once.get(&key) else {
            return Ok(None);
        };
        if once.request != format!("{new:?}") {
            let message = "The client token was used with other parameters in an earlier request.";
            return Err(bad("IdempotentParameterMismatch", message));
        }
        let volume = self.inventory.volume(&once.volume);
        volume
            .cloned()
            .map(Some)
            .ok_or_else(|| no_volume(&once.volume))
    }

    /// DeleteVolume.
    pub(super) fn delete_volume(&mut self, asker: &Asker<'_>, id: &str) -> Result<(), ApiError> {
        let mut volume = self.own_volume(asker, volume_id(id, "volumeId")?)?.clone();
        self.allow_on(asker, on(&volume))?;
        match (volume.stage, volume.attachments.first()) {
            (_, Some(attachment)) => {
                let instance = &attachment.instance;
                let message = format!("Volume {id} is currently attached to {instance}");
                return Err(bad("VolumeInUse", &message));
            }
            (VolumeStage::Ready | VolumeStage::Error, None) => {}
            (VolumeStage::Creating(_) | VolumeStage::Deleting(_) | VolumeStage::Deleted, None) => {
                let message = format!("The volume '{id}' is '{}'.", volume.state());
                return Err(incorrect_state(&message));
            }
        }
        let until = after(asker.now, self.inventory.timing.delete);
        volume.stage = VolumeStage::Deleting(Some(until));
        self.inventory.put(volume, asker.now);
        let more = serde_json::json!({ "caller": asker.name() });
        let timeline = &mut self.inventory.timeline;
        timeline.add_with(asker.now, "deleting", id, more);
        Ok(())
    }

    /// DescribeVolumes.
    pub(super) fn describe_volumes(
        &self,
        asker: &Asker<'_>,
        selection: &Selection,
    ) -> Result<(Vec<&Volume>, Option<String>), ApiError> {
        let found = self.selected(asker, selection)?.into_iter();
        Ok(selection.page.of(found, |volume| &volume.id))
    }

    /// DescribeVolumesModifications: the volumes that have one.
    pub(super) fn describe_modifications(
        &self,
        asker: &Asker<'_>,
        selection: &Selection,
    ) -> Result<(Vec<&Volume>, Option<String>), ApiError> {
        let found = self.selected(asker, selection)?;
        let is_modified = |volume: &&Volume| volume.modification.is_some();
        let unmodified = found.iter().find(|volume| !is_modified(volume));
        if let Some(volume) = unmodified.filter(|_| !selection.ids.is_empty()) {
            let message = format!("Modification for volume '{}' does not exist.", volume.id);
            return Err(bad("InvalidVolumeModification.NotFound", &message));
        }
        let modified = found.into_iter().filter(is_modified);
        Ok(selection.page.of(modified, |volume| &volume.id))
    }

    /// The volumes that a Describe call is about, by id.
    fn selected(&self, asker: &Asker<'_>, selection: &Selection) -> Result<Vec<&Volume>, ApiError> {
        checked::<Volume>(&selection.filters)?;
        self.refuse_missing(asker, &selection.ids)?;
        rehearsed(asker)?;
        let is_meant = |volume: &&Volume| {
            let is_named = selection.ids.is_empty() || selection.ids.contains(&volume.id);
            is_own(asker, volume) && is_named && all_match(&selection.filters, *volume)
        };
        let all = self.inventory.volumes_seen(asker.view);
        Ok(all.filter(is_meant).collect())
    }

    /// Refuses a list of ids of which some have no volume.
    fn refuse_missing(&self, asker: &Asker<'_>, ids: &[String]) -> Result<(), ApiError> {
        for id in ids {
            volume_id(id, "volumes")?;
        }
        let is_missing = |id: &&str| {
            let seen = self.inventory.volume_seen(id, asker.view);
            !seen.is_some_and(|volume| is_own(asker, volume))
        };
        let missing: Vec<_> = ids.iter().map(String::as_str).filter(is_missing).collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(no_volumes(&missing))
        }
    }

    /// The current volume of this id, if it is the caller's.
    pub(super) fn own_volume(&self, asker: &Asker<'_>, id: &str) -> Result<&Volume, ApiError> {
        let volume = self.inventory.volume(id);
        let own = volume.filter(|volume| is_own(asker, volume));
        own.ok_or_else(|| no_volume(id))
    }
}

fn is_own(asker: &Asker<'_>, volume: &Volume) -> bool {
    volume.account == asker.account && volume.is_in(asker.region)
}

/// A volume as the resource of an action.
pub(super) fn on(volume: &Volume) -> Resource<'_> {
    Resource {
        kind: "volume",
        id: &volume.id,
        tags: &volume.tags,
    }
}

fn default_key(asker: &Asker<'_>) -> String {
    let (region, account) = (asker.region, asker.account);
    format!("arn:aws:kms:{region}:{account}:key/00000000-0000-4000-8000-000000000000")
}
