//! Looks at many tenants by one list: what differs from its object is looked at closer, the rest
//! costs a hundredth of a call each.
//!
//! | when                      | what                                                       |
//! |---------------------------|------------------------------------------------------------|
//! | at start, then at intervals | every distribution in use, whole                         |
//! | every half minute         | distributions with tenants in progress, if a list is cheaper |
//!
//! A page that fails is asked for again. What may not be listed is looked at one by one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use api::tenants::{DistributionTenant, DistributionTenantStatus, conditions, reasons};
use aws::{Caller, Priority};
use engine::{Index, Kind, Stored};
use futures::future::join_all;
use kernel::{ObjectKey, find, spread};
use parking_lot::Mutex;

use crate::body::{DEPLOYED, Summary};
use crate::ctx::{Ctx, Ours};
use crate::diff::news;
use crate::failure::{Missing, Way};
use crate::outside::{insist, passes};

/// Tenants by their id in CloudFront.
const BY_ID: &str = "tenants.id";
/// Tenants that are in CloudFront, by distribution.
const BY_DISTRIBUTION: &str = "tenants.distributionId";
/// Those of them that come to be deployed by themselves, by distribution.
const IN_PROGRESS: &str = "tenants.inProgress";

/// How often tenants in progress are looked at, give or take a tenth.
const POLL: Duration = Duration::from_secs(30);
const SPREAD: f64 = 0.1;
/// How often it is looked whether all objects have been read, in real time.
const READING: Duration = Duration::from_millis(100);
/// Tenants on a page of a list.
const PAGE: usize = 100;
/// Pages of one list; beyond that CloudFront goes round in circles.
const PAGES: usize = 10_000;
/// What an error of a list is about.
const LIST: Way = Way::Tenant {
    missing: Missing::Distribution,
    host: None,
};

/// How long the list of each distribution was.
#[derive(Debug, Default)]
pub(crate) struct Lengths(Mutex<HashMap<String, usize>>);

/// Teaches the cache of tenants what sweeps ask it.
pub(crate) fn index(ctx: &Ctx) {
    let store = ctx.caches.tenants.store();
    store.index(Index::by(BY_ID, |tenant| {
        status(tenant).id.into_iter().collect()
    }));
    store.index(Index::by(BY_DISTRIBUTION, |tenant| {
        distribution(tenant, |_| true)
    }));
    store.index(Index::by(IN_PROGRESS, |tenant| {
        distribution(tenant, is_in_progress)
    }));
}

/// Sweeps for as long as it is polled, beginning at once.
pub(crate) async fn sweeps(ctx: Arc<Ctx>) {
    while !ctx.caches.tenants.is_settled() {
        tokio::time::sleep(READING).await;
    }
    loop {
        let in_use = in_use(&ctx, BY_DISTRIBUTION);
        ctx.metrics.keep_swept(|one| in_use.contains_key(one));
        ctx.lengths
            .0
            .lock()
            .retain(|one, _| in_use.contains_key(one));
        // One that fails holds up no other.
        let looks = in_use.keys().map(|one| look(&ctx, one, Priority::Sweep));
        join_all(looks).await;
        pause(&ctx, ctx.settings.sweep).await;
    }
}

/// Polls what is in progress for as long as it is polled itself.
pub(crate) async fn polls(ctx: Arc<Ctx>) {
    loop {
        pause(&ctx, POLL).await;
        let in_progress = in_use(&ctx, IN_PROGRESS);
        let looks = in_progress.iter().map(async |(distribution, tenants)| {
            if is_list_cheaper(&ctx, distribution, tenants.len()) {
                look(&ctx, distribution, Priority::Poll).await;
            } else {
                for key in tenants {
                    doubt(&ctx, key, None);
                }
            }
        });
        join_all(looks).await;
    }
}

async fn pause(ctx: &Ctx, about: Duration) {
    let wait = spread(about, SPREAD, fastrand::f64());
    tokio::time::sleep(ctx.deck.clock.real(wait)).await;
}

