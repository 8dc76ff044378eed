//! The reads and changes of a migration. Nothing is decided here.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::migrate::{StatefulSetMigration, StatefulSetMigrationSpec};
use aws::ec2::{NewSnapshot, Tags};
use engine::{Applier, CallContext, Deck, Ended, Kind, KindIo, Object};
use k8s_openapi::api::core::v1::Secret;
use kernel::{CallError, ObjectKey};
use parking_lot::Mutex;
use serde_json::Value;

use crate::clusters::{Clusters, FIELD_MANAGER, create_in};
use crate::controller::MigrationController;
use crate::ec2::ProcessEc2;
use crate::metrics::Metrics;
use crate::migration::core::{
    Announced, Answer, Facts, LiveMigration, MigrationCore, Read, World, Write, awaited, decide,
    needs_no_cluster,
};
use crate::migration::decision::{Change, ObjectKind};
use crate::migration::observation::{Side, SnapshotRead, SnapshotState};
use crate::preflight::Survey;
use crate::settings::Settings;
use crate::survey::{Request, survey};
use crate::volume_reads::{VolumeReads, poll};

/// The reads and changes of migrations.
pub(crate) struct Migrations {
    core: MigrationCore,
    deck: Deck,
    own: Applier,
    clusters: Clusters,
    ec2: Arc<ProcessEc2>,
    volumes: Arc<VolumeReads>,
    metrics: Metrics,
    /// The Secret beside each migration, as it was last read.
    captures: Mutex<HashMap<ObjectKey, Option<Value>>>,
}

impl Migrations {
    /// Connects to nothing yet. Starts the poller of EC2. `controller` is set once the controller runs.
    pub(crate) fn new(
        deck: &Deck,
        settings: &Settings,
        controller: Arc<MigrationController>,
    ) -> Self {
        let metrics = Metrics::new(&deck.metrics);
        let ec2 = ProcessEc2::new(deck, settings.region.clone(), metrics.observer());
        let ec2 = Arc::new(ec2);
        let volumes = VolumeReads::new(deck.clock.clone(), controller.clone());
        let volumes = Arc::new(volumes);
        let (polled, called) = (volumes.clone(), ec2.clone());
        deck.task("volumes", move || {
            let (volumes, ec2) = (polled.clone(), called.clone());
            async move {
                let ec2 = ec2.get().await;
                poll(&volumes, |ids| async move { ec2.volumes(&ids).await }).await;
            }
        });
        Self {
            core: MigrationCore {
                management_cluster: deck.cluster.clone(),
            },
            own: deck.applier(FIELD_MANAGER),
            clusters: Clusters::new(deck, controller),
            deck: deck.clone(),
            ec2,
            volumes,
            metrics,
            captures: Mutex::default(),
        }
    }

    async fn live_migration(&self, key: &ObjectKey) -> Result<Option<LiveMigration>, CallError> {
        let kind = Kind::of::<StatefulSetMigration>();
        let found = self.own.read(&kind, key).await;
        let found = found.map_err(|error| CallError::from(&error))?;
        Ok(found.as_ref().map(live_migration))
    }

    async fn capture(&self, key: &ObjectKey, name: &str) -> Result<Option<Value>, CallError> {
        let secret = ObjectKey::of(key.namespace.as_deref(), name);
        let found = self.own.read(&Kind::of::<Secret>(), &secret).await;
        let found = found.map_err(|error| CallError::from(&error))?;
        self.captures.lock().insert(key.clone(), found.clone());
        Ok(found)
    }

    async fn change(&self, key: &ObjectKey, change: &Change) -> Result<(), CallError> {
        let user = |side: Side| (key.clone(), side);
        match change {
            Change::Create { side, kind, body } => {
                self.clusters.create(&user(*side), *kind, body).await
            }
            Change::StoreCapture { body } => {
                create_in(&self.deck.client, ObjectKind::Secret, body).await
            }
            Change::Patch {
                side,
                target,
                patch,
            } => self.clusters.patch(&user(*side), target, patch).await,
            Change::Delete {
                side,
                target,
                orphans_dependents,
            } => {
                let user = user(*side);
                self.clusters
                    .delete(&user, target, *orphans_dependents)
                    .await
            }
            Change::CreateTags { disk, tags } => {
                let created = self.ec2.get().await.create_tags(disk, tags).await;
                created.map_err(|error| CallError::from(&error))
            }
            Change::CreateSnapshot { disk, tags, .. } => {
                let snapshot = NewSnapshot {
                    volume: disk.clone(),
                    description: format!("StatefulSetMigration {key}"),
                    tags: tags.clone(),
                };
                let created = self.ec2.get().await.create_snapshot(&snapshot).await;
                created.map(drop).map_err(|error| CallError::from(&error))
            }
            Change::DeleteTags { disk, keys } => {
                let deleted = self.ec2.get().await.delete_tags(disk, keys).await;
                deleted.map_err(|error| CallError::from(&error))
            }
        }
    }
}

