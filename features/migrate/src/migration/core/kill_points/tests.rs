//! Each row of the tables, and that every step has its points.

use std::collections::BTreeSet;
use std::time::Duration;

use api::migrate::Window;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use rstest::rstest;

use super::super::Situation;
use super::*;
use crate::migration::decision::{Change, Step};
use crate::migration::pass::Memory;

use Location::{Destination, Moving, Source};
use StepName::{
    Attach, CleanPv, Confirm, Detach, Fence, Gate, Gone, Grow, Hydrate, RClean, RFence, RGrow,
    RReady, RRelease, Ready, Release, Retag, Soak, Unlock,
};

/// A step that an ordinal is at, and where the ordinal is.
type At = (Location, Option<StepName>);

/// A run whose window has the ordinals 0 and 1; ordinal 2 is dormant.
fn record(ordinals: &[(i32, At)]) -> StatefulSetMigrationStatus {
    let ordinals = ordinals
        .iter()
        .map(|(ordinal, (location, step))| OrdinalRecord {
            ordinal: *ordinal,
            location: *location,
            step: *step,
            ..OrdinalRecord::default()
        });
    StatefulSetMigrationStatus {
        phase: Some(Phase::MigratingPods),
        window: Some(Window {
            start: 0,
            replicas: 2,
            had_ordinals: true,
        }),
        ordinals: ordinals.collect(),
        ..StatefulSetMigrationStatus::default()
    }
}

fn announcing(
    mut record: StatefulSetMigrationStatus,
    step: StepName,
    ordinal: Option<i32>,
) -> StatefulSetMigrationStatus {
    record.intent = Some(Intent {
        step,
        ordinal,
        token: "token".to_owned(),
        at: MicroTime(Timestamp::UNIX_EPOCH),
    });
    record
}

fn in_phase(phase: Phase) -> StatefulSetMigrationStatus {
    StatefulSetMigrationStatus {
        phase: Some(phase),
        ..record(&[])
    }
}

fn decided(record: StatefulSetMigrationStatus, next: Move) -> Decided {
    Decided {
        next,
        situation: Situation::Progressing,
        record,
        memory: Memory::default(),
        phases: Vec::new(),
        reason: String::new(),
        message: String::new(),
    }
}

fn change(name: StepName, ordinal: Option<i32>) -> Write {
    Write::Change(Step {
        name,
        ordinal,
        change: Change::DeleteTags {
            disk: "vol-1".to_owned(),
            keys: Vec::new(),
        },
    })
}

fn listed(points: &[KillPoint]) -> String {
    let names = points.iter().map(|point| point.name.as_str());
    names.collect::<Vec<_>>().join(" ")
}

#[rstest]
#[case::no_intent(record(&[(0, (Source, None))]), "")]
#[case::of_the_run(announcing(record(&[]), Hydrate, None), "hydrate:-:before")]
#[case::of_an_ordinal(announcing(record(&[(1, (Moving, Some(Release)))]), Release, Some(1)), "release:1:before")]
#[case::that_is_confirmed(announcing(record(&[(1, (Moving, Some(Grow)))]), Fence, Some(1)), "")]
#[case::of_a_step_that_waits_too(announcing(record(&[(1, (Moving, Some(Gone)))]), Gone, Some(1)), "gone:1:before")]
#[case::that_a_wait_follows(announcing(record(&[(1, (Moving, Some(Gone)))]), Release, Some(1)), "gone:1:before")]
#[case::of_a_clean_up(announcing(record(&[(1, (Destination, None))]), CleanPv, Some(1)), "clean-pv:1:before")]
#[case::of_the_other_clean_up(announcing(record(&[(1, (Source, None))]), RClean, Some(1)), "r-clean:1:before r-clean:-:before")]
fn a_pass_begins_at_the_saved_intent(
    #[case] record: StatefulSetMigrationStatus,
    #[case] expected: &str,
) {
    assert_eq!(listed(&at_begin(&record)), expected);
}

