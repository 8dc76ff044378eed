//! Each row of the table, and which ordinal is next.

use api::migrate::StepName;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::migration::fixture::{RUN, claim, observed, pod, record, spec, tombstone, volume};
use crate::migration::observation::VolumePhase;
use crate::record::lock::LockOwnership;

struct Case {
    spec: Value,
    direction: Direction,
    is_paused: bool,
    record: StatefulSetMigrationStatus,
    observation: Observation,
}

/// Ordinal 0 has moved; both clusters are well.
fn case() -> Case {
    Case {
        spec: json!({}),
        direction: Direction::Forward,
        is_paused: false,
        record: record(Location::Source, StepName::Gate),
        observation: well((1, 2), (0, 1)),
    }
}

fn well(source: (i32, i32), destination: (i32, i32)) -> Observation {
    let mut all = observed(source, destination);
    all.destination
        .pods
        .insert("web-0".into(), pod("pod-0", "set-dest"));
    all.destination
        .pods
        .get_mut("web-0")
        .expect("it runs")
        .claims
        .clear();
    all.source
        .pods
        .get_mut("web-2")
        .expect("it runs")
        .claims
        .clear();
    all
}

fn decide(case: &Case) -> Next {
    let claims = BTreeMap::from([(0, vec![]), (1, vec![claim()]), (2, vec![]), (9, vec![])]);
    decide_with(case, &claims)
}

fn decide_with(case: &Case, claims: &BTreeMap<i32, Vec<HandoverClaim>>) -> Next {
    let spec = spec(&case.spec);
    let proof = Proof::default();
    next(&Moves {
        spec: &spec,
        record: &case.record,
        run: RUN,
        direction: case.direction,
        marker: &BTreeMap::new(),
        is_intent_unused: false,
        is_paused: case.is_paused,
        claims,
        exhausted_budget: None,
        observation: &case.observation,
        proof: &proof,
        now: Timestamp::from_second(1_000_000).expect("a time"),
        elapsed: Duration::from_secs(20),
    })
}

fn summary(next: &Next) -> String {
    match next {
        Next::Complete => "complete".to_owned(),
        Next::LimitReached => "limit".to_owned(),
        Next::Paused => "paused".to_owned(),
        Next::Hold(hold)
        | Next::Ordinal {
            decision: Decision::Hold(hold),
            ..
        } => format!("hold {}", hold.reason),
        Next::Ordinal {
            decision, record, ..
        } => {
            let step = decision
                .step()
                .map_or_else(|| "arrived".to_owned(), |step| step.to_string());
            format!("{} {step}", record.ordinal)
        }
    }
}

fn located(locations: [Location; 3]) -> StatefulSetMigrationStatus {
    let mut record = record(Location::Source, StepName::Gate);
    for (ordinal, location) in record.ordinals.iter_mut().zip(locations) {
        ordinal.location = location;
        ordinal.step = None;
    }
    record
}

#[rstest]
#[case::the_lowest_in_the_source(Direction::Forward, "1 release")]
#[case::the_highest_in_the_destination(Direction::Back, "0 r-release")]
fn the_next_ordinal_begins(#[case] direction: Direction, #[case] expected: &str) {
    assert_eq!(
        summary(&decide(&Case {
            direction,
            ..case()
        })),
        expected
    );
}

/// Ordinal 9 has claims and no pod.
fn with_dormant(locations: [Location; 3], dormant: Location) -> StatefulSetMigrationStatus {
    let mut record = located(locations);
    record.ordinals.push(OrdinalRecord {
        ordinal: 9,
        location: dormant,
        ..OrdinalRecord::default()
    });
    record
}

#[rstest]
#[case::forward_they_come_last(
    Direction::Forward,
    with_dormant([Location::Destination, Location::Source, Location::Source], Location::Source),
    (1, 2),
    (0, 1),
    "1 release"
)]
#[case::forward_after_all_ordinals(
    Direction::Forward,
    with_dormant([Location::Destination; 3], Location::Source),
    (3, 0),
    (0, 3),
    "9 arrived"
)]
#[case::back_they_come_first(
    Direction::Back,
    with_dormant([Location::Destination; 3], Location::Destination),
    (3, 0),
    (0, 3),
    "9 arrived"
)]
fn dormant_claims_move_after_the_ordinals_and_return_before_them(
    #[case] direction: Direction,
    #[case] record: StatefulSetMigrationStatus,
    #[case] source: (i32, i32),
    #[case] destination: (i32, i32),
    #[case] expected: &str,
) {
    let case = Case {
        direction,
        record,
        observation: well(source, destination),
        ..case()
    };
    assert_eq!(summary(&decide(&case)), expected);
}

