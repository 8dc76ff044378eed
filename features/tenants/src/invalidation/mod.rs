//! One pass over an Invalidation: wait for its tenant, ask once, see it done, go.
//!
//! It is asked for under its UID, and CloudFront gives the same invalidation for the same
//! reference: a crash or a lost answer makes no second one, so nothing has to be announced, and
//! there is no finalizer.

mod plan;
mod said;
mod tenant;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::tenants::{Invalidation, InvalidationStatus, conditions, reasons};
use aws::cloudfront::Invalidation as Live;
use aws::{Operation, Priority};
use engine::{ControllerSpec, Kind, Pass, Reconcile, kill_point};
use kernel::{ObjectKey, Progress, Reason, find, spread};
use parking_lot::Mutex;

use crate::ctx::{Ctx, NotYet, Ours};
use crate::failure::slow;
use crate::trouble::{Error, Moment, Trouble};
use plan::{Failed, Step};
use said::Said;

/// How often one at work is looked at, and how far that is spread.
const POLL: Duration = Duration::from_secs(30);
const SPREAD: f64 = 0.2;
/// How long one pass may take: a call may take half a minute.
const DEADLINE: Duration = Duration::from_secs(2 * 60);

/// The controller of invalidations, and what wakes them.
pub(crate) fn controller(ctx: &Arc<Ctx>) -> ControllerSpec {
    let caches = &ctx.caches;
    let passes = Invalidations::new(Arc::clone(ctx));
    ControllerSpec::new(caches.invalidations.key().clone(), passes)
        .deadline(DEADLINE)
        .follow(
            caches.tenants.key().clone(),
            tenant::invalidations_of_tenant(caches),
        )
}

/// Passes over invalidations.
struct Invalidations {
    ctx: Arc<Ctx>,
    troubles: Mutex<HashMap<ObjectKey, Trouble>>,
}

/// How a pass ends.
enum Ended {
    /// What was said holds until then, unless it is woken sooner.
    After(Duration),
    /// AWS failed in a way that passes.
    Failed(aws::Error),
}

/// What CloudFront is asked.
enum Call<'a> {
    Create { tenant: &'a str },
    Poll { tenant: &'a str, id: &'a str },
}

impl Invalidations {
    fn new(ctx: Arc<Ctx>) -> Self {
        tenant::index(&ctx);
        Self {
            ctx,
            troubles: Mutex::default(),
        }
    }

    /// Asks CloudFront, unless a refusal holds it back or it is not its turn.
    async fn ask(
        &self,
        call: Call<'_>,
        object: &Invalidation,
        said: &mut Said,
        pass: &mut Pass,
    ) -> Ended {
        let at = Moment {
            generation: object.metadata.generation,
            elapsed: self.ctx.deck.clock.elapsed(),
            random: fastrand::f64(),
        };
        let known = self.troubles.lock().get(pass.key()).cloned();
        let mut trouble = known.unwrap_or_default();
        if pass.is_urgent() {
            trouble.forgive(); // a person who asks is answered at once
        }
        if let Some(left) = trouble.holds_back(&at) {
            return Ended::After(left);
        }
        let soon = spread(POLL, SPREAD, at.random);
        let ended = match self.answer(&call, object, pass).await {
            Err(NotYet { after }) => Ended::After(after),
            Ok(Ok(live)) => {
                trouble.over();
                said.shown(&live);
                Ended::After(soon)
            }
            Ok(Err(error)) => match plan::failed(&error, &said.status, self.ctx.now()) {
                Failed::TooEarly => Ended::After(soon),
                Failed::Finally { counted, why } => {
                    self.count(counted);
                    said.ends(&why);
                    Ended::After(soon)
                }
                Failed::ForNow(failure) => {
                    self.count(failure.counted);
                    let met = trouble.met(&failure, &at);
                    said.says(met.says, &error.to_string());
                    met.after.map_or(Ended::Failed(error), Ended::After)
                }
            },
        };
        self.troubles.lock().insert(pass.key().clone(), trouble);
        ended
    }