#[rstest]
#[case::a_closed_gate(record(&[(1, (Source, Some(Gate)))]), "gate:1:before")]
#[case::an_ordinal(record(&[(0, (Destination, None)), (1, (Moving, Some(Attach)))]), "attach:1:before")]
#[case::back(record(&[(1, (Moving, Some(RReady)))]), "r-ready:1:before")]
#[case::the_soak(in_phase(Phase::Finalizing), "soak:-:before")]
#[case::after_the_soak(
    announcing(in_phase(Phase::Finalizing), Unlock, None),
    "unlock:-:before"
)]
#[case::at_the_end(in_phase(Phase::Completed), "")]
fn a_pass_begins_at_the_wait_that_status_names(
    #[case] record: StatefulSetMigrationStatus,
    #[case] expected: &str,
) {
    assert_eq!(listed(&at_begin(&record)), expected);
}

#[rstest]
#[case::still_waiting((Moving, Some(Gone)), (Moving, Some(Gone)), "gone:0:before")]
#[case::to_a_longer_wait((Moving, Some(Gone)), (Moving, Some(Detach)), "gone:0:before gone:0:after")]
#[case::over_a_short_wait((Moving, Some(Gone)), (Moving, Some(Fence)),
    "gone:0:before gone:0:after detach:0:before detach:0:after")]
#[case::after_a_change((Moving, Some(Fence)), (Moving, Some(Retag)), "confirm:0:before confirm:0:after")]
#[case::to_the_first_wait((Moving, Some(Release)), (Moving, Some(Gone)), "")]
#[case::back_to_the_detach((Moving, Some(Confirm)), (Moving, Some(Detach)), "confirm:0:before")]
#[case::arrived((Moving, Some(Ready)), (Destination, None), "ready:0:before ready:0:after")]
#[case::a_closed_gate((Source, None), (Source, Some(Gate)), "")]
#[case::a_gate_that_opens((Source, Some(Gate)), (Moving, Some(Release)), "gate:0:before gate:0:after")]
#[case::an_open_gate((Source, None), (Moving, Some(Release)), "gate:0:before gate:0:after")]
#[case::an_open_gate_back((Destination, None), (Moving, Some(RRelease)), "gate:0:before gate:0:after")]
#[case::turned_round((Moving, Some(Detach)), (Moving, Some(RFence)),
    "detach:0:before r-gone:0:before r-gone:0:after r-detach:0:before r-detach:0:after")]
#[case::arrived_back((Moving, Some(RGrow)), (Source, None),
    "r-attach:0:before r-attach:0:after r-ready:0:before r-ready:0:after")]
fn a_pass_reaches_the_waits_that_have_ended(
    #[case] earlier: At,
    #[case] now: At,
    #[case] expected: &str,
) {
    let now = decided(record(&[(0, now)]), Move::Wait(Duration::ZERO));
    let points = reached(&record(&[(0, earlier)]), &now);
    assert_eq!(listed(&points), expected);
}

#[test]
fn the_next_ordinal_follows_the_one_that_has_arrived() {
    let before = record(&[(0, (Moving, Some(Ready))), (1, (Source, None))]);
    let now = record(&[(0, (Destination, None)), (1, (Moving, Some(Release)))]);
    let points = reached(&before, &decided(now, Move::Wait(Duration::ZERO)));
    let expected = "ready:0:before ready:0:after gate:1:before gate:1:after";
    assert_eq!(listed(&points), expected);
}

#[test]
fn a_rollback_goes_from_the_ordinal_in_motion_to_the_one_before() {
    let before = record(&[(0, (Destination, None)), (1, (Moving, Some(RReady)))]);
    let now = record(&[(0, (Moving, Some(RRelease))), (1, (Source, None))]);
    let points = reached(&before, &decided(now, Move::Wait(Duration::ZERO)));
    let expected = "r-ready:1:before r-ready:1:after gate:0:before gate:0:after";
    assert_eq!(listed(&points), expected);
}

