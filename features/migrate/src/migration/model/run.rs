//! The operator in the model: it saves records and performs changes, and forgets everything in a crash.

use std::collections::BTreeMap;
use std::time::Duration;

use api::migrate::{
    Intent, Phase, StatefulSetMigrationSpec, StatefulSetMigrationStatus, StepName, Strategy,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use serde_json::{Value, json};

use super::api_server::ApiServer;
use super::controllers::{claim_name, disk_id};
use super::{Disk, NAMESPACES, Random, SET, Snapshot, World, index};
use crate::migration::decision::{Change, Decision, ObjectKind, Step};
use crate::migration::documents::Documents;
use crate::migration::observation::{DiskRead, Side, SnapshotRead};
use crate::migration::pass::{Memory, Next, PassInput, Plan, plan};
use crate::migration::preview::phrase;
use crate::record::names::capture_name;
use crate::translate::window::Window;

pub(super) const RUN: &str = "3f2b9c1e-7777-4444-8888-123456789abc";

/// A search misses a snapshot for so long.
const SHOWS_AFTER: Duration = Duration::from_secs(9);

/// How hard a schedule is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Luck {
    /// One pass in so many is preceded by a crash. None if zero.
    pub(super) crashes: usize,
    /// One change in so many has its effect, and its answer is lost. None if zero.
    pub(super) lost_answers: usize,
    /// One action in so many is somebody's who interferes. None if zero.
    pub(super) meddling: usize,
    /// A step that the operator leaves out by mistake: it grows the destination instead.
    pub(super) left_out: Option<StepName>,
}

/// The operator's process with its migration.
pub(super) struct Operator {
    pub(super) spec: StatefulSetMigrationSpec,
    /// As the API server has it.
    pub(super) record: StatefulSetMigrationStatus,
    memory: Memory,
    reads: BTreeMap<String, DiskRead>,
    is_checked: Option<bool>,
    cache: [Documents; 2],
    snapshots: BTreeMap<i32, SnapshotRead>,
    /// The intent was saved by this process, and its change was not begun.
    is_intent_unused: bool,
    pub(super) steps: Vec<StepName>,
    /// The changes, as a plan lists them.
    pub(super) changes: Vec<String>,
}

impl World {
    /// A StatefulSet with these ordinals in the source, all Ready, and a dormant claim.
    pub(super) fn new(window: Window) -> Self {
        let cluster = |side: Side| ApiServer {
            identity: format!("cluster-{side}"),
            nodes: vec![json!({
                "metadata": {"name": "node"},
                "spec": {"providerID": format!("aws:///a/i-{side}")},
                "status": {"volumesInUse": [], "conditions": [{"type": "Ready", "status": "True"}]},
            })],
            ..ApiServer::default()
        };
        let mut world = Self {
            clusters: Side::BOTH.map(cluster),
            management: ApiServer::default(),
            disks: BTreeMap::new(),
            snapshots: Vec::new(),
            ordinals: Window {
                replicas: window.replicas + 1,
                ..window
            },
            elapsed: Duration::from_secs(1_000),
            broken_law: None,
            is_widened: false,
            is_in_source: false,
        };
        world
            .cluster_mut(Side::Source)
            .create(ObjectKind::StatefulSet, set(window));
        for ordinal in world.ordinals.ordinals() {
            let source = world.cluster_mut(Side::Source);
            source.create(ObjectKind::Claim, claim(ordinal));
            source.create(ObjectKind::Volume, volume(ordinal));
            world.disks.insert(disk_id(ordinal), Disk::Free);
        }
        // Controllers make the pods and bind the claims.
        let mut random = Random::seeded(1);
        while !world.is_running(Side::Source, window) || !world.is_bound(Side::Source) {
            world.act(&mut random);
        }
        world
    }

    /// Whether every ordinal of the window is Ready in a cluster.
    pub(super) fn is_running(&self, side: Side, window: Window) -> bool {
        let pods = self.cluster(side).list(ObjectKind::Pod);
        let ready = pods.iter().filter(|pod| {
            let pod = crate::migration::extract::pod(pod);
            pod.ready_since.is_some() && !pod.is_terminating
        });
        i32::try_from(ready.count()) == Ok(window.replicas)
    }

