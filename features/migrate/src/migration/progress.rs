//! What the record says of an ordinal in motion, from the step that its handover is at. Pure.

use api::migrate::{
    Location, MigratedPod, MoveTimes, OrdinalRecord, Segments, StatefulSetMigrationStatus, StepName,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};

use super::handover::Direction;

/// The record of an ordinal whose handover is now at `step`; none: it has arrived.
///
/// A time is written once, in the pass that first sees its evidence. An ordinal that arrives gets the lengths
/// of its parts, so what a later move writes does not mix with it. One that turns back on its way keeps the begin
/// of its downtime alone.
#[must_use]
pub fn advanced(
    record: &OrdinalRecord,
    direction: Direction,
    step: Option<StepName>,
    now: Timestamp,
) -> OrdinalRecord {
    let mut next = record.clone();
    if step == Some(StepName::Gate) && record.location != Location::Moving {
        next.step = step; // a closed gate: nothing has moved yet
        return next;
    }
    let goes_back = direction == Direction::Back && !record.step.is_some_and(StepName::is_rollback);
    if record.location != Location::Moving {
        next.times = MoveTimes::default();
        next.attempts = 0;
    } else if goes_back {
        next.times = MoveTimes {
            unready: next.times.unready.take(),
            ..MoveTimes::default()
        };
    }
    if goes_back {
        next.node = None; // it is of the source
    }
    let points = points(direction);
    let times = &mut next.times;
    let slots = [
        &mut times.released,
        &mut times.gone,
        &mut times.detached,
        &mut times.grown,
        &mut times.attached,
    ];
    for (slot, point) in slots.into_iter().zip(points) {
        if step.is_none_or(|step| step > point) {
            slot.get_or_insert(MicroTime(now));
        }
    }
    let Some(step) = step else {
        next.times.ready.get_or_insert(MicroTime(now));
        return arrived(next, direction);
    };
    next.location = Location::Moving;
    if next.step != Some(step) {
        next.attempts = 0;
    }
    next.step = Some(step);
    next
}

/// The record of an ordinal that its old cluster has released, whose pod is ready or not: the downtime begins in
/// the first pass that does not see it ready.
pub fn seen(record: &mut OrdinalRecord, is_ready: bool, now: Timestamp) {
    let is_released = record.location == Location::Moving && record.times.released.is_some();
    if is_released && !is_ready {
        record.times.unready.get_or_insert(MicroTime(now));
    }
}

/// A person has raised `spec.retry`: the step of the ordinal in motion is begun again. Attempts of a snapshot are
/// counted where they are made.
pub fn begun_again(record: &mut StatefulSetMigrationStatus) {
    let moving = record.ordinals.iter_mut().find(|ordinal| {
        ordinal.location == Location::Moving && ordinal.step != Some(StepName::Snapshot)
    });
    if let Some(ordinal) = moving {
        ordinal.attempts = ordinal.attempts.saturating_add(1);
    }
}

/// Brings the fields up to date that only repeat what the records of the ordinals say.
pub fn summarize(record: &mut StatefulSetMigrationStatus, set: &str) {
    let window = record.window;
    let is_moved = |ordinal: &&OrdinalRecord| {
        let is_of_window = window.is_some_and(|window| window.contains(ordinal.ordinal));
        is_of_window && ordinal.location == Location::Destination
    };
    let moved = record.ordinals.iter().filter(is_moved);
    record.migrated_pods = moved.map(|ordinal| migrated_pod(ordinal, set)).collect();
    record.current_index = i32::try_from(record.migrated_pods.len()).unwrap_or(i32::MAX);
}

fn migrated_pod(ordinal: &OrdinalRecord, set: &str) -> MigratedPod {
    let disks = ordinal.claims.iter().map(|claim| claim.volume_id.clone());
    let disks: Vec<String> = disks.collect();
    MigratedPod {
        index: ordinal.ordinal,
        pod_name: format!("{set}-{}", ordinal.ordinal),
        volume_id: disks.first().cloned().unwrap_or_default(),
        volume_ids: disks,
        migrated_at: ordinal.times.ready.as_ref().map(|time| Time(time.0)),
    }
}

/// The steps after which each time counts: the pod is released, gone, its disks are confirmed as free, the new
/// cluster has grown, its disks are attached.
fn points(direction: Direction) -> [StepName; 5] {
    match direction {
        Direction::Forward => [
            StepName::Release,
            StepName::Gone,
            StepName::Confirm,
            StepName::Grow,
            StepName::Attach,
        ],
        Direction::Back => [
            StepName::RRelease,
            StepName::RGone,
            StepName::RConfirm,
            StepName::RGrow,
            StepName::RAttach,
        ],
    }
}

