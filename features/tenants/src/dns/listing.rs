//! Once an hour every zone in use is listed, and what differs from our records is looked at.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use api::tenants::{DistributionTenantStatus, DnsRecord, RecordState, conditions, reasons};
use aws::route53::zone_writer::{ZoneAccess, ZoneRole};
use aws::{Caller, Priority};
use engine::Index;
use kernel::{ObjectKey, find, spread};

use super::known::Known;
use super::owner::Owner;
use super::record::{Likeness, RecordSet};
use super::zones::TenantRecords;
use super::{Spot, login_of, names};
use crate::body::Field;
use crate::ctx::{Ctx, Ours};
use crate::failure::Way;
use crate::outside::{insist, passes};
use crate::sweep::status;

/// TenantRecords by the zones that hold records of theirs.
const BY_ZONE: &str = "tenants.zone";
/// How often zones are listed, give or take a tenth.
const HOUR: Duration = Duration::from_secs(60 * 60);
const SPREAD: f64 = 0.1;

/// Teaches the cache of tenants what listings ask it.
pub(crate) fn index(ctx: &Ctx) {
    let store = ctx.caches.tenants.store();
    store.index(Index::by(BY_ZONE, |tenant| {
        let status = status(tenant);
        let zones = applied(&status).map(|one| one.zone_id.clone());
        zones.collect::<BTreeSet<_>>().into_iter().collect()
    }));
}

/// Lists zones for as long as it is polled.
pub(crate) async fn listings(ctx: Arc<Ctx>) {
    loop {
        let wait = spread(HOUR, SPREAD, fastrand::f64());
        tokio::time::sleep(ctx.deck.clock.real(wait)).await;
        for zone in ctx.caches.tenants.store().values(BY_ZONE) {
            list_zone(&ctx, &zone).await;
        }
    }
}

/// Lists one zone, once for each way into it.
async fn list_zone(ctx: &Arc<Ctx>, zone: &str) {
    let mut logins: BTreeMap<ZoneRole, Vec<ObjectKey>> = BTreeMap::new();
    for tenant in ctx.caches.tenants.store().by(BY_ZONE, zone) {
        if let Some(login) = way_in(&status(&tenant), zone) {
            logins.entry(login).or_default().push(tenant.key().clone());
        }
    }
    for (login, keys) in logins {
        let zone = zone.to_owned();
        let place = ZoneAccess { zone, login };
        match whole(ctx, &place).await {
            Ok(listed) => {
                for key in &keys {
                    compare(ctx, &listed, key);
                }
            }
            Err(error) => {
                tracing::warn!(zone = place.zone, %error, "zone cannot be listed");
                if !passes(error.fault(), Way::Dns) {
                    for key in &keys {
                        unlisted(ctx, &place.zone, key);
                    }
                }
            }
        }
    }
}

/// A zone as it was listed.
struct Listed {
    id: String,
    /// Its name, as [`names::canonical`] gives it.
    name: String,
    sets: Sets,
}

/// Record sets by their name.
pub(super) type Sets = HashMap<String, Vec<RecordSet>>;

/// All of a zone. What fails is asked for again.
async fn whole(ctx: &Arc<Ctx>, place: &ZoneAccess) -> Result<Listed, aws::Error> {
    let user = TenantRecords(Arc::clone(ctx));
    let mut sets = Sets::new();
    for record in ctx.zones.writer.records(&user, place).await? {
        let of = sets.entry(record.name.clone()).or_default();
        of.push(record.into());
    }
    let asker = Caller::new(Priority::Sweep, "");
    let account = ctx.account(place.login.role()?.as_ref()).await;
    let role = place.login.role_arn.as_deref().unwrap_or_default();
    let zone = || ctx.outside.zone(&account, role, &asker, &place.zone);
    let zone = insist(ctx, Way::Dns, zone).await?;
    Ok(Listed {
        id: place.zone.clone(),
        name: names::canonical(&zone.name),
        sets,
    })
}