/// The distributions that an index knows, with their tenants.
fn in_use(ctx: &Ctx, index: &str) -> BTreeMap<String, Vec<ObjectKey>> {
    let store = ctx.caches.tenants.store();
    let mut found = BTreeMap::new();
    for distribution in store.values(index) {
        let tenants = store.by(index, &distribution);
        let keys = tenants.iter().map(|tenant| tenant.key().clone()).collect();
        found.insert(distribution, keys);
    }
    found
}

fn is_list_cheaper(ctx: &Ctx, distribution: &str, tenants: usize) -> bool {
    let known = ctx.lengths.0.lock().get(distribution).copied();
    let least = || {
        let ours = ctx.caches.tenants.store();
        ours.by(BY_DISTRIBUTION, distribution).len().div_ceil(PAGE)
    };
    tenants > known.unwrap_or_else(least)
}

/// Compares the tenants of a distribution with their objects, by a list or one by one.
async fn look(ctx: &Ctx, distribution: &str, priority: Priority) {
    let began = ctx.deck.clock.elapsed();
    let ours = ctx.caches.tenants.store().by(BY_DISTRIBUTION, distribution);
    let known = ctx.lengths.0.lock().get(distribution).copied();
    if known.is_some_and(|pages| ours.len() < pages) {
        for tenant in &ours {
            doubt(ctx, tenant.key(), None);
        }
    } else {
        match list(ctx, distribution, priority).await {
            Ok(seen) => missing(ctx, &ours, &seen, began),
            Err(error) => {
                tracing::warn!(distribution, %error, "tenants cannot be listed");
                if priority == Priority::Poll || !passes(error.fault(), LIST) {
                    one_by_one(ctx, distribution, priority);
                }
                return;
            }
        }
    }
    ctx.metrics.swept(distribution, ctx.deck.clock.elapsed());
}

/// Has those looked at that a list should have shown.
fn one_by_one(ctx: &Ctx, distribution: &str, priority: Priority) {
    let index = match priority {
        Priority::Poll => IN_PROGRESS,
        Priority::Delete | Priority::Edit | Priority::Sweep => BY_DISTRIBUTION,
    };
    for tenant in ctx.caches.tenants.store().by(index, distribution) {
        doubt(ctx, tenant.key(), None);
    }
}

/// Reads the whole list, and doubts what it shows otherwise than its object says.
async fn list(
    ctx: &Ctx,
    distribution: &str,
    priority: Priority,
) -> Result<HashSet<String>, aws::Error> {
    let asker = Caller::new(priority, "");
    let cloudfront = ctx.own().await.cloudfront(&asker);
    let (mut seen, mut marker, mut pages) = (HashSet::new(), None::<String>, 0);
    while pages < PAGES {
        let page = || cloudfront.tenants(Some(distribution), marker.as_deref());
        let page = insist(ctx, LIST, page).await?;
        pages += 1;
        for summary in page.items {
            seen.insert(summary.id.clone());
            compare(ctx, summary.into());
        }
        marker = page.next;
        if marker.is_none() {
            break;
        }
    }
    ctx.lengths.0.lock().insert(distribution.to_owned(), pages);
    Ok(seen)
}

fn compare(ctx: &Ctx, summary: Summary) {
    for tenant in ctx.caches.tenants.store().by(BY_ID, &summary.id) {
        let differs = news(&summary, &status(&tenant));
        if !differs.is_empty() && is_worth_a_look(&summary, tenant.is_deleting()) {
            tracing::debug!(tenant = %tenant.key(), ?differs, "the list shows it otherwise");
            doubt(ctx, tenant.key(), Some(summary.clone()));
        }
    }
}

/// Whether a closer look can lead to anything. Of a tenant that is to go, all that counts is whether
/// it has to be switched off, or can be deleted.
fn is_worth_a_look(summary: &Summary, deleting: bool) -> bool {
    !deleting || summary.enabled || summary.is_deployed()
}

