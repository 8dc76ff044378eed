//! Whether the StatefulSet at the source is at rest: whole, current and healthy.

use api::migrate::Strategy;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod};

use super::finding::{Problem, Problems};
use super::moved_claims::window;
use super::reading::Unread;
use super::survey::{OrdinalsSupport, Survey};
use crate::migration::observation::Side;

const REVISION: &str = "controller-revision-hash";

/// The StatefulSet exists, stays, and its controller has seen its spec.
pub(super) fn stateful_set(survey: &Survey) -> Problems {
    let subject = survey.set_subject(Side::Source);
    let Some(set) = survey.source.set.get(&*subject)? else {
        return Ok(vec![Problem::new(subject, "none", "one to move")]);
    };
    if set.metadata.deletion_timestamp.is_some() {
        return Ok(vec![Problem::new(
            subject,
            "it is being deleted",
            "one that stays",
        )]);
    }
    let generation = set.metadata.generation.unwrap_or(0);
    let observed = set
        .status
        .as_ref()
        .and_then(|status| status.observed_generation);
    if observed == Some(generation) {
        return Ok(Vec::new());
    }
    let found = format!("observedGeneration {}", observed.unwrap_or(0));
    Ok(vec![Problem::new(subject, found, generation.to_string())])
}

/// The source's server accepts `spec.ordinals`, if the spec asks for the strategy that needs it.
///
/// | strategy    | a dry run of the release shows | passes                      |
/// |-------------|--------------------------------|-----------------------------|
/// | Window      | ordinals                       | yes                         |
/// | Window      | no ordinals, or a refusal      | no                          |
/// | OrphanAdopt | any                            | yes                         |
/// | unset       | any answer                     | yes: the answer chooses one |
/// | unset       | no answer                      | no                          |
pub(super) fn ordinals_at_source(survey: &Survey) -> Problems {
    let subject = format!("API server of the {}", Side::Source);
    match survey.spec.strategy {
        Some(Strategy::OrphanAdopt) => Ok(Vec::new()),
        None => chosen_strategy(survey).map(|_| Vec::new()),
        Some(Strategy::Window) => {
            let support = survey.source.ordinals.get(&*subject)?;
            Ok(without_ordinals(subject, support))
        }
    }
}

/// The destination's server accepts `spec.ordinals`, if the StatefulSet needs the field.
pub(super) fn ordinals_at_destination(survey: &Survey) -> Problems {
    if window(survey.set()?).start == 0 {
        return Ok(Vec::new());
    }
    let subject = format!("API server of the {}", Side::Destination);
    let support = survey.destination.ordinals.get(&*subject)?;
    Ok(without_ordinals(subject, support))
}

fn without_ordinals(subject: String, support: &OrdinalsSupport) -> Vec<Problem> {
    let found = match support {
        OrdinalsSupport::Echoed => return Vec::new(),
        OrdinalsSupport::Dropped => "a dry run whose answer lacks spec.ordinals.start".to_owned(),
        OrdinalsSupport::Refused(message) => format!("a refused dry run ({message})"),
    };
    let need = "a server that accepts spec.ordinals.start of StatefulSets";
    vec![Problem::new(subject, found, need)]
}

/// The strategy of the run: that of the spec, else Window where the source's server has ordinals.
///
/// # Errors
/// If the spec names none and the server's answer is missing.
pub fn chosen_strategy(survey: &Survey) -> Result<Strategy, Unread> {
    if let Some(strategy) = survey.spec.strategy {
        return Ok(strategy);
    }
    let subject = format!("API server of the {}", Side::Source);
    Ok(match survey.source.ordinals.get(subject)? {
        OrdinalsSupport::Echoed => Strategy::Window,
        OrdinalsSupport::Dropped | OrdinalsSupport::Refused(_) => Strategy::OrphanAdopt,
    })
}

/// Whether the source's server has shown that it accepts `spec.ordinals`.
pub fn has_ordinals(survey: &Survey) -> bool {
    let support = survey.source.ordinals.get("API server of the source");
    matches!(support, Ok(OrdinalsSupport::Echoed))
}

/// The pods of the window by ordinal; none for a pod that does not exist.
fn pods<'a>(survey: &'a Survey, set: &StatefulSet) -> Result<Vec<(i32, Option<&'a Pod>)>, Unread> {
    let subject = survey.all_of(Side::Source, "Pods");
    let pods = survey.source.pods.get(subject)?;
    let pod = |ordinal| {
        let name = pod_name(survey, ordinal);
        let pod = pods
            .iter()
            .find(|pod| pod.metadata.name.as_ref() == Some(&name));
        (ordinal, pod)
    };
    Ok(window(set).ordinals().map(pod).collect())
}

