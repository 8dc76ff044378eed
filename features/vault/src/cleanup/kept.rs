//! The records as the API server keeps them. Whatever is written is bound to the record as read.

use api::vault::names as words;
use engine::{ApiError, Classified, Pass, Stored, kill_point};
use k8s_openapi::api::core::v1::ConfigMap;
use kernel::Class;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};

use super::cached;
use super::leftover::Leftover;
use super::record::{self, Record};
use crate::ctx::Ctx;

/// The field manager of records.
const MANAGER: &str = "pontoon-vault";

/// Keeps `leftover` until it is worked off. Keeping it twice is keeping it once; of two that differ
/// the later one counts.
///
/// # Errors
/// When it is not kept: then the finalizer that guards the thing must stay.
pub(crate) async fn keep(ctx: &Ctx, leftover: &Leftover) -> Result<(), ApiError> {
    let record = Record::new(leftover.clone(), ctx.now());
    let name = leftover.record_name();
    let map = record.config_map(&ctx.deck.namespace);
    let params = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    kill_point("vault-before-record");
    let made = api(ctx).create(&params, &map).await;
    let made = made.map_err(|error| ApiError::classify(what("create", ctx, &name), error));
    let kept = match made {
        Err(error) if error.class() == Class::AlreadyExists => renew(ctx, &record).await,
        made => made.map(drop),
    };
    kill_point("vault-after-record");
    kept
}

/// Makes the record that is there already say what the new one says.
async fn renew(ctx: &Ctx, record: &Record) -> Result<(), ApiError> {
    let name = record.leftover.record_name();
    let held = api(ctx).get_opt(&name).await;
    let held = held.map_err(|error| ApiError::classify(what("get", ctx, &name), error))?;
    let Some(held) = held else {
        let what = what("create", ctx, &name); // it was closed just now
        return Err(ApiError::Stale { what });
    };
    let covers = Record::read(&held).is_ok_and(|known| known.covers(&record.leftover));
    let held_labels = held.metadata.labels.unwrap_or_default();
    let is_found = held_labels
        .get(words::CLEANUP_RECORD_LABEL)
        .map(String::as_str)
        == Some("true");
    if covers && is_found {
        return Ok(());
    }
    let metadata = json!({
        "uid": held.metadata.uid,
        "resourceVersion": held.metadata.resource_version,
        "labels": record::labels(),
    });
    write(ctx, &name, record, metadata).await.map(drop)
}

/// Writes down what has become of a record in its pass. One that is gone stays gone.
pub(super) async fn note(ctx: &Ctx, pass: &Pass, record: &Record) -> Result<(), ApiError> {
    let metadata = json!({
        "uid": pass.object().uid(),
        "resourceVersion": pass.object().version().to_string(),
    });
    kill_point("vault-before-note");
    let written = write(ctx, &pass.key().name, record, metadata).await;
    kill_point("vault-after-note");
    let written = match written {
        Err(error) if error.is_not_found() => return Ok(()),
        written => written?,
    };
    // So that no pass starts from what the record said before.
    let cache = cached(ctx);
    let text = serde_json::to_string(&written).unwrap_or_default();
    if let Ok(now) = Stored::read(&cache.key().kind, &text, &cache.key().projection) {
        cache.store().learn(now);
    }
    Ok(())
}

async fn write(
    ctx: &Ctx,
    name: &str,
    record: &Record,
    metadata: Value,
) -> Result<ConfigMap, ApiError> {
    let patch = Patch::Merge(json!({"metadata": metadata, "data": record.patch()}));
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let written = api(ctx).patch(name, &params, &patch).await;
    written.map_err(|error| ApiError::classify(what("patch", ctx, name), error))
}

/// Ends the record of this pass, unless it says something else by now: then the pass runs again.
pub(super) async fn close(ctx: &Ctx, pass: &Pass) -> Result<(), ApiError> {
    let bound = Preconditions {
        uid: Some(pass.object().uid().to_owned()),
        resource_version: Some(pass.object().version().to_string()),
    };
    kill_point("vault-before-close");
    let closed = remove(ctx, &pass.key().name, bound).await;
    kill_point("vault-after-close");
    closed
}

async fn remove(ctx: &Ctx, name: &str, bound: Preconditions) -> Result<(), ApiError> {
    let params = DeleteParams {
        preconditions: Some(bound),
        ..DeleteParams::default()
    };
    let gone = api(ctx).delete(name, &params).await.map(drop);
    match gone.map_err(|error| ApiError::classify(what("delete", ctx, name), error)) {
        Err(error) if error.is_not_found() => Ok(()),
        gone => gone,
    }
}

/// What is still to be removed over a connection, as last seen.
pub(crate) fn of_connection(ctx: &Ctx, connection: &str) -> Vec<Leftover> {
    let cache = cached(ctx);
    let all = cache.store().all().into_iter();
    let maps = all.filter_map(|map| map.parse::<ConfigMap>(&cache.key().kind).ok());
    let records = maps.filter_map(|map| Record::read(&map).ok());
    let leftovers = records.map(|record| record.leftover);
    leftovers
        .filter(|left| left.connection == connection)
        .collect()
}

/// The same as the API server has them: what was kept just now has not been seen yet.
pub(crate) async fn open(
    ctx: &Ctx,
    connection: &str,
) -> Result<Vec<(ConfigMap, Leftover)>, ApiError> {
    let labelled = ListParams::default().labels(&format!("{}=true", words::CLEANUP_RECORD_LABEL));
    let maps = api(ctx).list(&labelled).await.map_err(|error| {
        let what = format!("list cleanup records in {}", ctx.deck.namespace);
        ApiError::classify(what, error)
    })?;
    let records = maps.into_iter().filter_map(|map| {
        let leftover = Record::read(&map).ok()?.leftover;
        (leftover.connection == connection).then_some((map, leftover))
    });
    Ok(records.collect())
}

/// Drops all records of a connection; answers what stays in Vault.
pub(crate) async fn abandon(ctx: &Ctx, connection: &str) -> Result<Vec<Leftover>, ApiError> {
    let mut abandoned = Vec::new();
    for (map, leftover) in open(ctx, connection).await? {
        let bound = Preconditions {
            uid: map.metadata.uid.clone(),
            resource_version: None,
        };
        let name = map.metadata.name.unwrap_or_default();
        kill_point("vault-before-abandon");
        remove(ctx, &name, bound).await?;
        kill_point("vault-after-abandon");
        tracing::warn!(vaultConnection = connection, path = %leftover, "abandoned; it stays in Vault");
        abandoned.push(leftover);
    }
    Ok(abandoned)
}

fn api(ctx: &Ctx) -> Api<ConfigMap> {
    Api::namespaced(ctx.deck.client.clone(), &ctx.deck.namespace)
}

fn what(verb: &str, ctx: &Ctx, name: &str) -> String {
    format!("{verb} ConfigMap {}/{name}", ctx.deck.namespace)
}
