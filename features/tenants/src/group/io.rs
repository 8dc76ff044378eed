//! The reads and writes of connection groups. Nothing is decided here.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws::cloudfront::{CloudFront, Group};
use aws::{Asker, Error, Operation, Priority};
use engine::{Caller, Ended, KindIo, Object};
use kernel::{CallError, Class, Marker, ObjectKey, spread};
use parking_lot::Mutex;

use super::plan::SPREAD;
use super::users::{self, users};
use super::{Answer, CreateIntent, Facts, GroupCore, Listing, Read, Step, World, declared, status};
use crate::ctx::{Ctx, NotYet, Ours};
use crate::told::Told;

/// A list has an end; one that does not is cut here.
const PAGES: usize = 1000;

/// Reads and writes for connection groups.
pub(super) struct Groups {
    ctx: Arc<Ctx>,
    listing: Told<(), Listing>,
    /// The permit of each pass that has made a call, with the id of the pass.
    permits: Mutex<HashMap<ObjectKey, (String, Asker)>>,
}

impl Groups {
    pub(super) fn new(ctx: Arc<Ctx>) -> Self {
        users::index(&ctx);
        Self {
            listing: Told::new(ctx.deck.clock.clone()),
            permits: Mutex::default(),
            ctx,
        }
    }

    /// Leave to call CloudFront: the first call of a pass gets it, and later ones go along with it.
    async fn permit(&self, priority: Priority, caller: &Caller<'_>) -> Result<Asker, CallError> {
        let held = self.permits.lock().get(caller.key).cloned();
        if let Some((pass, asker)) = held
            && pass == caller.pass_id
        {
            return Ok(asker);
        }
        // Any call: all that groups need share a limit.
        let any = Operation::GetConnectionGroup;
        let admitted = self.ctx.admit_key(any, Ours::Group, caller.key, priority);
        admitted.await.map_err(|NotYet { after }| {
            let message = "calls to AWS are limited, and others come first";
            CallError::new(Class::Throttled, message).retry_after(after)
        })
    }

    /// Keeps the permit until the pass ends. Only after a call: a pass that is dropped leaves none unused.
    fn keep_permit(&self, caller: &Caller<'_>, asker: Asker) {
        let mut permits = self.permits.lock();
        permits.insert(caller.key.clone(), (caller.pass_id.to_owned(), asker));
    }

    async fn list(&self, cloudfront: &CloudFront) -> Result<Arc<Listing>, Error> {
        // Less than the shortest interval: the first caller after the next list is due reads it, and
        // concurrent callers share it.
        let longest = self.ctx.settings.sweep.mul_f64(1.0 - 1.5 * SPREAD);
        let listing = self
            .listing
            .get((), longest, || listed(&self.ctx, cloudfront));
        Box::pin(listing).await
    }
}

async fn listed(ctx: &Ctx, cloudfront: &CloudFront) -> Result<Listing, Error> {
    let at = ctx.deck.clock.elapsed();
    let (mut groups, mut marker) = (Vec::new(), None::<String>);
    for _ in 0..PAGES {
        let page = cloudfront.groups(marker.as_deref()).await?;
        groups.extend(page.items);
        marker = page.next;
        if marker.is_none() {
            break;
        }
    }
    let interval = spread(ctx.settings.sweep, SPREAD, fastrand::f64());
    Ok(Listing {
        at,
        until: at.saturating_add(interval),
        groups,
    })
}

impl KindIo for Groups {
    type Core = GroupCore;

    fn core(&self) -> &GroupCore {
        &GroupCore
    }

    fn gather(&self, object: &Object<GroupCore>) -> Facts {
        let (ctx, spec, name) = (&*self.ctx, &object.resource.spec, &*object.key.name);
        let id = object.status.id.as_deref();
        Facts {
            name: spec.group_name.clone().unwrap_or_else(|| name.to_owned()),
            marker: Marker::new(&ctx.deck.cluster, &ObjectKey::cluster(name)),
            declared: declared(spec),
            policy: spec.drift_policy.unwrap_or(ctx.settings.drift),
            users: users(ctx, name, id),
            sweep: ctx.settings.sweep,
        }
    }

    async fn read(&self, read: &Read, caller: &Caller<'_>) -> Result<Answer, CallError> {
        let priority = match read {
            Read::ById(_, priority) | Read::ByName(_, priority) => *priority,
            Read::List | Read::Tags(_) => Priority::Sweep,
        };
        let asker = self.permit(priority, caller).await?;
        let cloudfront = self.ctx.own().await.cloudfront(&asker);
        let answer = match read {
            Read::List => self.list(&cloudfront).await.map(Answer::Listing),
            Read::ById(named, _) | Read::ByName(named, _) => {
                let group = Box::pin(cloudfront.group(named)).await;
                group.map(|group| Answer::Group(Box::new(group)))
            }
            Read::Tags(arn) => Box::pin(cloudfront.tags(arn)).await.map(Answer::Tags),
        };
        self.keep_permit(caller, asker);
        answer.map_err(|error| CallError::from(&error))
    }

    async fn apply(&self, step: &Step, caller: &Caller<'_>) -> Result<Option<Group>, CallError> {
        let asker = self.permit(Priority::Edit, caller).await?;
        let cloudfront = self.ctx.own().await.cloudfront(&asker);
        let none = |()| None;
        let outcome = match step {
            Step::Create {
                name, tags, body, ..
            } => {
                let made = Box::pin(cloudfront.create_group(name, tags, body)).await;
                made.map(Some)
            }
            Step::Mark { arn, tags, .. } | Step::Tag { arn, tags } => {
                Box::pin(cloudfront.tag(arn, tags)).await.map(none)
            }
            Step::Untag { arn, keys } => Box::pin(cloudfront.untag(arn, keys)).await.map(none),
            Step::Update {
                id, etag, update, ..
            } => {
                let updated = cloudfront.update_group(id, etag, &update.body);
                Box::pin(updated).await.map(Some)
            }
            Step::Disable { id, etag, body } => {
                let disabled = cloudfront.update_group(id, etag, body);
                Box::pin(disabled).await.map(Some)
            }
            Step::Delete { id, etag } => {
                Box::pin(cloudfront.delete_group(id, etag)).await.map(none)
            }
        };
        self.keep_permit(caller, asker);
        // What look-ups have cached of it is outdated.
        match step {
            Step::Update { id, .. } | Step::Disable { id, .. } | Step::Delete { id, .. } => {
                self.ctx.outside.forget_group(id);
            }
            Step::Create { .. } => {
                if let Ok(Some(group)) = &outcome {
                    self.ctx.outside.forget_group(&group.id);
                }
            }
            Step::Mark { .. } | Step::Tag { .. } | Step::Untag { .. } => {}
        }
        outcome.map_err(|error| CallError::from(&error))
    }

    fn count(&self, world: &World, _ended: &Ended<CreateIntent>, _took: Duration) {
        self.permits.lock().remove(&world.object.key);
        if let Some(error_type) = status::counted(world) {
            self.ctx.metrics.failed(error_type);
        }
        if status::has_new_drift(world) {
            self.ctx.metrics.drifted();
        }
    }

    fn gone(&self, key: &ObjectKey) {
        self.permits.lock().remove(key);
        self.ctx.withdraw(Ours::Group, key);
    }
}