#[rstest]
#[case::all_have_moved(Direction::Forward, [Location::Destination; 3], (3, 0), (0, 3))]
#[case::all_are_back(Direction::Back, [Location::Source; 3], (0, 3), (0, 0))]
fn a_run_is_complete(
    #[case] direction: Direction,
    #[case] locations: [Location; 3],
    #[case] source: (i32, i32),
    #[case] destination: (i32, i32),
) {
    let case = Case {
        direction,
        record: located(locations),
        observation: well(source, destination),
        ..case()
    };
    assert_eq!(summary(&decide(&case)), "complete");
}

#[rstest]
#[case::between_ordinals(record(Location::Source, StepName::Gate), (1, 2), "paused")]
#[case::an_ordinal_in_motion_goes_on(record(Location::Moving, StepName::Gone), (2, 1), "1 gone")]
fn a_pause_waits_for_the_ordinal_in_motion(
    #[case] record: StatefulSetMigrationStatus,
    #[case] source: (i32, i32),
    #[case] expected: &str,
) {
    let case = Case {
        is_paused: true,
        record,
        observation: well(source, (0, 1)),
        ..case()
    };
    assert_eq!(summary(&decide(&case)), expected);
}

#[rstest]
#[case::reached(1, Direction::Forward, "limit")]
#[case::not_reached(2, Direction::Forward, "1 release")]
#[case::none_at_all(0, Direction::Forward, "limit")]
#[case::a_rollback_has_none(0, Direction::Back, "0 r-release")]
fn the_limit_counts_ordinals_at_the_destination(
    #[case] limit: i32,
    #[case] direction: Direction,
    #[case] expected: &str,
) {
    let case = Case {
        spec: json!({"ordinalLimit": limit}),
        direction,
        ..case()
    };
    assert_eq!(summary(&decide(&case)), expected);
}

#[test]
fn the_limit_does_not_stop_dormant_claims() {
    let case = Case {
        spec: json!({"ordinalLimit": 3}),
        record: with_dormant([Location::Destination; 3], Location::Source),
        observation: well((3, 0), (0, 3)),
        ..case()
    };
    assert_ne!(summary(&decide(&case)), "limit");
}

#[rstest]
#[case::before_the_ordinal(record(Location::Source, StepName::Gate), (0, 1), "hold SourceWidened")]
#[case::before_the_fence(record(Location::Moving, StepName::Gone), (0, 1), "hold SourceWidened")]
#[case::past_the_fence(record(Location::Moving, StepName::Attach), (0, 2), "1 attach")]
fn interference_stops_all_but_an_ordinal_past_the_fence(
    #[case] record: StatefulSetMigrationStatus,
    #[case] destination: (i32, i32),
    #[case] expected: &str,
) {
    // The source runs ordinal 0 again, which has moved.
    let mut observation = well((0, 1), destination);
    observation.source.pods.clear();
    observation
        .source
        .claims
        .insert("data-web-1".into(), tombstone());
    observation.source.volumes.insert(
        "pv-source".into(),
        volume(VolumePhase::Released, Some("claim")),
    );
    let case = Case {
        record,
        observation,
        ..case()
    };
    assert_eq!(summary(&decide(&case)), expected);
}

#[test]
fn a_closed_gate_releases_nothing() {
    let mut case = case();
    case.observation
        .source
        .pods
        .get_mut("web-2")
        .expect("it runs")
        .ready_since = None;
    assert_eq!(summary(&decide(&case)), "1 gate");
    case.spec = json!({"acknowledge": ["Health/2"]});
    assert_eq!(summary(&decide(&case)), "1 release");
    case.spec = json!({"acknowledge": ["Health"]});
    assert_eq!(summary(&decide(&case)), "1 release");
}

#[test]
fn a_hold_leaves_the_record_as_it_was() {
    let mut case = case();
    case.record = record(Location::Moving, StepName::Fence);
    case.observation = well((2, 1), (0, 1));
    case.observation.source.pods.remove("web-1");
    case.observation.source.attachments.clear();
    case.observation.source.nodes.clear();
    let absent = crate::migration::observation::DiskRead {
        disk: None,
        began: Duration::from_secs(20),
    };
    case.observation.disks.insert("vol-1".into(), absent);
    let Next::Ordinal {
        decision, record, ..
    } = decide(&case)
    else {
        panic!("an ordinal is in motion");
    };
    assert!(matches!(decision, Decision::Hold(hold) if hold.reason == HoldReason::VolumeMissing));
    assert_eq!(*record, case.record.ordinals[1]);
}

