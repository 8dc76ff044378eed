use std::time::Duration;

use rstest::rstest;

use super::super::{Attachment, AttachmentState, Tags, Volume, VolumeState};
use super::{Batch, VolumeWatch};
use crate::{Error, Operation};

type Watch = VolumeWatch<&'static str>;

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn free(id: &str) -> Volume {
    Volume {
        id: id.to_owned(),
        state: VolumeState::Available,
        zone: "eu-west-1a".to_owned(),
        size_gib: 10,
        encrypted: false,
        kms_key: None,
        multi_attach: false,
        volume_type: "gp3".to_owned(),
        tags: Tags::new(),
        attachments: Vec::new(),
    }
}

fn detaching(id: &str) -> Volume {
    Volume {
        state: VolumeState::InUse,
        attachments: vec![Attachment {
            instance: "i-1".to_owned(),
            device: "/dev/xvdba".to_owned(),
            state: AttachmentState::Detaching,
            delete_on_termination: false,
        }],
        ..free(id)
    }
}

pub(super) fn no_answer() -> Error {
    Error::NoAnswer {
        operation: Operation::DescribeVolumes,
        resource: String::new(),
        reason: "timed out after 5s".to_owned(),
    }
}

fn denied() -> Error {
    Error::Credentials {
        reason: "none".to_owned(),
        passing: false,
    }
}

/// Ids of this many volumes, in order.
pub(super) fn ids(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("vol-{n:04}")).collect()
}

/// A watch in which `web` waits for this many volumes.
fn waiting(count: usize) -> Watch {
    let mut watch = Watch::default();
    watch.wait(&"web", ids(count));
    watch
}

/// The batch that begins at this time, with a period of one second.
fn begun(watch: &mut Watch, millis: u64) -> Option<Batch> {
    watch.begin(at(millis), 0.5)
}

/// Begins a batch at this time that shows its volumes as free.
fn read(watch: &mut Watch, millis: u64) -> Vec<String> {
    let batch = begun(watch, millis).expect("one is due");
    let ids = batch.ids().to_vec();
    let volumes = ids.iter().map(|id| free(id)).collect();
    watch.finish(batch, Ok(volumes));
    ids
}

#[test]
fn nothing_is_read_while_nobody_waits() {
    let mut watch = Watch::default();
    assert_eq!(watch.next_read(), None);
    assert!(begun(&mut watch, 5000).is_none());
    watch.wait(&"web", ids(1));
    watch.want("vol-0000", at(0));
    watch.leave(&"web");
    assert_eq!((watch.next_read(), watch.waiting()), (None, 0));
    assert!(begun(&mut watch, 5000).is_none());
}

#[test]
fn a_volume_is_read_at_once_after_a_long_pause() {
    let mut watch = waiting(1);
    assert_eq!(read(&mut watch, 100), ids(1));
    watch.leave(&"web");
    watch.wait(&"web", ids(2));
    assert!(begun(&mut watch, 1099).is_none());
    assert_eq!(read(&mut watch, 9000), ids(2));
}

#[test]
fn leaving_and_coming_back_makes_no_extra_read() {
    let mut watch = waiting(1);
    read(&mut watch, 0);
    watch.leave(&"web");
    watch.wait(&"web", ids(1));
    assert_eq!(watch.next_read(), Some(at(1000)));
}

#[rstest]
#[case::shortest(0.0, 5800)]
#[case::usual(0.5, 6000)]
#[case::longest(1.0, 6200)]
fn a_round_begins_every_second_give_or_take_a_fifth(#[case] random: f64, #[case] next: u64) {
    let mut watch = waiting(1);
    let batch = watch.begin(at(5000), random).expect("one is due");
    watch.finish(batch, Ok(Vec::new()));
    assert_eq!(watch.next_read(), Some(at(next)));
    assert!(watch.begin(at(next - 1), random).is_none());
    assert!(watch.begin(at(next), random).is_some());
}

