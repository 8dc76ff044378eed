//! A claim of the source with its volume, and what they become at the destination.

use engine::cli::{Answer, Failure, Finding, flags, flags::value};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::Value;

use super::zone::{declared_zone, text};
use super::{DEST_CLAIM, DEST_NAMESPACE, Mover};
use crate::cli::clusters::{UserCluster, calls};
use crate::cli::{ec2, refused};
use crate::migration::extract;
use crate::translate::names::{ClaimOfVolume, volume_name};
use crate::translate::pair::Pair;
use crate::translate::volume_id::{VolumeId, ebs_source};
use crate::translate::{Destination, Document, PairTarget, dest_pair};

/// `translate`: prints both objects as they would be at the destination.
pub(super) async fn translate(mover: &Mover<'_>) -> Result<Answer, Failure> {
    let source = mover.source().await?;
    let pair = match read(
        &source,
        mover.required(flags::NAMESPACE),
        mover.required("name"),
    )
    .await?
    {
        Ok(pair) => pair,
        Err(why) => return Ok(refused(why)),
    };
    let volumes = match mover.destination().await? {
        Some(destination) => calls::list::<PersistentVolume>(&destination, None).await?,
        None => Vec::new(),
    };
    Ok(match translated(mover, &pair, &volumes).await {
        Ok(translated) => manifests(&translated.pair),
        Err(why) => refused(why),
    })
}

/// A claim and the volume that it is bound to. The inner error says why they are no pair.
pub(super) async fn read(
    cluster: &UserCluster,
    namespace: &str,
    name: &str,
) -> Result<Result<Pair, String>, Failure> {
    let found = calls::get::<PersistentVolumeClaim>(cluster, Some(namespace), name).await?;
    let Some(claim) = found else {
        return Ok(Err(format!(
            "there is no PersistentVolumeClaim {namespace}/{name} in the source; check the names"
        )));
    };
    let volume = match &*text(&claim, "/spec/volumeName") {
        "" => None,
        volume => calls::get::<PersistentVolume>(cluster, None, volume).await?,
    };
    let Some(volume) = volume else {
        return Ok(Err(format!(
            "PersistentVolumeClaim {namespace}/{name} has no PersistentVolume, so there is nothing to move"
        )));
    };
    let pair = Pair {
        volume: Document::read(volume)?,
        claim: Document::read(claim)?,
    };
    Ok(Ok(pair))
}

/// A pair at the destination, and its disk.
pub(super) struct TranslatedPair {
    pub(super) pair: Pair,
    pub(super) id: VolumeId,
}

/// The pair at the destination, whose PersistentVolumes are `volumes`.
pub(super) async fn translated(
    mover: &Mover<'_>,
    pair: &Pair,
    volumes: &[Value],
) -> Result<TranslatedPair, String> {
    let id = ebs_source(&pair.volume)
        .map_err(|refusal| format!("{}: {refusal}", pair.volume.title()))?
        .id;
    let zone = zone(mover, pair, &id).await?;
    let namespace = mover.required(DEST_NAMESPACE);
    let claim = value(mover.args, DEST_CLAIM).unwrap_or(pair.claim.name());
    let pair = rendered(mover, pair, &id, &zone, (namespace, claim), volumes)?;
    Ok(TranslatedPair { pair, id })
}

fn rendered(
    mover: &Mover<'_>,
    pair: &Pair,
    id: &VolumeId,
    zone: &str,
    (namespace, claim): (&str, &str),
    volumes: &[Value],
) -> Result<Pair, String> {
    let classes = mover.classes();
    let to = Destination {
        namespace,
        classes: &classes,
        run: None,
    };
    let name = pair.volume.name();
    let is_foreign = volumes.iter().any(|volume| {
        extract::name(volume) == name
            && extract::volume(volume, "").disk.as_deref() != Some(id.as_str())
    });
    let of_volume = ClaimOfVolume {
        id,
        namespace,
        name: claim,
    };
    let target = PairTarget {
        volume: &volume_name(name, is_foreign, &of_volume),
        claim,
        zone,
    };
    dest_pair(pair, &to, &target).map_err(|refusal| format!("{}: {refusal}", pair.claim.title()))
}

/// EC2's zone; if EC2 cannot be read, the one that the volume declares.
async fn zone(mover: &Mover<'_>, pair: &Pair, id: &VolumeId) -> Result<String, String> {
    let client = ec2::client(mover.args, mover.clock.clone()).await;
    let error = match client.volumes(&[id.as_str()]).await {
        Ok(volumes) => {
            let volume = volumes.into_iter().next();
            let missing =
                || format!("EC2 does not have volume {id}; check the account and --aws-region");
            return volume.map(|volume| volume.zone).ok_or_else(missing);
        }
        Err(error) => error,
    };
    let declared = declared_zone(&pair.volume);
    let declared = declared.ok_or_else(|| {
        format!(
            "{} declares no zone, and EC2 cannot be read: {error}",
            pair.volume.title()
        )
    })?;
    eprintln!("EC2 cannot be read ({error}); the zone {declared} is that of the PersistentVolume.");
    Ok(declared)
}

/// Both objects, the volume first.
pub(super) fn manifests(pair: &Pair) -> Answer {
    let finding = |title: String, full: &Value| Finding {
        name: title.clone(),
        cells: vec![title],
        full: full.clone(),
    };
    let findings = vec![
        finding(pair.volume.title(), pair.volume.value()),
        finding(pair.claim.title(), pair.claim.value()),
    ];
    Answer::manifests(&["object"], findings)
}
