//! Whether the destination has room for the names, the classes and the Service of the StatefulSet.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kernel::Ownership;

use super::finding::{Problem, Problems};
use super::moved_claims::{SetClaim, ebs, moved_claims};
use super::reading::{Reading, Unread};
use super::survey::Survey;
use super::translated::{different_pair_fields, different_set_fields, volume_name};
use crate::migration::observation::Side;
use crate::record::RECORD_LIMIT;
use crate::record::marker::ownership;
use crate::record::names::{capture_name, lock_name};
use crate::translate::classes::ClassMapping;

/// The annotation by which a class was named before its field.
const LEGACY_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// Most characters of a name.
const NAME_LIMIT: usize = 253;

/// The destination has no StatefulSet of the name, or that of this run.
///
/// | StatefulSet of the name | its fields      | passes |
/// |-------------------------|-----------------|--------|
/// | none                    |                 | yes    |
/// | ours                    | as translated   | yes    |
/// | ours                    | others          | no     |
/// | of another run, nobody  | any             | no     |
pub(super) fn dest_stateful_set(survey: &Survey) -> Problems {
    let subject = survey.set_subject(Side::Destination);
    let Some(live) = survey.destination.set.get(&*subject)? else {
        return Ok(Vec::new());
    };
    let owner = ownership(live.metadata.annotations.as_ref(), &survey.run);
    let found = match foreign(owner) {
        Some(found) => found,
        None => match different_set_fields(survey, survey.set()?, live) {
            fields if fields.is_empty() => return Ok(Vec::new()),
            fields => format!("our own with other values in {}", fields.join(", ")),
        },
    };
    Ok(vec![Problem::new(subject, found, NO_OTHER)])
}

const NO_OTHER: &str = "none but that of this run";

/// What a foreign object is; none if it is ours.
fn foreign(owner: Ownership) -> Option<String> {
    match owner {
        Ownership::Ours => None,
        Ownership::Foreign(run) => Some(format!("one of run {run}")),
        Ownership::Unmarked => Some("one that this run did not make".to_owned()),
    }
}

/// The destination has no claim of the names, or those of this run.
pub(super) fn dest_claims(survey: &Survey) -> Problems {
    let subject = survey.all_of(Side::Destination, "PersistentVolumeClaims");
    let live = survey.destination.claims.get(subject)?;
    let mut problems = Vec::new();
    for claim in moved_claims(survey)? {
        let of_name =
            |live: &&PersistentVolumeClaim| live.metadata.name.as_ref() == Some(&claim.name);
        let Some(live) = live.iter().find(of_name) else {
            continue;
        };
        let subject = survey.subject(Side::Destination, "PersistentVolumeClaim", &claim.name);
        let owner = ownership(live.metadata.annotations.as_ref(), &survey.run);
        let found = match foreign(owner) {
            Some(found) => Some(found),
            None => other_fields(different_pair_fields(survey, &claim, None, Some(live))?),
        };
        problems.extend(found.map(|found| Problem::new(subject, found, NO_OTHER)));
    }
    Ok(problems)
}

/// The destination has no PersistentVolume of the EBS volumes, or those of this run.
pub(super) fn dest_volumes(survey: &Survey) -> Problems {
    let volumes = survey
        .destination
        .volumes
        .get("PersistentVolumes of the destination")?;
    let mut problems = Vec::new();
    for claim in moved_claims(survey)? {
        let Some(id) = claim.volume_id() else {
            continue;
        };
        let of_id =
            |live: &&PersistentVolume| ebs(live).is_ok_and(|source| source.id.as_str() == id);
        for live in volumes.iter().filter(of_id) {
            let name = live.metadata.name.as_deref().unwrap_or_default();
            let owner = ownership(live.metadata.annotations.as_ref(), &survey.run);
            let found = match foreign(owner) {
                Some(found) => Some(format!("{found}, with EBS volume {id}")),
                None => other_fields(different_pair_fields(survey, &claim, Some(live), None)?),
            };
            let subject = format!("PersistentVolume {name} of the destination");
            problems.extend(found.map(|found| Problem::new(subject, found, NO_OTHER)));
        }
    }
    Ok(problems)
}

fn other_fields(fields: Vec<String>) -> Option<String> {
    let list = fields.join(", ");
    (!fields.is_empty()).then(|| format!("our own with other values in {list}"))
}

/// Every name that the run derives is one that Kubernetes accepts.
pub(super) fn names(survey: &Survey) -> Problems {
    let set = &survey.spec.stateful_set_name;
    let mut names = vec![
        format!("ConfigMap {}", lock_name(set)),
        format!("Secret {}", capture_name(set, &survey.run)),
    ];
    for claim in moved_claims(survey)? {
        names.push(format!("PersistentVolumeClaim {}", claim.name));
        if let Ok(volumes) = survey.destination.volumes.get("") {
            let name = volume_name(survey, &claim, volumes);
            names.extend(name.map(|name| format!("PersistentVolume {name}")));
        }
    }
    let is_invalid = |subject: &String| {
        let name = subject.split_once(' ').map_or("", |(_, name)| name);
        !is_subdomain(name)
    };
    let problem = |subject: String| {
        let need = format!("a DNS subdomain of at most {NAME_LIMIT} characters");
        Problem::new(subject, "a name that Kubernetes refuses", need)
    };
    Ok(names.into_iter().filter(is_invalid).map(problem).collect())
}

