//! What people should know before the run, and what never stops it.

use k8s_openapi::api::core::v1::PodSecurityContext;

use super::claims::claim_subject;
use super::finding::{Problem, Problems};
use super::moved_claims::{SetClaim, moved_claims, window};
use super::survey::{Snapshot, Survey};
use crate::migration::observation::Side;

const RETAIN: &str = "Retain";

/// The retention policy of the StatefulSet, which the run changes.
pub(super) fn retention_policy(survey: &Survey) -> Problems {
    let spec = survey.set()?.spec.as_ref();
    let policy = spec.and_then(|spec| spec.persistent_volume_claim_retention_policy.as_ref());
    let Some(policy) = policy else {
        return Ok(Vec::new());
    };
    let fields = [
        ("whenDeleted", &policy.when_deleted),
        ("whenScaled", &policy.when_scaled),
    ];
    let deleting = fields.into_iter().filter_map(|(field, value)| {
        let value = value.as_deref().filter(|value| *value != RETAIN)?;
        Some(format!(
            "persistentVolumeClaimRetentionPolicy.{field} {value}"
        ))
    });
    let subject = survey.set_subject(Side::Source);
    let need = "Retain, which the run sets until it ends";
    Ok(deleting
        .map(|found| Problem::new(&*subject, found, need))
        .collect())
}

/// The reclaim policies of the volumes, which the run changes.
pub(super) fn reclaim_policies(survey: &Survey) -> Problems {
    let mut problems = Vec::new();
    for claim in moved_claims(survey)? {
        let spec = claim.volume.and_then(|volume| volume.spec.as_ref());
        let policy = spec.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
        if let Some(policy) = policy.filter(|policy| *policy != RETAIN) {
            let subject = format!("PersistentVolume {} of the source", claim.volume_name());
            let need = "Retain, which the run sets on both sides";
            problems.push(Problem::new(
                subject,
                format!("reclaim policy {policy}"),
                need,
            ));
        }
    }
    Ok(problems)
}

/// VolumeSnapshots of the claims, which stay at the source.
pub(super) fn backups(survey: &Survey) -> Problems {
    let snapshots = survey
        .snapshots
        .get(survey.all_of(Side::Source, "VolumeSnapshots"))?;
    let claims = moved_claims(survey)?;
    let of_claims = snapshots.iter().filter_map(|snapshot| {
        let claim = claims.iter().find(|claim| claim.name == snapshot.claim)?;
        Some((snapshot, claim))
    });
    let problem = |(snapshot, claim): (&Snapshot, &SetClaim<'_>)| {
        let found = format!("VolumeSnapshot {}, which does not move", snapshot.name);
        Problem::new(
            claim_subject(survey, claim),
            found,
            "backups at the destination",
        )
    };
    Ok(of_claims.map(problem).collect())
}

/// Pods that may look for each other across the clusters.
pub(super) fn peers(survey: &Survey) -> Problems {
    let set = survey.set()?;
    let count = window(set).ordinals().count();
    let service = set
        .spec
        .as_ref()
        .and_then(|spec| spec.service_name.as_deref());
    let Some(service) = service.filter(|service| !service.is_empty() && count > 1) else {
        return Ok(Vec::new());
    };
    let found = format!("{count} pods that may find each other by Service {service}");
    let need = "names that resolve in both clusters, or pods that do without their peers";
    Ok(vec![Problem::new(
        survey.set_subject(Side::Source),
        found,
        need,
    )])
}

/// Settings by which a pod with many files starts slowly.
pub(super) fn slow_start(survey: &Survey) -> Problems {
    let spec = survey.set()?.spec.as_ref();
    let template = spec.and_then(|spec| spec.template.spec.as_ref());
    let context = template.and_then(|pod| pod.security_context.as_ref());
    let changes_all_files = |context: &&PodSecurityContext| {
        let policy = context.fs_group_change_policy.as_deref();
        context.fs_group.is_some() && policy != Some("OnRootMismatch")
    };
    let Some(context) = context.filter(changes_all_files) else {
        return Ok(Vec::new());
    };
    let policy = context
        .fs_group_change_policy
        .as_deref()
        .unwrap_or("Always");
    let found = format!("fsGroup with fsGroupChangePolicy {policy}");
    let need = "OnRootMismatch, or the start changes the group of every file";
    Ok(vec![Problem::new(
        survey.set_subject(Side::Source),
        found,
        need,
    )])
}
