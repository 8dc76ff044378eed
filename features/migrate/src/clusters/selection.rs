//! The objects that concern a run, of all that a cluster has. Pure.
//!
//! A cluster may have thousands of pods and volumes. A run that would parse all of them in every pass would
//! need more time than its moves, and would store them all in its capture.

use std::collections::BTreeSet;

use engine::Kind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::interests::{CurrentOrdinals, Interest, is_claim_of, set_of_pod};
use super::watched::{Watched, revision_kind};
use crate::migration::extract;

/// The texts of objects, by kind.
pub(super) struct Texts<'a> {
    pub(super) pods: Vec<&'a str>,
    pub(super) claims: Vec<&'a str>,
    pub(super) budgets: Vec<&'a str>,
    pub(super) revisions: Vec<&'a str>,
    pub(super) volumes: Vec<&'a str>,
    pub(super) attachments: Vec<&'a str>,
    pub(super) nodes: Vec<&'a str>,
}

/// The objects that concern a run, by kind.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Selected {
    pub(super) pods: Vec<Value>,
    pub(super) claims: Vec<Value>,
    pub(super) budgets: Vec<Value>,
    pub(super) revisions: Vec<Value>,
    pub(super) volumes: Vec<Value>,
    pub(super) attachments: Vec<Value>,
    pub(super) nodes: Vec<Value>,
}

/// | object             | concerns the run if                                                          |
/// |--------------------|------------------------------------------------------------------------------|
/// | pod                | it is, or uses a claim, of the StatefulSet; with a budget there: any         |
/// | claim              | its name is that of a claim of the StatefulSet                               |
/// | budget             | always                                                                       |
/// | revision           | its name begins with that of the StatefulSet                                 |
/// | PersistentVolume   | the run has it or its disk, or its claim is one of the StatefulSet           |
/// | VolumeAttachment   | its volume concerns the run                                                  |
/// | node               | always; only the fields that a run depends on                                |
///
/// A budget may count pods of others, so all must be there.
pub(super) fn selected(interest: &Interest, texts: &Texts<'_>) -> Selected {
    let start = format!("{}-", interest.set);
    let of_set = |text: &&&str| text.contains(&start);
    let budgets = parsed(&Watched::Budgets.kind(), texts.budgets.iter());
    let pods = if budgets.is_empty() {
        let mut pods = parsed(&Watched::Pods.kind(), texts.pods.iter().filter(of_set));
        pods.retain(|pod| is_pod_of(&interest.set, pod));
        pods
    } else {
        parsed(&Watched::Pods.kind(), texts.pods.iter())
    };
    let mut claims = parsed(&Watched::Claims.kind(), texts.claims.iter().filter(of_set));
    claims.retain(|claim| is_claim_of(&interest.set, &extract::name(claim)));
    let mut revisions = parsed(&revision_kind(), texts.revisions.iter().filter(of_set));
    revisions.retain(|revision| extract::name(revision).starts_with(&start));
    let volumes = volumes(interest, &texts.volumes);
    let names = volumes.iter().map(extract::name);
    let names: BTreeSet<String> = names.chain(interest.volumes.iter().cloned()).collect();
    let may_concern = |text: &&&str| names.iter().any(|name| text.contains(&**name));
    let attachments = texts.attachments.iter().filter(may_concern);
    let mut attachments = parsed(&Watched::Attachments.kind(), attachments);
    attachments.retain(|one| {
        extract::attachment(one).is_some_and(|attachment| names.contains(&attachment.volume))
    });
    Selected {
        pods,
        claims,
        budgets,
        revisions,
        volumes,
        attachments,
        nodes: texts.nodes.iter().filter_map(|text| node(text)).collect(),
    }
}

fn volumes(interest: &Interest, texts: &[&str]) -> Vec<Value> {
    let start = format!("{}-", interest.set);
    let may_concern = |text: &&&str| {
        let mut ids = interest.volumes.iter().chain(&interest.disks);
        // Many StatefulSets may have the same name.
        let is_of_claim = text.contains(&start) && text.contains(&interest.namespace);
        is_of_claim || ids.any(|id| text.contains(&**id))
    };
    let mut volumes = parsed(&Watched::Volumes.kind(), texts.iter().filter(may_concern));
    volumes.retain(|volume| {
        let claim = &volume["spec"]["claimRef"];
        let is_of_claim = claim["namespace"] == *interest.namespace
            && is_claim_of(&interest.set, claim["name"].as_str().unwrap_or_default());
        let disk = extract::volume(volume, "").disk;
        is_of_claim
            || interest.volumes.contains(&extract::name(volume))
            || disk.is_some_and(|disk| interest.disks.contains(&disk))
    });
    volumes
}

