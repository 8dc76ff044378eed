//! One pass over a ConnectionGroup: gather, plan, apply, status.
//!
//! A group that is well costs no call of its own: one list tells all of them, at intervals, whether
//! they still are. Nothing is made before that was announced, so that a crash or a lost answer
//! leaves no group that nobody knows: it is found by its name, and its marker tells whose it is.

mod apply;
mod cloud;
mod diff;
mod draft;
mod gather;
mod ineffective;
mod memory;
mod plan;
mod removal;
#[cfg(test)]
mod tests;
mod users;
mod verdict;

use std::sync::Arc;
use std::time::Duration;

use api::tenants::{ConnectionGroup, ConnectionGroupStatus, conditions, names, reasons};
use aws::{Fault, Priority};
use engine::{ControllerSpec, Pass, Reconcile};
use kernel::{ObjectKey, Progress, Reason, find};

use crate::ctx::{Ctx, NotYet, Ours};
use crate::failure::{Way, counted, failure, slow};
use crate::told::Told;
use crate::trouble::Error;
use apply::Life;
use cloud::{Cloud, Listing, OnAws};
use draft::{Draft, Ended, is_ready};
use gather::{Facts, Look};
use memory::{Memories, Memory};
use plan::First;
use removal::Removal;
pub(crate) use users::{is_default, referring};

/// How often a pass looks again after CloudFront said that its view was old.
const REREADS: u32 = 3;

/// How long one pass may take: a call may take half a minute, and there are a few.
const DEADLINE: Duration = Duration::from_secs(5 * 60);

/// The controller of connection groups, and what wakes them.
pub(crate) fn controller(ctx: &Arc<Ctx>) -> ControllerSpec {
    let caches = &ctx.caches;
    ControllerSpec::new(caches.groups.key().clone(), Groups::new(Arc::clone(ctx)))
        .deadline(DEADLINE)
        .follow(
            caches.tenants.key().clone(),
            users::groups_of_tenant(caches),
        )
}

/// Passes over connection groups.
struct Groups {
    ctx: Arc<Ctx>,
    memories: Memories,
    listing: Told<(), Listing>,
}

impl Groups {
    fn new(ctx: Arc<Ctx>) -> Self {
        users::index(&ctx);
        Self {
            listing: Told::new(ctx.deck.clock.clone()),
            memories: Memories::default(),
            ctx,
        }
    }

    /// Asks CloudFront when it is the group's turn.
    async fn ask(
        &self,
        look: Look,
        facts: &Facts,
        memory: &mut Memory,
        draft: &mut Draft,
        pass: &mut Pass,
    ) -> Ended {
        let priority = match look {
            Look::Itself(priority) => priority,
            Look::Listed | Look::Later(_) => Priority::Sweep,
        };
        let asker = match self.ctx.admit(Ours::Group, pass, priority).await {
            Ok(asker) => asker,
            Err(NotYet { after }) => return Ended::After(after),
        };
        self.memories.doubt(pass.key(), memory);
        let mut cloud = OnAws::new(&self.ctx, &self.listing, &asker, pass).await;
        asked(look, facts, memory, draft, &mut cloud).await
    }
}

impl Reconcile for Groups {
    type Object = ConnectionGroup;
    type Error = Error;

    async fn reconcile(&self, group: &ConnectionGroup, pass: &mut Pass) -> Result<Progress, Error> {
        let facts = gather::facts(group, &self.ctx, pass);
        let mut memory = self.memories.of(pass.key());
        let mut draft = Draft::new(&facts.status);
        if facts.asked {
            memory.trouble.forgive(); // a person who asks is answered at once
        }
        let ended = match plan::first(&facts, &memory) {
            First::Nothing => return Ok(Progress::done()),
            First::Hold => {
                let recorded = pass.ensure_finalizer(names::FINALIZER).await;
                return recorded.map(|_| Progress::Again).map_err(Error::from);
            }
            First::Announce => {
                apply::announce(&mut draft, &mut memory, &facts);
                Ended::Again
            }
            First::Wait(after) => Ended::After(after),
            First::InUse => {
                draft.not_ready(verdict::in_use(&facts));
                Ended::After(slow(Duration::ZERO, facts.random))
            }
            First::Release(note) => Ended::Released(note),
            First::Look(look) => self.ask(look, &facts, &mut memory, &mut draft, pass).await,
        };
        let ended = users::counted(&facts, &mut memory, &mut draft, ended);
        self.memories.put(pass.key(), memory);
        finish(draft, ended, &facts, &self.ctx, pass).await
    }

