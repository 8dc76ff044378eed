//! The DistributionTenant that an invalidation is for, by the cache.

use std::collections::HashMap;

use engine::{Index, Stored};
use kernel::ObjectKey;
use parking_lot::Mutex;
use serde::Deserialize;

use crate::ctx::{Caches, Ctx};

/// Invalidations by the tenant they are for.
const BY_TENANT: &str = "tenants.invalidationOf";

/// How the tenant stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Standing {
    /// There is no such object.
    Missing,
    /// It is not in CloudFront yet.
    Unmade,
    /// It is being deleted.
    Going,
    /// It has this id.
    There(String),
}

/// Teaches the cache what is asked of it here.
pub(super) fn index(ctx: &Ctx) {
    let store = ctx.caches.invalidations.store();
    store.index(Index::by(BY_TENANT, |invalidation| {
        let spec: Option<Invalidation> = serde_json::from_str(invalidation.json()).ok();
        let name = spec.map(|one| one.spec.tenant_ref.name);
        let of = |name: String| beside(invalidation.key(), &name).to_string();
        name.map(of).into_iter().collect()
    }));
}

/// The tenant of this name in the namespace of `key`.
pub(super) fn standing(ctx: &Ctx, key: &ObjectKey, name: &str) -> Standing {
    let held = ctx.caches.tenants.store().get(&beside(key, name));
    held.map_or(Standing::Missing, |tenant| standing_of(&tenant))
}

/// A change of a DistributionTenant concerns invalidations of it, once it comes or goes in
/// CloudFront.
pub(super) fn invalidations_of_tenant(
    caches: &Caches,
) -> impl Fn(&Stored) -> Vec<ObjectKey> + Send + Sync + 'static {
    let (tenants, invalidations) = (caches.tenants.clone(), caches.invalidations.clone());
    let before: Mutex<HashMap<ObjectKey, Standing>> = Mutex::default();
    move |tenant| {
        let key = tenant.key();
        if tenants.store().get(key).is_none() {
            before.lock().remove(key);
        } else {
            let now = standing_of(tenant);
            if before.lock().insert(key.clone(), now.clone()) == Some(now) {
                return Vec::new();
            }
        }
        let held = invalidations.store().by(BY_TENANT, &key.to_string());
        held.iter().map(|one| one.key().clone()).collect()
    }
}

fn beside(key: &ObjectKey, name: &str) -> ObjectKey {
    ObjectKey::of(key.namespace.as_deref(), name)
}

/// As much of an invalidation as it is found by.
#[derive(Deserialize)]
struct Invalidation {
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    tenant_ref: Name,
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

/// As much of a tenant as counts here.
#[derive(Deserialize, Default)]
struct Tenant {
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize, Default)]
struct Status {
    id: Option<String>,
}

fn standing_of(tenant: &Stored) -> Standing {
    let read: Tenant = serde_json::from_str(tenant.json()).unwrap_or_default();
    match read.status.id {
        _ if tenant.is_deleting() => Standing::Going,
        Some(id) => Standing::There(id),
        None => Standing::Unmade,
    }
}