#[rstest]
#[case::a_pause(json!({}), true, "paused")]
#[case::the_limit(json!({"ordinalLimit": 1}), false, "limit")]
#[case::nothing(json!({}), false, "1 release")]
fn an_ordinal_at_the_gate_is_stopped_by(
    #[case] spec: Value,
    #[case] is_paused: bool,
    #[case] expected: &str,
) {
    for step in [StepName::Gate, StepName::Release] {
        let case = Case {
            spec: spec.clone(),
            is_paused,
            record: record(Location::Moving, step),
            ..case()
        };
        assert_eq!(summary(&decide(&case)), expected, "{step}");
    }
}

#[test]
fn a_closed_gate_leaves_the_ordinal_where_it_is() {
    let mut case = case();
    case.observation.source.pods.remove("web-2");
    let Next::Ordinal { record, .. } = decide(&case) else {
        panic!("the gate waits");
    };
    assert_eq!(record.location, Location::Source);
}

#[rstest]
#[case::source_widened_past_the_fence(StepName::Confirm, (1, 2), (0, 1), "hold SourceWidened")]
#[case::source_widened_after_the_growth(StepName::Attach, (0, 3), (0, 2), "1 attach")]
#[case::destination_shrunk_after_the_growth(StepName::Attach, (2, 1), (0, 1), "hold DestinationDrift")]
fn a_window_that_somebody_changed_is_not_changed_back(
    #[case] step: StepName,
    #[case] source: (i32, i32),
    #[case] destination: (i32, i32),
    #[case] expected: &str,
) {
    let mut observation = well(source, destination);
    observation.source.pods.clear();
    observation.source.attachments.clear();
    observation.source.nodes.clear();
    let fenced = crate::migration::fixture::tombstone();
    observation
        .source
        .claims
        .insert("data-web-1".into(), fenced);
    let released = crate::migration::observation::VolumePhase::Released;
    let volume = crate::migration::fixture::volume(released, Some("claim"));
    observation
        .source
        .volumes
        .insert("pv-source".into(), volume);
    let case = Case {
        record: record(Location::Moving, step),
        observation,
        ..case()
    };
    assert_eq!(summary(&decide(&case)), expected);
}

#[rstest]
#[case::without_a_destination(|all: &mut Observation| all.destination.set = None, "complete")]
#[case::without_a_lock(|all: &mut Observation| all.source.lock = LockOwnership::Missing, "complete")]
#[case::with_another_cluster(
    |all: &mut Observation| all.destination.identity = Some("other".into()), "hold IdentityChanged")]
fn a_rollback_is_complete_once_all_are_back(
    #[case] change: impl FnOnce(&mut Observation),
    #[case] expected: &str,
) {
    let mut case = Case {
        direction: Direction::Back,
        record: located([Location::Source; 3]),
        observation: well((0, 3), (0, 0)),
        ..case()
    };
    change(&mut case.observation);
    assert_eq!(summary(&decide(&case)), expected);
}

#[rstest]
#[case::an_ordinal(|record: &mut StatefulSetMigrationStatus| drop(record.ordinals.pop()))]
#[case::every_ordinal(|record: &mut StatefulSetMigrationStatus| record.ordinals.clear())]
#[case::the_window(|record: &mut StatefulSetMigrationStatus| record.window = None)]
fn a_record_that_lacks_something_is_not_complete(
    #[case] change: impl FnOnce(&mut StatefulSetMigrationStatus),
) {
    let mut case = case();
    change(&mut case.record);
    let Next::Hold(hold) = decide(&case) else {
        panic!("it holds");
    };
    assert!(
        hold.message.contains("journal --restore") || hold.reason == HoldReason::DestinationDrift
    );
}

#[rstest]
#[case::none_of_the_ordinal(BTreeMap::new(), "hold VolumeMissing")]
#[case::another_disk_than_recorded(
    BTreeMap::from([(1, vec![HandoverClaim { disk: "vol-9".into(), ..claim() }])]), "hold VolumeMissing")]
#[case::as_recorded(BTreeMap::from([(1, vec![claim()])]), "1 release")]
fn an_ordinal_moves_only_with_all_of_its_claims(
    #[case] claims: BTreeMap<i32, Vec<HandoverClaim>>,
    #[case] expected: &str,
) {
    let mut case = case();
    case.record.ordinals[1].claims = vec![api::migrate::ClaimRecord {
        name: "data-web-1".into(),
        volume_id: "vol-1".into(),
        ..api::migrate::ClaimRecord::default()
    }];
    assert_eq!(summary(&decide_with(&case, &claims)), expected);
}

#[test]
fn the_release_records_the_pod_and_its_node() {
    let mut case = case();
    case.record.ordinals[1].source_pod_uid = Some("before-it-was-evicted".into());
    let Next::Ordinal { record, .. } = decide(&case) else {
        panic!("it releases");
    };
    assert_eq!(record.source_pod_uid.as_deref(), Some("pod"));
    assert_eq!(record.node.map(|node| node.name).as_deref(), Some("node-a"));
}

