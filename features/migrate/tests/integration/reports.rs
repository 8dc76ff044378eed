//! What a run reports: columns, events, times and metrics, compared with what EC2 has seen.

use std::collections::BTreeMap;

use api::migrate::{OrdinalRecord, Phase, StatefulSetMigration, StatefulSetMigrationStatus};
use http::{Method, Request, header};
use jiff::Timestamp;
use kube::Resource;
use serde_json::{Value, json};
use testkit::Result;
use testkit::stories::{event, events, note};

use crate::stories::{NAME, PACE, Shop, run_story};

/// How exact the most exact times are, in real seconds: the machine may be busy. A wrong unit or part of a move
/// differs by more.
const ACCURACY: f64 = 1.0;

/// The columns of `kubectl get`, by name.
async fn columns(shop: &Shop) -> Result<BTreeMap<String, Value>> {
    let namespace = StatefulSetMigration::url_path(&(), Some(shop.ops.name()));
    let request = Request::get(format!("{namespace}/{NAME}"));
    let request = request.header(
        header::ACCEPT,
        "application/json;as=Table;v=v1;g=meta.k8s.io",
    );
    let table: Value = shop.ops.client().request(request.body(Vec::new())?).await?;
    let columns = table["columnDefinitions"].as_array().into_iter().flatten();
    let cells = table["rows"][0]["cells"].as_array().into_iter().flatten();
    let named = columns.zip(cells).map(|(column, cell)| {
        (
            column["name"].as_str().unwrap_or_default().to_owned(),
            cell.clone(),
        )
    });
    Ok(named.collect())
}

/// When something happened to a disk for the last time, as EC2 has seen it.
fn last_time(timeline: &[Value], disk: &str, event: &str) -> Result<Timestamp> {
    let mut entries = timeline.iter().rev();
    let entry = entries.find(|one| one["volume"] == disk && one["event"] == event);
    let time = entry.and_then(|entry| entry["time"].as_str());
    Ok(time.unwrap_or_default().parse()?)
}

/// By how many seconds two times of an ordinal differ from EC2's: its downtime, and its start after the attachment.
fn inaccuracy(timeline: &[Value], record: &OrdinalRecord) -> Result<[f64; 2]> {
    let disk = &record.claims[0].volume_id;
    let seconds = |from: &str, to: &str| -> Result<f64> {
        let (from, to) = (
            last_time(timeline, disk, from)?,
            last_time(timeline, disk, to)?,
        );
        Ok(to.duration_since(from).as_secs_f64() * f64::from(PACE))
    };
    let downtime = record.downtime_seconds.unwrap_or_default();
    let start = record.segments.start.unwrap_or_default();
    let down = (seconds("stopped", "started")? - downtime).abs();
    let started = (seconds("attached", "started")? - start).abs();
    Ok([down, started])
}

/// The parts of a downtime.
fn parts(record: &OrdinalRecord) -> [f64; 5] {
    let segments = record.segments;
    [
        segments.terminate,
        segments.detach,
        segments.handover,
        segments.attach,
        segments.start,
    ]
    .map(Option::unwrap_or_default)
}

fn downtimes(status: &StatefulSetMigrationStatus) -> impl Iterator<Item = f64> {
    let ordinals = status.ordinals.iter();
    ordinals.map(|record| record.downtime_seconds.unwrap_or_default())
}

/// Series of the operator that a run adds to. Other stories add to them too.
async fn series(shop: &Shop) -> Result<BTreeMap<&'static str, f64>> {
    let operator = shop.site.world.operator();
    let text = operator.metrics().await?;
    let own = text
        .lines()
        .find(|line| line.starts_with("pontoon_migrate_") && line.contains(shop.source.name()));
    assert_eq!(own, None);
    let names: [(&str, &[(&str, &str)]); 5] = [
        ("pontoon_migrate_downtime_seconds_count", &[]),
        ("pontoon_migrate_downtime_seconds_sum", &[]),
        (
            "pontoon_migrate_downtime_segment_seconds_count",
            &[("segment", "attach")],
        ),
        (
            "pontoon_migrate_step_duration_seconds_count",
            &[("step", "grow")],
        ),
        (
            "pontoon_migrate_ec2_calls_total",
            &[("action", "DescribeVolumes"), ("class", "ok")],
        ),
    ];
    let mut values = BTreeMap::new();
    for (name, labels) in names {
        values.insert(name, operator.metric(name, labels).await?);
    }
    Ok(values)
}

#[test]
fn reported_times_are_those_that_ec2_has_seen() -> Result<()> {
    run_story(async |shop| {
        shop.open_shop().await?;
        let before = series(shop).await?;
        shop.migrate(&json!({"ordinalLimit": 0})).await?;
        shop.until_paused("OrdinalLimit").await?;
        let shown = columns(shop).await?;
        assert_eq!(
            (&shown["Phase"], &shown["Progress"]),
            (&json!("MigratingPods"), &json!(0))
        );
        shop.edit(&json!({"ordinalLimit": 3})).await?;
        let status = shop.until_phase(Phase::Completed).await?;
        let shown = columns(shop).await?;
        assert_eq!(
            (&shown["Progress"], &shown["Total"]),
            (&json!(3), &json!(3))
        );

        let aws = shop.site.world.aws();
        let oracle = aws.control(Method::GET, "oracle", Value::Null)?;
        let timeline = oracle["timeline"].as_array().cloned().unwrap_or_default();
        let mut errors = Vec::new();
        for record in &status.ordinals {
            let downtime = record.downtime_seconds.unwrap_or_default();
            let sum: f64 = parts(record).iter().sum();
            assert!((downtime - sum).abs() < 0.001, "{record:?}");
            errors.push(inaccuracy(&timeline, record)?);
        }
        let least = |time: usize| errors.iter().map(|of| of[time]).fold(f64::MAX, f64::min);
        let least = least(0).max(least(1));
        assert!(
            least <= ACCURACY * f64::from(PACE),
            "{errors:?}: {:?}",
            status.ordinals
        );

        event(&shop.ops, NAME, Phase::Completed.as_str()).await?;
        let events = events(&shop.ops, NAME).await?;
        for (ordinal, downtime) in downtimes(&status).enumerate() {
            let text = format!(
                "ordinal {ordinal} runs at the destination; it was down for {downtime:.1} s"
            );
            let of_ordinal = events.iter().filter(|event| note(event).contains(&text));
            assert_eq!(of_ordinal.count(), 1, "{text}");
        }
        for reason in ["FreezingSource", "MigratingPods", "Finalizing", "Completed"] {
            let of_phase = events
                .iter()
                .filter(|event| event.reason.as_deref() == Some(reason));
            assert_eq!(of_phase.count(), 1, "{reason}");
        }

        let total: f64 = downtimes(&status).sum();
        for (name, after) in series(shop).await? {
            let added = if name.ends_with("_sum") { total } else { 3.0 };
            let expected = before[name] + added;
            assert!(
                after + 0.001 >= expected,
                "{name}: found {after}, expected {expected}"
            );
        }
        Ok(())
    })
}
