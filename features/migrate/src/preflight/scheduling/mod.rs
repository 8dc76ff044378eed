//! Whether pods of the StatefulSet can run on nodes of the destination.
//!
//! ```text
//! node ─▶ Ready, schedulable ─▶ selectors ─▶ taints ─▶ requests ─▶ attachments
//! ```

mod attachments;
mod requests;
mod selectors;
mod taints;
mod zones;

#[cfg(test)]
mod tests;

use std::fmt;

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};

use super::reading::Unread;
use super::source::is_node_ready;
use super::survey::Survey;
use crate::quantity::{display, milli};

pub(super) use attachments::{attach_limit, driver, driver_in_zones};
pub(super) use requests::{Amounts, add, limits, requests};
pub(super) use zones::{node_in_zone, zones_agree};

/// Why a pod cannot run on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Misfit {
    NotReady,
    Unschedulable,
    Labels,
    Taint(String),
    Resource {
        name: String,
        free: i128,
        need: i128,
    },
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady => f.write_str("not Ready"),
            Self::Unschedulable => f.write_str("unschedulable"),
            Self::Labels => f.write_str("labels do not match nodeSelector or node affinity"),
            Self::Taint(taint) => write!(f, "taint {taint}"),
            Self::Resource { name, free, need } => {
                write!(
                    f,
                    "{name} {} free of {} requested",
                    display(*free),
                    display(*need)
                )
            }
        }
    }
}

/// Why the pod cannot run on the node, however empty the node is.
fn unsuitable(pod: &PodSpec, node: &Node) -> Option<Misfit> {
    if !is_node_ready(node) {
        return Some(Misfit::NotReady);
    }
    let spec = node.spec.clone().unwrap_or_default();
    if spec.unschedulable == Some(true) {
        return Some(Misfit::Unschedulable);
    }
    let labels = node.metadata.labels.clone().unwrap_or_default();
    if !selectors::accepts(pod, name(node), &labels) {
        return Some(Misfit::Labels);
    }
    let taint = taints::untolerated(pod, spec.taints.as_deref().unwrap_or_default())?;
    let value = taint.value.as_deref().unwrap_or_default();
    let equals = if value.is_empty() { "" } else { "=" };
    Some(Misfit::Taint(format!(
        "{}{equals}{value}:{}",
        taint.key, taint.effect
    )))
}

/// Why the pod cannot run on the node now, besides the pods that are there.
fn misfit(pod: &PodSpec, node: &Node, pods: &[Pod]) -> Option<Misfit> {
    if let Some(misfit) = unsuitable(pod, node) {
        return Some(misfit);
    }
    let used = requests::of_node(pods.iter(), name(node));
    let status = node.status.as_ref();
    let allocatable = status.and_then(|status| status.allocatable.as_ref());
    let mut needed = requests(pod);
    needed.insert("pods".to_owned(), 1000);
    needed.into_iter().find_map(|(name, need)| {
        let total = allocatable.and_then(|amounts| milli(amounts.get(&name)?));
        let free = total.unwrap_or(0) - used.get(&name).copied().unwrap_or(0);
        (need > free.max(0)).then_some(Misfit::Resource { name, free, need })
    })
}

/// The pod that arrives: as admission at the destination completed it, else as the template has it.
pub(super) fn arriving_pod(survey: &Survey) -> Result<PodSpec, Unread> {
    let admitted = survey.arrival.admitted_pod.as_ref();
    if let Some(spec) = admitted.and_then(|pod| pod.spec.clone()) {
        return Ok(spec);
    }
    let spec = survey.set()?.spec.as_ref();
    Ok(spec
        .and_then(|spec| spec.template.spec.clone())
        .unwrap_or_default())
}

fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}
