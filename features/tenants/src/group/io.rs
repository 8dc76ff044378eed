//! The reads and writes of connection groups. This file decides nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws::cloudfront::{CloudFront, Group};
use aws::{Error, Operation, Priority};
use engine::{CallContext, Ended, KindIo, Object};
use kernel::{CallError, Class, Marker, ObjectKey, spread};
use parking_lot::Mutex;

use super::plan::SPREAD;
use super::users::{self, users};
use super::{Answer, CreateIntent, Facts, GroupCore, Listing, Read, Step, World, declared, status};
use crate::ctx::{Ctx, NotYet, Ours};
use crate::told::Told;

/// The largest number of pages of a list.
const MAX_PAGES: usize = 1000;

/// Reads and writes for connection groups.
pub(super) struct Groups {
    ctx: Arc<Ctx>,
    listing: Told<(), Listing>,
    /// The permit of each pass that has made a call, with the id of the pass.
    permits: Mutex<HashMap<ObjectKey, (String, aws::Caller)>>,
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

    /// The permit to call CloudFront. The first call of a pass waits for it, and later calls reuse it.
    async fn permit(
        &self,
        priority: Priority,
        context: &CallContext<'_>,
    ) -> Result<aws::Caller, CallError> {
        let stored = self.permits.lock().get(context.key).cloned();
        if let Some((pass, permit)) = stored
            && pass == context.pass_id
        {
            return Ok(permit);
        }
        // All calls for groups share one limit, so any of them stands for the others.
        let operation = Operation::GetConnectionGroup;
        let admitted = self
            .ctx
            .admit_key(operation, Ours::Group, context.key, priority);
        admitted.await.map_err(|NotYet { after }| {
            let message = "the rate of AWS calls is limited, and other objects come first";
            CallError::new(Class::Throttled, message).retry_after(after)
        })
    }

    /// Stores the permit until the pass ends. Call it after a call, so that a dropped pass leaves no permit.
    fn store_permit(&self, context: &CallContext<'_>, permit: aws::Caller) {
        let mut permits = self.permits.lock();
        permits.insert(context.key.clone(), (context.pass_id.to_owned(), permit));
    }

    async fn list(&self, cloudfront: &CloudFront) -> Result<Arc<Listing>, Error> {
        // Less than the shortest interval: the first caller after that time reads a new list, and
        // concurrent callers share it.
        let max_age = self.ctx.settings.sweep.mul_f64(1.0 - 1.5 * SPREAD);
        let listing = self
            .listing
            .get((), max_age, || listed(&self.ctx, cloudfront));
        Box::pin(listing).await
    }
}

async fn listed(ctx: &Ctx, cloudfront: &CloudFront) -> Result<Listing, Error> {
    let at = ctx.deck.clock.elapsed();
    let (mut groups, mut marker) = (Vec::new(), None::<String>);
    for _ in 0..MAX_PAGES {
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

    async fn read(&self, read: &Read, context: &CallContext<'_>) -> Result<Answer, CallError> {
        let priority = match read {
            Read::ById(_, priority) | Read::ByName(_, priority) => *priority,
            Read::List | Read::Tags(_) => Priority::Sweep,
        };
        let permit = self.permit(priority, context).await?;
        let cloudfront = self.ctx.own().await.cloudfront(&permit);
        let answer = match read {
            Read::List => self.list(&cloudfront).await.map(Answer::Listing),
            Read::ById(named, _) | Read::ByName(named, _) => {
                let group = Box::pin(cloudfront.group(named)).await;
                group.map(|group| Answer::Group(Box::new(group)))
            }
            Read::Tags(arn) => Box::pin(cloudfront.tags(arn)).await.map(Answer::Tags),
        };
        self.store_permit(context, permit);
        answer.map_err(|error| CallError::from(&error))
    }

    async fn apply(
        &self,
        step: &Step,
        context: &CallContext<'_>,
    ) -> Result<Option<Group>, CallError> {
        let permit = self.permit(Priority::Edit, context).await?;
        let cloudfront = self.ctx.own().await.cloudfront(&permit);
        let none = |()| None;
        let outcome = match step {
            Step::Create {
                name, tags, body, ..
            } => {
                let created = Box::pin(cloudfront.create_group(name, tags, body)).await;
                created.map(Some)
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
        self.store_permit(context, permit);
        // Other kinds have cached the group; drop that copy.
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
