//! Which object has, or wants, what a record would delete.

use std::time::Duration;

use api::vault::{
    NameFormat, VaultClusterPolicy, VaultClusterRole, VaultConnection, VaultKVSecret, VaultPolicy,
    VaultRole, conditions,
};
use engine::Cache;
use engine::leftovers::Claimant;
use kernel::{ObjectKey, find, is_true};
use serde::de::DeserializeOwned;
use vault_client::Health;

use super::leftover::{VaultLeftover, VaultPath};
use crate::ctx::Ctx;
use crate::kv::KvPath;
use crate::names::{self, Naming};
use crate::place::Place;
use crate::realm::Realm;
use crate::sync::{Declared, Kept};

/// Stands for the namespace of what is cluster-wide, in derived names.
const NOBODY: &str = "_";
/// Between a role's name and the namespace that a part of it is for.
const PART: &str = "__";
/// A watch that was silent for longer may miss an object that claims the leftover. A watch that works
/// is heard of every few minutes.
const FRESH: Duration = Duration::from_secs(300);

/// What an object has to do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    /// Nothing.
    No,
    /// It will tell once it has been synced.
    Maybe,
    /// It is the object's.
    Yes,
}

/// Where a leftover is, as connections are today.
struct Located<'a> {
    path: &'a VaultPath,
    realm: Realm,
    /// The kind and the key of the object that left it; empty where that was not recorded.
    left_by: (&'a str, &'a str),
}

/// What is known of connections.
struct ConnectionFacts<'a> {
    connection: &'a dyn Fn(&str) -> Option<VaultConnection>,
    /// As its server last answered.
    health: &'a dyn Fn(&str) -> Option<Health>,
    identity: &'a dyn Fn(&VaultConnection) -> String,
}

impl ConnectionFacts<'_> {
    /// The connection `name`, if it leads an object with this namespace of its own to the leftover.
    fn connection_to(
        &self,
        located: &Located<'_>,
        name: &str,
        own: Option<&str>,
    ) -> Option<VaultConnection> {
        let connection = (self.connection)(name)?;
        let there = Realm::new(&connection, (self.health)(name), own);
        there.is(&located.realm).then_some(connection)
    }
}

/// What an object's name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A policy of that name.
    Policy,
    /// A role of that name.
    Role,
    /// A role of that name, or parts of it for namespaces, or both: only its status tells.
    PartedRole,
}

/// A kind that claims policies or roles.
trait Claims: Declared {
    const FORM: Form;

    fn external_name(&self) -> Option<&str>;
}

impl Claims for VaultPolicy {
    const FORM: Form = Form::Policy;

    fn external_name(&self) -> Option<&str> {
        self.spec.policy.external_name.as_deref()
    }
}

impl Claims for VaultClusterPolicy {
    const FORM: Form = Form::Policy;

    fn external_name(&self) -> Option<&str> {
        self.spec.policy.external_name.as_deref()
    }
}

impl Claims for VaultRole {
    const FORM: Form = Form::Role;

    fn external_name(&self) -> Option<&str> {
        self.spec.role.external_name.as_deref()
    }
}

impl Claims for VaultClusterRole {
    const FORM: Form = Form::PartedRole;

    fn external_name(&self) -> Option<&str> {
        self.spec.role.external_name.as_deref()
    }
}

/// What `object` has to do with the leftover.
///
/// | on its record, or announced      | yes                                             |
/// | where its name leads             | yes, unless it only shares the name             |
/// | where a part of it may be        | maybe; once synced, its record has all its parts |
/// | being deleted, on another Vault  | no                                              |
fn claim<K: Claims>(object: &K, located: &Located<'_>, facts: &ConnectionFacts<'_>) -> Claim {
    let VaultPath::Place(place) = located.path else {
        return Claim::No;
    };
    if object.meta().deletion_timestamp.is_some() {
        return Claim::No;
    }
    if records(object, place, located, facts) {
        return Claim::Yes;
    }
    let terms = object.terms();
    let connection = facts.connection_to(located, terms.connection, terms.vault_namespace);
    let connection = connection.filter(|one| !is_namesake(object, one, located));
    let Some(wanted) = connection.and_then(|connection| derived(object, &connection, facts)) else {
        return Claim::No;
    };
    match K::FORM {
        Form::Policy | Form::Role if wanted.is(place) => Claim::Yes,
        Form::PartedRole if is_part(place, &wanted) && !is_synced(object) => Claim::Maybe,
        Form::Policy | Form::Role | Form::PartedRole => Claim::No,
    }
}

