//! What is ahead of a tenant's records.

use std::collections::{BTreeMap, BTreeSet};

use api::tenants::{DnsRecord, DriftPolicy, DriftedField, RecordAdoption, reasons};
use aws::Caller;
use kernel::ObjectKey;

use super::step::{Does, Step};
use super::{Look, Told};
use crate::ctx::Ctx;
use crate::dns::Zone;
use crate::dns::outlook::{Ahead, Foreseen, Needs, View, ahead};
use crate::dns::owner::Owner;
use crate::dns::plan::Served;
use crate::dns::record::{Action, Content, RecordSet};
use crate::dns::verdict::Verdict;
use crate::dns::want::{Want, Wanted};
use crate::tenant::dns::asker;
use crate::tenant::draft::Draft;
use crate::tenant::{dns, target};

/// Rounds of reading before it is given up.
const ROUNDS: usize = 8;

/// What is ahead of the records, once the tenant serves `served`.
pub(super) async fn records(look: &Look<'_>, served: BTreeSet<String>, draft: &Draft) -> Told {
    let Look {
        object,
        ground,
        asker,
        ctx,
        ..
    } = *look;
    if !dns::concerns(object, draft) {
        return Ok(Vec::new());
    }
    let status = &draft.status;
    let wish = match dns::route53(object) {
        None => dns::unwished(object),
        Some(told) => {
            let target = target::found(ground, status, asker, ctx).await;
            let Some(target) = target.map_err(|error| error.to_string())? else {
                let why = "the account has no default connection group yet; records follow it";
                return Ok(vec![Step::new(Does::Leave, "dns", why)]);
            };
            match dns::wished(told, ground, &target, status, ctx).await {
                Ok(Ok(wish)) => wish,
                Ok(Err(refusals)) => {
                    let why = refusals.to_string();
                    return Ok(vec![Step::new(Does::Refuse, reasons::DNS_ERROR, why)]);
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    };
    let served = Served::These(served);
    let found = foreseen(&ground.key, &status.dns_records, &wish, &served, asker, ctx).await?;
    Ok(changed(&found, ground.drift))
}

/// What is ahead if `key` wants `names` in these zones and takes over records that match.
pub(crate) async fn taking_over(
    key: &ObjectKey,
    names: Vec<Wanted>,
    zones: &[Zone],
    ctx: &Ctx,
) -> Result<Ahead, String> {
    let want = Want::These {
        names,
        adoption: RecordAdoption::Matching,
        drift: DriftPolicy::Enforce,
    };
    let wish = dns::Wish {
        want,
        zones: zones.to_vec(),
        inherited: Vec::new(),
    };
    let served = Served::These(BTreeSet::new());
    let asker = asker(key);
    foreseen(key, &[], &wish, &served, &asker, ctx).await
}

/// All hosted zones of our own account.
pub(crate) async fn zones(asker: &Caller, ctx: &Ctx) -> Result<Vec<Zone>, String> {
    let told = ctx.outside.zones(ctx.own().await, "", asker).await;
    Ok(told
        .map_err(|error| error.to_string())?
        .iter()
        .map(dns::seen)
        .collect())
}

/// Reads what has to be read, and then tells what is ahead.
pub(super) async fn foreseen(
    key: &ObjectKey,
    recorded: &[DnsRecord],
    wish: &dns::Wish,
    served: &Served,
    asker: &Caller,
    ctx: &Ctx,
) -> Result<Ahead, String> {
    let us = Owner::new(&ctx.deck.cluster, key);
    let zones = wish.zones.iter();
    let mut view = View {
        sights: BTreeMap::new(),
        zones: zones
            .map(|zone| (zone.id.clone(), zone.name.clone()))
            .collect(),
    };
    for _ in 0..ROUNDS {
        let found = ahead(recorded, &wish.want, &us, served, &wish.inherited, &view);
        let Needs { reads, unnamed } = match found {
            Ok(found) => return Ok(found),
            Err(needs) => needs,
        };
        for place in unnamed {
            let zone = dns::zone(&place, asker, ctx)
                .await
                .map_err(|error| error.to_string())?;
            view.zones.insert(place.zone, zone.name);
        }
        for look in reads {
            let sight = dns::read(&look, asker, ctx)
                .await
                .map_err(|error| error.to_string())?;
            view.sights.insert(look.spot, sight);
        }
    }
    Err("the DNS records changed again and again; ask again".to_owned())
}

/// The records' part, for people.
pub(super) fn changed(found: &Ahead, policy: DriftPolicy) -> Vec<Step> {
    let mut steps: Vec<_> = found.changes.iter().map(record).collect();
    match &found.verdict {
        Some(Verdict::Conflict(clashes)) => steps.extend(clashes.iter().map(|clash| {
            let what = format!("{} {}", clash.kind, clash.name);
            Step::new(Does::Refuse, what, clash.to_string())
        })),
        Some(Verdict::Failed(texts)) => {
            let refused = texts.iter();
            steps.extend(refused.map(|text| Step::new(Does::Refuse, "dns", text)));
        }
        Some(
            Verdict::NotConfigured { .. }
            | Verdict::Ready { .. }
            | Verdict::Creating { .. }
            | Verdict::Propagating { .. }
            | Verdict::Drift(_),
        )
        | None => {}
    }
    let left = match policy {
        DriftPolicy::Enforce => None, // it is among the changes
        DriftPolicy::Report => Some(Does::Report),
        DriftPolicy::Suspend => Some(Does::Leave),
    };
    if let Some(does) = left {
        let drift = found.drift.iter().cloned();
        steps.extend(drift.map(|DriftedField { field, want, live }| Step {
            want,
            live,
            ..Step::new(does, field, "changed in Route 53")
        }));
    }
    steps
}

fn record(one: &Foreseen) -> Step {
    let does = match one.action {
        Action::Create => Does::Create,
        Action::Upsert if one.live.is_none() => Does::Create,
        Action::Upsert => Does::Update,
        Action::Delete => Does::Delete,
    };
    let shown = |set: &RecordSet| match &set.content {
        Content::Values { ttl, .. } => format!("{} (ttl {ttl})", set.content),
        Content::Alias { .. } => set.content.to_string(),
    };
    let what = format!("{} {}", one.set.kind.as_str(), one.set.name);
    let mut step = Step::new(does, what, format!("in hosted zone {}", one.zone));
    match one.action {
        Action::Create | Action::Upsert => {
            step.want = Some(shown(&one.set));
            step.live = one.live.as_ref().map(shown);
        }
        Action::Delete => step.live = Some(shown(&one.set)),
    }
    step
}
