//! Whether an object that exists has, or wants, what a record would delete. Pure.

use api::vault::{
    NameFormat, VaultClusterPolicy, VaultClusterRole, VaultConnection, VaultKVSecret, VaultPolicy,
    VaultRole, conditions,
};
use kernel::{ObjectKey, find, is_true};
use vault_client::Health;

use super::leftover::Site;
use crate::kv::KvPath;
use crate::names::{self, Naming};
use crate::place::Place;
use crate::realm::Realm;
use crate::sync::{Declared, Kept};

/// Stands for the namespace of what is cluster-wide, in derived names.
const NOBODY: &str = "_";
/// Between a role's name and the namespace that a part of it is for.
const PART: &str = "__";

/// What an object has to do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Claim {
    /// Nothing.
    No,
    /// It will tell once it has been synced.
    Maybe,
    /// It is the object's.
    Yes,
}

/// Where a leftover is, in today's words.
pub(super) struct Spot<'a> {
    pub(super) site: &'a Site,
    pub(super) realm: Realm,
    /// The kind and the key of the object that left it; empty where that was not recorded.
    pub(super) left_by: (&'a str, &'a str),
}

/// What is known of connections.
pub(super) struct Known<'a> {
    pub(super) connection: &'a dyn Fn(&str) -> Option<VaultConnection>,
    /// As its server last answered.
    pub(super) health: &'a dyn Fn(&str) -> Option<Health>,
    pub(super) identity: &'a dyn Fn(&VaultConnection) -> String,
}

impl Known<'_> {
    /// The connection `name`, if an object with this namespace of its own gets to `spot` over it.
    fn connection_to(
        &self,
        spot: &Spot<'_>,
        name: &str,
        own: Option<&str>,
    ) -> Option<VaultConnection> {
        let connection = (self.connection)(name)?;
        let there = Realm::new(&connection, (self.health)(name), own);
        there.is(&spot.realm).then_some(connection)
    }
}

/// What an object's name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A policy of that name.
    Policy,
    /// A role of that name.
    Role,
    /// A role of that name, or parts of it for namespaces, or both: only its status tells.
    PartedRole,
}

/// A kind that claims policies or roles.
pub(super) trait Claims: Declared {
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

/// What `object` has to do with what is at `spot`.
///
/// | on its record, or announced      | yes                                             |
/// | where its name leads             | yes, unless it only shares the name             |
/// | where a part of it may be        | maybe; once synced, its record has all its parts |
/// | being deleted, on another Vault  | no                                              |
pub(super) fn claim<K: Claims>(object: &K, spot: &Spot<'_>, known: &Known<'_>) -> Claim {
    let Site::Place(place) = spot.site else {
        return Claim::No;
    };
    if object.meta().deletion_timestamp.is_some() {
        return Claim::No;
    }
    if records(object, place, spot, known) {
        return Claim::Yes;
    }
    let terms = object.terms();
    let connection = known.connection_to(spot, terms.connection, terms.vault_namespace);
    let connection = connection.filter(|one| !is_namesake(object, one, spot));
    let Some(wanted) = connection.and_then(|connection| derived(object, &connection, known)) else {
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
fn is_namesake<K: Claims>(object: &K, connection: &VaultConnection, spot: &Spot<'_>) -> bool {
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
    let (kind, resource) = spot.left_by;
    object.external_name().is_none()
        && !resource.is_empty()
        && (kind, resource) != (&*K::kind(&()), &*key)
}

/// Whether the object's status names `place` there.
fn records<K: Claims>(object: &K, place: &Place, spot: &Spot<'_>, known: &Known<'_>) -> bool {
    let terms = object.terms();
    let is_there = |connection: Option<&str>| {
        let name = connection.unwrap_or(terms.connection);
        let found = known.connection_to(spot, name, terms.vault_namespace);
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
    known: &Known<'_>,
) -> Option<Place> {
    let meta = object.meta();
    let name = meta.name.as_deref().unwrap_or_default();
    let name = object.external_name().map_or_else(
        || {
            let naming = Naming::new(connection, (known.identity)(connection));
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
pub(super) fn claim_by_seed(seed: &VaultKVSecret, spot: &Spot<'_>, known: &Known<'_>) -> Claim {
    let site = Site::of_seed(&seed.spec.path);
    let there = || {
        let connection = known.connection_to(spot, &seed.spec.connection_ref, None);
        connection.is_some()
    };
    let exists = seed.metadata.deletion_timestamp.is_none();
    if exists && site.is_some_and(|site| site.is(spot.site)) && there() {
        Claim::Yes
    } else {
        Claim::No
    }
}

/// Whether an object can have to do with `site` at all: a quick look that spares most of them a
/// closer one.
pub(super) fn may_concern(json: &str, key: &ObjectKey, site: &Site) -> bool {
    let name = match site {
        Site::Place(place) => place.name().to_lowercase(),
        Site::Seed(KvPath { path, .. }) => path.to_lowercase(),
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

#[cfg(test)]
mod tests;
