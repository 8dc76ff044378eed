//! Whether the nodes of each zone can attach the disks that arrive there.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::{CSINode, CSINodeDriver, VolumeAttachment};

use super::zones::{arrivals, in_zone, zone_subject};
use super::{arriving_pod, name, unsuitable};
use crate::preflight::finding::{Problem, Problems};
use crate::preflight::moved_claims::templates;
use crate::preflight::survey::Survey;
use crate::translate::volume_id::DRIVER;

/// The destination has the driver of EBS.
pub(in crate::preflight) fn driver(survey: &Survey) -> Problems {
    let subject = format!("CSIDriver {DRIVER} of the destination");
    let driver = survey.arrival.driver.get(&*subject)?;
    Ok(match driver {
        Some(_) => Vec::new(),
        None => vec![Problem::new(subject, "none", "the EBS driver")],
    })
}

/// In each zone that pods arrive in, the driver runs on a node.
pub(in crate::preflight) fn driver_in_zones(survey: &Survey) -> Problems {
    let arrivals = arrivals(survey)?;
    if arrivals.is_empty() {
        return Ok(Vec::new());
    }
    let nodes = survey.destination.nodes.get("nodes of the destination")?;
    let csi_nodes = survey
        .arrival
        .csi_nodes
        .get("CSINodes of the destination")?;
    let drivers = drivers(csi_nodes);
    let without = arrivals.iter().filter(|(zone, _)| {
        let mut nodes = in_zone(nodes, zone);
        !nodes.any(|node| drivers.contains_key(name(node)))
    });
    let problem = |(zone, ordinals): (&String, &BTreeSet<i32>)| {
        let found = format!("no CSINode with driver {DRIVER}");
        Problem::new(zone_subject(zone, ordinals), found, "one at least")
    };
    Ok(without.map(problem).collect())
}

/// In each zone, the nodes have room for the disks of all pods that arrive there.
///
/// The disks of one pod need slots on the same node, so slots that remain beside whole pods do not count.
pub(in crate::preflight) fn attach_limit(survey: &Survey) -> Problems {
    let arrivals = arrivals(survey)?;
    let claims = templates(survey.set()?).len();
    if arrivals.is_empty() || claims == 0 {
        return Ok(Vec::new());
    }
    let nodes = survey.destination.nodes.get("nodes of the destination")?;
    let csi_nodes = survey
        .arrival
        .csi_nodes
        .get("CSINodes of the destination")?;
    let attachments = survey
        .arrival
        .attachments
        .get("VolumeAttachments of the destination")?;
    let pod = arriving_pod(survey)?;
    let drivers = drivers(csi_nodes);
    let mut problems = Vec::new();
    for (zone, ordinals) in &arrivals {
        let suitable = in_zone(nodes, zone).filter(|node| unsuitable(&pod, node).is_none());
        let free: Vec<Option<usize>> = suitable
            .filter_map(|node| drivers.get(name(node)).map(|driver| (node, *driver)))
            .map(|(node, driver)| free_slots(node, driver, attachments))
            .collect();
        // A driver without a limit takes any number.
        if free.iter().any(Option::is_none) {
            continue;
        }
        let free = free.into_iter().flatten();
        let (slots, pods) = free.fold((0, 0), |(slots, pods), free| {
            (slots + free, pods + free / claims)
        });
        if pods < ordinals.len() {
            let found = format!("{slots} free attachment slots, enough for {pods} pods");
            let need = format!("{claims} on one node for each of {} pods", ordinals.len());
            problems.push(Problem::new(zone_subject(zone, ordinals), found, need));
        }
    }
    Ok(problems)
}

/// The EBS driver of each node that has one.
fn drivers(csi_nodes: &[CSINode]) -> BTreeMap<&str, &CSINodeDriver> {
    let of_node = csi_nodes.iter().filter_map(|node| {
        let mut drivers = node.spec.drivers.iter();
        let driver = drivers.find(|driver| driver.name == DRIVER)?;
        Some((node.metadata.name.as_deref()?, driver))
    });
    of_node.collect()
}

/// How many disks more the node takes; none if the driver sets no limit.
fn free_slots(
    node: &Node,
    driver: &CSINodeDriver,
    attachments: &[VolumeAttachment],
) -> Option<usize> {
    let limit = driver.allocatable.as_ref()?.count?;
    let used = attachments.iter().filter(|attachment| {
        attachment.spec.attacher == DRIVER && attachment.spec.node_name == name(node)
    });
    Some(
        usize::try_from(limit)
            .unwrap_or(0)
            .saturating_sub(used.count()),
    )
}
