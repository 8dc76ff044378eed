//! Whether the claims of the StatefulSet are whole and used by its own pods only.

use std::collections::{BTreeMap, BTreeSet};

use api::migrate::DormantClaims;
use k8s_openapi::api::core::v1::{PersistentVolume, Pod, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::finding::{Problem, Problems};
use super::moved_claims::{SetClaim, ebs, moved_claims, set_claims, templates};
use super::source::{is_of, pod_name};
use super::survey::Survey;
use crate::migration::observation::Side;

/// How finalizers begin that Kubernetes, the attacher and the provisioner put on claims and volumes.
const EXPECTED_FINALIZERS: [&str; 3] = [
    "kubernetes.io/",
    "external-attacher/",
    "external-provisioner.volume.kubernetes.io/",
];

/// Each claim and its PersistentVolume are bound to each other alone, and stay.
pub(super) fn claim_set(survey: &Survey) -> Problems {
    let claims = moved_claims(survey)?;
    let volumes = survey
        .source
        .volumes
        .get("PersistentVolumes of the source")?;
    let names_of_disk = names_by_disk(volumes);
    let mut problems = Vec::new();
    for claim in &claims {
        let subject = claim_subject(survey, claim);
        for (found, need) in claim_defects(claim) {
            problems.push(Problem::new(&*subject, found, need));
        }
        let Some(volume) = claim.volume else { continue };
        let subject = format!("PersistentVolume {} of the source", claim.volume_name());
        for (found, need) in volume_defects(claim, volume) {
            problems.push(Problem::new(&*subject, found, need));
        }
        let id = claim.volume_id();
        let names = id.as_ref().and_then(|id| names_of_disk.get(id));
        if let Some(names) = names.filter(|names| names.len() > 1) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let found = format!("its EBS volume also in {}", names.join(", "));
            problems.push(Problem::new(
                subject,
                found,
                "one PersistentVolume for each EBS volume",
            ));
        }
    }
    Ok(problems)
}

fn names_by_disk(volumes: &[PersistentVolume]) -> BTreeMap<String, BTreeSet<String>> {
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for volume in volumes {
        if let (Ok(source), Some(name)) = (ebs(volume), &volume.metadata.name) {
            names
                .entry(source.id.to_string())
                .or_default()
                .insert(name.clone());
        }
    }
    names
}

fn claim_defects(claim: &SetClaim<'_>) -> Vec<(String, &'static str)> {
    let Some(object) = claim.claim else {
        return vec![("none".to_owned(), "a claim that is Bound")];
    };
    let mut defects = metadata_defects(&object.metadata);
    let phase = object
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    if phase != Some("Bound") {
        let phase = phase.unwrap_or("none");
        defects.push((format!("phase {phase}"), "phase Bound"));
    } else if claim.volume.is_none() {
        let found = format!(
            "PersistentVolume {:?}, which does not exist",
            claim.volume_name()
        );
        defects.push((found, "its PersistentVolume"));
    }
    defects
}

fn volume_defects(claim: &SetClaim<'_>, volume: &PersistentVolume) -> Vec<(String, &'static str)> {
    let mut defects = metadata_defects(&volume.metadata);
    let reference = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref());
    let uid = reference.and_then(|reference| reference.uid.as_deref());
    let own = claim.claim.and_then(|claim| claim.metadata.uid.as_deref());
    if uid.is_none() || uid != own {
        let found = format!("claimRef.uid {}", uid.unwrap_or("none"));
        defects.push((found, "the UID of the claim that names it"));
    }
    defects
}

fn metadata_defects(metadata: &ObjectMeta) -> Vec<(String, &'static str)> {
    let mut defects = Vec::new();
    if metadata.deletion_timestamp.is_some() {
        defects.push(("it is being deleted".to_owned(), "one that stays"));
    }
    let is_foreign = |finalizer: &&str| {
        let mut expected = EXPECTED_FINALIZERS.iter();
        !expected.any(|prefix| finalizer.starts_with(prefix))
    };
    let finalizers = metadata.finalizers.iter().flatten().map(String::as_str);
    let foreign: Vec<&str> = finalizers.filter(is_foreign).collect();
    if !foreign.is_empty() {
        let found = format!("finalizer {}", foreign.join(", "));
        defects.push((found, "those of Kubernetes and the EBS driver only"));
    }
    defects
}

