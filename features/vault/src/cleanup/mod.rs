//! Leftovers in Vault, for [`engine::leftovers`]: what they are, who claims them, and which are still ours.
//!
//! ```text
//! object past its deadline ──▶ record ──▶ claims ──▶ Vault ──▶ decide ──▶ deleted
//! predecessor's queue      ──▶ legacy ──┘                        └─ foreign or changed: left there
//! ```
//! # Promises
//! - What is not ours, or not as we left it, is not deleted: the record is closed with a warning.
//! - A connection that is down, missing or led elsewhere costs no call and no try.

mod claims;
mod decide;
mod leftover;
mod legacy;
mod reconcile;

use std::sync::Arc;

use api::vault::{VaultConnection, names as words};
use engine::{Deck, Kind, WatchKey, leftovers};

pub(crate) use leftover::VaultLeftover;

use crate::ctx::Ctx;
use reconcile::VaultRemover;

/// Runs what works the records off, and takes over what the predecessor has left to do.
pub(crate) fn start(ctx: &Arc<Ctx>, deck: &Deck) {
    let connections = WatchKey::all(Kind::of::<VaultConnection>());
    let spec = leftovers::controller(VaultRemover::new(ctx.clone()), deck)
        .follow(connections, ctx.leftovers.of_changed_target())
        .also_reconcile_now(words::RECONCILE_NOW);
    deck.control(spec);
    legacy::start(ctx, deck);
}
