//! A tenant that is to go: switched off, deleted, its records after it, the finalizer last.

use std::collections::BTreeSet;
use std::time::Duration;

use api::tenants::{DeletionPolicy, DistributionTenant, DnsRecord, events, names, reasons};
use aws::cloudfront::{CloudFront, Tenant};
use aws::{Caller, Fault, Priority};
use engine::{Note, Pass, kill_point};
use kernel::{Marker, ObjectKey, Reason};

use super::create::{PROGRESS, held_back, way};
use super::draft::{Draft, Question};
use super::stop::{Stop, count, ended, failed, left_alone, moment};
use super::taken::{missing, tags_of};
use super::{dns, facts, gone};
use crate::body::Live;
use crate::ctx::{Ctx, Ours};
use crate::dns::plan::Served;
use crate::failure::Missing;
use crate::live::sent;
use crate::tags::{self, Standing, Tags};

/// Reads and writes of one pass against others who write at the same time.
const TRIES: usize = 3;

/// Takes out of AWS what the object stands for, and lets it go.
pub(super) async fn remove(
    object: &DistributionTenant,
    key: &ObjectKey,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &mut Pass,
) -> Result<Option<Duration>, Stop> {
    let held = object.metadata.finalizers.iter().flatten();
    if !held.into_iter().any(|one| one == names::FINALIZER) {
        return Ok(None);
    }
    if object.spec.deletion_policy == DeletionPolicy::Retain {
        retained(draft, pass);
        pass.drop_finalizer(names::FINALIZER).await?;
        return Ok(None);
    }
    if let Some(left) = held_back(key, ctx, draft, pass) {
        return Err(left_alone(left, key, ctx));
    }
    if is_in_cloudfront(draft) {
        let asker = ctx.admit(Ours::Tenant, pass, Priority::Delete).await?;
        match tenant(object, key, &asker, ctx, draft, pass).await? {
            Left::Gone => records(object, key, ctx, draft, pass).await?,
            Left::NotOurs => unmark(object, key, ctx, draft, pass).await?,
        }
    } else {
        records(object, key, ctx, draft, pass).await?;
    }
    pass.drop_finalizer(names::FINALIZER).await?;
    Ok(None)
}

/// Whether the tenant is there, or may be.
pub(super) fn is_in_cloudfront(draft: &Draft) -> bool {
    draft.status.id.is_some() || draft.status.create_requested_at.is_some()
}

/// How a tenant left the object.
#[derive(Debug, PartialEq, Eq)]
enum Left {
    /// It is no longer in CloudFront.
    Gone,
    /// It belongs to another by now, whom the records lead to.
    NotOurs,
}