/// No pod but that of its ordinal names a claim.
pub(super) fn foreign_consumer(survey: &Survey) -> Problems {
    let set = survey.set()?;
    let claims = moved_claims(survey)?;
    let pods = survey
        .source
        .pods
        .get(survey.all_of(Side::Source, "Pods"))?;
    let mut problems = Vec::new();
    for claim in &claims {
        let own = pod_name(survey, claim.ordinal);
        for pod in pods {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            let is_own = !claim.is_dormant && name == own && is_of(pod, set);
            if !is_own && claims_of(pod).contains(&claim.name) {
                let need = "no consumer but the StatefulSet's own pod";
                let subject = claim_subject(survey, claim);
                problems.push(Problem::new(subject, format!("Pod {name} uses it"), need));
            }
        }
    }
    Ok(problems)
}

/// The claims that the volumes of a pod name.
fn claims_of(pod: &Pod) -> BTreeSet<String> {
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    let claim = |volume: &Volume| match &volume.persistent_volume_claim {
        Some(source) => Some(source.claim_name.clone()),
        None => volume
            .ephemeral
            .is_some()
            .then(|| format!("{pod_name}-{}", volume.name)),
    };
    volumes.filter_map(claim).collect()
}

/// The template has no data that the run does not move.
///
/// | volume of the template                  | finding      |
/// |-----------------------------------------|--------------|
/// | named like a volumeClaimTemplate        | none         |
/// | a claim, also an ephemeral one          | yes          |
/// | hostPath                                | yes          |
/// | an EBS volume without a claim           | yes          |
/// | emptyDir on disk                        | information  |
/// | anything else                           | none         |
pub(super) fn extra_volumes(survey: &Survey) -> Problems {
    let set = survey.set()?;
    let templates = templates(set);
    let template = set
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref());
    let volumes = template
        .into_iter()
        .flat_map(|pod| pod.volumes.iter().flatten());
    let mut problems = Vec::new();
    for volume in volumes.filter(|volume| !templates.contains(&volume.name)) {
        let Some((found, is_scratch)) = local_data(volume) else {
            continue;
        };
        let set = survey.set_subject(Side::Source);
        let subject = format!("volume {} of {set}", volume.name);
        let need = "data in volumeClaimTemplates only";
        let problem = Problem::new(subject, found, need);
        problems.push(if is_scratch {
            problem.informs()
        } else {
            problem
        });
    }
    Ok(problems)
}

/// What stays behind of a volume, and whether it is lost with every pod anyway.
fn local_data(volume: &Volume) -> Option<(String, bool)> {
    if let Some(claim) = &volume.persistent_volume_claim {
        return Some((
            format!("claim {}, which does not move", claim.claim_name),
            false,
        ));
    }
    if volume.ephemeral.is_some() {
        return Some((
            "an ephemeral claim, whose data does not move".to_owned(),
            false,
        ));
    }
    if let Some(path) = &volume.host_path {
        return Some((
            format!("hostPath {}, whose data does not move", path.path),
            false,
        ));
    }
    if let Some(disk) = &volume.aws_elastic_block_store {
        return Some((
            format!("EBS volume {} without a claim", disk.volume_id),
            false,
        ));
    }
    let directory = volume.empty_dir.as_ref()?;
    let is_on_disk = directory.medium.as_deref() != Some("Memory");
    is_on_disk.then(|| ("emptyDir, which starts empty".to_owned(), true))
}

/// Claims outside the window exist only if the spec says what becomes of them.
pub(super) fn dormant_claims(survey: &Survey) -> Problems {
    match survey.spec.dormant_claims {
        DormantClaims::Move | DormantClaims::Leave => return Ok(Vec::new()),
        DormantClaims::Refuse => {}
    }
    let claims = set_claims(survey)?;
    let dormant = claims.iter().filter(|claim| claim.is_dormant);
    let problem = |claim: &SetClaim<'_>| {
        let found = "an ordinal outside the window, and dormantClaims: Refuse";
        Problem::new(claim_subject(survey, claim), found, "no such claim")
    };
    Ok(dormant.map(problem).collect())
}

/// A claim, for messages.
pub(super) fn claim_subject(survey: &Survey, claim: &SetClaim<'_>) -> String {
    survey.subject(Side::Source, "PersistentVolumeClaim", &claim.name)
}
