//! StatefulSet controllers, kubelets, attachers, volume binders and EC2.

use serde_json::{Value, json};

use super::{Disk, NAMESPACES, Random, SET, World, index};
use crate::migration::decision::ObjectKind;
use crate::migration::documents::version;
use crate::migration::extract;
use crate::migration::observation::Side;
use crate::translate::window::Window;

/// The end of time for the model: pods become Ready at the second at which they start.
fn timestamp(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).expect("small");
    jiff::Timestamp::from_second(seconds)
        .expect("a time")
        .to_string()
}

fn pod_name(ordinal: i32) -> String {
    format!("{SET}-{ordinal}")
}

pub(super) fn claim_name(ordinal: i32) -> String {
    format!("data-{SET}-{ordinal}")
}

pub(super) fn disk_id(ordinal: i32) -> String {
    format!("vol-0000000{ordinal}")
}

impl World {
    /// The window of a cluster's StatefulSet.
    pub(super) fn window(&self, side: Side) -> Option<Window> {
        let set = self.cluster(side).get(ObjectKind::StatefulSet, SET)?;
        Some(extract::set(set, "").window())
    }

    /// One controller of one cluster, or EC2, does one thing.
    pub(super) fn act(&mut self, random: &mut Random) {
        let side = random.side();
        let ordinals = self.ordinals;
        let count = usize::try_from(ordinals.replicas).expect("positive");
        let ordinal = ordinals.start + i32::try_from(random.below(count)).expect("small");
        match random.below(7) {
            0 => self.run_set_controller(side),
            1 => self.stop_pod(side, ordinal),
            2 => self.unmount_and_detach(side, ordinal),
            3 => self.start_pod(side, ordinal),
            4 => self.bind(side, ordinal),
            5 => self.cluster_mut(side).collect(SET),
            _ => self.finish_detach(ordinal),
        }
    }

    fn pod(&self, side: Side, ordinal: i32) -> Option<&Value> {
        self.cluster(side).get(ObjectKind::Pod, &pod_name(ordinal))
    }

    fn is_ready(&self, side: Side, ordinal: i32) -> bool {
        let pod = self.pod(side, ordinal).map(extract::pod);
        pod.is_some_and(|pod| pod.ready_since.is_some())
    }

    /// Like the real one: one change at a time, and none while a pod that remains is unready.
    fn run_set_controller(&mut self, side: Side) {
        let set = self.cluster(side).get(ObjectKind::StatefulSet, SET);
        let Some(set) = set.map(|set| extract::set(set, "")) else {
            return;
        };
        if set.is_terminating || self.adopt(side) {
            return;
        }
        let window = set.window();
        if let Some(ordinal) = window
            .ordinals()
            .find(|ordinal| !self.is_ready(side, *ordinal))
        {
            if self.pod(side, ordinal).is_none() {
                self.create_pod(side, ordinal);
            }
            return;
        }
        let pods = self.cluster(side).list(ObjectKind::Pod);
        let ordinals = pods
            .iter()
            .filter_map(|pod| extract::name(pod).rsplit('-').next()?.parse::<i32>().ok());
        if let Some(condemned) = ordinals.filter(|ordinal| !window.contains(*ordinal)).max() {
            self.cluster_mut(side)
                .terminate(ObjectKind::Pod, &pod_name(condemned));
        }
    }

