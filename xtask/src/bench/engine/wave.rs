//! Waves: 4,000 objects without a child, then passes until every child exists. For comparison, the
//! same applies from a bare loop, and the same wave while one more object misbehaves.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use testkit::{Entry, Result};
use tokio::task::JoinSet;

use super::super::bar::{Bar, median};
use super::super::cluster::{APPLY, Cluster, send, until_ready};
use super::super::found::Found;
use super::probes::{BARE, PROBES, config_maps_path, probe_name};
use crate::progress::Progress;
use crate::table::table;
use crate::verdict::Error;

const OBJECTS: usize = 4_000;
/// Concurrent calls of the bare loop: the operator's default concurrency.
const CONCURRENCY: usize = 16;
const TEXT: usize = 64;
/// The comparison with the bare loop is made this often, alternating; the median ratio counts.
const ROUNDS: usize = 5;
/// The same for waves beside a bad object. There are more rounds, because their bar is closer to the ratio of
/// equal waves than the differences between waves are.
const ROUNDS_BESIDE: usize = 12;
/// The behaviours of the bad object, and the orders of its waves: each behaviour is equally often first,
/// second and last.
const BEHAVIOURS: [&str; 3] = ["Quiet", "Hang", "Panic"];
const ORDERS: [[usize; 3]; 6] = [
    [0, 1, 2],
    [2, 1, 0],
    [1, 2, 0],
    [0, 2, 1],
    [2, 0, 1],
    [1, 0, 2],
];
/// The object that misbehaves.
const ODD: &str = "odd";

pub(super) async fn measure(cluster: &Cluster, progress: &Progress) -> Result<Found> {
    progress.step("creating 4,000 objects");
    cluster.create_probes(0, OBJECTS, TEXT).await?;
    let mut found = against_a_bare_loop(cluster, progress).await?;
    found.add(beside_a_bad_object(cluster, progress).await?);
    // The next bench needs all objects in order.
    cluster.apply_probe(ODD, "Quiet", "well again").await?;
    Ok(found)
}

async fn against_a_bare_loop(cluster: &Cluster, progress: &Progress) -> Result<Found> {
    let (mut rows, mut ratios) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        progress.step(&format!(
            "4,000 applies, bare loop and ours: round {round} of {ROUNDS}"
        ));
        // Alternating, so that a server that becomes slower over time favours neither.
        let (bare, (ours, first)) = if round % 2 == 1 {
            (bare(cluster).await?, cold(cluster).await?)
        } else {
            let ours = cold(cluster).await?;
            (bare(cluster).await?, ours)
        };
        ratios.push(ours / bare);
        rows.push([
            format!("{round}"),
            format!("{bare:.0}"),
            format!("{ours:.0}"),
            format!("{:.2}", ours / bare),
            format!("{first:.2}"),
        ]);
    }
    let bar = Bar::at_least(
        "4,000 cold passes with one apply each ÷ bare loop",
        median(&ratios),
        0.8,
    );
    let header = ["ROUND", "BARE LOOP/S", "PASSES/S", "RATIO", "FIRST AFTER S"];
    let table = table(header, rows);
    Ok(Found {
        bars: vec![bar],
        notes: vec![table, String::new()],
    })
}

async fn beside_a_bad_object(cluster: &Cluster, progress: &Progress) -> Result<Found> {
    let (mut rows, mut hangs, mut panics) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=ROUNDS_BESIDE {
        progress.step(&format!(
            "4,000 applies beside a bad object: round {round} of {ROUNDS_BESIDE}"
        ));
        let order = ORDERS[round % ORDERS.len()];
        let [without, hanging, panicking] = each_in_turn(cluster, order).await?;
        hangs.push(hanging / without);
        panics.push(panicking / without);
        let rates = [without, hanging, panicking].map(|rate| format!("{rate:.0}"));
        let [without, hanging, panicking] = rates;
        rows.push([format!("{round}"), without, hanging, panicking]);
    }
    let bars = vec![
        Bar::at_least(
            "passes of the others while one object's hangs ÷ without",
            median(&hangs),
            0.95,
        ),
        Bar::at_least(
            "passes of the others while one object's panics ÷ without",
            median(&panics),
            0.95,
        ),
    ];
    let table = table(["ROUND", "WITHOUT/S", "ONE HANGS/S", "ONE PANICS/S"], rows);
    Ok(Found {
        bars,
        notes: vec![table],
    })
}

/// The three waves of a round, in this order.
async fn each_in_turn(cluster: &Cluster, order: [usize; 3]) -> Result<[f64; 3]> {
    let mut rates = [f64::NAN; BEHAVIOURS.len()];
    for at in order {
        rates[at] = beside(cluster, BEHAVIOURS[at]).await?;
    }
    Ok(rates)
}

