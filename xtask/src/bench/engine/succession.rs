//! Two replicas: the time without a leader after the leader was killed, or ended by SIGTERM.

use std::time::{Duration, Instant};

use testkit::{Operator, Result, eventually_within};

use super::super::bar::Bar;
use super::super::cluster::{Cluster, PATIENCE, until_ready};
use super::super::found::Found;
use super::probes::{passes, probe_name};
use crate::progress::Progress;
use crate::verdict::Error;

/// The operator's default.
const LEASE_SECONDS: f64 = 15.0;
/// How often each is measured; the slowest counts.
const KILLS: usize = 2;
const STOPS: usize = 3;

#[derive(Clone, Copy)]
enum End {
    Killed,
    Stopped,
}

pub(super) async fn measure(cluster: &Cluster, progress: &Progress) -> Result<Found> {
    let mut killed: f64 = 0.0;
    for number in 1..=KILLS {
        progress.step(&format!("two replicas: leader killed, {number} of {KILLS}"));
        killed = killed.max(gap(cluster, End::Killed).await?);
    }
    let mut stopped: f64 = 0.0;
    for number in 1..=STOPS {
        progress.step(&format!(
            "two replicas: leader told to stop, {number} of {STOPS}"
        ));
        stopped = stopped.max(gap(cluster, End::Stopped).await?);
    }
    Ok(Found {
        bars: vec![
            Bar::at_most(
                "leader killed → next leader's first pass, slowest of 2",
                killed,
                LEASE_SECONDS + 2.0,
                " s",
            ),
            Bar::at_most(
                "leader told to stop → next leader's first pass, slowest of 3",
                stopped,
                3.0,
                " s",
            ),
        ],
        notes: Vec::new(),
    })
}

/// Seconds from the leader's end to the end of the next leader's first pass, under steady edits.
async fn gap(cluster: &Cluster, end: End) -> Result<f64> {
    cluster.run(&[]).await?;
    until_ready(cluster.operator(), true).await?;
    let next = cluster.world.replica("next").await?;
    until_ready(&next, false).await?;
    let seconds = tokio::select! {
        edits = edit_on_and_on(cluster) => return edits,
        seconds = succeed(cluster, &next, end) => seconds?,
    };
    next.terminate(Duration::from_secs(30)).await?;
    Ok(seconds)
}

async fn succeed(cluster: &Cluster, next: &Operator, end: End) -> Result<f64> {
    if passes(next).await? > 0.0 {
        return Err(Error::new("the standby ran a pass while another replica led").into());
    }
    match end {
        End::Killed => {
            // Just after a renewal, when the Lease has the most time left.
            renewal(cluster).await?;
            cluster.operator().kill();
            first_pass(next).await
        }
        End::Stopped => {
            let stopped = cluster.stop();
            let (stopped, seconds) = tokio::join!(stopped, first_pass(next));
            stopped?;
            seconds
        }
    }
}

async fn first_pass(next: &Operator) -> Result<f64> {
    let began = Instant::now();
    while passes(next).await? == 0.0 {
        if began.elapsed() > PATIENCE {
            return Err(Error::new("the standby did not take over").into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(began.elapsed().as_secs_f64())
}

/// Waits until the leader has written its Lease.
async fn renewal(cluster: &Cluster) -> Result<()> {
    let before = cluster.lease().await?;
    let attempt = async || {
        let now = cluster.lease().await?;
        Ok(
            (now["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"])
                .then_some(()),
        )
    };
    eventually_within(PATIENCE, "the leader renews its Lease", attempt).await
}

/// Edits one object until an edit fails.
async fn edit_on_and_on<T>(cluster: &Cluster) -> Result<T> {
    let mut number = 0_u64;
    loop {
        number += 1;
        cluster
            .edit_probe(&probe_name(0), &format!("edit {number}"))
            .await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
