//! What the objects of this cluster have, or want, in one Vault. Pure but for [`gathered`].

use std::collections::{BTreeMap, BTreeSet};

use api::vault::{
    PolicyKind, PolicyReference, VaultClusterPolicy, VaultClusterRole, VaultConnection,
    VaultPolicy, VaultRole,
};
use engine::{Cache, Kind};
use vault_client::{AuthMount, Health};

use crate::ctx::Ctx;
use crate::links::Dependent;
use crate::names::{self, Naming};
use crate::place::Place;
use crate::realm::Realm;
use crate::sync::{Declared, Kept};

/// Between a cluster role's name and the namespace that a part of it is for.
const PART: &str = "__";

/// A kind that can claim policies or roles.
pub(super) trait Claimant: Declared {
    fn external_name(&self) -> Option<&str>;
}

impl Claimant for VaultPolicy {
    fn external_name(&self) -> Option<&str> {
        self.spec.policy.external_name.as_deref()
    }
}

impl Claimant for VaultClusterPolicy {
    fn external_name(&self) -> Option<&str> {
        self.spec.policy.external_name.as_deref()
    }
}

impl Claimant for VaultRole {
    fn external_name(&self) -> Option<&str> {
        self.spec.role.external_name.as_deref()
    }
}

impl Claimant for VaultClusterRole {
    fn external_name(&self) -> Option<&str> {
        self.spec.role.external_name.as_deref()
    }
}

/// A connection, as far as names depend on it.
#[derive(Debug)]
struct Way {
    connection: VaultConnection,
    health: Option<Health>,
    naming: Naming,
    role_mount: Option<AuthMount>,
}

/// What objects claim in the Vault behind one connection, over whichever connection they do.
#[derive(Debug)]
pub(super) struct Claims {
    realm: Realm,
    ways: BTreeMap<String, Way>,
    recorded: BTreeSet<Place>,
    wanted: BTreeSet<Place>,
    /// Where parts of a role may be: at these names and behind them.
    parted: BTreeSet<Place>,
    policies: BTreeMap<String, PolicyReference>,
}

impl Claims {
    /// Nothing is claimed yet.
    pub(super) fn new(at: &VaultConnection, health: Option<Health>) -> Self {
        Self {
            realm: Realm::new(at, health, None),
            ways: BTreeMap::new(),
            recorded: BTreeSet::new(),
            wanted: BTreeSet::new(),
            parted: BTreeSet::new(),
            policies: BTreeMap::new(),
        }
    }

    /// Takes in a connection; all of them come before the objects.
    pub(super) fn add_connection(
        &mut self,
        connection: &VaultConnection,
        health: Option<Health>,
        identity: String,
    ) {
        let spec = &connection.spec;
        let role_mount = names::role_mount(spec.defaults.as_ref(), &spec.auth).ok();
        let way = Way {
            connection: connection.clone(),
            health,
            naming: Naming::new(connection, identity),
            role_mount: role_mount.map(|at| at.mount),
        };
        let name = connection.metadata.name.clone().unwrap_or_default();
        self.ways.insert(name, way);
    }

    /// Takes in an object. One that is being deleted still has what it has.
    pub(super) fn add<K: Claimant>(&mut self, object: &K) {
        let terms = object.terms();
        // What an object has must never pass for nobody's: doubt counts as yes.
        let is_here = |connection: Option<&str>| {
            let way = self.ways.get(connection.unwrap_or(terms.connection));
            way.is_some_and(|way| {
                Realm::new(&way.connection, way.health.clone(), terms.vault_namespace)
                    .may_be(&self.realm)
            })
        };
        let status = object.status();
        let sync = status.sync();
        let had = K::records(&status).into_iter();
        let had: Vec<Place> = had
            .filter(|record| is_here(record.connection.as_deref()))
            .map(|record| record.place)
            .collect();
        let earlier = sync.previous_names.iter();
        let earlier = earlier.filter(|earlier| is_here(earlier.connection.as_deref()));
        let earlier = earlier.filter_map(|earlier| earlier.vault_path.as_deref());
        let announced = sync.intent.iter().filter(|_| is_here(None));
        let announced = announced.filter_map(|intent| intent.vault_path.as_deref());
        let noted: Vec<Place> = earlier.chain(announced).filter_map(Place::parse).collect();
        let wanted = is_here(None).then(|| self.derived(object)).flatten();

        for place in &had {
            if let Some(reference) = reference(object) {
                self.policies.insert(place.name().to_lowercase(), reference);
            }
        }
        self.recorded
            .extend(had.iter().chain(&noted).map(canonical));
        if let Some(wanted) = wanted.as_ref().map(canonical) {
            if K::DEPENDENT == Dependent::ClusterRole {
                self.parted.insert(wanted.clone());
            }
            self.wanted.insert(wanted);
        }
    }

