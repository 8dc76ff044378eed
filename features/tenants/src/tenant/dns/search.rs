//! Zones and names in Route 53, as a tenant's records need to know them.

use std::collections::BTreeMap;

use api::tenants::{Dns, DnsRecord};
use aws::route53::zone_writer::ZoneAccess;
use aws::{Caller, Fault, Priority};
use kernel::ObjectKey;

use crate::allowed::Named;
use crate::ctx::Ctx;
use crate::dns::known::Sight;
use crate::dns::plan::{self, Step};
use crate::dns::want::login;
use crate::dns::{Spot, Zone, names, wire};
use crate::failure::Way;
use crate::tenant::ground::{Ground, judged};
use crate::tenant::stop::count;

/// Who asks AWS for what a tenant needs now.
pub(in crate::tenant) fn asker(key: &ObjectKey) -> Caller {
    Caller::new(Priority::Edit, key.namespace.clone().unwrap_or_default())
}

/// For whom zones are looked for, and for what.
pub(super) struct Search<'a> {
    pub(super) dns: &'a Dns,
    pub(super) key: &'a ObjectKey,
    pub(super) external_id: Option<&'a str>,
    pub(super) domains: Vec<&'a str>,
}

/// The zones that may hold the records: those the spec names, and of those the account has the ones
/// around a domain that are `allowed`.
pub(super) async fn candidates(
    search: &Search<'_>,
    allowed: impl Fn(&str) -> bool,
    ctx: &Ctx,
) -> Result<Vec<Zone>, aws::Error> {
    let asker = asker(search.key);
    let login = login(search.dns, search.external_id);
    let mut all = Vec::new();
    for id in search.dns.zones() {
        let place = ZoneAccess {
            zone: id.to_owned(),
            login: login.clone(),
        };
        all.push(zone(&place, &asker, ctx).await?);
    }
    if search.dns.discover_zones {
        let account = ctx.account(login.role()?.as_ref()).await;
        let role = login.role_arn.as_deref().unwrap_or_default();
        let told = ctx.outside.zones(&account, role, &asker).await?;
        let found = told.iter().map(seen).filter(|zone| {
            let mut domains = search.domains.iter();
            domains.any(|domain| zone.holds(domain)) && allowed(&zone.id)
        });
        all.extend(found);
    }
    Ok(all)
}

/// A zone, by its id.
pub(in crate::tenant) async fn zone(
    place: &ZoneAccess,
    asker: &Caller,
    ctx: &Ctx,
) -> Result<Zone, aws::Error> {
    let account = ctx.account(place.login.role()?.as_ref()).await;
    let role = place.login.role_arn.as_deref().unwrap_or_default();
    let zone = ctx.outside.zone(&account, role, asker, &place.zone).await?;
    Ok(seen(&zone))
}

/// A zone, as plans have it.
pub(in crate::tenant) fn seen(zone: &aws::route53::Zone) -> Zone {
    Zone {
        id: zone.id.clone(),
        name: names::canonical(&zone.name),
        private: zone.private,
    }
}

/// What is at a name.
pub(in crate::tenant) async fn read(
    look: &plan::Look,
    asker: &Caller,
    ctx: &Ctx,
) -> Result<Sight, aws::Error> {
    let account = ctx.account(look.place.login.role()?.as_ref()).await;
    wire::read(look, &account, asker).await
}

/// Whether the policy that allows all else the object names allows this zone, too.
pub(super) fn may_use(zone: &str, dns: &Dns, ground: &Ground, ctx: &Ctx) -> bool {
    let declared = &ground.declared;
    let group = declared.connection_group_id.as_deref();
    let named = Named {
        distribution: Some(&declared.distribution_id),
        zones: dns.zones().chain([zone]).collect(),
        role: dns.role(),
        table: None,
        group: Some(ctx.group(group)),
        domains: declared.domains.iter().map(String::as_str).collect(),
        adoption: ground.adopts,
    };
    let namespace = ground.key.namespace.as_deref().unwrap_or_default();
    judged(namespace, &named, ctx).is_ok_and(|leave| leave == ground.leave)
}

/// Reads what a step asks for. Of a zone that is gone it is noted that it is.
pub(super) async fn look(
    step: &Step,
    key: &ObjectKey,
    named: &mut BTreeMap<String, String>,
    records: &[DnsRecord],
    ctx: &Ctx,
) -> Result<(), aws::Error> {
    let asker = asker(key);
    for place in &step.unnamed {
        match zone(place, &asker, ctx).await {
            Ok(zone) => {
                named.insert(place.zone.clone(), zone.name);
            }
            Err(error) if error.fault() == Fault::ZoneMissing => {
                let there = records.iter().filter(|one| one.zone_id == place.zone);
                gone(&error, there.map(Spot::of), key, ctx);
            }
            Err(error) => return Err(error),
        }
    }
    for look in &step.reads {
        match read(look, &asker, ctx).await {
            Ok(sight) => {
                let spot = look.spot.clone();
                ctx.zones.note(key, |known| known.read(spot, sight));
            }
            Err(error) if error.fault() == Fault::ZoneMissing => {
                gone(&error, [look.spot.clone()], key, ctx);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The zone of these names is gone.
fn gone(error: &aws::Error, spots: impl IntoIterator<Item = Spot>, key: &ObjectKey, ctx: &Ctx) {
    count(error, Way::Dns, ctx);
    ctx.zones.note(key, |known| {
        for spot in spots {
            known.zone_missing(spot, error.to_string());
        }
    });
}
