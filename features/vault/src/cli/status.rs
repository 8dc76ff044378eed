//! `status`: how connections and their objects are, as the operator last said.

use clap::ArgMatches;
use engine::{Answer, Finding, Kind, Outcome, Stored};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kernel::find;
use serde::Deserialize;
use serde_json::json;

use api::vault::{VaultConnection, conditions};

use super::site::Site;
use super::target;
use super::{Failure, text};

/// As much of a status as is shown.
#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default)]
    conditions: Vec<Condition>,
    vault_version: Option<String>,
}

/// How an object is.
struct State {
    ready: bool,
    reason: String,
    message: String,
    version: Option<String>,
}

impl State {
    fn of(object: &Stored) -> Self {
        let kind = Kind::of::<VaultConnection>(); // only for the error, which is not shown
        let status = object.parse::<Object>(&kind).map(|object| object.status);
        let status = status.unwrap_or_default();
        let ready = find(&status.conditions, conditions::READY);
        let reason = ready.map(|ready| ready.reason.clone());
        Self {
            ready: ready.is_some_and(|ready| ready.status == "True"),
            reason: reason.unwrap_or_else(|| "NotLookedAt".to_owned()),
            message: ready.map_or_else(
                || "the operator has not looked at it yet; is it running?".to_owned(),
                |ready| ready.message.clone(),
            ),
            version: status.vault_version,
        }
    }

    fn word(&self) -> String {
        if self.ready { "yes" } else { "no" }.to_owned()
    }
}

pub(super) fn status(site: &Site, args: &ArgMatches) -> Result<Answer, Failure> {
    match text(args, "connection") {
        Some(name) => one(site, name),
        None => Ok(all(site)),
    }
}

fn all(site: &Site) -> Answer {
    let mut holds = true;
    let mut connections = site.ctx.caches.connections.store().all();
    connections.sort_by(|a, b| a.key().cmp(b.key()));
    let findings = connections.iter().map(|connection| {
        let name = &*connection.key().name;
        let state = State::of(connection);
        let objects = site.ctx.dependents(name);
        let ready = objects.iter().filter(|(_, object)| State::of(object).ready);
        let (ready, count) = (ready.count(), objects.len());
        holds &= state.ready && ready == count;
        Finding {
            name: format!("VaultConnection/{name}"),
            cells: vec![
                name.to_owned(),
                state.word(),
                state.reason.clone(),
                state.version.clone().unwrap_or_default(),
                format!("{ready}/{count}"),
                state.message.clone(),
            ],
            full: json!({
                "connection": name,
                "ready": state.ready,
                "reason": state.reason,
                "message": state.message,
                "version": state.version,
                "objects": count,
                "objectsReady": ready,
            }),
        }
    });
    Answer {
        columns: &[
            "connection",
            "ready",
            "reason",
            "version",
            "objects",
            "message",
        ],
        findings: findings.collect(),
        outcome: outcome(holds),
        documents: false,
        remark: connections
            .is_empty()
            .then(|| "There is no VaultConnection.".to_owned()),
    }
}

fn one(site: &Site, name: &str) -> Result<Answer, Failure> {
    site.connection(name)?;
    let key = kernel::ObjectKey::cluster(name);
    let connection = site.ctx.caches.connections.store().get(&key);
    let connection = connection.map(|connection| ("VaultConnection", connection));
    let mut objects: Vec<_> = site
        .ctx
        .dependents(name)
        .into_iter()
        .map(|(kind, object)| (target::name(kind), object))
        .collect();
    objects.sort_by(|a, b| (a.0, a.1.key()).cmp(&(b.0, b.1.key())));
    let mut holds = true;
    let findings = connection.into_iter().chain(objects).map(|(kind, object)| {
        let (key, state) = (object.key(), State::of(&object));
        holds &= state.ready;
        Finding {
            name: format!("{kind}/{key}"),
            cells: vec![
                kind.to_owned(),
                key.to_string(),
                state.word(),
                state.reason.clone(),
                state.message.clone(),
            ],
            full: json!({
                "kind": kind,
                "namespace": key.namespace.as_deref(),
                "name": &*key.name,
                "ready": state.ready,
                "reason": state.reason,
                "message": state.message,
            }),
        }
    });
    Ok(Answer {
        columns: &["kind", "name", "ready", "reason", "message"],
        findings: findings.collect(),
        outcome: outcome(holds),
        documents: false,
        remark: None,
    })
}

fn outcome(holds: bool) -> Outcome {
    if holds {
        Outcome::Holds
    } else {
        Outcome::DoesNot
    }
}
