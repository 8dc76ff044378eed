//! A tenant that is not in CloudFront yet, as far as we know.

use std::collections::BTreeSet;
use std::time::Duration;

use api::tenants::{AdoptBy, DistributionTenant, DnsProvider, events, reasons};
use aws::cloudfront::{CloudFront, Holder, Tenant};
use aws::{Asker, Fault, Priority};
use engine::{Note, Pass, kill_point};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::Reason;

use super::draft::{Draft, Question};
use super::ground::Ground;
use super::stop::{Stop, failed};
use super::validate::{Candidate, validate};
use super::{dns, facts, target};
use crate::body::{Body, Live};
use crate::ctx::{Ctx, Ours};
use crate::dns::plan::Served;
use crate::dns::required::required;
use crate::failure::{Missing, Way, slow};
use crate::live::sent;
use crate::tags::{self, Standing, Tags, Whose};

/// A tenant in progress is looked at by polls; this is for when they fail.
pub(super) const PROGRESS: Duration = Duration::from_secs(5 * 60);

/// Records first, then the tenant; or what is there already, if it is ours.
pub(super) async fn create(
    object: &DistributionTenant,
    ground: &Ground,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Duration, Stop> {
    draft.held_up = true;
    let asker = ctx.admit(Ours::Tenant, pass, Priority::Edit).await?;
    if let Some(found) = wanted_by_adoption(object, ground, &asker, ctx, draft, pass).await? {
        return take_over(object, ground, found, &asker, ctx, draft, pass).await;
    }
    let desired = Body::from(&ground.declared);
    let candidate = Candidate {
        desired: &desired,
        last: None,
    };
    let checked = validate(object, ground, &candidate, &asker, ctx, draft, pass).await?;
    records(object, ground, &asker, ctx, draft, pass).await?;
    if draft.status.create_requested_at.is_none() {
        draft.status.create_requested_at = Some(Time(ctx.now()));
        draft.status.tenant_name = Some(ground.name.clone());
        let waiting = Reason::new(reasons::CREATING, "CloudFront is about to be asked for it");
        draft.no(Question::Ready, waiting);
        return Err(Stop::Again);
    }
    let request = ground.declared.managed_certificate_request.as_ref();
    let tags = tags::at_creation(&ground.declared.tags, &ground.marker);
    let cloudfront = ctx.own().await.cloudfront(&asker);
    let body = sent(&desired, request);
    kill_point("tenants-before-create");
    let made = cloudfront.create_tenant(&ground.name, &tags, &body).await;
    kill_point("tenants-after-create");
    match made {
        Ok(tenant) => {
            ctx.memory.note(&ground.key, |memory| {
                memory.made = Some(ctx.deck.clock.elapsed());
            });
            Ok(made_it(ground, tenant, checked.unchecked, draft))
        }
        Err(error) => not_made(object, ground, error, &asker, ctx, draft, pass).await,
    }
}

fn made_it(
    ground: &Ground,
    tenant: Tenant,
    unchecked: Option<String>,
    draft: &mut Draft,
) -> Duration {
    let live = Live::from(tenant);
    facts::note(&mut draft.status, &live.summary);
    let declared = &ground.declared;
    draft.status.certificate_arn = live.summary.certificate_arn.clone();
    draft.status.last_applied = Some(declared.clone());
    draft.status.observed_generation = ground.generation;
    let id = &live.summary.id;
    draft.note(Note::normal(
        events::CREATED,
        format!("CloudFront made tenant {} ({id})", ground.name),
    ));
    let creating = Reason::new(reasons::CREATING, format!("CloudFront is deploying {id}"));
    draft.no(Question::Ready, creating);
    draft.yes(
        Question::Synced,
        Reason::new(reasons::IN_SYNC, "CloudFront has what the spec says"),
    );
    match &declared.managed_certificate_request {
        Some(request) => {
            let message = format!(
                "a certificate of {} is asked for",
                request.primary_domain_name
            );
            let pending = Reason::new(reasons::PENDING_VALIDATION, message);
            draft.no(Question::Certificate, pending);
        }
        None => {
            let message = unchecked.unwrap_or_else(|| "no managed certificate is asked for".into());
            draft.yes(
                Question::Certificate,
                Reason::new(reasons::NOT_CONFIGURED, message),
            );
        }
    }
    if draft.status.dns_records.is_empty() && draft.status.required_records.is_empty() {
        draft.yes(
            Question::Dns,
            Reason::new(
                reasons::DNS_NOT_CONFIGURED,
                "the spec asks for no DNS records",
            ),
        );
    }
    PROGRESS
}

/// Ends the pass until every name has its records on all name servers, or tells which are needed.
async fn records(
    object: &DistributionTenant,
    ground: &Ground,
    asker: &Asker,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<(), Stop> {
    let provider = object.spec.settings.dns.as_ref().map(|dns| dns.provider);
    if provider.is_none() && draft.status.dns_records.is_empty() {
        return Ok(());
    }
    let target = target::target(ground, asker, ctx, draft, pass).await?;
    if provider == Some(DnsProvider::None) {
        if let Some(target) = &target {
            let domains = ground.declared.domains.iter().map(String::as_str);
            draft.status.required_records = required(domains, target, &BTreeSet::new());
        }
    }
    if !dns::concerns(object, draft) {
        return Ok(());
    }
    let served = Served::These(BTreeSet::new());
    let target = target.as_ref();
    let reached = dns::advance(object, ground, target, &served, ctx, draft, pass).await?;
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
    asker: &Asker,
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
            let first = &object.spec.domains[0].domain;
            let first = crate::body::domain(first);
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

/// Create did not succeed, or nobody knows whether it did: what is there under the name tells.
async fn not_made(
    object: &DistributionTenant,
    ground: &Ground,
    error: aws::Error,
    asker: &Asker,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Duration, Stop> {
    let taken = matches!(error.fault(), Fault::NameTaken | Fault::DomainTaken);
    let cloudfront = ctx.own().await.cloudfront(asker);
    if taken || error.may_have_happened() {
        match cloudfront.tenant(&ground.name).await {
            Ok(found) => {
                let tags = tags_of(&found, &cloudfront).await;
                let tags = tags.map_err(|error| {
                    failed(error, way(object, Missing::Distribution), draft, ctx, pass)
                })?;
                let whose = tags::whose(&tags, &ground.marker);
                let adoption = object.spec.adoption.as_ref();
                let by_name = adoption.is_some_and(|one| one.by == AdoptBy::Name);
                if whose == Whose::Ours || by_name {
                    return take_over(object, ground, found, asker, ctx, draft, pass).await;
                }
                if error.fault() == Fault::NameTaken {
                    ctx.metrics.failed("name_conflict");
                    return Err(foreign(&ground.name, &whose, draft, ctx));
                }
            }
            Err(missing) if missing.fault() == Fault::EntityMissing => {}
            Err(other) => {
                return Err(failed(
                    other,
                    way(object, Missing::Distribution),
                    draft,
                    ctx,
                    pass,
                ));
            }
        }
    }
    if error.fault() == Fault::DomainTaken {
        return Err(domain_taken(object, ground, &error, &cloudfront, ctx, draft, pass).await);
    }
    let missing = missing(ground, &error, asker, ctx).await;
    Err(failed(error, way(object, missing), draft, ctx, pass))
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

fn foreign(name: &str, whose: &Whose, draft: &mut Draft, ctx: &Ctx) -> Stop {
    let reason = tags::not_owned(&format!("tenant {name}"), whose);
    let since = draft.since(Question::Ready, &reason.code, ctx.now());
    draft.no(Question::Ready, reason.clone());
    draft.no(Question::Synced, reason);
    Stop::Told(slow(since, fastrand::f64()))
}

pub(super) async fn tags_of(found: &Tenant, cloudfront: &CloudFront) -> Result<Tags, aws::Error> {
    match &found.tags {
        Some(tags) => Ok(tags.clone()),
        None => cloudfront.tags(&found.arn).await,
    }
}

/// Makes what was found ours, if it may be: its marker first, then its id into the status. What
/// the spec says otherwise is the next pass's.
async fn take_over(
    object: &DistributionTenant,
    ground: &Ground,
    found: Tenant,
    asker: &Asker,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Duration, Stop> {
    let cloudfront = ctx.own().await.cloudfront(asker);
    let on_way = way(object, Missing::Distribution);
    let tags = tags_of(&found, &cloudfront).await;
    let tags = tags.map_err(|error| failed(error, on_way, draft, ctx, pass))?;
    let whose = tags::whose(&tags, &ground.marker);
    match tags::standing(whose.clone(), false, object.spec.adoption.as_ref()) {
        Standing::NotOwned(whose) => {
            return Err(foreign(&found.name, &whose, draft, ctx));
        }
        Standing::Ours if whose == Whose::Ours => {}
        Standing::Ours | Standing::Adopt { .. } => {
            let marks = tags::at_creation(&Tags::new(), &ground.marker);
            kill_point("tenants-before-tags");
            let tagged = cloudfront.tag(&found.arn, &marks).await;
            kill_point("tenants-after-tags");
            tagged.map_err(|error| failed(error, on_way, draft, ctx, pass))?;
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
    draft.note(Note::normal(
        events::ADOPTED,
        format!("tenant {} ({id}) was there and is taken over", ground.name),
    ));
    let message = format!("{id} was there and is taken over");
    draft.no(Question::Ready, Reason::new(reasons::CREATING, message));
    Err(Stop::Again)
}
