//! A tenant that is there although this object has none on record: its own, one to take over, or
//! another's.

use std::collections::BTreeSet;
use std::time::Duration;

use api::tenants::{AdoptBy, DistributionTenant, reasons};
use aws::cloudfront::{CloudFront, Holder, Tenant};
use aws::{Asker, Fault};
use engine::Pass;
use kernel::Reason;

use super::create::way;
use super::draft::{Draft, Question};
use super::ground::Ground;
use super::stop::{Stop, blocked, count, failed};
use super::{facts, gone, mark};
use crate::body::Live;
use crate::ctx::Ctx;
use crate::failure::Missing;
use crate::tags::{self, Standing, Tags, Whose};

/// Create did not succeed, or nobody knows whether it did: what is there under the name tells.
pub(super) async fn not_made(
    object: &DistributionTenant,
    ground: &Ground,
    error: aws::Error,
    asker: &Asker,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Option<Duration>, Stop> {
    let cloudfront = ctx.own().await.cloudfront(asker);
    let on_way = way(object, Missing::Distribution);
    let is_lost = error.may_have_happened();
    if is_lost {
        ctx.memory.note(&ground.key, |memory| {
            memory.answered = false;
            memory.asked = Some(ctx.deck.clock.elapsed());
        });
    }
    if is_lost || matches!(error.fault(), Fault::NameTaken | Fault::DomainTaken) {
        let there = named(&ground.name, &cloudfront).await;
        let there = there.map_err(|error| failed(error, on_way, draft, ctx, pass))?;
        let whose = there.as_ref();
        let whose = whose.map(|(_, tags)| tags::whose(tags, &ground.marker));
        let adoption = object.spec.adoption.as_ref();
        let by_name = adoption.is_some_and(|one| one.by == AdoptBy::Name);
        if let Some((found, _)) = there
            && (by_name || whose == Some(Whose::Ours))
        {
            count(&error, on_way, ctx);
            return take_over(object, ground, found, asker, ctx, draft, pass).await;
        }
        if !is_lost && let Some(wait) = may_be_ours(whose.as_ref(), ground, ctx, draft) {
            return Err(Stop::Told(wait));
        }
        if let (Fault::NameTaken, Some(whose)) = (error.fault(), &whose) {
            count(&error, on_way, ctx);
            return Err(foreign(&ground.name, whose, ground, draft, ctx));
        }
    }
    if error.fault() == Fault::DomainTaken {
        return Err(domain_taken(object, ground, &error, &cloudfront, ctx, draft, pass).await);
    }
    let missing = missing(ground, &error, asker, ctx).await;
    Err(failed(error, way(object, missing), draft, ctx, pass))
}

/// What has the name, and its tags.
async fn named(name: &str, cloudfront: &CloudFront) -> Result<Option<(Tenant, Tags)>, aws::Error> {
    match cloudfront.tenant(name).await {
        Ok(found) => {
            let tags = tags_of(&found, cloudfront).await?;
            Ok(Some((found, tags)))
        }
        Err(error) if error.fault() == Fault::EntityMissing => Ok(None),
        Err(error) => Err(error),
    }
}

/// How long to wait, if what stands in the way may be our own and is not to be seen as such yet: a
/// Create of ours went without an answer.
fn may_be_ours(
    whose: Option<&Whose>,
    ground: &Ground,
    ctx: &Ctx,
    draft: &Draft,
) -> Option<Duration> {
    let is_plain = match whose {
        None | Some(Whose::Unmarked) => true,
        Some(Whose::Ours | Whose::Other(_)) => false,
    };
    let answered = ctx.memory.of(&ground.key).answered;
    let wait = gone::youth(&ground.key, ctx, draft).min(gone::APART);
    Some(wait).filter(|wait| is_plain && !answered && !wait.is_zero())
}

/// What an `EntityNotFound` of a write is about.
pub(super) async fn missing(
    ground: &Ground,
    error: &aws::Error,
    asker: &Asker,
    ctx: &Ctx,
) -> Missing {
    let (Fault::EntityMissing, Some(id)) = (
        error.fault(),
        ground.declared.connection_group_id.as_deref(),
    ) else {
        return Missing::Distribution;
    };
    ctx.outside.forget_group(id);
    match ctx.outside.group(ctx.own().await, asker, id).await {
        Err(error) if error.fault() == Fault::EntityMissing => Missing::Group,
        Ok(_) | Err(_) => Missing::Distribution,
    }
}

/// Says who has the domain, as far as CloudFront tells; once per generation.
async fn domain_taken(
    object: &DistributionTenant,
    ground: &Ground,
    error: &aws::Error,
    cloudfront: &CloudFront,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Stop {
    let stop = failed(
        error.clone(),
        way(object, Missing::Distribution),
        draft,
        ctx,
        pass,
    );
    let asked = ctx.memory.note(&ground.key, |memory| {
        let asked = memory.asked_holder == ground.generation;
        memory.asked_holder = ground.generation;
        asked
    });
    if asked {
        // What was found out then stands in the message.
        draft.keep_message(Question::Ready, &error.to_string());
        draft.keep_message(Question::Synced, &error.to_string());
        return stop;
    }
    let mut holders = BTreeSet::new();
    let of = Holder::Distribution(&ground.declared.distribution_id);
    for domain in ground.declared.domains.iter().take(5) {
        if let Ok(found) = cloudfront.domain_conflicts(domain, of, None).await {
            let told = found.items.into_iter().map(|one| {
                format!(
                    "{} is at {} {} of account {}",
                    one.domain, one.resource_type, one.resource_id, one.account_id
                )
            });
            holders.extend(told);
        }
    }
    if !holders.is_empty() {
        let told: Vec<_> = holders.into_iter().collect();
        let message = format!("{error}; {}", told.join(", "));
        let reason = Reason::new(reasons::DOMAIN_CONFLICT, message);
        draft.no(Question::Ready, reason.clone());
        draft.no(Question::Synced, reason);
    }
    stop
}

fn foreign(name: &str, whose: &Whose, ground: &Ground, draft: &mut Draft, ctx: &Ctx) -> Stop {
    let reason = tags::not_owned(&format!("tenant {name}"), whose);
    let both = [Question::Ready, Question::Synced];
    blocked(&reason, &both, draft, ctx, &ground.key)
}

pub(super) async fn tags_of(found: &Tenant, cloudfront: &CloudFront) -> Result<Tags, aws::Error> {
    match &found.tags {
        Some(tags) => Ok(tags.clone()),
        None => cloudfront.tags(&found.arn).await,
    }
}

/// Makes what was found ours, if it may be: its marker first, then its id into the status. What
/// the spec says otherwise is the next pass's.
pub(super) async fn take_over(
    object: &DistributionTenant,
    ground: &Ground,
    found: Tenant,
    asker: &Asker,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Option<Duration>, Stop> {
    let cloudfront = ctx.own().await.cloudfront(asker);
    let on_way = way(object, Missing::Distribution);
    let tags = tags_of(&found, &cloudfront).await;
    let tags = tags.map_err(|error| failed(error, on_way, draft, ctx, pass))?;
    let whose = tags::whose(&tags, &ground.marker);
    match tags::standing(whose.clone(), false, object.spec.adoption.as_ref()) {
        Standing::NotOwned(whose) => {
            return Err(foreign(&found.name, &whose, ground, draft, ctx));
        }
        Standing::Ours if whose == Whose::Ours => {}
        Standing::Ours | Standing::Adopt { .. } => {
            let marked = mark::mark(&found.arn, &ground.marker, &cloudfront).await;
            marked.map_err(|error| failed(error, on_way, draft, ctx, pass))?;
        }
    }
    if ground.declared.managed_certificate_request.is_some() {
        // Whether CloudFront has the request already, so that it is not sent twice.
        match cloudfront.managed_certificate(&found.id).await {
            Ok(details) => draft.status.managed_certificate_status = Some(details.status),
            Err(error) if error.fault() == Fault::EntityMissing => {}
            Err(error) => return Err(failed(error, on_way, draft, ctx, pass)),
        }
    }
    let live = Live::from(found);
    facts::note(&mut draft.status, &live.summary);
    let id = &live.summary.id;
    draft.note(mark::adopted(&ground.name, id));
    draft.acted = true;
    let message = format!("{id} was there and is taken over");
    draft.no(Question::Ready, Reason::new(reasons::CREATING, message));
    Err(Stop::Again)
}
