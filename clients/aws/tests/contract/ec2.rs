//! EC2: volumes, snapshots and tags.

use std::time::Duration;

use aws::ec2::volume_watch::{Reading, VolumeWatch};
use aws::ec2::{
    AttachmentState, Ec2, NewSnapshot, Permission, SnapshotState, Tags, VolumeChangeState,
    VolumeState,
};
use aws::{Error, Fault, Operation, Role};
use http::Method;
use kernel::{Class, Guard};
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::{OTHER, OWN, ROLE, Result, World, caller};

const REGION: &str = "eu-west-1";
const ATTACHED: &str = "vol-0000000000000000a";
const FREE: &str = "vol-0000000000000000b";
const UNKNOWN: &str = "vol-0000000000000000f";
const INSTANCE: &str = "i-0000000000000000a";

fn ec2(world: &World) -> Ec2 {
    world.aws.own().ec2(&caller(), REGION)
}

fn put(world: &World, id: &str, change: Value) {
    world.control(Method::PUT, &format!("ec2/volumes/{id}"), change);
}

/// A world with a free volume.
async fn with_volume() -> Result<World> {
    let world = World::start().await?;
    let volume = json!({ "az": "eu-west-1a", "size": 10, "tags": { "a": "1", "b": "2" } });
    put(&world, FREE, volume);
    Ok(world)
}

/// A world with a free volume, and another one attached to an instance.
async fn with_volumes() -> Result<World> {
    let world = with_volume().await?;
    world.control(
        Method::PUT,
        &format!("ec2/instances/{INSTANCE}"),
        json!({ "az": "eu-west-1b" }),
    );
    put(
        &world,
        ATTACHED,
        json!({ "az": "eu-west-1b", "size": 20, "kmsKeyId": "k" }),
    );
    let attach = format!("ec2/volumes/{ATTACHED}/attach");
    world.control(Method::POST, &attach, json!({ "instance": INSTANCE }));
    world.later(60);
    Ok(world)
}

fn tags<const N: usize>(pairs: [(&str, &str); N]) -> Tags {
    let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
    pairs.into_iter().collect()
}

fn snapshot() -> NewSnapshot {
    NewSnapshot {
        volume: FREE.to_owned(),
        description: "web-0".to_owned(),
        tags: tags([("migration.aqua.io/run", "r"), ("claim", "data*")]),
    }
}

#[tokio::test]
async fn a_free_volume_has_its_properties() -> Result {
    let world = with_volume().await?;
    let found = ec2(&world).volumes(&[FREE]).await?;
    let [volume] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert!(volume.is_free(), "{volume:?}");
    assert_eq!(
        (volume.id.as_str(), volume.zone.as_str(), volume.size_gib),
        (FREE, "eu-west-1a", 10)
    );
    assert_eq!((volume.encrypted, volume.multi_attach), (false, false));
    assert_eq!(volume.tags, tags([("a", "1"), ("b", "2")]));
    let scope = world.sent("DescribeVolumes")[0]["scope"].to_string();
    assert!(scope.contains("/eu-west-1/ec2/"), "{scope}");
    assert!(world.gauge(OWN, "ec2/DescribeVolumes").is_some());
    Ok(())
}

#[tokio::test]
async fn an_attached_volume_names_its_instance() -> Result {
    let world = with_volumes().await?;
    let found = ec2(&world).volumes(&[ATTACHED]).await?;
    let [volume] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(
        (&volume.state, volume.is_free()),
        (&VolumeState::InUse, false)
    );
    assert!(volume.encrypted && volume.kms_key.is_some(), "{volume:?}");
    let [attachment] = volume.attachments.as_slice() else {
        panic!("{volume:?}");
    };
    assert_eq!(attachment.instance, INSTANCE);
    assert_eq!(attachment.state, AttachmentState::Attached);
    Ok(())
}

