//! Where a tenant's records have to point.

use api::tenants::{DistributionTenant, DistributionTenantStatus};
use aws::Caller;
use engine::Pass;

use super::create::way;
use super::dns;
use super::draft::Draft;
use super::ground::Ground;
use super::stop::{Stop, failed};
use crate::ctx::Ctx;
use crate::dns::Target;
use crate::failure::{Missing, Way};

/// Where they have to; ends the pass if that cannot be told.
pub(super) async fn target(
    ground: &Ground,
    asker: &Caller,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Option<Target>, Stop> {
    let found = found(ground, &draft.status, asker, ctx).await;
    found.map_err(|error| {
        dns::restate(draft);
        failed(error, Way::Target, draft, ctx, pass)
    })
}

/// The entrance of the group the spec names, else of the one the tenant has, else of the account's
/// default group; none while that does not exist.
pub(super) async fn found(
    ground: &Ground,
    status: &DistributionTenantStatus,
    asker: &Caller,
    ctx: &Ctx,
) -> Result<Option<Target>, aws::Error> {
    if let Some(referred) = &ground.referred {
        return Ok(Some(referred.target.clone()));
    }
    let own = ctx.own().await;
    let id = match group_id(ground, status) {
        Some(id) => id.to_owned(),
        None => match ctx.outside.default_group(own, asker).await? {
            Some(group) => group.id,
            None => return Ok(None),
        },
    };
    let group = ctx.outside.group(own, asker, &id).await?;
    Ok(Some(Target {
        endpoint: group.routing_endpoint.clone(),
        ipv6: group.body.ipv6_enabled,
    }))
}

/// Whether [`found`] succeeds without a call: the caches have all that it needs.
pub(super) fn is_cached(ground: &Ground, status: &DistributionTenantStatus, ctx: &Ctx) -> bool {
    let outside = &ctx.outside;
    let id = group_id(ground, status).map(str::to_owned);
    let id = id.or_else(|| outside.cached_default_group().map(|group| group.id));
    ground.referred.is_some() || id.is_some_and(|id| outside.has_group(&id))
}

/// The group the spec names, else the one the tenant has; none: the account's default group.
fn group_id<'a>(ground: &'a Ground, status: &'a DistributionTenantStatus) -> Option<&'a str> {
    let named = ground.declared.connection_group_id.as_deref();
    // A group that the spec no longer names is left: the tenant goes to the default one.
    let given = status.last_applied.as_ref();
    let given = given.and_then(|body| body.connection_group_id.as_ref());
    let live = status.connection_group_id.as_deref();
    named.or(live.filter(|_| given.is_none()))
}

/// The id of the account's default group, which the spec waits for.
pub(super) async fn default_group(
    object: &DistributionTenant,
    asker: &Caller,
    ctx: &Ctx,
    draft: &mut Draft,
    pass: &Pass,
) -> Result<Option<String>, Stop> {
    let own = ctx.own().await;
    match ctx.outside.default_group(own, asker).await {
        Ok(group) => Ok(group.map(|group| group.id)),
        Err(error) => Err(failed(error, way(object, Missing::Group), draft, ctx, pass)),
    }
}
