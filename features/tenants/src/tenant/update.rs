//! The Update of a tenant: checked, its records first, sent once, and what came of it.

use std::collections::BTreeSet;
use std::time::Duration;

use api::tenants::{events, reasons};
use aws::Fault;
use engine::{Note, Pass, kill_point};
use kernel::Reason;

use super::create::{PROGRESS, way};
use super::draft::{Draft, Question};
use super::ground::Ground;
use super::keep::Look;
use super::live_records::served;
use super::stop::{Stop, count, failed, moment};
use super::validate::{Candidate, validate};
use super::{dns, facts, say, target};
use crate::body::Live;
use crate::certificate;
use crate::ctx::Ctx;
use crate::diff::{self, Cause, Ineffective, Last, Plan, Update};
use crate::failure::Missing;
use crate::live::sent;
use crate::memory::{Accepted, Unheard};

/// What became of the Update that a plan asks for.
pub(super) enum Sent {
    /// None was due.
    Nothing,
    /// CloudFront took it; this is how it is now.
    Accepted(Box<Live>),
    /// The same had no effect a while ago.
    HeldBack(Box<Ineffective>),
    /// Others' changes were undone just now: once a sweep is enough.
    Later(Duration),
    /// Records come first.
    Waits(Duration),
    /// It changed meanwhile, or nobody knows what became of the write.
    Unknown(aws::Error),
}

/// Sends the Update that `plan` asks for, if its time has come.
pub(super) async fn update(
    look: &Look<'_>,
    plan: &Plan,
    last: &Last,
    live: &Live,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &mut Pass,
) -> Result<Sent, Stop> {
    let Look {
        object,
        ground,
        asker,
        ..
    } = *look;
    let Some(update) = &plan.update else {
        return Ok(Sent::Nothing);
    };
    let known = ctx.memory.of(&ground.key).ineffective;
    if let Some(known) = known
        && update.request.is_none()
        && known.holds_back(&update.body, ctx.now())
    {
        return Ok(Sent::HeldBack(known));
    }
    if let Some(left) = corrected_just_now(update, ground, ctx) {
        return Ok(Sent::Later(left));
    }
    if plan.changes.iter().any(diff::FieldChange::is_edit) {
        let candidate = Candidate {
            desired: &update.body,
            last: Some(&last.body),
        };
        validate(object, ground, &candidate, asker, ctx, draft, pass).await?;
        let there = live.body().domains;
        let added: BTreeSet<_> = update.body.domains.difference(&there).cloned().collect();
        if let Some(wait) = added_records(look, &added, live, ctx, draft, pass).await? {
            return Ok(Sent::Waits(wait));
        }
    }
    send(look, update, live, plan, ctx, draft, pass).await
}

/// How long to wait, if others change it as fast as we change it back.
fn corrected_just_now(update: &Update, ground: &Ground, ctx: &Ctx) -> Option<Duration> {
    let corrected = ctx.memory.of(&ground.key).corrected?;
    let next = corrected + ctx.settings.sweep;
    let left = next.saturating_sub(ctx.deck.clock.elapsed());
    (update.cause == Cause::Drift && !left.is_zero()).then_some(left)
}

/// Records of added names come first: when to look again, if they are not there yet.
async fn added_records(
    look: &Look<'_>,
    added: &BTreeSet<String>,
    live: &Live,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &mut Pass,
) -> Result<Option<Duration>, Stop> {
    let Look {
        object,
        ground,
        asker,
        ..
    } = *look;
    if added.is_empty() || dns::route53(object).is_none() {
        return Ok(None);
    }
    let trouble = ctx.memory.of(&ground.key).dns_trouble;
    if let Some(left) = trouble.holds_back(&moment(draft, ctx)) {
        return Ok(Some(left));
    }
    draft.held_up = true;
    let target = target::target(ground, asker, ctx, draft, pass).await?;
    let served = served(live);
    let course = dns::Course {
        target: target.as_ref(),
        only: Some(added), // the others follow once CloudFront has taken the change
    };
    let reached = dns::advance(object, ground, course, &served, ctx, draft, pass).await?;
    if reached.again {
        return Err(Stop::Again);
    }
    if added.is_subset(&reached.insync) {
        draft.held_up = false;
        return Ok(None);
    }
    let message = "the change waits for the DNS records of added domains";
    draft.no_yet(Question::Ready, Reason::new(reasons::DEPLOYING, message));
    Ok(Some(reached.wait.unwrap_or(PROGRESS)))
}

