//! Once an hour every zone in use is listed, and what differs from our records is looked at.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use api::tenants::{DistributionTenant, DnsRecord, RecordState};
use aws::route53::Start;
use aws::{Asker, Priority};
use engine::{Index, Kind, Stored};
use kernel::{ObjectKey, spread};

use super::known::Sight;
use super::owner::Owner;
use super::record::{Likeness, RecordSet};
use super::zones::role;
use super::{Login, Place, Spot, names};
use crate::ctx::{Ctx, Ours};

/// Tenants by the zones that hold records of theirs.
const BY_ZONE: &str = "tenants.zone";
/// How often zones are listed, give or take a tenth.
const HOUR: Duration = Duration::from_secs(60 * 60);
const SPREAD: f64 = 0.1;
/// Pages of one list; beyond that Route 53 goes round in circles.
const PAGES: usize = 10_000;

/// Teaches the cache of tenants what listings ask it.
pub(crate) fn index(ctx: &Ctx) {
    let store = ctx.caches.tenants.store();
    store.index(Index::by(BY_ZONE, |tenant| {
        let mut zones: Vec<_> = applied(tenant).map(|one| one.zone_id).collect();
        zones.sort();
        zones.dedup();
        zones
    }));
}

/// Lists zones for as long as it is polled.
pub(crate) async fn listings(ctx: Arc<Ctx>) {
    loop {
        let wait = spread(HOUR, SPREAD, fastrand::f64());
        tokio::time::sleep(ctx.deck.clock.real(wait)).await;
        for zone in ctx.caches.tenants.store().values(BY_ZONE) {
            if let Err(error) = list(&ctx, &zone).await {
                tracing::warn!(zone, %error, "zone cannot be listed");
            }
        }
    }
}

/// The records of a tenant that Route 53 took and that nothing is about to change.
fn applied(tenant: &Stored) -> impl Iterator<Item = DnsRecord> + use<> {
    let object = tenant.parse(&Kind::of::<DistributionTenant>());
    let status = object
        .ok()
        .and_then(|object: DistributionTenant| object.status);
    let records = status.unwrap_or_default().dns_records.into_iter();
    records.filter(|one| one.state == RecordState::Applied && one.change_id.is_none())
}

async fn list(ctx: &Ctx, zone: &str) -> Result<(), aws::Error> {
    let tenants = ctx.caches.tenants.store().by(BY_ZONE, zone);
    let mut logins: BTreeMap<Login, Vec<ObjectKey>> = BTreeMap::new();
    for tenant in &tenants {
        let first = applied(tenant).find(|one| one.zone_id == zone);
        if let Some(first) = first {
            let of = logins.entry(Login::of(&first)).or_default();
            of.push(tenant.key().clone());
        }
    }
    for (login, keys) in logins {
        let place = Place {
            zone: zone.to_owned(),
            login,
        };
        let sets = whole(ctx, &place).await?;
        for key in keys {
            compare(ctx, &place, &key, &sets).await;
        }
    }
    Ok(())
}

/// All record sets of a zone, by name.
async fn whole(ctx: &Ctx, place: &Place) -> Result<HashMap<String, Vec<RecordSet>>, aws::Error> {
    let account = ctx.account(role(&place.login)?.as_ref()).await;
    let route53 = account.route53(&Asker::new(Priority::Sweep, ""));
    let (mut sets, mut from): (HashMap<_, Vec<RecordSet>>, _) = (HashMap::new(), None::<Start>);
    for _ in 0..PAGES {
        let page = route53.records(&place.zone, from.as_ref()).await?;
        for record in page.items {
            let of = sets.entry(record.name.clone()).or_default();
            of.push(record.into());
        }
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    Ok(sets)
}

/// Hands what the list shows of a tenant's names to its next pass, if it is not as recorded.
async fn compare(
    ctx: &Ctx,
    place: &Place,
    key: &ObjectKey,
    sets: &HashMap<String, Vec<RecordSet>>,
) {
    // The status of now: records may have changed while the list was read.
    let Some(tenant) = ctx.caches.tenants.store().get(key) else {
        return;
    };
    let asker = Asker::new(Priority::Sweep, "");
    let Ok(role) = role(&place.login) else { return };
    let account = ctx.account(role.as_ref()).await;
    let role = place.login.role_arn.as_deref().unwrap_or_default();
    let zone = ctx.outside.zone(&account, role, &asker, &place.zone).await;
    let Ok(zone) = zone else { return };
    let us = Owner::new(&ctx.deck.cluster, key);
    let mut doubted = false;
    for record in applied(&tenant).filter(|one| one.zone_id == place.zone) {
        let Some(mark) = names::mark_name(&record.name, Some(&names::canonical(&zone.name))) else {
            continue;
        };
        let all = names::to_read(&record.name, &mark);
        let seen = all.iter().filter_map(|name| sets.get(name)).flatten();
        let sight = Sight {
            sets: seen.cloned().collect(),
        };
        if !shows(&sight, &record, &mark, &us) {
            let spot = Spot::of(&record);
            ctx.zones.note(key, |known| known.read(spot, sight));
            doubted = true;
        }
    }
    if doubted {
        ctx.memory.note(key, |memory| memory.doubted = true);
        ctx.wake_in(Ours::Tenant, key, Duration::ZERO);
    }
}

/// Whether a name is as `record` says, and marked as ours.
fn shows(sight: &Sight, record: &DnsRecord, mark: &str, us: &Owner) -> bool {
    let is_there = sight
        .at(&record.name)
        .any(|set| set.likeness(record) == Likeness::Same);
    let ours = RecordSet::txt(mark, us.txt());
    is_there && sight.at(mark).any(|set| *set == ours)
}