/// Applies per second by a loop that does nothing else, with the operator's account.
async fn bare(cluster: &Cluster) -> Result<f64> {
    let client = cluster.as_operator().await?;
    let (mark, began) = (cluster.plane.mark(), Timestamp::now());
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..CONCURRENCY {
        let (client, next) = (client.clone(), Arc::clone(&next));
        workers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= OBJECTS {
                    return Ok(());
                }
                let path = format!(
                    "{}/{}?fieldManager=bench-bare&force=false",
                    config_maps_path(BARE),
                    probe_name(number)
                );
                send(&client, Method::PATCH, &path, APPLY, &child(number)).await?;
            }
        });
    }
    while let Some(ended) = workers.join_next().await {
        let sent: Result<()> = ended?;
        sent?;
    }
    let applies = applies(cluster.config_map_requests(mark, BARE).await?);
    cluster.empty(BARE).await?;
    rate(&applies, Some(began))
}

/// The object that the operator applies for a Probe, identical except for names.
fn child(number: usize) -> Value {
    let name = probe_name(number);
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": BARE,
            "labels": {"probe.pontoon.io/owned": "true"},
            "ownerReferences": [{
                "apiVersion": "probe.pontoon.io/v1alpha1",
                "kind": "Probe",
                "name": name,
                "uid": format!("00000000-0000-4000-8000-{number:012x}"),
                "controller": true,
            }],
        },
        "data": {"text": "x".repeat(TEXT)},
    })
}

/// Passes per second from the operator's start, with all objects in place, until the last child exists; and the
/// seconds until the first one exists.
async fn cold(cluster: &Cluster) -> Result<(f64, f64)> {
    let (mark, began) = (cluster.plane.mark(), Timestamp::now());
    cluster.run(&[]).await?;
    cluster.until_children(OBJECTS).await?;
    let applies = applies(cluster.config_map_requests(mark, PROBES).await?);
    cluster.stop().await?;
    cluster.empty(PROBES).await?;
    let first = applies
        .values()
        .min()
        .map_or(f64::NAN, |first| first.duration_since(began).as_secs_f64());
    Ok((rate(&applies, Some(began))?, first))
}

/// Applies per second for the others, from the first to the last, while the odd one has this behaviour.
///
/// The operator waits as standby until its queue is full, and an edit puts the odd one first, so that
/// its pass begins before any other.
async fn beside(cluster: &Cluster, behaviour: &str) -> Result<f64> {
    cluster.apply_probe(ODD, behaviour, "as it was").await?;
    cluster.give_lease("bench").await?;
    let mark = cluster.plane.mark();
    cluster.run(&["--lease-retry-period=500ms"]).await?;
    until_ready(cluster.operator(), false).await?;
    cluster.apply_probe(ODD, behaviour, "edited").await?;
    cluster.give_lease("").await?;
    cluster
        .until_children(OBJECTS + usize::from(behaviour == "Quiet"))
        .await?;
    misbehaved(cluster, behaviour).await?;
    let mut applies = applies(cluster.config_map_requests(mark, PROBES).await?);
    cluster.stop().await?;
    cluster.empty(PROBES).await?;
    applies.remove(ODD);
    rate(&applies, None)
}

/// Fails unless the odd one showed its behaviour.
async fn misbehaved(cluster: &Cluster, behaviour: &str) -> Result<()> {
    let operator = cluster.operator();
    let seen = match behaviour {
        "Hang" => {
            operator
                .metric("pontoon_passes_in_flight", &[("kind", "Probe")])
                .await?
        }
        "Panic" => {
            operator
                .metric("pontoon_panics_total", &[("kind", "Probe")])
                .await?
        }
        _ => return Ok(()),
    };
    if seen < 1.0 {
        let message = format!(
            "the object with behaviour {behaviour} did not show it, so the wave says nothing"
        );
        return Err(Error::new(message).into());
    }
    Ok(())
}

/// When each child was first applied.
fn applies(requests: Vec<Entry>) -> HashMap<String, Timestamp> {
    let mut first = HashMap::new();
    for entry in requests
        .into_iter()
        .filter(|entry| entry.verb == "patch" && entry.code < 300)
    {
        let at = first.entry(entry.name).or_insert(entry.time);
        *at = entry.time.min(*at);
    }
    first
}

/// Children per second, from `began` or else from the first one on.
fn rate(applies: &HashMap<String, Timestamp>, began: Option<Timestamp>) -> Result<f64> {
    if applies.len() != OBJECTS {
        return Err(Error::new(format!(
            "{} children were applied instead of {OBJECTS}",
            applies.len()
        ))
        .into());
    }
    let first = began.or_else(|| applies.values().min().copied());
    let last = applies.values().max().copied();
    let (Some(first), Some(last)) = (first, last) else {
        return Ok(f64::NAN);
    };
    let seconds = last.duration_since(first).as_secs_f64();
    Ok(f64::from(u32::try_from(OBJECTS)?) / seconds)
}