#[tokio::test]
async fn an_unknown_id_is_missing_and_fails_nothing() -> Result {
    let world = with_volume().await?;
    let found = ec2(&world).volumes(&[UNKNOWN, FREE]).await?;
    let ids: Vec<&str> = found.iter().map(|volume| volume.id.as_str()).collect();
    assert_eq!(ids, [FREE]);
    Ok(())
}

#[tokio::test]
async fn a_request_has_at_most_200_ids() -> Result {
    let world = with_volume().await?;
    let mut ids: Vec<String> = (0..400).map(|n| format!("vol-1{n:016}")).collect();
    ids.push(FREE.to_owned());
    let found = ec2(&world).volumes(&ids).await?;
    assert_eq!(found.len(), 1);
    let sent = world.sent("DescribeVolumes");
    let counts: Vec<usize> = sent
        .iter()
        .map(|entry| entry["body"].as_str().unwrap_or_default().to_owned())
        .map(|body| body.matches("Filter.1.Value.").count())
        .collect();
    assert_eq!(counts, [200, 200, 1]);
    Ok(())
}

#[tokio::test]
async fn without_an_id_nothing_is_sent() -> Result {
    let world = with_volume().await?;
    let none: [&str; 0] = [];
    assert!(ec2(&world).volumes(&none).await?.is_empty());
    assert!(ec2(&world).volumes_of_instances(&none).await?.is_empty());
    assert!(ec2(&world).volume_changes(&none).await?.is_empty());
    let all = ec2(&world).snapshots(&Tags::new()).await.unwrap_err();
    assert!(all.is_our_refusal(), "{all}");
    let sent = |operation: &str| world.sent(operation).len();
    let reads = [
        "DescribeVolumes",
        "DescribeVolumesModifications",
        "DescribeSnapshots",
    ];
    assert_eq!(reads.map(sent), [0, 0, 0]);
    Ok(())
}

#[tokio::test]
async fn the_disks_of_an_instance_are_found() -> Result {
    let world = with_volumes().await?;
    let found = ec2(&world).volumes_of_instances(&[INSTANCE]).await?;
    let attached = found.iter().find(|volume| volume.id == ATTACHED);
    assert!(attached.is_some(), "{found:?}");
    // The other one is the root disk.
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|volume| volume.id != FREE));
    Ok(())
}

