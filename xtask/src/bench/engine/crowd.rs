//! 10,000 objects of 2 KB with a child each: memory, the latency of an edit, and a resync.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use testkit::{Result, eventually_within};

use super::super::bar::{Bar, quantile};
use super::super::cluster::{Cluster, PATIENCE, resident};
use super::super::found::Found;
use super::probes::{PROBES, config_maps_path, passes, probe_name, until_quiet};
use crate::progress::Progress;
use crate::verdict::Error;

const OBJECTS: usize = 10_000;
/// The length of the text; an object is a little larger.
const TEXT: usize = 2_048;
const EDITS: usize = 1_000;
/// Short, to save time: a resync makes one pass over each object, whatever its interval.
const RESYNC: Duration = Duration::from_secs(20);

pub(super) async fn measure(cluster: &Cluster, progress: &Progress) -> Result<Found> {
    progress.step("creating 10,000 objects of 2 KB");
    cluster.create_probes(0, OBJECTS, TEXT).await?;
    progress.step("10,000 objects: making the children");
    cluster.run(&[]).await?;
    cluster.until_children(OBJECTS).await?;
    until_quiet(cluster.operator()).await?;
    let memory = resident(cluster.operator()).await?;
    progress.step("10,000 objects: edits");
    let latencies = edits(cluster).await?;
    cluster.stop().await?;
    let (writes, resync_passes) = resync(cluster, progress).await?;
    let (p50, p99) = (quantile(&latencies, 0.5), quantile(&latencies, 0.99));
    let slowest = quantile(&latencies, 1.0);
    let notes = vec![
        String::new(),
        format!(
            "edit to pass: median {p50:.1} ms, 99th of 100 {p99:.1} ms, slowest {slowest:.1} ms of {EDITS}"
        ),
        format!("resync: {resync_passes} passes over {OBJECTS} objects"),
    ];
    Ok(Found {
        bars: vec![
            Bar::at_most(
                "resident memory, 10,000 objects of 2 KB and their children",
                memory,
                100.0,
                " MiB",
            ),
            Bar::at_most(
                "change of one object among 10,000 to its pass, p99",
                p99,
                50.0,
                " ms",
            ),
            Bar::at_most(
                "writes but Leases over a resync of 10,000 objects",
                writes,
                0.0,
                "",
            )
            .whole(),
        ],
        notes,
    })
}

/// Milliseconds between the API server's receipt of an edit and of the pass's first request; the pass
/// began between the two.
async fn edits(cluster: &Cluster) -> Result<Vec<f64>> {
    let mark = cluster.plane.mark();
    for number in 0..EDITS {
        let name = probe_name(number * (OBJECTS / EDITS));
        let text = format!("edit {number}");
        cluster.edit_probe(&name, &text).await?;
        let path = format!("{}/{name}", config_maps_path(PROBES));
        let attempt = async || {
            let child = cluster.read(&path).await?;
            Ok((child["data"]["text"] == *text).then_some(()))
        };
        eventually_within(
            PATIENCE,
            &format!("{name} is edited and its child follows"),
            attempt,
        )
        .await?;
    }
    let mut edited: HashMap<String, Timestamp> = HashMap::new();
    for entry in cluster
        .plane
        .writes_since(mark, |entry| entry.resource == "probes")
        .await?
    {
        edited.insert(entry.name, entry.time);
    }
    let mut began: HashMap<String, Timestamp> = HashMap::new();
    for entry in cluster.config_map_requests(mark, PROBES).await? {
        if edited
            .get(&entry.name)
            .is_some_and(|edit| *edit <= entry.time)
        {
            let first = began.entry(entry.name).or_insert(entry.time);
            *first = entry.time.min(*first);
        }
    }
    if began.len() != EDITS {
        return Err(Error::new(format!(
            "{} passes were seen for {EDITS} edits",
            began.len()
        ))
        .into());
    }
    let wait = |(name, edit): (&String, &Timestamp)| {
        began[name].duration_since(*edit).as_secs_f64() * 1000.0
    };
    Ok(edited.iter().map(wait).collect())
}

/// The operator's writes over one resync, and the passes in it.
async fn resync(cluster: &Cluster, progress: &Progress) -> Result<(f64, f64)> {
    progress.step("10,000 objects: first look after a start");
    cluster
        .run(&[&format!("--probe-resync={}", RESYNC.as_secs())])
        .await?;
    let all = f64::from(u32::try_from(OBJECTS)?);
    until_passes(cluster, all).await?;
    progress.step("10,000 objects: one resync");
    let (mark, before, began) = (
        cluster.plane.mark(),
        passes(cluster.operator()).await?,
        Instant::now(),
    );
    until_passes(cluster, before + all).await?;
    // Each object is due within a tenth of the period.
    let rest = RESYNC.mul_f64(1.2).saturating_sub(began.elapsed());
    tokio::time::sleep(rest).await;
    let writes = cluster.world.writes_since(mark).await?;
    let resync_passes = passes(cluster.operator()).await? - before;
    cluster.stop().await?;
    Ok((f64::from(u32::try_from(writes.len())?), resync_passes))
}

async fn until_passes(cluster: &Cluster, number: f64) -> Result<()> {
    let attempt = async || Ok((passes(cluster.operator()).await? >= number).then_some(()));
    eventually_within(PATIENCE, &format!("{number} passes have ended"), attempt).await
}