    /// Whether every claim is bound in a cluster.
    pub(super) fn is_bound(&self, side: Side) -> bool {
        let claims = self.cluster(side).list(ObjectKind::Claim);
        claims
            .iter()
            .all(|claim| claim["status"]["phase"] == "Bound")
    }

    fn documents(&self, side: Side) -> Documents {
        self.cluster(side).documents(SET, &capture_name(SET, RUN))
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::StoreCapture { body } if self.is_in_source => {
                if !body["metadata"]["ownerReferences"].is_null() {
                    self.breaks("the only capture is deleted with the migration".to_owned());
                }
                self.cluster_mut(Side::Source)
                    .create(ObjectKind::Secret, body.clone());
            }
            Change::StoreCapture { body } => {
                self.management.create(ObjectKind::Secret, body.clone());
            }
            Change::CreateTags { .. } | Change::DeleteTags { .. } => {
                panic!("no run of the model changes tags")
            }
            Change::CreateSnapshot { disk, tags, .. } => {
                if self.disks[disk] != Disk::Free {
                    self.breaks(format!("a snapshot was made of {disk} while it was in use"));
                }
                if self.snapshots.iter().any(|one| one.disk == *disk) {
                    self.breaks(format!("a second snapshot was made of {disk}"));
                }
                self.snapshots.push(Snapshot {
                    disk: disk.clone(),
                    tags: tags.clone(),
                    shows_at: self.elapsed + SHOWS_AFTER,
                });
            }
            Change::Create { side, kind, body } => {
                if *kind != ObjectKind::Volume {
                    assert_eq!(body["metadata"]["namespace"], NAMESPACES[index(*side)]);
                }
                self.cluster_mut(*side).create(*kind, body.clone());
            }
            Change::Patch {
                side,
                target,
                patch,
            } => self.cluster_mut(*side).patch(target, patch),
            Change::Delete {
                side,
                target,
                orphans_dependents: true,
            } => self.cluster_mut(*side).orphan(target),
            Change::Delete { side, target, .. } => {
                let has_pods = !self.cluster(*side).list(ObjectKind::Pod).is_empty();
                if target.kind == ObjectKind::StatefulSet && has_pods {
                    self.breaks(format!("the {side} lost its pods with their StatefulSet"));
                }
                if (*side, target.kind) == (Side::Source, ObjectKind::Volume)
                    && !self.locks_show_the_clean_up()
                {
                    self.breaks(format!("{target} went before the locks show the clean-up"));
                }
                self.cluster_mut(*side).delete(target);
                if target.kind == ObjectKind::StatefulSet {
                    self.cluster_mut(*side)
                        .remove(ObjectKind::ControllerRevision, "web-1");
                }
            }
        }
        self.check_laws();
    }

    /// A lost migration can be restored from either lock.
    fn locks_show_the_clean_up(&self) -> bool {
        Side::BOTH.iter().all(|side| {
            let locks = self.cluster(*side).list(ObjectKind::ConfigMap);
            let journal = locks
                .first()
                .and_then(|lock| lock["data"]["journal"].as_str());
            journal.is_some_and(|journal| journal.contains(r#""cleanupStarted":true"#))
        })
    }

    /// Somebody widens the window of the source to all ordinals, creating its StatefulSet again if need be, or
    /// deletes a pod.
    pub(super) fn meddle(&mut self, random: &mut Random) {
        if random.one_in(2) {
            self.widen();
            return;
        }
        let side = random.side();
        let pods = self.cluster(side).list(ObjectKind::Pod);
        if !pods.is_empty() {
            let name = crate::migration::extract::name(&pods[random.below(pods.len())]);
            self.cluster_mut(side).terminate(ObjectKind::Pod, &name);
        }
    }

    /// Somebody gives the source all ordinals.
    pub(super) fn widen(&mut self) {
        let ordinals = self.ordinals;
        let whole = Window {
            replicas: ordinals.replicas - 1,
            ..ordinals
        };
        self.is_widened = true;
        self.cluster_mut(Side::Source)
            .create(ObjectKind::StatefulSet, set(whole));
        self.cluster_mut(Side::Source)
            .edit(ObjectKind::StatefulSet, SET, |set| {
                set["spec"]["ordinals"] = json!({"start": ordinals.start});
                set["spec"]["replicas"] = (ordinals.replicas - 1).into();
            });
    }

    /// The change of an operator that has left a step out.
    fn grow_destination(&mut self) {
        self.cluster_mut(Side::Destination)
            .edit(ObjectKind::StatefulSet, SET, |set| {
                let replicas = set["spec"]["replicas"].as_i64().unwrap_or_default();
                set["spec"]["replicas"] = (replicas + 1).into();
            });
        self.check_laws();
    }

    /// The StatefulSet of the source is being deleted: it runs no pod.
    fn has_leaving_set(&self) -> bool {
        let set = self.cluster(Side::Source).get(ObjectKind::StatefulSet, SET);
        set.is_some_and(|set| set["metadata"]["deletionTimestamp"].is_string())
    }

    fn check_laws(&mut self) {
        let [source, destination] = Side::BOTH.map(|side| self.window(side));
        let Some(destination) = destination else {
            return;
        };
        if let Some(source) = source.filter(|_| !self.is_widened && !self.has_leaving_set())
            && !source.is_disjoint(destination)
        {
            self.breaks(format!(
                "the source has {source} and the destination {destination}"
            ));
        }
        let is_fenced = |ordinal: &i32| {
            let claim = self
                .cluster(Side::Source)
                .get(ObjectKind::Claim, &claim_name(*ordinal));
            // Fences go after the volumes.
            let is_cleaned = || self.volume_of(Side::Source, *ordinal).is_none();
            claim.map_or_else(is_cleaned, |claim| {
                crate::migration::extract::claim(claim, RUN).is_tombstone
            })
        };
        if let Some(ordinal) = destination.ordinals().find(|ordinal| !is_fenced(ordinal)) {
            self.breaks(format!(
                "the destination runs ordinal {ordinal}, whose claim is not fenced"
            ));
        }
    }
}

fn set(window: Window) -> Value {
    let mut set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": SET, "namespace": NAMESPACES[0]},
        "spec": {
            "replicas": window.replicas, "serviceName": SET,
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
            "template": {"spec": {"containers": [{"name": "main", "image": "web"}]}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}],
        },
    });
    if window.start != 0 {
        set["spec"]["ordinals"] = json!({"start": window.start});
    }
    set
}