/// The nodes of the pods of these ordinals, and those that the ordinals have left.
pub(super) fn current_nodes(
    interest: &Interest,
    current: &CurrentOrdinals,
    pods: &[&str],
) -> BTreeSet<String> {
    let ordinals = current.ordinals.iter();
    let names: Vec<String> = ordinals
        .map(|ordinal| format!("{}-{ordinal}", interest.set))
        .collect();
    let may_concern = |text: &&&str| names.iter().any(|name| text.contains(&**name));
    let pods = parsed(&Watched::Pods.kind(), pods.iter().filter(may_concern));
    let pods = pods
        .iter()
        .filter(|pod| names.contains(&extract::name(pod)));
    let nodes = pods.filter_map(|pod| extract::pod(pod).node);
    nodes.chain(current.nodes.iter().cloned()).collect()
}

/// Whether a pod is one of the StatefulSet, or uses one of its claims.
pub(super) fn is_pod_of(set: &str, pod: &Value) -> bool {
    let mut claims = extract::pod(pod).claims.into_iter();
    set_of_pod(&extract::name(pod)) == Some(set) || claims.any(|claim| is_claim_of(set, &claim))
}

/// The API server leaves out apiVersion and kind in lists.
fn parsed<'t, 's: 't>(kind: &Kind, texts: impl Iterator<Item = &'t &'s str>) -> Vec<Value> {
    let objects = texts.filter_map(|text| serde_json::from_str::<Value>(text).ok());
    let typed = objects.map(|mut object| {
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.kind.clone().into();
        object
    });
    typed.collect()
}

/// The fields of a node that a run depends on. Its list of images alone has kilobytes.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeFields {
    metadata: NodeMetadata,
    #[serde(default)]
    spec: NodeSpec,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Serialize, Deserialize)]
