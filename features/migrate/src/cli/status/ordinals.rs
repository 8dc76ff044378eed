//! One row for each ordinal of a migration, with the times of its move. Pure.

use api::migrate::{Location, MoveTimes, OrdinalRecord, Segments, StatefulSetMigration};
use engine::cli::{Finding, StatusRow};
use jiff::Timestamp;
use kernel::ObjectKey;
use serde_json::json;

use super::time::{length, seconds_between};

/// The columns; the first names the ordinal.
pub(super) const COLUMNS: &[&str] = &[
    "ordinal",
    "place",
    "step",
    "terminate",
    "detach",
    "handover",
    "attach",
    "start",
    "downtime",
    "error",
];
/// What follows a time that is still growing.
const RUNNING: &str = "+";

/// How long a part of a move has taken.
#[derive(Debug, Clone, Copy, PartialEq)]
enum SegmentTime {
    /// It is over.
    Finished(f64),
    /// It goes on.
    Running(f64),
}

/// The rows of the ordinals on record. Without `now`, times that still grow are left out.
pub(super) fn rows(
    key: &ObjectKey,
    migration: &StatefulSetMigration,
    now: Option<Timestamp>,
) -> Vec<StatusRow> {
    let status = migration.status.iter();
    let ordinals = status.flat_map(|status| &status.ordinals);
    ordinals.map(|record| row(key, record, now)).collect()
}

fn row(key: &ObjectKey, record: &OrdinalRecord, now: Option<Timestamp>) -> StatusRow {
    let (segments, downtime) = match record.location {
        Location::Moving => running(&record.times, now),
        Location::Source | Location::Destination => (
            finished(&record.segments),
            record.downtime_seconds.map(SegmentTime::Finished),
        ),
    };
    let step = record.step.map(|step| step.to_string()).unwrap_or_default();
    let head = [
        record.ordinal.to_string(),
        record.location.to_string(),
        step,
    ];
    let times = segments.into_iter().chain([downtime]).map(shown);
    let error = record.last_error.clone().unwrap_or_default();
    let cells = head.into_iter().chain(times).chain([error]).collect();
    let mut full = json!(record);
    full["running"] = json!(now.map(|_| segments.map(running_seconds)));
    StatusRow {
        is_ready: record.location == Location::Destination,
        finding: Finding {
            name: format!("StatefulSetMigration/{key}/{}", record.ordinal),
            cells,
            full,
        },
    }
}

fn shown(time: Option<SegmentTime>) -> String {
    match time {
        None => String::new(),
        Some(SegmentTime::Finished(seconds)) => length(seconds),
        Some(SegmentTime::Running(seconds)) => length(seconds) + RUNNING,
    }
}

fn running_seconds(time: Option<SegmentTime>) -> Option<f64> {
    match time {
        Some(SegmentTime::Running(seconds)) => Some(seconds),
        Some(SegmentTime::Finished(_)) | None => None,
    }
}

/// The parts of the last finished move.
fn finished(segments: &Segments) -> [Option<SegmentTime>; 5] {
    let Segments {
        terminate,
        detach,
        handover,
        attach,
        start,
    } = *segments;
    [terminate, detach, handover, attach, start].map(|one| one.map(SegmentTime::Finished))
}

/// The parts of a move on its way, and its downtime: each lasts from one point to the next, the one after
/// the last point until now.
fn running(
    times: &MoveTimes,
    now: Option<Timestamp>,
) -> ([Option<SegmentTime>; 5], Option<SegmentTime>) {
    let begin = times.unready.as_ref().or(times.released.as_ref());
    let points = [
        begin,
        times.gone.as_ref(),
        times.detached.as_ref(),
        times.grown.as_ref(),
        times.attached.as_ref(),
        times.ready.as_ref(),
    ];
    let points = points.map(|point| point.map(|point| point.0));
    let last = points.iter().rposition(Option::is_some);
    let until_now = |from| Some(SegmentTime::Running(seconds_between(from, now?)));
    let segment = |at: usize| match (points[at], points[at + 1]) {
        (Some(from), Some(to)) => Some(SegmentTime::Finished(seconds_between(from, to))),
        (Some(from), None) if last == Some(at) => until_now(from),
        (Some(_) | None, _) => None,
    };
    let downtime = match (points[0], points[5]) {
        (Some(from), Some(to)) => Some(SegmentTime::Finished(seconds_between(from, to))),
        (Some(from), None) => until_now(from),
        (None, _) => None,
    };
    ([0, 1, 2, 3, 4].map(segment), downtime)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::Value;

    use super::*;
    use crate::cli::tests::{key, migration};

    fn at(second: u32) -> String {
        format!("2026-01-01T00:00:{second:02}.000000Z")
    }

    fn cells(record: Value, now: Option<u32>) -> String {
        let status = json!({"phase": "MigratingPods", "ordinals": [record]});
        let now = now.map(|second| at(second).parse().unwrap());
        let rows = rows(&key(), &migration(json!({}), status), now);
        rows[0].finding.cells.join("|")
    }

    #[rstest]
    #[case::not_moved(json!({"ordinal": 2, "place": "Source"}), "2|Source||||||||")]
    #[case::terminating(
        json!({"ordinal": 1, "place": "Moving", "step": "gone", "times": {"released": at(1), "unready": at(2)}}),
        "1|Moving|gone|28s+|||||28s+|")]
    #[case::released_and_still_ready(
        json!({"ordinal": 1, "place": "Moving", "step": "gone", "times": {"released": at(1)}}),
        "1|Moving|gone|29s+|||||29s+|")]
    #[case::detaching(
        json!({"ordinal": 1, "place": "Moving", "step": "detach", "times": {"unready": at(2), "gone": at(4)}}),
        "1|Moving|detach|2.0s|26s+||||28s+|")]
    #[case::starting(
        json!({"ordinal": 1, "place": "Moving", "step": "ready", "times": {
            "unready": at(1), "gone": at(2), "detached": at(4), "grown": at(5), "attached": at(8)}}),
        "1|Moving|ready|1.0s|2.0s|1.0s|3.0s|22s+|29s+|")]
    #[case::with_an_error(
        json!({"ordinal": 1, "place": "Moving", "step": "detach", "lastError": "busy"}),
        "1|Moving|detach|||||||busy")]
    #[case::moved(
        json!({"ordinal": 0, "place": "Destination", "step": "ready", "downtimeSeconds": 12.0, "segments": {
            "terminate": 1.0, "detach": 4.0, "handover": 0.5, "attach": 2.5, "start": 4.0}}),
        "0|Destination|ready|1.0s|4.0s|0.5s|2.5s|4.0s|12s|")]
    fn an_ordinal_is_one_row(#[case] record: Value, #[case] expected: &str) {
        assert_eq!(cells(record, Some(30)), expected);
    }

    #[test]
    fn without_a_time_only_finished_parts_are_shown() {
        let times = json!({"unready": at(2), "gone": at(4)});
        let record = json!({"ordinal": 1, "place": "Moving", "step": "detach", "times": times});
        assert_eq!(cells(record, None), "1|Moving|detach|2.0s||||||");
    }
}
