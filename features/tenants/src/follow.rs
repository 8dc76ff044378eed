//! Which objects a change of another concerns.

use std::collections::HashMap;
use std::sync::Arc;

use api::tenants::{ConnectionGroup, conditions};
use engine::{Kind, Stored};
use kernel::{ObjectKey, is_true};
use parking_lot::Mutex;

use crate::ctx::Ctx;
use crate::{group, tenant};

/// The tenants that want what a tenant has.
pub(crate) fn neighbours(
    ctx: &Arc<Ctx>,
) -> impl Fn(&Stored) -> Vec<ObjectKey> + Send + Sync + 'static {
    let ctx = Arc::clone(ctx);
    move |tenant| tenant::neighbours(&ctx, tenant)
}

/// The tenants that refer to a group, when what they go by has changed: a group tells more of
/// itself, such as how many tenants it has.
pub(crate) fn tenants_of_group(
    ctx: &Arc<Ctx>,
) -> impl Fn(&Stored) -> Vec<ObjectKey> + Send + Sync + 'static {
    let (ctx, seen) = (Arc::clone(ctx), Seen::default());
    move |group| {
        let held = ctx.caches.groups.store().get(group.key());
        let is_there = held.is_some_and(|held| held.uid() == group.uid());
        if seen.is_news(group, is_there) {
            group::referring(&ctx, &group.key().name)
        } else {
            Vec::new()
        }
    }
}

/// What tenants go by, of each group when it was last told. After a start that is nothing.
#[derive(Default)]
struct Seen(Mutex<HashMap<ObjectKey, Footing>>);

/// What a tenant goes by of the group it refers to.
#[derive(Debug, PartialEq, Eq)]
struct Footing {
    uid: String,
    id: Option<String>,
    endpoint: Option<String>,
    ready: bool,
    ipv6: bool,
}

impl Footing {
    fn of(group: &Stored) -> Option<Self> {
        let object: ConnectionGroup = group.parse(&Kind::of::<ConnectionGroup>()).ok()?;
        let status = object.status.unwrap_or_default();
        Some(Self {
            uid: group.uid().to_owned(),
            id: status.id,
            endpoint: status.routing_endpoint,
            ready: is_true(&status.conditions, conditions::READY),
            ipv6: object.spec.ipv6_enabled,
        })
    }
}

impl Seen {
    /// Whether this version of a group, which is there or gone, tells tenants something new.
    fn is_news(&self, group: &Stored, is_there: bool) -> bool {
        let footing = Footing::of(group).filter(|_| is_there);
        let mut seen = self.0.lock();
        match footing {
            Some(footing) if seen.get(group.key()) == Some(&footing) => false,
            Some(footing) => {
                seen.insert(group.key().clone(), footing);
                true
            }
            None => {
                seen.remove(group.key());
                true
            }
        }
    }
}

/// All tenants: policies speak for namespaces by label, and their number counts, too.
pub(crate) fn all_tenants(
    ctx: &Arc<Ctx>,
) -> impl Fn(&Stored) -> Vec<ObjectKey> + Send + Sync + 'static {
    let tenants = ctx.caches.tenants.clone();
    move |_| {
        let all = tenants.store().all().into_iter();
        all.map(|one| one.key().clone()).collect()
    }
}

/// The tenants of a namespace, if policies ask for its labels.
pub(crate) fn tenants_in_namespace(
    ctx: &Arc<Ctx>,
) -> impl Fn(&Stored) -> Vec<ObjectKey> + Send + Sync + 'static {
    let (tenants, policies) = (ctx.caches.tenants.clone(), ctx.caches.policies.clone());
    move |namespace| {
        if policies.store().is_empty() {
            return Vec::new();
        }
        let all = tenants.store().all().into_iter();
        let here = all.filter(|one| one.key().namespace.as_deref() == Some(&*namespace.key().name));
        here.map(|one| one.key().clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use engine::Projection;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn group(change: &Value) -> Stored {
        let mut object = json!({
            "metadata": {"name": "edge", "uid": "u1", "resourceVersion": "1"},
            "spec": {"ipv6Enabled": true},
            "status": {
                "id": "cg_1", "routingEndpoint": "d1.cloudfront.net", "tenants": 1,
                "conditions": [condition("True")],
            },
        });
        for (path, value) in change.as_object().unwrap() {
            *object.pointer_mut(path).unwrap() = value.clone();
        }
        let kind = Kind::of::<ConnectionGroup>();
        Stored::read(&kind, &object.to_string(), &Projection::Full).unwrap()
    }

    fn condition(status: &str) -> Value {
        json!({
            "type": "Ready", "status": status, "reason": "Deployed", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    }

    #[rstest]
    #[case::another_tenant(json!({"/status/tenants": 2}), false)]
    #[case::its_id(json!({"/status/id": "cg_2"}), true)]
    #[case::its_endpoint(json!({"/status/routingEndpoint": "d2.cloudfront.net"}), true)]
    #[case::not_ready(json!({"/status/conditions/0": condition("False")}), true)]
    #[case::ipv6(json!({"/spec/ipv6Enabled": false}), true)]
    #[case::its_namesake(json!({"/metadata/uid": "u2"}), true)]
    fn tenants_are_told_only_of_what_they_go_by(#[case] change: Value, #[case] told: bool) {
        let seen = Seen::default();
        assert!(seen.is_news(&group(&json!({})), true));
        assert_eq!(seen.is_news(&group(&change), true), told);
        assert!(!seen.is_news(&group(&change), true));
    }

    #[test]
    fn one_that_is_gone_is_news_and_so_is_one_that_comes_back() {
        let (seen, group) = (Seen::default(), group(&json!({})));
        for is_there in [true, false, true] {
            assert!(seen.is_news(&group, is_there));
        }
    }
}
