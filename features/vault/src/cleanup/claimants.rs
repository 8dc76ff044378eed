//! Looks among all that exist for an object that claims a leftover.

use std::time::Duration;

use api::vault::{
    VaultClusterPolicy, VaultClusterRole, VaultConnection, VaultKVSecret, VaultPolicy, VaultRole,
};
use engine::Cache;
use serde::de::DeserializeOwned;

use super::claims::{self, Claim, Claims, Known, Spot};
use super::leftover::{Leftover, Site};
use crate::ctx::Ctx;
use crate::place::Place;
use crate::realm::Realm;

/// A watch that was silent for longer may miss an object that claims the leftover. A watch that works
/// is heard of every few minutes.
const FRESH: Duration = Duration::from_secs(300);

/// Who claims the leftover most.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Claimant {
    /// Nobody.
    Nobody,
    /// This object will tell once it has been synced.
    Undecided(String),
    /// This object.
    Somebody(String),
    /// Not all objects have been read yet, or not lately.
    Unread,
}

/// Who claims `leftover`, which is behind `connection`.
pub(super) fn claimant(ctx: &Ctx, leftover: &Leftover, connection: &VaultConnection) -> Claimant {
    let caches = &ctx.caches;
    let spot = Spot {
        site: &leftover.site,
        realm: realm(ctx, leftover, connection),
        left_by: (&leftover.kind, &leftover.resource),
    };
    let known = Known {
        connection: &|name| ctx.connection(name),
        health: &|name| ctx.links.last_health(name),
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

/// Where the leftover is.
fn realm(ctx: &Ctx, leftover: &Leftover, connection: &VaultConnection) -> Realm {
    let address = leftover.address.as_deref();
    let health = ctx.links.last_health(&leftover.connection);
    Realm::at(
        address.unwrap_or(&connection.spec.address),
        health.filter(|_| leftover.is_behind(connection)),
        leftover.namespace(connection),
    )
}

fn thing<K: Claims>(
    cache: &Cache,
    spot: &Spot<'_>,
    known: &Known<'_>,
) -> Result<Option<(Claim, String)>, Unread> {
    strongest(cache, spot, |object: &K| claims::claim(object, spot, known))
}

/// Not all objects of a kind have been read yet, or not lately.
#[derive(Debug, PartialEq, Eq)]
struct Unread;

/// The strongest claim in `cache`, if there is any.
fn strongest<K: DeserializeOwned>(
    cache: &Cache,
    spot: &Spot<'_>,
    claims: impl Fn(&K) -> Claim,
) -> Result<Option<(Claim, String)>, Unread> {
    let kind = &cache.key().kind;
    if !cache.is_fresh_within(FRESH) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::sync::Arc;

    use engine::{Hub, Kind, Metrics, Tasks, WatchKey};
    use http::{Request, Response};
    use kernel::TestClock;
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;

    /// A server that has no objects, and after a list of them is never heard of again.
    fn client() -> Client {
        let server = tower::service_fn(|request: Request<Body>| async move {
            let query = request.uri().query().unwrap_or_default();
            if query.contains("resourceVersion=") {
                std::future::pending::<()>().await;
            }
            let end = json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1",
                "annotations": {"k8s.io/initial-events-end": "true"}}}});
            let answer = Body::from(format!("{end}\n").into_bytes());
            Ok::<_, Infallible>(Response::new(answer))
        });
        Client::new(server, "default")
    }

    #[tokio::test]
    async fn a_watch_that_was_silent_for_long_is_not_believed() {
        let (tasks, clock) = (Tasks::default(), Arc::new(TestClock::new()));
        let hub = Hub::new(client(), tasks.clone(), Metrics::default()).with_clock(clock.clone());
        let cache = hub.cache(WatchKey::all(Kind::of::<VaultPolicy>()));
        let site = Site::parse("sys/policies/acl/p").unwrap();
        let spot = Spot {
            site: &site,
            realm: Realm::at("https://vault", None, None),
            left_by: ("", ""),
        };
        let found = || strongest(&cache, &spot, |_: &VaultPolicy| Claim::Yes);
        assert_eq!(found(), Err(Unread), "nothing has been read");
        while !cache.is_settled() {
            tokio::task::yield_now().await;
        }
        assert_eq!(found(), Ok(None));
        clock.advance(FRESH + Duration::from_secs(1));
        assert_eq!(found(), Err(Unread));
        tasks.kill().await;
    }
}
