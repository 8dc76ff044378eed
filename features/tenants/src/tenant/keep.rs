//! A tenant that is in CloudFront: is it as the spec says, and if not, whose doing is that?

use std::collections::BTreeSet;
use std::time::Duration;

use api::tenants::{
    DistributionTenant, DnsProvider, DriftPolicy, RecordState, ValidationToken, conditions, events,
    reasons,
};
use aws::cloudfront::ManagedCertificate;
use aws::{Asker, Fault, Priority};
use engine::{Note, Pass, kill_point};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::{Reason, is_true, spread};

use super::create::{PROGRESS, missing, way};
use super::draft::{Draft, Question};
use super::ground::Ground;
use super::stop::{Stop, failed};
use super::validate::{Candidate, validate};
use super::{byhand, dns, facts, gone, mark, target};
use crate::body::{Live, Summary};
use crate::certificate::{self, Details, Facts};
use crate::ctx::{Ctx, Ours};
use crate::diff::{self, Ineffective, Last, Plan, Update, drift_reason, needs_default_group};
use crate::dns::plan::Served;
use crate::failure::Missing;
use crate::live::sent;
use crate::memory::Memory;

/// How often tags and issued certificates are compared, give or take a tenth.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const SPREAD: f64 = 0.1;
/// Reads and writes of one pass against others who write at the same time.
const TRIES: usize = 3;

