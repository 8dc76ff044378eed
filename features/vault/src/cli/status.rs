//! `status`: how connections and their objects are, as the operator last reported.

use clap::ArgMatches;
use engine::Stored;
use engine::cli::flags::{NAMESPACE, value};
use engine::cli::{
    Answer, Failure, Finding, OBJECT_COLUMNS, ReadyCondition, StatusRow, StatusTable,
};
use kernel::ObjectKey;
use serde_json::json;

use super::session::VaultSession;

/// Connections are in no namespace, so what goes through them counts wherever it is, unless `-n`
/// names a namespace.
pub(super) async fn status(session: &VaultSession, args: &ArgMatches) -> Result<Answer, Failure> {
    let namespace = value(args, NAMESPACE);
    let table = match value(args, "connection") {
        Some(name) => one(session, name, namespace)?,
        None => all(session, namespace),
    };
    table.answer(&session.cluster, args).await
}

/// The objects behind a connection with their kinds.
fn dependents(session: &VaultSession, connection: &str, namespace: Option<&str>) -> Vec<StatusRow> {
    let ctx = &session.ctx;
    let mut objects = ctx.dependents(connection);
    objects.retain(|(_, object)| {
        namespace.is_none_or(|name| object.key().namespace.as_deref() == Some(name))
    });
    let kind = |kind| &*ctx.caches.of(kind).key().kind.kind;
    objects.sort_by(|a, b| (kind(a.0), a.1.key()).cmp(&(kind(b.0), b.1.key())));
    let rows = objects.iter();
    rows.map(|(id, object)| StatusRow::of(kind(*id), object))
        .collect()
}

fn all<'a>(session: &'a VaultSession, namespace: Option<&'a str>) -> StatusTable<'a> {
    let rows = move || -> Vec<StatusRow> {
        let mut connections = session.ctx.caches.connections.store().all();
        connections.sort_by(|a, b| a.key().cmp(b.key()));
        let rows = connections.iter();
        rows.map(|connection| {
            let objects = dependents(session, &connection.key().name, namespace);
            row(session, connection, &objects)
        })
        .collect()
    };
    StatusTable {
        columns: &[
            "connection",
            "ready",
            "reason",
            "version",
            "objects",
            "message",
        ],
        name_columns: 1,
        noun: "connection",
        empty_remark: "There is no VaultConnection.".to_owned(),
        rows: Box::new(rows),
        caches: session.caches(),
    }
}

/// The row of a connection: ready if all its objects are, too.
fn row(session: &VaultSession, connection: &Stored, objects: &[StatusRow]) -> StatusRow {
    let name = &*connection.key().name;
    let ReadyCondition {
        is_ready,
        reason,
        message,
    } = ReadyCondition::of(connection);
    let status = session.ctx.connection(name).and_then(|one| one.status);
    let version = status.and_then(|status| status.vault_version);
    let (ready, count) = (
        objects.iter().filter(|object| object.is_ready).count(),
        objects.len(),
    );
    let full = json!({
        "connection": name,
        "ready": is_ready,
        "reason": reason,
        "message": message,
        "version": version,
        "objects": count,
        "objectsReady": ready,
    });
    let cells = vec![
        name.to_owned(),
        if is_ready { "yes" } else { "no" }.to_owned(),
        reason,
        version.unwrap_or_default(),
        format!("{ready}/{count}"),
        message,
    ];
    StatusRow {
        is_ready: is_ready && ready == count,
        finding: Finding {
            name: format!("VaultConnection/{name}"),
            cells,
            full,
        },
    }
}

fn one<'a>(
    session: &'a VaultSession,
    name: &'a str,
    namespace: Option<&'a str>,
) -> Result<StatusTable<'a>, Failure> {
    session.connection(name)?;
    let rows = move || -> Vec<StatusRow> {
        let store = session.ctx.caches.connections.store();
        let connection = store.get(&ObjectKey::cluster(name));
        let connection = connection.map(|one| StatusRow::of("VaultConnection", &one));
        let objects = dependents(session, name, namespace);
        connection.into_iter().chain(objects).collect()
    };
    Ok(StatusTable {
        columns: OBJECT_COLUMNS,
        name_columns: 2,
        noun: "object",
        empty_remark: format!("There is no VaultConnection {name}."),
        rows: Box::new(rows),
        caches: session.caches(),
    })
}
