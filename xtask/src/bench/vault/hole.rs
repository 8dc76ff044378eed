//! Edits on one connection while another one, with 1,000 dependents, works or is a black hole.
//!
//! In both cases the 1,000 are due within the window; only the result of their calls differs. Edits
//! come at a fixed rate whatever their result, so a stall delays all edits in that time.

use std::time::Duration;

use testkit::fault_proxy::{AnyMethod, Rule};
use testkit::{Result, eventually_within};
use tokio::task::JoinSet;
use tokio::time::interval;

use super::super::bar::{Bar, quantile};
use super::super::cluster::{MERGE, PATIENCE, send, until_ready};
use super::super::found::Found;
use super::audit::{is_status, waits};
use super::pairs::{Kind, Pairs, edit, is_ready};
use super::setup::VaultSetup;
use crate::progress::Progress;
use crate::table::table;
use crate::verdict::Error;

/// The pairs that are edited.
pub(super) const OURS: Pairs = Pairs {
    connection: "ours",
    count: 100,
    namespaces: 1,
    requests_per_second: None,
};
/// The pairs of the connection that becomes a black hole.
pub(super) const THEIRS: Pairs = Pairs {
    connection: "theirs",
    count: 500,
    namespaces: 1,
    requests_per_second: None,
};
/// The index of the proxy of the other connection, in the order of creation.
const THEIR_PROXY: usize = 1;

const ROUNDS: usize = 3;
const EDITS: usize = 400;
const PACE: Duration = Duration::from_millis(100);
/// As long as a window, so that each dependent is due in it.
const RESYNC: &str = "--vault-resync=40s";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Other {
    Well,
    BlackHole,
}

pub(super) async fn measure(setup: &VaultSetup, progress: &Progress) -> Result<Found> {
    progress.step("two connections: making 200 and 1,000 objects");
    setup.cluster.run(&[RESYNC]).await?;
    until_ready(setup.cluster.operator(), true).await?;
    for pairs in [OURS, THEIRS] {
        for kind in Kind::BOTH {
            setup.cluster.create(pairs.all(kind)).await?;
        }
        setup.until_ready(pairs, PATIENCE).await?;
    }
    let (mut without, mut with, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        progress.step(&format!(
            "edits beside a black-holed connection: round {} of {ROUNDS}",
            round + 1
        ));
        // Alternating, so that a machine that becomes slower over time favours neither.
        let (well, hole) = if round % 2 == 0 {
            let well = window(setup, round, Other::Well).await?;
            (well, window(setup, round, Other::BlackHole).await?)
        } else {
            let hole = window(setup, round, Other::BlackHole).await?;
            (window(setup, round, Other::Well).await?, hole)
        };
        rows.push(row(round, &well, &hole));
        without.extend(well.waits);
        with.extend(hole.waits);
    }
    setup.cluster.stop().await?;
    let ratio = quantile(&with, 0.95) / quantile(&without, 0.95);
    let bar = Bar::at_most(
        "edits beside a black-holed connection with 1,000 dependents, p95 ÷ without",
        ratio,
        1.2,
        "",
    );
    let headings = [
        "ROUND",
        "WITHOUT P50/P95/MAX MS",
        "WITH P50/P95/MAX MS",
        "CALLS INTO THE HOLE",
        "DEPENDENTS THAT SAID SO",
    ];
    Ok(Found {
        bars: vec![bar.fine()],
        notes: vec![String::new(), table(headings, rows)],
    })
}

/// The measurements of a window.
struct Window {
    /// Milliseconds.
    waits: Vec<f64>,
    /// Calls through the other connection.
    calls: usize,
    /// Statuses of the other connection's dependents.
    statuses: usize,
}

fn row(round: usize, well: &Window, hole: &Window) -> [String; 5] {
    let spread = |window: &Window| {
        let at = |share| quantile(&window.waits, share);
        format!("{:.1} / {:.1} / {:.1}", at(0.5), at(0.95), at(1.0))
    };
    [
        format!("{}", round + 1),
        spread(well),
        spread(hole),
        format!("{}", hole.calls),
        format!("{}", hole.statuses),
    ]
}

/// Edits at a fixed rate; a black hole opens at the start of the window and closes at its end.
async fn window(setup: &VaultSetup, round: usize, other: Other) -> Result<Window> {
    let proxy = setup.proxy(THEIR_PROXY);
    let (begin, before) = (setup.now(), proxy.requests().len());
    if other == Other::BlackHole {
        proxy.rule(Rule::on(AnyMethod::any(), "*").black_hole());
    }
    edits(setup, round, other).await?;
    setup.until_ready(OURS, PATIENCE).await?;
    let calls = proxy.requests().len() - before;
    let mut writes = setup.cluster.plane.entries_since(begin.kubernetes).await?;
    let theirs = writes.iter().filter(|one| !is_ours(&one.namespace));
    let statuses = theirs.filter(|one| is_status(one)).count();
    if other == Other::BlackHole {
        proxy.clear();
        proxy.cut_all();
        if calls == 0 || statuses == 0 {
            return Err(Error::new("nobody met the black hole, so the window says nothing").into());
        }
        well_again(setup).await?;
    }
    writes.retain(|one| is_ours(&one.namespace));
    let waits: Option<Vec<f64>> = waits(&writes).into_iter().collect();
    let waits = waits.filter(|waits| waits.len() == EDITS);
    let waits =
        waits.ok_or_else(|| Error::new("an edit is not in the audit log, or its status"))?;
    Ok(Window {
        waits,
        calls,
        statuses,
    })
}

fn is_ours(namespace: &str) -> bool {
    OURS.homes().any(|home| home == namespace)
}

/// Waits until the other connection and all its dependents have recovered.
async fn well_again(setup: &VaultSetup) -> Result<()> {
    let path = "/apis/vault.platform.io/v1alpha1/vaultconnections/theirs";
    let attempt = async || {
        let connection = setup.cluster.read(path).await?;
        Ok(is_ready(&connection).then_some(()))
    };
    eventually_within(PATIENCE, "the other connection is well again", attempt).await?;
    setup.until_ready(THEIRS, PATIENCE).await
}

/// Edits policies and roles alternately, with different contents in each window.
async fn edits(setup: &VaultSetup, round: usize, other: Other) -> Result<()> {
    let windows = 2 * round + usize::from(other == Other::BlackHole);
    let (mut pace, mut sent) = (interval(PACE), JoinSet::new());
    for number in 0..EDITS {
        pace.tick().await;
        let kind = Kind::BOTH[number % 2];
        let path = OURS.path(kind, number / 2 % OURS.count);
        let change = edit(kind, windows * EDITS + number);
        let client = setup.cluster.admin.clone();
        sent.spawn(async move { send(&client, http::Method::PATCH, &path, MERGE, &change).await });
    }
    while let Some(ended) = sent.join_next().await {
        let sent: Result<serde_json::Value> = ended?;
        sent?;
    }
    Ok(())
}
