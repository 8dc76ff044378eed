//! Takes over what the predecessor has yet to delete: its queue becomes records, and goes.
//!
//! Only while its Lease is held, so nobody adds to the queue meanwhile. Done once each time this
//! process begins to lead; what cannot be understood stays in the queue and is told.

mod item;

use std::sync::Arc;

use api::vault::names as words;
use engine::{ApiError, Deck, Note, kill_point};
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};
use vault_client::AuthMount;

use crate::ctx::Ctx;
use crate::names;

/// The key of the queue.
const QUEUE: &str = "queue";
/// The field manager of what is left of it.
const MANAGER: &str = "pontoon-vault";

pub(super) fn start(ctx: &Arc<Ctx>, deck: &Deck) {
    let ctx = ctx.clone();
    deck.task("cleanup-queue", move || {
        let ctx = ctx.clone();
        async move { take_over(&ctx).await }
    });
}

/// Never ends, so that it begins anew when this process leads again.
async fn take_over(ctx: &Ctx) {
    let mut told = String::new();
    let pause = || tokio::time::sleep(ctx.deck.clock.real(ctx.settings.cleanup_retry));
    while !ctx.caches.connections.is_settled() {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    loop {
        let said = match import(ctx, &told).await {
            Ok(None) => return std::future::pending().await,
            Ok(Some(left)) => left,
            Err(error) => {
                let said = error.to_string();
                if said != told {
                    tracing::warn!(%error, "the queue of vault-access-operator is not taken over yet");
                }
                said
            }
        };
        told = said;
        pause().await;
    }
}

/// Turns what is understood into records. Answers what is left and why; none if nothing is.
async fn import(ctx: &Ctx, told: &str) -> Result<Option<String>, ApiError> {
    let api = api(ctx);
    let name = words::LEGACY_CLEANUP_QUEUE;
    let what = |verb: &str| format!("{verb} ConfigMap {}/{name}", namespace(ctx));
    let held = api.get_opt(name).await;
    let Some(map) = held.map_err(|error| ApiError::classify(what("get"), error))? else {
        return Ok(None);
    };
    let text = map.data.as_ref().and_then(|data| data.get(QUEUE));
    let items = match item::items(text.map_or("", String::as_str)) {
        Ok(items) => items,
        Err(why) => return Ok(Some(tell(&map, &[why], told, ctx))),
    };
    let count = items.len();
    let (mut left, mut reasons) = (Vec::new(), Vec::new());
    for item in items {
        match item::leftover(&item, |connection| role_mount(ctx, connection)) {
            Ok(found) => {
                let connection = ctx.connection(&found.connection);
                let found = found.over(connection.as_ref(), None);
                ctx.leftovers.record(&found).await?;
                tracing::info!(vaultConnection = found.connection, path = %found, "taken over");
            }
            Err(why) => {
                reasons.push(why);
                left.push(item);
            }
        }
    }
    kill_point("vault-before-queue");
    if left.is_empty() {
        let gone = api.delete(name, &bound(&map)).await.map(drop);
        gone.map_err(|error| ApiError::classify(what("delete"), error))?;
    } else if left.len() < count {
        let patch = shortened(&map, left);
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let kept = api.patch(name, &params, &Patch::Merge(patch)).await;
        kept.map_err(|error| ApiError::classify(what("patch"), error))?;
    }
    kill_point("vault-after-queue");
    Ok((!reasons.is_empty()).then(|| tell(&map, &reasons, told, ctx)))
}

/// Tells what cannot be understood, unless that was told before; answers what it said.
fn tell(map: &ConfigMap, reasons: &[String], told: &str, ctx: &Ctx) -> String {
    let said = format!(
        "not taken over, correct or remove it: {}",
        reasons.join("; ")
    );
    if said != told {
        tracing::warn!(said, "the queue of vault-access-operator");
        let regarding = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("ConfigMap".to_owned()),
            namespace: map.metadata.namespace.clone(),
            name: map.metadata.name.clone(),
            uid: map.metadata.uid.clone(),
            ..ObjectReference::default()
        };
        let note = Note::warning("CleanupItemNotUnderstood", said.clone());
        ctx.deck.events.record(regarding, note);
    }
    said
}

/// The patch that leaves `left` in the queue that was read.
fn shortened(map: &ConfigMap, left: Vec<Value>) -> Value {
    json!({
        "metadata": {
            "uid": map.metadata.uid,
            "resourceVersion": map.metadata.resource_version,
        },
        "data": {QUEUE: Value::Array(left).to_string()},
    })
}

/// Only the queue that was read goes: one that was written since is read again.
fn bound(map: &ConfigMap) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid: map.metadata.uid.clone(),
            resource_version: map.metadata.resource_version.clone(),
        }),
        ..DeleteParams::default()
    }
}

fn role_mount(ctx: &Ctx, connection: &str) -> Option<AuthMount> {
    let spec = ctx.connection(connection)?.spec;
    let role = names::role_mount(spec.defaults.as_ref(), &spec.auth).ok()?;
    Some(role.mount)
}

fn api(ctx: &Ctx) -> Api<ConfigMap> {
    Api::namespaced(ctx.deck.client.clone(), namespace(ctx))
}

/// The queue is beside the predecessor's Lease.
fn namespace(ctx: &Ctx) -> &str {
    let lease = ctx.settings.legacy_lease.as_ref();
    let told = lease.and_then(|lease| lease.namespace.as_deref());
    told.unwrap_or(&ctx.deck.namespace)
}
