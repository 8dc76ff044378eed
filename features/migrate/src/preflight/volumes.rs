//! Whether the EBS volumes can move: their kind, state, size, key and tags.

use std::collections::{BTreeMap, BTreeSet};

use api::migrate::names::{
    CREATED_FOR_PVC_TAG, EBS_CLUSTER_NAME_TAG, EBS_CLUSTER_TAG, KUBERNETES_CLUSTER_TAG_PREFIX,
};
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::claims::claim_subject;
use super::finding::{Problem, Problems};
use super::moved_claims::{Disk, SetClaim, disks, ebs, moved_claims};
use super::survey::{Ec2Volume, Survey};
use crate::quantity::{display, milli};

/// Bytes of a GiB, in thousandths.
const GIB: i128 = 1000 << 30;

/// An EBS volume of a claim, for messages.
pub(super) fn disk_subject(disk: &Disk<'_>) -> String {
    format!("EBS volume {} of claim {}", disk.id, disk.claim.name)
}

/// Each PersistentVolume is an EBS volume for one node.
pub(super) fn volume_type(survey: &Survey) -> Problems {
    let mut problems = Vec::new();
    for claim in moved_claims(survey)? {
        let Some(volume) = claim.volume else { continue };
        let subject = format!("PersistentVolume {} of the source", claim.volume_name());
        if let Err(refused) = ebs(volume) {
            problems.push(Problem::refused(&*subject, &refused));
        }
        let modes = volume
            .spec
            .as_ref()
            .and_then(|spec| spec.access_modes.as_deref());
        let modes = modes.unwrap_or_default();
        let is_single = |mode: &String| matches!(&**mode, "ReadWriteOnce" | "ReadWriteOncePod");
        if modes.is_empty() || !modes.iter().all(is_single) {
            let found = format!("access modes {:?}", modes.join(", "));
            problems.push(Problem::new(
                subject,
                found,
                "ReadWriteOnce or ReadWriteOncePod",
            ));
        }
    }
    Ok(problems)
}

/// No EBS volume may be attached to several instances at once.
pub(super) fn multi_attach(survey: &Survey) -> Problems {
    let disks = disks(survey)?;
    let shared = disks
        .iter()
        .filter(|disk| disk.volume.is_some_and(|volume| volume.is_multi_attach));
    let problem = |disk: &Disk<'_>| {
        Problem::new(
            disk_subject(disk),
            "Multi-Attach enabled",
            "a volume for one instance",
        )
    };
    Ok(shared.map(problem).collect())
}

/// EC2 sees each volume, in the state that its claim implies.
///
/// | claim            | state       | attachments                                                    |
/// |------------------|-------------|----------------------------------------------------------------|
/// | of the window    | `in-use`    | one, attached, to a source node, not deleted with the instance |
/// | dormant          | `available` | none                                                           |
pub(super) fn volume_state(survey: &Survey) -> Problems {
    let disks = disks(survey)?;
    let instances = if disks.iter().any(|disk| !disk.claim.is_dormant) {
        instances(survey.source.nodes.get("nodes of the source")?)
    } else {
        BTreeSet::new()
    };
    let mut problems = Vec::new();
    for disk in &disks {
        let defect = match disk.volume {
            None => Some((
                "no volume of this id".to_owned(),
                "one in this account and region",
            )),
            Some(volume) if disk.claim.is_dormant => dormant_defect(volume),
            Some(volume) => attached_defect(volume, &instances),
        };
        if let Some((found, need)) = defect {
            problems.push(Problem::new(disk_subject(disk), found, need));
        }
    }
    Ok(problems)
}

fn dormant_defect(volume: &Ec2Volume) -> Option<(String, &'static str)> {
    if volume.state == "available" && volume.attachments.is_empty() {
        return None;
    }
    let found = format!(
        "state {}, {} attachments",
        volume.state,
        volume.attachments.len()
    );
    Some((found, "state available, as no pod uses its claim"))
}

fn attached_defect(
    volume: &Ec2Volume,
    instances: &BTreeSet<&str>,
) -> Option<(String, &'static str)> {
    let need = "state in-use with one attachment, to an instance of a source node";
    let [attachment] = &*volume.attachments else {
        let found = format!(
            "state {}, {} attachments",
            volume.state,
            volume.attachments.len()
        );
        return Some((found, need));
    };
    if volume.state != "in-use" || attachment.state != "attached" {
        let found = format!("state {}, attachment {}", volume.state, attachment.state);
        return Some((found, need));
    }
    if !instances.contains(&*attachment.instance) {
        return Some((format!("an attachment to {}", attachment.instance), need));
    }
    attachment.is_deleted_with_instance.then(|| {
        let found = format!("deleteOnTermination on {}", attachment.instance);
        (found, "deleteOnTermination false")
    })
}

/// The EC2 instances of nodes, by their providerID.
pub(crate) fn instances(nodes: &[Node]) -> BTreeSet<&str> {
    nodes.iter().filter_map(instance).collect()
}

/// The EC2 instance of a node; none for nodes that are no instance.
pub(super) fn instance(node: &Node) -> Option<&str> {
    let id = node.spec.as_ref()?.provider_id.as_deref()?;
    let instance = id.strip_prefix("aws://")?.rsplit('/').next()?;
    instance.starts_with("i-").then_some(instance)
}

/// No claim is being resized.
pub(super) fn claim_resize(survey: &Survey) -> Problems {
    let claims = moved_claims(survey)?;
    let problem = |claim: &SetClaim<'_>| {
        let found = resize(claim.claim?)?;
        Some(Problem::new(
            claim_subject(survey, claim),
            found,
            "no resize in progress",
        ))
    };
    Ok(claims.iter().filter_map(problem).collect())
}