async fn tenant(
    object: &DistributionTenant,
    key: &ObjectKey,
    asker: &Caller,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Left, Stop> {
    let cloudfront = ctx.own().await.cloudfront(asker);
    let on_way = way(object, Missing::Distribution);
    let mut unknown: Option<(String, aws::Error)> = None;
    for _ in 0..TRIES {
        let found = found(object, key, &cloudfront, draft).await;
        let found = found.map_err(|error| failed(error, on_way, draft, ctx, pass))?;
        let Some(found) = found else {
            // A write of this pass found it: now it is gone.
            return if unknown.is_some() {
                Ok(Left::Gone)
            } else {
                missed(key, ctx, draft)
            };
        };
        ctx.memory.note(key, |memory| memory.missed = None);
        let live = Live::from(found.clone());
        if let Some(wait) = gone::behind(key, &live.summary, ctx, draft) {
            disabling(&found.id, draft);
            return Err(Stop::Told(wait));
        }
        let etag = found.etag.clone();
        if let Some((_, error)) = unknown.take_if(|(sent, _)| *sent == etag) {
            return Err(not_taken(error, &live, object, asker, ctx, draft, pass).await);
        }
        let tags = tags_of(&found, &cloudfront).await;
        let tags = tags.map_err(|error| failed(error, on_way, draft, ctx, pass))?;
        if let Some(left) = not_ours(&found, &tags, key, ctx, draft, pass) {
            return Ok(left);
        }
        match step(found, key, &cloudfront, ctx, draft, pass).await {
            Ok(Some(stop)) => return Err(stop),
            Ok(None) => return Ok(Left::Gone),
            Err(error) if error.fault() == Fault::Stale => {}
            Err(error) if error.may_have_happened() => {
                count(&error, on_way, ctx);
                unknown = Some((etag, error));
            }
            // The tenant itself may be what is not found.
            Err(error) if error.fault() == Fault::EntityMissing => {
                unknown = Some((etag, error));
            }
            Err(error) => return Err(failed(error, on_way, draft, ctx, pass)),
        }
    }
    let at = moment(draft, ctx);
    let outrun = ctx.memory.note(key, |memory| memory.trouble.outrun(&at));
    Err(Stop::Held(outrun))
}

/// A write without an answer, or whose object was not found, made no new version.
async fn not_taken(
    error: aws::Error,
    live: &Live,
    object: &DistributionTenant,
    asker: &Caller,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Stop {
    if error.fault() != Fault::EntityMissing {
        return ended(error, way(object, Missing::Distribution), draft, ctx, pass);
    }
    let group = live.summary.connection_group_id.as_deref();
    let missing = missing(group, &error, asker, ctx).await;
    failed(error, way(object, missing), draft, ctx, pass)
}

/// CloudFront does not show it: that counts once it is old enough to be seen, and at a second look.
fn missed(key: &ObjectKey, ctx: &Ctx, draft: &mut Draft) -> Result<Left, Stop> {
    let memory = ctx.memory.of(key);
    if draft.status.id.is_none() && memory.answered && memory.made.is_none() {
        return Ok(Left::Gone); // every Create was refused
    }
    let Some(wait) = gone::unsure(key, ctx, draft) else {
        return Ok(Left::Gone);
    };
    let message = "CloudFront does not show the tenant; it is looked for once more";
    draft.no(Question::Ready, Reason::new(reasons::DELETING, message));
    Err(Stop::Told(wait))
}

/// How the object leaves a tenant that is not its own.
fn not_ours(
    found: &Tenant,
    tags: &Tags,
    key: &ObjectKey,
    ctx: &Ctx,
    draft: &Draft,
    pass: &Pass,
) -> Option<Left> {
    let marker = Marker::new(&ctx.deck.cluster, key);
    let on_record = draft.status.id.as_ref() == Some(&found.id);
    let whose = match tags::standing(tags::whose(tags, &marker), on_record, None) {
        Standing::Ours | Standing::Adopt { .. } => return None,
        Standing::NotOwned(whose) => whose,
    };
    if !on_record {
        return Some(Left::Gone); // what has the name is not what we asked for
    }
    let what = format!("tenant {} ({})", found.name, found.id);
    let reason = tags::not_owned(&what, &whose);
    let message = format!("the object goes and leaves it alone: {}", reason.message);
    pass.event(Note::warning(events::OWNERSHIP_LOST, message));
    Some(Left::NotOurs)
}

/// The tenant, by id and, where an answer of Create may have been lost, by name.
pub(super) async fn found(
    object: &DistributionTenant,
    key: &ObjectKey,
    cloudfront: &CloudFront,
    draft: &Draft,
) -> Result<Option<Tenant>, aws::Error> {
    let name = draft.status.tenant_name.clone();
    let name = name.or_else(|| object.spec.tenant_name.clone());
    let name = name.unwrap_or_else(|| key.name.to_string());
    let named = draft.status.id.clone().unwrap_or(name);
    match cloudfront.tenant(&named).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.fault() == Fault::EntityMissing => Ok(None),
        Err(error) => Err(error),
    }
}

/// One step towards its end: none is left if CloudFront has deleted it.
async fn step(
    found: Tenant,
    key: &ObjectKey,
    cloudfront: &CloudFront,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Option<Stop>, aws::Error> {
    let live = Live::from(found);
    facts::note(&mut draft.status, &live.summary);
    let (id, etag) = (live.summary.id.clone(), live.summary.etag.clone());
    if live.summary.enabled {
        let body = sent(&live.body().disabled(), None);
        kill_point("tenants-before-update");
        let answer = cloudfront.update_tenant(&id, &etag, &body).await;
        kill_point("tenants-after-update");
        let now = Live::from(answer?);
        draft.acted = true;
        ctx.memory.note(key, |memory| memory.replaced = Some(etag));
        facts::note(&mut draft.status, &now.summary);
        let message = format!("{id} is switched off before it is deleted");
        draft.note(Note::normal(reasons::DISABLING, message));
        let stop = disabling(&id, draft);
        // No poll follows what is deployed at once.
        let is_deployed = now.summary.is_deployed();
        return Ok(Some(if is_deployed { Stop::Again } else { stop }));
    }
    if !live.summary.is_deployed() {
        return Ok(Some(disabling(&id, draft)));
    }
    kill_point("tenants-before-delete");
    let answer = cloudfront.delete_tenant(&id, &etag).await;
    kill_point("tenants-after-delete");
    match answer {
        Ok(()) => {}
        Err(error) if error.fault() == Fault::EntityMissing => return Ok(None),
        // It is on its way there; polls tell when.
        Err(error) if error.fault() == Fault::NotDisabled => {
            draft.status.distribution_tenant_status = Some("InProgress".to_owned());
            return Ok(Some(disabling(&id, draft)));
        }
        Err(error) => return Err(error),
    }
    draft.acted = true;
    pass.event(Note::normal(
        events::DELETED,
        format!("CloudFront deleted tenant {id}"),
    ));
    Ok(None)
}

fn disabling(id: &str, draft: &mut Draft) -> Stop {
    let message = format!("CloudFront is switching {id} off; it is deleted after that");
    draft.no(Question::Ready, Reason::new(reasons::DISABLING, message));
    Stop::Told(PROGRESS)
}

/// Takes the records away; ends the pass until they are gone.
async fn records(
    object: &DistributionTenant,
    key: &ObjectKey,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &mut Pass,
) -> Result<(), Stop> {
    let wish = dns::inheritance(object, key, ctx, draft, pass).await?;
    let had = draft.status.dns_records.len();
    if had == 0 && wish.is_none() {
        return Ok(());
    }
    if is_in_cloudfront(draft) {
        // From here on only the records are left, whatever becomes of this process.
        facts::forget(&mut draft.status);
        let message = "the tenant is gone from CloudFront; its DNS records follow";
        draft.no(Question::Ready, Reason::new(reasons::DELETING, message));
        return Err(Stop::Again);
    }
    draft.held_up = true;
    let wish = wish.unwrap_or_else(|| dns::Wish::nothing(Vec::new(), Vec::new()));
    let served = Served::These(BTreeSet::new());
    dns::refresh(key, object.metadata.generation, ctx);
    let reached = dns::fulfil(key, &wish, &served, ctx, draft, pass).await?;
    if reached.again {
        return Err(Stop::Again);
    }
    if !draft.status.dns_records.is_empty() {
        let message = "its DNS records are being deleted";
        draft.no_yet(Question::Ready, Reason::new(reasons::DELETING, message));
        return Err(Stop::Told(reached.wait.unwrap_or(PROGRESS)));
    }
    pass.event(Note::normal(
        events::DNS_CLEANED,
        "its DNS records are gone from Route 53",
    ));
    Ok(())
}

/// Takes our marks off the records, so that the new owner of the tenant can take them over.
async fn unmark(
    object: &DistributionTenant,
    key: &ObjectKey,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &mut Pass,
) -> Result<(), Stop> {
    if draft.status.dns_records.is_empty() {
        return Ok(());
    }
    draft.held_up = true;
    let served = Served::These(BTreeSet::new());
    dns::refresh(key, object.metadata.generation, ctx);
    let reached = dns::fulfil(key, &dns::Wish::unmarked(), &served, ctx, draft, pass).await?;
    if reached.again {
        return Err(Stop::Again);
    }
    if !draft.status.dns_records.is_empty() {
        let message = "the marks on its DNS records are being removed";
        draft.no_yet(Question::Ready, Reason::new(reasons::DELETING, message));
        return Err(Stop::Told(reached.wait.unwrap_or(PROGRESS)));
    }
    Ok(())
}

/// Tells what stays in AWS.
fn retained(draft: &Draft, pass: &Pass) {
    let id = draft.status.id.as_deref().unwrap_or("no tenant");
    let records = draft.status.dns_records.iter();
    let records: Vec<String> = records
        .map(
            |DnsRecord {
                 name,
                 kind,
                 zone_id,
                 ..
             }| { format!("{} {name} in {zone_id}", kind.as_str()) },
        )
        .collect();
    let records = if records.is_empty() {
        "no records".to_owned()
    } else {
        crate::words::few(&records)
    };
    let message = format!("stays in AWS, because deletionPolicy is Retain: {id}, {records}");
    pass.event(Note::normal(events::RETAINED, message));
}
