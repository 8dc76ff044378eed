//! A StatefulSet of one replica with one disk, and a survey of it.

use std::collections::BTreeMap;

use api::migrate::StatefulSetMigrationSpec;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::preflight::Survey;
use crate::preflight::reading::Reading::{NotRead, Read};
use crate::preflight::survey::{ArrivalSurvey, ClusterSurvey, Ec2Survey, Ec2Volume};

pub(super) const RUN: &str = "3f2b9c1e-7777-4444-8888-123456789abc";
pub(super) const DISK: &str = "vol-0000000a";
pub(super) const ZONE: &str = "eu-west-1a";

/// A change of a survey.
pub(super) type Edit = fn(&mut Survey);

/// A change for a case of a table: it lets the compiler infer the type of the closure.
pub(super) fn by(edit: Edit) -> Edit {
    edit
}

pub(super) fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A spec with other fields.
pub(super) fn spec(change: Value) -> StatefulSetMigrationSpec {
    let mut spec = json!({
        "migrationId": "m",
        "sourceCluster": {"kubeConfigSecret": "src"},
        "destCluster": {"kubeConfigSecret": "dst"},
        "sourceNamespace": "shop",
        "destNamespace": "store",
        "statefulSetName": "web",
    });
    let fields = change.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(fields);
    object(spec)
}

pub(super) fn set() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "set-uid", "generation": 4},
        "spec": {
            "replicas": 1, "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "serviceAccountName": "web",
                    "containers": [{"name": "c", "image": "i", "envFrom": [
                        {"secretRef": {"name": "password"}}, {"configMapRef": {"name": "settings"}}]}]}},
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"storageClassName": "gp3", "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "8Gi"}}}}]},
        "status": {"replicas": 1, "observedGeneration": 4},
    })
}

pub(super) fn claim() -> Value {
    json!({
        "metadata": {"name": "data-web-0", "namespace": "shop", "uid": "claim-0"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "gp3",
            "volumeMode": "Filesystem", "volumeName": "pv-0",
            "resources": {"requests": {"storage": "8Gi"}}},
        "status": {"phase": "Bound", "capacity": {"storage": "8Gi"}},
    })
}

pub(super) fn volume() -> Value {
    json!({
        "metadata": {"name": "pv-0", "uid": "volume-0"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "8Gi"},
            "storageClassName": "gp3", "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": DISK},
            "claimRef": {"namespace": "shop", "name": "data-web-0", "uid": "claim-0"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [ZONE]}]}]}}},
    })
}

/// A node of a cluster, on the instance of this id.
pub(super) fn node(name: &str, instance: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": ZONE}},
        "spec": {"providerID": format!("aws:///{ZONE}/{instance}")},
    })
}

pub(super) fn survey() -> Survey {
    let disk = Ec2Volume {
        id: DISK.to_owned(),
        zone: ZONE.to_owned(),
        ..Ec2Volume::default()
    };
    Survey {
        namespace: "ops".to_owned(),
        spec: spec(json!({})),
        run: RUN.to_owned(),
        source: ClusterSurvey {
            set: Read(Some(object(set()))),
            claims: Read(vec![object(claim())]),
            volumes: Read(vec![object(volume())]),
            ..ClusterSurvey::default()
        },
        destination: ClusterSurvey {
            namespace: Read(Some(object(json!({"metadata": {"name": "store"}})))),
            set: Read(None),
            claims: Read(Vec::new()),
            volumes: Read(Vec::new()),
            ..ClusterSurvey::default()
        },
        snapshots: NotRead,
        arrival: ArrivalSurvey::default(),
        ec2: Ec2Survey {
            volumes: Read(BTreeMap::from([(DISK.to_owned(), disk)])),
            ..Ec2Survey::default()
        },
        records: NotRead,
    }
}