#[test]
fn a_rollback_records_the_node_of_the_destination() {
    let mut case = Case {
        direction: Direction::Back,
        ..case()
    };
    case.record.ordinals[0].node = Some(api::migrate::NodeRecord::default());
    let pod = case.observation.destination.pods.get_mut("web-0");
    pod.expect("it runs").node = Some("node-d".into());
    let Next::Ordinal { record, .. } = decide(&case) else {
        panic!("it releases");
    };
    assert_eq!(record.node.map(|node| node.name).as_deref(), Some("node-d"));
}

#[test]
fn a_pod_that_healed_since_it_moved_may_come_back() {
    let mut case = Case {
        direction: Direction::Back,
        record: located([Location::Destination, Location::Source, Location::Source]),
        observation: well((1, 2), (0, 0)),
        ..case()
    };
    case.record.ordinals[0].dest_pod_uid = Some("before-it-healed".into());
    case.record.ordinals[0].step = Some(StepName::RGone);
    case.record.ordinals[0].location = Location::Moving;
    assert_eq!(summary(&decide(&case)), "hold DestinationDrift");
    case.record.ordinals[0].location = Location::Destination;
    case.record.ordinals[0].step = None;
    case.observation = well((1, 2), (0, 1));
    let Next::Ordinal { record, .. } = decide(&case) else {
        panic!("it releases");
    };
    assert_eq!(record.dest_pod_uid.as_deref(), Some("pod-0"));
}

#[test]
fn a_source_that_was_scaled_down_is_not_scaled_up() {
    let mut case = case();
    case.observation = well((1, 1), (0, 1));
    assert_eq!(summary(&decide(&case)), "1 gate");
}

/// The source has no StatefulSet; ordinal 1 is at this step.
fn orphaned(location: Location, step: StepName, spec: Value) -> Case {
    let mut case = Case {
        spec,
        record: record(location, step),
        observation: well((1, 2), (0, 1)),
        ..case()
    };
    case.record.strategy = Some(api::migrate::Strategy::OrphanAdopt);
    case.record.orphan_started = true;
    case.record.ordinals[1].source_pod_uid = Some("pod".into());
    case.observation.source.set = None;
    for pod in case.observation.source.pods.values_mut() {
        pod.controller = None;
    }
    case
}

#[rstest]
#[case::next(Location::Source, StepName::Gate, &[], json!({}), "1 release")]
#[case::lost(Location::Source, StepName::Gate, &["web-1"], json!({}), "1 gate")]
#[case::lost_and_accepted(
    Location::Source, StepName::Gate, &["web-1"], json!({"acknowledge": ["Health/1"]}), "1 detach")]
#[case::another_is_lost(Location::Source, StepName::Gate, &["web-2"], json!({}), "1 gate")]
#[case::another_is_accepted(
    Location::Source, StepName::Gate, &["web-2"], json!({"acknowledge": ["Health/2"]}), "1 release")]
#[case::paused(Location::Source, StepName::Gate, &[], json!({"paused": true}), "paused")]
#[case::release_announced(Location::Moving, StepName::Release, &[], json!({}), "1 release")]
#[case::released(Location::Moving, StepName::Release, &["web-1"], json!({"paused": true}), "1 detach")]
#[case::in_motion_while_another_is_lost(
    Location::Moving, StepName::Gone, &["web-1", "web-2"], json!({}), "1 detach")]
fn an_orphan_moves_by_its_record(
    #[case] location: Location,
    #[case] step: StepName,
    #[case] lost: &[&str],
    #[case] spec: Value,
    #[case] expected: &str,
) {
    let mut case = orphaned(location, step, spec);
    case.is_paused = case.spec["paused"] == true;
    for pod in lost {
        case.observation.source.pods.remove(*pod);
    }
    assert_eq!(summary(&decide(&case)), expected);
}

#[rstest]
#[case::the_next_one_follows(StepName::RGrow, "0 r-release")]
#[case::one_in_motion_goes_first(StepName::RGone, "1 r-gone")]
fn without_ordinals_a_drained_one_waits_for_the_set(
    #[case] step: StepName,
    #[case] expected: &str,
) {
    let mut case = orphaned(Location::Moving, step, json!({}));
    case.record.without_ordinals = true;
    case.direction = Direction::Back;
    if step == StepName::RGone {
        let dest = pod("pod-dest", "set-dest");
        case.observation
            .destination
            .pods
            .insert("web-1".into(), dest);
    }
    assert_eq!(summary(&decide(&case)), expected);
}
