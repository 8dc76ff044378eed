//! The table of the checks, row by row. Every case changes one thing of a survey that passes.

mod claims;
mod clusters;
mod destination;
mod owners;
mod source;
mod verdicts;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::access::{needed, needed_calls};
use super::reading::Reading;
use super::survey::{
    ArrivalSurvey, ClusterSurvey, DryRun, Ec2Attachment, Ec2Survey, Ec2Volume, KubeconfigState,
    OrdinalsSupport, RecordSizes, Survey,
};
use super::*;
use Reading::Read;

pub(super) const RUN: &str = "3f2b9c1e-7777-4444-8888-123456789abc";
pub(super) const OTHER_RUN: &str = "other-run";
pub(super) const ZONE_A: &str = "eu-west-1a";
const ZONE_B: &str = "eu-west-1b";

/// A change of a survey.
pub(super) type Edit = fn(&mut Survey);

/// A change for a case of a table: it lets the compiler infer the type of the closure.
pub(super) fn by(edit: Edit) -> Edit {
    edit
}

/// An object from JSON.
pub(super) fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Merges `change` into an object, as a JSON merge patch does.
pub(super) fn patch<T: Serialize + DeserializeOwned>(target: &mut T, change: Value) {
    let mut value = serde_json::to_value(&*target).unwrap();
    merge(&mut value, change);
    *target = object(value);
}

fn merge(target: &mut Value, change: Value) {
    let Value::Object(fields) = change else {
        *target = change;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(&name);
        } else {
            merge(&mut target[name], value);
        }
    }
}

/// The answer of a reading, to be changed.
pub(super) fn read<T>(reading: &mut Reading<T>) -> &mut T {
    match reading {
        Read(answer) => answer,
        Reading::Denied(_) | Reading::Unreachable(_) | Reading::NotRead => panic!("not read"),
    }
}

pub(super) fn zone(ordinal: usize) -> &'static str {
    [ZONE_A, ZONE_B, ZONE_A][ordinal]
}

pub(super) fn set(survey: &mut Survey) -> &mut StatefulSet {
    read(&mut survey.source.set).as_mut().unwrap()
}

pub(super) fn template(survey: &mut Survey, change: Value) {
    patch(set(survey), json!({"spec": {"template": {"spec": change}}}));
}

pub(super) fn claim(survey: &mut Survey, ordinal: usize) -> &mut PersistentVolumeClaim {
    &mut read(&mut survey.source.claims)[ordinal]
}

pub(super) fn volume(survey: &mut Survey, ordinal: usize) -> &mut PersistentVolume {
    &mut read(&mut survey.source.volumes)[ordinal]
}

pub(super) fn pod(survey: &mut Survey, ordinal: usize) -> &mut Pod {
    &mut read(&mut survey.source.pods)[ordinal]
}

pub(super) fn node(cluster: &mut ClusterSurvey, index: usize) -> &mut Node {
    &mut read(&mut cluster.nodes)[index]
}

pub(super) fn disk(survey: &mut Survey, ordinal: usize) -> &mut Ec2Volume {
    read(&mut survey.ec2.volumes)
        .get_mut(&volume_id(ordinal))
        .unwrap()
}

pub(super) fn volume_id(ordinal: usize) -> String {
    format!("vol-0000000{ordinal}")
}

/// The messages of one check, of every severity. Their form is asserted.
pub(super) fn messages(survey: &Survey, id: CheckId) -> Vec<String> {
    let results = check(survey).into_iter();
    let of_check = results.filter(|result| result.finding.id == id);
    of_check
        .map(|CheckOutcome { finding, .. }| {
            let Some((subject, found)) = finding.message.split_once(": found ") else {
                panic!("no `<subject>: found`: {}", finding.message);
            };
            assert!(found.contains(", need "), "{}", finding.message);
            assert!(
                finding.subject.starts_with(subject),
                "{subject} in {}",
                finding.subject
            );
            finding.message
        })
        .collect()
}

/// Asserts the messages of a check after a change.
#[track_caller]
pub(super) fn assert_found(id: CheckId, edit: Edit, expected: &[&str]) {
    let mut survey = survey();
    edit(&mut survey);
    assert_eq!(messages(&survey, id), expected);
}

