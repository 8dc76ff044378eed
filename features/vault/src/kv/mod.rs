//! One pass over a VaultKVSecret: gather, plan, apply, status.
//!
//! A seed is written once, where nothing was, and then left to its users. Nothing is written before
//! it was announced, so that a crash or a lost answer leaves neither a second version nor a seed
//! that nobody owns. Values stay in memory: not even a hash of them is recorded, from which a short
//! one could be guessed.

mod apply;
mod gather;
mod marker;
mod outlook;
mod path;
mod plan;
mod removal;
mod status;

use std::sync::Arc;

use api::vault::{SyncStatus, VaultKVSecret, VaultKVSecretStatus};
use engine::{Pass, Reconcile};
use kernel::{ObjectKey, Progress};
use tracing::Instrument;

use crate::ctx::Ctx;
use crate::links::Dependent;
use crate::sync::{Error, Kept, Stop, or_outage};
pub(crate) use marker::found as marker;
pub(crate) use outlook::outlook;
pub(crate) use path::KvPath;
use status::Told;

const KIND: &str = "VaultKVSecret";

impl Kept for VaultKVSecretStatus {
    fn sync(&self) -> &SyncStatus {
        &self.sync
    }

    fn sync_mut(&mut self) -> &mut SyncStatus {
        &mut self.sync
    }
}

/// The controller of seeds.
pub(crate) struct Seeds {
    ctx: Arc<Ctx>,
}

impl Seeds {
    pub(crate) fn new(ctx: Arc<Ctx>) -> Self {
        Self { ctx }
    }
}

impl Reconcile for Seeds {
    type Object = VaultKVSecret;
    type Error = Error;

    async fn reconcile(&self, seed: &VaultKVSecret, pass: &mut Pass) -> Result<Progress, Error> {
        let ctx = &*self.ctx;
        if !ctx.settings.watches(pass.key().namespace.as_deref()) {
            return Ok(Progress::done());
        }
        let began = ctx.deck.clock.elapsed();
        let span = ctx.log_span(&seed.spec.connection_ref);
        pass.describe(&span);
        let progress = if seed.metadata.deletion_timestamp.is_some() {
            removal::reconcile(seed, ctx, pass).instrument(span).await
        } else {
            reconcile(seed, ctx, pass).instrument(span).await
        };
        let took = ctx.deck.clock.elapsed().saturating_sub(began);
        let well = matches!(progress, Ok(Progress::Done { .. } | Progress::Again));
        ctx.metrics.reconciled(KIND, pass.key(), well, took);
        progress
    }

    fn gone(&self, key: &ObjectKey) {
        self.ctx.links.leave((Dependent::Seed, key));
        self.ctx.refusals.forget(Dependent::Seed, key);
        self.ctx.metrics.forget_object(KIND, key);
    }
}

/// Makes sure that something stands at the seed's path, or makes the object say why not.
async fn reconcile(seed: &VaultKVSecret, ctx: &Ctx, pass: &mut Pass) -> Result<Progress, Error> {
    let mut told = Told::default();
    let mut ended = attempt(seed, ctx, pass, &mut told).await;
    if let Err(stop) = ended {
        let connection = &seed.spec.connection_ref;
        ended = Err(or_outage(stop, connection, Dependent::Seed, ctx, pass).await);
    }
    // Every way out of `attempt` meets here: one status patch, sent only if it differs.
    status::write(seed, ctx, pass, &told, ended).await
}

async fn attempt(
    seed: &VaultKVSecret,
    ctx: &Ctx,
    pass: &mut Pass,
    told: &mut Told,
) -> Result<(), Stop> {
    // Reads: cache and connection. A refusal carries its reason.
    let ground = gather::ground(seed, ctx, pass)?;
    gather::allowed(seed, &ground, pass)?;

    // What the server found wrong, it would find wrong again.
    let asked = ground.question(seed);
    ctx.refusals.check(Dependent::Seed, pass, asked)?;

    // Reads Vault: metadata, and values only where nothing else tells whose they are.
    let world = gather::world(seed, &ground, pass).await?;

    // Pure.
    let step = plan::plan(&world);
    if gather::is_dry_run(pass) {
        told.plan = Some(format!("{}: {step}", ground.at));
        return Ok(());
    }

    // Writes, in that order.
    let refused = &mut told.refused;
    let settled = apply::apply(seed, step, &world, &ground, pass, refused).await;
    let ended = settled.map(|settled| told.settled = Some(settled));
    if told.refused || ended.is_ok() {
        ctx.refusals
            .note(Dependent::Seed, pass.key(), asked, &ended);
    }
    ended
}

#[cfg(test)]
mod tests;