/// Has those names of a tenant read again that the list gives reason to.
fn compare(ctx: &Ctx, listed: &Listed, key: &ObjectKey) {
    // The status of now: records may have changed while the list was read.
    let Some(tenant) = ctx.caches.tenants.store().get(key) else {
        return;
    };
    let Listed { id, name, sets } = listed;
    let us = Owner::new(&ctx.deck.cluster, key);
    let known = ctx.zones.known(key);
    doubt(
        ctx,
        key,
        doubtful(&status(&tenant), (id, name), sets, &known, &us),
    );
}

/// Has all names of a tenant read that are in a zone which refuses to be listed: it is told why.
fn unlisted(ctx: &Ctx, zone: &str, key: &ObjectKey) {
    let tenant = ctx.caches.tenants.store().get(key);
    let status = tenant.map(|tenant| status(&tenant)).unwrap_or_default();
    let there = applied(&status).filter(|one| one.zone_id == zone);
    doubt(ctx, key, there.map(Spot::of).collect());
}

fn doubt(ctx: &Ctx, key: &ObjectKey, spots: BTreeSet<Spot>) {
    if spots.is_empty() {
        return;
    }
    ctx.zones.note(key, |known| {
        for spot in spots {
            known.doubt(spot);
        }
    });
    ctx.memory.note(key, |memory| memory.doubted = true);
    ctx.wake_in(Ours::Tenant, key, Duration::ZERO);
}

/// The records of a tenant that Route 53 took and that nothing is about to change.
fn applied(status: &DistributionTenantStatus) -> impl Iterator<Item = &DnsRecord> {
    let is_at_rest =
        |one: &&DnsRecord| one.state == RecordState::Applied && one.change_id.is_none();
    status.dns_records.iter().filter(is_at_rest)
}

/// Whose credentials a tenant's records in a zone were written with. None where a policy denies
/// what the tenant names: no role is assumed for it.
fn way_in(status: &DistributionTenantStatus, zone: &str) -> Option<ZoneRole> {
    if says(status, conditions::READY, reasons::POLICY_DENIED) {
        return None;
    }
    let first = applied(status).find(|one| one.zone_id == zone)?;
    Some(login_of(first))
}

fn says(status: &DistributionTenantStatus, kind: &str, reason: &str) -> bool {
    find(&status.conditions, kind).is_some_and(|one| one.reason == reason)
}

/// Whether a tenant tells that others changed records of its own: by its condition or, where that
/// is not to say so, by what it lists.
pub(crate) fn tells_of_others(status: &DistributionTenantStatus) -> bool {
    let mut told = [reasons::DNS_DRIFT, reasons::DNS_CONFLICT].into_iter();
    let mut listed = status.drift.iter();
    told.any(|reason| says(status, conditions::DNS_READY, reason))
        || listed.any(|one| Field::named(&one.field).is_none())
}

/// The names of a tenant in a zone, given by its id and name, that are to be read.
///
/// | a name that                                         | because                            |
/// |-----------------------------------------------------|------------------------------------|
/// | is not as recorded, or not marked as ours           | others may have changed it         |
/// | was read before, and that still counts              | others may have changed it since   |
/// | is of a tenant that tells of others' changes        | they may have set it right         |
///
/// The list may be older than our last change: it gives reason to read, and is no read.
pub(super) fn doubtful(
    status: &DistributionTenantStatus,
    (zone, name): (&str, &str),
    sets: &Sets,
    known: &Known,
    us: &Owner,
) -> BTreeSet<Spot> {
    let is_told = tells_of_others(status);
    let here = applied(status).filter(|one| one.zone_id == zone);
    let doubtful = here.filter(|record| {
        is_told || known.has_sight(&Spot::of(record)) || !is_so(record, name, sets, us)
    });
    doubtful.map(Spot::of).collect()
}

/// Whether a list shows a name as `record` says, and marked as ours.
fn is_so(record: &DnsRecord, zone: &str, sets: &Sets, us: &Owner) -> bool {
    let Some(mark) = names::mark_name(&record.name, Some(zone)) else {
        return false;
    };
    let at = |name: &str| sets.get(name).into_iter().flatten();
    let ours = RecordSet::txt(&mark, us.txt());
    let mut marks = at(&mark);
    let mut there = at(&record.name);
    there.any(|set| set.likeness(record) == Likeness::Same) && marks.any(|set| *set == ours)
}

