//! `validate`: whether a volume can move.

use aws::ec2::{Volume, VolumeState};
use engine::cli::{Answer, Failure, Finding, Outcome};
use k8s_openapi::api::core::v1::PersistentVolume;
use serde_json::{Value, json};

use super::Mover;
use super::zone::text;
use crate::cli::clusters::calls;
use crate::cli::{ec2, refused};
use crate::translate::Document;
use crate::translate::volume_id::ebs_source;
use crate::translate::zone::node_affinity;

const COLUMNS: &[&str] = &["check", "result", "found"];

/// Checks a PersistentVolume of the source, and its disk in EC2.
pub(super) async fn validate(mover: &Mover<'_>) -> Result<Answer, Failure> {
    let name = mover.required("name");
    let found = calls::get::<PersistentVolume>(&mover.source().await?, None, name).await?;
    let Some(volume) = found else {
        let why = format!("there is no PersistentVolume {name} in the source; check the name");
        return Ok(refused(why));
    };
    let volume = Document::<PersistentVolume>::read(volume)?;
    let disk = match ebs_source(&volume) {
        Ok(source) => Some(disk(mover, source.id.as_str()).await),
        Err(_) => None,
    };
    let checks = checks(&volume, disk);
    let outcome = Outcome::of_all(checks.iter().map(|(_, outcome, _)| *outcome));
    let findings = checks.into_iter().map(|(check, outcome, found)| {
        let result = match outcome {
            Outcome::Holds => "passed",
            Outcome::DoesNot | Outcome::Suspended => "failed",
            Outcome::Unknown | Outcome::InProgress => "unknown",
        };
        Finding {
            name: check.to_owned(),
            cells: vec![check.to_owned(), result.to_owned(), found.clone()],
            full: json!({"check": check, "result": result, "found": found}),
        }
    });
    Ok(Answer::table(COLUMNS, findings.collect(), outcome))
}

/// The disk in EC2; none if EC2 does not have it. The error is for people.
async fn disk(mover: &Mover<'_>, id: &str) -> Result<Option<Volume>, String> {
    let client = ec2::client(mover.args, mover.clock.clone()).await;
    let volumes = client.volumes(&[id]).await;
    let volumes = volumes.map_err(|error| error.to_string())?;
    Ok(volumes.into_iter().next())
}