/// Keeps a tenant true; when to look again.
pub(super) async fn keep(
    object: &DistributionTenant,
    ground: &Ground,
    id: &str,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Option<Duration>, Stop> {
    let memory = ctx.memory.of(&ground.key);
    let now = ctx.deck.clock.elapsed();
    let whole = whole_due(ground, &memory, ctx, now);
    let settled = is_settled(object, ground, draft);
    if settled && !memory.doubted && !pass.is_asked_for() && now < whole {
        return Ok(Some(whole - now));
    }
    let priority = if settled {
        Priority::Poll
    } else {
        Priority::Edit
    };
    let asker = ctx.admit(Ours::Tenant, pass, priority).await?;
    let mut listed = memory.seen.and_then(|seen| as_listed(seen, ground, draft));
    let mut tries = 0;
    loop {
        tries += 1;
        let seen = match listed.take() {
            Some(listed) => listed,
            None => read(object, ground, id, &asker, ctx, draft, pass).await?,
        };
        let look = Look {
            object,
            ground,
            asker: &asker,
            whole: now >= whole || draft.status.last_applied.is_none(),
        };
        match compare(&look, seen, ctx, draft, pass).await? {
            Compared::Done(after) => {
                ctx.memory.note(&ground.key, |memory| {
                    memory.doubted = false;
                    memory.seen = None;
                });
                return Ok(after);
            }
            Compared::Stale(error) if tries >= TRIES => {
                return Err(Stop::Failed(error.into()));
            }
            Compared::Stale(_) => {}
        }
    }
}

/// The tenant as a list showed it, if that tells all: nobody has written it since we did, and what
/// we gave is what the spec says.
fn as_listed(seen: Summary, ground: &Ground, draft: &Draft) -> Option<Live> {
    let status = &draft.status;
    let given = status.last_applied.as_ref()?;
    let tells_all = status.e_tag.as_ref() == Some(&seen.etag)
        && status.id.as_ref() == Some(&seen.id)
        && status.observed_generation == ground.generation
        && status.drift_detected != Some(true);
    tells_all.then(|| Live {
        summary: seen,
        parameters: given.parameters.clone(),
        tags: None,
    })
}

/// When tags and certificate are next compared. After a restart that is spread over the day, too.
fn whole_due(ground: &Ground, memory: &Memory, ctx: &Ctx, now: Duration) -> Duration {
    memory.whole.unwrap_or_else(|| {
        let first = now + DAY.mul_f64(fastrand::f64());
        ctx.memory
            .note(&ground.key, |memory| memory.whole = Some(first));
        first
    })
}

/// Whether the status says that all is true of this very spec, so that nothing has to be asked.
fn is_settled(object: &DistributionTenant, ground: &Ground, draft: &Draft) -> bool {
    let status = &draft.status;
    let current = |kind: &str| {
        let condition = kernel::find(&status.conditions, kind);
        condition.is_some_and(|one| one.observed_generation == ground.generation)
    };
    let all = [
        conditions::READY,
        conditions::SYNCED,
        conditions::CERTIFICATE_READY,
        conditions::DNS_READY,
    ];
    let drifted = status.drift_detected == Some(true);
    let is_left = ground.drift != DriftPolicy::Enforce;
    let synced = if drifted {
        is_left
    } else {
        is_true(&status.conditions, conditions::SYNCED)
    };
    let given = status.last_applied.as_ref();
    let group = given.and_then(|body| body.connection_group_id.as_ref());
    let records = object.spec.settings.dns.as_ref();
    let by_hand = records.is_some_and(|dns| dns.provider == DnsProvider::None);
    status.observed_generation == ground.generation
        && all.into_iter().all(current)
        && is_true(&status.conditions, conditions::READY)
        && synced
        && (is_true(&status.conditions, conditions::DNS_READY) && status.dns_change_id.is_none())
        && certificate::is_settled(&ground.declared, ground.generation, status)
        && given.is_some()
        && (ground.declared.connection_group_id.is_none()
            || ground.declared.connection_group_id.as_ref() == group)
        && status
            .dns_records
            .iter()
            .all(|one| one.state == RecordState::Applied)
        && (by_hand || status.required_records.is_empty())
}

/// The tenant as CloudFront shows it now; ends the pass if it does not.
async fn read(
    object: &DistributionTenant,
    ground: &Ground,
    id: &str,
    asker: &Asker,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Live, Stop> {
    let cloudfront = ctx.own().await.cloudfront(asker);
    match cloudfront.tenant(id).await {
        Ok(tenant) => {
            ctx.memory.succeeded(&ground.key);
            ctx.memory.note(&ground.key, |memory| memory.missed = None);
            Ok(tenant.into())
        }
        Err(error) if error.fault() == Fault::EntityMissing => {
            let found = gone::gone(object, ground, &cloudfront, ctx, draft, pass).await?;
            Ok(found.into())
        }
        Err(error) => Err(failed(
            error,
            way(object, Missing::Distribution),
            draft,
            ctx,
            pass,
        )),
    }
}

/// What one comparison stands on.
struct Look<'a> {
    object: &'a DistributionTenant,
    ground: &'a Ground,
    asker: &'a Asker,
    /// Tags are compared, too.
    whole: bool,
}

enum Compared {
    /// All was done that can be done now; when to look again.
    Done(Option<Duration>),
    /// It changed meanwhile, or nobody knows what became of a write.
    Stale(aws::Error),
}

async fn compare(
    look: &Look<'_>,
    mut live: Live,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Compared, Stop> {
    let Look {
        object,
        ground,
        asker,
        ..
    } = *look;
    if look.whole || needs_tags(ground, draft) {
        mark::owned(object, ground, &mut live, asker, ctx, draft, pass).await?;
    }
    facts::note(&mut draft.status, &live.summary);
    let body = live.body();
    let last = Last::of(&draft.status, ground.generation, &ground.declared, &body);
    let default_group = if needs_default_group(&ground.declared, &last) {
        target::default_group(asker, ctx, draft, pass).await?
    } else {
        None
    };
    let managed = managed(look, &last, &live, ctx, draft, pass).await?;
    let plan = diff::plan(&diff::Ground {
        declared: &ground.declared,
        last: &last,
        live: &body,
        default_group: default_group.as_deref(),
        issued: managed.issued.as_deref(),
        resend: managed.verdict.as_ref().is_some_and(|one| one.resend),
        policy: ground.drift,
    });
    say_certificate(&managed, draft);
    let mut after = managed.verdict.as_ref().and_then(|one| one.again);
    let sooner = |after: &mut Option<Duration>, other: Option<Duration>| {
        *after = match (*after, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    };

    let mut is_sent = false;
    match update(look, &plan, &last, &live, ctx, draft, pass).await? {
        Sent::Nothing => {
            record(ground, &plan, draft);
            deployed(&live, ctx, ground, draft);
        }
        Sent::Accepted(now) => {
            // An answer may leave tags out; they are as they were read.
            let tags = now.tags.clone().or(live.tags.take());
            live = Live { tags, ..now };
            is_sent = true;
        }
        Sent::HeldBack(ineffective) => {
            deployed(&live, ctx, ground, draft);
            let wait = ineffective.not_before().duration_since(ctx.now());
            sooner(&mut after, Some(wait.try_into().unwrap_or_default()));
            draft.no(Question::Synced, ineffective.reason());
        }
        Sent::Waits(wait) => return Ok(Compared::Done(Some(wait))),
        Sent::Stale(error) => return Ok(Compared::Stale(error)),
    }
    mark::tags(object, ground, &live, asker, ctx, draft, pass).await?;
    sooner(&mut after, records(look, &live, ctx, draft, pass).await?);
    sooner(
        &mut after,
        byhand::verify(object, ground, asker, ctx, draft, pass).await?,
    );
    if !is_sent {
        drift(ground, &plan, ctx, draft);
    }
    if !live.summary.is_deployed() {
        sooner(&mut after, Some(PROGRESS));
    }
    if look.whole {
        let next = ctx.deck.clock.elapsed() + spread(DAY, SPREAD, fastrand::f64());
        ctx.memory
            .note(&ground.key, |memory| memory.whole = Some(next));
    }
    Ok(Compared::Done(after.or(Some(DAY))))
}

/// Whether the tags have to be known: ours are not those that were last written.
fn needs_tags(ground: &Ground, draft: &Draft) -> bool {
    let given = draft.status.last_applied.as_ref();
    given.is_none_or(|body| body.tags != ground.declared.tags)
}

/// What is known of the managed certificate, and what follows.
struct Managed {
    verdict: Option<certificate::Verdict>,
    issued: Option<String>,
}

async fn managed(
    look: &Look<'_>,
    last: &Last,
    live: &Live,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Managed, Stop> {
    let Look {
        object,
        ground,
        asker,
        whole,
    } = *look;
    let request = ground.declared.managed_certificate_request.as_ref();
    let settled = certificate::is_settled(&ground.declared, ground.generation, &draft.status);
    let asks = request.is_some() && last.request.as_ref() == request && (!settled || whole);
    let mut details = None;
    if asks {
        let cloudfront = ctx.own().await.cloudfront(asker);
        match cloudfront.managed_certificate(&live.summary.id).await {
            Ok(told) => details = Some(told_details(told)),
            Err(error) if error.fault() == Fault::EntityMissing => {}
            Err(error) => {
                let on_way = way(object, Missing::Distribution);
                return Err(failed(error, on_way, draft, ctx, pass));
            }
        }
    }
    let looks = ctx.memory.note(&ground.key, |memory| {
        let looks = memory.certificate_polls;
        memory.certificate_polls = if asks { looks.saturating_add(1) } else { 0 };
        looks
    });
    let attached = last.body.certificate_arn.as_deref();
    let issued = certificate::known_issued(details.as_ref(), &draft.status);
    let issued = issued.map(str::to_owned);
    if settled && !asks && request.is_some() {
        return Ok(Managed {
            verdict: None, // what the status says still holds
            issued,
        });
    }
    let verdict = certificate::verdict(&Facts {
        request,
        own: ground.declared.certificate_arn.as_deref(),
        applied: last.request.as_ref(),
        attached,
        details: details.as_ref(),
        live: live.summary.certificate_arn.as_deref(),
        domains: &live.summary.domains,
        target: draft.status.dns_target.as_deref(),
        looks,
    });
    Ok(Managed {
        verdict: Some(verdict),
        issued,
    })
}

pub(super) fn told_details(told: ManagedCertificate) -> Details {
    let tokens = told.tokens.into_iter();
    Details {
        arn: told.arn,
        status: told.status,
        tokens: tokens
            .map(|one| ValidationToken {
                domain: one.domain,
                redirect_from: one.redirect_from,
                redirect_to: one.redirect_to,
            })
            .collect(),
    }
}

fn say_certificate(managed: &Managed, draft: &mut Draft) {
    let Some(verdict) = &managed.verdict else {
        draft.restate(Question::Certificate);
        return;
    };
    draft.status.validation_tokens.clone_from(&verdict.tokens);
    if verdict.status.is_some() {
        draft
            .status
            .managed_certificate_status
            .clone_from(&verdict.status);
    }
    let reason = verdict.reason.clone();
    if verdict.ready {
        draft.yes(Question::Certificate, reason);
    } else {
        draft.no(Question::Certificate, reason);
    }
}

/// What became of the Update that a plan asks for.
enum Sent {
    /// None was due.
    Nothing,
    /// CloudFront took it; this is how it is now.
    Accepted(Live),
    /// The same had no effect a while ago.
    HeldBack(Ineffective),
    /// Records come first.
    Waits(Duration),
    Stale(aws::Error),
}

async fn update(
    look: &Look<'_>,
    plan: &Plan,
    last: &Last,
    live: &Live,
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
    let Some(update) = &plan.update else {
        return Ok(Sent::Nothing);
    };
    let known = ctx.memory.of(&ground.key).ineffective;
    if let Some(known) = known.filter(|one| one.holds_back(&update.body, ctx.now())) {
        return Ok(Sent::HeldBack(known));
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

/// Records of added names come first: when to look again, if they are not there yet.
async fn added_records(
    look: &Look<'_>,
    added: &BTreeSet<String>,
    live: &Live,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
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
    draft.held_up = true;
    let target = target::target(ground, asker, ctx, draft, pass).await?;
    let served = served(live);
    let target = target.as_ref();
    let reached = dns::advance(object, ground, target, &served, ctx, draft, pass).await?;
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
    let cloudfront = ctx.own().await.cloudfront(asker);
    let (id, etag) = (&live.summary.id, &live.summary.etag);
    let body = sent(&update.body, update.request.as_ref());
    kill_point("tenants-before-update");
    let answer = cloudfront.update_tenant(id, etag, &body).await;
    kill_point("tenants-after-update");
    let now = match answer {
        Ok(tenant) => Live::from(tenant),
        Err(error) if error.fault() == Fault::Stale || error.may_have_happened() => {
            if error.fault() != Fault::Stale {
                ctx.metrics.failed("retryable");
            }
            return Ok(Sent::Stale(error));
        }
        Err(error) => {
            let missing = missing(ground, &error, asker, ctx).await;
            return Err(failed(error, way(object, missing), draft, ctx, pass));
        }
    };
    let asked = plan.record.managed_certificate_request.is_some();
    let shown = now.body();
    ctx.memory.note(&ground.key, |memory| {
        let before = memory.ineffective.as_ref();
        memory.ineffective = Ineffective::next(before, &update.body, &shown, asked, ctx.now());
    });
    draft.acted = true;
    facts::note(&mut draft.status, &now.summary);
    record(ground, plan, draft);
    told(update, plan, &now, ctx, draft);
    let deploying = format!("CloudFront is deploying a change of {id}");
    draft.no(
        Question::Ready,
        Reason::new(reasons::DEPLOYING, deploying.clone()),
    );
    let ineffective = ctx.memory.of(&ground.key).ineffective;
    match ineffective {
        Some(ineffective) => draft.no(Question::Synced, ineffective.reason()),
        None => draft.yes(
            Question::Synced,
            Reason::new(reasons::UPDATE_PENDING, deploying),
        ),
    }
    Ok(Sent::Accepted(now))
}

/// Tells of an Update that was taken.
fn told(update: &Update, plan: &Plan, now: &Live, ctx: &Ctx, draft: &mut Draft) {
    let fields = |drift: bool| {
        let changes = plan.changes.iter();
        let changes = changes.filter(|one| if drift { one.is_drift() } else { one.is_edit() });
        let words: Vec<_> = changes.map(|one| one.field.word()).collect();
        words.join(", ")
    };
    let id = &now.summary.id;
    if update.cause.corrects() {
        if draft.status.drift != plan.drift() {
            ctx.metrics.drifted();
        }
        let message = format!("changed in AWS and put right in {id}: {}", fields(true));
        draft.note(Note::warning(events::DRIFT_CORRECTED, message));
        draft.status.drift.clear();
        set_drift(false, ctx, draft);
    }
    let attaches = plan.certificate_in_use != now.summary.certificate_arn;
    let managed = plan.record.managed_certificate_request.is_some();
    if attaches && managed {
        let arn = now.summary.certificate_arn.as_deref().unwrap_or_default();
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
fn record(ground: &Ground, plan: &Plan, draft: &mut Draft) {
    draft.status.last_applied = Some(plan.record.clone());
    draft.status.observed_generation = ground.generation;
    draft
        .status
        .certificate_arn
        .clone_from(&plan.certificate_in_use);
}

/// Says whether the tenant is deployed.
fn deployed(live: &Live, ctx: &Ctx, ground: &Ground, draft: &mut Draft) {
    let id = &live.summary.id;
    if live.summary.is_deployed() {
        let message = if live.summary.enabled {
            format!("{id} is deployed and serves its domains")
        } else {
            format!("{id} is deployed and switched off: it serves nothing")
        };
        draft.yes(Question::Ready, Reason::new(reasons::DEPLOYED, message));
    } else {
        let first = draft.says(Question::Ready, reasons::CREATING);
        let (reason, what) = if first {
            (reasons::CREATING, "it")
        } else {
            (reasons::DEPLOYING, "a change of it")
        };
        let message = format!("CloudFront is deploying {what}: {id}");
        draft.no(Question::Ready, Reason::new(reason, message));
    }
    let pending = ctx.memory.of(&ground.key).ineffective;
    let synced = if let Some(ineffective) = pending {
        draft.no(Question::Synced, ineffective.reason());
        return;
    } else if live.summary.is_deployed() || draft.says(Question::Synced, reasons::IN_SYNC) {
        Reason::new(reasons::IN_SYNC, "CloudFront has what the spec says")
    } else {
        Reason::new(
            reasons::UPDATE_PENDING,
            format!("CloudFront is deploying a change of {id}"),
        )
    };
    draft.yes(Question::Synced, synced);
}

/// Says what others changed and is left so.
fn drift(ground: &Ground, plan: &Plan, ctx: &Ctx, draft: &mut Draft) {
    let mut drift = plan.drift();
    drift.extend(std::mem::take(&mut draft.drifted_records));
    drift.truncate(api::tenants::names::DRIFT_CAP);
    if drift.is_empty() {
        draft.status.drift.clear();
        set_drift(false, ctx, draft);
        return;
    }
    if draft.status.drift != drift {
        ctx.metrics.drifted();
    }
    if ground.drift == DriftPolicy::Report {
        draft.no(Question::Synced, drift_reason(&drift, ground.drift));
    }
    draft.status.drift = drift;
    set_drift(true, ctx, draft);
}

fn set_drift(detected: bool, ctx: &Ctx, draft: &mut Draft) {
    if draft.status.drift_detected.unwrap_or_default() != detected {
        draft.status.drift_detected = Some(detected);
        draft.status.last_drift_check_time = Some(Time(ctx.now()));
    }
}

/// The names a tenant serves, as far as that can be told.
fn served(live: &Live) -> Served {
    if live.summary.is_deployed() {
        Served::These(live.body().domains)
    } else {
        Served::Unknown
    }
}

/// Brings the records a step further; when to look again.
async fn records(
    look: &Look<'_>,
    live: &Live,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Option<Duration>, Stop> {
    let Look {
        object,
        ground,
        asker,
        ..
    } = *look;
    if !dns::concerns(object, draft) {
        if object.spec.settings.dns.is_none() {
            let message = "the spec asks for no DNS records";
            let reason = Reason::new(reasons::DNS_NOT_CONFIGURED, message);
            draft.yes(Question::Dns, reason);
        }
        return Ok(None);
    }
    let target = match dns::route53(object) {
        Some(_) => target::target(ground, asker, ctx, draft, pass).await?,
        None => None,
    };
    let served = served(live);
    let target = target.as_ref();
    let reached = dns::advance(object, ground, target, &served, ctx, draft, pass).await?;
    if reached.again {
        return Err(Stop::Again);
    }
    Ok(reached.wait)
}
