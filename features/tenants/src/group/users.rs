//! Which DistributionTenants a group has, by the cache.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use engine::{Cache, Ended, Index, Stop, Stored};
use kernel::ObjectKey;
use parking_lot::Mutex;
use serde::Deserialize;

use super::{CreateIntent, World};
use crate::ctx::{Caches, Ctx};

/// Tenants by the groups they refer to and those they are in.
const BY_GROUP: &str = "tenants.connectionGroup";
/// Groups by their id in CloudFront.
const BY_ID: &str = "tenants.connectionGroupId";

/// While tenants come and go, their number is recorded this often.
const COUNTED: Duration = Duration::from_secs(10);

/// Who has to do with a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Users {
    /// Their specs refer to it, by its object or by its id.
    pub(super) referring: BTreeSet<ObjectKey>,
    /// They refer to it, or CloudFront has them in it still.
    pub(super) using: BTreeSet<ObjectKey>,
    /// There may be more: not all tenants have been read.
    pub(super) unread: bool,
}

/// Teaches the caches what is asked of them here.
pub(super) fn index(ctx: &Ctx) {
    let Caches {
        tenants, groups, ..
    } = &ctx.caches;
    let values = |tenant: &Stored| links(tenant).iter().map(Link::value).collect();
    tenants.store().index(Index::by(BY_GROUP, values));
    let id = |group: &Stored| status(group).id.into_iter().collect();
    groups.store().index(Index::by(BY_ID, id));
}

/// Who has to do with the group of this object, and of this id.
pub(super) fn users(ctx: &Ctx, object: &str, id: Option<&str>) -> Users {
    let found = |link: Link| {
        let tenants = ctx.caches.tenants.store().by(BY_GROUP, &link.value());
        tenants.into_iter().map(|tenant| tenant.key().clone())
    };
    let mut users = Users {
        unread: !ctx.caches.tenants.is_settled(),
        ..Users::default()
    };
    users
        .referring
        .extend(found(Link::Object(object.to_owned())));
    if let Some(id) = id {
        users.referring.extend(found(Link::Id(id.to_owned())));
        users.using.extend(found(Link::In(id.to_owned())));
    }
    users.using.extend(users.referring.iter().cloned());
    users
}

/// Whether a ConnectionGroup says that the group of this id is the account's default one.
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

/// How long a new number of tenants is not recorded yet, so that a thousand new tenants are not a
/// thousand writes. None: it may be recorded now, or is recorded.
pub(super) fn count_waits(world: &World) -> Option<Duration> {
    if world.object.status.tenants == count(world) {
        return None;
    }
    let next = world.memory.counted?.saturating_add(COUNTED);
    let left = next.saturating_sub(world.elapsed);
    (!left.is_zero()).then_some(left)
}

/// Whether the number is recorded by a pass that ended so: one that pauses may leave it for later.
pub(super) fn is_count_due(world: &World, ended: &Ended<CreateIntent>) -> bool {
    let pauses = match ended {
        Ended::Done { recheck } => recheck.is_some(),
        Ended::Stopped(Stop::Waiting { .. }) => true,
        Ended::Stopped(Stop::Blocked { .. } | Stop::Failed { .. })
        | Ended::Announcing(_)
        | Ended::Previewed(_) => false,
    };
    !pauses || count_waits(world).is_none()
}

/// A change of a DistributionTenant concerns the groups it came to and those it left.
pub(super) fn groups_of_tenant(
    caches: &Caches,
) -> impl Fn(&Stored) -> Vec<ObjectKey> + Send + Sync + 'static {
    let (tenants, groups) = (caches.tenants.clone(), caches.groups.clone());
    let before: Mutex<HashMap<ObjectKey, BTreeSet<ObjectKey>>> = Mutex::default();
    move |tenant| {
        let is_gone = tenants.store().get(tenant.key()).is_none();
        let now = named(&links(tenant), &groups);
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

/// The groups that links lead to.
fn named(links: &[Link], groups: &Cache) -> BTreeSet<ObjectKey> {
    let mut keys = BTreeSet::new();
    for link in links {
        match link {
            Link::Object(name) => {
                keys.insert(ObjectKey::cluster(&**name));
            }
            Link::Id(id) | Link::In(id) => {
                let held = groups.store().by(BY_ID, id);
                keys.extend(held.iter().map(|group| group.key().clone()));
            }
        }
    }
    keys
}

/// How a tenant leads to a group.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Link {
    /// Its spec names the object.
    Object(String),
    /// Its spec names the id.
    Id(String),
    /// CloudFront has it in there.
    In(String),
}

impl Link {
    /// As the index knows it.
    fn value(&self) -> String {
        match self {
            Self::Object(name) => format!("object {name}"),
            Self::Id(id) => format!("id {id}"),
            Self::In(id) => format!("in {id}"),
        }
    }
}

/// As much of a tenant as leads to groups.
#[derive(Deserialize)]
struct Tenant {
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    connection_group_id: Option<String>,
    connection_group_ref: Option<Name>,
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Status {
    connection_group_id: Option<String>,
}

fn links(tenant: &Stored) -> Vec<Link> {
    serde_json::from_str(tenant.json()).map_or_else(|_| Vec::new(), links_of)
}

fn links_of(tenant: Tenant) -> Vec<Link> {
    let Tenant { spec, status } = tenant;
    let object = spec.connection_group_ref.map(|one| Link::Object(one.name));
    let id = spec.connection_group_id.filter(|id| !id.is_empty());
    let inside = status.connection_group_id.map(Link::In);
    object
        .into_iter()
        .chain(id.map(Link::Id))
        .chain(inside)
        .collect()
}

/// As much of a group as it is found by.
#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    status: GroupStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct GroupStatus {
    id: Option<String>,
    is_default: bool,
}

fn status(group: &Stored) -> GroupStatus {
    let group = serde_json::from_str::<Group>(group.json());
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
    #[case::moved_on_paper(
        json!({"spec": {"connectionGroupRef": {"name": "edge"}}, "status": {"connectionGroupId": "cg_0"}}),
        &["object edge", "in cg_0"]
    )]
    fn a_tenant_leads_to(#[case] tenant: Value, #[case] values: &[&str]) {
        let links = links_of(serde_json::from_value(tenant).unwrap());
        let found: Vec<_> = links.iter().map(Link::value).collect();
        assert_eq!(found, values);
    }
}