#[rstest]
#[case::begun((Source, None), (Moving, Some(Detach)), "")]
#[case::fenced((Moving, Some(Detach)), (Moving, Some(Fence)), "detach:2:before detach:2:after")]
#[case::arrived((Moving, Some(Confirm)), (Destination, None), "confirm:2:before confirm:2:after")]
fn dormant_claims_wait_for_their_disks_alone(
    #[case] earlier: At,
    #[case] now: At,
    #[case] expected: &str,
) {
    let now = decided(record(&[(2, now)]), Move::Wait(Duration::ZERO));
    let points = reached(&record(&[(2, earlier)]), &now);
    assert_eq!(listed(&points), expected);
}

#[rstest]
#[case::not_over(Move::Wait(Duration::ZERO), "soak:-:before")]
#[case::over(
    Move::Write(Box::new(change(CleanPv, Some(0)))),
    "soak:-:before soak:-:after"
)]
#[case::nothing_to_clean(
    Move::Write(Box::new(change(Unlock, None))),
    "soak:-:before soak:-:after"
)]
fn the_soak_ends_with_the_first_change(#[case] next: Move, #[case] expected: &str) {
    let record = in_phase(Phase::Finalizing);
    let points = reached(&record, &decided(record.clone(), next));
    assert_eq!(listed(&points), expected);
}

#[test]
fn no_soak_has_its_points_with_the_first_change() {
    let before = record(&[(0, (Moving, Some(Ready)))]);
    let mut now = record(&[(0, (Destination, None))]);
    now.phase = Some(Phase::Finalizing);
    now.cleanup_started = true;
    let next = Move::Write(Box::new(change(CleanPv, Some(0))));
    let points = reached(&before, &decided(now, next));
    let expected = "ready:0:before ready:0:after soak:-:before soak:-:after";
    assert_eq!(listed(&points), expected);
}

#[test]
fn the_intents_of_two_changes_are_two_points() {
    let first = announcing(record(&[]), Hydrate, None);
    let mut second = first.clone();
    second.intent.as_mut().expect("it was set").token = "other".to_owned();
    assert_ne!(at_begin(&first), at_begin(&second));
}

#[rstest]
#[case::of_an_ordinal(change(Grow, Some(1)), &["grow:1:after"])]
#[case::of_the_run(change(Unlock, None), &["unlock:-:after"])]
#[case::of_the_other_clean_up(change(RClean, Some(1)), &["r-clean:1:after", "r-clean:-:after"])]
fn a_change_has_a_point_after_it(#[case] write: Write, #[case] expected: &[&str]) {
    assert_eq!(write.points_after(), expected);
    let (Write::Change(step) | Write::Mirror(step)) = write;
    assert_eq!(Write::Mirror(step).points_after(), Vec::<String>::new());
}

/// The points of a step: its change of one ordinal, or of the run, and its wait.
fn all_points(step: StepName) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    if Write::NAMES.contains(&step.as_str()) {
        let announced = announcing(record(&[]), step, Some(0));
        all.extend(at_begin(&announced).into_iter().map(|point| point.name));
        all.extend(change(step, Some(0)).points_after());
    }
    let (earlier, arrived) = if step.is_rollback() {
        (record(&[(0, (Moving, Some(step)))]), (Source, None))
    } else {
        (record(&[(0, (Moving, Some(step)))]), (Destination, None))
    };
    let now = decided(record(&[(0, arrived)]), Move::Wait(Duration::ZERO));
    all.extend(reached(&earlier, &now).into_iter().map(|point| point.name));
    if step == Soak {
        let earlier = in_phase(Phase::Finalizing);
        let now = decided(in_phase(Phase::Completed), Move::End);
        all.extend(reached(&earlier, &now).into_iter().map(|point| point.name));
    }
    all
}

#[test]
fn every_step_has_a_point_before_and_after() {
    for step in StepName::ALL {
        let all = all_points(*step);
        let ordinal = if *step == Soak { "-" } else { "0" };
        for moment in [BEFORE, AFTER] {
            let name = format!("{step}:{ordinal}:{moment}");
            assert!(all.contains(&name), "no {name} in {all:?}");
        }
    }
}