async fn send(
    look: &Look<'_>,
    update: &Update,
    live: &Live,
    plan: &Plan,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Sent, Stop> {
    let Look {
        object,
        ground,
        asker,
        ..
    } = *look;
    let on_way = way(object, Missing::Distribution);
    let cloudfront = ctx.own().await.cloudfront(asker);
    let (id, etag) = (&live.summary.id, &live.summary.etag);
    let body = sent(&update.body, update.request.as_ref());
    ctx.memory.note(&ground.key, |memory| memory.unheard = None);
    kill_point("tenants-before-update");
    let answer = cloudfront.update_tenant(id, etag, &body).await;
    kill_point("tenants-after-update");
    let now = match answer {
        Ok(tenant) => Live::from(tenant),
        Err(error) if error.may_have_happened() => {
            count(&error, on_way, ctx);
            ctx.memory.note(&ground.key, |memory| {
                memory.unheard = Some(Box::new(Unheard {
                    etag: etag.clone(),
                    generation: ground.generation,
                    plan: plan.clone(),
                }));
            });
            return Ok(Sent::Unknown(error));
        }
        // The tenant itself may be what is not found.
        Err(error) if matches!(error.fault(), Fault::Stale | Fault::EntityMissing) => {
            return Ok(Sent::Unknown(error));
        }
        Err(error) => {
            ctx.memory.note(&ground.key, |memory| {
                memory.update_refused = ground.generation;
            });
            return Err(failed(error, on_way, draft, ctx, pass));
        }
    };
    draft.acted = true;
    let ineffective = remember(update, plan, &now, ground, ctx, draft);
    ctx.memory.note(&ground.key, |memory| {
        memory.replaced = Some(etag.clone());
        memory.update_refused = None;
    });
    facts::note(&mut draft.status, &now.summary);
    record(ground.generation, plan, draft);
    told(update, plan, &now, ground, ctx, draft);
    say::updated(&now, ineffective.as_ref(), draft);
    Ok(Sent::Accepted(Box::new(now)))
}

/// Keeps what was sent, to see what comes of it; gives what had no effect.
fn remember(
    update: &Update,
    plan: &Plan,
    now: &Live,
    ground: &Ground,
    ctx: &Ctx,
    draft: &Draft,
) -> Option<Ineffective> {
    let given = draft.status.last_applied.as_ref();
    let given = given.and_then(|body| body.managed_certificate_request.as_ref());
    let asked = plan.record.managed_certificate_request.is_some();
    let (shown, clock) = (now.body(), &ctx.deck.clock);
    ctx.memory.note(&ground.key, |memory| {
        let before = memory.ineffective.as_deref();
        let ineffective = Ineffective::next(before, &update.body, &shown, asked, ctx.now());
        memory.sent = ineffective.is_none().then(|| {
            Box::new(Accepted {
                body: update.body.clone(),
                etag: now.summary.etag.clone(),
            })
        });
        if update.request.is_some() {
            let is_again = update.request.as_ref() == given;
            memory.resent = if is_again {
                memory.resent.saturating_add(1)
            } else {
                0
            };
            memory.certificate_polls = 0;
            memory.certificate_due = Some(clock.elapsed() + certificate::next_look(memory.resent));
        }
        memory.ineffective = ineffective.clone().map(Box::new);
        ineffective
    })
}

/// Takes in what became of an Update without an answer, once another version is there.
pub(super) fn heard(live: &Live, ground: &Ground, ctx: &Ctx, draft: &mut Draft) {
    let unheard = ctx.memory.note(&ground.key, |memory| {
        let unheard = &mut memory.unheard;
        unheard.take_if(|one| one.etag != live.summary.etag)
    });
    let Some(unheard) = unheard else {
        return;
    };
    let Unheard {
        generation, plan, ..
    } = *unheard;
    if let Some(update) = plan.update.as_ref().filter(|one| one.body == live.body()) {
        draft.acted = true;
        record(generation, &plan, draft);
        told(update, &plan, live, ground, ctx, draft);
    }
}

/// An Update that CloudFront took, as a read of the version it made shows it: what had no effect.
pub(super) fn effect(
    live: &Live,
    last: &Last,
    ground: &Ground,
    ctx: &Ctx,
    draft: &Draft,
) -> Option<Ineffective> {
    let (shown, asked) = (live.body(), last.request.is_some());
    ctx.memory.note(&ground.key, |memory| {
        let sent = memory.sent.take_if(|sent| sent.etag == live.summary.etag);
        let (now, is_first) = (ctx.now(), !std::mem::replace(&mut memory.recalled, true));
        if let Some(sent) = sent {
            let before = memory.ineffective.as_deref();
            let next = Ineffective::next(before, &sent.body, &shown, asked, now);
            memory.ineffective = next.map(Box::new);
        } else if is_first && memory.ineffective.is_none() {
            let told = draft.told(Question::Synced);
            let left = told.and_then(|told| Ineffective::recalled(told, &last.body, &shown, now));
            memory.ineffective = left.map(Box::new);
        }
        memory.ineffective.as_deref().cloned()
    })
}

/// Tells of an Update that was taken.
fn told(update: &Update, plan: &Plan, now: &Live, ground: &Ground, ctx: &Ctx, draft: &mut Draft) {
    let fields = |drift: bool| {
        let changes = plan.changes.iter();
        let changes = changes.filter(|one| if drift { one.is_drift() } else { one.is_edit() });
        let words: Vec<_> = changes.map(|one| one.field.word()).collect();
        words.join(", ")
    };
    let id = &now.summary.id;
    if update.cause.corrects() {
        if !say::is_known(&plan.drift(), draft) {
            ctx.metrics.drifted();
        }
        ctx.memory.note(&ground.key, |memory| {
            memory.corrected = Some(ctx.deck.clock.elapsed());
        });
        let message = format!("changed in AWS and put right in {id}: {}", fields(true));
        draft.note(Note::warning(events::DRIFT_CORRECTED, message));
        say::corrected(ctx, draft);
    }
    let attaches = plan.certificate_in_use != now.summary.certificate_arn;
    let managed = plan.record.managed_certificate_request.is_some()
        && ground.declared.certificate_arn.is_none();
    if let Some(arn) = &now.summary.certificate_arn
        && attaches
        && managed
    {
        let message = format!("the managed certificate {arn} is attached to {id}");
        draft.note(Note::normal(events::CERTIFICATE_ATTACHING, message));
    }
    draft.status.certificate_arn = plan.in_use_after(&now.body());
    let edits = fields(false);
    if !edits.is_empty() {
        let message = format!("CloudFront took the change of {id}: {edits}");
        draft.note(Note::normal(events::UPDATED, message));
    }
}

/// Puts down what CloudFront has from us. Tags follow when they are written.
pub(super) fn record(generation: Option<i64>, plan: &Plan, draft: &mut Draft) {
    let status = &mut draft.status;
    status.last_applied = Some(plan.record.clone());
    status.observed_generation = generation;
    status.certificate_arn.clone_from(&plan.certificate_in_use);
}
