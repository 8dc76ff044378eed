//! Whose a tenant is, and its tags.

use std::collections::BTreeMap;
use std::time::Duration;

use api::tenants::{DistributionTenant, events, reasons};
use aws::cloudfront::CloudFront;
use aws::{Caller, Fault};
use engine::{Note, Pass, kill_point};
use kernel::{Marker, Reason};

use super::create::way;
use super::draft::{Draft, Question};
use super::ground::Ground;
use super::stop::{Stop, blocked, count, failed, moment};
use crate::body::Live;
use crate::ctx::Ctx;
use crate::failure::Missing;
use crate::tags::{self, Standing, Tags};

/// Ends the pass if the tenant is another's by now. Its tags are known afterwards.
pub(super) async fn owned(
    object: &DistributionTenant,
    ground: &Ground,
    live: &mut Live,
    asker: &Caller,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<(), Stop> {
    if live.tags.is_none() {
        let cloudfront = ctx.own().await.cloudfront(asker);
        match cloudfront.tags(&live.summary.arn).await {
            Ok(tags) => live.tags = Some(tags),
            // Without the right to read tags all else goes on: the id on record is proof.
            Err(error) if error.fault() == Fault::Denied => {
                count(&error, way(object, Missing::Distribution), ctx);
                draft.note(Note::warning(reasons::ACCESS_DENIED, error.to_string()));
                return Ok(());
            }
            Err(error) => {
                let on_way = way(object, Missing::Distribution);
                return Err(failed(error, on_way, draft, ctx, pass));
            }
        }
    }
    let known = live.tags.clone().unwrap_or_default();
    let whose = tags::whose(&known, &ground.marker);
    match tags::standing(whose, true, object.spec.adoption.as_ref()) {
        Standing::Ours => Ok(()),
        Standing::Adopt { .. } => {
            let cloudfront = ctx.own().await.cloudfront(asker);
            let marked = mark(&live.summary.arn, &ground.marker, &cloudfront).await;
            let on_way = way(object, Missing::Distribution);
            let marks = marked.map_err(|error| failed(error, on_way, draft, ctx, pass))?;
            live.tags.get_or_insert_default().extend(marks);
            draft.acted = true;
            draft.note(adopted(&ground.name, &live.summary.id));
            Ok(())
        }
        Standing::NotOwned(whose) => {
            let found = format!("tenant {} ({})", ground.name, live.summary.id);
            let reason = tags::not_owned(&found, &whose);
            let both = [Question::Ready, Question::Synced];
            Err(blocked(&reason, &both, draft, ctx, &ground.key))
        }
    }
}

/// Puts our marker on a tenant; gives its tags.
pub(super) async fn mark(
    arn: &str,
    marker: &Marker,
    cloudfront: &CloudFront,
) -> Result<Tags, aws::Error> {
    let marks = tags::at_creation(&Tags::new(), marker);
    kill_point("tenants-before-tags");
    let tagged = cloudfront.tag(arn, &marks).await;
    kill_point("tenants-after-tags");
    tagged.map(|()| marks)
}

/// Tells that a tenant was taken over.
pub(super) fn adopted(name: &str, id: &str) -> Note {
    let message = format!("tenant {name} ({id}) was there and is taken over");
    Note::normal(events::ADOPTED, message)
}

/// Writes the tags that differ; when to try again. That the marker may not be written is told and
/// holds nothing up; that the spec's tags may not, is not in sync.
pub(super) async fn tags(
    object: &DistributionTenant,
    ground: &Ground,
    live: &Live,
    asker: &Caller,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Option<Duration>, Stop> {
    let declared = &ground.declared.tags;
    let applied = draft.status.last_applied.as_ref();
    let last = applied.map(|body| body.tags.clone()).unwrap_or_default();
    let known = live.tags.as_ref();
    let changes = tags::changes(&last, known, declared, &ground.marker, ground.drift);
    if changes.is_empty() {
        remember(declared, draft);
        return Ok(None);
    }
    let held = ctx.memory.of(&ground.key).tags_trouble;
    if let Some(left) = held.holds_back(&moment(draft, ctx)) {
        if last != *declared {
            draft.restate(Question::Synced);
            draft.restate(Question::Ready);
        }
        return Ok(Some(left));
    }
    let cloudfront = ctx.own().await.cloudfront(asker);
    let arn = &live.summary.arn;
    let write = async || {
        kill_point("tenants-before-tags");
        if !changes.set.is_empty() {
            cloudfront.tag(arn, &changes.set).await?;
        }
        if !changes.remove.is_empty() {
            let keys: Vec<_> = changes.remove.iter().cloned().collect();
            cloudfront.untag(arn, &keys).await?;
        }
        kill_point("tenants-after-tags");
        Ok::<_, aws::Error>(())
    };
    let on_way = way(object, Missing::Distribution);
    match write().await {
        Ok(()) => {
            ctx.memory
                .note(&ground.key, |memory| memory.tags_trouble.over());
            draft.acted = true;
            remember(declared, draft);
            Ok(None)
        }
        Err(error) if error.fault() == Fault::Denied => {
            count(&error, on_way, ctx);
            let at = moment(draft, ctx);
            let wait = ctx.memory.note(&ground.key, |memory| {
                memory.tags_trouble.blocked(reasons::ACCESS_DENIED, &at)
            });
            if last == *declared {
                draft.note(Note::warning(reasons::ACCESS_DENIED, error.to_string()));
            } else {
                let reason = Reason::new(reasons::ACCESS_DENIED, error.to_string());
                draft.no(Question::Synced, reason.clone());
                draft.no(Question::Ready, reason);
            }
            Ok(Some(wait))
        }
        Err(error) => Err(failed(error, on_way, draft, ctx, pass)),
    }
}

fn remember(declared: &BTreeMap<String, String>, draft: &mut Draft) {
    if let Some(applied) = &mut draft.status.last_applied {
        applied.tags.clone_from(declared);
    }
}