/// The name of the pod of an ordinal.
pub(super) fn pod_name(survey: &Survey, ordinal: i32) -> String {
    format!("{}-{ordinal}", survey.spec.stateful_set_name)
}

/// No rollout is under way.
pub(super) fn rollout(survey: &Survey) -> Problems {
    let set = survey.set()?;
    let status = set.status.as_ref();
    let current = status.and_then(|status| status.current_revision.as_deref());
    let update = status.and_then(|status| status.update_revision.as_deref());
    if current != update {
        let found = format!("revision {}", current.unwrap_or("none"));
        let need = format!("updateRevision {}", update.unwrap_or("none"));
        let subject = survey.set_subject(Side::Source);
        return Ok(vec![Problem::new(subject, found, need)]);
    }
    let mut problems = Vec::new();
    for (ordinal, pod) in pods(survey, set)? {
        let Some(pod) = pod else { continue };
        let labels = pod.metadata.labels.as_ref();
        let revision = labels
            .and_then(|labels| labels.get(REVISION))
            .map(String::as_str);
        if revision != update {
            let subject = survey.subject(Side::Source, "Pod", &pod_name(survey, ordinal));
            let found = format!("revision {}", revision.unwrap_or("none"));
            let need = format!("revision {}", update.unwrap_or("none"));
            problems.push(Problem::new(subject, found, need));
        }
    }
    Ok(problems)
}

/// Every pod of the window and its node are Ready. A finding for each ordinal.
///
/// | pod                                             | finding |
/// |-------------------------------------------------|---------|
/// | none                                            | yes     |
/// | not of the StatefulSet                          | yes     |
/// | being deleted                                   | yes     |
/// | not Ready                                       | yes     |
/// | Ready, its node gone or not Ready               | yes     |
/// | Ready, its node Ready                           | no      |
pub(super) fn health(survey: &Survey) -> Problems {
    let set = survey.set()?;
    let pods = pods(survey, set)?;
    if pods.is_empty() {
        return Ok(Vec::new());
    }
    let nodes = survey.source.nodes.get("nodes of the source")?;
    let mut problems = Vec::new();
    for (ordinal, pod) in pods {
        if let Some((found, need)) = illness(pod, set, nodes) {
            let subject = survey.subject(Side::Source, "Pod", &pod_name(survey, ordinal));
            problems.push(Problem::new(subject, found, need).of_ordinal(ordinal));
        }
    }
    Ok(problems)
}

fn illness(pod: Option<&Pod>, set: &StatefulSet, nodes: &[Node]) -> Option<(String, &'static str)> {
    const READY: &str = "a Ready pod on a Ready node";
    let Some(pod) = pod else {
        return Some(("none".to_owned(), READY));
    };
    if !is_of(pod, set) {
        let found = "a pod that this StatefulSet does not control".to_owned();
        return Some((found, "its own pod"));
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return Some(("it is being deleted".to_owned(), READY));
    }
    if !is_ready(pod) {
        return Some(("condition Ready is not True".to_owned(), READY));
    }
    let name = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.node_name.as_deref())?;
    let node = nodes
        .iter()
        .find(|node| node.metadata.name.as_deref() == Some(name));
    match node {
        None => Some((format!("node {name}, which does not exist"), READY)),
        Some(node) if !is_node_ready(node) => {
            Some((format!("node {name}, which is not Ready"), READY))
        }
        Some(_) => None,
    }
}

/// Whether the StatefulSet controls the pod.
pub(super) fn is_of(pod: &Pod, set: &StatefulSet) -> bool {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    owners.any(|owner| {
        owner.controller == Some(true) && Some(&owner.uid) == set.metadata.uid.as_ref()
    })
}

/// Whether the pod's condition Ready is True.
pub(super) fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let mut conditions = status
        .and_then(|status| status.conditions.as_ref())
        .into_iter()
        .flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Whether the node's condition Ready is True.
pub(super) fn is_node_ready(node: &Node) -> bool {
    let status = node.status.as_ref();
    let mut conditions = status
        .and_then(|status| status.conditions.as_ref())
        .into_iter()
        .flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
