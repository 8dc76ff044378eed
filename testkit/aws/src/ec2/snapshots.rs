//! CreateSnapshot and DescribeSnapshots.

use serde_json::json;

use super::Ec2;
use super::access::{Asker, Resource, rehearsed};
use super::error::{incorrect_state, no_snapshot};
use super::filter::{all_match, checked};
use super::inventory::{Snapshot, Tags, after};
use super::request::{Selection, snapshot_id, volume_id};
use super::volume::{VolumeStage, is_in};
use super::volumes::on;
use crate::protocol::ApiError;
use crate::shelf::View;

impl Ec2 {
    /// CreateSnapshot.
    pub(super) fn create_snapshot(
        &mut self,
        asker: &Asker<'_>,
        volume: &str,
        description: &str,
        tags: Tags,
    ) -> Result<Snapshot, ApiError> {
        let volume = self.own_volume(asker, volume_id(volume, "volumeId")?)?;
        self.allow_on(asker, on(volume))?;
        if volume.stage != VolumeStage::Ready {
            let message = format!("The volume '{}' is '{}'.", volume.id, volume.state());
            return Err(incorrect_state(&message));
        }
        let volume = volume.clone();
        let snapshot = Snapshot {
            id: self.inventory.id("snap"),
            account: volume.account,
            volume: volume.id,
            zone: volume.zone,
            size: volume.size,
            description: description.to_owned(),
            kms_key: volume.kms_key_id,
            tags,
            started: asker.now,
            completes: after(asker.now, self.inventory.timing.snapshot),
        };
        let stored = Some(snapshot.clone());
        self.inventory
            .snapshots
            .put(&snapshot.id, stored, asker.now);
        let more = json!({ "snapshot": snapshot.id, "caller": asker.name() });
        let timeline = &mut self.inventory.timeline;
        timeline.add_with(asker.now, "snapshot", &snapshot.volume, more);
        Ok(snapshot)
    }

    /// DescribeSnapshots. Only the account's own snapshots exist.
    pub(super) fn describe_snapshots(
        &self,
        asker: &Asker<'_>,
        owners: &[&str],
        selection: &Selection,
    ) -> Result<(Vec<&Snapshot>, Option<String>), ApiError> {
        checked::<Snapshot>(&selection.filters)?;
        for id in &selection.ids {
            snapshot_id(id, "snapshotId")?;
        }
        let is_own = |snapshot: &&Snapshot| {
            snapshot.account == asker.account && is_in(&snapshot.zone, asker.region)
        };
        let own = || self.inventory.snapshots_seen(asker.view).filter(is_own);
        let mut ids = selection.ids.iter();
        if let Some(id) = ids.find(|id| !own().any(|one| one.id == **id)) {
            return Err(no_snapshot(id));
        }
        rehearsed(asker)?;
        let is_owner = owners.is_empty()
            || owners
                .iter()
                .any(|owner| *owner == "self" || *owner == asker.account);
        let found = own().filter(|one| {
            let is_named = selection.ids.is_empty() || selection.ids.contains(&one.id);
            is_owner && is_named && all_match(&selection.filters, *one)
        });
        Ok(selection.page.of(found, |snapshot| &snapshot.id))
    }

    /// The current snapshot of this id, if it is the caller's.
    pub(super) fn own_snapshot(&self, asker: &Asker<'_>, id: &str) -> Result<&Snapshot, ApiError> {
        let snapshot = self.inventory.snapshots.get(id, View::Live);
        let own = snapshot.filter(|snapshot| snapshot.account == asker.account);
        own.ok_or_else(|| no_snapshot(id))
    }
}

/// A snapshot as the resource of an action.
pub(super) fn on_snapshot(snapshot: &Snapshot) -> Resource<'_> {
    Resource {
        kind: "snapshot",
        id: &snapshot.id,
        tags: &snapshot.tags,
    }
}
