use serde_json::json;
use testkit::disks::SetPlan;

use super::super::logs::Logs;
use super::super::logs::tests::{at, entry};
use super::*;

const ATTACHMENTS: &str = "simulator patch volumeattachments csi-1";

fn set() -> SetPlan {
    SetPlan::new("shop")
}

/// A run of two ordinals; the second one begins at 10,000 ms and takes the same times.
fn logs() -> Logs {
    let mut logs = Logs::default();
    for ordinal in 0..2 {
        let time = |millisecond: i64| i64::from(ordinal) * 10_000 + millisecond;
        let source = [
            (0, "pontoon patch statefulsets shop/web".to_owned()),
            (10, format!("controller delete pods shop/web-{ordinal}")),
            (1_000, format!("simulator delete pods shop/web-{ordinal}")),
            (2_600, ATTACHMENTS.to_owned()),
            (
                2_700,
                format!("pontoon delete persistentvolumeclaims shop/data-web-{ordinal}"),
            ),
            (
                2_710,
                format!("controller update persistentvolumeclaims shop/data-web-{ordinal}"),
            ),
            (
                2_760,
                format!("pontoon create persistentvolumeclaims shop/data-web-{ordinal}"),
            ),
            (
                2_790,
                format!("controller update persistentvolumes/status shop-data-web-{ordinal}"),
            ),
        ];
        let source = source.map(|(at, text)| entry(time(at), &text));
        logs.source.extend(source);
        let destination = [
            (
                5,
                "pontoon patch statefulsetmigrations/status ops/shop".to_owned(),
            ),
            (8, "pontoon patch configmaps shop/stsm-web".to_owned()),
            (4_660, "pontoon patch statefulsets shop/web".to_owned()),
            (
                7_000,
                format!("simulator patch pods/status shop/web-{ordinal}"),
            ),
        ];
        let destination = destination.map(|(at, text)| entry(time(at), &text));
        logs.destination.extend(destination);
        let disk = set().volume("data", ordinal);
        let event = json!({"time": at(time(2_500)), "event": "detached", "volume": disk});
        logs.disks.push(serde_json::from_value(event).unwrap());
        let calls = [2_400, 2_630, 4_640].map(|read| {
            json!({
                "seq": 1, "time": at(time(read)), "caller": "test",
                "operation": "DescribeVolumes", "body": disk,
            })
        });
        let calls = calls.map(|call| serde_json::from_value(call).unwrap());
        logs.calls.extend(calls);
    }
    let ends = entry(17_100, "pontoon delete persistentvolumes shop-data-web-0");
    logs.source.push(ends);
    let prepared = entry(-5, "pontoon create statefulsets shop/web");
    logs.destination.push(prepared);
    logs
}

fn milliseconds(seconds: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "small numbers")]
    let milliseconds = (seconds * 1000.0).round() as i64;
    milliseconds
}

#[test]
fn a_gap_is_from_the_last_evidence_to_the_effect() {
    let (logs, set) = (logs(), set());
    let run = Run {
        logs: &logs,
        set: &set,
    };
    let first = run.steps(0).unwrap().overhead();
    let gaps = [first.fence, first.tombstone, first.grow, first.next];
    // The grow comes 30 ms after the two seconds that begin with the first read at 2,630.
    assert_eq!(gaps.map(milliseconds), [100, 50, 30, 3_000]);
    assert_eq!(
        milliseconds(first.total),
        100 + 50 + (4_660 - 2_790) + 3_000 - 2_000
    );
    assert_eq!(milliseconds(first.sum()), 3_180);
}

#[test]
fn the_last_ordinal_ends_with_the_first_deletion() {
    let (logs, set) = (logs(), set());
    let run = Run {
        logs: &logs,
        set: &set,
    };
    assert_eq!(milliseconds(run.steps(1).unwrap().overhead().next), 100);
}

#[test]
fn without_all_evidence_there_are_no_steps() {
    let (mut logs, set) = (logs(), set());
    logs.source
        .retain(|entry| entry.resource != "volumeattachments");
    let run = Run {
        logs: &logs,
        set: &set,
    };
    assert_eq!(run.steps(0), None);
}

#[test]
fn writes_count_from_the_ordinal_before() {
    let (mut logs, set) = (logs(), set());
    let late = entry(8_000, "pontoon patch statefulsetmigrations ops/shop");
    logs.destination.push(late);
    let run = Run {
        logs: &logs,
        set: &set,
    };
    let expected = [(1, 1), (2, 1)].map(|(object, mirrors)| Writes { object, mirrors });
    assert_eq!(run.writes(), expected);
}

#[test]
fn ordinals_that_are_down_together_are_counted() {
    let down = |from: i64, to: Option<i64>| Down {
        from: at(from),
        to: to.map(at),
    };
    let one_by_one = [down(0, Some(5)), down(5, Some(9))];
    assert_eq!(most_at_once(&one_by_one), 1);
    let together = [down(0, None), down(3, Some(4)), down(6, Some(7))];
    assert_eq!(most_at_once(&together), 2);
    assert_eq!(most_at_once(&[]), 0);
}

#[test]
fn a_run_is_down_from_the_deletion_of_a_pod_until_it_is_ready() {
    let (logs, set) = (logs(), set());
    let run = Run {
        logs: &logs,
        set: &set,
    };
    let first = Down {
        from: at(10),
        to: Some(at(7_000)),
    };
    assert_eq!(run.downtimes()[0], first);
    assert_eq!(most_at_once(&run.downtimes()), 1);
}
