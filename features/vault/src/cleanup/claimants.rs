//! Looks among all that exist for an object that claims a leftover.

use api::vault::{
    VaultClusterPolicy, VaultClusterRole, VaultConnection, VaultKVSecret, VaultPolicy, VaultRole,
};
use engine::Cache;
use serde::de::DeserializeOwned;

use super::claims::{self, Claim, Claims, Known, Spot};
use super::leftover::{Leftover, Site};
use crate::ctx::Ctx;
use crate::place::Place;

/// Who claims the leftover most.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Claimant {
    /// Nobody.
    Nobody,
    /// This object will tell once it has been synced.
    Undecided(String),
    /// This object.
    Somebody(String),
    /// Not all objects have been read yet.
    Unread,
}

/// Who claims `leftover`, which is behind `connection`.
pub(super) fn claimant(ctx: &Ctx, leftover: &Leftover, connection: &VaultConnection) -> Claimant {
    let caches = &ctx.caches;
    let spot = Spot {
        site: &leftover.site,
        address: leftover
            .address
            .as_deref()
            .unwrap_or(&connection.spec.address),
        namespace: leftover.namespace(connection),
    };
    let known = Known {
        connection: &|name| ctx.connection(name),
        identity: &|connection| ctx.identity(connection),
    };
    let found = match &leftover.site {
        Site::Place(Place::Policy { .. }) => [
            thing::<VaultPolicy>(&caches.policies, &spot, &known),
            thing::<VaultClusterPolicy>(&caches.cluster_policies, &spot, &known),
        ],
        Site::Place(Place::Role { .. }) => [
            thing::<VaultRole>(&caches.roles, &spot, &known),
            thing::<VaultClusterRole>(&caches.cluster_roles, &spot, &known),
        ],
        Site::Seed(_) => {
            let claims = |seed: &VaultKVSecret| claims::claim_by_seed(seed, &spot, &known);
            [strongest(&caches.seeds, &spot, claims), Ok(None)]
        }
    };
    let [Ok(one), Ok(other)] = found else {
        return Claimant::Unread;
    };
    match one.max(other) {
        None | Some((Claim::No, _)) => Claimant::Nobody,
        Some((Claim::Maybe, who)) => Claimant::Undecided(who),
        Some((Claim::Yes, who)) => Claimant::Somebody(who),
    }
}

fn thing<K: Claims>(
    cache: &Cache,
    spot: &Spot<'_>,
    known: &Known<'_>,
) -> Result<Option<(Claim, String)>, Unread> {
    strongest(cache, spot, |object: &K| claims::claim(object, spot, known))
}

/// Not all objects of a kind have been read yet.
struct Unread;

/// The strongest claim in `cache`, if there is any.
fn strongest<K: DeserializeOwned>(
    cache: &Cache,
    spot: &Spot<'_>,
    claims: impl Fn(&K) -> Claim,
) -> Result<Option<(Claim, String)>, Unread> {
    let kind = &cache.key().kind;
    if !cache.is_settled() {
        return Err(Unread);
    }
    let all = cache.store().all();
    let concerned = all
        .iter()
        .filter(|object| claims::may_concern(object.json(), object.key(), spot.site));
    let claims = concerned.map(|object| {
        // What cannot be read may be anybody's.
        let claim = object
            .parse(kind)
            .map_or(Claim::Maybe, |object| claims(&object));
        (claim, format!("{} {}", kind.kind, object.key()))
    });
    Ok(claims.max())
}
