//! One pass over a DistributionTenant.
//!
//! ```text
//! ground ──▶ in CloudFront? ──no──▶ create: checks, records, the tenant
//!  (caches)        └─────────yes──▶ keep: look if there is reason to, diff, update, tags, records
//!                                      └▶ gone: deleted by others
//! deleted ──▶ removal: switch off, delete, records, finalizer
//! ```
//! Every way out meets in [`Draft`]: one status, sent only if it differs.

mod byhand;
mod create;
mod dns;
mod draft;
mod facts;
mod gone;
mod ground;
mod keep;
mod live_records;
mod managed;
mod mark;
mod outlook;
mod removal;
mod rest;
mod say;
mod stop;
mod taken;
mod target;
mod update;
mod validate;

use std::sync::Arc;
use std::time::Duration;

use api::tenants::{DistributionTenant, names};
use engine::{Pass, Reconcile, Recorded, kill_point};
use kernel::{ObjectKey, Progress};

use crate::ctx::{Ctx, Ours};
use crate::failure::Way;
use crate::trouble::Error;
use draft::Draft;
pub(crate) use ground::{BY_DOMAIN, BY_NAME, domains_of, name_of, neighbours};
#[cfg(test)]
pub(crate) use outlook::Does;
pub(crate) use outlook::{Step, endpoint, outlook, taking_over, zones};
use stop::{Stop, failed, left_alone};

/// The controller of DistributionTenants.
pub(crate) struct Tenants {
    ctx: Arc<Ctx>,
}

impl Tenants {
    pub(crate) fn new(ctx: Arc<Ctx>) -> Self {
        Self { ctx }
    }
}

impl Reconcile for Tenants {
    type Object = DistributionTenant;
    type Error = Error;

    async fn reconcile(
        &self,
        object: &DistributionTenant,
        pass: &mut Pass,
    ) -> Result<Progress, Error> {
        let (ctx, key) = (&*self.ctx, pass.key().clone());
        let mut draft = Draft::new(object);
        let ended = if object.metadata.deletion_timestamp.is_some() {
            Box::pin(removal::remove(object, &key, ctx, &mut draft, pass)).await
        } else {
            attempt(object, &key, ctx, &mut draft, pass).await
        };
        conclude(ended, draft, &key, ctx, pass).await
    }

    fn gone(&self, key: &ObjectKey) {
        self.ctx.memory.forget(key);
        self.ctx.zones.forget(key);
        self.ctx.withdraw(Ours::Tenant, key);
    }
}

async fn attempt(
    object: &DistributionTenant,
    key: &ObjectKey,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &mut Pass,
) -> Result<Option<Duration>, Stop> {
    ground::settled(ctx, draft)?;
    if ground::hinges_on_default(object, key, ctx) {
        if let Some(left) = create::held_back(key, ctx, draft, pass) {
            return Err(left_alone(left, key, ctx));
        }
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let learnt = pass.outside(Box::pin(ctx.learn_default_group(namespace)));
        let learnt = learnt.await;
        learnt.map_err(|error| failed(error, Way::Group, draft, ctx, pass))?;
    }
    let ground = ground::ground(object, key, ctx, draft)?;
    finalizer(pass).await?;
    if let Some(id) = draft.status.id.clone() {
        keep::keep(object, &ground, &id, ctx, draft, pass).await
    } else {
        Box::pin(create::create(object, &ground, ctx, draft, pass)).await
    }
}

/// Nothing is made in AWS for an object that could go unnoticed.
async fn finalizer(pass: &mut Pass) -> Result<(), Stop> {
    match pass.ensure_finalizer(names::FINALIZER).await? {
        Recorded::Already => Ok(()),
        Recorded::Now => Err(Stop::Again),
    }
}

/// Writes what the pass found out, and tells the engine how it ended.
async fn conclude(
    ended: Result<Option<Duration>, Stop>,
    mut draft: Draft,
    key: &ObjectKey,
    ctx: &Ctx,
    pass: &mut Pass,
) -> Result<Progress, Error> {
    let outcome = draft.outcome();
    let (step, acted) = (draft.step.take(), draft.acted);
    let (status, notes) = draft.finished(ctx.now());
    kill_point("tenants-before-status");
    match &ended {
        // An intent is bound to the object it was made from; what AWS took is so in any case.
        Err(Stop::Again) if !acted => {
            let _ = pass.write_intent(&status).await?; // the pass ends in either case
        }
        Ok(_) | Err(Stop::Again | Stop::Told(_) | Stop::Held(_) | Stop::Failed(_)) => {
            pass.write_status(&status).await?;
        }
    }
    kill_point("tenants-after-status");
    if let Some(step) = step {
        ctx.zones.stored(key, &step);
    }
    Draft::tell(notes, pass);
    if matches!(ended, Ok(_) | Err(Stop::Told(_))) {
        ctx.memory.note(key, |memory| memory.trouble.over());
    }
    match ended {
        Ok(recheck) => Ok(Progress::Done { recheck }),
        Err(stop) => stop.progress(outcome),
    }
}
