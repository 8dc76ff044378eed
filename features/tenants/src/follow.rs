//! Which objects a change of another concerns.

use std::sync::Arc;

use api::tenants::DistributionTenant;
use engine::{Kind, Stored};
use kernel::ObjectKey;

use crate::ctx::Ctx;
use crate::tenant;

/// The tenants that want what a tenant has.
pub(crate) fn neighbours(
    ctx: &Arc<Ctx>,
) -> impl Fn(&Stored) -> Vec<ObjectKey> + Send + Sync + 'static {
    let ctx = Arc::clone(ctx);
    move |tenant| tenant::neighbours(&ctx, tenant)
}

/// The tenants that refer to a group.
pub(crate) fn tenants_of_group(
    ctx: &Arc<Ctx>,
) -> impl Fn(&Stored) -> Vec<ObjectKey> + Send + Sync + 'static {
    let tenants = ctx.caches.tenants.clone();
    move |group| {
        let all = tenants.store().all().into_iter();
        let refers = |tenant: &Arc<Stored>| {
            let object = tenant.parse(&Kind::of::<DistributionTenant>());
            object.is_ok_and(|object: DistributionTenant| {
                let reference = object.spec.settings.connection_group_ref;
                reference.is_some_and(|reference| *reference.name == *group.key().name)
            })
        };
        all.filter(refers).map(|one| one.key().clone()).collect()
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
