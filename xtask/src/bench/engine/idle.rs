//! An empty cluster: the duration of the start, and the memory of an idle operator.

use std::time::Instant;

use testkit::Result;

use super::super::bar::Bar;
use super::super::cluster::{Cluster, resident, until_ready};
use super::super::found::Found;
use crate::progress::Progress;

/// How many starts are measured; the slowest counts.
const STARTS: usize = 5;

pub(super) async fn measure(cluster: &Cluster, progress: &Progress) -> Result<Found> {
    let mut slowest: f64 = 0.0;
    for start in 1..=STARTS {
        progress.step(&format!("empty cluster: start {start} of {STARTS}"));
        let began = Instant::now();
        cluster.run(&[]).await?;
        until_ready(cluster.operator(), true).await?;
        slowest = slowest.max(began.elapsed().as_secs_f64());
        if start < STARTS {
            cluster.stop().await?;
        }
    }
    let memory = resident(cluster.operator()).await?;
    cluster.stop().await?;
    Ok(Found {
        bars: vec![
            Bar::at_most(
                "start to ready and leading, empty cluster, slowest of 5",
                slowest,
                1.0,
                " s",
            )
            .fine(),
            Bar::at_most("resident memory, empty cluster", memory, 25.0, " MiB"),
        ],
        notes: Vec::new(),
    })
}
