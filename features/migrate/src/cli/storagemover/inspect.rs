//! `inspect-pv` and `inspect-pvc`: a volume and a claim of the source.

use engine::cli::{Answer, Failure, Finding, Outcome, flags};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};

use super::Mover;
use super::zone::{declared_zone, text};
use crate::cli::clusters::calls;
use crate::cli::refused;
use crate::translate::Document;
use crate::translate::volume_id::ebs_source;

const VOLUME_COLUMNS: &[&str] = &[
    "name",
    "volume-id",
    "zone",
    "phase",
    "policy",
    "class",
    "capacity",
    "claim",
];
const CLAIM_COLUMNS: &[&str] = &[
    "namespace",
    "name",
    "phase",
    "volume",
    "volume-id",
    "zone",
    "policy",
    "class",
    "request",
];

/// Shows a PersistentVolume.
pub(super) async fn volume(mover: &Mover<'_>) -> Result<Answer, Failure> {
    let name = mover.required("name");
    let found = calls::get::<PersistentVolume>(&mover.source().await?, None, name).await?;
    Ok(match found {
        Some(volume) => Answer::table(VOLUME_COLUMNS, vec![volume_row(&volume)?], Outcome::Holds),
        None => refused(format!(
            "there is no PersistentVolume {name} in the source; check the name"
        )),
    })
}

/// Shows a PersistentVolumeClaim with its volume.
pub(super) async fn claim(mover: &Mover<'_>) -> Result<Answer, Failure> {
    let source = mover.source().await?;
    let (namespace, name) = (mover.required(flags::NAMESPACE), mover.required("name"));
    let found = calls::get::<PersistentVolumeClaim>(&source, Some(namespace), name).await?;
    let Some(claim) = found else {
        let why = format!(
            "there is no PersistentVolumeClaim {namespace}/{name} in the source; check -n and --name"
        );
        return Ok(refused(why));
    };
    let volume = match &*text(&claim, "/spec/volumeName") {
        "" => None,
        volume => calls::get::<PersistentVolume>(&source, None, volume).await?,
    };
    let row = claim_row(&claim, volume.as_ref())?;
    Ok(Answer::table(CLAIM_COLUMNS, vec![row], Outcome::Holds))
}

/// What a volume says of its disk: the id and the zone, or what it is instead.
fn disk_and_zone(volume: &Value) -> Result<(String, String), Failure> {
    let volume = Document::<PersistentVolume>::read(volume.clone())?;
    let disk = match ebs_source(&volume) {
        Ok(source) => source.id.to_string(),
        Err(refusal) => format!("({refusal})"),
    };
    Ok((disk, declared_zone(&volume).unwrap_or_default()))
}

fn volume_row(volume: &Value) -> Result<Finding, Failure> {
    let (disk, zone) = disk_and_zone(volume)?;
    let name = text(volume, "/metadata/name");
    let claim = match &*text(volume, "/spec/claimRef/name") {
        "" => String::new(),
        claim => format!("{}/{claim}", text(volume, "/spec/claimRef/namespace")),
    };
    Ok(Finding {
        name: format!("PersistentVolume/{name}"),
        cells: vec![
            name,
            disk.clone(),
            zone.clone(),
            text(volume, "/status/phase"),
            text(volume, "/spec/persistentVolumeReclaimPolicy"),
            text(volume, "/spec/storageClassName"),
            text(volume, "/spec/capacity/storage"),
            claim,
        ],
        full: json!({"volumeId": disk, "zone": zone, "persistentVolume": volume}),
    })
}

fn claim_row(claim: &Value, volume: Option<&Value>) -> Result<Finding, Failure> {
    let (disk, zone) = volume.map(disk_and_zone).transpose()?.unwrap_or_default();
    let policy = volume.map(|volume| text(volume, "/spec/persistentVolumeReclaimPolicy"));
    let (namespace, name) = (
        text(claim, "/metadata/namespace"),
        text(claim, "/metadata/name"),
    );
    Ok(Finding {
        name: format!("PersistentVolumeClaim/{namespace}/{name}"),
        cells: vec![
            namespace,
            name,
            text(claim, "/status/phase"),
            text(claim, "/spec/volumeName"),
            disk.clone(),
            zone.clone(),
            policy.unwrap_or_default(),
            text(claim, "/spec/storageClassName"),
            text(claim, "/spec/resources/requests/storage"),
        ],
        full: json!({
            "volumeId": disk, "zone": zone, "persistentVolumeClaim": claim, "persistentVolume": volume,
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound_volume() -> Value {
        json!({
            "metadata": {"name": "pvc-1", "labels": {"topology.kubernetes.io/zone": "eu-west-1a"}},
            "spec": {
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0a1b2c3d"},
                "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "gp3",
                "capacity": {"storage": "8Gi"}, "claimRef": {"namespace": "shop", "name": "data-web-0"},
            },
            "status": {"phase": "Bound"},
        })
    }

    #[test]
    fn a_volume_is_one_row() {
        let row = volume_row(&bound_volume()).unwrap();
        let expected = [
            "pvc-1",
            "vol-0a1b2c3d",
            "eu-west-1a",
            "Bound",
            "Retain",
            "gp3",
            "8Gi",
            "shop/data-web-0",
        ];
        assert_eq!(row.cells, expected);
        assert_eq!(row.full["volumeId"], "vol-0a1b2c3d");
    }

    #[test]
    fn another_volume_is_shown_with_what_it_is() {
        let volume = json!({"metadata": {"name": "n"}, "spec": {"nfs": {"path": "/"}}});
        let row = volume_row(&volume).unwrap();
        assert!(row.cells[1].contains("found nfs"), "{row:?}");
    }

    #[test]
    fn a_claim_is_one_row() {
        let claim = json!({
            "metadata": {"namespace": "shop", "name": "data-web-0"},
            "spec": {"volumeName": "pvc-1", "storageClassName": "gp3", "resources": {"requests": {"storage": "8Gi"}}},
            "status": {"phase": "Bound"},
        });
        let row = claim_row(&claim, Some(&bound_volume())).unwrap();
        let expected = [
            "shop",
            "data-web-0",
            "Bound",
            "pvc-1",
            "vol-0a1b2c3d",
            "eu-west-1a",
            "Retain",
            "gp3",
            "8Gi",
        ];
        assert_eq!(row.cells, expected);
        assert_eq!(claim_row(&claim, None).unwrap().cells[4], "");
    }
}