    fn gone(&self, key: &ObjectKey) {
        self.memories.forget(key);
        self.ctx.withdraw(Ours::Group, key);
    }
}

/// Asks CloudFront, and again where its view was old: at most three times a pass.
async fn asked<C: Cloud>(
    mut look: Look,
    facts: &Facts,
    memory: &mut Memory,
    draft: &mut Draft,
    cloud: &mut C,
) -> Ended {
    let mut rereads = 0;
    loop {
        let ended = if facts.deleting {
            let mut removal = Removal {
                facts,
                memory: &mut *memory,
                draft: &mut *draft,
                cloud: &mut *cloud,
            };
            removal.run(look).await
        } else {
            let mut life = Life {
                facts,
                memory: &mut *memory,
                draft: &mut *draft,
                cloud: &mut *cloud,
            };
            life.run(look).await
        };
        match ended {
            Ok(ended) => return ended,
            Err(error) if error.fault() == Fault::Stale && rereads < REREADS => {
                rereads += 1;
                look = Look::Itself(Priority::Edit);
            }
            Err(error) => return failed(error, facts, memory, draft),
        }
    }
}

/// Says what an error means, and when it is tried again.
fn failed(error: aws::Error, facts: &Facts, memory: &mut Memory, draft: &mut Draft) -> Ended {
    memory.doubted = true;
    let failure = failure(error.fault(), Way::Group);
    draft.count(counted(&error, Way::Group));
    let met = memory.trouble.met(&failure, &facts.moment());
    let message = if facts.deleting {
        format!("{} cannot be deleted yet: {error}", facts.called())
    } else {
        error.to_string()
    };
    draft.say(met.says, &message);
    match met.after {
        Some(after) => Ended::After(after),
        None => Ended::Failed(error),
    }
}

/// Every way out of a pass meets here: one status patch, sent only if it differs.
async fn finish(
    mut draft: Draft,
    ended: Ended,
    facts: &Facts,
    ctx: &Ctx,
    pass: &mut Pass,
) -> Result<Progress, Error> {
    for error_type in draft.counted.drain(..) {
        ctx.metrics.failed(error_type);
    }
    if draft.drifted {
        ctx.metrics.drifted();
    }
    let (status, notes) = draft.finished(facts.generation, facts.now);
    let written = match &ended {
        Ended::Again => pass.write_intent(&status).await.map(drop),
        Ended::After(_) | Ended::Failed(_) => pass.write_status(&status).await.map(drop),
        Ended::Released(_) => pass.drop_finalizer(names::FINALIZER).await,
    };
    // What happened in CloudFront is told, also where it could not be recorded.
    for note in notes {
        pass.event(note);
    }
    written?;
    match ended {
        Ended::Again => Ok(Progress::Again),
        Ended::After(after) if is_ready(&status) => Ok(Progress::Done {
            recheck: Some(after),
        }),
        Ended::After(after) => Ok(Progress::Waiting {
            reason: outcome(&status),
            after,
        }),
        Ended::Released(note) => {
            pass.event(note);
            Ok(Progress::done())
        }
        Ended::Failed(error) => Err(error.into()),
    }
}

/// Why it is not ready, for logs.
fn outcome(status: &ConnectionGroupStatus) -> Reason {
    let ready = find(&status.conditions, conditions::READY);
    ready.map_or_else(
        || Reason::new(reasons::CREATING, "it is to be made"),
        |ready| Reason::new(ready.reason.clone(), ready.message.clone()),
    )
}
