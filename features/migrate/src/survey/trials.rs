//! Dry runs of what the run would create at the destination.

use std::collections::BTreeSet;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use serde_json::Value;

use super::classify::{Trial, reading, trial};
use super::reader::{Collection, Reader};
use crate::preflight::admission::rendered_pod;
use crate::preflight::dependencies::missing;
use crate::preflight::moved_claims::{moved_claims, window};
use crate::preflight::reading::{Obstacle, Reading, Unread};
use crate::preflight::survey::{DryRun, Survey};
use crate::preflight::translated::{arriving_pair, arriving_set};

/// A create to try.
#[derive(Debug, Clone, PartialEq)]
struct Attempt {
    /// The object, for messages.
    subject: String,
    of: Collection,
    body: Value,
    /// Whether it is the pod of the template.
    is_pod: bool,
}

/// What the dry runs gave.
#[derive(Default)]
pub(super) struct Tried {
    pub(super) dry_runs: Reading<Vec<DryRun>>,
    /// The pod as the server would admit it.
    pub(super) admitted_pod: Option<Pod>,
}

/// Tries every create of the run. Nothing is tried while a part that decides what to try is not read.
pub(super) async fn try_all(reader: &Reader, survey: &Survey) -> Tried {
    let Ok(Some(attempts)) = attempts(survey) else {
        return Tried::default();
    };
    let answers = attempts.iter().map(async |attempt| {
        let answer = reader.try_create(&attempt.of, &attempt.body).await;
        (attempt, trial(answer))
    });
    let mut admitted_pod = None;
    let mut results = Vec::new();
    for (attempt, answer) in join_all(answers).await {
        if let (true, Ok(Trial::Accepted(pod))) = (attempt.is_pod, &answer) {
            admitted_pod = serde_json::from_value(pod.clone()).ok();
        }
        results.push(answer.map(|answer| dry_run(attempt, answer)));
    }
    let results: Result<Vec<Option<DryRun>>, Obstacle> = results.into_iter().collect();
    Tried {
        dry_runs: reading(results.map(|results| results.into_iter().flatten().collect())),
        admitted_pod,
    }
}

/// None for a name that was used since the objects were listed: the next survey finds the object itself.
fn dry_run(attempt: &Attempt, answer: Trial<Value>) -> Option<DryRun> {
    let refusal = match answer {
        Trial::Accepted(_) => None,
        Trial::Refused(message) => Some(message),
        Trial::Exists => return None,
    };
    Some(DryRun {
        subject: attempt.subject.clone(),
        refusal,
    })
}

/// What is tried. None if there is no StatefulSet, or no namespace for it.
///
/// | object                    | tried unless                                         |
/// |---------------------------|------------------------------------------------------|
/// | PersistentVolume, claim   | one of its name exists, or it cannot be translated   |
/// | StatefulSet               | one of its name exists                               |
/// | Pod                       | never: it has a name that the server makes           |
///
/// What exists under a name is the subject of other checks.
fn attempts(survey: &Survey) -> Result<Option<Vec<Attempt>>, Unread> {
    let source = survey.source.set.get("StatefulSet of the source")?;
    let namespace = survey.destination.namespace.get("Namespace")?;
    let (Some(source), Some(_)) = (source, namespace) else {
        return Ok(None);
    };
    let mut attempts = of_claims(survey)?;
    let own = Some(&*survey.spec.dest_namespace);
    let Some(set) = arriving_set(survey, source, 0) else {
        return Ok(None);
    };
    let exists = survey
        .destination
        .set
        .get("StatefulSet of the destination")?;
    if exists.is_none() {
        attempts.push(Attempt {
            subject: set.title(),
            of: Collection::of::<StatefulSet>(own),
            body: set.value().clone(),
            is_pod: false,
        });
    }
    attempts.extend(set.typed().ok().map(|set| of_pod(survey, &set)));
    Ok(Some(attempts))
}