/// A survey that passes: StatefulSet `web` with 3 replicas and template `data`, in two zones.
pub(super) fn survey() -> Survey {
    let spec: api::migrate::StatefulSetMigrationSpec = object(json!({
        "migrationId": "m",
        "sourceCluster": {"kubeConfigSecret": "src"},
        "destCluster": {"kubeConfigSecret": "dst"},
        "sourceNamespace": "shop",
        "destNamespace": "store",
        "statefulSetName": "web",
    }));
    Survey {
        namespace: "ops".to_owned(),
        run: RUN.to_owned(),
        source: ClusterSurvey {
            set: Read(Some(web())),
            pods: Read((0..3).map(web_pod).collect()),
            claims: Read((0..3).map(web_claim).collect()),
            volumes: Read((0..3).map(web_volume).collect()),
            ..cluster(Side::Source, "shop", "src")
        },
        destination: ClusterSurvey {
            set: Read(None),
            pods: Read(Vec::new()),
            claims: Read(Vec::new()),
            volumes: Read(Vec::new()),
            ..cluster(Side::Destination, "store", "dst")
        },
        snapshots: Read(Vec::new()),
        arrival: arrival(),
        ec2: ec2(&spec),
        records: Read(RecordSizes {
            capture: 1000,
            journal: 1000,
        }),
        spec,
    }
}

fn cluster(side: Side, namespace: &str, prefix: &str) -> ClusterSurvey {
    ClusterSurvey {
        kubeconfig: Read(KubeconfigState::Accepted),
        uid: Read(format!("{prefix}-uid")),
        pinned_uid: None,
        allowed: Read(needed(side, namespace).into_iter().collect()),
        namespace: Read(Some(object(
            json!({"metadata": {"name": namespace}, "status": {"phase": "Active"}}),
        ))),
        lock: Read(None),
        ordinals: Read(OrdinalsSupport::Echoed),
        nodes: Read(["a", "b"].map(|letter| cluster_node(prefix, letter)).into()),
        budgets: Read(Vec::new()),
        autoscalers: Read(Vec::new()),
        ..ClusterSurvey::default()
    }
}

fn cluster_node(prefix: &str, letter: &str) -> Node {
    object(json!({
        "metadata": {"name": format!("{prefix}-{letter}"), "labels": {
            "topology.kubernetes.io/zone": format!("eu-west-1{letter}"),
            "topology.kubernetes.io/region": "eu-west-1"}},
        "spec": {"providerID": format!("aws:///eu-west-1{letter}/i-{prefix}{letter}")},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}]},
    }))
}

fn web() -> StatefulSet {
    object(json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "set-uid", "generation": 4},
        "spec": {
            "replicas": 3, "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [
                    {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}},
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"storageClassName": "gp3", "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "8Gi"}}}}]},
        "status": {"replicas": 3, "observedGeneration": 4,
            "currentRevision": "web-r1", "updateRevision": "web-r1"},
    }))
}

fn web_pod(ordinal: usize) -> Pod {
    let letter = zone(ordinal).trim_start_matches("eu-west-1");
    object(json!({
        "metadata": {
            "name": format!("web-{ordinal}"), "namespace": "shop",
            "labels": {"app": "web", "controller-revision-hash": "web-r1"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web",
                "uid": "set-uid", "controller": true}]},
        "spec": {
            "nodeName": format!("src-{letter}"), "containers": [],
            "volumes": [{"name": "data",
                "persistentVolumeClaim": {"claimName": format!("data-web-{ordinal}")}}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }))
}

pub(super) fn web_claim(ordinal: usize) -> PersistentVolumeClaim {
    object(json!({
        "metadata": {"name": format!("data-web-{ordinal}"), "namespace": "shop",
            "uid": format!("claim-{ordinal}"), "finalizers": ["kubernetes.io/pvc-protection"]},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "gp3",
            "volumeMode": "Filesystem", "volumeName": format!("pv-{ordinal}"),
            "resources": {"requests": {"storage": "8Gi"}}},
        "status": {"phase": "Bound", "capacity": {"storage": "8Gi"}},
    }))
}

