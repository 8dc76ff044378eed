//! What a pass adds to the series.

use api::migrate::{
    CheckId, Finding, Intent, OrdinalRecord, Preflight, Segments, Severity,
    StatefulSetMigrationStatus, StepName, Window, conditions,
};
use engine::Report;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use kernel::Reason;
use rstest::rstest;

use super::*;

fn status(phase: Phase, location: Location, step: Option<StepName>) -> StatefulSetMigrationStatus {
    StatefulSetMigrationStatus {
        phase: Some(phase),
        window: Some(Window {
            start: 0,
            replicas: 2,
            had_ordinals: false,
        }),
        ordinals: vec![OrdinalRecord {
            ordinal: 1,
            location,
            step,
            downtime_seconds: Some(7.5),
            segments: Segments {
                terminate: Some(3.0),
                start: Some(4.5),
                ..Segments::default()
            },
            ..OrdinalRecord::default()
        }],
        ..StatefulSetMigrationStatus::default()
    }
}

fn at(step: StepName) -> StatefulSetMigrationStatus {
    status(Phase::MigratingPods, Location::Moving, Some(step))
}

fn located(location: Location) -> StatefulSetMigrationStatus {
    status(Phase::MigratingPods, location, None)
}

fn dormant(location: Location) -> StatefulSetMigrationStatus {
    let mut status = located(location);
    status.ordinals[0].ordinal = 7;
    status
}

fn in_phase(phase: Phase) -> StatefulSetMigrationStatus {
    status(phase, Location::Destination, None)
}

fn checked() -> StatefulSetMigrationStatus {
    let finding = |id, severity| Finding {
        id,
        severity,
        subject: String::new(),
        message: String::new(),
        remedy: String::new(),
    };
    StatefulSetMigrationStatus {
        preflight: Some(Preflight {
            at: Time(Timestamp::UNIX_EPOCH),
            checks: vec![
                finding(CheckId::Zone, Severity::Blocker),
                finding(CheckId::Zone, Severity::Blocker),
                finding(CheckId::KmsKey, Severity::Warning),
                finding(CheckId::Backups, Severity::Info),
            ],
        }),
        ..in_phase(Phase::Failed)
    }
}

fn intended() -> StatefulSetMigrationStatus {
    StatefulSetMigrationStatus {
        intent: Some(Intent {
            step: StepName::Hydrate,
            ordinal: None,
            token: "t".to_owned(),
            at: MicroTime(Timestamp::UNIX_EPOCH),
        }),
        ..in_phase(Phase::FreezingSource)
    }
}

fn counted(status: &StatefulSetMigrationStatus) -> Counted<'_> {
    Counted {
        status,
        stall: None,
        hold: None,
    }
}

const ARRIVED: [Sample; 4] = [
    Sample::Downtime(7.5),
    Sample::Segment("terminate", 3.0),
    Sample::Segment("start", 4.5),
    Sample::Progress,
];

#[rstest]
#[case::a_wait(at(StepName::Gone), at(StepName::Gone), &[])]
#[case::the_next_step(at(StepName::Gone), at(StepName::Detach), &[Sample::Progress])]
#[case::an_arrival(at(StepName::Ready), located(Location::Destination), &ARRIVED)]
#[case::a_return(at(StepName::RReady), located(Location::Source), &ARRIVED)]
#[case::dormant_claims(dormant(Location::Moving), dormant(Location::Destination), &[Sample::Progress])]
#[case::a_rollback(
    in_phase(Phase::Failed),
    in_phase(Phase::RollingBack),
    &[Sample::Rollback, Sample::Progress]
)]
#[case::checks(
    in_phase(Phase::Failed),
    checked(),
    &[Sample::FailedCheck(CheckId::Zone), Sample::FailedCheck(CheckId::KmsKey)]
)]
#[case::checks_of_before(checked(), checked(), &[])]
#[case::an_intent(in_phase(Phase::FreezingSource), intended(), &[Sample::Progress])]
fn a_pass_adds(
    #[case] before: StatefulSetMigrationStatus,
    #[case] after: StatefulSetMigrationStatus,
    #[case] expected: &[Sample],
) {
    assert_eq!(observed(&counted(&before), &counted(&after)), expected);
}

const BUSY: Option<StallReason> = Some(StallReason::DetachBusy);
const LOST: Option<HoldReason> = Some(HoldReason::LockLost);

#[rstest]
#[case::begins((None, None), (BUSY, LOST), &[Sample::Stall(StallReason::DetachBusy), Sample::Hold(HoldReason::LockLost)])]
#[case::goes_on((BUSY, LOST), (BUSY, LOST), &[])]
#[case::ends((BUSY, LOST), (None, None), &[])]
#[case::becomes_another((Some(StallReason::Detaching), None), (BUSY, None), &[Sample::Stall(StallReason::DetachBusy)])]
fn a_stall_or_hold_counts_once(
    #[case] before: (Option<StallReason>, Option<HoldReason>),
    #[case] after: (Option<StallReason>, Option<HoldReason>),
    #[case] expected: &[Sample],
) {
    let status = at(StepName::Detach);
    let of = |(stall, hold)| Counted {
        status: &status,
        stall,
        hold,
    };
    assert_eq!(observed(&of(before), &of(after)), expected);
}

