//! The record of a run at its beginning, from what the checks have seen. Pure.

use std::collections::BTreeMap;

use api::migrate::{
    ClaimRecord, DormantClaims, NodeRecord, OrdinalRecord, StatefulSetMigrationStatus, Window,
};
use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::Value;

use super::documents::Documents;
use super::extract;
use super::rendered::templates;
use crate::translate::Document;
use crate::translate::names::ClaimNames;

/// The record of `before` with everything that a run remembers of the source as it is now.
///
/// | recorded                                      | from                                            |
/// |-----------------------------------------------|-------------------------------------------------|
/// | both cluster identities                       | kube-system                                     |
/// | UID, window, retention policy                 | the StatefulSet of the source                   |
/// | an ordinal of the window                      | its claims, its pod and the pod's node          |
/// | an ordinal outside of it                      | claims named like the set, if these are to move |
/// | a claim                                       | its volume, disk, zone and reclaim policy       |
#[must_use]
pub fn begun(
    before: &StatefulSetMigrationStatus,
    source: &Documents,
    destination: &Documents,
    set: &Document<StatefulSet>,
    zones: &BTreeMap<String, String>,
    dormant: DormantClaims,
) -> StatefulSetMigrationStatus {
    let seen = extract::set(set.value(), "");
    let templates = templates(set);
    let names = ClaimNames {
        stateful_set: set.name(),
        templates: &templates,
    };
    let window = seen.window();
    let mut ordinals: BTreeMap<i32, OrdinalRecord> = window
        .ordinals()
        .map(|ordinal| (ordinal, ordinal_record(ordinal, source, set.name())))
        .collect();
    let is_moved = |ordinal| window.contains(ordinal) || dormant == DormantClaims::Move;
    let position = |name: &str| {
        let of_set = names.parse(name);
        of_set.and_then(|of_set| templates.iter().position(|one| *one == of_set.template))
    };
    let mut claims: Vec<&Value> = source.claims.iter().collect();
    claims.sort_by_key(|claim| position(&extract::name(claim)));
    for claim in claims {
        let name = extract::name(claim);
        if let (Some(of_set), Some(record)) = (
            names.parse(&name).filter(|of_set| is_moved(of_set.ordinal)),
            claim_record(claim, source, zones),
        ) {
            let ordinal = ordinals.entry(of_set.ordinal);
            let ordinal = ordinal.or_insert_with(|| OrdinalRecord {
                ordinal: of_set.ordinal,
                ..OrdinalRecord::default()
            });
            ordinal.claims.push(record);
        }
    }
    let claims = ordinals.values().flat_map(|ordinal| &ordinal.claims);
    let preserved_pvs = claims.map(|claim| claim.source_pv.clone()).collect();
    let policy = set.field("/spec/persistentVolumeClaimRetentionPolicy");
    StatefulSetMigrationStatus {
        source_cluster_uid: source.identity.clone(),
        dest_cluster_uid: destination.identity.clone(),
        source_stateful_set_uid: set.uid().map(str::to_owned),
        window: Some(Window {
            start: window.start,
            replicas: window.replicas,
            had_ordinals: seen.ordinals_start.is_some(),
        }),
        total_replicas: Some(window.replicas),
        retention_policy: policy.and_then(|policy| serde_json::from_value(policy.clone()).ok()),
        preserved_pvs,
        ordinals: ordinals.into_values().collect(),
        ..before.clone()
    }
}

fn ordinal_record(ordinal: i32, source: &Documents, set: &str) -> OrdinalRecord {
    let name = format!("{set}-{ordinal}");
    let pod = source.pods.iter().find(|pod| extract::name(pod) == name);
    let pod = pod.map(extract::pod);
    let node = pod.as_ref().and_then(|pod| pod.node.clone()).map(|name| {
        let mut nodes = source.nodes.iter();
        let state = nodes
            .find(|node| extract::name(node) == name)
            .map(extract::node);
        let state = state.unwrap_or_default();
        NodeRecord {
            name,
            instance: state.instance,
            boot_id: Some(state.boot_id).filter(|id| !id.is_empty()),
        }
    });
    OrdinalRecord {
        ordinal,
        source_pod_uid: pod.map(|pod| pod.version.uid),
        node,
        ..OrdinalRecord::default()
    }
}

/// None for a claim that is not bound to an EBS volume: a check names it.
fn claim_record(
    claim: &Value,
    source: &Documents,
    zones: &BTreeMap<String, String>,
) -> Option<ClaimRecord> {
    let volume = claim["spec"]["volumeName"].as_str()?;
    let volume = source
        .volumes
        .iter()
        .find(|one| extract::name(one) == volume)?;
    let disk = extract::volume(volume, "").disk?;
    let policy = volume["spec"]["persistentVolumeReclaimPolicy"].as_str();
    Some(ClaimRecord {
        name: extract::name(claim),
        source_pv: extract::name(volume),
        source_pv_uid: super::documents::version(volume).uid,
        reclaim_policy: policy.unwrap_or("Retain").to_owned(),
        zone: zones.get(&disk).cloned(),
        volume_id: disk,
        ..ClaimRecord::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_are_in_the_order_of_the_templates() {
        let template = |name: &str| json!({"metadata": {"name": name}});
        let set = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"},
            "spec": {"replicas": 1, "volumeClaimTemplates": [template("logs"), template("data")]},
        });
        let claim = |name: &str| json!({"metadata": {"name": name}, "spec": {"volumeName": format!("pv-{name}")}});
        let volume = |name: &str, disk: &str| {
            json!({
                "metadata": {"name": format!("pv-{name}")},
                "spec": {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": disk}},
            })
        };
        let source = Documents {
            claims: vec![claim("data-web-0"), claim("logs-web-0")],
            volumes: vec![
                volume("data-web-0", "vol-0000000a"),
                volume("logs-web-0", "vol-0000000b"),
            ],
            ..Documents::default()
        };
        let begun = begun(
            &StatefulSetMigrationStatus::default(),
            &source,
            &Documents::default(),
            &Document::read(set).expect("it is a StatefulSet"),
            &BTreeMap::new(),
            DormantClaims::Move,
        );
        let disks = begun.ordinals[0]
            .claims
            .iter()
            .map(|claim| &*claim.volume_id);
        assert_eq!(disks.collect::<Vec<_>>(), ["vol-0000000b", "vol-0000000a"]);
    }
}
