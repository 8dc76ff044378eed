//! Each row of the table, and the tags.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rstest::rstest;

use super::*;
use crate::migration::fixture::{CLAIM, ORDINAL, WINDOW, at, claim, read, running};
use crate::migration::handover::Proof;
use crate::migration::observation::SnapshotState;

/// The time of the pass, by the clock of the process.
const NOW: u64 = 100;

fn snapshots(intent: Option<String>, is_intent_unused: bool) -> Snapshots {
    let marker = BTreeMap::from([("pontoon.io/cluster".to_owned(), "cluster".to_owned())]);
    Snapshots {
        search: Snapshots::search(&marker, "run-1", ORDINAL),
        user_tags: BTreeMap::from([("team".to_owned(), "shop".to_owned())]),
        recorded: BTreeSet::new(),
        intent,
        is_intent_unused,
    }
}

fn token(attempt: i32) -> String {
    snapshots(None, false).create(&claim(), attempt).token()
}

fn shown(claims: &[&str], began: u64) -> SnapshotRead {
    let found = claims.iter().map(|claim| SnapshotState {
        id: format!("snap-{claim}"),
        tags: BTreeMap::from([(CLAIM_TAG.to_owned(), (*claim).to_owned())]),
    });
    SnapshotRead {
        found: found.collect(),
        began: at(began),
    }
}

/// The decision in a pass, after one at `earlier` that has seen the intent already.
fn decide(
    snapshots: &Snapshots,
    answer: Option<SnapshotRead>,
    direction: Direction,
    earlier: u64,
) -> String {
    let mut observation = running();
    let claims = [claim()];
    observation.disks.insert(claim().disk, read(NOW, &[]));
    let first = Proof::default();
    let mut handover = Handover {
        direction,
        ordinal: ORDINAL,
        window: WINDOW,
        set: "web",
        source_namespace: "shop",
        destination_namespace: "shop",
        is_orphaned: false,
        has_left: false,
        is_dormant: false,
        pod_uid: None,
        node: None,
        cluster_names: None,
        snapshots: Some(snapshots),
        old_tags: &BTreeMap::new(),
        boot_id: None,
        released_at: None,
        accepts_unclean: false,
        claims: &claims,
        accepts_unready: &[],
        observation: &observation.clone(),
        proof: &first,
        now: Timestamp::UNIX_EPOCH,
        elapsed: at(earlier),
    };
    let proof = first.advanced(&handover);
    observation.snapshots = answer.map(|read| (ORDINAL, read)).into_iter().collect();
    handover.observation = &observation;
    handover.proof = &proof;
    handover.elapsed = at(NOW);
    match next(&handover) {
        Decision::Done => "done".to_owned(),
        Decision::Act(step) => format!("act {step}"),
        Decision::ReadSnapshots { .. } => "search".to_owned(),
        Decision::Wait(wait) => format!("wait {:?}", wait.after),
        other => panic!("not here: {other:?}"),
    }
}

const CREATE: &str = "act snapshot: create a snapshot of disk vol-1";
const AGAIN: &str = "act snapshot: create a snapshot of disk vol-1, attempt 2";

#[rstest]
#[case::not_searched(None, "search")]
#[case::searched_long_ago(Some(shown(&[], NOW - 6)), "search")]
#[case::none(Some(shown(&[], NOW)), CREATE)]
#[case::one_of_another_claim(Some(shown(&["logs-web-1"], NOW)), CREATE)]
#[case::its_own(Some(shown(&[CLAIM], NOW)), "done")]
fn a_disk_without_snapshot_gets_one(#[case] answer: Option<SnapshotRead>, #[case] expected: &str) {
    let snapshots = snapshots(None, false);
    assert_eq!(
        decide(&snapshots, answer, Direction::Forward, NOW),
        expected
    );
}

#[rstest]
#[case::another_intent("another".to_owned(), false, NOW, CREATE)]
#[case::not_used(token(0), true, NOW, CREATE)]
#[case::used_just_now(token(0), false, NOW, "wait Some(2s)")]
#[case::used_for_29_s(token(0), false, NOW - 29, "wait Some(2s)")]
#[case::used_for_30_s(token(0), false, NOW - 30, AGAIN)]
fn a_lost_request_is_searched_for(
    #[case] intent: String,
    #[case] is_unused: bool,
    #[case] since: u64,
    #[case] expected: &str,
) {
    let snapshots = snapshots(Some(intent), is_unused);
    let none = Some(shown(&[], NOW));
    assert_eq!(
        decide(&snapshots, none, Direction::Forward, since),
        expected
    );
}

#[rstest]
#[case::announced(true, AGAIN)]
#[case::made(false, "wait Some(2s)")]
fn a_second_attempt_is_an_intent_of_its_own(#[case] is_unused: bool, #[case] expected: &str) {
    let second = snapshots(Some(token(1)), is_unused);
    let none = Some(shown(&[], NOW));
    assert_eq!(decide(&second, none, Direction::Forward, NOW), expected);
}

#[test]
fn a_recorded_snapshot_is_not_searched_for() {
    let recorded = Snapshots {
        recorded: BTreeSet::from([CLAIM.to_owned()]),
        ..snapshots(None, false)
    };
    assert_eq!(decide(&recorded, None, Direction::Forward, NOW), "done");
}

#[test]
fn a_rollback_makes_none() {
    let snapshots = snapshots(None, false);
    assert_eq!(decide(&snapshots, None, Direction::Back, NOW), "done");
}

#[test]
fn it_has_the_tags_of_the_run_and_of_the_user() {
    let Change::CreateSnapshot { tags, .. } = snapshots(None, false).create(&claim(), 0) else {
        panic!("it is a snapshot");
    };
    let expected = [
        ("migration.aqua.io/claim", CLAIM),
        ("migration.aqua.io/ordinal", "1"),
        ("migration.aqua.io/run", "run-1"),
        ("pontoon.io/cluster", "cluster"),
        ("team", "shop"),
    ];
    let tags: Vec<(&str, &str)> = tags.iter().map(|(key, value)| (&**key, &**value)).collect();
    assert_eq!(tags, expected);
}
