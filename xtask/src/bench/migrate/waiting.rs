//! More volumes than one call reads wait for a minute: the reads and the writes meanwhile.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::disks::SetPlan;
use testkit::{Entry, Result, eventually_within};
use tokio::time::sleep;

use super::super::bar::Bar;
use super::alone::{PATIENCE, READS_A_SECOND};
use super::logs::is_write_of_operator;
use super::setup::MigrateSetup;
use super::{count, numbered};
use crate::progress::Progress;

/// With twenty disks each: more than the 200 of one call. The stalled run has one more.
const RUNS: usize = 11;
const TEMPLATES: usize = 20;
/// A round reads 200 volumes a call.
const CALLS_OF_ROUND: f64 = 2.0;
const WAIT: Duration = Duration::from_secs(60);
/// The operator has written nothing for so long when the wait begins.
const QUIET: Duration = Duration::from_secs(3);
/// How many unexpected writes are shown.
const SHOWN: usize = 5;

pub(super) struct Waiting {
    pub(super) bars: [Bar; 2],
    pub(super) notes: Vec<String>,
}

pub(super) async fn measure(setup: &MigrateSetup, progress: &Progress) -> Result<Waiting> {
    progress.step("221 volumes that wait for a minute");
    let sets: Vec<SetPlan> = numbered("waiting", RUNS, 1)
        .into_iter()
        .map(|set| SetPlan {
            templates: (1..=TEMPLATES)
                .map(|number| format!("data{number}"))
                .collect(),
            ..set
        })
        .collect();
    setup.create_sets(&sets).await?;
    let disks: Vec<String> = sets
        .iter()
        .flat_map(|set| set.templates.iter().map(|template| set.volume(template, 0)))
        .collect();
    setup.keep_mounted(&disks).await?;
    // Far away, so that no stall is written.
    let patient = json!({"volumeDetachTimeout": "30m"});
    setup.migrate(&sets, &patient).await?;
    let waits = |status: &Value| status["ordinals"][0]["step"] == "detach";
    setup
        .until("all runs wait for their disks", &sets, PATIENCE, waits)
        .await?;
    let attempt = async || {
        let mark = setup.now()?;
        sleep(QUIET).await;
        let writes = setup.logs(mark).await?;
        let writes = writes.source.iter().chain(&writes.destination);
        Ok((!writes.into_iter().any(is_write_of_operator)).then_some(()))
    };
    eventually_within(PATIENCE, "the operator writes nothing", attempt).await?;

    let begin = setup.now()?;
    sleep(WAIT).await;
    let logs = setup.logs(begin).await?;
    let reads = count(logs.calls.iter().filter(|call| call.is_read()));
    let entries = logs.source.iter().chain(&logs.destination);
    let written: Vec<&Entry> = entries
        .filter(|entry| is_write_of_operator(entry))
        .collect();
    let changed = count(logs.calls.iter().filter(|call| call.is_write()));
    let allowed = READS_A_SECOND * WAIT.as_secs_f64() * CALLS_OF_ROUND;
    let shown = written.iter().take(SHOWN);
    let shown = shown.map(|entry| format!("  {} {} {}", entry.verb, entry.code, entry.request_uri));
    Ok(Waiting {
        bars: [
            Bar::at_most(
                "DescribeVolumes while 221 volumes wait for 60 s",
                reads,
                allowed,
                "",
            )
            .whole(),
            Bar::at_most(
                "writes meanwhile but Leases, both clusters and EC2",
                count(written.iter()) + changed,
                0.0,
                "",
            )
            .whole(),
        ],
        notes: shown.collect(),
    })
}
