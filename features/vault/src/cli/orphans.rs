//! `orphans`: what is ours in Vault and wanted by no object; with `--delete`, gone.

use std::time::Duration;

use clap::ArgMatches;
use engine::Health;
use engine::cli::flags::{is_set, value};
use engine::cli::{Answer, Failure, Finding, Outcome, confirm};
use futures::future::join_all;
use kernel::ObjectKey;
use serde_json::json;
use vault_client::Client;

use super::session::VaultSession;
use crate::discovery::{Orphan, search_behind};
use crate::{owner, place};

/// The records of leftovers have been read by then.
const READING: Duration = Duration::from_secs(10);

/// An orphan and where it is.
struct Found {
    connection: String,
    vault: Client,
    /// The cluster that our own markers name behind this connection.
    cluster: Option<String>,
    orphan: Orphan,
}

pub(super) async fn orphans(session: &VaultSession, args: &ArgMatches) -> Result<Answer, Failure> {
    let connections = match value(args, "connection") {
        Some(name) => vec![session.connection(name).map(|_| name.to_owned())?],
        None => session.connections(),
    };
    read_records(session, &connections).await?;
    // What objects have behind any connection is nobody's orphan: each Vault says first which it is.
    let all = session.connections();
    join_all(all.iter().map(|one| session.vault(one))).await; // failures are told where they matter
    let (mut found, mut findings) = (Vec::new(), Vec::new());
    for connection in connections {
        match search(session, &connection).await {
            Ok(orphans) => found.extend(orphans),
            Err(error) => findings.push(unsearched(&connection, &*error)),
        }
    }
    let mut outcome = if findings.is_empty() {
        Outcome::Holds
    } else {
        Outcome::Unknown
    };
    if !is_set(args, "delete") || found.is_empty() {
        if outcome == Outcome::Holds && !found.is_empty() {
            outcome = Outcome::DoesNot;
        }
        findings.extend(found.iter().map(|one| finding(one, "kept")));
        return Ok(answer(findings, outcome));
    }
    if let Some(doubt) = session.doubt() {
        return Err(doubt.into());
    }
    for Found {
        orphan, connection, ..
    } in &found
    {
        let owner = orphan.owner.as_deref().unwrap_or("unmarked");
        eprintln!("{connection}: {} ({owner})", orphan.place);
    }
    let question = format!("Delete these {} from Vault?", found.len());
    confirm(args, &question)?;
    session.cluster.allow_writes();
    for one in &found {
        let done = delete(one).await;
        if done.is_err() && outcome == Outcome::Holds {
            outcome = Outcome::DoesNot;
        }
        findings.push(finding(
            one,
            done.as_ref().map_or_else(|why| &**why, |()| "deleted"),
        ));
    }
    Ok(answer(findings, outcome))
}

async fn search(session: &VaultSession, connection: &str) -> Result<Vec<Found>, Failure> {
    let vault = session.vault(connection).await?;
    let at = session.connection(connection)?;
    let cluster = session.ctx.header(&at, "", &ObjectKey::cluster("")).cluster;
    let orphans = search_behind(connection, &vault, &session.ctx).await?;
    let orphans = orphans.ok_or("the objects changed meanwhile; ask again")?;
    let found = orphans.into_iter().map(|orphan| Found {
        connection: connection.to_owned(),
        vault: vault.clone(),
        cluster: cluster.clone(),
        orphan,
    });
    Ok(found.collect())
}

/// A connection behind which nothing could be looked for.
fn unsearched(connection: &str, error: &dyn std::error::Error) -> Finding {
    let state = error.to_string();
    Finding {
        name: format!("VaultConnection/{connection}"),
        full: json!({"connection": connection, "state": state}),
        cells: vec![connection.to_owned(), String::new(), String::new(), state],
    }
}

/// Records account for what they name, so all must be known first.
async fn read_records(session: &VaultSession, connections: &[String]) -> Result<(), Failure> {
    for connection in connections {
        drop(session.ctx.leftovers.of_target(connection)); // starts the watch
    }
    let read = || {
        let mut watches = session.ctx.deck.hub.health().into_iter();
        watches.all(|(key, health)| key.kind.plural != "configmaps" || health == Health::Synced)
    };
    let began = session.ctx.deck.clock.elapsed();
    while !read() {
        if session.ctx.deck.clock.elapsed().saturating_sub(began) > READING {
            return Err(format!(
                "the cleanup records cannot be read; ask for the right to list and watch \
                 ConfigMaps in {}, or correct --operator-namespace",
                session.ctx.deck.namespace
            )
            .into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Deletes it if it is still what was found.
async fn delete(one: &Found) -> Result<(), String> {
    let Found {
        vault,
        orphan,
        cluster,
        connection: _,
    } = one;
    let now = place::read(vault, &orphan.place).await;
    let now = now.map_err(|error| format!("kept: {error}"))?;
    let Some(now) = now else {
        return Ok(());
    };
    if now.marker().as_ref().map(owner::shown) != orphan.owner {
        return Err("kept: its owner has changed".to_owned());
    }
    let named = now.marker().and_then(|marker| marker.cluster);
    if named.is_some() && named != *cluster {
        return Err(format!(
            "kept: its marker names cluster {}; give --cluster-name if that is this one",
            named.unwrap_or_default()
        ));
    }
    let gone = place::delete(vault, &orphan.place).await;
    gone.map_err(|error| format!("kept: {error}"))
}

fn finding(one: &Found, state: &str) -> Finding {
    let Orphan { place, owner } = &one.orphan;
    Finding {
        name: place.to_string(),
        cells: vec![
            one.connection.clone(),
            place.to_string(),
            owner.clone().unwrap_or_default(),
            state.to_owned(),
        ],
        full: json!({
            "connection": one.connection,
            "vaultPath": place.to_string(),
            "owner": owner,
            "state": state,
        }),
    }
}

fn answer(findings: Vec<Finding>, outcome: Outcome) -> Answer {
    let remark = findings.is_empty().then(|| "There are none.".to_owned());
    let columns = &["connection", "path", "owner", "state"];
    Answer::table(columns, findings, outcome).with_remark(remark)
}