/// Whether a tenant comes to be deployed by itself: not if it is gone, another's, or left alone.
fn is_in_progress(status: &DistributionTenantStatus) -> bool {
    let ready = find(&status.conditions, conditions::READY);
    let left_alone = [
        reasons::EXTERNALLY_DELETED,
        reasons::NOT_OWNED,
        reasons::POLICY_DENIED,
    ];
    status.distribution_tenant_status.as_deref() != Some(DEPLOYED)
        && !ready.is_some_and(|one| left_alone.contains(&one.reason.as_str()))
}

/// Doubts those that were in CloudFront before the list was begun and are not in it.
fn missing(ctx: &Ctx, ours: &[Arc<Stored>], seen: &HashSet<String>, began: Duration) {
    for tenant in ours {
        let id = status(tenant).id;
        let is_new = ctx
            .memory
            .of(tenant.key())
            .made
            .is_some_and(|made| made >= began);
        if id.is_some_and(|id| !seen.contains(&id)) && !is_new {
            doubt(ctx, tenant.key(), None);
        }
    }
}

/// Has a tenant looked at closer, or taken as a list shows it.
fn doubt(ctx: &Ctx, key: &ObjectKey, seen: Option<Summary>) {
    ctx.memory.note(key, |memory| {
        memory.doubted = true;
        memory.seen = seen.map(Box::new);
    });
    ctx.wake_in(Ours::Tenant, key, Duration::ZERO);
}

/// What a tenant's status says; nothing where it cannot be read.
pub(crate) fn status(tenant: &Stored) -> DistributionTenantStatus {
    let object = tenant.parse(&Kind::of::<DistributionTenant>());
    object
        .ok()
        .and_then(|object: DistributionTenant| object.status)
        .unwrap_or_default()
}

/// The distribution of a tenant that is in CloudFront, as it was last given.
fn distribution(
    tenant: &Stored,
    wanted: impl Fn(&DistributionTenantStatus) -> bool,
) -> Vec<String> {
    let Ok(object) = tenant.parse(&Kind::of::<DistributionTenant>()) else {
        return Vec::new();
    };
    let DistributionTenant { spec, status, .. } = object;
    let Some(status) = status.filter(|status| status.id.is_some() && wanted(status)) else {
        return Vec::new();
    };
    let given = status.last_applied.map(|body| body.distribution_id);
    vec![given.unwrap_or(spec.distribution_id)]
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::being_deployed("InProgress", "Deploying", true)]
    #[case::deployed("Deployed", "Deployed", false)]
    #[case::denied_by_cloudfront("InProgress", "AccessDenied", true)]
    #[case::deleted_by_others("InProgress", "ExternallyDeleted", false)]
    #[case::anothers("InProgress", "NotOwned", false)]
    #[case::denied_by_a_policy("InProgress", "PolicyDenied", false)]
    fn a_tenant_is_polled_while_it_comes_to_be_deployed(
        #[case] state: &str,
        #[case] ready: &str,
        #[case] polled: bool,
    ) {
        let condition = json!({"type": "Ready", "status": "False", "reason": ready, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let status = json!({"distributionTenantStatus": state, "conditions": [condition]});
        let status = serde_json::from_value(status).unwrap();
        assert_eq!(is_in_progress(&status), polled);
    }

    #[rstest]
    #[case::one_that_stays(false, false, "InProgress", true)]
    #[case::one_being_switched_off(true, false, "InProgress", false)]
    #[case::one_that_was_switched_on_again(true, true, "InProgress", true)]
    #[case::one_that_can_be_deleted(true, false, "Deployed", true)]
    fn of_what_differs_in_a_list_is_looked_at(
        #[case] deleting: bool,
        #[case] enabled: bool,
        #[case] status: &str,
        #[case] worth: bool,
    ) {
        let summary = Summary {
            enabled,
            status: status.to_owned(),
            ..Summary::default()
        };
        assert_eq!(is_worth_a_look(&summary, deleting), worth);
    }
}