fn is_subdomain(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label = |label: &str| {
        let has_edges = !label.starts_with('-') && !label.ends_with('-');
        !label.is_empty() && has_edges && label.chars().all(is_inner)
    };
    name.len() <= NAME_LIMIT && name.split('.').all(is_label)
}

/// The records of the run fit into their objects.
pub(super) fn records(survey: &Survey) -> Problems {
    let of_set = |record: &str| format!("{record} of {}", survey.set_subject(Side::Source));
    let sizes = survey.records.get(of_set("capture and journal"))?;
    let sizes = [("capture", sizes.capture), ("journal", sizes.journal)];
    let large = sizes.into_iter().filter(|(_, size)| *size > RECORD_LIMIT);
    let problem = |(record, size): (&str, usize)| {
        let need = format!("{RECORD_LIMIT} bytes at most");
        Problem::new(of_set(record), format!("{size} bytes"), need)
    };
    Ok(large.map(problem).collect())
}

/// The Service that gives the pods their names exists, or the StatefulSet names none.
pub(super) fn headless_service(survey: &Survey) -> Problems {
    let name = survey
        .set()?
        .spec
        .as_ref()
        .and_then(|spec| spec.service_name.as_deref());
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(Vec::new());
    };
    let subject = survey.subject(Side::Destination, "Service", name);
    let service = survey.arrival.service.get(&*subject)?;
    let address = service.as_ref().map(|service| {
        let spec = service.spec.as_ref();
        spec.and_then(|spec| spec.cluster_ip.as_deref())
            .unwrap_or_default()
    });
    Ok(match address {
        Some("None") => Vec::new(),
        Some(_) => vec![Problem::new(
            subject,
            "one with a cluster IP",
            "clusterIP None",
        )],
        None => vec![Problem::new(
            subject,
            "none",
            "the headless Service of the StatefulSet",
        )],
    })
}

/// The classes of templates, claims and volumes exist at the destination under their new names.
pub(super) fn storage_classes(survey: &Survey) -> Problems {
    let mapping = ClassMapping::new(survey.spec.storage_class_mapping.clone());
    let named = Classes::of(survey)?;
    let renamed = named
        .storage
        .iter()
        .map(|class| mapping.renamed(class).to_owned());
    absent(
        "StorageClass",
        renamed.collect(),
        &survey.arrival.storage_classes,
    )
}

/// The same for VolumeAttributesClasses, which are never renamed.
pub(super) fn attributes_classes(survey: &Survey) -> Problems {
    let named = Classes::of(survey)?.attributes;
    absent(
        "VolumeAttributesClass",
        named,
        &survey.arrival.attributes_classes,
    )
}

fn absent(kind: &str, named: BTreeSet<String>, existing: &Reading<BTreeSet<String>>) -> Problems {
    let named: Vec<String> = named
        .into_iter()
        .filter(|class| !class.is_empty())
        .collect();
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let subject = |class: &str| format!("{kind} {class} of the {}", Side::Destination);
    let existing = existing.get(subject(&named.join(", ")))?;
    let absent = named.iter().filter(|class| !existing.contains(*class));
    let problem = |class: &String| Problem::new(subject(class), "none", "one for later claims");
    Ok(absent.map(problem).collect())
}

/// The classes that the set names, before they are renamed.
struct Classes {
    storage: BTreeSet<String>,
    attributes: BTreeSet<String>,
}

impl Classes {
    fn of(survey: &Survey) -> Result<Self, Unread> {
        let claims = moved_claims(survey)?;
        let templates = templates_of(survey.set()?);
        let of_claims = templates
            .iter()
            .chain(claims.iter().filter_map(|claim| claim.claim));
        let specs: Vec<_> = of_claims
            .clone()
            .filter_map(|claim| claim.spec.as_ref())
            .collect();
        let volumes = claims
            .iter()
            .filter_map(|claim: &SetClaim<'_>| claim.volume?.spec.as_ref());
        let legacy = of_claims.filter_map(|claim| {
            let annotations = claim.metadata.annotations.as_ref()?;
            annotations.get(LEGACY_CLASS).cloned()
        });
        let mut classes = Self {
            storage: legacy.collect(),
            attributes: BTreeSet::new(),
        };
        for spec in specs {
            classes.storage.extend(spec.storage_class_name.clone());
            classes
                .attributes
                .extend(spec.volume_attributes_class_name.clone());
        }
        for spec in volumes {
            classes.storage.extend(spec.storage_class_name.clone());
            classes
                .attributes
                .extend(spec.volume_attributes_class_name.clone());
        }
        Ok(classes)
    }
}

fn templates_of(set: &StatefulSet) -> &[PersistentVolumeClaim] {
    let spec = set.spec.as_ref();
    let templates = spec.and_then(|spec| spec.volume_claim_templates.as_deref());
    templates.unwrap_or_default()
}