#[tokio::test]
async fn all_pages_are_read() -> Result {
    let world = with_volumes().await?;
    world.switch("ec2", json!({ "pageSize": 1 }));
    let found = ec2(&world).volumes(&[FREE, ATTACHED, UNKNOWN]).await?;
    assert_eq!(found.len(), 2);
    assert_eq!(world.sent("DescribeVolumes").len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_failed_page_fails_the_list() -> Result {
    let world = with_volumes().await?;
    world.switch("ec2", json!({ "pageSize": 1 }));
    let first = json!({ "operation": "DescribeVolumes", "times": 1, "effect": { "delay": "1ms" } });
    world.fault(first);
    world.fail("DescribeVolumes", 500, "InternalError", Some(1));
    let failed = ec2(&world).volumes(&[FREE, ATTACHED]).await.unwrap_err();
    assert_eq!(failed.class(), Class::Transient);
    assert_eq!(world.sent("DescribeVolumes").len(), 2);
    Ok(())
}

#[tokio::test]
async fn only_a_changed_volume_has_a_change() -> Result {
    let world = with_volumes().await?;
    put(&world, ATTACHED, json!({ "modification": "optimizing" }));
    let found = ec2(&world)
        .volume_changes(&[FREE, ATTACHED, UNKNOWN])
        .await?;
    let [change] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(change.volume, ATTACHED);
    assert_eq!(change.state, VolumeChangeState::Optimizing);
    assert!(change.is_in_progress());
    Ok(())
}

#[tokio::test]
async fn a_snapshot_is_found_by_its_tags() -> Result {
    let world = with_volume().await?;
    let ec2 = ec2(&world);
    let created = ec2.create_snapshot(&snapshot()).await?;
    assert_eq!(created.volume, FREE);
    assert_eq!(created.state, SnapshotState::Pending);
    assert_eq!(created.tags, snapshot().tags);
    let found = ec2.snapshots(&snapshot().tags).await?;
    assert_eq!(found, [created]);
    // A value with a star selects no other snapshot.
    let mut other = snapshot();
    other.tags = tags([("migration.aqua.io/run", "r"), ("claim", "data-2")]);
    ec2.create_snapshot(&other).await?;
    assert_eq!(ec2.snapshots(&snapshot().tags).await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_snapshot_is_found_after_a_lost_answer() -> Result {
    let world = with_volume().await?;
    let ec2 = ec2(&world);
    world.fault(json!({ "operation": "CreateSnapshot", "times": 1, "effect": "cutAfter" }));
    let lost = ec2.create_snapshot(&snapshot()).await.unwrap_err();
    assert!(lost.may_have_happened(), "{lost:?}");
    let found = ec2.snapshots(&snapshot().tags).await?;
    assert_eq!(found.len(), 1);
    assert_eq!(world.sent("CreateSnapshot").len(), 1);
    Ok(())
}

#[tokio::test]
async fn tags_are_set_and_removed_and_others_stay() -> Result {
    let world = with_volume().await?;
    let ec2 = ec2(&world);
    let now = async || -> Result<Tags, Error> { Ok(ec2.volumes(&[FREE]).await?.remove(0).tags) };
    ec2.create_tags(FREE, &tags([("b", "3"), ("c", "4")]))
        .await?;
    assert_eq!(now().await?, tags([("a", "1"), ("b", "3"), ("c", "4")]));
    ec2.delete_tags(FREE, &["b", "missing"]).await?;
    assert_eq!(now().await?, tags([("a", "1"), ("c", "4")]));
    Ok(())
}

#[tokio::test]
async fn no_tag_and_no_key_is_no_call() -> Result {
    let world = with_volume().await?;
    let ec2 = ec2(&world);
    let none: [&str; 0] = [];
    ec2.delete_tags(FREE, &none).await?;
    ec2.create_tags(FREE, &Tags::new()).await?;
    assert!(world.sent("DeleteTags").is_empty());
    assert!(world.sent("CreateTags").is_empty());
    Ok(())
}

#[tokio::test]
async fn a_dry_run_changes_nothing_and_is_no_error() -> Result {
    let world = with_volume().await?;
    let ec2 = ec2(&world);
    let (wanted, keys) = (tags([("new", "1")]), ["a".to_owned()]);
    let (resource, tags) = (FREE, &wanted);
    let new = snapshot();
    let all = [
        Permission::DescribeVolumes,
        Permission::DescribeVolumesModifications,
        Permission::DescribeSnapshots,
        Permission::CreateSnapshot(&new),
        Permission::CreateTags { resource, tags },
        Permission::DeleteTags {
            resource,
            keys: &keys,
        },
    ];
    for permission in all {
        ec2.check(permission).await?;
        let [(_, class)] = world.seen.of(permission.operation())[..] else {
            panic!("{permission:?}");
        };
        assert_eq!(class, None, "{permission:?}");
    }
    let volume = ec2.volumes(&[FREE]).await?.remove(0);
    assert_eq!(volume.tags.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(ec2.snapshots(&new.tags).await?, []);
    Ok(())
}

#[tokio::test]
async fn a_dry_run_of_a_denied_call_gives_the_reason() -> Result {
    let world = with_volume().await?;
    let deny = json!({ "deny": ["ec2:CreateSnapshot"] });
    world.control(Method::PUT, "ec2/roles/test", deny);
    let new = snapshot();
    let denied = ec2(&world).check(Permission::CreateSnapshot(&new)).await;
    let denied = denied.unwrap_err();
    assert_eq!(denied.class(), Class::Denied);
    let message = denied.to_string();
    assert!(
        message.contains("must allow ec2:CreateSnapshot"),
        "{message}"
    );
    assert_eq!(
        world.seen.of(Operation::CreateSnapshot)[0].1,
        Some(Class::Denied)
    );
    Ok(())
}

#[tokio::test]
async fn a_closed_guard_stops_writes_but_no_dry_run() -> Result {
    let world = with_volume().await?;
    let guard = Guard::always();
    let aws = world
        .aws
        .for_feature(vec![guard.clone()], world.seen.clone());
    guard.revoke();
    let ec2 = aws.own().ec2(&caller(), REGION);
    let wanted = tags([("new", "1")]);
    let stopped = ec2.create_tags(FREE, &wanted).await.unwrap_err();
    assert_eq!(stopped.fault(), Fault::Deposed);
    assert!(world.sent("CreateTags").is_empty());
    let (resource, tags) = (FREE, &wanted);
    ec2.check(Permission::CreateTags { resource, tags }).await?;
    ec2.volumes(&[FREE]).await?;
    Ok(())
}

#[rstest]
#[case(503, "RequestLimitExceeded", Class::Throttled)]
#[case(400, "ThrottlingException", Class::Throttled)]
#[case(403, "UnauthorizedOperation", Class::Denied)]
#[case(401, "AuthFailure", Class::Denied)]
#[case(500, "InternalError", Class::Transient)]
#[case(503, "Unavailable", Class::Transient)]
#[case(400, "InvalidVolume.NotFound", Class::NotFound)]
#[case(400, "InvalidParameterValue", Class::Invalid)]
#[tokio::test]
async fn a_code_of_ec2_is(#[case] status: u16, #[case] code: &str, #[case] class: Class) -> Result {
    let world = with_volume().await?;
    world.fail("DescribeVolumes", status, code, None);
    let error = ec2(&world).volumes(&[FREE]).await.unwrap_err();
    assert_eq!(
        (error.class(), error.code()),
        (class, Some(code)),
        "{error}"
    );
    let seen = world.seen.of(Operation::DescribeVolumes);
    assert!(seen.iter().all(|(_, seen)| *seen == Some(class)));
    Ok(())
}

#[tokio::test]
async fn expired_keys_are_renewed_once() -> Result {
    let world = World::still().await?;
    world.mutate("sts", json!({ "roles": [{ "arn": ROLE }] }));
    let account = world.aws.role(&Role::new(ROLE, None::<String>)?);
    let ec2 = account.ec2(&caller(), REGION);
    ec2.volumes(&[FREE]).await?;
    world.later(7200);
    ec2.volumes(&[FREE]).await?;
    assert_eq!(world.sent("AssumeRole").len(), 2);
    let expired = |entry: &&Value| entry["code"] == "RequestExpired";
    assert_eq!(world.log().iter().filter(expired).count(), 1);
    assert!(world.gauge(OTHER, "ec2/DescribeVolumes").is_some());
    Ok(())
}

#[tokio::test]
async fn a_throttled_read_slows_its_own_action_alone() -> Result {
    let world = with_volume().await?;
    let ec2 = ec2(&world);
    ec2.volume_changes(&[FREE]).await?;
    world.fail("DescribeVolumes", 503, "RequestLimitExceeded", Some(1));
    assert!(ec2.volumes(&[FREE]).await.is_err());
    let slowed = world.rate(OWN, "ec2/DescribeVolumes");
    let other = world.rate(OWN, "ec2/DescribeVolumesModifications");
    assert!(slowed < other, "{slowed} and {other}");
    Ok(())
}

#[tokio::test]
async fn a_watch_reads_its_volumes_in_one_call() -> Result {
    let world = with_volumes().await?;
    let mut watch = VolumeWatch::default();
    watch.wait(&"web", [FREE, ATTACHED, UNKNOWN].map(str::to_owned));
    let batch = watch.begin(Duration::ZERO, 0.5).expect("one is due");
    let result = ec2(&world).read_batch(&batch).await;
    assert!(watch.finish(batch, result).contains("web"));
    let is_free = |id| watch.reading(id).map(Reading::is_free);
    let all = [FREE, ATTACHED, UNKNOWN].map(is_free);
    assert_eq!(all, [Some(true), Some(false), Some(false)]);
    assert_eq!(world.sent("DescribeVolumes").len(), 1);
    Ok(())
}
