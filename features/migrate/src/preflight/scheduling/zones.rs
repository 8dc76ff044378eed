//! Whether each zone that pods arrive in has a node for them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;

use super::{arriving_pod, misfit, name};
use crate::preflight::finding::{Problem, Problems};
use crate::preflight::moved_claims::{Disk, disks, ebs};
use crate::preflight::reading::Unread;
use crate::preflight::survey::Survey;
use crate::preflight::volumes::disk_subject;
use crate::translate::Document;
use crate::translate::zone::{ZoneRefusal, node_affinity};

/// Keys of a node's zone, the first that is there counts.
const ZONE_KEYS: [&str; 3] = [
    crate::translate::zone::ZONE,
    "topology.ebs.csi.aws.com/zone",
    "failure-domain.beta.kubernetes.io/zone",
];

/// The PersistentVolume of each disk names the zone that EC2 shows, or none.
pub(in crate::preflight) fn zones_agree(survey: &Survey) -> Problems {
    let disagreeing = disks(survey)?.into_iter().filter_map(|disk| {
        let refusal = disagreement(&disk)?;
        Some(Problem::refused(disk_subject(&disk), &refusal))
    });
    Ok(disagreeing.collect())
}

fn disagreement(disk: &Disk<'_>) -> Option<ZoneRefusal> {
    let volume = disk.claim.volume?;
    let in_tree_zone = ebs(volume).ok()?.zone;
    let value = serde_json::to_value(volume).expect("a PersistentVolume is JSON");
    let document = Document::read(value).ok()?;
    node_affinity(&document, in_tree_zone.as_deref(), &disk.volume?.zone).err()
}

/// The ordinals of the window by the zones of their disks, as EC2 shows them.
pub(super) fn arrivals(survey: &Survey) -> Result<BTreeMap<String, BTreeSet<i32>>, Unread> {
    let mut zones: BTreeMap<String, BTreeSet<i32>> = BTreeMap::new();
    for disk in disks(survey)? {
        if let (Some(volume), false) = (disk.volume, disk.claim.is_dormant) {
            zones
                .entry(volume.zone.clone())
                .or_default()
                .insert(disk.claim.ordinal);
        }
    }
    Ok(zones)
}

/// A zone and the ordinals that arrive in it, for messages.
pub(super) fn zone_subject(zone: &str, ordinals: &BTreeSet<i32>) -> String {
    let ordinals: Vec<String> = ordinals.iter().map(i32::to_string).collect();
    format!(
        "zone {zone} of the destination (ordinals {})",
        ordinals.join(", ")
    )
}

/// The nodes of a zone.
pub(super) fn in_zone<'a>(nodes: &'a [Node], zone: &'a str) -> impl Iterator<Item = &'a Node> + 'a {
    nodes.iter().filter(move |node| zone_of(node) == Some(zone))
}

fn zone_of(node: &Node) -> Option<&str> {
    let labels = node.metadata.labels.as_ref()?;
    let mut values = ZONE_KEYS.iter().filter_map(|key| labels.get(*key));
    values.next().map(String::as_str)
}

/// In each zone that pods arrive in, a node can take one of them now.
pub(in crate::preflight) fn node_in_zone(survey: &Survey) -> Problems {
    let arrivals = arrivals(survey)?;
    if arrivals.is_empty() {
        return Ok(Vec::new());
    }
    let nodes = survey.destination.nodes.get("nodes of the destination")?;
    let pods = survey.destination.pods.get("pods of the destination")?;
    let pod = arriving_pod(survey)?;
    let mut problems = Vec::new();
    for (zone, ordinals) in &arrivals {
        let mut misfits = Vec::new();
        let mut nodes = in_zone(nodes, zone);
        let fits = nodes.any(|node| match misfit(&pod, node, pods) {
            None => true,
            Some(misfit) => {
                misfits.push(format!("{} ({misfit})", name(node)));
                false
            }
        });
        if fits {
            continue;
        }
        let found = match misfits.len() {
            0 => "no node".to_owned(),
            _ => format!("no node that fits: {}", misfits.join(", ")),
        };
        let need = "a Ready, schedulable node that fits the pod template";
        problems.push(Problem::new(zone_subject(zone, ordinals), found, need));
    }
    Ok(problems)
}