/// Whether another object left what is there, and `object` can at most derive the same name. It gets
/// the name when the leftover is gone.
fn is_namesake<K: Claims>(object: &K, connection: &VaultConnection, located: &Located<'_>) -> bool {
    let defaults = connection.spec.defaults.as_ref();
    match defaults
        .map(|defaults| defaults.name_format)
        .unwrap_or_default()
    {
        NameFormat::Qualified => return false,
        NameFormat::NamespaceName => {}
    }
    let meta = object.meta();
    let name = meta.name.as_deref().unwrap_or_default();
    let key = ObjectKey::of(meta.namespace.as_deref(), name).to_string();
    let (kind, resource) = located.left_by;
    object.external_name().is_none()
        && !resource.is_empty()
        && (kind, resource) != (&*K::kind(&()), &*key)
}

/// Whether the object's status names `place` there.
fn records<K: Claims>(
    object: &K,
    place: &Place,
    located: &Located<'_>,
    facts: &ConnectionFacts<'_>,
) -> bool {
    let terms = object.terms();
    let is_there = |connection: Option<&str>| {
        let name = connection.unwrap_or(terms.connection);
        let found = facts.connection_to(located, name, terms.vault_namespace);
        found.is_some()
    };
    let is_it = |path: Option<&str>| {
        let named = path.and_then(Place::parse);
        named.is_some_and(|named| named.is(place))
    };
    let status = object.status();
    let sync = status.sync();
    let recorded = K::records(&status);
    let announced = sync.intent.as_ref();
    let announced = announced.and_then(|intent| intent.vault_path.as_deref());
    recorded
        .iter()
        .any(|record| record.place.is(place) && is_there(record.connection.as_deref()))
        || sync.previous_names.iter().any(|earlier| {
            is_it(earlier.vault_path.as_deref()) && is_there(earlier.connection.as_deref())
        })
        || (is_it(announced) && is_there(None))
}

/// Where the object's name leads.
fn derived<K: Claims>(
    object: &K,
    connection: &VaultConnection,
    facts: &ConnectionFacts<'_>,
) -> Option<Place> {
    let meta = object.meta();
    let name = meta.name.as_deref().unwrap_or_default();
    let name = object.external_name().map_or_else(
        || {
            let naming = Naming::new(connection, (facts.identity)(connection));
            naming.derived(meta.namespace.as_deref(), name)
        },
        str::to_owned,
    );
    match K::FORM {
        Form::Policy => Some(Place::Policy { name }),
        Form::Role | Form::PartedRole => {
            let spec = &connection.spec;
            let role = names::role_mount(spec.defaults.as_ref(), &spec.auth).ok()?;
            let mount = role.mount;
            Some(Place::Role { mount, name })
        }
    }
}

fn is_part(place: &Place, whole: &Place) -> bool {
    let (place_name, name) = (place.name().to_lowercase(), whole.name().to_lowercase());
    let rest = place_name.strip_prefix(&name);
    place.mount() == whole.mount()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(PART))
}

/// Whether the status is about the spec as it is.
fn is_synced<K: Claims>(object: &K) -> bool {
    let status = object.status();
    let all = &status.sync().conditions;
    let seen = find(all, conditions::SYNCED).and_then(|one| one.observed_generation);
    is_true(all, conditions::SYNCED) && seen == object.meta().generation
}

/// The same of a seed.
fn claim_by_seed(
    seed: &VaultKVSecret,
    located: &Located<'_>,
    facts: &ConnectionFacts<'_>,
) -> Claim {
    let path = VaultPath::of_seed(&seed.spec.path);
    let there = || {
        let connection = facts.connection_to(located, &seed.spec.connection_ref, None);
        connection.is_some()
    };
    let exists = seed.metadata.deletion_timestamp.is_none();
    if exists && path.is_some_and(|path| path.is(located.path)) && there() {
        Claim::Yes
    } else {
        Claim::No
    }
}

