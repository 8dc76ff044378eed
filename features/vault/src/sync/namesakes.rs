//! Derived names that an object may not have: reserved ones, and one that another object has first.
//!
//! Only names of namespace and name can collide. Where Vault shows a marker, that decides. Without
//! one, before a create and for roles on servers that keep no markers, the objects decide.

use std::cmp::Reverse;

use api::vault::{Binding, Intent, NameFormat, reasons};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kernel::{ObjectKey, Reason};
use serde::Deserialize;

use super::gather::Seen;
use super::{Declared, Ground, Kept, Stop, Target};
use crate::ctx::Ctx;
use crate::links::Dependent;
use crate::names;
use crate::place::Place;

/// An object that wants a name. The smallest one gets it: a recorded one before others, then the
/// oldest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Claimant {
    recorded: Reverse<bool>,
    created: Option<Timestamp>,
    kind: Dependent,
    key: ObjectKey,
}

/// What another object says about its name.
#[derive(Deserialize)]
struct Other {
    metadata: ObjectMeta,
    spec: OtherSpec,
    #[serde(default)]
    status: OtherStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OtherSpec {
    connection_ref: String,
    external_name: Option<String>,
    vault_namespace: Option<String>,
}

#[derive(Deserialize, Default)]
struct OtherStatus {
    binding: Option<Binding>,
    intent: Option<Intent>,
}

/// Refuses a derived name that is reserved.
pub(super) fn refuse_reserved<K: Declared>(
    object: &K,
    targets: &[Target],
    ground: &Ground,
) -> Result<(), Stop> {
    let auth = &ground.connection.spec.auth;
    let is_reserved = |target: &&Target| ground.naming.refuses(&target.place, auth);
    match targets.iter().find(is_reserved) {
        Some(Target { place, .. }) if object.terms().external_name.is_none() => {
            let message = format!("{place} is a reserved name; give the object another name");
            Err(Stop::blocked(Reason::new(
                reasons::VALIDATION_FAILED,
                message,
            )))
        }
        Some(_) | None => Ok(()),
    }
}

/// Refuses a derived name that another object has first, unless a marker in Vault decides.
pub(super) fn refuse_second<K: Declared>(
    object: &K,
    targets: &[Target],
    seen: &[Seen],
    ctx: &Ctx,
    ground: &Ground,
) -> Result<(), Stop> {
    let can_collide = match ground.naming.format {
        NameFormat::Qualified => false,
        NameFormat::NamespaceName => object.terms().external_name.is_none(),
    };
    let mut all = targets.iter().zip(seen);
    let base = all.find(|(target, _)| target.slot.is_none());
    let Some((Target { place, .. }, seen)) = base.filter(|_| can_collide) else {
        return Ok(());
    };
    if let Seen::Asked(Some(found)) = seen
        && found.marker().is_some()
    {
        return Ok(());
    }
    let status = object.status();
    let records = K::records(&status);
    let own = Claimant {
        recorded: Reverse(
            records.iter().any(|record| record.place.is(place))
                || is_at(status.sync().intent.as_ref(), place),
        ),
        created: object.meta().creation_timestamp.as_ref().map(|time| time.0),
        kind: K::DEPENDENT,
        key: ground.key.clone(),
    };
    let own_namespace = object.terms().vault_namespace;
    let others = others(place, own_namespace, ctx, ground);
    let others = others
        .into_iter()
        .filter(|other| (other.kind, &other.key) != (own.kind, &own.key));
    match others.filter(|other| *other < own).min() {
        None => Ok(()),
        Some(first) => {
            let kind = &ctx.caches.of(first.kind).key().kind.kind;
            let message = format!(
                "{place} is also the name of {kind} {}, which has it first; rename one of them",
                first.key
            );
            Err(Stop::blocked(Reason::new(reasons::CONFLICT, message)))
        }
    }
}

fn is_at(intent: Option<&Intent>, place: &Place) -> bool {
    let path = intent.and_then(|intent| intent.vault_path.as_deref());
    path.and_then(Place::parse)
        .is_some_and(|named| named.is(place))
}

/// The objects that derive or record the same place; the object itself may be among them.
fn others(place: &Place, own_namespace: Option<&str>, ctx: &Ctx, ground: &Ground) -> Vec<Claimant> {
    let (namespaced, cluster_wide) = match place {
        Place::Policy { .. } => (Dependent::Policy, Dependent::ClusterPolicy),
        Place::Role { .. } => (Dependent::Role, Dependent::ClusterRole),
    };
    let here = ctx.realm(&ground.connection, own_namespace);
    let mut found = Vec::new();
    for (namespace, name) in names::sources(place.name()) {
        let kind = namespace.map_or(cluster_wide, |_| namespaced);
        let cache = ctx.caches.of(kind);
        let key = ObjectKey::of(namespace, name);
        let stored = cache.store().get(&key);
        let other = stored.and_then(|stored| stored.parse::<Other>(&cache.key().kind).ok());
        let Some(other) = other else { continue };
        let Some(connection) = ctx.connection(&other.spec.connection_ref) else {
            continue;
        };
        let there = ctx.realm(&connection, other.spec.vault_namespace.as_deref());
        if !there.is(&here) {
            continue;
        }
        let defaults = connection.spec.defaults.as_ref();
        let mount = names::role_mount(defaults, &connection.spec.auth).ok();
        let is_at_mount = place.mount().is_none_or(|at| {
            let mount = mount.as_ref().map(|role| &role.mount);
            mount == Some(at)
        });
        let derives = other.spec.external_name.is_none()
            && is_at_mount
            && names::same(
                &ctx.naming(&connection).derived(namespace, name),
                place.name(),
            );
        let binding = other.status.binding.as_ref();
        let bound = binding.and_then(|binding| binding.vault_path.as_deref());
        let recorded = bound
            .and_then(Place::parse)
            .is_some_and(|bound| bound.is(place))
            || is_at(other.status.intent.as_ref(), place);
        if derives || recorded {
            found.push(Claimant {
                recorded: Reverse(recorded),
                created: other.metadata.creation_timestamp.map(|time| time.0),
                kind,
                key,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn claimant(recorded: bool, created: i64, name: &str) -> Claimant {
        Claimant {
            recorded: Reverse(recorded),
            created: Some(Timestamp::from_second(created).unwrap()),
            kind: Dependent::Role,
            key: ObjectKey::namespaced("team", name),
        }
    }

    #[rstest]
    #[case::the_older(claimant(false, 1, "b"), claimant(false, 2, "a"))]
    #[case::the_recorded_though_younger(claimant(true, 2, "b"), claimant(false, 1, "a"))]
    #[case::the_older_of_two_recorded(claimant(true, 1, "b"), claimant(true, 2, "a"))]
    #[case::by_name_if_nothing_else_differs(claimant(false, 1, "a"), claimant(false, 1, "b"))]
    fn has_the_name_first(#[case] first: Claimant, #[case] second: Claimant) {
        assert!(first < second);
    }
}
