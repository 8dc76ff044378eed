//! A tenant's records, as far as one pass can bring them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::tenants::{
    DeletionPolicy, DistributionTenant, DistributionTenantStatus, Dns, DnsProvider, events, reasons,
};
use aws::{Asker, Priority};
use engine::{Note, Pass};
use kernel::{ObjectKey, Reason};

use super::draft::{Draft, Question};
use super::ground::{Ground, judged};
use super::stop::{Stop, failed};
use crate::allowed::{Leave, Named};
use crate::ctx::Ctx;
use crate::diff::told;
use crate::dns::inherit::{Inherited, inherited};
use crate::dns::known::Known;
use crate::dns::owner::Owner;
use crate::dns::plan::{self, Seen, Served, Step};
use crate::dns::verdict::Verdict;
use crate::dns::want::{Refusals, Want, wanted};
use crate::dns::zones::role;
use crate::dns::{Login, Place, Target, Zone, names, wire};
use crate::failure::{Way, slow};

/// How long a pass waits for an answer that wakes it, at most.
const ANSWER: Duration = Duration::from_secs(5 * 60);
/// Rounds of reading before a pass gives way to others.
const ROUNDS: usize = 8;

/// How far the records are.
#[derive(Debug, Default)]
pub(super) struct Reached {
    /// The names whose records are on all name servers.
    pub(super) insync: BTreeSet<String>,
    /// When to look again, if something is under way.
    pub(super) wait: Option<Duration>,
    /// Whether records were planned that are sent once the status has them.
    pub(super) again: bool,
}

/// The Route 53 part of the spec, if it has one.
pub(super) fn route53(object: &DistributionTenant) -> Option<&Dns> {
    let dns = object.spec.settings.dns.as_ref();
    dns.filter(|dns| dns.provider == DnsProvider::Route53)
}

/// Whether the tenant's records are any of our business.
pub(super) fn concerns(object: &DistributionTenant, draft: &Draft) -> bool {
    route53(object).is_some() || !draft.status.dns_records.is_empty()
}

/// What the records should be, and what is needed to know for it.
pub(super) struct Wish {
    pub(super) want: Want,
    pub(super) zones: Vec<Zone>,
    pub(super) inherited: Vec<Inherited>,
}

impl Wish {
    /// No records at all; `zones` are those known by name.
    pub(super) fn nothing(zones: Vec<Zone>, inherited: Vec<Inherited>) -> Self {
        Self {
            want: Want::Nothing,
            zones,
            inherited,
        }
    }

    /// The records stay, and nobody's mark is on them.
    pub(super) fn unmarked() -> Self {
        Self {
            want: Want::Unmarked,
            zones: Vec::new(),
            inherited: Vec::new(),
        }
    }
}