    async fn answer(
        &self,
        call: &Call<'_>,
        object: &Invalidation,
        pass: &mut Pass,
    ) -> Result<Result<Live, aws::Error>, NotYet> {
        let ctx = &self.ctx;
        match call {
            Call::Create { tenant } => {
                // Far fewer of them a second than of other calls.
                let create = Operation::CreateInvalidationForDistributionTenant;
                let asker = ctx
                    .admit_to(create, Ours::Invalidation, pass, Priority::Edit)
                    .await?;
                let cloudfront = ctx.own().await.cloudfront(&asker);
                let uid = pass.object().uid().to_owned();
                kill_point("invalidation-before-create");
                let asked = cloudfront.invalidate(tenant, &uid, &object.spec.paths);
                let answer = pass.outside(Box::pin(asked)).await;
                kill_point("invalidation-after-create");
                Ok(answer)
            }
            Call::Poll { tenant, id } => {
                let asker = ctx.admit(Ours::Invalidation, pass, Priority::Poll).await?;
                let cloudfront = ctx.own().await.cloudfront(&asker);
                let asked = cloudfront.invalidation(tenant, id);
                Ok(pass.outside(Box::pin(asked)).await)
            }
        }
    }

    fn count(&self, error_type: Option<&'static str>) {
        if let Some(error_type) = error_type {
            self.ctx.metrics.failed(error_type);
        }
    }
}

impl Reconcile for Invalidations {
    type Object = Invalidation;
    type Error = Error;

    async fn reconcile(&self, object: &Invalidation, pass: &mut Pass) -> Result<Progress, Error> {
        if object.metadata.deletion_timestamp.is_some() {
            return Ok(Progress::done());
        }
        let (ctx, now) = (&*self.ctx, self.ctx.now());
        let before = object.status.clone().unwrap_or_default();
        let ttl = object.spec.ttl_seconds_after_finished;
        let name = &*object.spec.tenant_ref.name;
        let standing = tenant::standing(ctx, pass.key(), name);
        let mut said = Said::new(&before, now);
        let ended = match plan::step(&before, ttl, (name, standing), now) {
            Step::Remove => {
                let kind = Kind::of::<Invalidation>();
                let (key, uid) = (pass.key(), pass.object().uid());
                ctx.applier.delete(&kind, key, uid).await?;
                return Ok(Progress::done());
            }
            Step::Rest(left) => {
                return Ok(Progress::Done {
                    recheck: Some(left),
                });
            }
            Step::GiveUp(why) => {
                said.ends(&why);
                Ended::After(POLL)
            }
            Step::Wait(why) => {
                said.waits(&why);
                Ended::After(slow(Duration::ZERO, fastrand::f64()))
            }
            Step::Create { tenant } => {
                let call = Call::Create { tenant: &tenant };
                self.ask(call, object, &mut said, pass).await
            }
            Step::Poll { tenant, id } => {
                let call = Call::Poll {
                    tenant: &tenant,
                    id: &id,
                };
                self.ask(call, object, &mut said, pass).await
            }
        };
        let (status, notes) = said.finished(object.metadata.generation);
        let written = pass.write_status(&status).await;
        for note in notes {
            pass.event(note);
        }
        written?;
        match ended {
            Ended::Failed(error) => Err(error.into()),
            Ended::After(after) => Ok(progress(&status, ttl, after)),
        }
    }

    fn gone(&self, key: &ObjectKey) {
        self.troubles.lock().remove(key);
        self.ctx.withdraw(Ours::Invalidation, key);
    }
}

/// When it is looked at next: one that has ended, when its time is over.
fn progress(status: &InvalidationStatus, ttl: i64, after: Duration) -> Progress {
    if status.finished_time.is_some() {
        let stays = u64::try_from(ttl).unwrap_or_default();
        return Progress::Done {
            recheck: Some(Duration::from_secs(stays)),
        };
    }
    let ready = find(&status.conditions, conditions::READY);
    let reason = ready.map_or_else(
        || Reason::new(reasons::WAITING, "it is to be asked for"),
        |ready| Reason::new(ready.reason.clone(), ready.message.clone()),
    );
    Progress::Waiting { reason, after }
}
