//! Which DistributionTenants refer to a group, by the cache.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use engine::{Cache, Ended, Index, Stop, Stored};
use kernel::ObjectKey;
use parking_lot::Mutex;
use serde::Deserialize;

use super::{CreateIntent, World};
use crate::ctx::{Caches, Ctx};

/// The index of tenants by the groups that they refer to or are in.
const BY_GROUP: &str = "tenants.connectionGroup";
/// The index of groups by their id in CloudFront.
const BY_ID: &str = "tenants.connectionGroupId";

/// The number of tenants is recorded at most this often.
const COUNT_INTERVAL: Duration = Duration::from_secs(10);

/// The tenants of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Users {
    /// Tenants whose spec refers to it, by its object or by its id.
    pub(super) referring: BTreeSet<ObjectKey>,
    /// Tenants that refer to it, or that are still in it in CloudFront.
    pub(super) using: BTreeSet<ObjectKey>,
    /// Not all tenants have been read, so there may be more.
    pub(super) unread: bool,
}

/// Adds the indices of this file to the caches.
pub(super) fn index(ctx: &Ctx) {
    let Caches {
        tenants, groups, ..
    } = &ctx.caches;
    let values = |tenant: &Stored| {
        let references = references(tenant);
        references.iter().map(GroupReference::index_value).collect()
    };
    tenants.store().index(Index::by(BY_GROUP, values));
    let id = |group: &Stored| status(group).id.into_iter().collect();
    groups.store().index(Index::by(BY_ID, id));
}

/// The tenants of the group with this object and this id.
pub(super) fn users(ctx: &Ctx, object: &str, id: Option<&str>) -> Users {
    let found = |reference: GroupReference| {
        let value = reference.index_value();
        let tenants = ctx.caches.tenants.store().by(BY_GROUP, &value);
        tenants.into_iter().map(|tenant| tenant.key().clone())
    };
    let mut users = Users {
        unread: !ctx.caches.tenants.is_settled(),
        ..Users::default()
    };
    users
        .referring
        .extend(found(GroupReference::Object(object.to_owned())));
    if let Some(id) = id {
        users
            .referring
            .extend(found(GroupReference::Id(id.to_owned())));
        users
            .using
            .extend(found(GroupReference::Member(id.to_owned())));
    }
    users.using.extend(users.referring.iter().cloned());
    users
}

/// Whether the group of this id is the account's default group, by the status of a ConnectionGroup.
pub(crate) fn is_default(ctx: &Ctx, id: &str) -> bool {
    let groups = ctx.caches.groups.store().by(BY_ID, id);
    groups.iter().any(|group| status(group).is_default)
}

/// The tenants whose specs name this object.
pub(crate) fn referring(ctx: &Ctx, object: &str) -> Vec<ObjectKey> {
    let users = users(ctx, object, None);
    users.referring.into_iter().collect()
}

/// How many tenants refer to the group.
pub(super) fn count(world: &World) -> Option<i64> {
    i64::try_from(world.facts.users.referring.len()).ok()
}

/// The pause before a new number of tenants is recorded. It avoids a thousand writes after a thousand new
/// tenants. None: the number may be recorded now, or is recorded.
pub(super) fn count_pause(world: &World) -> Option<Duration> {
    if world.object.status.tenants == count(world) {
        return None;
    }
    let next = world.memory.counted_at?.saturating_add(COUNT_INTERVAL);
    let left = next.saturating_sub(world.elapsed);
    (!left.is_zero()).then_some(left)
}

/// Whether a pass that ended so records the number of tenants. A pass that waits may leave it for later.
pub(super) fn is_count_due(world: &World, ended: &Ended<CreateIntent>) -> bool {
    let pauses = match ended {
        Ended::Done { recheck } => recheck.is_some(),
        Ended::Stopped(Stop::Waiting { .. }) => true,
        Ended::Stopped(Stop::Blocked { .. } | Stop::Failed { .. })
        | Ended::Announcing(_)
        | Ended::Previewed(_) => false,
    };
    !pauses || count_pause(world).is_none()
}