#[test]
fn a_new_volume_is_read_with_the_next_round() {
    let mut watch = waiting(1);
    read(&mut watch, 0);
    watch.wait(&"other", ["vol-0001".to_owned()]);
    assert_eq!(watch.next_read(), Some(at(1000)));
    assert_eq!(read(&mut watch, 1000), ids(2));
}

#[test]
fn volumes_of_all_users_are_read_in_one_batch() {
    let mut watch = waiting(2);
    watch.wait(&"other", ids(3));
    assert_eq!(read(&mut watch, 0), ids(3));
    assert!(begun(&mut watch, 0).is_none());
}

#[rstest]
#[case::one(1, &[1])]
#[case::a_full_batch(200, &[200])]
#[case::one_more(201, &[200, 1])]
#[case::three(600, &[200, 200, 200])]
fn a_batch_has_at_most_200_volumes(#[case] count: usize, #[case] sizes: &[usize]) {
    let mut watch = waiting(count);
    let mut seen = Vec::new();
    let mut read = Vec::new();
    while let Some(batch) = begun(&mut watch, 0) {
        seen.push(batch.ids().len());
        read.extend_from_slice(batch.ids());
    }
    assert_eq!(seen, sizes);
    assert_eq!(read, ids(count));
}

#[test]
fn at_most_four_batches_of_a_round_are_unanswered() {
    let mut watch = waiting(1000);
    let mut batches: Vec<Batch> = (0..4).filter_map(|_| begun(&mut watch, 0)).collect();
    assert_eq!(batches.len(), 4);
    assert_eq!(watch.next_read(), None);
    let first = batches.remove(0);
    watch.finish(first, Err(no_answer()));
    let fifth = begun(&mut watch, 10).expect("the last of the round");
    assert_eq!(fifth.ids()[0], "vol-0800");
    assert!(begun(&mut watch, 10).is_none());
}

#[test]
fn a_round_waits_for_the_answers_of_the_last() {
    let mut watch = waiting(1);
    let slow = begun(&mut watch, 0).expect("one is due");
    assert_eq!(watch.next_read(), None);
    assert!(begun(&mut watch, 3000).is_none());
    watch.finish(slow, Err(no_answer()));
    assert_eq!(read(&mut watch, 5000), ids(1));
}

#[test]
fn a_wanted_read_begins_at_once_and_restarts_the_second() {
    let mut watch = waiting(2);
    read(&mut watch, 0);
    watch.want("vol-0001", at(300));
    assert_eq!(watch.next_read(), Some(at(300)));
    assert_eq!(read(&mut watch, 300), ids(2));
    assert_eq!(watch.next_read(), Some(at(1300)));
}

#[test]
fn a_read_for_later_begins_at_its_time() {
    let mut watch = waiting(1);
    read(&mut watch, 0);
    watch.want("vol-0000", at(700));
    assert!(begun(&mut watch, 699).is_none());
    assert_eq!(watch.next_read(), Some(at(700)));
    assert_eq!(read(&mut watch, 701), ids(1));
    assert!(watch.reading_since("vol-0000", at(700)).is_some());
}

#[test]
fn a_regular_read_can_be_the_wanted_one() {
    let mut watch = waiting(1);
    read(&mut watch, 0);
    watch.want("vol-0000", at(1000));
    assert_eq!(read(&mut watch, 1000), ids(1));
    assert_eq!(watch.next_read(), Some(at(2000)));
}

#[test]
fn a_read_that_began_earlier_does_not_count() {
    let mut watch = waiting(1);
    let round = begun(&mut watch, 0).expect("one is due");
    watch.want("vol-0000", at(50));
    let wanted = begun(&mut watch, 50).expect("it is wanted");
    watch.finish(round, Ok(vec![free("vol-0000")]));
    assert_eq!(watch.reading_since("vol-0000", at(50)), None);
    watch.finish(wanted, Ok(vec![free("vol-0000")]));
    let reading = watch.reading_since("vol-0000", at(50));
    assert_eq!(reading.map(|reading| reading.begun), Some(at(50)));
}

