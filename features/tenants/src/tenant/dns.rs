//! A tenant's records, as far as one pass can bring them.

mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::task::Poll;
use std::time::Duration;

use api::tenants::{
    DeletionPolicy, DistributionTenant, DistributionTenantStatus, Dns, DnsProvider, DnsRecord,
    RecordState, events, reasons,
};
use aws::Fault;
use engine::{Note, Pass};
use kernel::{ObjectKey, Reason};

use super::draft::{Draft, Question};
use super::ground::{Ground, judged};
use super::stop::{Stop, count, failed, moment};
use crate::allowed::{Leave, Named};
use crate::ctx::{Ctx, Ours};
use crate::diff::told;
use crate::dns::inherit::{Inherited, inherited};
use crate::dns::known::Known;
use crate::dns::owner::Owner;
use crate::dns::plan::{self, Seen, Served, Step};
use crate::dns::verdict::Verdict;
use crate::dns::want::{Refusals, Want, wanted};
use crate::dns::{Spot, Target, Zone};
use crate::failure::{Way, slow};
use search::{Search, candidates, look, may_use};
pub(super) use search::{asker, read, seen, zone};

/// How long a pass waits for an answer that wakes it, at most.
const ANSWER: Duration = Duration::from_secs(5 * 60);
/// Rounds of reading before a pass gives way to others.
const ROUNDS: usize = 8;

/// Waits for Route 53 without a place among the running passes, unless it is told at once.
async fn aside<T>(pass: &mut Pass, wait: impl Future<Output = T> + Send) -> T {
    let mut wait = Box::pin(wait);
    match futures::poll!(wait.as_mut()) {
        Poll::Ready(told) => told,
        Poll::Pending => pass.outside(wait).await,
    }
}

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

/// Where records have to lead.
#[derive(Clone, Copy)]
pub(super) struct Course<'a> {
    /// None while nobody can tell.
    pub(super) target: Option<&'a Target>,
    /// The only names that may lead there already; others stay as they are. None: all.
    pub(super) only: Option<&'a BTreeSet<String>>,
}

impl<'a> Course<'a> {
    /// All names, at once.
    pub(super) fn of(target: Option<&'a Target>) -> Self {
        Self { target, only: None }
    }

    /// Lets the names that have to wait lead where they do.
    fn hold(self, wish: &mut Wish, records: &[DnsRecord]) {
        let Some(only) = self.only else {
            return;
        };
        if let Want::These { names, .. } = &mut wish.want {
            for name in names
                .iter_mut()
                .filter(|one| !only.contains(&one.spot.name))
            {
                name.lead_as(records);
            }
        }
    }
}

/// Brings the records a step further.
pub(super) async fn advance(
    object: &DistributionTenant,
    ground: &Ground,
    course: Course<'_>,
    served: &Served,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &mut Pass,
) -> Result<Reached, Stop> {
    let is_planned = |one: &DnsRecord| one.state == RecordState::Planned;
    draft.held_up |= route53(object).is_some() && draft.status.dns_records.iter().any(is_planned);
    let wish = match (route53(object), course.target) {
        (Some(dns), Some(target)) => {
            let mut wish = wish(dns, ground, target, ctx, draft, pass).await?;
            course.hold(&mut wish, &draft.status.dns_records);
            wish
        }
        // Nothing to point to yet: what is there stays.
        (Some(_), None) => return Ok(Reached::default()),
        (None, _) => unwished(object),
    };
    // What the predecessor wrote is there, whatever the list says.
    let records = &draft.status.dns_records;
    draft.held_up |= wish.inherited.is_empty() && plan::is_behind(records, &wish.want);
    recall(&ground.key, ctx, draft);
    refresh(&ground.key, ground.generation, ctx);
    let reached = fulfil(&ground.key, &wish, served, ctx, draft, pass).await?;
    let verdict = draft.step.as_ref().and_then(|step| step.verdict.as_ref());
    if let Some(verdict @ Verdict::NotConfigured { .. }) = verdict
        && object.spec.settings.dns.is_none()
    {
        draft.yes(Question::Dns, verdict.reason());
    }
    Ok(reached)
}

/// After a restart nobody knows how others changed records: that it was told is all that is left,
/// so they are read.
fn recall(key: &ObjectKey, ctx: &Ctx, draft: &Draft) {
    let is_new = ctx.memory.of(key).dns_generation.is_none();
    let mut told = [reasons::DNS_DRIFT, reasons::DNS_CONFLICT].into_iter();
    if is_new && told.any(|reason| draft.says(Question::Dns, reason)) {
        let records = draft.status.dns_records.iter();
        let applied = records.filter(|one| one.state == RecordState::Applied);
        ctx.zones.note(key, |known| {
            for one in applied {
                known.doubt(Spot::of(one));
            }
        });
    }
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
    pass: &mut Pass,
) -> Result<Wish, Stop> {
    let wish = aside(pass, wished(dns, ground, target, &draft.status, ctx)).await;
    let wish = wish.map_err(|error| failed(error, Way::Dns, draft, ctx, pass))?;
    wish.map_err(|refusals| refuse(&refusals.to_string(), &ground.key, draft, ctx))
}