struct NodeMetadata {
    name: String,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct NodeSpec {
    #[serde(rename = "providerID")]
    provider_id: Value,
    taints: Value,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct NodeStatus {
    conditions: Value,
    node_info: Value,
    volumes_in_use: Value,
    volumes_attached: Value,
}

/// A node with the fields that a run depends on.
fn node(text: &str) -> Option<Value> {
    let fields: NodeFields = serde_json::from_str(text).ok()?;
    serde_json::to_value(fields).ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn interest() -> Interest {
        Interest {
            namespace: "db".to_owned(),
            set: "web".to_owned(),
            volumes: BTreeSet::from(["pv-a".to_owned()]),
            disks: BTreeSet::from(["vol-a".to_owned()]),
            current: None,
        }
    }

    fn names(objects: &[Value]) -> Vec<String> {
        objects.iter().map(extract::name).collect()
    }

    /// The objects of one kind; there are no others.
    fn of_kind(watched: Watched, objects: &[Value]) -> Selected {
        let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
        let of = |kind| {
            let texts = texts.iter().map(String::as_str);
            texts.filter(|_| kind == watched).collect()
        };
        let texts = Texts {
            pods: of(Watched::Pods),
            claims: of(Watched::Claims),
            budgets: of(Watched::Budgets),
            revisions: Vec::new(),
            volumes: of(Watched::Volumes),
            attachments: of(Watched::Attachments),
            nodes: of(Watched::Nodes),
        };
        selected(&interest(), &texts)
    }

    fn named(name: &str, spec: Value) -> Value {
        json!({"metadata": {"name": name, "namespace": "db"}, "spec": spec})
    }

    fn using(claim: &str) -> Value {
        json!({"volumes": [{"persistentVolumeClaim": {"claimName": claim}}]})
    }

    #[test]
    fn pods_of_the_set_and_users_of_its_claims_are_selected() {
        let pods = [
            named("web-0", json!({})),
            named("web-api-0", json!({})),
            named("backup", using("data-web-1")),
            named("other", using("data-other-web")),
        ];
        let selected = of_kind(Watched::Pods, &pods).pods;
        assert_eq!(names(&selected), ["web-0", "backup"]);
        assert_eq!(selected[0]["apiVersion"], "v1");
        assert_eq!(selected[0]["kind"], "Pod");
    }

    #[test]
    fn with_a_budget_all_pods_are_selected() {
        let pod = named("other-0", json!({})).to_string();
        let budget = named("budget", json!({})).to_string();
        let texts = Texts {
            pods: vec![&pod],
            claims: Vec::new(),
            budgets: vec![&budget],
            revisions: Vec::new(),
            volumes: Vec::new(),
            attachments: Vec::new(),
            nodes: Vec::new(),
        };
        let selected = selected(&interest(), &texts);
        assert_eq!(names(&selected.pods), ["other-0"]);
    }

    #[test]
    fn claims_named_like_the_set_are_selected() {
        let claims =
            ["data-web-0", "data-web-12", "data-web-api-0", "web-0"].map(|n| named(n, json!({})));
        let selected = of_kind(Watched::Claims, &claims).claims;
        assert_eq!(names(&selected), ["data-web-0", "data-web-12"]);
    }

    #[rstest]
    #[case::of_its_claim("x", json!({"claimRef": {"namespace": "db", "name": "data-web-0"}}), true)]
    #[case::of_another_namespace(
        "x", json!({"claimRef": {"namespace": "a", "name": "data-web-0"}}), false)]
    #[case::of_another_claim("x", json!({"claimRef": {"namespace": "db", "name": "cache"}}), false)]
    #[case::by_name("pv-a", json!({}), true)]
    #[case::by_disk(
        "x", json!({"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-a"}}), true)]
    #[case::another_disk(
        "x", json!({"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-ab"}}), false)]
    fn a_volume_is_selected(#[case] name: &str, #[case] spec: Value, #[case] expected: bool) {
        let selected = of_kind(Watched::Volumes, &[named(name, spec)]).volumes;
        assert_eq!(selected.len() == 1, expected);
    }

    #[test]
    fn attachments_of_selected_volumes_are_selected() {
        let of =
            |name: &str, pv: &str| named(name, json!({"source": {"persistentVolumeName": pv}}));
        let attachments = [of("one", "pv-a"), of("other", "pv-b")];
        let selected = of_kind(Watched::Attachments, &attachments).attachments;
        assert_eq!(names(&selected), ["one"]);
    }

    #[test]
    fn the_nodes_of_current_ordinals_are_those_of_their_pods_and_of_the_record() {
        let on = |pod: &str, node: &str| named(pod, json!({"nodeName": node})).to_string();
        let pods = [
            on("web-1", "a"),
            on("web-2", "b"),
            on("web-12", "c"),
            on("x-web-1", "d"),
        ];
        let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
        let current = CurrentOrdinals {
            ordinals: BTreeSet::from([0, 1]),
            nodes: BTreeSet::from(["left".to_owned()]),
        };
        let nodes = current_nodes(&interest(), &current, &pods);
        assert_eq!(Vec::from_iter(nodes), ["a", "left"]);
    }

    #[test]
    fn a_node_has_the_fields_that_a_run_depends_on() {
        let node = json!({
            "metadata": {"name": "n", "labels": {"a": "b"}},
            "spec": {"providerID": "aws:///a/i-1", "podCIDR": "10.0.0.0/24",
                "taints": [{"key": "node.kubernetes.io/out-of-service"}]},
            "status": {"images": [{"names": ["a"]}], "nodeInfo": {"bootID": "b"},
                "conditions": [{"type": "Ready", "status": "True"}],
                "volumesInUse": ["kubernetes.io/csi/ebs.csi.aws.com^vol-1"],
                "volumesAttached": [{"name": "kubernetes.io/csi/ebs.csi.aws.com^vol-2"}]},
        });
        let selected = of_kind(Watched::Nodes, std::slice::from_ref(&node)).nodes;
        assert_eq!(extract::node(&selected[0]), extract::node(&node));
        assert_eq!(selected[0]["status"].get("images"), None);
    }
}