fn resize(claim: &PersistentVolumeClaim) -> Option<String> {
    let status = claim.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let running = conditions.find(|condition| {
        let is_resize = matches!(&*condition.type_, "Resizing" | "FileSystemResizePending");
        is_resize && condition.status == "True"
    });
    if let Some(condition) = running {
        return Some(format!("condition {}", condition.type_));
    }
    let resources = claim.spec.as_ref()?.resources.as_ref()?;
    let requested = milli(storage(resources.requests.as_ref())?)?;
    let capacity = milli(storage(status.capacity.as_ref())?)?;
    (requested > capacity).then(|| {
        format!(
            "a request of {} over {}",
            display(requested),
            display(capacity)
        )
    })
}

fn storage(amounts: Option<&BTreeMap<String, Quantity>>) -> Option<&Quantity> {
    amounts?.get("storage")
}

/// No EBS volume is being modified.
pub(super) fn modification(survey: &Survey) -> Problems {
    let disks = disks(survey)?;
    if disks.is_empty() {
        return Ok(Vec::new());
    }
    let subject = "modifications of the EBS volumes";
    let states = match survey.ec2.modifications.get(subject) {
        Ok(states) => states,
        // The permission is optional: without it this rule only reports.
        Err(unread) if matches!(unread.obstacle, super::reading::Obstacle::Denied(_)) => {
            let need = "ec2:DescribeVolumesModifications to see whether one is in progress";
            return Ok(vec![
                Problem::new(subject, unread.obstacle.found(), need).informs(),
            ]);
        }
        Err(unread) => return Err(unread),
    };
    let problem = |disk: &Disk<'_>| {
        let state = states.get(&disk.id)?;
        let is_over = matches!(&**state, "completed" | "failed");
        let found = format!("a modification in state {state}");
        (!is_over).then(|| Problem::new(disk_subject(disk), found, "none in progress"))
    };
    Ok(disks.iter().filter_map(problem).collect())
}

/// No EBS volume is smaller than its PersistentVolume.
pub(super) fn size(survey: &Survey) -> Problems {
    let disks = disks(survey)?;
    let problem = |disk: &Disk<'_>| {
        let spec = disk.claim.volume?.spec.as_ref()?;
        let capacity = milli(storage(spec.capacity.as_ref())?)?;
        let size = i128::from(disk.volume?.size_gib) * GIB;
        let need = format!(
            "at least {}, the capacity of its PersistentVolume",
            display(capacity)
        );
        (size < capacity).then(|| Problem::new(disk_subject(disk), display(size), need))
    };
    Ok(disks.iter().filter_map(problem).collect())
}

/// The destination uses the key of each encrypted volume already.
pub(super) fn kms_key(survey: &Survey) -> Problems {
    let disks = disks(survey)?;
    let encrypted = disks.iter().filter_map(|disk| {
        let volume = disk.volume.filter(|volume| volume.is_encrypted)?;
        Some((disk, volume.kms_key.as_deref().unwrap_or("unknown")))
    });
    let encrypted: Vec<_> = encrypted.collect();
    if encrypted.is_empty() {
        return Ok(Vec::new());
    }
    let subject = "EBS volumes on instances of the destination";
    let there = survey.ec2.at_destination.get(subject)?;
    let used: BTreeSet<&str> = there
        .iter()
        .filter_map(|volume| volume.kms_key.as_deref())
        .collect();
    let unproven = encrypted.into_iter().filter(|(_, key)| !used.contains(key));
    let problem = |(disk, key): (&Disk<'_>, &str)| {
        let need = "a volume with the same key on an instance of the destination";
        of_ordinal(disk, format!("KMS key {key}"), need)
    };
    Ok(unproven.map(problem).collect())
}

/// The tags of each volume let the driver of the destination attach it.
///
/// | `ebs.csi.aws.com/cluster: true` or a claim's name | a cluster's name | fence names | passes |
/// |----------------------------------------------------|------------------|-------------|--------|
/// | no                                                 | any              | any         | no     |
/// | yes                                                | no               | any         | yes    |
/// | yes                                                | yes              | unset       | no     |
/// | yes                                                | yes              | set         | yes    |
pub(super) fn volume_tags(survey: &Survey) -> Problems {
    let mut problems = Vec::new();
    for disk in disks(survey)? {
        let Some(volume) = disk.volume else { continue };
        let tags = &volume.tags;
        let is_driven = tags
            .get(EBS_CLUSTER_TAG)
            .is_some_and(|value| value == "true");
        if !is_driven && !tags.contains_key(CREATED_FOR_PVC_TAG) {
            let found = format!("neither tag {EBS_CLUSTER_TAG}=true nor {CREATED_FOR_PVC_TAG}");
            let need = "one, or the driver's IAM policy may not cover the volume";
            problems.push(of_ordinal(&disk, found, need));
        }
        if survey.spec.fence_names().is_none()
            && let Some(tag) = cluster_tag(tags)
        {
            let need = "no cluster's name, or fence.sourceClusterName and fence.destClusterName";
            problems.push(of_ordinal(&disk, format!("tag {tag}"), need));
        }
    }
    Ok(problems)
}

/// The tag that names a cluster.
fn cluster_tag(tags: &BTreeMap<String, String>) -> Option<String> {
    let is_name =
        |key: &str| key == EBS_CLUSTER_NAME_TAG || key.starts_with(KUBERNETES_CLUSTER_TAG_PREFIX);
    let (key, value) = tags.iter().find(|(key, _)| is_name(key))?;
    Some(format!("{key}={value}"))
}

fn of_ordinal(disk: &Disk<'_>, found: String, need: &str) -> Problem {
    Problem::new(disk_subject(disk), found, need).of_ordinal(disk.claim.ordinal)
}