/// The records that the spec asks for, if every domain has a place for them.
pub(super) async fn wished(
    dns: &Dns,
    ground: &Ground,
    target: &Target,
    status: &DistributionTenantStatus,
    ctx: &Ctx,
) -> Result<Result<Wish, Refusals>, aws::Error> {
    let external_id = ground.leave.external_id.as_deref();
    let domains = ground.declared.domains.iter().map(String::as_str);
    let search = Search {
        dns,
        key: &ground.key,
        external_id,
        domains: domains.clone().collect(),
    };
    let zones = candidates(&search, |zone| may_use(zone, dns, ground, ctx), ctx).await?;
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
    pass: &mut Pass,
) -> Result<Option<Wish>, Stop> {
    let Some(dns) = route53(object) else {
        return Ok(None);
    };
    if draft.status.dns_target.is_none() || !draft.status.dns_records.is_empty() {
        return Ok(None);
    }
    // Deletion is not denied, but no role is assumed because the spec alone says so.
    let role = dns.assume_role_arn.as_deref();
    let named = Named {
        role: role.filter(|arn| !arn.is_empty()),
        ..Named::default()
    };
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let leave = match judged(namespace, &named, ctx) {
        Ok(leave) => leave,
        Err(_) if named.role.is_some() => return Ok(None),
        Err(_) => Leave::default(),
    };
    let external_id = leave.external_id.as_deref();
    let served = draft.status.domain_results.iter();
    let search = Search {
        dns,
        key,
        external_id,
        domains: served.map(|result| result.domain.as_str()).collect(),
    };
    let zones = match aside(pass, candidates(&search, |_| true, ctx)).await {
        Ok(zones) => zones,
        // With the zone went all that was there.
        Err(error) if error.fault() == Fault::ZoneMissing => {
            count(&error, Way::Dns, ctx);
            return Ok(None);
        }
        Err(error) => return Err(failed(error, Way::Dns, draft, ctx, pass)),
    };
    let inherited = inherited(&draft.status, dns, &zones, external_id);
    Ok((!inherited.is_empty()).then(|| Wish::nothing(zones, inherited)))
}

/// Brings the records a step nearer to a wish.
pub(super) async fn fulfil(
    key: &ObjectKey,
    wish: &Wish,
    served: &Served,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &mut Pass,
) -> Result<Reached, Stop> {
    let us = Owner::new(&ctx.deck.cluster, key);
    let mut named: BTreeMap<String, String> = wish
        .zones
        .iter()
        .map(|zone| (zone.id.clone(), zone.name.clone()))
        .collect();
    for _ in 0..ROUNDS {
        let pending = plan::pending(&draft.status.dns_records);
        let changes = ctx.changes.ended(pending.keys().copied());
        let seen = Seen {
            us: &us,
            known: &ctx.zones.known(key),
            zones: &named,
            changes: &changes,
            troubled: &ctx.zones.troubled(),
            served,
            inherited: &wish.inherited,
        };
        let step = plan::next(&draft.status.dns_records, &wish.want, &seen);
        if step.reads.is_empty() && step.unnamed.is_empty() {
            ctx.memory.note(key, |memory| memory.dns_trouble.over());
            return Ok(taken(step, key, ctx, draft));
        }
        let looking = look(&step, key, &mut named, &draft.status.dns_records, ctx);
        let looked = aside(pass, looking).await;
        looked.map_err(|error| failed(error, Way::Dns, draft, ctx, pass))?;
    }
    Ok(Reached {
        wait: Some(ANSWER),
        ..Reached::default()
    })
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
        ctx.changes.look_again(key, now);
    }
}

/// Takes a step over into status, zones and conditions.
fn taken(step: Step, key: &ObjectKey, ctx: &Ctx, draft: &mut Draft) -> Reached {
    let now = ctx.deck.clock.elapsed();
    draft.status.dns_records.clone_from(&step.records);
    draft.status.dns_target = plan::target(&step.records).map(str::to_owned);
    let pending = plan::pending(&step.records);
    draft.status.dns_change_id = pending.keys().next().map(|change| (*change).to_owned());
    for (change, login) in pending {
        if ctx.changes.follow(change, &login, key, now) {
            ctx.wake_in(Ours::Tenant, key, Duration::ZERO);
        }
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
        ctx.zones.note(key, |known| known.corrects(&step.news));
    }
    let reached = Reached {
        insync: step.insync.clone(),
        wait: wait.or((is_under_way || step.verdict.is_none()).then_some(ANSWER)),
        again: step.again,
    };
    if !step.news.is_empty() {
        ctx.metrics.drifted();
        let news: Vec<_> = step.news.values().flatten().cloned().collect();
        let message = format!("put right in Route 53: {}", told(&news));
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
        // Said where the spec is known: one that goes has not changed its mind.
        Verdict::NotConfigured { .. } => None,
        Verdict::Ready { .. } => {
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
            if draft.held_up {
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

fn refuse(text: &str, key: &ObjectKey, draft: &mut Draft, ctx: &Ctx) -> Stop {
    ctx.metrics.failed("dns_error");
    let reason = Reason::new(reasons::DNS_ERROR, text);
    let at = moment(draft, ctx);
    let wait = ctx.memory.note(key, |memory| {
        memory.dns_trouble.blocked(reasons::DNS_ERROR, &at)
    });
    if draft.held_up {
        draft.no(Question::Ready, reason.clone());
    }
    draft.no(Question::Dns, reason);
    Stop::Held(wait)
}