#[test]
fn an_unanswered_read_counts_if_it_began_late_enough() {
    let mut watch = waiting(1);
    let _round = begun(&mut watch, 100).expect("one is due");
    watch.want("vol-0000", at(100));
    assert!(begun(&mut watch, 150).is_none());
}

#[test]
fn the_same_want_again_makes_no_second_read() {
    let mut watch = waiting(1);
    read(&mut watch, 0);
    for millis in [300, 310, 320] {
        watch.want("vol-0000", at(300));
        let batch = begun(&mut watch, millis);
        assert_eq!(batch.is_some(), millis == 300);
        if let Some(batch) = batch {
            watch.finish(batch, Ok(vec![free("vol-0000")]));
        }
    }
}

#[rstest]
#[case::begun_at_that_time(0, 1000)]
#[case::begun_earlier(1, 1)]
fn a_reading_that_is_fresh_enough_is_not_repeated(#[case] from: u64, #[case] next: u64) {
    let mut watch = waiting(1);
    read(&mut watch, 0);
    watch.want("vol-0000", at(from));
    assert_eq!(watch.next_read(), Some(at(next)));
}

#[test]
fn one_batch_of_wanted_reads_is_unanswered_at_a_time() {
    let mut watch = waiting(2);
    read(&mut watch, 0);
    watch.want("vol-0000", at(100));
    let first = begun(&mut watch, 100).expect("it is wanted");
    watch.want("vol-0001", at(200));
    assert!(begun(&mut watch, 200).is_none());
    watch.finish(first, Ok(Vec::new()));
    assert!(begun(&mut watch, 250).is_some());
}

#[test]
fn of_many_volumes_only_the_wanted_are_read_at_once() {
    let mut watch = waiting(201);
    read(&mut watch, 0);
    read(&mut watch, 0);
    watch.want("vol-0007", at(400));
    assert_eq!(read(&mut watch, 400), ["vol-0007"]);
    // The others must not wait longer for it.
    assert_eq!(watch.next_read(), Some(at(1000)));
}

#[test]
fn after_a_failed_read_there_are_only_regular_ones() {
    let mut watch = waiting(1);
    let failing = begun(&mut watch, 0).expect("one is due");
    watch.finish(failing, Err(no_answer()));
    watch.want("vol-0000", at(100));
    assert!(begun(&mut watch, 999).is_none());
    read(&mut watch, 1000);
    watch.want("vol-0000", at(1100));
    assert_eq!(read(&mut watch, 1100), ids(1));
}

#[test]
fn a_volume_that_ec2_does_not_return_is_missing_and_not_free() {
    let mut watch = waiting(2);
    let batch = begun(&mut watch, 0).expect("one is due");
    watch.finish(batch, Ok(vec![free("vol-0001")]));
    let missing = watch.reading("vol-0000").expect("it was read");
    assert_eq!((missing.volume.as_ref(), missing.is_free()), (None, false));
    assert!(watch.reading("vol-0001").expect("it was read").is_free());
}

#[test]
fn a_late_answer_replaces_nothing() {
    let mut watch = waiting(1);
    let early = begun(&mut watch, 0).expect("one is due");
    watch.want("vol-0000", at(10));
    let late = begun(&mut watch, 10).expect("it is wanted");
    watch.finish(late, Ok(vec![detaching("vol-0000")]));
    let woken = watch.finish(early, Ok(vec![free("vol-0000")]));
    assert!(woken.is_empty());
    let reading = watch.reading("vol-0000").expect("it was read");
    assert_eq!((reading.begun, reading.is_free()), (at(10), false));
}