/// Whether an object can have to do with `path` at all. A quick test, so that few objects are parsed.
fn may_concern(json: &str, key: &ObjectKey, path: &VaultPath) -> bool {
    let name = match path {
        VaultPath::Place(place) => place.name().to_lowercase(),
        VaultPath::Seed(KvPath { path, .. }) => path.to_lowercase(),
    };
    let whole = name.rsplit_once(PART).map_or(&*name, |(whole, _)| whole);
    // Other characters may be written as escapes.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/ ".contains(c);
    if !whole.chars().all(is_plain) {
        return true;
    }
    let namespace = key.namespace.as_deref().unwrap_or(NOBODY);
    let derived = format!(".{namespace}.{}", key.name);
    let source = (key.namespace.as_deref(), &*key.name);
    name.ends_with(&derived)
        || whole.ends_with(&derived)
        || names::sources(whole).any(|one| one == source)
        || json.to_ascii_lowercase().contains(whole)
}

/// Who claims `leftover`, which is behind `connection`.
pub(super) fn claimant(
    ctx: &Ctx,
    leftover: &VaultLeftover,
    connection: &VaultConnection,
) -> Claimant {
    let caches = &ctx.caches;
    let located = Located {
        path: &leftover.path,
        realm: realm(ctx, leftover, connection),
        left_by: (&leftover.kind, &leftover.resource),
    };
    let facts = ConnectionFacts {
        connection: &|name| ctx.connection(name),
        health: &|name| ctx.links.last_health(name),
        identity: &|connection| ctx.identity(connection),
    };
    let found = match &leftover.path {
        VaultPath::Place(Place::Policy { .. }) => [
            strongest_of::<VaultPolicy>(&caches.policies, &located, &facts),
            strongest_of::<VaultClusterPolicy>(&caches.cluster_policies, &located, &facts),
        ],
        VaultPath::Place(Place::Role { .. }) => [
            strongest_of::<VaultRole>(&caches.roles, &located, &facts),
            strongest_of::<VaultClusterRole>(&caches.cluster_roles, &located, &facts),
        ],
        VaultPath::Seed(_) => {
            let claims = |seed: &VaultKVSecret| claim_by_seed(seed, &located, &facts);
            [strongest(&caches.seeds, &located, claims), Ok(None)]
        }
    };
    let [Ok(one), Ok(other)] = found else {
        return Claimant::Unread;
    };
    match one.max(other) {
        None | Some((Claim::No, _)) => Claimant::Nobody,
        Some((Claim::Maybe, object)) => Claimant::Undecided(object),
        Some((Claim::Yes, object)) => Claimant::Somebody(object),
    }
}

/// Where the leftover is.
fn realm(ctx: &Ctx, leftover: &VaultLeftover, connection: &VaultConnection) -> Realm {
    let address = leftover.address.as_deref();
    let health = ctx.links.last_health(&leftover.connection);
    Realm::at(
        address.unwrap_or(&connection.spec.address),
        health.filter(|_| leftover.is_behind(connection)),
        leftover.namespace(connection),
    )
}

fn strongest_of<K: Claims>(
    cache: &Cache,
    located: &Located<'_>,
    facts: &ConnectionFacts<'_>,
) -> Result<Option<(Claim, String)>, Unread> {
    strongest(cache, located, |object: &K| claim(object, located, facts))
}

/// Not all objects of a kind have been read yet, or not lately.
#[derive(Debug, PartialEq, Eq)]
struct Unread;

/// The strongest claim in `cache`, if there is any.
fn strongest<K: DeserializeOwned>(
    cache: &Cache,
    located: &Located<'_>,
    claims: impl Fn(&K) -> Claim,
) -> Result<Option<(Claim, String)>, Unread> {
    let kind = &cache.key().kind;
    if !cache.is_fresh_within(FRESH) {
        return Err(Unread);
    }
    let all = cache.store().all();
    let concerned = all
        .iter()
        .filter(|object| may_concern(object.json(), object.key(), located.path));
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
mod tests;
