//! What is ours in Vault, and wanted by no object: told, and left where it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::vault::{VaultConnection, names as words};
use engine::{Deck, Kind};
use kernel::ObjectKey;
use vault_client::{AuthMount, Client, Error};

use super::candidates::Listed;
use super::claims::{self, Claims};
use crate::ctx::Ctx;
use crate::language::text::{Header, Marker};
use crate::metrics::Things;
use crate::names;
use crate::owner;
use crate::place::{self, Place};

/// How often every connection is searched.
const INTERVAL: Duration = Duration::from_secs(3600);
/// How long after a failure.
const AGAIN: Duration = Duration::from_secs(600);
/// How often it is seen whether a connection is up, and due; that costs no call.
const LOOK: Duration = Duration::from_secs(10);
/// A line of the log names this many.
const TOLD: usize = 5;

/// Something of ours that no object wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Orphan {
    pub(crate) place: Place,
    /// The owner it names; none for a role without a marker, which only its name betrays.
    pub(crate) owner: Option<String>,
}

/// Who we are behind a connection.
#[derive(Debug, Clone)]
struct Us {
    auth_mount: Option<String>,
    cluster: Option<String>,
    identity: String,
    role_mount: Option<AuthMount>,
}

impl Us {
    /// `header` is of any object behind `connection`; `identity` stands in its name.
    fn new(connection: &VaultConnection, header: Header, identity: String) -> Self {
        let spec = &connection.spec;
        let role_mount = names::role_mount(spec.defaults.as_ref(), &spec.auth).ok();
        Self {
            auth_mount: header.auth_mount,
            cluster: header.cluster,
            identity,
            role_mount: role_mount.map(|at| at.mount),
        }
    }

    /// Whether we gave the name.
    fn named(&self, name: &str) -> bool {
        let ours = format!("{}{}.", words::NAME_PREFIX, self.identity);
        name.to_lowercase().starts_with(&ours)
    }
}

/// Everything behind `client` that is ours and that nothing in `claims` accounts for.
///
/// # When not to use it
/// With claims that are old: what was made since then would look like an orphan.
async fn find_orphans(client: &Client, us: &Us, claims: &Claims) -> Result<Vec<Orphan>, Error> {
    let mut places = Listed::read(client, us.role_mount.clone()).await?.places();
    places.retain(|place| is_suspect(place, claims));
    let mut orphans = Vec::new();
    for place in places {
        if let Some(found) = place::read(client, &place).await? {
            orphans.extend(orphan(place, found.marker().as_ref(), us));
        }
    }
    Ok(orphans)
}

fn is_suspect(place: &Place, claims: &Claims) -> bool {
    let name = place.name();
    let is_vaults = words::SYSTEM_POLICIES
        .iter()
        .any(|own| names::same(own, name));
    let is_vaults = is_vaults && place.mount().is_none();
    !is_vaults && !claims.is_recorded(place) && !claims.is_wanted(place)
}

/// What a thing that nobody claims is to us.
///
/// | marker                                       | so                                      |
/// |----------------------------------------------|-----------------------------------------|
/// | of our mount or cluster, nothing contradicts | ours                                    |
/// | of neither mount nor cluster                 | ours if the name is one we give         |
/// | of another's                                 | theirs                                  |
/// | none                                         | ours if it is a role, by a name we give |
fn orphan(place: Place, marker: Option<&Marker>, us: &Us) -> Option<Orphan> {
    let is_ours = match marker {
        None => place.mount().is_some() && us.named(place.name()),
        Some(marker) => is_ours(marker, us).unwrap_or_else(|| us.named(place.name())),
    };
    is_ours.then(|| Orphan {
        place,
        owner: marker.map(owner::shown),
    })
}

/// None where the marker tells no cluster from another.
fn is_ours(marker: &Marker, us: &Us) -> Option<bool> {
    let parts = [
        (&marker.auth_mount, &us.auth_mount),
        (&marker.cluster, &us.cluster),
    ];
    let told = parts.iter().any(|(live, _)| live.is_some());
    let shared = parts.iter().any(|(live, us)| live.is_some() && live == us);
    let differs = parts
        .iter()
        .any(|(live, us)| live.is_some() && us.is_some() && live != us);
    told.then_some(shared && !differs)
}

/// Searches every connection when it is first up, and hourly.
pub(crate) fn start_orphans(ctx: &Arc<Ctx>, deck: &Deck) {
    let ctx = ctx.clone();
    deck.task("orphans", move || {
        let ctx = ctx.clone();
        async move { watch(&ctx).await }
    });
}

/// What is known of a connection's search.
struct Search {
    next: Duration,
    told: Vec<Orphan>,
}

