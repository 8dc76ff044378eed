//! CreateTags and DeleteTags, on volumes and snapshots.

use super::Ec2;
use super::access::{Asker, rehearsed};
use super::error::{bad, missing};
use super::inventory::Tags;
use super::request::{TagToDelete, checked_count, snapshot_id, volume_id};
use super::snapshots::on_snapshot;
use super::volumes::on;
use crate::protocol::ApiError;

impl Ec2 {
    /// CreateTags: all resources get all tags, or none does.
    pub(super) fn create_tags(
        &mut self,
        asker: &Asker<'_>,
        resources: &[&str],
        tags: &Tags,
    ) -> Result<(), ApiError> {
        if tags.is_empty() {
            return Err(missing("Tag"));
        }
        self.change_tags(asker, resources, |own| own.extend(tags.clone()))
    }

    /// DeleteTags: without a list all tags; a tag with a value only if that is its value.
    pub(super) fn delete_tags(
        &mut self,
        asker: &Asker<'_>,
        resources: &[&str],
        tags: &[TagToDelete],
    ) -> Result<(), ApiError> {
        let is_meant = |key: &str, is: &str| {
            let same = |(named, value): &TagToDelete| {
                named == key && value.as_deref().is_none_or(|value| value == is)
            };
            tags.is_empty() || tags.iter().any(same)
        };
        self.change_tags(asker, resources, |own| {
            own.retain(|key, is| !is_meant(key, is));
        })
    }

    fn change_tags(
        &mut self,
        asker: &Asker<'_>,
        resources: &[&str],
        change: impl Fn(&mut Tags),
    ) -> Result<(), ApiError> {
        if resources.is_empty() {
            return Err(missing("ResourceId"));
        }
        let real = Asker {
            dry_run: false,
            ..*asker
        };
        let (mut volumes, mut snapshots) = (Vec::new(), Vec::new());
        for id in resources {
            if id.starts_with("vol-") {
                let volume = self.own_volume(asker, volume_id(id, "volumeId")?)?;
                self.allow_on(&real, on(volume))?;
                let mut volume = volume.clone();
                change(&mut volume.tags);
                checked_count(&volume.tags)?;
                volumes.push(volume);
            } else if id.starts_with("snap-") {
                let snapshot = self.own_snapshot(asker, snapshot_id(id, "snapshotId")?)?;
                self.allow_on(&real, on_snapshot(snapshot))?;
                let mut snapshot = snapshot.clone();
                change(&mut snapshot.tags);
                checked_count(&snapshot.tags)?;
                snapshots.push(snapshot);
            } else {
                return Err(bad("InvalidID", &format!("The ID '{id}' is not valid")));
            }
        }
        rehearsed(asker)?;
        for volume in volumes {
            self.inventory.put(volume, asker.now);
        }
        for snapshot in snapshots {
            let id = snapshot.id.clone();
            let stored = Some(snapshot);
            self.inventory.snapshots.put(&id, stored, asker.now);
        }
        Ok(())
    }
}