    /// A StatefulSet adopts a pod or revision without controller. Returns whether there was one.
    fn adopt(&mut self, side: Side) -> bool {
        let owner = self.owner(side);
        let cluster = self.cluster_mut(side);
        for kind in [ObjectKind::ControllerRevision, ObjectKind::Pod] {
            let all = cluster.list(kind);
            let mut alone = all.iter().filter(|one| {
                extract::controller(one).is_none() && one["metadata"]["deletionTimestamp"].is_null()
            });
            if let Some(orphan) = alone.next() {
                cluster.set_owner(kind, &extract::name(orphan), &owner);
                return true;
            }
        }
        if cluster.list(ObjectKind::ControllerRevision).is_empty() {
            let body = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision",
                "metadata": {"name": "web-1", "namespace": NAMESPACES[index(side)], "ownerReferences": owner}});
            cluster.create(ObjectKind::ControllerRevision, body);
        }
        false
    }

    fn owner(&self, side: Side) -> Value {
        let set = self.cluster(side).get(ObjectKind::StatefulSet, SET);
        let set = set.map(version);
        json!([{"kind": "StatefulSet", "controller": true, "uid": set.map(|set| set.uid)}])
    }

    fn create_pod(&mut self, side: Side, ordinal: i32) {
        let (claim, namespace) = (claim_name(ordinal), NAMESPACES[index(side)]);
        if self.cluster(side).get(ObjectKind::Claim, &claim).is_none() {
            let is_reserved = self
                .volume_of(side, ordinal)
                .is_some_and(|volume| volume["spec"]["claimRef"]["uid"].is_null());
            // Between the deletion of a claim and its tombstone the name is free for a widened source.
            let is_contended = side == Side::Source && self.is_widened;
            if !is_reserved && !is_contended {
                self.breaks(format!(
                    "an empty disk was made for ordinal {ordinal} in the {side}"
                ));
            }
            let body = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": claim, "namespace": namespace}, "spec": {}, "status": {}});
            self.cluster_mut(side).create(ObjectKind::Claim, body);
        }
        let owner = self.owner(side);
        let body = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": pod_name(ordinal), "namespace": namespace, "ownerReferences": owner},
            "spec": {"nodeName": "node", "terminationGracePeriodSeconds": 30,
                "volumes": [{"persistentVolumeClaim": {"claimName": claim_name(ordinal)}}]},
            "status": {}});
        self.cluster_mut(side).create(ObjectKind::Pod, body);
    }

    /// A kubelet stops a pod that is being deleted, and its claim may go.
    fn stop_pod(&mut self, side: Side, ordinal: i32) {
        let pod = self.pod(side, ordinal).map(extract::pod);
        let cluster = self.cluster_mut(side);
        if pod.is_some_and(|pod| pod.is_terminating) {
            cluster.remove(ObjectKind::Pod, &pod_name(ordinal));
        }
        let claim = claim_name(ordinal);
        let live = cluster
            .get(ObjectKind::Claim, &claim)
            .map(|live| extract::claim(live, ""));
        if live.is_some_and(|live| live.is_terminating) && !cluster.is_claim_used(&claim) {
            cluster.remove(ObjectKind::Claim, &claim);
        }
    }

    fn is_mounted(&self, side: Side, ordinal: i32) -> bool {
        let disk = disk_id(ordinal);
        let mut nodes = self.cluster(side).nodes.iter().map(extract::node);
        nodes.any(|node| node.disks_in_use.contains(&disk))
    }

    fn set_mounted(&mut self, side: Side, ordinal: i32, is_mounted: bool) {
        let entry = format!("kubernetes.io/csi/ebs.csi.aws.com^{}", disk_id(ordinal));
        let node = &mut self.cluster_mut(side).nodes[0]["status"]["volumesInUse"];
        let entries = node.as_array_mut().expect("it is a list");
        entries.retain(|one| *one != entry);
        if is_mounted {
            entries.push(entry.into());
        }
    }

    /// The volume of the ordinal's disk in a cluster.
    pub(super) fn volume_of(&self, side: Side, ordinal: i32) -> Option<Value> {
        let disk = disk_id(ordinal);
        let volumes = self.cluster(side).list(ObjectKind::Volume);
        volumes
            .into_iter()
            .find(|volume| extract::volume(volume, "").disk.as_ref() == Some(&disk))
    }

    fn unmount_and_detach(&mut self, side: Side, ordinal: i32) {
        if self.can_start(side, ordinal) {
            return;
        }
        let is_running = self.pod(side, ordinal).is_some();
        if self.is_mounted(side, ordinal) {
            if !is_running {
                self.set_mounted(side, ordinal, false);
            }
            return;
        }
        let disk = disk_id(ordinal);
        let cluster = self.cluster_mut(side);
        let before = cluster.attachments.len();
        cluster.attachments.retain(|one| one["disk"] != *disk);
        if cluster.attachments.len() < before && self.disks[&disk] == Disk::Attached(side) {
            self.disks.insert(disk, Disk::Detaching(side));
        }
    }

    fn can_start(&self, side: Side, ordinal: i32) -> bool {
        let claim = self
            .cluster(side)
            .get(ObjectKind::Claim, &claim_name(ordinal));
        let is_bound = claim.is_some_and(|claim| extract::claim(claim, "").is_bound);
        let pod = self.pod(side, ordinal).map(extract::pod);
        is_bound && pod.is_some_and(|pod| !pod.is_terminating)
    }

    fn start_pod(&mut self, side: Side, ordinal: i32) {
        let volume = self.volume_of(side, ordinal);
        let (true, Some(volume)) = (self.can_start(side, ordinal), volume) else {
            return;
        };
        let disk = disk_id(ordinal);
        if self.is_mounted(side.other(), ordinal) {
            self.breaks(format!(
                "the disk of ordinal {ordinal} is usable from both clusters"
            ));
        }
        let attachment = json!({"disk": disk, "metadata": {"name": format!("va-{ordinal}")},
            "spec": {"nodeName": "node", "source": {"persistentVolumeName": extract::name(&volume)}}});
        let cluster = self.cluster_mut(side);
        if !cluster.attachments.contains(&attachment) {
            cluster.attachments.push(attachment);
        }
        match self.disks[&disk] {
            Disk::Free => {
                self.disks.insert(disk, Disk::Attached(side));
            }
            Disk::Attached(owner) if owner == side => {
                self.set_mounted(side, ordinal, true);
                let since = timestamp(self.elapsed.as_secs());
                let is_ready = self.is_ready(side, ordinal);
                let ready =
                    json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]);
                if !is_ready {
                    let cluster = self.cluster_mut(side);
                    cluster.edit(ObjectKind::Pod, &pod_name(ordinal), |pod| {
                        pod["status"]["conditions"] = ready;
                    });
                }
            }
            Disk::Attached(_) | Disk::Detaching(_) => {}
        }
    }

    fn finish_detach(&mut self, ordinal: i32) {
        let disk = disk_id(ordinal);
        if let Disk::Detaching(side) = self.disks[&disk] {
            if self.is_mounted(side, ordinal) {
                self.breaks(format!(
                    "the disk of ordinal {ordinal} was detached while mounted"
                ));
            }
            self.disks.insert(disk, Disk::Free);
        }
    }

    /// The binder: a volume whose claim is gone is released, and a reserved one is bound.
    fn bind(&mut self, side: Side, ordinal: i32) {
        let Some(volume) = self.volume_of(side, ordinal) else {
            return;
        };
        let name = extract::name(&volume);
        let claim = claim_name(ordinal);
        let cluster = self.cluster_mut(side);
        let live = cluster.get(ObjectKind::Claim, &claim).cloned();
        let phase = |cluster: &mut super::ApiServer, phase: &str| {
            if volume["status"]["phase"] != phase {
                cluster.edit(ObjectKind::Volume, &name, |one| {
                    one["status"]["phase"] = phase.into();
                });
            }
        };
        if let Some(uid) = volume["spec"]["claimRef"]["uid"].as_str() {
            let is_there = live.is_some_and(|live| version(&live).uid == uid);
            if !is_there {
                phase(cluster, "Released");
                if volume["spec"]["persistentVolumeReclaimPolicy"] != "Retain" {
                    self.breaks(format!(
                        "the disk of ordinal {ordinal} is deleted with its volume"
                    ));
                }
            }
            return;
        }
        let candidate = live.filter(|live| {
            let names = &live["spec"]["volumeName"];
            names.is_null() || *names == *name
        });
        let Some(candidate) = candidate else {
            phase(cluster, "Available");
            return;
        };
        let uid = version(&candidate).uid;
        cluster.edit(ObjectKind::Volume, &name, |one| {
            one["spec"]["claimRef"]["uid"] = uid.into();
            one["status"]["phase"] = "Bound".into();
        });
        cluster.edit(ObjectKind::Claim, &claim, |one| {
            one["spec"]["volumeName"] = name.clone().into();
            one["status"]["phase"] = "Bound".into();
        });
    }
}