type CheckedRow = (&'static str, Outcome, String);

/// | check         | passes when                                                   |
/// |---------------|---------------------------------------------------------------|
/// | EbsVolume     | it is one EBS volume with a valid id                          |
/// | ReclaimPolicy | Retain                                                        |
/// | AccessModes   | ReadWriteOnce or ReadWriteOncePod alone                       |
/// | Claim         | Bound to a claim                                              |
/// | VolumeState   | EC2 shows it as available or in use, without Multi-Attach     |
/// | Zone          | the zone of the PersistentVolume is EC2's                     |
fn checks(
    volume: &Document<PersistentVolume>,
    disk: Option<Result<Option<Volume>, String>>,
) -> Vec<CheckedRow> {
    let value = volume.value();
    let policy = text(value, "/spec/persistentVolumeReclaimPolicy");
    let modes = modes(value);
    let is_single = !modes.is_empty()
        && modes
            .iter()
            .all(|mode| matches!(&**mode, "ReadWriteOnce" | "ReadWriteOncePod"));
    let phase = text(value, "/status/phase");
    let claim = text(value, "/spec/claimRef/name");
    let is_bound = phase == "Bound" && !claim.is_empty();
    let bound_to = format!(
        "{phase} {}/{claim}",
        text(value, "/spec/claimRef/namespace")
    );
    let ebs = ebs_source(volume);
    let in_tree_zone = ebs.as_ref().ok().and_then(|ebs| ebs.zone.clone());
    let first = match ebs {
        Ok(ebs) => (Outcome::Holds, ebs.id.to_string()),
        Err(refusal) => (Outcome::DoesNot, refusal.to_string()),
    };
    let mut all = vec![
        ("EbsVolume", first.0, first.1),
        ("ReclaimPolicy", Outcome::of(policy == "Retain"), policy),
        ("AccessModes", Outcome::of(is_single), modes.join(", ")),
        ("Claim", Outcome::of(is_bound), bound_to),
    ];
    match disk {
        None => {}
        Some(Err(error)) => all.push(("VolumeState", Outcome::Unknown, error)),
        Some(Ok(None)) => {
            let found = "EC2 does not have it; check account and --aws-region".to_owned();
            all.push(("VolumeState", Outcome::DoesNot, found));
        }
        Some(Ok(Some(disk))) => all.extend(of_disk(volume, in_tree_zone.as_deref(), &disk)),
    }
    all
}

fn of_disk(
    volume: &Document<PersistentVolume>,
    in_tree_zone: Option<&str>,
    disk: &Volume,
) -> [CheckedRow; 2] {
    let is_usable =
        matches!(disk.state, VolumeState::Available | VolumeState::InUse) && !disk.multi_attach;
    let attached = if disk.multi_attach {
        ", Multi-Attach"
    } else {
        ""
    };
    let zone = match node_affinity(volume, in_tree_zone, &disk.zone) {
        Ok(_) => (Outcome::Holds, disk.zone.clone()),
        Err(refusal) => (Outcome::DoesNot, refusal.to_string()),
    };
    [
        (
            "VolumeState",
            Outcome::of(is_usable),
            format!("{}{attached}", disk.state),
        ),
        ("Zone", zone.0, zone.1),
    ]
}

fn modes(volume: &Value) -> Vec<String> {
    let modes = volume["spec"]["accessModes"]
        .as_array()
        .into_iter()
        .flatten();
    modes
        .filter_map(|mode| mode.as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn disk(state: VolumeState, zone: &str, multi_attach: bool) -> Volume {
        Volume {
            id: "vol-0a1b2c3d".to_owned(),
            state,
            zone: zone.to_owned(),
            size_gib: 8,
            encrypted: false,
            kms_key: None,
            multi_attach,
            volume_type: "gp3".to_owned(),
            tags: std::collections::BTreeMap::new(),
            attachments: Vec::new(),
        }
    }

    fn usable() -> Volume {
        disk(VolumeState::InUse, "eu-west-1a", false)
    }

    fn volume(pointer: &str, changed: Value) -> Document<PersistentVolume> {
        let mut value = json!({
            "metadata": {"name": "pvc-1", "labels": {"topology.kubernetes.io/zone": "eu-west-1a"}},
            "spec": {
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0a1b2c3d"},
                "persistentVolumeReclaimPolicy": "Retain", "accessModes": ["ReadWriteOnce"],
                "claimRef": {"namespace": "shop", "name": "data-web-0"},
            },
            "status": {"phase": "Bound"},
        });
        if !pointer.is_empty() {
            *value.pointer_mut(pointer).unwrap() = changed;
        }
        Document::read(value).unwrap()
    }

    #[rstest]
    #[case::all_pass("", json!(null), Some(Ok(Some(usable()))), &[])]
    #[case::another_driver("/spec/csi/driver", json!("efs.csi.aws.com"), None, &["EbsVolume"])]
    #[case::delete("/spec/persistentVolumeReclaimPolicy", json!("Delete"), Some(Ok(Some(usable()))), &["ReclaimPolicy"])]
    #[case::shared("/spec/accessModes", json!(["ReadWriteMany"]), Some(Ok(Some(usable()))), &["AccessModes"])]
    #[case::released("/status/phase", json!("Released"), Some(Ok(Some(usable()))), &["Claim"])]
    #[case::missing_in_ec2("", json!(null), Some(Ok(None)), &["VolumeState"])]
    #[case::denied("", json!(null), Some(Err("denied".to_owned())), &["VolumeState"])]
    #[case::broken("", json!(null), Some(Ok(Some(disk(VolumeState::Error, "eu-west-1a", false)))), &["VolumeState"])]
    #[case::multi_attach("", json!(null), Some(Ok(Some(disk(VolumeState::InUse, "eu-west-1a", true)))), &["VolumeState"])]
    #[case::in_another_zone("", json!(null), Some(Ok(Some(disk(VolumeState::InUse, "eu-west-1b", false)))), &["Zone"])]
    fn a_volume_is_checked(
        #[case] pointer: &str,
        #[case] changed: Value,
        #[case] disk: Option<Result<Option<Volume>, String>>,
        #[case] failing: &[&str],
    ) {
        let checks = checks(&volume(pointer, changed), disk);
        let failed = checks
            .iter()
            .filter(|(_, outcome, _)| *outcome != Outcome::Holds);
        let failed: Vec<_> = failed.map(|(check, ..)| *check).collect();
        assert_eq!(failed, failing);
    }
}
