use std::sync::atomic::{AtomicU64, Ordering};

use aws::ec2::{Volume, VolumeState};
use aws::{Error, Operation};
use kernel::TestClock;

use super::*;

const DISK: &str = "vol-1";

fn run(name: &str) -> ObjectKey {
    ObjectKey::namespaced("ops", name)
}

fn reads() -> (VolumeReads, Arc<TestClock>) {
    let clock = Arc::new(TestClock::new());
    let reads = VolumeReads::new(clock.clone(), Arc::default());
    (reads, clock)
}

fn ids(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

fn volume(state: &str) -> Volume {
    Volume {
        id: DISK.to_owned(),
        state: match state {
            "available" => VolumeState::Available,
            _ => VolumeState::InUse,
        },
        zone: "eu-west-1a".to_owned(),
        size_gib: 1,
        encrypted: false,
        kms_key: None,
        multi_attach: false,
        volume_type: "gp3".to_owned(),
        tags: BTreeMap::new(),
        attachments: Vec::new(),
    }
}

fn no_answer() -> Error {
    Error::NoAnswer {
        operation: Operation::DescribeVolumes,
        resource: String::new(),
        reason: "cut".to_owned(),
    }
}

/// Answers the batches that are due. Returns the runs to wake.
fn answered(reads: &VolumeReads, answer: &Result<Vec<Volume>, Error>) -> Vec<ObjectKey> {
    let batches = reads.due();
    let woken = batches
        .into_iter()
        .flat_map(|batch| reads.store(batch, answer.clone()));
    woken.collect()
}

fn state_of(reads: &BTreeMap<String, DiskRead>) -> Option<&str> {
    reads[DISK].disk.as_ref().map(|disk| &*disk.state)
}

#[test]
fn a_change_wakes_the_runs_that_wait_for_the_disk() {
    let (reads, clock) = reads();
    reads.wait(&run("web"), ids(&[DISK]), None);
    reads.wait(&run("api"), ids(&["vol-2"]), None);
    let in_use = Ok(vec![volume("in-use")]);
    assert_eq!(answered(&reads, &in_use), [run("api"), run("web")], "first");
    clock.advance(Duration::from_secs(2));
    assert_eq!(answered(&reads, &in_use), []);
    clock.advance(Duration::from_secs(2));
    let free = Ok(vec![volume("available")]);
    assert_eq!(answered(&reads, &free), [run("web")]);
    assert_eq!(state_of(&reads.latest(&run("web"))), Some("available"));
}

#[test]
fn readings_stay_when_a_run_no_longer_waits() {
    let (reads, _) = reads();
    reads.wait(&run("web"), ids(&[DISK]), None);
    answered(&reads, &Ok(vec![volume("available")]));
    reads.wait(&run("web"), BTreeSet::new(), None);
    assert!(reads.due().is_empty());
    assert_eq!(state_of(&reads.latest(&run("web"))), Some("available"));
    reads.forget(&run("web"));
    assert!(reads.latest(&run("web")).is_empty());
}

#[test]
fn an_absent_volume_is_not_a_free_one() {
    let (reads, _) = reads();
    reads.wait(&run("web"), ids(&[DISK]), None);
    answered(&reads, &Ok(Vec::new()));
    let latest = reads.latest(&run("web"));
    assert_eq!(latest[DISK].disk, None);
}

#[test]
fn a_read_that_is_due_later_begins_then() {
    let (reads, clock) = reads();
    reads.wait(&run("web"), ids(&[DISK]), None);
    answered(&reads, &Ok(vec![volume("available")]));
    reads.wait(&run("web"), ids(&[DISK]), Some(Duration::from_millis(500)));
    assert!(reads.due().is_empty());
    clock.advance(Duration::from_millis(500));
    let woken = answered(&reads, &Ok(vec![volume("available")]));
    assert_eq!(woken, [run("web")]);
}

/// Reads the disk while the poller runs.
async fn read(
    reads: &VolumeReads,
    not_before: Duration,
    answer: Result<Vec<Volume>, Error>,
) -> (Result<BTreeMap<String, DiskRead>, CallError>, u64) {
    let calls = AtomicU64::new(0);
    let (key, disks) = (run("web"), [DISK.to_owned()]);
    let polled = poll(reads, |_| {
        calls.fetch_add(1, Ordering::Relaxed);
        let answer = answer.clone();
        async move { answer }
    });
    let read = reads.read(&key, &disks, not_before);
    let answer = tokio::select! {
        () = polled => unreachable!("the poller does not end"),
        answer = read => answer,
    };
    (answer, calls.load(Ordering::Relaxed))
}

#[tokio::test]
async fn a_read_is_answered_by_the_poller() {
    let (reads, clock) = reads();
    clock.advance(Duration::from_secs(7));
    let now = Duration::from_secs(7);
    let (answer, calls) = read(&reads, now, Ok(vec![volume("available")])).await;
    let answer = answer.unwrap();
    assert_eq!((state_of(&answer), calls), (Some("available"), 1));
    assert_eq!(answer[DISK].began, now);
}

#[tokio::test]
async fn a_reading_that_is_new_enough_makes_no_call() {
    let (reads, clock) = reads();
    reads.wait(&run("web"), ids(&[DISK]), None);
    answered(&reads, &Ok(vec![volume("available")]));
    clock.advance(Duration::from_millis(100));
    let (answer, calls) = read(&reads, Duration::ZERO, Err(no_answer())).await;
    assert_eq!((answer.is_ok(), calls), (true, 0));
}

#[tokio::test]
async fn a_failed_read_is_the_error_of_ec2() {
    let (reads, _) = reads();
    let (answer, _) = read(&reads, Duration::ZERO, Err(no_answer())).await;
    let error = answer.unwrap_err();
    assert_eq!(error.class, Class::Transient);
    assert!(error.message.contains("DescribeVolumes"), "{error}");
}

#[tokio::test]
async fn a_read_without_an_answer_ends_in_time() {
    let (reads, _) = reads();
    let disks = [DISK.to_owned()];
    let answer = reads.read(&run("web"), &disks, Duration::ZERO).await;
    let error = answer.unwrap_err();
    assert!(error.message.contains("no answer from EC2 within 10 s"));
}

#[test]
fn a_pass_that_awaits_an_answer_is_not_woken_by_it() {
    let (reads, _) = reads();
    reads.want(&run("web"), &[DISK.to_owned()], Duration::ZERO);
    reads.wait(&run("api"), ids(&[DISK]), None);
    let woken = answered(&reads, &Ok(vec![volume("available")]));
    assert_eq!(woken, [run("api")]);
}
