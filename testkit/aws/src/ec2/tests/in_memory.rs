//! The state as a library.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::super::{AttachedTo, ContentEntry, Disks, PodEvent};
use super::{MISSING, NEXT, NODE, OTHER, VOLUME, ZONE};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a small number")
}

fn on(instance: &str) -> AttachedTo<'_> {
    AttachedTo {
        instance,
        device: "/dev/xvdq",
    }
}

fn disks() -> Disks {
    let mut disks = Disks::default();
    disks.add_instance(NODE, ZONE);
    disks.add_instance(NEXT, ZONE);
    disks.add_volume(VOLUME, ZONE, &BTreeMap::new());
    disks
}

fn entry(instance: &str, uid: &str) -> ContentEntry {
    ContentEntry {
        time: Timestamp::UNIX_EPOCH,
        instance: instance.to_owned(),
        pod_uid: uid.to_owned(),
        pod_name: "web-0".to_owned(),
        set: String::new(),
        event: PodEvent::Start,
    }
}

fn state(disks: &Disks) -> &'static str {
    disks.volume(VOLUME).expect("a volume").state()
}

#[test]
fn a_volume_moves_between_instances_in_its_time() {
    let mut disks = disks();
    disks.attach(VOLUME, on(NODE)).unwrap();
    let twice = disks.attach(VOLUME, on(NEXT)).unwrap_err();
    assert_eq!(twice.code, "VolumeInUse");
    disks.set_time(at(2));
    assert_eq!(
        disks.volume(VOLUME).unwrap().attachments[0].state(),
        "attached"
    );
    let before = disks.clone();
    disks.detach(VOLUME, NODE).unwrap();
    disks.set_time(at(4));
    assert_eq!((state(&disks), state(&before)), ("available", "in-use"));
    let old = disks.volume_before(VOLUME, Duration::from_secs(1)).unwrap();
    assert_eq!(old.attachments[0].state(), "detaching");
    disks.attach(VOLUME, on(NEXT)).unwrap();
    assert_eq!(disks.violations(), []);
}

#[test]
fn unknown_volumes_are_left_out() {
    let mut disks = disks();
    let ids = |disks: &Disks| -> Vec<String> {
        let found = disks.describe(&[VOLUME, MISSING]).unwrap();
        found.iter().map(|volume| volume.id.clone()).collect()
    };
    assert_eq!(ids(&disks), [VOLUME]);
    disks.set_state(VOLUME, "absent");
    assert_eq!(ids(&disks), Vec::<String>::new());
}

#[test]
fn snapshots_are_found_by_tags_once_reads_catch_up() {
    let mut disks = disks();
    let tags = BTreeMap::from([("run".to_owned(), "r1".to_owned())]);
    disks.set_time(at(10));
    let made = disks.create_snapshot(VOLUME, &tags).unwrap();
    let lag = Duration::from_secs(5);
    assert!(disks.snapshots(&tags, lag).unwrap().is_empty());
    disks.set_time(at(15));
    assert_eq!(disks.snapshots(&tags, lag).unwrap(), [&made]);
}

#[test]
fn tags_are_set_and_deleted() {
    let mut disks = disks();
    let tags = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
    disks.tag(VOLUME, &tags).unwrap();
    assert_eq!(disks.volume(VOLUME).unwrap().tags, tags);
    disks.untag(VOLUME, &[]).unwrap();
    assert_eq!(disks.volume(VOLUME).unwrap().tags, tags);
    disks.untag(VOLUME, &["a".to_owned()]).unwrap();
    assert_eq!(disks.volume(VOLUME).unwrap().tags, BTreeMap::new());
}

#[test]
fn the_oracle_reports_what_nodes_do() {
    let mut disks = disks();
    disks.write_log(VOLUME, entry(NODE, "u1"));
    disks.attach(VOLUME, on(NODE)).unwrap();
    disks.set_time(at(2));
    disks.mount(VOLUME, NODE);
    disks.detach(VOLUME, NODE).unwrap();
    let rules: Vec<_> = disks.violations().iter().map(|seen| seen.rule).collect();
    assert_eq!(rules, ["writtenUnattached", "detachedDirty"]);
    assert_eq!(disks.log(VOLUME).len(), 1);
}

#[test]
fn a_provisioned_empty_disk_is_reported_when_the_pod_starts_on_it() {
    let mut disks = disks();
    disks.attach(VOLUME, on(NODE)).unwrap();
    disks.set_time(at(2));
    disks.write_log(VOLUME, entry(NODE, "u1"));
    let made = disks.create(ZONE, &BTreeMap::new()).unwrap().id;
    disks.set_time(at(3));
    disks.attach(&made, on(NEXT)).unwrap();
    disks.set_time(at(5));
    disks.write_log(&made, entry(NEXT, "u2"));
    assert_eq!(disks.violations()[0].rule, "startedOnOtherDisk");
    assert_eq!(disks.delete(&made).unwrap_err().code, "VolumeInUse");
}

#[test]
fn a_stuck_volume_detaches_after_its_release() {
    let mut disks = disks();
    disks.attach(VOLUME, on(NODE)).unwrap();
    disks.stick(VOLUME);
    assert_eq!(disks.detach(VOLUME, NODE).unwrap().state(), "busy");
    disks.set_time(at(100));
    assert_eq!(state(&disks), "in-use");
    disks.release(VOLUME);
    disks.set_time(at(102));
    assert_eq!(state(&disks), "available");
}

#[test]
fn an_instance_that_is_removed_loses_its_volumes() {
    let mut disks = disks();
    disks.add_volume(OTHER, ZONE, &BTreeMap::new());
    disks.attach(OTHER, on(NODE)).unwrap();
    let count = disks.volumes().count();
    disks.remove_instance(NODE);
    assert_eq!(disks.volumes().count(), count - 1);
    assert_eq!(disks.volume(OTHER).unwrap().state(), "available");
}
