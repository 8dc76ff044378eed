//! A tenant that is not in CloudFront yet, as far as we know.

use std::collections::BTreeSet;
use std::time::Duration;

use api::tenants::{
    AdoptBy, DistributionTenant, DistributionTenantStatus, DnsProvider, events, reasons,
};
use aws::cloudfront::Tenant;
use aws::{Caller, Fault, Priority};
use engine::{Note, Pass, kill_point};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::{ObjectKey, Reason};

use super::draft::{Draft, Question};
use super::ground::Ground;
use super::stop::{Stop, failed, left_alone, moment};
use super::taken::{is_unanswered, not_made, take_over, unanswered};
use super::validate::{Candidate, passes_by_cache, validate};
use super::{dns, facts, say, target};
use crate::body::{Body, Live};
use crate::certificate;
use crate::ctx::{Ctx, NotYet, Ours};
use crate::dns::plan::Served;
use crate::dns::required::required;
use crate::failure::{Missing, Way};
use crate::live::sent;
use crate::tags;
use crate::told::FRESH;

/// A tenant in progress is looked at by polls; this is for when they fail.
pub(super) const PROGRESS: Duration = Duration::from_secs(5 * 60);

/// Records first, then the tenant; or what is there already, if it is ours.
pub(super) async fn create(
    object: &DistributionTenant,
    ground: &Ground,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &mut Pass,
) -> Result<Option<Duration>, Stop> {
    draft.held_up = true;
    if let Some(left) = held_back(&ground.key, ctx, draft, pass) {
        return Err(left_alone(left, &ground.key, ctx));
    }
    let desired = Body::from(&ground.declared);
    let candidate = Candidate {
        desired: &desired,
        last: None,
    };
    let asker = if is_prepared_by_caches(object, ground, &candidate, ctx, draft) {
        // Records do not wait for a permit of CloudFront, however many Creates do.
        let asker = dns::asker(&ground.key);
        let prepared = prepare(object, ground, &candidate, &asker, ctx, draft, pass).await;
        prepared.inspect_err(|_| ctx.withdraw(Ours::Tenant, &ground.key))?;
        ctx.admit(Ours::Tenant, pass, Priority::Edit).await?
    } else {
        let admitted = ctx.admit(Ours::Tenant, pass, Priority::Edit).await;
        let asker = admitted.map_err(|not_yet| Stop::Held(recheck(not_yet, &draft.status)))?;
        if let Some(found) = wanted_by_adoption(object, ground, &asker, ctx, draft, pass).await? {
            return take_over(object, ground, found, &asker, ctx, draft, pass).await;
        }
        if let Some(found) = unanswered(object, ground, &asker, ctx, draft, pass).await? {
            return take_over(object, ground, found, &asker, ctx, draft, pass).await;
        }
        prepare(object, ground, &candidate, &asker, ctx, draft, pass).await?;
        asker
    };
    let request = ground.declared.managed_certificate_request.as_ref();
    let tags = tags::at_creation(&ground.declared.tags, &ground.marker);
    let cloudfront = ctx.own().await.cloudfront(&asker);
    let body = sent(&desired, request);
    kill_point("tenants-before-create");
    let made = cloudfront.create_tenant(&ground.name, &tags, &body).await;
    kill_point("tenants-after-create");
    match made {
        Ok(tenant) => {
            let now = ctx.deck.clock.elapsed();
            ctx.memory.note(&ground.key, |memory| {
                memory.made = Some(now);
                memory.answered = false; // if the status is lost, it is looked for
                memory.certificate_polls = 0;
                memory.certificate_due = request.map(|_| now + certificate::FIRST_LOOK);
            });
            draft.acted = true;
            let asks_for_records = object.spec.settings.dns.is_some();
            if made_it(ground, tenant, asks_for_records, draft) {
                // No poll follows: the next pass does what may come after a Create.
                Ok(Some(Duration::ZERO))
            } else {
                Err(Stop::Told(PROGRESS))
            }
        }
        Err(error) => not_made(object, ground, error, &asker, ctx, draft, pass).await,
    }
}

/// When a pass that got no permit comes again. Its ticket stays in the queue and may wake it sooner.
///
/// | Create announced | again                                                         |
/// |------------------|---------------------------------------------------------------|
/// | no               | after [`FRESH`]: caches that others fill may make it needless |
/// | yes              | when the limiter says                                         |
fn recheck(NotYet { after }: NotYet, status: &DistributionTenantStatus) -> Duration {
    match status.create_requested_at {
        None => after.min(FRESH),
        Some(_) => after,
    }
}

/// Whether nothing before the Create needs a call to CloudFront.
fn is_prepared_by_caches(
    object: &DistributionTenant,
    ground: &Ground,
    candidate: &Candidate<'_>,
    ctx: &Ctx,
    draft: &Draft,
) -> bool {
    let needs_target = object.spec.settings.dns.is_some() || dns::concerns(object, draft);
    object.spec.adoption.is_none()
        && !is_unanswered(ground, ctx, draft)
        && passes_by_cache(object, ground, candidate, ctx)
        && (!needs_target || target::is_cached(ground, &draft.status, ctx))
}

/// All that comes before the Create: checks, records, and the intent. Each ends the pass until it
/// is done.
async fn prepare(
    object: &DistributionTenant,
    ground: &Ground,
    candidate: &Candidate<'_>,
    asker: &Caller,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &mut Pass,
) -> Result<(), Stop> {
    validate(object, ground, candidate, asker, ctx, draft, pass).await?;
    records(object, ground, asker, ctx, draft, pass).await?;
    if draft.status.create_requested_at.is_some() {
        return Ok(());
    }
    draft.status.create_requested_at = Some(Time(ctx.now()));
    draft.status.tenant_name = Some(ground.name.clone());
    let waiting = Reason::new(reasons::CREATING, "CloudFront is about to be asked for it");
    draft.no(Question::Ready, waiting);
    ctx.memory
        .note(&ground.key, |memory| memory.answered = true);
    Err(Stop::Again)
}