#[rstest]
#[case::not_named(Report::default(), BUSY)]
#[case::ended(Report::default().condition(conditions::STALLED, false, Reason::new("Progressing", "")), None)]
#[case::begun(
    Report::default().condition(conditions::STALLED, true, Reason::new("Detaching", "")),
    Some(StallReason::Detaching)
)]
fn a_condition_without_report_stays(#[case] report: Report, #[case] expected: Option<StallReason>) {
    let status = at(StepName::Detach);
    let before = Counted {
        stall: BUSY,
        ..counted(&status)
    };
    assert_eq!(Counted::after(&status, &report, &before).stall, expected);
}

#[test]
fn a_step_is_measured_from_its_begin_to_its_end() {
    let seconds = Duration::from_secs;
    let (gone, detach) = (at(StepName::Gone), at(StepName::Detach));
    let arrived = located(Location::Destination);
    let (first, none) = Remembered::default().advanced(&counted(&gone), seconds(1));
    let (second, same) = first.advanced(&counted(&gone), seconds(3));
    let (third, ended) = second.advanced(&counted(&detach), seconds(5));
    let (last, last_step) = third.advanced(&counted(&arrived), seconds(9));
    assert_eq!([none, same], [None, None]);
    assert_eq!(ended, Some((StepName::Gone, seconds(4))));
    assert_eq!(last_step, Some((StepName::Detach, seconds(4))));
    assert_eq!(last.step, None);
}

#[test]
fn gauges_follow_the_objects() {
    let engine = engine::Metrics::default();
    let metrics = Metrics::new(&engine);
    let (moving, moved) = (at(StepName::Gone), in_phase(Phase::Completed));
    let (first, _) = Remembered::default().advanced(&counted(&moving), Duration::ZERO);
    metrics.moved(&Remembered::default(), &first);
    assert_eq!(metrics.of_phase(Phase::MigratingPods).get(), 1);
    assert_eq!(metrics.of_location(Location::Moving).get(), 1);
    let (second, _) = first.advanced(&counted(&moved), Duration::ZERO);
    metrics.moved(&first, &second);
    assert_eq!(metrics.of_phase(Phase::MigratingPods).get(), 0);
    assert_eq!(metrics.of_phase(Phase::Completed).get(), 1);
    assert_eq!(metrics.of_location(Location::Destination).get(), 1);
    let key = ObjectKey::namespaced("ops", "move-web");
    metrics.objects.lock().insert(key.clone(), second);
    metrics.forget(&key);
    assert_eq!(metrics.of_phase(Phase::Completed).get(), 0);
    assert_eq!(metrics.of_location(Location::Destination).get(), 0);
}

#[test]
fn every_series_has_its_name() {
    let engine = engine::Metrics::default();
    let metrics = Metrics::new(&engine);
    let samples = ARRIVED.into_iter().chain([
        Sample::FailedCheck(CheckId::Zone),
        Sample::Stall(StallReason::DetachBusy),
        Sample::Hold(HoldReason::LockLost),
        Sample::Rollback,
    ]);
    for sample in samples {
        metrics.record(sample, 12);
    }
    let took = Duration::from_secs(1);
    let observer = metrics.observer();
    observer.called(Operation::DescribeVolumes, took, None);
    observer.called(Operation::DescribeVolumes, took, Some(Class::Throttled));
    observer.called(Operation::AssumeRole, took, None);
    let text = engine.text();
    let expected = [
        "pontoon_migrate_migrations{phase=\"Pending\"} 0",
        "pontoon_migrate_ordinals{state=\"Source\"} 0",
        "pontoon_migrate_downtime_seconds_count 1",
        "pontoon_migrate_downtime_segment_seconds_count{segment=\"start\"} 1",
        "pontoon_migrate_stalls_total{reason=\"DetachBusy\"} 1",
        "pontoon_migrate_stalls_total{reason=\"Unmounting\"} 0",
        "pontoon_migrate_holds_total{reason=\"LockLost\"} 1",
        "pontoon_migrate_preflight_failures_total{check=\"Zone\"} 1",
        "pontoon_migrate_rollbacks_total 1",
        "pontoon_migrate_ec2_calls_total{action=\"DescribeVolumes\",class=\"ok\"} 1",
        "pontoon_migrate_ec2_calls_total{action=\"DescribeVolumes\",class=\"throttled\"} 1",
        "pontoon_migrate_last_progress_timestamp_seconds 12",
    ];
    let missing: Vec<_> = expected
        .into_iter()
        .filter(|series| !text.contains(series))
        .collect();
    assert!(missing.is_empty(), "{missing:?}\n{text}");
    assert!(!text.contains("AssumeRole"), "{text}");
}
