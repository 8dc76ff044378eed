//! Leftovers: what may remain in Vault after its object has gone, each kept in a record and worked
//! off when that can be done.
//!
//! ```text
//! object past its deadline ──▶ keep ──▶ ConfigMap ──▶ work ──▶ gone from Vault ──▶ ConfigMap gone
//! predecessor's queue      ──▶ legacy ──┘              └─ claimed, foreign or changed: left there
//! ```
//! # Promises
//! - A record stays until what it names is gone, is somebody's again, or a person abandons it.
//! - What is not ours, or not as we left it, is not deleted: the record is closed with a warning.
//! - A connection that is down, missing or led elsewhere costs no call and no try.

mod claimants;
mod claims;
mod judgement;
mod kept;
mod leftover;
mod legacy;
mod record;
mod work;

use std::sync::Arc;

use api::vault::{VaultConnection, names as words};
use engine::{Cache, ControllerSpec, Deck, Kind, WatchKey};
use k8s_openapi::api::core::v1::ConfigMap;

pub(crate) use kept::{abandon, keep, of_connection, open};
pub(crate) use leftover::Leftover;

use crate::ctx::Ctx;

/// Runs what works the records off, and takes over what the predecessor has left to do.
pub(crate) fn start(ctx: &Arc<Ctx>, deck: &Deck) {
    let records = work::Records::new(ctx.clone());
    let concerned = records.of_changed_connection();
    let spec = ControllerSpec::new(watched(&deck.namespace), records)
        .follow(WatchKey::all(Kind::of::<VaultConnection>()), concerned)
        .also_reconcile_now(words::RECONCILE_NOW);
    deck.control(spec);
    legacy::start(ctx, deck);
}

/// The watch of the records.
pub(crate) fn watched(namespace: &str) -> WatchKey {
    WatchKey {
        namespace: Some(namespace.to_owned()),
        labels: Some(format!("{}=true", words::CLEANUP_RECORD_LABEL)),
        ..WatchKey::all(Kind::of::<ConfigMap>())
    }
}

/// The records, as last seen.
fn cached(ctx: &Ctx) -> Cache {
    ctx.deck.hub.cache(watched(&ctx.deck.namespace))
}
