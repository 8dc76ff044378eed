//! Whether EC2 may be used as the run needs it, and is the destination's too.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;

use super::access::needed_calls;
use super::finding::{Problem, Problems};
use super::survey::Survey;
use super::volumes::instance;

const REGION: &str = "topology.kubernetes.io/region";

/// EC2 allows every call that the run makes.
pub(super) fn ec2_access(survey: &Survey) -> Problems {
    let subject = "credentials for EC2";
    let allowed = survey.ec2.allowed.get(subject)?;
    let needed = needed_calls(&survey.spec);
    let missing: Vec<&str> = needed
        .iter()
        .filter(|call| !allowed.contains(*call))
        .map(|call| call.as_str())
        .collect();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let found = format!("no permission for {}", missing.join(", "));
    Ok(vec![Problem::new(subject, found, "all of these")])
}

/// EC2 shows a volume, the root disk at least, on the instance of every node of the destination.
pub(super) fn same_account(survey: &Survey) -> Problems {
    let nodes = survey.destination.nodes.get("nodes of the destination")?;
    let instances: Vec<(&Node, &str)> = nodes
        .iter()
        .filter_map(|node| Some((node, instance(node)?)))
        .collect();
    let need = "an instance in the account and region of the EBS volumes";
    if instances.is_empty() {
        let found = "none with the providerID of an EC2 instance";
        return Ok(vec![Problem::new("nodes of the destination", found, need)]);
    }
    let volumes = survey
        .ec2
        .at_destination
        .get("EBS volumes on instances of the destination")?;
    let attachments = volumes.iter().flat_map(|volume| &volume.attachments);
    let seen: BTreeSet<&str> = attachments
        .map(|attachment| &*attachment.instance)
        .collect();
    let mut problems = Vec::new();
    for (node, instance) in instances {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let subject = format!("node {name} of the destination ({instance})");
        let labels = node.metadata.labels.as_ref();
        let region = labels.and_then(|labels| labels.get(REGION));
        match region.filter(|region| **region != survey.ec2.region) {
            Some(region) => {
                let need = format!("region {}", survey.ec2.region);
                problems.push(Problem::new(subject, format!("region {region}"), need));
            }
            None if seen.contains(instance) => {}
            None => problems.push(Problem::new(subject, "no root disk in EC2", need)),
        }
    }
    Ok(problems)
}
