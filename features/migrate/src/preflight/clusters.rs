//! Whether both clusters may be used, and are those that are meant.

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kernel::Ownership;

use super::access::needed;
use super::finding::{Problem, Problems};
use super::moved_claims::moved_claims;
use super::survey::{KubeconfigState, Survey};
use crate::migration::observation::Side;
use crate::record::marker;

/// The kubeconfig of one side may be used.
pub(super) fn kubeconfig(survey: &Survey, side: Side) -> Problems {
    let reference = match side {
        Side::Source => &survey.spec.source_cluster,
        Side::Destination => &survey.spec.dest_cluster,
    };
    let secret = format!(
        "Secret {}/{}",
        survey.namespace, reference.kube_config_secret
    );
    let subject = format!("kubeconfig of the {side} in {secret}");
    let found = match survey.cluster(side).kubeconfig.get(&*subject)? {
        KubeconfigState::Accepted => return Ok(Vec::new()),
        KubeconfigState::NoSecret => "no Secret of this name".to_owned(),
        KubeconfigState::NoKey => format!("no key {}", reference.key()),
        KubeconfigState::Refused(why) => why.clone(),
    };
    let need = "an https server, its CA and a token or client certificate, all inline";
    Ok(vec![Problem::new(subject, found, need)])
}

/// The login of one side may do what the run does there.
pub(super) fn permissions(survey: &Survey, side: Side) -> Problems {
    let subject = format!("login of the {side}");
    let allowed = survey.cluster(side).allowed.get(&*subject)?;
    let missing: Vec<String> = needed(side, survey.namespace_at(side))
        .into_iter()
        .filter(|access| !allowed.contains(access))
        .map(|access| access.to_string())
        .collect();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let found = format!("no permission to {}", missing.join(", "));
    Ok(vec![Problem::new(subject, found, "all of these")])
}

/// The clusters are two.
pub(super) fn different_clusters(survey: &Survey) -> Problems {
    let uid = |side: Side| {
        let subject = format!("namespace kube-system of the {side}");
        survey.cluster(side).uid.get(subject)
    };
    let (source, destination) = (uid(Side::Source)?, uid(Side::Destination)?);
    if source != destination {
        return Ok(Vec::new());
    }
    let found = format!("one cluster, kube-system UID {source}");
    let subject = "source and destination cluster";
    Ok(vec![Problem::new(subject, found, "two clusters")])
}

/// A cluster is the one on record.
pub(super) fn pinned_cluster(survey: &Survey, side: Side) -> Problems {
    let cluster = survey.cluster(side);
    let Some(pinned) = &cluster.pinned_uid else {
        return Ok(Vec::new());
    };
    let subject = format!("{side} cluster");
    let uid = cluster.uid.get(&*subject)?;
    if uid == pinned {
        return Ok(Vec::new());
    }
    let found = format!("kube-system UID {uid}");
    Ok(vec![Problem::new(subject, found, pinned.clone())])
}

/// No other run has the lock of the StatefulSet's name, not even one that has ended.
pub(super) fn lock(survey: &Survey, side: Side) -> Problems {
    let name = crate::record::names::lock_name(&survey.spec.stateful_set_name);
    let subject = survey.subject(side, "ConfigMap", &name);
    let Some(holder) = survey.cluster(side).lock.get(&*subject)? else {
        return Ok(Vec::new());
    };
    if holder.run == survey.run {
        return Ok(Vec::new());
    }
    let state = if holder.is_released {
        "released, but still there"
    } else {
        "active"
    };
    let found = format!(
        "the lock of migration {} (run {}, management cluster {}), {state}",
        holder.migration, holder.run, holder.cluster
    );
    Ok(vec![Problem::new(subject, found, "no lock of another run")])
}

/// No other run has its marker on what moves.
///
/// | marker of another run | mark of an object that arrived by a run | foreign |
/// |-----------------------|-----------------------------------------|---------|
/// | no                    | any                                     | no      |
/// | yes                   | no                                      | yes     |
/// | yes                   | yes                                     | no      |
///
/// In the last row the run ended here: while it is under way, or keeps its source, its lock is here too.
pub(super) fn markers(survey: &Survey) -> Problems {
    let set = survey.set()?;
    let mut problems = Vec::new();
    let mut judge = |subject: String, metadata: &ObjectMeta, has_arrived: bool| {
        let owner = marker::ownership(metadata.annotations.as_ref(), &survey.run);
        if let (Ownership::Foreign(run), false) = (owner, has_arrived) {
            let found = format!("the marker of run {run}");
            problems.push(Problem::new(subject, found, "no marker of another run"));
        }
    };
    judge(
        survey.set_subject(Side::Source),
        &set.metadata,
        has_key(
            set.metadata.annotations.as_ref(),
            api::migrate::names::MIGRATED_FROM,
        ),
    );
    for volume in moved_claims(survey)?
        .iter()
        .filter_map(|claim| claim.volume)
    {
        judge(
            volume_subject(volume),
            &volume.metadata,
            has_arrived(volume),
        );
    }
    Ok(problems)
}

fn has_arrived(volume: &PersistentVolume) -> bool {
    has_key(
        volume.metadata.labels.as_ref(),
        api::migrate::names::MIGRATED_LABEL,
    )
}

fn has_key(map: Option<&std::collections::BTreeMap<String, String>>, key: &str) -> bool {
    map.is_some_and(|map| map.contains_key(key))
}

fn volume_subject(volume: &PersistentVolume) -> String {
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    format!("PersistentVolume {name} of the source")
}

/// The namespace of one side exists and takes new objects.
pub(super) fn namespace(survey: &Survey, side: Side) -> Problems {
    let subject = format!("Namespace {} of the {side}", survey.namespace_at(side));
    let namespace = survey.cluster(side).namespace.get(&*subject)?;
    let phase = namespace.as_ref().map(|namespace| {
        let status = namespace.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref());
        match namespace.metadata.deletion_timestamp {
            Some(_) => "Terminating",
            None => phase.unwrap_or("Active"),
        }
    });
    Ok(match phase {
        Some("Active") => Vec::new(),
        Some(phase) => vec![Problem::new(
            subject,
            format!("phase {phase}"),
            "phase Active",
        )],
        None => vec![Problem::new(subject, "none", "an active one")],
    })
}