fn arrived(mut record: OrdinalRecord, direction: Direction) -> OrdinalRecord {
    record.location = match direction {
        Direction::Forward => Location::Destination,
        Direction::Back => Location::Source,
    };
    record.step = None;
    record.last_error = None;
    let times = &record.times;
    let down = times.unready.as_ref().or(times.released.as_ref());
    record.segments = Segments {
        terminate: seconds(down, times.gone.as_ref()),
        detach: seconds(times.gone.as_ref(), times.detached.as_ref()),
        handover: seconds(times.detached.as_ref(), times.grown.as_ref()),
        attach: seconds(times.grown.as_ref(), times.attached.as_ref()),
        start: seconds(times.attached.as_ref(), times.ready.as_ref()),
    };
    record.downtime_seconds = seconds(down, times.ready.as_ref());
    record
}

/// The seconds between two points; none if one of them is not known.
fn seconds(from: Option<&MicroTime>, to: Option<&MicroTime>) -> Option<f64> {
    let length = to?.0.duration_since(from?.0);
    Some(length.as_secs_f64().max(0.0))
}

#[cfg(test)]
mod tests {
    use api::migrate::{ClaimRecord, Window};
    use rstest::rstest;

    use super::*;

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn waiting() -> OrdinalRecord {
        OrdinalRecord {
            ordinal: 1,
            ..OrdinalRecord::default()
        }
    }

