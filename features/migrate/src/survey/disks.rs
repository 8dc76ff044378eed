//! The reads of EC2, and which of its calls are allowed.

use std::collections::{BTreeMap, BTreeSet};

use api::migrate::StatefulSetMigrationSpec;
use api::migrate::names::{EBS_CLUSTER_NAME_TAG, KUBERNETES_CLUSTER_TAG_PREFIX, RUN};
use aws::ec2::{Ec2, NewSnapshot, Permission, Tags, Volume};
use futures::future::join_all;
use futures::join;
use kernel::Class;

use super::classify::of_ec2;
use crate::preflight::access::{Ec2Call, needed_calls};
use crate::preflight::moved_claims::{SetClaim, moved_claims};
use crate::preflight::reading::Reading;
use crate::preflight::survey::{Ec2Attachment, Ec2Survey, Ec2Volume, Survey};
use crate::preflight::volumes::instances;

/// Reads EC2 by what was read of the clusters.
pub(super) async fn ec2(ec2: &Ec2, survey: &Survey, region: &str) -> Ec2Survey {
    let ids = moved_claims(survey).ok().map(|claims| {
        let ids = claims.iter().filter_map(SetClaim::volume_id);
        ids.collect::<BTreeSet<String>>()
    });
    let ids: Option<Vec<String>> = ids.map(|ids| ids.into_iter().collect());
    let nodes = survey.destination.nodes.get("nodes").ok();
    let instances = nodes.map(|nodes| instances(nodes).into_iter().collect::<Vec<&str>>());
    let volumes = volumes(ec2, ids.as_deref()).await;
    let (allowed, at_destination, modifications) = join!(
        allowed(ec2, survey, ids.as_deref(), &volumes),
        at_destination(ec2, instances.as_deref()),
        modifications(ec2, ids.as_deref()),
    );
    Ec2Survey {
        region: region.to_owned(),
        allowed,
        volumes,
        at_destination,
        modifications,
    }
}

async fn volumes(ec2: &Ec2, ids: Option<&[String]>) -> Reading<BTreeMap<String, Ec2Volume>> {
    let Some(ids) = ids else {
        return Reading::NotRead;
    };
    let volumes = ec2.volumes(ids).await;
    of_ec2(volumes.map(|volumes| {
        let volumes = volumes.into_iter().map(shown);
        volumes.map(|volume| (volume.id.clone(), volume)).collect()
    }))
}

async fn at_destination(ec2: &Ec2, instances: Option<&[&str]>) -> Reading<Vec<Ec2Volume>> {
    let Some(instances) = instances else {
        return Reading::NotRead;
    };
    let volumes = ec2.volumes_of_instances(instances).await;
    of_ec2(volumes.map(|volumes| volumes.into_iter().map(shown).collect()))
}

async fn modifications(ec2: &Ec2, ids: Option<&[String]>) -> Reading<BTreeMap<String, String>> {
    let Some(ids) = ids else {
        return Reading::NotRead;
    };
    let changes = ec2.volume_changes(ids).await;
    of_ec2(changes.map(|changes| {
        let states = changes.into_iter();
        states
            .map(|change| (change.volume, change.state.to_string()))
            .collect()
    }))
}

fn shown(volume: Volume) -> Ec2Volume {
    let attachments = volume.attachments.into_iter();
    Ec2Volume {
        id: volume.id,
        state: volume.state.to_string(),
        zone: volume.zone,
        size_gib: i64::try_from(volume.size_gib).unwrap_or(i64::MAX),
        kms_key: volume.kms_key,
        is_encrypted: volume.encrypted,
        is_multi_attach: volume.multi_attach,
        tags: volume.tags,
        attachments: attachments
            .map(|attachment| Ec2Attachment {
                instance: attachment.instance,
                state: attachment.state.to_string(),
                is_deleted_with_instance: attachment.delete_on_termination,
            })
            .collect(),
    }
}

/// The arguments of a call to check.
#[derive(Debug, Clone, PartialEq)]
enum Trial {
    DescribeVolumes,
    DescribeSnapshots,
    CreateSnapshot(NewSnapshot),
    CreateTags { volume: String, tags: Tags },
    DeleteTags { volume: String, keys: Vec<String> },
}

impl Trial {
    fn permission(&self) -> Permission<'_> {
        match self {
            Self::DescribeVolumes => Permission::DescribeVolumes,
            Self::DescribeSnapshots => Permission::DescribeSnapshots,
            Self::CreateSnapshot(snapshot) => Permission::CreateSnapshot(snapshot),
            Self::CreateTags { volume, tags } => Permission::CreateTags {
                resource: volume,
                tags,
            },
            Self::DeleteTags { volume, keys } => Permission::DeleteTags {
                resource: volume,
                keys,
            },
        }
    }
}

/// Checks the calls of the run by dry runs. Writes are checked on one volume of the set; without a volume the
/// run makes none.
async fn allowed(
    ec2: &Ec2,
    survey: &Survey,
    ids: Option<&[String]>,
    volumes: &Reading<BTreeMap<String, Ec2Volume>>,
) -> Reading<BTreeSet<Ec2Call>> {
    let calls = needed_calls(&survey.spec);
    let needs_volume = calls.iter().any(|call| *call != Ec2Call::DescribeVolumes);
    if needs_volume && ids.is_none() {
        return Reading::NotRead;
    }
    let volume = match volumes {
        // EC2 gives no permission for an id that it does not have.
        Reading::Read(volumes) => volumes.keys().next(),
        Reading::Denied(_) | Reading::Unreachable(_) | Reading::NotRead => {
            ids.and_then(<[String]>::first)
        }
    };
    let checks = calls.into_iter().map(async |call| {
        let Some(trial) = trial(call, &survey.spec, &survey.run, volume) else {
            return Ok(Some(call));
        };
        match ec2.check(trial.permission()).await {
            Ok(()) => Ok(Some(call)),
            Err(error) if error.class() == Class::Denied => Ok(None),
            Err(error) => Err(error),
        }
    });
    let checks: Result<Vec<Option<Ec2Call>>, aws::Error> =
        join_all(checks).await.into_iter().collect();
    of_ec2(checks.map(|calls| calls.into_iter().flatten().collect()))
}