pub(super) fn web_volume(ordinal: usize) -> PersistentVolume {
    let zone = zone(ordinal.min(2));
    object(json!({
        "metadata": {"name": format!("pv-{ordinal}"), "uid": format!("volume-{ordinal}"),
            "finalizers": ["kubernetes.io/pv-protection", "external-attacher/ebs-csi-aws-com",
                "external-provisioner.volume.kubernetes.io/finalizer"]},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "8Gi"},
            "storageClassName": "gp3", "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": volume_id(ordinal)},
            "claimRef": {"namespace": "shop", "name": format!("data-web-{ordinal}"),
                "uid": format!("claim-{ordinal}")},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}]}}},
    }))
}

/// A claim beyond the window, whose disk no pod uses.
pub(super) fn add_dormant(survey: &mut Survey) {
    read(&mut survey.source.claims).push(web_claim(3));
    read(&mut survey.source.volumes).push(web_volume(3));
    let free = Ec2Volume {
        state: "available".to_owned(),
        attachments: Vec::new(),
        ..web_disk(3)
    };
    read(&mut survey.ec2.volumes).insert(volume_id(3), free);
}

fn web_disk(ordinal: usize) -> Ec2Volume {
    let zone = zone(ordinal.min(2));
    let letter = zone.trim_start_matches("eu-west-1");
    Ec2Volume {
        id: volume_id(ordinal),
        state: "in-use".to_owned(),
        zone: zone.to_owned(),
        size_gib: 8,
        tags: BTreeMap::from([("ebs.csi.aws.com/cluster".to_owned(), "true".to_owned())]),
        attachments: vec![attachment(&format!("i-src{letter}"))],
        ..Ec2Volume::default()
    }
}

pub(super) fn attachment(instance: &str) -> Ec2Attachment {
    Ec2Attachment {
        instance: instance.to_owned(),
        state: "attached".to_owned(),
        is_deleted_with_instance: false,
    }
}

fn arrival() -> ArrivalSurvey {
    let csi_node = |name: &str| {
        object(json!({"metadata": {"name": name}, "spec": {"drivers": [
            {"name": "ebs.csi.aws.com", "nodeID": name, "allocatable": {"count": 5}}]}}))
    };
    ArrivalSurvey {
        driver: Read(Some(object(
            json!({"metadata": {"name": "ebs.csi.aws.com"}, "spec": {}}),
        ))),
        csi_nodes: Read(["dst-a", "dst-b"].map(csi_node).into()),
        attachments: Read(Vec::new()),
        dependencies: BTreeMap::new(),
        dry_runs: Read(vec![DryRun {
            subject: "StatefulSet store/web".to_owned(),
            refusal: None,
        }]),
        admitted_pod: None,
        quotas: Read(Vec::new()),
        service: Read(Some(object(json!({"spec": {"clusterIP": "None"}})))),
        storage_classes: Read(BTreeSet::from(["gp3".to_owned()])),
        attributes_classes: Read(BTreeSet::new()),
    }
}

fn ec2(spec: &api::migrate::StatefulSetMigrationSpec) -> Ec2Survey {
    let root = |letter: &str| Ec2Volume {
        id: format!("vol-root{letter}"),
        state: "in-use".to_owned(),
        attachments: vec![attachment(&format!("i-dst{letter}"))],
        ..Ec2Volume::default()
    };
    Ec2Survey {
        region: "eu-west-1".to_owned(),
        allowed: Read(needed_calls(spec).into_iter().collect()),
        volumes: Read(
            (0..3)
                .map(|ordinal| (volume_id(ordinal), web_disk(ordinal)))
                .collect(),
        ),
        at_destination: Read(["a", "b"].map(root).into()),
        modifications: Read(BTreeMap::new()),
    }
}

#[test]
fn nothing_but_information_is_found_in_a_good_survey() {
    let results = check(&survey());
    let ids: Vec<CheckId> = results.iter().map(|result| result.finding.id).collect();
    assert_eq!(ids, [AppSpan], "{results:#?}");
}

#[test]
fn the_list_has_every_check_once_in_the_contracts_order() {
    let listed: Vec<CheckId> = CHECKS.iter().map(|(id, _)| *id).collect();
    assert_eq!(listed, CheckId::ALL);
}