fn of_claims(survey: &Survey) -> Result<Vec<Attempt>, Unread> {
    let own = Some(&*survey.spec.dest_namespace);
    let destination = &survey.destination;
    let volumes = destination.volumes.get("PersistentVolumes")?.iter();
    let volumes: BTreeSet<_> = volumes
        .map(|volume| volume.metadata.name.as_deref())
        .collect();
    let claims = destination.claims.get("PersistentVolumeClaims")?.iter();
    let claims: BTreeSet<_> = claims.map(|claim| claim.metadata.name.as_deref()).collect();
    let mut attempts = Vec::new();
    for claim in moved_claims(survey)? {
        let Some(pair) = arriving_pair(survey, &claim)? else {
            continue;
        };
        if !volumes.contains(&Some(pair.volume.name())) {
            attempts.push(Attempt {
                subject: pair.volume.title(),
                of: Collection::of::<PersistentVolume>(None),
                body: pair.volume.into_value(),
                is_pod: false,
            });
        }
        if !claims.contains(&Some(pair.claim.name())) {
            attempts.push(Attempt {
                subject: pair.claim.title(),
                of: Collection::of::<PersistentVolumeClaim>(own),
                body: pair.claim.into_value(),
                is_pod: false,
            });
        }
    }
    Ok(attempts)
}

fn of_pod(survey: &Survey, set: &StatefulSet) -> Attempt {
    let namespace = &survey.spec.dest_namespace;
    let pod = rendered_pod(set, namespace, &missing(&survey.arrival.dependencies));
    let name = &survey.spec.stateful_set_name;
    Attempt {
        subject: format!("Pod {namespace}/{name}-{}", window(set).start),
        of: Collection::of::<Pod>(Some(namespace)),
        body: serde_json::to_value(pod).expect("a Kubernetes object is JSON"),
        is_pod: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::fixture::{self, by};
    use rstest::rstest;

    const PODS: &str = "Pod store/web-0";
    const SETS: &str = "StatefulSet store/web";

    #[rstest]
    #[case::nothing_is_there(by(|_| {}), Some(&["PersistentVolume pv-0", "PersistentVolumeClaim store/data-web-0",
        SETS, PODS][..]))]
    #[case::the_set_is_there(by(|s| s.destination.set = Reading::Read(Some(StatefulSet::default()))),
        Some(&["PersistentVolume pv-0", "PersistentVolumeClaim store/data-web-0", PODS][..]))]
    #[case::the_claim_is_there(by(|s| s.destination.claims = s.source.claims.clone()),
        Some(&["PersistentVolume pv-0", SETS, PODS][..]))]
    #[case::no_disk_in_ec2(by(|s| s.ec2.volumes = Reading::Read([].into())), Some(&[SETS, PODS][..]))]
    #[case::disks_not_read(by(|s| s.ec2.volumes = Reading::NotRead), None)]
    #[case::no_set(by(|s| s.source.set = Reading::Read(None)), None)]
    #[case::no_namespace(by(|s| s.destination.namespace = Reading::Read(None)), None)]
    fn what_does_not_exist_is_tried(
        #[case] edit: fixture::Edit,
        #[case] expected: Option<&[&str]>,
    ) {
        let mut survey = fixture::survey();
        edit(&mut survey);
        let attempts = attempts(&survey).ok().flatten();
        let subjects = attempts.as_ref().map(|attempts| {
            let subjects = attempts.iter().map(|attempt| &*attempt.subject);
            subjects.collect::<Vec<&str>>()
        });
        assert_eq!(subjects.as_deref(), expected);
    }

    #[test]
    fn a_foreign_volume_of_the_name_is_not_in_the_way() {
        let mut survey = fixture::survey();
        survey.destination.volumes = survey.source.volumes.clone();
        let attempts = attempts(&survey).unwrap().unwrap();
        let volume = &attempts[0].subject;
        assert!(volume.starts_with("PersistentVolume pv-0-"), "{volume}");
    }
}