/// The call with arguments like those of the run.
///
/// | call         | fence names | arguments                               |
/// |--------------|-------------|-----------------------------------------|
/// | CreateTags   | set         | the tags of the volume at the destination |
/// | CreateTags   | unset       | a snapshot with its tags                |
/// | DeleteTags   | set         | the tag of the source                   |
fn trial(
    call: Ec2Call,
    spec: &StatefulSetMigrationSpec,
    run: &str,
    volume: Option<&String>,
) -> Option<Trial> {
    let volume = || volume.cloned();
    let names = spec.fence_names();
    Some(match (call, names) {
        (Ec2Call::DescribeVolumes, _) => Trial::DescribeVolumes,
        (Ec2Call::DescribeSnapshots, _) => Trial::DescribeSnapshots,
        (Ec2Call::CreateSnapshot, _) | (Ec2Call::CreateTags, None) => {
            Trial::CreateSnapshot(NewSnapshot {
                volume: volume()?,
                description: format!("StatefulSetMigration run {run}"),
                tags: Tags::from([(RUN.to_owned(), run.to_owned())]),
            })
        }
        (Ec2Call::CreateTags, Some((_, destination))) => Trial::CreateTags {
            volume: volume()?,
            tags: Tags::from([
                (EBS_CLUSTER_NAME_TAG.to_owned(), destination.to_owned()),
                (
                    format!("{KUBERNETES_CLUSTER_TAG_PREFIX}{destination}"),
                    "owned".to_owned(),
                ),
            ]),
        },
        (Ec2Call::DeleteTags, names) => Trial::DeleteTags {
            volume: volume()?,
            keys: vec![format!("{KUBERNETES_CLUSTER_TAG_PREFIX}{}", names?.0)],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws::ec2::{Attachment, AttachmentState, VolumeState};
    use rstest::rstest;
    use serde_json::{Value, json};

    use crate::survey::fixture;

    fn fenced() -> Value {
        json!({"fence": {"sourceClusterName": "src", "destClusterName": "dst"}})
    }

    #[rstest]
    #[case::read(Ec2Call::DescribeVolumes, json!({}), Some("DescribeVolumes"))]
    #[case::read_snapshots(Ec2Call::DescribeSnapshots, json!({}), Some("DescribeSnapshots"))]
    #[case::snapshot(Ec2Call::CreateSnapshot, json!({}), Some("CreateSnapshot"))]
    #[case::tags_of_snapshots(Ec2Call::CreateTags, json!({}), Some("CreateSnapshot"))]
    #[case::tags_of_volumes(Ec2Call::CreateTags, fenced(), Some("CreateTags"))]
    #[case::tags_to_delete(Ec2Call::DeleteTags, fenced(), Some("DeleteTags"))]
    #[case::nothing_to_delete(Ec2Call::DeleteTags, json!({}), None)]
    fn a_call_is_checked_with_its_arguments(
        #[case] call: Ec2Call,
        #[case] change: Value,
        #[case] expected: Option<&str>,
    ) {
        let spec = fixture::spec(change);
        let volume = "vol-1".to_owned();
        let trial = trial(call, &spec, "run", Some(&volume));
        let operation = trial.map(|trial| trial.permission().operation().name());
        assert_eq!(operation, expected);
    }

    #[test]
    fn without_a_volume_no_write_is_checked() {
        let spec = fixture::spec(fenced());
        assert_eq!(trial(Ec2Call::CreateTags, &spec, "run", None), None);
        let read = trial(Ec2Call::DescribeVolumes, &spec, "run", None);
        assert_eq!(read, Some(Trial::DescribeVolumes));
    }

    #[test]
    fn a_volume_is_shown_with_its_attachment() {
        let volume = Volume {
            id: "vol-1".to_owned(),
            state: VolumeState::InUse,
            zone: "eu-west-1a".to_owned(),
            size_gib: 8,
            encrypted: true,
            kms_key: Some("key".to_owned()),
            multi_attach: false,
            volume_type: "gp3".to_owned(),
            tags: Tags::new(),
            attachments: vec![Attachment {
                instance: "i-1".to_owned(),
                device: "/dev/xvda".to_owned(),
                state: AttachmentState::Busy,
                delete_on_termination: true,
            }],
        };
        let expected = Ec2Volume {
            id: "vol-1".to_owned(),
            state: "in-use".to_owned(),
            zone: "eu-west-1a".to_owned(),
            size_gib: 8,
            kms_key: Some("key".to_owned()),
            is_encrypted: true,
            is_multi_attach: false,
            tags: BTreeMap::new(),
            attachments: vec![Ec2Attachment {
                instance: "i-1".to_owned(),
                state: "busy".to_owned(),
                is_deleted_with_instance: true,
            }],
        };
        assert_eq!(shown(volume), expected);
    }
}