/// Brings the records a step further.
pub(super) async fn advance(
    object: &DistributionTenant,
    ground: &Ground,
    target: Option<&Target>,
    served: &Served,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Reached, Stop> {
    let wish = match (route53(object), target) {
        (Some(dns), Some(target)) => wish(dns, ground, target, ctx, draft, pass).await?,
        // Nothing to point to yet: what is there stays.
        (Some(_), None) => return Ok(Reached::default()),
        (None, _) => unwished(object),
    };
    refresh(&ground.key, ground.generation, ctx);
    fulfil(&ground.key, &wish, served, ctx, draft, pass).await
}

/// What becomes of the records where the spec asks for none.
pub(super) fn unwished(object: &DistributionTenant) -> Wish {
    match object.spec.deletion_policy {
        DeletionPolicy::Delete => Wish::nothing(Vec::new(), Vec::new()),
        DeletionPolicy::Retain => Wish::unmarked(),
    }
}

/// The records that the spec asks for; ends the pass if they cannot be told.
async fn wish(
    dns: &Dns,
    ground: &Ground,
    target: &Target,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Wish, Stop> {
    let wish = wished(dns, ground, target, &draft.status, ctx).await;
    let wish = wish.map_err(|error| failed(error, Way::Dns, draft, ctx, pass))?;
    wish.map_err(|refusals| refuse(&refusals.to_string(), draft, ctx))
}

/// The records that the spec asks for, if every domain has a place for them.
pub(super) async fn wished(
    dns: &Dns,
    ground: &Ground,
    target: &Target,
    status: &DistributionTenantStatus,
    ctx: &Ctx,
) -> Result<Result<Wish, Refusals>, aws::Error> {
    let distribution = &ground.declared.distribution_id;
    let zones = candidates(dns, &ground.key, distribution, &ground.leave, ctx).await?;
    let domains = ground.declared.domains.iter().map(String::as_str);
    let external_id = ground.leave.external_id.as_deref();
    let names = match wanted(domains, dns, &zones, target, external_id) {
        Ok(names) => names,
        Err(refusals) => return Ok(Err(refusals)),
    };
    let want = Want::These {
        names,
        adoption: dns.record_adoption,
        drift: ground.drift,
    };
    Ok(Ok(Wish {
        want,
        inherited: inherited(status, dns, &zones, external_id),
        zones,
    }))
}

/// That nothing should be left of what the predecessor wrote, if it left the object to us just now.
pub(super) async fn inheritance(
    object: &DistributionTenant,
    key: &ObjectKey,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Option<Wish>, Stop> {
    let Some(dns) = route53(object) else {
        return Ok(None);
    };
    if draft.status.dns_target.is_none() || !draft.status.dns_records.is_empty() {
        return Ok(None);
    }
    let distribution = &object.spec.distribution_id;
    let named = Named {
        distribution: Some(distribution),
        role: dns.assume_role_arn.as_deref(),
        ..Named::default()
    };
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let leave = judged(namespace, &named, ctx).unwrap_or_default();
    let zones = candidates(dns, key, distribution, &leave, ctx).await;
    let zones = zones.map_err(|error| failed(error, Way::Dns, draft, ctx, pass))?;
    let inherited = inherited(&draft.status, dns, &zones, leave.external_id.as_deref());
    Ok((!inherited.is_empty()).then(|| Wish::nothing(zones, inherited)))
}

/// Brings the records a step nearer to a wish.
pub(super) async fn fulfil(
    key: &ObjectKey,
    wish: &Wish,
    served: &Served,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Reached, Stop> {
    let asker = asker(key);
    let us = Owner::new(&ctx.deck.cluster, key);
    let mut named: BTreeMap<String, String> = wish
        .zones
        .iter()
        .map(|zone| (zone.id.clone(), zone.name.clone()))
        .collect();
    for _ in 0..ROUNDS {
        let pending = plan::pending(&draft.status.dns_records);
        let ended = ctx.changes.ended(pending.keys().copied());
        let known = ctx.zones.known(key);
        let seen = Seen {
            us: &us,
            known: &known,
            zones: &named,
            insync: &ended.insync,
            lost: &ended.lost,
            served,
            inherited: &wish.inherited,
        };
        let step = plan::next(&draft.status.dns_records, &wish.want, &seen);
        if step.reads.is_empty() && step.unnamed.is_empty() {
            return Ok(taken(step, key, ctx, draft));
        }
        for place in &step.unnamed {
            let zone = zone(place, &asker, ctx).await;
            let zone = zone.map_err(|error| failed(error, Way::Dns, draft, ctx, pass))?;
            named.insert(place.zone.clone(), zone.name);
        }
        for look in &step.reads {
            let sight = read(look, &asker, ctx).await;
            let sight = sight.map_err(|error| failed(error, Way::Dns, draft, ctx, pass))?;
            ctx.zones
                .note(key, |known| known.read(look.spot.clone(), sight));
        }
    }
    Ok(Reached {
        wait: Some(ANSWER),
        ..Reached::default()
    })
}

fn asker(key: &ObjectKey) -> Asker {
    Asker::new(Priority::Edit, key.namespace.clone().unwrap_or_default())
}

/// What was refused is looked at again when the spec was edited or its time has come.
pub(super) fn refresh(key: &ObjectKey, generation: Option<i64>, ctx: &Ctx) {
    let now = ctx.deck.clock.elapsed();
    let due = ctx.memory.note(key, |memory| {
        let edited = memory.dns_generation != generation;
        memory.dns_generation = generation;
        let is_due = memory.dns_again.is_some_and(|again| now >= again);
        if edited || is_due {
            memory.dns_again = None;
        }
        edited || is_due
    });
    if due {
        ctx.zones.note(key, Known::look_again);
    }
}

/// Takes a step over into status, zones and conditions.
fn taken(step: Step, key: &ObjectKey, ctx: &Ctx, draft: &mut Draft) -> Reached {
    let now = ctx.deck.clock.elapsed();
    draft.status.dns_records = step.records.clone();
    draft.status.dns_target = plan::target(&step.records).map(str::to_owned);
    let pending = plan::pending(&step.records);
    draft.status.dns_change_id = pending.keys().next().map(|change| (*change).to_owned());
    for (change, login) in pending {
        ctx.changes.follow(change, &login, key, now);
    }
    for clash in &step.left {
        let told = format!("{clash}; it stays");
        draft.note(Note::warning(reasons::DNS_CONFLICT, told));
    }
    let is_under_way = !step.submit.is_empty() || step.again;
    let mut wait = None;
    if let Some(verdict) = &step.verdict {
        wait = say(verdict, key, ctx, draft);
    }
    if !step.submit.is_empty() {
        ctx.zones.submit(key, step.submit.clone(), now);
    }
    let reached = Reached {
        insync: step.insync.clone(),
        wait: wait.or((is_under_way || step.verdict.is_none()).then_some(ANSWER)),
        again: step.again,
    };
    if !step.corrected.is_empty() {
        ctx.metrics.drifted();
        let message = format!("put right in Route 53: {}", told(&step.corrected));
        draft.note(Note::warning(events::DRIFT_CORRECTED, message));
    }
    let left = step.drift.iter();
    let left = left.filter(|one| !step.corrected.contains(one));
    draft.drifted_records = left.cloned().collect();
    draft.step = Some(step);
    reached
}

/// Puts the verdict into DNSReady; when to look again.
fn say(verdict: &Verdict, key: &ObjectKey, ctx: &Ctx, draft: &mut Draft) -> Option<Duration> {
    let reason = verdict.reason();
    let since = draft.since(Question::Dns, &reason.code, ctx.now());
    let is_first = since.is_zero() && !draft.says(Question::Dns, &reason.code);
    if is_first && reason.code == reasons::DNS_RECORD_CREATING {
        let told = reason.message.clone();
        draft.note(Note::normal(reasons::DNS_RECORD_CREATING, told));
    }
    match verdict {
        Verdict::NotConfigured { .. } | Verdict::Ready { .. } => {
            draft.yes(Question::Dns, reason);
            None
        }
        Verdict::Creating { .. } | Verdict::Propagating { .. } => {
            draft.no(Question::Dns, reason);
            Some(ANSWER)
        }
        Verdict::Conflict(_) | Verdict::Failed(_) => {
            let wait = slow(since, fastrand::f64());
            let again = ctx.deck.clock.elapsed() + wait;
            ctx.memory
                .note(key, |memory| *memory.dns_again.get_or_insert(again));
            if draft.is_held_up() {
                let held = Reason::new(reasons::DNS_ERROR, reason.message.clone());
                draft.no(Question::Ready, held);
            }
            draft.no(Question::Dns, reason);
            Some(wait)
        }
        Verdict::Drift(_) => {
            draft.no(Question::Dns, reason);
            None
        }
    }
}

fn refuse(text: &str, draft: &mut Draft, ctx: &Ctx) -> Stop {
    ctx.metrics.failed("dns_error");
    let reason = Reason::new(reasons::DNS_ERROR, text);
    let since = draft.since(Question::Dns, &reason.code, ctx.now());
    if draft.is_held_up() {
        draft.no(Question::Ready, reason.clone());
    }
    draft.no(Question::Dns, reason);
    Stop::Told(slow(since, fastrand::f64()))
}

/// The zones that may hold the records: those the spec names, or all that the account has and a
/// policy allows.
async fn candidates(
    dns: &Dns,
    key: &ObjectKey,
    distribution: &str,
    leave: &Leave,
    ctx: &Ctx,
) -> Result<Vec<Zone>, aws::Error> {
    let asker = asker(key);
    let login = Login {
        role_arn: dns.assume_role_arn.clone().filter(|arn| !arn.is_empty()),
        external_id: leave.external_id.clone(),
    };
    let mut all = Vec::new();
    for id in dns.zones() {
        let place = Place {
            zone: id.to_owned(),
            login: login.clone(),
        };
        all.push(zone(&place, &asker, ctx).await?);
    }
    if dns.discover_zones {
        let account = ctx.account(role(&login)?.as_ref()).await;
        let role = login.role_arn.as_deref().unwrap_or_default();
        let told = ctx.outside.zones(&account, role, &asker).await?;
        let allowed = |zone: &&aws::route53::Zone| {
            let named = Named {
                distribution: Some(distribution),
                zones: vec![&zone.id],
                role: login.role_arn.as_deref(),
                ..Named::default()
            };
            let namespace = key.namespace.as_deref().unwrap_or_default();
            judged(namespace, &named, ctx).is_ok()
        };
        all.extend(told.iter().filter(allowed).map(seen));
    }
    Ok(all)
}

/// A zone, by its id.
pub(super) async fn zone(place: &Place, asker: &Asker, ctx: &Ctx) -> Result<Zone, aws::Error> {
    let account = ctx.account(role(&place.login)?.as_ref()).await;
    let role = place.login.role_arn.as_deref().unwrap_or_default();
    let zone = ctx.outside.zone(&account, role, asker, &place.zone).await?;
    Ok(seen(&zone))
}

/// A zone, as plans have it.
pub(super) fn seen(zone: &aws::route53::Zone) -> Zone {
    Zone {
        id: zone.id.clone(),
        name: names::canonical(&zone.name),
        private: zone.private,
    }
}

/// What is at a name.
pub(super) async fn read(
    look: &plan::Look,
    asker: &Asker,
    ctx: &Ctx,
) -> Result<crate::dns::known::Sight, aws::Error> {
    let account = ctx.account(role(&look.place.login)?.as_ref()).await;
    wire::read(look, &account, asker).await
}
