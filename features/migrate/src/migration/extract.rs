//! From objects as the API server gives them to the values that decisions need. Pure.
//!
//! It reads JSON and not typed objects: what a type does not know, such as a field of a newer server, must
//! not make an object unreadable.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::migrate::names;
use jiff::Timestamp;
use serde_json::Value;

use super::documents::version;
use super::observation::{
    AttachmentState, ClaimReference, ClaimState, NodeState, PodState, SetState, VolumePhase,
    VolumeState,
};
use crate::record::hashes::template_sha256;
use crate::record::marker::ownership_of;

/// The taint of a node that Kubernetes may detach disks from although they are mounted.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The name of an object.
pub fn name(object: &Value) -> String {
    text(&object["metadata"]["name"])
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn optional(value: &Value) -> Option<String> {
    value
        .as_str()
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

fn entries(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn number(value: &Value) -> Option<i32> {
    value.as_i64().and_then(|number| i32::try_from(number).ok())
}

fn seconds(value: &Value) -> Duration {
    Duration::from_secs(value.as_u64().unwrap_or_default())
}

fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// A StatefulSet.
pub fn set(object: &Value, run: &str) -> SetState {
    let spec = &object["spec"];
    let retention = &spec["persistentVolumeClaimRetentionPolicy"];
    let retains = |when: &str| {
        retention[when]
            .as_str()
            .is_none_or(|policy| policy == "Retain")
    };
    SetState {
        version: version(object),
        ordinals_start: number(&spec["ordinals"]["start"]),
        replicas: number(&spec["replicas"]).unwrap_or(1),
        ownership: ownership_of(object, run),
        is_terminating: is_terminating(object),
        template_hash: template_sha256(object),
        edits: String::new(),
        retains_claims: retains("whenDeleted") && retains("whenScaled"),
        min_ready: seconds(&spec["minReadySeconds"]),
    }
}

/// The UID of the controller of an object.
pub fn controller(object: &Value) -> Option<String> {
    let mut owners = entries(&object["metadata"]["ownerReferences"]);
    let controller = owners.find(|owner| owner["controller"] == true)?;
    optional(&controller["uid"])
}

/// Whether the owner with this UID controls an object.
pub fn is_controlled_by(object: &Value, uid: &str) -> bool {
    controller(object).as_deref() == Some(uid)
}

/// A pod.
pub fn pod(object: &Value) -> PodState {
    let (spec, status) = (&object["spec"], &object["status"]);
    let ready = condition(status, "Ready").filter(|ready| ready["status"] == "True");
    let claims = entries(&spec["volumes"])
        .filter_map(|volume| optional(&volume["persistentVolumeClaim"]["claimName"]));
    let labels = object["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten();
    PodState {
        version: version(object),
        controller: controller(object),
        ready_since: ready.map(|ready| time(&ready["lastTransitionTime"])),
        is_terminating: is_terminating(object),
        has_ended: matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")),
        node: optional(&spec["nodeName"]),
        claims: claims.collect(),
        grace: seconds(&spec["terminationGracePeriodSeconds"]),
        labels: labels
            .map(|(key, value)| (key.clone(), text(value)))
            .collect(),
    }
}

/// A time without a value counts as long ago: the condition is true.
fn time(value: &Value) -> Timestamp {
    let time = value.as_str().and_then(|text| text.parse().ok());
    time.unwrap_or(Timestamp::UNIX_EPOCH)
}

fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    entries(&status["conditions"]).find(|one| one["type"] == kind)
}

/// A claim.
pub fn claim(object: &Value, run: &str) -> ClaimState {
    let owners = entries(&object["metadata"]["ownerReferences"]);
    ClaimState {
        version: version(object),
        ownership: ownership_of(object, run),
        is_tombstone: object["metadata"]["labels"][names::TOMBSTONE_LABEL] == "true",
        volume: optional(&object["spec"]["volumeName"]),
        is_bound: object["status"]["phase"] == "Bound",
        is_terminating: is_terminating(object),
        owners: owners.filter_map(|owner| optional(&owner["uid"])).collect(),
    }
}

/// A PersistentVolume. A phase that is not known counts as Pending: nothing is done with it.
pub fn volume(object: &Value, run: &str) -> VolumeState {
    let spec = &object["spec"];
    let mut finalizers = entries(&object["metadata"]["finalizers"]);
    let reference = &spec["claimRef"];
    VolumeState {
        version: version(object),
        ownership: ownership_of(object, run),
        disk: disk(spec),
        phase: match object["status"]["phase"].as_str() {
            Some("Available") => VolumePhase::Available,
            Some("Bound") => VolumePhase::Bound,
            Some("Released") => VolumePhase::Released,
            Some("Failed") => VolumePhase::Failed,
            Some(_) | None => VolumePhase::Pending,
        },
        is_retained: spec["persistentVolumeReclaimPolicy"] == "Retain",
        claim: reference.is_object().then(|| ClaimReference {
            namespace: text(&reference["namespace"]),
            name: text(&reference["name"]),
            uid: optional(&reference["uid"]),
        }),
        moved_to: optional(&object["metadata"]["annotations"][names::MOVED_TO]),
        has_provisioner_finalizer: finalizers.any(|one| one == names::PROVISIONER_FINALIZER),
        is_terminating: is_terminating(object),
    }
}

/// The id of the EBS volume: the last segment of either form.
fn disk(spec: &Value) -> Option<String> {
    let in_tree = &spec["awsElasticBlockStore"]["volumeID"];
    let handle = match spec["csi"]["driver"].as_str() {
        Some("ebs.csi.aws.com") => &spec["csi"]["volumeHandle"],
        Some(_) => return None,
        None => in_tree,
    };
    disk_id(handle.as_str()?)
}

/// The volume id that a handle, an in-tree id or an entry of a node's volumesInUse ends in.
fn disk_id(text: &str) -> Option<String> {
    let last = text.rsplit(['/', '^']).next()?;
    last.starts_with("vol-").then(|| last.to_owned())
}

/// A VolumeAttachment; none if it names no volume.
pub fn attachment(object: &Value) -> Option<AttachmentState> {
    Some(AttachmentState {
        volume: optional(&object["spec"]["source"]["persistentVolumeName"])?,
        node: text(&object["spec"]["nodeName"]),
    })
}

/// A node.
pub fn node(object: &Value) -> NodeState {
    let (spec, status) = (&object["spec"], &object["status"]);
    let provider = spec["providerID"].as_str().unwrap_or_default();
    let instance = provider
        .rsplit('/')
        .next()
        .filter(|id| id.starts_with("i-"));
    let in_use = entries(&status["volumesInUse"]).filter_map(Value::as_str);
    let mounted: BTreeSet<String> = in_use.filter_map(disk_id).collect();
    let attached = entries(&status["volumesAttached"]).filter_map(|one| one["name"].as_str());
    let attached: BTreeSet<String> = attached.filter_map(disk_id).collect();
    let ready = condition(status, "Ready").filter(|ready| ready["status"] == "True");
    NodeState {
        instance: instance.map(str::to_owned),
        boot_id: text(&status["nodeInfo"]["bootID"]),
        is_ready: ready.is_some(),
        is_out_of_service: entries(&spec["taints"]).any(|taint| taint["key"] == OUT_OF_SERVICE),
        ready_since: ready.map(|ready| time(&ready["lastTransitionTime"])),
        disks_in_use: mounted.union(&attached).cloned().collect(),
        mounted: mounted.into_iter().collect(),
    }
}

/// Objects by name, as `read` sees them.
pub fn by_name<T>(objects: &[Value], read: impl Fn(&Value) -> T) -> BTreeMap<String, T> {
    objects
        .iter()
        .map(|object| (name(object), read(object)))
        .collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const RUN: &str = "0123-run";

    #[rstest]
    #[case::csi(json!({"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}}), Some("vol-1"))]
    #[case::in_tree_with_zone(
        json!({"awsElasticBlockStore": {"volumeID": "aws://eu-west-1a/vol-1"}}), Some("vol-1"))]
    #[case::in_tree_plain(json!({"awsElasticBlockStore": {"volumeID": "vol-1"}}), Some("vol-1"))]
    #[case::another_driver(
        json!({"csi": {"driver": "efs.csi.aws.com", "volumeHandle": "vol-1"}}), None)]
    #[case::nfs(json!({"nfs": {"path": "/vol-1"}}), None)]
    fn a_volume_names_its_disk(#[case] spec: Value, #[case] expected: Option<&str>) {
        let state = volume(&json!({"spec": spec}), RUN);
        assert_eq!(state.disk.as_deref(), expected);
    }

    #[rstest]
    #[case::in_use_of_csi(json!({"volumesInUse": ["kubernetes.io/csi/ebs.csi.aws.com^vol-1"]}))]
    #[case::in_use_of_in_tree(
        json!({"volumesInUse": ["kubernetes.io/aws-ebs/aws://eu-west-1a/vol-1"]}))]
    #[case::attached(
        json!({"volumesAttached": [{"name": "kubernetes.io/csi/ebs.csi.aws.com^vol-1"}]}))]
    fn a_node_names_the_disks_it_uses(#[case] status: Value) {
        assert_eq!(node(&json!({"status": status})).disks_in_use, ["vol-1"]);
    }

    #[test]
    fn only_a_kubelet_says_what_is_mounted() {
        let attached = json!([{"name": "kubernetes.io/csi/ebs.csi.aws.com^vol-2"}]);
        let in_use = json!(["kubernetes.io/csi/ebs.csi.aws.com^vol-1"]);
        let status = json!({"volumesInUse": in_use, "volumesAttached": attached});
        let state = node(&json!({"status": status}));
        assert_eq!(
            (state.mounted, state.disks_in_use),
            (vec!["vol-1".into()], vec!["vol-1".into(), "vol-2".into()])
        );
    }

    #[rstest]
    #[case::with_zone("aws:///eu-west-1a/i-1", Some("i-1"))]
    #[case::another_cloud("gce://project/zone/name", None)]
    #[case::none("", None)]
    fn a_node_names_its_instance(#[case] provider: &str, #[case] expected: Option<&str>) {
        let state = node(&json!({"spec": {"providerID": provider}}));
        assert_eq!(state.instance.as_deref(), expected);
    }

    #[rstest]
    #[case::unset(json!({}), true)]
    #[case::both(json!({"whenDeleted": "Retain", "whenScaled": "Retain"}), true)]
    #[case::deleted(json!({"whenDeleted": "Delete", "whenScaled": "Retain"}), false)]
    #[case::scaled(json!({"whenDeleted": "Retain", "whenScaled": "Delete"}), false)]
    fn a_set_retains_claims_if_both_policies_do(#[case] policy: Value, #[case] expected: bool) {
        let object = json!({"spec": {"persistentVolumeClaimRetentionPolicy": policy}});
        assert_eq!(set(&object, RUN).retains_claims, expected);
    }

    #[rstest]
    #[case::unset(json!({}), (None, 1))]
    #[case::given(json!({"replicas": 3, "ordinals": {"start": 5}}), (Some(5), 3))]
    #[case::none(json!({"replicas": 0}), (None, 0))]
    fn a_set_has_one_replica_unless_it_names_more(
        #[case] spec: Value,
        #[case] expected: (Option<i32>, i32),
    ) {
        let state = set(&json!({"spec": spec}), RUN);
        assert_eq!((state.ordinals_start, state.replicas), expected);
    }

    #[test]
    fn a_pod_is_ready_since_its_condition() {
        let condition = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"});
        let state = pod(&json!({"status": {"conditions": [condition]}}));
        assert_eq!(state.ready_since, "2030-01-01T00:00:00Z".parse().ok());
        let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        assert_eq!(pod(&unready).ready_since, None);
    }

    #[test]
    fn only_the_controller_counts_as_owner_of_a_pod() {
        let owners = json!([{"uid": "a"}, {"uid": "b", "controller": true}]);
        let state = pod(&json!({"metadata": {"ownerReferences": owners}}));
        assert_eq!(state.controller.as_deref(), Some("b"));
    }

    #[test]
    fn a_volume_may_name_its_claim_without_a_uid() {
        let spec = json!({"claimRef": {"namespace": "a", "name": "data-web-0"}});
        let state = volume(&json!({"spec": spec}), RUN);
        let expected = ClaimReference {
            namespace: "a".into(),
            name: "data-web-0".into(),
            uid: None,
        };
        assert_eq!(state.claim, Some(expected));
    }
}