    fn reached(record: &OrdinalRecord) -> Vec<&'static str> {
        let times = &record.times;
        let all = [
            ("released", &times.released),
            ("gone", &times.gone),
            ("detached", &times.detached),
            ("grown", &times.grown),
            ("attached", &times.attached),
            ("ready", &times.ready),
        ];
        all.into_iter()
            .filter(|(_, time)| time.is_some())
            .map(|(name, _)| name)
            .collect()
    }

    #[rstest]
    #[case::at_the_release(StepName::Release, &[])]
    #[case::released(StepName::Gone, &["released"])]
    #[case::gone(StepName::Detach, &["released", "gone"])]
    #[case::free_but_not_confirmed(StepName::Confirm, &["released", "gone"])]
    #[case::confirmed(StepName::Grow, &["released", "gone", "detached"])]
    #[case::grown(StepName::Attach, &["released", "gone", "detached", "grown"])]
    #[case::attached(StepName::Ready, &["released", "gone", "detached", "grown", "attached"])]
    fn forward_a_step_shows_what_is_done(#[case] step: StepName, #[case] expected: &[&str]) {
        let record = advanced(&waiting(), Direction::Forward, Some(step), time(1));
        assert_eq!(reached(&record), expected);
        assert_eq!(
            (record.location, record.step),
            (Location::Moving, Some(step))
        );
    }

    #[rstest]
    #[case::at_the_release(StepName::RRelease, &[])]
    #[case::gone(StepName::RDetach, &["released", "gone"])]
    #[case::restored(StepName::RGrow, &["released", "gone", "detached"])]
    #[case::attached(StepName::RReady, &["released", "gone", "detached", "grown", "attached"])]
    fn back_a_step_shows_what_is_done(#[case] step: StepName, #[case] expected: &[&str]) {
        let record = advanced(&waiting(), Direction::Back, Some(step), time(1));
        assert_eq!(reached(&record), expected);
    }

    #[test]
    fn a_time_is_written_once() {
        let first = advanced(
            &waiting(),
            Direction::Forward,
            Some(StepName::Gone),
            time(1),
        );
        let later = advanced(&first, Direction::Forward, Some(StepName::Gone), time(9));
        assert_eq!(later, first);
    }

    #[test]
    fn an_ordinal_that_arrives_has_its_segments() {
        let steps = [
            (StepName::Release, 0),
            (StepName::Gone, 1),
            (StepName::Detach, 4),
            (StepName::Fence, 6),
            (StepName::Confirm, 7),
            (StepName::Grow, 9),
            (StepName::Attach, 10),
            (StepName::Ready, 15),
        ];
        let mut record = waiting();
        for (step, second) in steps {
            record = advanced(&record, Direction::Forward, Some(step), time(second));
        }
        let record = advanced(&record, Direction::Forward, None, time(22));
        assert_eq!(
            (record.location, record.step),
            (Location::Destination, None)
        );
        let expected = Segments {
            terminate: Some(3.0),
            detach: Some(5.0),
            handover: Some(1.0),
            attach: Some(5.0),
            start: Some(7.0),
        };
        assert_eq!(record.segments, expected);
        assert_eq!(record.downtime_seconds, Some(21.0));
    }

    #[test]
    fn the_downtime_begins_when_the_pod_is_unready() {
        let mut record = advanced(
            &waiting(),
            Direction::Forward,
            Some(StepName::Gone),
            time(1),
        );
        record.times.unready = Some(MicroTime(time(3)));
        let record = advanced(&record, Direction::Forward, None, time(10));
        assert_eq!(record.downtime_seconds, Some(7.0));
    }

    #[rstest]
    #[case::ready(StepName::Gone, true, false)]
    #[case::not_ready(StepName::Gone, false, true)]
    #[case::before_the_release(StepName::Release, false, false)]
    fn a_released_pod_is_down_when_it_is_not_ready(
        #[case] step: StepName,
        #[case] is_ready: bool,
        #[case] expected: bool,
    ) {
        let mut record = advanced(&waiting(), Direction::Forward, Some(step), time(1));
        seen(&mut record, is_ready, time(2));
        assert_eq!(record.times.unready.is_some(), expected);
    }

    #[test]
    fn attempts_are_counted_until_the_next_step() {
        let first = advanced(
            &waiting(),
            Direction::Forward,
            Some(StepName::Attach),
            time(1),
        );
        let mut status = StatefulSetMigrationStatus {
            ordinals: vec![first],
            ..StatefulSetMigrationStatus::default()
        };
        begun_again(&mut status);
        begun_again(&mut status);
        assert_eq!(status.ordinals[0].attempts, 2);
        let same = advanced(
            &status.ordinals[0],
            Direction::Forward,
            Some(StepName::Attach),
            time(2),
        );
        assert_eq!(same.attempts, 2);
        let next = advanced(&same, Direction::Forward, Some(StepName::Ready), time(3));
        assert_eq!(next.attempts, 0);
    }

    #[test]
    fn a_new_move_begins_without_times() {
        let moved = advanced(&waiting(), Direction::Forward, None, time(1));
        let back = advanced(&moved, Direction::Back, Some(StepName::RRelease), time(9));
        assert_eq!(reached(&back), Vec::<&str>::new());
        assert_eq!(back.segments, moved.segments);
    }

    #[test]
    fn an_ordinal_that_turns_back_has_new_times() {
        let mut there = advanced(
            &waiting(),
            Direction::Forward,
            Some(StepName::Attach),
            time(1),
        );
        there.node = Some(api::migrate::NodeRecord::default());
        there.times.unready = Some(MicroTime(time(1)));
        let back = advanced(&there, Direction::Back, Some(StepName::RDetach), time(5));
        assert_eq!(reached(&back), ["released", "gone"]);
        assert_eq!(back.node, None);
        assert_eq!(back.times.released, Some(MicroTime(time(5))));
        assert_eq!(back.times.unready, there.times.unready);
    }

    #[rstest]
    #[case::forward(Direction::Forward, Location::Source)]
    #[case::back(Direction::Back, Location::Destination)]
    fn a_closed_gate_moves_nothing(#[case] direction: Direction, #[case] location: Location) {
        let record = OrdinalRecord {
            location,
            ..waiting()
        };
        let record = advanced(&record, direction, Some(StepName::Gate), time(1));
        assert_eq!(
            (record.location, record.step),
            (location, Some(StepName::Gate))
        );
    }

    #[test]
    fn the_summary_lists_what_has_moved() {
        let at = |ordinal, location| OrdinalRecord {
            ordinal,
            location,
            claims: vec![ClaimRecord {
                volume_id: format!("vol-{ordinal}"),
                ..ClaimRecord::default()
            }],
            ..OrdinalRecord::default()
        };
        let mut record = StatefulSetMigrationStatus {
            window: Some(Window {
                start: 5,
                replicas: 2,
                had_ordinals: true,
            }),
            // Ordinal 9 is dormant.
            ordinals: vec![
                at(5, Location::Destination),
                at(6, Location::Moving),
                at(9, Location::Destination),
            ],
            ..StatefulSetMigrationStatus::default()
        };
        summarize(&mut record, "web");
        assert_eq!(record.current_index, 1);
        let expected = MigratedPod {
            index: 5,
            pod_name: "web-5".to_owned(),
            volume_id: "vol-5".to_owned(),
            volume_ids: vec!["vol-5".to_owned()],
            migrated_at: None,
        };
        assert_eq!(record.migrated_pods, [expected]);
    }

    #[test]
    fn an_ordinal_comes_back_to_the_source() {
        let record = advanced(&waiting(), Direction::Back, None, time(1));
        assert_eq!(record.location, Location::Source);
    }
}