impl Migrations {
    async fn snapshots(&self, tags: &Tags) -> Result<SnapshotRead, CallError> {
        let began = self.deck.clock.elapsed();
        let found = self.ec2.get().await.snapshots(tags).await;
        let found = found.map_err(|error| CallError::from(&error))?;
        let states = found.into_iter().map(|snapshot| SnapshotState {
            id: snapshot.id,
            tags: snapshot.tags,
        });
        Ok(SnapshotRead {
            found: states.collect(),
            began,
        })
    }

    /// Everything that the checks judge.
    async fn survey(
        &self,
        key: &ObjectKey,
        run: &str,
        spec: &StatefulSetMigrationSpec,
        pinned: &[Option<String>; 2],
    ) -> Box<Survey> {
        let [source, destination] = [
            (Side::Source, &spec.source_cluster),
            (Side::Destination, &spec.dest_cluster),
        ]
        .map(|(side, access)| self.clusters.surveyed((key.clone(), side), access));
        let (source, destination) = futures::join!(source, destination);
        let ec2 = self.ec2.get().await;
        survey(Request {
            spec,
            namespace: key.namespace.as_deref().unwrap_or_default(),
            run,
            pinned: pinned.clone(),
            source,
            destination,
            ec2,
            region: ec2.region(),
        })
        .await
    }
}

impl KindIo for Migrations {
    type Core = MigrationCore;

    fn core(&self) -> &MigrationCore {
        &self.core
    }

    fn gather(&self, object: &Object<MigrationCore>) -> Facts {
        let key = &object.key;
        self.clusters.set_disks(key, &object.status);
        let documents = Side::BOTH.into_iter().filter_map(|side| {
            let documents = self.clusters.cached_documents(&(key.clone(), side))?;
            Some((side, documents))
        });
        Facts {
            documents: documents.collect(),
            capture: self.captures.lock().get(key).cloned().flatten(),
            disks: self.volumes.latest(key),
        }
    }

    async fn read(&self, read: &Read, context: &CallContext<'_>) -> Result<Answer, CallError> {
        let key = context.key;
        match read {
            Read::Migration => self.live_migration(key).await.map(Answer::Migration),
            Read::Connection {
                side,
                access,
                pinned,
            } => {
                let user = (key.clone(), *side);
                let connected = self.clusters.connect(&user, access, pinned.as_deref());
                connected.await.map(Answer::Connection)
            }
            Read::Documents { side, scope } => {
                let user = (key.clone(), *side);
                let documents = self.clusters.read_documents(&user, scope).await?;
                Ok(Answer::Documents(Box::new(documents)))
            }
            Read::Capture(name) => self.capture(key, name).await.map(Answer::Capture),
            Read::Disks { ids, not_before } => {
                let read = self.volumes.read(key, ids, *not_before);
                read.await.map(Answer::Disks)
            }
            // It is decided right before: no earlier read can answer it.
            Read::Snapshots { tags, .. } => self.snapshots(tags).await.map(Answer::Snapshots),
            Read::Survey { run, spec, pinned } => {
                let survey = self.survey(key, run, spec, pinned).await;
                Ok(Answer::Survey(survey))
            }
        }
    }

    async fn apply(&self, write: &Write, context: &CallContext<'_>) -> Result<(), CallError> {
        self.change(context.key, &write.step().change).await
    }

    fn count(&self, world: &World, ended: &Ended<Announced>, _: Duration) {
        self.metrics.passed(&self.core, world, ended);
        let key = &world.object.key;
        let decided = decide(&self.core, world);
        let (disks, due) = awaited(&decided, world.elapsed);
        self.volumes.wait(key, disks, due);
        if needs_no_cluster(&decided.situation) {
            self.clusters.forget(key);
        }
    }

    fn gone(&self, key: &ObjectKey) {
        self.volumes.forget(key);
        self.clusters.forget(key);
        self.metrics.forget(key);
        self.captures.lock().remove(key);
    }
}

/// The parts of a migration that a change depends on.
fn live_migration(object: &Value) -> LiveMigration {
    let metadata = &object["metadata"];
    let token = object["status"]["intent"]["token"].as_str();
    LiveMigration {
        uid: metadata["uid"].as_str().unwrap_or_default().to_owned(),
        generation: metadata["generation"].as_i64().unwrap_or_default(),
        is_deleting: metadata["deletionTimestamp"].is_string(),
        is_paused: metadata["annotations"][kernel::PAUSED] == "true",
        token: token.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests;
