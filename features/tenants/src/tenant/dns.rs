//! A tenant's records, as far as one pass can bring them.

mod search;
mod take;

use std::collections::{BTreeMap, BTreeSet};
use std::task::Poll;
use std::time::Duration;

use api::tenants::{
    DeletionPolicy, DistributionTenant, DistributionTenantStatus, Dns, DnsProvider, DnsRecord,
    RecordState,
};
use aws::Fault;
use engine::Pass;
use kernel::ObjectKey;

use super::draft::{Draft, Question};
use super::ground::{Ground, judged};
use super::stop::{Stop, count};
use crate::allowed::{Leave, Named};
use crate::ctx::Ctx;
use crate::dns::inherit::{Inherited, inherited};
use crate::dns::known::Known;
use crate::dns::listing::tells_of_others;
use crate::dns::owner::Owner;
use crate::dns::plan::{self, Seen, Served};
use crate::dns::verdict::Verdict;
use crate::dns::want::{Refusals, Want, wanted};
use crate::dns::{Spot, Target, Zone};
use crate::failure::Way;
use search::{Search, candidates, look, may_use};
pub(super) use search::{asker, read, seen, zone};
pub(super) use take::restate;
use take::{refuse, take, untold};

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
    if is_new && tells_of_others(&draft.status) {
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
    let wish = wish.map_err(|error| untold(error, draft, ctx, pass))?;
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
    let named = Named {
        role: dns.role(),
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
        Err(error) => return Err(untold(error, draft, ctx, pass)),
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
        let changes = ctx.zones.writer.propagated(pending.keys().copied());
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
            return Ok(take(step, &changes, key, ctx, draft));
        }
        let looking = look(&step, key, &mut named, &draft.status.dns_records, ctx);
        let looked = aside(pass, looking).await;
        looked.map_err(|error| untold(error, draft, ctx, pass))?;
    }
    restate(draft);
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
        ctx.zones.writer.poll_soon(key);
    }
}
