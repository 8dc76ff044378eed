//! A tenant that is there although this object has none on record: its own, one to take over, or
//! another's.

use std::collections::BTreeSet;
use std::time::Duration;

use api::tenants::{AdoptBy, DistributionTenant, reasons};
use aws::cloudfront::{CloudFront, Holder, Tenant};
use aws::{Caller, Fault};
use engine::Pass;
use kernel::Reason;

use super::create::way;
use super::draft::{Draft, Question};
use super::ground::Ground;
use super::stop::{Stop, blocked, count, ended, failed};
use super::{facts, gone, mark};
use crate::body::Live;
use crate::ctx::Ctx;
use crate::failure::{Missing, Way};
use crate::tags::{self, Standing, Tags, Whose};

/// Create did not succeed, or nobody knows whether it did: what is there under the name tells.
pub(super) async fn not_made(
    object: &DistributionTenant,
    ground: &Ground,
    error: aws::Error,
    asker: &Caller,
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
    if !is_lost && !matches!(error.fault(), Fault::NameTaken | Fault::DomainTaken) {
        let group = ground.declared.connection_group_id.as_deref();
        let missing = missing(group, &error, asker, ctx).await;
        return Err(failed(error, way(object, missing), draft, ctx, pass));
    }
    count(&error, on_way, ctx);
    let there = named(&ground.name, &cloudfront).await;
    let there = there.map_err(|error| failed(error, on_way, draft, ctx, pass))?;
    let whose = there.as_ref();
    let whose = whose.map(|(_, tags)| tags::whose(tags, &ground.marker));
    let adoption = object.spec.adoption.as_ref();
    let by_name = adoption.is_some_and(|one| one.by == AdoptBy::Name);
    if let Some((found, _)) = there
        && (by_name || whose == Some(Whose::Ours))
    {
        return take_over(object, ground, found, asker, ctx, draft, pass).await;
    }
    if is_lost {
        return Err(ended(error, on_way, draft, ctx, pass));
    }
    if let Some(wait) = may_be_ours(whose.as_ref(), ground, ctx, draft) {
        ctx.memory
            .note(&ground.key, |memory| memory.refused = Some(error));
        return Err(Stop::Told(wait));
    }
    Err(refused(object, ground, (error, whose), asker, ctx, draft, pass).await)
}

/// Whether a Create may have been sent whose answer nobody saw.
pub(super) fn is_unanswered(ground: &Ground, ctx: &Ctx, draft: &Draft) -> bool {
    let answered = ctx.memory.of(&ground.key).answered;
    draft.status.create_requested_at.is_some() && !answered
}

/// Looks for what a Create made that nobody saw answered, before another is sent.
pub(super) async fn unanswered(
    object: &DistributionTenant,
    ground: &Ground,
    asker: &Caller,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Option<Tenant>, Stop> {
    if !is_unanswered(ground, ctx, draft) {
        return Ok(None);
    }
    let cloudfront = ctx.own().await.cloudfront(asker);
    let there = named(&ground.name, &cloudfront).await;
    let on_way = way(object, Missing::Distribution);
    let there = there.map_err(|error| failed(error, on_way, draft, ctx, pass))?;
    let whose = there.as_ref();
    let whose = whose.map(|(_, tags)| tags::whose(tags, &ground.marker));
    if let Some((found, _)) = there
        && whose == Some(Whose::Ours)
    {
        return Ok(Some(found));
    }
    let Some(error) = ctx.memory.of(&ground.key).refused else {
        return Ok(None);
    };
    match may_be_ours(whose.as_ref(), ground, ctx, draft) {
        Some(wait) => Err(Stop::Told(wait)),
        None => Err(refused(object, ground, (error, whose), asker, ctx, draft, pass).await),
    }
}

/// Another has the name or a domain. The refusal was counted when it came.
async fn refused(
    object: &DistributionTenant,
    ground: &Ground,
    (error, whose): (aws::Error, Option<Whose>),
    asker: &Caller,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Stop {
    ctx.memory.note(&ground.key, |memory| {
        memory.answered = true;
        memory.refused = None;
    });
    if error.fault() == Fault::DomainTaken {
        return domain_taken(object, ground, &error, asker, ctx, draft, pass).await;
    }
    match whose {
        Some(whose) => foreign(&ground.name, &whose, ground, draft, ctx),
        None => ended(error, way(object, Missing::Distribution), draft, ctx, pass),
    }
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
    group: Option<&str>,
    error: &aws::Error,
    asker: &Caller,
    ctx: &Ctx,
) -> Missing {
    let (Fault::EntityMissing, Some(id)) = (error.fault(), group) else {
        return Missing::Distribution;
    };
    ctx.outside.forget_group(id);
    match ctx.outside.group(ctx.own().await, asker, id).await {
        Err(error) if error.fault() == Fault::EntityMissing => Missing::Group,
        Err(error) => {
            count(&error, Way::Group, ctx);
            Missing::Distribution
        }
        Ok(_) => Missing::Distribution,
    }
}

/// Says who has the domain, as far as CloudFront tells; once per generation.
async fn domain_taken(
    object: &DistributionTenant,
    ground: &Ground,
    error: &aws::Error,
    asker: &Caller,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Stop {
    let stop = ended(
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
    let cloudfront = ctx.own().await.cloudfront(asker);
    for domain in ground.declared.domains.iter().take(5) {
        let found = cloudfront.domain_conflicts(domain, of, None).await;
        if let Err(error) = &found {
            count(error, way(object, Missing::Distribution), ctx);
        }
        if let Ok(found) = found {
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
    asker: &Caller,
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
