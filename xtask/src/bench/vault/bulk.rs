//! 300 policies and 300 roles created at once, compared with a bare loop; then deleted at once.
//!
//! The bare loop sends as many status patches of the same objects as the operator wrote in total, while
//! the operator does not run.

use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use serde_json::{Value, json};
use testkit::{Result, eventually_within};
use tokio::time::sleep;

use super::super::bar::{Bar, median};
use super::super::cluster::{JSON, MERGE, PATIENCE, send, until_ready};
use super::super::found::Found;
use super::audit::{is_patch, is_status, lasted};
use super::pairs::{Kind, Pairs};
use super::setup::{Moment, VaultSetup, number};
use crate::progress::Progress;
use crate::table::table;
use crate::verdict::Error;

/// The contract's 300 policies, each with a role that binds it.
pub(super) const BULK: Pairs = Pairs {
    connection: "bulk",
    count: 300,
    namespaces: 10,
    requests_per_second: None,
};

/// Each comparison is made this often; the median ratio counts, and the most expensive round.
const ROUNDS: usize = 3;
/// Concurrent requests of the bare loop: the operator's default concurrency.
const CONCURRENCY: usize = 16;
/// No resync falls into the measurement.
const NO_RESYNC: &str = "--vault-resync=24h";

/// The cost of one round, per object on average.
struct Round {
    making: f64,
    bare: f64,
    writes: usize,
    calls_a_policy: f64,
    calls_a_role: f64,
    statuses: f64,
    deleting: f64,
    deletion: Deletion,
}

struct Deletion {
    calls: f64,
    patches: f64,
    /// Writes of objects that were already gone.
    vain: f64,
}

pub(super) async fn measure(setup: &VaultSetup, progress: &Progress) -> Result<Found> {
    let mut rounds = Vec::new();
    for number in 1..=ROUNDS {
        progress.step(&format!(
            "300 policies and 300 roles at once: round {number} of {ROUNDS}"
        ));
        rounds.push(round(setup).await?);
    }
    let all = |part: fn(&Round) -> f64| rounds.iter().map(part).collect::<Vec<f64>>();
    let most = |part: fn(&Round) -> f64| all(part).into_iter().fold(f64::NAN, f64::max);
    let ratio = median(&all(|round| round.making / round.bare));
    let bar = |what, part, target| Bar::at_most(what, most(part), target, "").fine();
    let bars = vec![
        Bar::at_most(
            "300 policies and 300 roles at once: until all are Active ÷ bare loop",
            ratio,
            2.0,
            "",
        )
        .fine(),
        bar(
            "their making: calls a policy",
            |round| round.calls_a_policy,
            2.0,
        ),
        bar(
            "their making: calls a role",
            |round| round.calls_a_role,
            3.0,
        ),
        bar(
            "their making: status writes an object",
            |round| round.statuses,
            2.0,
        ),
        bar(
            "their deletion: calls an object",
            |round| round.deletion.calls,
            2.0,
        ),
        bar(
            "their deletion: patches an object",
            |round| round.deletion.patches,
            1.0,
        ),
        bar(
            "their deletion: writes of what was gone",
            |round| round.deletion.vain,
            0.0,
        ),
    ];
    let headings = ["ROUND", "MAKING S", "WRITES", "BARE LOOP S", "DELETING S"];
    let rows = rounds.iter().enumerate().map(|(at, round)| {
        [
            format!("{}", at + 1),
            format!("{:.2}", round.making),
            format!("{}", round.writes),
            format!("{:.2}", round.bare),
            format!("{:.2}", round.deleting),
        ]
    });
    Ok(Found {
        bars,
        notes: vec![String::new(), table(headings, rows.collect())],
    })
}

async fn round(setup: &VaultSetup) -> Result<Round> {
    start(setup).await?;
    let begin = setup.now();
    for kind in Kind::BOTH {
        setup.cluster.create(BULK.all(kind)).await?;
    }
    setup.until_ready(BULK, PATIENCE).await?;
    setup.until_quiet(PATIENCE).await?;
    let (calls, writes) = (setup.calls(begin), setup.writes(begin).await?);
    let entries = setup.cluster.plane.entries_since(begin.kubernetes).await?;
    let making = lasted(&entries).ok_or_else(|| Error::new("the audit log shows no making"))?;
    let statuses = number(writes.iter().filter(|one| is_status(one)).count())?;
    let each = number(BULK.count)?;
    setup.cluster.stop().await?;
    let bare = bare(setup, writes.len()).await?;

    // The operator corrects the writes of the bare loop before the next measurement.
    start(setup).await?;
    setup.until_quiet(PATIENCE).await?;
    let begin = setup.now();
    let began = Instant::now();
    delete(setup).await?;
    let deleting = began.elapsed().as_secs_f64();
    let deletion = deletion(setup, begin).await?;
    setup.cluster.stop().await?;
    Ok(Round {
        making,
        bare,
        writes: writes.len(),
        calls_a_policy: number(calls.about(Kind::Policy))? / each,
        calls_a_role: number(calls.about(Kind::Role))? / each,
        statuses: statuses / number(BULK.objects())?,
        deleting,
        deletion,
    })
}

async fn start(setup: &VaultSetup) -> Result<()> {
    setup.cluster.run(&[NO_RESYNC]).await?;
    until_ready(setup.cluster.operator(), true).await
}

/// The seconds that a loop needs for this many status patches if it does nothing else.
async fn bare(setup: &VaultSetup, writes: usize) -> Result<f64> {
    let client = &setup.cluster.admin;
    let began = Instant::now();
    let sent =
        stream::iter(0..writes)
            .map(Ok)
            .try_for_each_concurrent(CONCURRENCY, |index| async move {
                let kind = Kind::BOTH[index % 2];
                let path = format!("{}/status", BULK.path(kind, index / 2 % BULK.count));
                let change = json!({"status": {"message": format!("bare loop, {index}")}});
                let sent = send(client, Method::PATCH, &path, MERGE, &change).await;
                sent.map(drop)
            });
    sent.await?;
    Ok(began.elapsed().as_secs_f64())
}

/// Deletes all objects and waits until they are gone.
async fn delete(setup: &VaultSetup) -> Result<()> {
    let lists = || {
        let of = |kind| (0..BULK.namespaces).map(move |home| BULK.list_path(kind, home));
        Kind::BOTH.into_iter().flat_map(of)
    };
    let client = &setup.cluster.admin;
    let deleted =
        stream::iter(lists())
            .map(Ok)
            .try_for_each_concurrent(CONCURRENCY, |path| async move {
                let sent = send(client, Method::DELETE, &path, JSON, &Value::Null).await;
                sent.map(drop)
            });
    deleted.await?;
    let attempt = async || {
        for path in lists() {
            let list = setup.cluster.read(&path).await?;
            if list["items"]
                .as_array()
                .is_some_and(|items| !items.is_empty())
            {
                sleep(Duration::from_millis(100)).await;
                return Ok(None);
            }
        }
        Ok(Some(()))
    };
    eventually_within(PATIENCE, "all objects are gone", attempt).await
}

async fn deletion(setup: &VaultSetup, begin: Moment) -> Result<Deletion> {
    setup.until_quiet(PATIENCE).await?;
    let (calls, writes) = (setup.calls(begin), setup.writes(begin).await?);
    let patches = writes.iter().filter(|one| is_patch(one)).count();
    let vain = writes.iter().filter(|one| one.code == 404).count();
    let objects = number(BULK.objects())?;
    Ok(Deletion {
        calls: number(calls.about_objects())? / objects,
        patches: number(patches)? / objects,
        vain: number(vain)?,
    })
}
