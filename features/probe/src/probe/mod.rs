//! One pass over a Probe: gather, validate, plan, apply, status.

mod apply;
mod error;
mod gather;
mod plan;
mod status;
mod validate;

use std::sync::Arc;

use api::probe::{Behaviour, Probe};
use engine::{Cache, Pass, Reconcile, WatchKey};
use kernel::Progress;

use crate::Ctx;
use apply::Applied;
pub(crate) use error::Error;

type Stop = kernel::Stop<Error>; // Waiting, Blocked or Failed

/// Reconciles Probes.
pub(crate) struct Probes {
    ctx: Arc<Ctx>,
    owned: Cache,
}

impl Probes {
    pub(crate) fn new(ctx: Arc<Ctx>, owned: WatchKey) -> Self {
        let owned = ctx.deck.hub.cache(owned);
        Self { ctx, owned }
    }
}

impl Reconcile for Probes {
    type Object = Probe;
    type Error = Error;

    async fn reconcile(&self, probe: &Probe, pass: &mut Pass) -> Result<Progress, Error> {
        if probe.spec.behaviour == Behaviour::Quiet {
            let written = apply::write(probe, &probe.spec.text, &self.ctx, &self.owned, pass).await;
            return written.map(|()| Progress::done()).or_else(Stop::progress);
        }
        let ended = self.attempt(probe, pass).await;

        // Every way out of `attempt` meets here: one status patch, sent only if it differs.
        let status = status::status(probe, &ended, pass);
        status::tell(probe, &status, pass);
        pass.write_status(&status).await?;

        // Waiting and blocked are answers; only `Failed` becomes an `Err`.
        ended.map(Progress::from).or_else(Stop::progress)
    }
}

impl Probes {
    async fn attempt(&self, probe: &Probe, pass: &mut Pass) -> Result<Applied, Stop> {
        misbehave(probe.spec.behaviour).await?;

        // Reads: cache, API server, outside.
        let world = gather::gather(probe, &self.ctx, &self.owned, pass).await?;

        // Pure. A refusal carries its reason.
        let desired = validate::validate(probe, &world)?;

        // Pure. A deletion is a plan like any other.
        let steps = plan::plan(&desired, &world);

        // Writes, in that order. Only `apply` can make an `Applied`.
        apply::apply(probe, steps, &self.ctx, &self.owned, pass).await
    }
}

async fn misbehave(behaviour: Behaviour) -> Result<(), Stop> {
    match behaviour {
        Behaviour::Well | Behaviour::Quiet => Ok(()),
        Behaviour::Panic => panic!("the spec asks for a panic"),
        Behaviour::Hang => std::future::pending().await,
        Behaviour::Wait => {
            let reason =
                kernel::Reason::new(api::probe::reasons::ASKED_TO_WAIT, "the spec asks to wait");
            Err(Stop::waiting(reason, std::time::Duration::from_secs(3600)))
        }
    }
}