/// Maps a changed DistributionTenant to the groups that it has joined or left.
pub(super) fn groups_of_tenant(
    caches: &Caches,
) -> impl Fn(&Stored) -> Vec<ObjectKey> + Send + Sync + 'static {
    let (tenants, groups) = (caches.tenants.clone(), caches.groups.clone());
    let before: Mutex<HashMap<ObjectKey, BTreeSet<ObjectKey>>> = Mutex::default();
    move |tenant| {
        let is_gone = tenants.store().get(tenant.key()).is_none();
        let now = referenced_groups(&references(tenant), &groups);
        let mut before = before.lock();
        let was = if is_gone {
            before.remove(tenant.key())
        } else {
            before.insert(tenant.key().clone(), now.clone())
        };
        let was = was.unwrap_or_default();
        if is_gone {
            return now.union(&was).cloned().collect();
        }
        now.symmetric_difference(&was).cloned().collect()
    }
}

/// The groups of these references.
fn referenced_groups(references: &[GroupReference], groups: &Cache) -> BTreeSet<ObjectKey> {
    let mut keys = BTreeSet::new();
    for reference in references {
        match reference {
            GroupReference::Object(name) => {
                keys.insert(ObjectKey::cluster(&**name));
            }
            GroupReference::Id(id) | GroupReference::Member(id) => {
                let found = groups.store().by(BY_ID, id);
                keys.extend(found.iter().map(|group| group.key().clone()));
            }
        }
    }
    keys
}

/// How a tenant refers to a group.
#[derive(Debug, Clone, PartialEq, Eq)]
enum GroupReference {
    /// Its spec names the object.
    Object(String),
    /// Its spec names the id.
    Id(String),
    /// The tenant is in this group in CloudFront.
    Member(String),
}

impl GroupReference {
    /// The value in the index.
    fn index_value(&self) -> String {
        match self {
            Self::Object(name) => format!("object {name}"),
            Self::Id(id) => format!("id {id}"),
            Self::Member(id) => format!("in {id}"),
        }
    }
}

/// The fields of a tenant that refer to groups.
#[derive(Deserialize)]
struct TenantFields {
    spec: TenantSpecFields,
    #[serde(default)]
    status: TenantStatusFields,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TenantSpecFields {
    connection_group_id: Option<String>,
    connection_group_ref: Option<ObjectName>,
}

#[derive(Deserialize)]
struct ObjectName {
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct TenantStatusFields {
    connection_group_id: Option<String>,
}

/// The groups that a tenant refers to; none if the tenant cannot be parsed.
fn references(tenant: &Stored) -> Vec<GroupReference> {
    serde_json::from_str(tenant.json()).map_or_else(|_| Vec::new(), references_of)
}

fn references_of(tenant: TenantFields) -> Vec<GroupReference> {
    let TenantFields { spec, status } = tenant;
    let object = spec
        .connection_group_ref
        .map(|one| GroupReference::Object(one.name));
    let id = spec.connection_group_id.filter(|id| !id.is_empty());
    let member = status.connection_group_id.map(GroupReference::Member);
    object
        .into_iter()
        .chain(id.map(GroupReference::Id))
        .chain(member)
        .collect()
}

/// The fields of a group that the index needs.
#[derive(Deserialize)]
struct GroupFields {
    #[serde(default)]
    status: GroupStatusFields,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct GroupStatusFields {
    id: Option<String>,
    is_default: bool,
}

fn status(group: &Stored) -> GroupStatusFields {
    let group = serde_json::from_str::<GroupFields>(group.json());
    group.map(|group| group.status).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[rstest]
    #[case::none(json!({"spec": {}}), &[])]
    #[case::by_object(json!({"spec": {"connectionGroupRef": {"name": "edge"}}}), &["object edge"])]
    #[case::by_id(json!({"spec": {"connectionGroupId": "cg_1"}}), &["id cg_1"])]
    #[case::an_empty_id_is_none(json!({"spec": {"connectionGroupId": ""}}), &[])]
    #[case::moved_in_the_spec_only(
        json!({"spec": {"connectionGroupRef": {"name": "edge"}}, "status": {"connectionGroupId": "cg_0"}}),
        &["object edge", "in cg_0"]
    )]
    fn a_tenant_refers_to_groups(#[case] tenant: Value, #[case] values: &[&str]) {
        let references = references_of(serde_json::from_value(tenant).unwrap());
        let found: Vec<_> = references.iter().map(GroupReference::index_value).collect();
        assert_eq!(found, values);
    }
}