/// How long AWS is still to be left alone, unless somebody asks.
pub(super) fn held_back(
    key: &ObjectKey,
    ctx: &Ctx,
    draft: &Draft,
    pass: &Pass,
) -> Option<Duration> {
    let at = moment(draft, ctx);
    ctx.memory.note(key, |memory| {
        let troubles = [&mut memory.trouble, &mut memory.dns_trouble];
        let held = troubles.map(|trouble| {
            if pass.is_urgent() {
                trouble.forgive();
            }
            trouble.holds_back(&at)
        });
        held.into_iter().flatten().max()
    })
}

/// Takes over what a Create answered; whether the tenant is deployed already.
fn made_it(ground: &Ground, tenant: Tenant, asks_for_records: bool, draft: &mut Draft) -> bool {
    let live = Live::from(tenant);
    facts::note(&mut draft.status, &live.summary);
    let declared = &ground.declared;
    let certificate = &live.summary.certificate_arn;
    draft.status.certificate_arn.clone_from(certificate);
    draft.status.last_applied = Some(declared.clone());
    draft.status.observed_generation = ground.generation;
    let id = &live.summary.id;
    draft.note(Note::normal(
        events::CREATED,
        format!("CloudFront made tenant {} ({id})", ground.name),
    ));
    say::created(&live, draft);
    if let Some(request) = &declared.managed_certificate_request {
        let name = &request.primary_domain_name;
        let message = format!("a certificate of {name} is asked for");
        let pending = Reason::new(reasons::PENDING_VALIDATION, message);
        draft.no(Question::Certificate, pending);
    } else {
        let own = declared.certificate_arn.as_deref();
        let told = certificate::unasked(own, certificate.as_deref());
        let message = draft.unchecked.take().unwrap_or(told);
        let reason = Reason::new(reasons::NOT_CONFIGURED, message);
        draft.yes(Question::Certificate, reason);
    }
    if !asks_for_records && draft.status.dns_records.is_empty() {
        draft.yes(Question::Dns, say::no_records());
    }
    live.summary.is_deployed()
}

/// Ends the pass until every name has its records on all name servers, or tells which are needed.
async fn records(
    object: &DistributionTenant,
    ground: &Ground,
    asker: &Caller,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &mut Pass,
) -> Result<(), Stop> {
    let provider = object.spec.settings.dns.as_ref().map(|dns| dns.provider);
    if provider.is_none() && draft.status.dns_records.is_empty() {
        return Ok(());
    }
    let target = target::target(ground, asker, ctx, draft, pass).await?;
    if let (Some(DnsProvider::None), Some(target)) = (provider, &target) {
        let domains = ground.declared.domains.iter().map(String::as_str);
        draft.status.required_records = required(domains, target, &BTreeSet::new());
    }
    if !dns::concerns(object, draft) {
        return Ok(());
    }
    let served = Served::These(BTreeSet::new());
    let course = dns::Course::of(target.as_ref());
    let reached = dns::advance(object, ground, course, &served, ctx, draft, pass).await?;
    let message = "waits for its DNS records, which come first";
    if reached.again {
        draft.no_yet(Question::Ready, Reason::new(reasons::CREATING, message));
        return Err(Stop::Again);
    }
    let wanted = dns::route53(object).is_some() && target.is_some();
    let domains = &ground.declared.domains;
    if wanted && !domains.is_subset(&reached.insync) {
        draft.no_yet(Question::Ready, Reason::new(reasons::CREATING, message));
        return Err(Stop::Told(reached.wait.unwrap_or(PROGRESS)));
    }
    Ok(())
}

/// The tenant that the spec says to take over, if it is there.
async fn wanted_by_adoption(
    object: &DistributionTenant,
    ground: &Ground,
    asker: &Caller,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Option<Tenant>, Stop> {
    let Some(adoption) = &object.spec.adoption else {
        return Ok(None);
    };
    let cloudfront = ctx.own().await.cloudfront(asker);
    let found = match adoption.by {
        AdoptBy::Name => cloudfront.tenant(&ground.name).await,
        AdoptBy::Domain => {
            let Some(first) = object.spec.domains.first() else {
                return Ok(None);
            };
            let first = crate::body::domain(&first.domain);
            cloudfront.tenant_by_domain(&first).await
        }
    };
    match found {
        Ok(tenant) => Ok(Some(tenant)),
        Err(error) if error.fault() == Fault::EntityMissing => Ok(None),
        Err(error) => Err(failed(
            error,
            way(object, Missing::Distribution),
            draft,
            ctx,
            pass,
        )),
    }
}

pub(super) fn way(object: &DistributionTenant, missing: Missing) -> Way {
    let request = object.spec.managed_certificate_request.as_ref();
    Way::Tenant {
        missing,
        host: request.map(|request| request.validation_token_host),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::what_may_need_no_permit_soon(None, 30)]
    #[case::the_create_itself_when_the_limiter_says(Some(Time(Timestamp::UNIX_EPOCH)), 300)]
    fn a_pass_without_a_permit_comes_again(
        #[case] create_requested_at: Option<Time>,
        #[case] after: u64,
    ) {
        let status = DistributionTenantStatus {
            create_requested_at,
            ..DistributionTenantStatus::default()
        };
        let not_yet = NotYet {
            after: Duration::from_secs(300),
        };
        assert_eq!(recheck(not_yet, &status).as_secs(), after);
    }
}