#[cfg(test)]
mod tests {
    use api::tenants::DriftedField;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::dns::known::Sight;
    use crate::dns::tests::{a_spot, owner, records, sets};

    const RECORDED: &str = "Applied CNAME d0 300";

    fn status(recorded: &str, dns: &str, ready: &str) -> DistributionTenantStatus {
        let condition = |kind: &str, reason: &str| {
            json!({"type": kind, "status": "False", "reason": reason, "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let conditions = [condition("DNSReady", dns), condition("Ready", ready)];
        let status = json!({"dnsRecords": records(recorded), "conditions": conditions});
        serde_json::from_value(status).unwrap()
    }

    fn listed(live: &str) -> Sets {
        let mut all = Sets::new();
        for set in sets(live) {
            all.entry(set.name.clone()).or_default().push(set);
        }
        all
    }

    fn is_doubted(status: &DistributionTenantStatus, live: &str, known: &Known) -> bool {
        let zone = ("Z1", "example.com");
        let found = doubtful(status, zone, &listed(live), known, &owner());
        assert!(found.iter().all(|spot| *spot == a_spot()));
        !found.is_empty()
    }

    #[rstest]
    #[case::as_recorded(RECORDED, "CNAME d0 300 + mark ours", false)]
    #[case::another_target(RECORDED, "CNAME x.net 300 + mark ours", true)]
    #[case::another_ttl(RECORDED, "CNAME d0 60 + mark ours", true)]
    #[case::without_its_mark(RECORDED, "CNAME d0 300", true)]
    #[case::marked_by_another(RECORDED, "CNAME d0 300 + mark other", true)]
    #[case::nothing_there(RECORDED, "", true)]
    #[case::still_under_way("Applied CNAME d0 300 C1", "", false)]
    #[case::about_to_be_written("Planned CNAME d0 300", "", false)]
    fn a_name_is_read_if_the_list_shows_it_otherwise(
        #[case] recorded: &str,
        #[case] live: &str,
        #[case] doubted: bool,
    ) {
        let status = status(recorded, "DNSReady", "Deployed");
        assert_eq!(is_doubted(&status, live, &Known::default()), doubted);
    }

    #[rstest]
    #[case::drift("DNSDrift", true)]
    #[case::conflict("DNSConflict", true)]
    #[case::well("DNSReady", false)]
    fn a_name_that_others_changed_is_read_though_it_is_right_again(
        #[case] told: &str,
        #[case] doubted: bool,
    ) {
        let status = status(RECORDED, told, "Deployed");
        let live = "CNAME d0 300 + mark ours";
        assert_eq!(is_doubted(&status, live, &Known::default()), doubted);
    }

    #[rstest]
    #[case::of_a_record("dns a.example.com CNAME", true)]
    #[case::of_the_tenant("enabled", false)]
    fn so_is_one_whose_drift_is_only_listed(#[case] field: &str, #[case] doubted: bool) {
        let mut status = status(RECORDED, "DNSReady", "Deployed");
        status.drift = vec![DriftedField {
            field: field.to_owned(),
            want: None,
            live: None,
        }];
        let live = "CNAME d0 300 + mark ours";
        assert_eq!(is_doubted(&status, live, &Known::default()), doubted);
    }

    #[test]
    fn what_was_read_before_is_read_again() {
        let status = status(RECORDED, "DNSReady", "Deployed");
        let mut known = Known::default();
        known.read(a_spot(), Sight::default());
        assert!(is_doubted(&status, "CNAME d0 300 + mark ours", &known));
    }

    #[rstest]
    #[case::allowed("Deployed", "Z1", true)]
    #[case::denied("PolicyDenied", "Z1", false)]
    #[case::elsewhere("Deployed", "Z2", false)]
    fn there_is_a_way_in_unless_a_policy_denies_it(
        #[case] ready: &str,
        #[case] zone: &str,
        #[case] expected: bool,
    ) {
        let status = status(RECORDED, "DNSReady", ready);
        assert_eq!(way_in(&status, zone).is_some(), expected);
    }
}