fn claim(ordinal: i32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim_name(ordinal), "namespace": NAMESPACES[0]},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "gp2",
            "resources": {"requests": {"storage": "8Gi"}}, "volumeName": format!("pv-{ordinal}")},
        "status": {},
    })
}

fn volume(ordinal: i32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": format!("pv-{ordinal}")},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "8Gi"}, "storageClassName": "gp2",
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": NAMESPACES[0],
                "name": claim_name(ordinal)},
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": disk_id(ordinal), "fsType": "ext4"}},
        "status": {},
    })
}

impl Operator {
    pub(super) fn new(fields: &Value) -> Self {
        let mut all = json!({"sourceNamespace": NAMESPACES[0], "destNamespace": NAMESPACES[1],
            "sourceCleanup": {"soak": "0s"}});
        for (field, value) in fields.as_object().into_iter().flatten() {
            all[field] = value.clone();
        }
        let mut world = |field| all.as_object_mut().and_then(|all| all.remove(field));
        let without_ordinals = world("withoutOrdinals").is_some();
        world("inSource");
        let spec = crate::migration::fixture::spec(&all);
        Self {
            record: StatefulSetMigrationStatus {
                strategy: Some(spec.strategy.unwrap_or(Strategy::Window)),
                without_ordinals,
                ..StatefulSetMigrationStatus::default()
            },
            spec,
            memory: Memory::default(),
            reads: BTreeMap::new(),
            is_checked: None,
            cache: [Documents::default(), Documents::default()],
            snapshots: BTreeMap::new(),
            is_intent_unused: false,
            steps: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// The phase that the record names.
    pub(super) fn phase(&self) -> Phase {
        self.record.phase.unwrap_or(Phase::Pending)
    }

    fn crash(&mut self) {
        self.memory = Memory::default();
        self.reads.clear();
        self.is_checked = None;
        self.snapshots.clear();
        self.is_intent_unused = false;
    }

    /// Waits are decided on the caches, which may be old; everything else on a live read.
    pub(super) fn pass(&mut self, world: &mut World, random: &mut Random, luck: Luck) -> Next {
        if luck.crashes > 0 && random.one_in(luck.crashes) {
            self.crash();
        }
        if random.one_in(2) {
            self.cache = Side::BOTH.map(|side| world.documents(side));
        }
        if random.one_in(3) {
            self.reads
                .iter_mut()
                .for_each(|(id, read)| *read = world.read_disk(id)); // the poller
        }
        let cached = self.decide(world, &self.cache.clone());
        let is_check = self.record.phase == Some(Phase::PreFlightChecks);
        let is_wait = matches!(&cached.next, Next::Decided(Decision::Wait(_)))
            && luck.left_out.is_none()
            && !is_check;
        let plan = if is_wait {
            cached
        } else {
            self.decide(world, &Side::BOTH.map(|side| world.documents(side)))
        };
        self.memory = plan.memory.clone();
        if let Next::Decided(decision) = &plan.next
            && luck.left_out.is_some()
            && decision.step() == luck.left_out
        {
            world.grow_destination();
        }
        self.carry_out(world, random, luck, plan)
    }

    fn decide(&self, world: &World, documents: &[Documents; 2]) -> Plan {
        let zones = self.reads.keys().chain(world.disks.keys());
        let zones = zones
            .map(|disk| (disk.clone(), "eu-west-1a".to_owned()))
            .collect();
        let owner = OwnerReference {
            name: "move".to_owned(),
            uid: RUN.to_owned(),
            ..OwnerReference::default()
        };
        let seconds = i64::try_from(world.elapsed.as_secs()).expect("small");
        let (namespace, management_cluster, beside) = if world.is_in_source {
            let source = world.cluster(Side::Source);
            (NAMESPACES[0], &*source.identity, source)
        } else {
            ("ops", "cluster-management", &world.management)
        };
        plan(&PassInput {
            spec: &self.spec,
            record: &self.record,
            namespace,
            owner: &owner,
            management_cluster,
            generation: 1,
            is_deleting: false,
            is_paused: false,
            is_checked: self.is_checked,
            zones: &zones,
            capture: beside.get(ObjectKind::Secret, &capture_name(SET, RUN)),
            source: &documents[0],
            destination: &documents[1],
            disks: &self.reads,
            snapshots: &self.snapshots,
            is_intent_unused: self.is_intent_unused,
            exhausted_budget: None,
            memory: &self.memory,
            now: Timestamp::from_second(seconds).expect("a time"),
            elapsed: world.elapsed,
        })
    }

    fn carry_out(
        &mut self,
        world: &mut World,
        random: &mut Random,
        luck: Luck,
        plan: Plan,
    ) -> Next {
        let Plan {
            next, mut record, ..
        } = plan;
        self.snapshots.clear(); // an answer is used in one pass
        match &next {
            Next::Check => self.is_checked = Some(true),
            Next::Mirror(step) => world.apply(&step.change),
            Next::Decided(Decision::Act(step)) => {
                if !self.is_announced(step) {
                    record.intent = Some(Intent {
                        step: step.name,
                        ordinal: step.ordinal,
                        token: step.change.token(),
                        at: MicroTime(Timestamp::UNIX_EPOCH),
                    });
                    self.is_intent_unused = true;
                    self.record = record;
                    return next;
                }
                self.is_intent_unused = false;
                self.steps.push(step.name);
                self.changes.push(phrase(step));
                world.apply(&step.change);
                if luck.lost_answers > 0 && random.one_in(luck.lost_answers) {
                    self.crash();
                    return next; // the record is not saved
                }
            }
            Next::Decided(Decision::ReadDisks { ids, .. }) => {
                for id in ids {
                    self.reads.insert(id.clone(), world.read_disk(id));
                }
            }
            Next::Decided(Decision::ReadSnapshots { ordinal, tags, .. }) => {
                self.snapshots.insert(*ordinal, world.read_snapshots(tags));
            }
            Next::Decided(_)
            | Next::Continue
            | Next::Paused
            | Next::AwaitAbort
            | Next::Rest
            | Next::Release => {}
        }
        self.record = record;
        next
    }

    fn is_announced(&self, step: &Step) -> bool {
        let intent = self.record.intent.as_ref();
        intent.is_some_and(|intent| {
            intent.step == step.name
                && intent.ordinal == step.ordinal
                && intent.token == step.change.token()
        })
    }
}