#[test]
fn a_failure_keeps_the_reading_and_its_time() {
    let mut watch = waiting(1);
    read(&mut watch, 0);
    let batch = begun(&mut watch, 1000).expect("one is due");
    watch.finish(batch, Err(no_answer()));
    assert_eq!(
        watch.reading("vol-0000").map(|read| read.begun),
        Some(at(0))
    );
    let failure = watch.failure("vol-0000").expect("it failed");
    assert_eq!((failure.begun, &failure.error), (at(1000), &no_answer()));
    read(&mut watch, 2000);
    assert_eq!(watch.failure("vol-0000"), None);
}

/// The result of a read of vol-0000.
type Shown = Result<Vec<Volume>, Error>;

#[rstest]
#[case::same(Ok(vec![free("vol-0000")]), Ok(vec![free("vol-0000")]), false)]
#[case::other_state(Ok(vec![detaching("vol-0000")]), Ok(vec![free("vol-0000")]), true)]
#[case::missing(Ok(vec![free("vol-0000")]), Ok(vec![]), true)]
#[case::still_missing(Ok(vec![]), Ok(vec![]), false)]
#[case::failed(Ok(vec![]), Err(no_answer()), true)]
#[case::failed_again(Err(no_answer()), Err(no_answer()), false)]
#[case::failed_otherwise(Err(no_answer()), Err(denied()), true)]
#[case::recovered(Err(no_answer()), Ok(vec![]), true)]
fn a_user_is_woken_by_a_change(#[case] first: Shown, #[case] second: Shown, #[case] woken: bool) {
    let mut watch = waiting(1);
    let batch = begun(&mut watch, 0).expect("one is due");
    assert!(watch.finish(batch, first).contains("web"));
    let batch = begun(&mut watch, 1000).expect("one is due");
    assert_eq!(watch.finish(batch, second).contains("web"), woken);
}

#[test]
fn a_user_is_woken_when_its_wanted_read_is_there() {
    let mut watch = waiting(1);
    watch.wait(&"other", ["vol-0001".to_owned()]);
    read(&mut watch, 0);
    watch.want("vol-0000", at(500));
    let batch = begun(&mut watch, 500).expect("it is wanted");
    let same = vec![free("vol-0000"), free("vol-0001")];
    let woken = watch.finish(batch, Ok(same));
    assert_eq!(woken.into_iter().collect::<Vec<_>>(), ["web"]);
}

#[test]
fn a_volume_is_forgotten_with_its_last_user() {
    let mut watch = waiting(2);
    watch.wait(&"other", ["vol-0001".to_owned()]);
    let batch = begun(&mut watch, 0).expect("one is due");
    watch.leave(&"web");
    assert_eq!(watch.waiting(), 1);
    let both = vec![free("vol-0000"), free("vol-0001")];
    let woken = watch.finish(batch, Ok(both));
    assert_eq!(woken.into_iter().collect::<Vec<_>>(), ["other"]);
    assert_eq!(watch.reading("vol-0000"), None);
    assert!(watch.reading("vol-0001").is_some());
}

#[test]
fn a_user_waits_only_for_the_volumes_it_named_last() {
    let mut watch = waiting(3);
    watch.wait(&"web", ["vol-0002".to_owned(), "vol-0003".to_owned()]);
    assert_eq!(read(&mut watch, 0), ["vol-0002", "vol-0003"]);
}

#[test]
fn a_round_skips_volumes_nobody_waits_for_any_longer() {
    let mut watch = waiting(401);
    read(&mut watch, 0);
    watch.wait(&"web", ["vol-0400".to_owned()]);
    assert_eq!(read(&mut watch, 0), ["vol-0400"]);
    assert_eq!(watch.next_read(), Some(at(1000)));
}

#[test]
fn a_round_without_volumes_left_makes_no_batch() {
    let mut watch = waiting(201);
    read(&mut watch, 0);
    watch.wait(&"web", ids(1));
    assert!(begun(&mut watch, 10).is_none());
    assert_eq!(watch.next_read(), Some(at(1000)));
}
