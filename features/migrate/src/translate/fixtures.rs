//! Objects for tests, as a server sends them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::classes::ClassMapping;
use super::pair::Pair;
use super::{Destination, Document, PairTarget, RunMarker};

pub(super) const RUN_ID: &str = "3f2b9c1e-7777-4444-8888-123456789abc";
pub(super) const VOLUME: &str = "vol-0123456789abcdef0";
pub(super) const ZONE: &str = "eu-west-1a";

/// The run, whose migrationId is any text.
pub(super) const RUN: RunMarker<'static> = RunMarker {
    run_id: RUN_ID,
    migration_id: "split: phase 2",
};

/// The names that they have in the source.
pub(super) const TARGET: PairTarget<'static> = PairTarget {
    volume: "pvc-1",
    claim: "data-web-0",
    zone: ZONE,
};

pub(super) fn mapping() -> ClassMapping {
    ClassMapping::new(BTreeMap::from([("gp2".to_owned(), "gp3".to_owned())]))
}

/// The namespace `store`, with a run.
pub(super) fn destination(classes: &ClassMapping) -> Destination<'_> {
    Destination {
        namespace: "store",
        classes,
        run: Some(RUN),
    }
}

/// A volume of the CSI driver with its claim, both with everything that a source may have.
pub(super) fn csi_pair() -> Pair {
    pair_of(csi_volume(), claim())
}

/// The same disk as a volume of the driver built into Kubernetes.
pub(super) fn in_tree_pair(in_tree: Value) -> Pair {
    let mut volume = csi_volume();
    let spec = volume["spec"].as_object_mut().unwrap();
    spec.remove("csi");
    spec.insert("awsElasticBlockStore".to_owned(), in_tree);
    volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] =
        "kubernetes.io/aws-ebs".into();
    pair_of(volume, claim())
}

pub(super) fn pair_of(volume: Value, claim: Value) -> Pair {
    Pair {
        volume: Document::read(volume).unwrap(),
        claim: Document::read(claim).unwrap(),
    }
}

/// `value` with the value at `pointer` set, or removed by null.
pub(super) fn with(mut value: Value, pointer: &str, changed: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let parent = value.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    if changed.is_null() {
        parent.remove(field);
    } else {
        parent.insert(field.to_owned(), changed);
    }
    value
}

pub(super) fn csi_volume() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": "pvc-1",
            "uid": "pv-uid",
            "resourceVersion": "7",
            "creationTimestamp": "2024-01-01T00:00:00Z",
            "finalizers": ["kubernetes.io/pv-protection"],
            "managedFields": [{"manager": "kubectl"}],
            "labels": {"team": "shop", "migration.aqua.io/source-pv": "older"},
            "annotations": {
                "example.org/note": "mine",
                "pv.kubernetes.io/provisioned-by": "ebs.csi.aws.com",
                "pv.kubernetes.io/bound-by-controller": "yes",
                "pv.kubernetes.io/migrated-to": "ebs.csi.aws.com",
                "volume.kubernetes.io/provisioner-deletion-secret-name": "",
                "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "migration.aqua.io/run": "another-run",
            },
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "8Gi"},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": "shop",
                "name": "data-web-0",
                "uid": "pvc-uid",
                "resourceVersion": "5",
            },
            "csi": {
                "driver": "ebs.csi.aws.com",
                "volumeHandle": VOLUME,
                "fsType": "xfs",
                "readOnly": true,
                "volumeAttributes": {"partition": "1", "storage.kubernetes.io/csiProvisionerIdentity": "x"},
                "nodeStageSecretRef": {"name": "s", "namespace": "n"},
                "controllerExpandSecretRef": {"name": "e", "namespace": "n"},
            },
            "mountOptions": ["noatime"],
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "topology.ebs.csi.aws.com/zone", "operator": "In", "values": [ZONE]},
            ]}]}},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "gp2",
            "volumeAttributesClassName": "fast",
            "volumeMode": "Filesystem",
            "fromTheFuture": {"kept": true},
        },
        "status": {"phase": "Bound"},
    })
}

pub(super) fn claim() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data-web-0",
            "namespace": "shop",
            "uid": "pvc-uid",
            "resourceVersion": "9",
            "creationTimestamp": "2024-01-01T00:00:00Z",
            "finalizers": ["kubernetes.io/pvc-protection"],
            "managedFields": [{"manager": "kubectl"}],
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "sts-uid"},
            ],
            "labels": {"app": "web", "migration.aqua.io/source-pvc": "older"},
            "annotations": {
                "example.org/note": "mine",
                "volume.beta.kubernetes.io/storage-class": "gp2",
                "pv.kubernetes.io/bind-completed": "yes",
                "pv.kubernetes.io/bound-by-controller": "yes",
                "volume.kubernetes.io/selected-node": "node-1",
                "volume.kubernetes.io/storage-provisioner": "ebs.csi.aws.com",
                "volume.beta.kubernetes.io/storage-provisioner": "ebs.csi.aws.com",
                "volume.kubernetes.io/storage-resizer": "ebs.csi.aws.com",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
            },
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "8Gi"}},
            "storageClassName": "gp2",
            "volumeAttributesClassName": "fast",
            "volumeMode": "Filesystem",
            "volumeName": "pvc-1",
            "fromTheFuture": {"kept": true},
        },
        "status": {"phase": "Bound", "capacity": {"storage": "8Gi"}},
    })
}

pub(super) fn stateful_set() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "uid": "sts-uid",
            "resourceVersion": "11",
            "generation": 3,
            "creationTimestamp": "2024-01-01T00:00:00Z",
            "finalizers": ["example.org/finalizer"],
            "managedFields": [{"manager": "kubectl"}],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Database", "name": "d", "uid": "u"}],
            "labels": {
                "app": "web",
                "app.kubernetes.io/instance": "web",
                "argocd.argoproj.io/instance": "shop",
                "kustomize.toolkit.fluxcd.io/name": "shop",
            },
            "annotations": {
                "example.org/note": "mine",
                "argocd.argoproj.io/tracking-id": "shop:apps/StatefulSet:shop/web",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "migration.aqua.io/migrated-from": "older/web",
            },
        },
        "spec": {
            "replicas": 3,
            "ordinals": {"start": 5},
            "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}},
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
            "minReadySeconds": 5,
            "revisionHistoryLimit": 4,
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
            "template": {
                "metadata": {"labels": {"app": "web", "argocd.argoproj.io/instance": "shop"}},
                "spec": {
                    "containers": [{
                        "name": "app",
                        "image": "web:1",
                        "env": [{"name": "A", "value": "1"}],
                        "ports": [{"containerPort": 80}],
                        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    }],
                    "affinity": {"podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": "kubernetes.io/hostname", "namespaces": ["shop", "other"]},
                        ],
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "namespaces": ["shop"]}},
                        ],
                    }},
                    "fromTheFuture": {"kept": true},
                },
            },
            "volumeClaimTemplates": [{
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": "data",
                    "namespace": "shop",
                    "annotations": {"volume.beta.kubernetes.io/storage-class": "gp2"},
                },
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "8Gi"}},
                    "storageClassName": "gp2",
                    "dataSourceRef": {"kind": "VolumeSnapshot", "name": "s", "namespace": "shop"},
                },
                "status": {"phase": "Pending"},
            }],
            "fromTheFuture": {"kept": true},
        },
        "status": {"replicas": 3},
    })
}