    /// Takes in what is still to be removed: nobody's, but known.
    pub(super) fn add_leftover(&mut self, place: &Place) {
        self.recorded.insert(canonical(place));
    }

    /// Whether a status, or the list of leftovers, has it.
    pub(super) fn is_recorded(&self, place: &Place) -> bool {
        self.recorded.contains(&canonical(place))
    }

    /// Whether an object's name leads there.
    pub(super) fn is_wanted(&self, place: &Place) -> bool {
        let place = canonical(place);
        self.wanted.contains(&place) || self.is_part(&place)
    }

    /// The object whose policy this is.
    pub(super) fn policy(&self, name: &str) -> Option<&PolicyReference> {
        self.policies.get(&name.to_lowercase())
    }

    fn is_part(&self, place: &Place) -> bool {
        let Place::Role { mount, name } = place else {
            return false;
        };
        let whole = name.rsplit_once(PART).map(|(whole, _)| Place::Role {
            mount: mount.clone(),
            name: whole.to_owned(),
        });
        whole.is_some_and(|whole| self.parted.contains(&whole))
    }

    fn derived<K: Claimant>(&self, object: &K) -> Option<Place> {
        let way = self.ways.get(object.terms().connection)?;
        let meta = object.meta();
        let own = meta.name.as_deref().unwrap_or_default();
        let derived = || way.naming.derived(meta.namespace.as_deref(), own);
        let name = object.external_name().map_or_else(derived, str::to_owned);
        match K::DEPENDENT {
            Dependent::Policy | Dependent::ClusterPolicy => Some(Place::Policy { name }),
            Dependent::Role | Dependent::ClusterRole => {
                let mount = way.role_mount.clone()?;
                Some(Place::Role { mount, name })
            }
            Dependent::Seed => None,
        }
    }
}

/// How roles refer to `object`, if it is a policy.
fn reference<K: Claimant>(object: &K) -> Option<PolicyReference> {
    let kind = match K::DEPENDENT {
        Dependent::Policy => PolicyKind::VaultPolicy,
        Dependent::ClusterPolicy => PolicyKind::VaultClusterPolicy,
        Dependent::Role | Dependent::ClusterRole | Dependent::Seed => return None,
    };
    let meta = object.meta();
    Some(PolicyReference {
        kind,
        name: meta.name.clone().unwrap_or_default(),
        namespace: meta.namespace.clone(),
    })
}

/// Vault does not tell names apart by case.
fn canonical(place: &Place) -> Place {
    match place {
        Place::Policy { name } => Place::Policy {
            name: name.to_lowercase(),
        },
        Place::Role { mount, name } => Place::Role {
            mount: mount.clone(),
            name: name.to_lowercase(),
        },
    }
}

/// What is claimed behind `connection`, as last seen; none until all objects have been read.
pub(super) fn gathered(connection: &VaultConnection, ctx: &Ctx) -> Option<Claims> {
    let caches = &ctx.caches;
    let health = |one: &VaultConnection| {
        let name = one.metadata.name.as_deref().unwrap_or_default();
        ctx.links.last_health(name)
    };
    let mut claims = Claims::new(connection, health(connection));
    each(&caches.connections, |one: VaultConnection| {
        claims.add_connection(&one, health(&one), ctx.identity(&one));
    })?;
    for name in claims.ways.keys().cloned().collect::<Vec<_>>() {
        for leftover in ctx.leftovers.of_target(&name) {
            // A seed is at no such place.
            if let Some(place) = Place::parse(&leftover.path.to_string()) {
                claims.add_leftover(&place);
            }
        }
    }
    each(&caches.policies, |one: VaultPolicy| claims.add(&one))?;
    each(&caches.cluster_policies, |one: VaultClusterPolicy| {
        claims.add(&one);
    })?;
    each(&caches.roles, |one: VaultRole| claims.add(&one))?;
    each(&caches.cluster_roles, |one: VaultClusterRole| {
        claims.add(&one);
    })?;
    Some(claims)
}

/// Every object that can be read.
fn each<K: serde::de::DeserializeOwned>(cache: &Cache, mut take: impl FnMut(K)) -> Option<()> {
    let kind: &Kind = &cache.key().kind;
    cache.is_settled().then_some(())?;
    let all = cache.store().all();
    let read = all.iter().filter_map(|object| object.parse(kind).ok());
    read.for_each(&mut take);
    Some(())
}

#[cfg(test)]
mod tests;
