//! 300 policies and 300 roles made at once, beside a bare loop; then deleted at once.
//!
//! The bare loop sends as many status patches of the same objects as the operator wrote in all, while
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
use super::site::{Moment, Site, number};
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

/// Each comparison is made this often; the middle ratio counts, and the dearest round.
const ROUNDS: usize = 3;
/// Requests of the bare loop at once: the operator's default concurrency.
const CONCURRENCY: usize = 16;
/// No resync falls into the measurement.
const NO_RESYNC: &str = "--vault-resync=24h";

/// What one round cost, each object on the average.
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
    /// Writes that found nothing.
    vain: f64,
}

pub(super) async fn measure(site: &Site, progress: &Progress) -> Result<Found> {
    let mut rounds = Vec::new();
    for number in 1..=ROUNDS {
        progress.step(&format!(
            "300 policies and 300 roles at once: round {number} of {ROUNDS}"
        ));
        rounds.push(round(site).await?);
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

async fn round(site: &Site) -> Result<Round> {
    start(site).await?;
    let begin = site.now();
    for kind in Kind::BOTH {
        site.cluster.create(BULK.all(kind)).await?;
    }
    site.until_ready(BULK, PATIENCE).await?;
    site.at_rest(PATIENCE).await?;
    let (calls, writes) = (site.calls(begin), site.writes(begin).await?);
    let entries = site.cluster.plane.entries_since(begin.kubernetes).await?;
    let making = lasted(&entries).ok_or_else(|| Error::new("the audit log shows no making"))?;
    let statuses = number(writes.iter().filter(|one| is_status(one)).count())?;
    let each = number(BULK.count)?;
    site.cluster.stop().await?;
    let bare = bare(site, writes.len()).await?;

    // What the bare loop wrote is put right before anything is measured again.
    start(site).await?;
    site.at_rest(PATIENCE).await?;
    let begin = site.now();
    let began = Instant::now();
    delete(site).await?;
    let deleting = began.elapsed().as_secs_f64();
    let deletion = deletion(site, begin).await?;
    site.cluster.stop().await?;
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

async fn start(site: &Site) -> Result<()> {
    site.cluster.run(&[NO_RESYNC]).await?;
    until_ready(site.cluster.operator(), true).await
}

/// Seconds in which so many status patches are sent by a loop that does nothing else.
async fn bare(site: &Site, writes: usize) -> Result<f64> {
    let client = &site.cluster.admin;
    let began = Instant::now();
    let sent =
        stream::iter(0..writes)
            .map(Ok)
            .try_for_each_concurrent(CONCURRENCY, |turn| async move {
                let kind = Kind::BOTH[turn % 2];
                let path = format!("{}/status", BULK.path(kind, turn / 2 % BULK.count));
                let change = json!({"status": {"message": format!("bare loop, {turn}")}});
                let sent = send(client, Method::PATCH, &path, MERGE, &change).await;
                sent.map(drop)
            });
    sent.await?;
    Ok(began.elapsed().as_secs_f64())
}

/// Deletes all objects and waits until they are gone.
async fn delete(site: &Site) -> Result<()> {
    let lists = || {
        let of = |kind| (0..BULK.namespaces).map(move |home| BULK.list_path(kind, home));
        Kind::BOTH.into_iter().flat_map(of)
    };
    let client = &site.cluster.admin;
    let asked =
        stream::iter(lists())
            .map(Ok)
            .try_for_each_concurrent(CONCURRENCY, |path| async move {
                let sent = send(client, Method::DELETE, &path, JSON, &Value::Null).await;
                sent.map(drop)
            });
    asked.await?;
    let look = async || {
        for path in lists() {
            let list = site.cluster.read(&path).await?;
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
    eventually_within(PATIENCE, "all objects are gone", look).await
}

async fn deletion(site: &Site, begin: Moment) -> Result<Deletion> {
    site.at_rest(PATIENCE).await?;
    let (calls, writes) = (site.calls(begin), site.writes(begin).await?);
    let patches = writes.iter().filter(|one| is_patch(one)).count();
    let vain = writes.iter().filter(|one| one.code == 404).count();
    let objects = number(BULK.objects())?;
    Ok(Deletion {
        calls: number(calls.about_objects())? / objects,
        patches: number(patches)? / objects,
        vain: number(vain)?,
    })
}