/// Never ends, so that it begins anew when this process leads again.
async fn watch(ctx: &Ctx) {
    let mut searches: BTreeMap<ObjectKey, Search> = BTreeMap::new();
    loop {
        let held = ctx.caches.connections.store().all();
        let keys: Vec<ObjectKey> = held.iter().map(|one| one.key().clone()).collect();
        searches.retain(|key, _| keys.contains(key));
        for key in keys {
            let now = ctx.deck.clock.elapsed();
            let search = searches.remove(&key);
            let is_due = search.as_ref().is_none_or(|search| search.next <= now);
            let is_up = ctx.links.health(&key.name).is_some();
            let search = match search {
                search if is_due && is_up => search_in(&key, search, now, ctx).await,
                search => search,
            };
            if let Some(search) = search {
                searches.insert(key, search);
            }
        }
        tokio::time::sleep(ctx.deck.clock.real(LOOK)).await;
    }
}

/// Searches one connection. None if it cannot be searched yet.
async fn search_in(
    key: &ObjectKey,
    before: Option<Search>,
    now: Duration,
    ctx: &Ctx,
) -> Option<Search> {
    let name = &*key.name;
    let client = ctx.links.client(name)?;
    let told = before.map(|before| before.told).unwrap_or_default();
    match search_behind(name, &client, ctx).await {
        Ok(found) => {
            let orphans = found?;
            let roles = orphans.iter().filter(|one| one.place.mount().is_some());
            let roles = roles.count();
            let policies = orphans.len() - roles;
            ctx.metrics.orphans(name, Things { policies, roles });
            if orphans != told {
                tell(name, &orphans);
            }
            Some(Search {
                next: now + INTERVAL,
                told: orphans,
            })
        }
        Err(error) => {
            tracing::debug!(vaultConnection = name, %error, "orphans were not looked for");
            Some(Search {
                next: now + AGAIN,
                told,
            })
        }
    }
}

/// All orphans behind the connection `name`; none if it is gone, or until all objects have been read.
pub(crate) async fn search_behind(
    name: &str,
    client: &Client,
    ctx: &Ctx,
) -> Result<Option<Vec<Orphan>>, Error> {
    let Some(connection) = ctx.connection(name) else {
        return Ok(None);
    };
    let kind = Kind::of::<VaultConnection>().kind;
    let header = ctx.header(&connection, &kind, &ObjectKey::cluster(name));
    let us = Us::new(&connection, header, ctx.identity(&connection));
    let Some(claims) = claims::gathered(&connection, ctx) else {
        return Ok(None);
    };
    let mut orphans = find_orphans(client, &us, &claims).await?;
    // Objects that came during the search have what it found.
    let Some(claims) = claims::gathered(&connection, ctx) else {
        return Ok(None);
    };
    orphans.retain(|orphan| is_suspect(&orphan.place, &claims));
    Ok(Some(orphans))
}

fn tell(connection: &str, orphans: &[Orphan]) {
    let some = orphans.iter().take(TOLD).map(|one| one.place.to_string());
    let some = some.collect::<Vec<_>>().join(", ");
    tracing::warn!(
        vaultConnection = connection,
        count = orphans.len(),
        first = some,
        "ours in Vault, and no object wants it; `pontoon vault orphans` lists and deletes it"
    );
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const POLICY: &str = "sys/policies/acl/";
    const ROLE: &str = "auth/kubernetes/role/";

    fn us() -> Us {
        Us {
            auth_mount: Some("kubernetes".into()),
            cluster: Some("prod".into()),
            identity: "prod".into(),
            role_mount: None,
        }
    }

    fn marked(mount: Option<&str>, cluster: Option<&str>) -> Marker {
        Marker {
            auth_mount: mount.map(str::to_owned),
            cluster: cluster.map(str::to_owned),
            resource: Some("team-a/app".into()),
            kind: Some("VaultPolicy".into()),
        }
    }

    #[rstest]
    #[case::marked(POLICY, "any", Some(marked(Some("kubernetes"), Some("prod"))), true)]
    #[case::before_the_cluster_had_a_name(
        POLICY,
        "any",
        Some(marked(Some("kubernetes"), None)),
        true
    )]
    #[case::of_another_cluster(
        POLICY,
        "vao.prod.a.b",
        Some(marked(Some("kubernetes"), Some("test"))),
        false
    )]
    #[case::of_another_mount(ROLE, "vao.prod.a.b", Some(marked(Some("other"), None)), false)]
    #[case::told_by_the_name(POLICY, "vao.Prod.a.b", Some(marked(None, None)), true)]
    #[case::told_by_nothing(POLICY, "any", Some(marked(None, None)), false)]
    #[case::a_role_by_its_name(ROLE, "vao.prod.a.b", None, true)]
    #[case::a_role_of_another_name(ROLE, "vao.product.a.b", None, false)]
    #[case::an_unmarked_policy_is_nobodys(POLICY, "vao.prod.a.b", None, false)]
    fn ours_is_what_says_so(
        #[case] path: &str,
        #[case] name: &str,
        #[case] marker: Option<Marker>,
        #[case] ours: bool,
    ) {
        let place = Place::parse(&format!("{path}{name}")).unwrap();
        let found = orphan(place.clone(), marker.as_ref(), &us());
        let expected = ours.then(|| Orphan {
            place,
            owner: marker.as_ref().map(owner::shown),
        });
        assert_eq!(found, expected);
    }
}
