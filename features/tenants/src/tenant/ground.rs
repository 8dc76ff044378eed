//! What a pass can know of a tenant without asking AWS: what it declares, whether it may, and
//! whether another object has what it wants.

use api::tenants::{
    ConnectionGroup, DistributionTenant, Dns, DriftPolicy, RecordAdoption, TenantBody, conditions,
    reasons,
};
use engine::{Kind, Stored};
use kernel::{Marker, ObjectKey, Reason, is_true};

use super::dns::route53;
use super::draft::{Draft, Question};
use super::stop::{Stop, left_alone, moment};
use crate::allowed::{self, Group, Leave, Named, Namespace, Policy};
use crate::body;
use crate::ctx::{Ctx, UNSETTLED};
use crate::dns::Target;
use crate::holders::{Claim, Conflict, Holders};

/// The index of tenants by their name in CloudFront.
pub(crate) const BY_NAME: &str = "tenants.tenantName";
/// The index of tenants by every domain they want or have.
pub(crate) const BY_DOMAIN: &str = "tenants.domain";

/// What is known of a tenant without asking AWS.
pub(crate) struct Ground {
    pub(crate) key: ObjectKey,
    /// Its name in CloudFront.
    pub(crate) name: String,
    pub(crate) generation: Option<i64>,
    /// What it declares, normalised.
    pub(crate) declared: TenantBody,
    pub(crate) drift: DriftPolicy,
    pub(crate) marker: Marker,
    /// Whether it wants to take over what is there.
    pub(crate) adopts: bool,
    /// What a policy grants along with its leave.
    pub(crate) leave: Leave,
    /// Where the group it refers to is entered.
    pub(crate) referred: Option<Referred>,
}

/// A ConnectionGroup that a tenant refers to and that is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Referred {
    pub(crate) id: String,
    pub(crate) target: Target,
}

/// All of it, or why the tenant is not to be acted on.
pub(crate) fn ground(
    object: &DistributionTenant,
    key: &ObjectKey,
    ctx: &Ctx,
    draft: &mut Draft,
) -> Result<Ground, Stop> {
    let referred = referred(object, ctx);
    let id = referred.as_ref().ok().and_then(Option::as_ref);
    let declared = body::declared(&object.spec, id.map(|group| group.id.as_str()));
    let leave = allowed(object, key, &declared, ctx);
    let leave = leave.map_err(|reason| refused(reason, key, draft, ctx))?;
    if let Some(conflict) = conflict(object, ctx) {
        return Err(refused(conflict, key, draft, ctx));
    }
    let referred = referred.map_err(|reason| paced(reason, key, draft, ctx))?;
    Ok(Ground {
        key: key.clone(),
        name: Claim::of(object).name,
        generation: object.metadata.generation,
        declared,
        drift: object
            .spec
            .settings
            .drift_policy
            .unwrap_or(ctx.settings.drift),
        marker: Marker::new(&ctx.deck.cluster, key),
        adopts: adopts(object),
        leave,
        referred,
    })
}

/// Ends the pass while nobody knows what policies there are, and whose namespaces they are for.
pub(super) fn settled(ctx: &Ctx, draft: &mut Draft) -> Result<(), Stop> {
    let caches = &ctx.caches;
    let needed = [&caches.policies, &caches.namespaces, &caches.groups];
    if needed.iter().all(|cache| cache.is_settled()) {
        return Ok(());
    }
    if draft.status.id.is_none() {
        let message = "TenantPolicies, ConnectionGroups or Namespaces are not read yet; if this \
                       stays, see whether the operator may list and watch them";
        draft.no(
            Question::Ready,
            Reason::new(reasons::DEPENDENCY_NOT_READY, message),
        );
    }
    Err(Stop::Held(UNSETTLED))
}

fn refused(reason: Reason, key: &ObjectKey, draft: &mut Draft, ctx: &Ctx) -> Stop {
    draft.no(Question::Synced, reason.clone());
    paced(reason, key, draft, ctx)
}

/// Who has to change something here wakes the object; else it is looked at now and then.
fn paced(reason: Reason, key: &ObjectKey, draft: &mut Draft, ctx: &Ctx) -> Stop {
    let (code, at) = (reason.code.clone(), moment(draft, ctx));
    let wait = ctx
        .memory
        .note(key, |memory| memory.trouble.paced(code, &at));
    draft.no(Question::Ready, reason);
    left_alone(wait, key, ctx)
}

/// The group that the spec refers to, once it can be used.
fn referred(object: &DistributionTenant, ctx: &Ctx) -> Result<Option<Referred>, Reason> {
    let Some(reference) = &object.spec.settings.connection_group_ref else {
        return Ok(None);
    };
    let name = &reference.name;
    let not_ready = |why: &str| {
        let message = format!("ConnectionGroup {name} {why}; the tenant goes on when it is Ready");
        Reason::new(reasons::DEPENDENCY_NOT_READY, message)
    };
    let held = ctx.caches.groups.store().get(&ObjectKey::cluster(&**name));
    let held = held.ok_or_else(|| not_ready("does not exist"))?;
    let group: ConnectionGroup = held
        .parse(&Kind::of::<ConnectionGroup>())
        .map_err(|_| not_ready("cannot be read"))?;
    let status = group.status.unwrap_or_default();
    let is_ready = is_true(&status.conditions, conditions::READY);
    // One that the tenant is in already serves it, whatever is being done to it.
    let given = object.status.as_ref();
    let given = given.and_then(|status| status.last_applied.as_ref());
    let given = given.and_then(|body| body.connection_group_id.as_ref());
    let serves = given.is_some() && given == status.id.as_ref();
    match (status.id, status.routing_endpoint) {
        (Some(id), Some(endpoint)) if is_ready || serves => Ok(Some(Referred {
            id,
            target: Target {
                endpoint,
                ipv6: group.spec.ipv6_enabled,
            },
        })),
        _ => Err(not_ready("is not Ready")),
    }
}

/// Whether leave depends on which group is the default one, and that is not known yet.
pub(crate) fn hinges_on_default(object: &DistributionTenant, key: &ObjectKey, ctx: &Ctx) -> bool {
    let referred = referred(object, ctx).ok().flatten();
    let id = referred.as_ref().map(|group| group.id.as_str());
    let declared = body::declared(&object.spec, id);
    let named = named(object, &declared, ctx);
    let Some(group) = named.group.filter(|group| !group.default) else {
        return false;
    };
    let default = Group {
        default: true,
        ..group
    };
    let as_default = Named {
        group: Some(default),
        ..named.clone()
    };
    let namespace = key.namespace.as_deref().unwrap_or_default();
    judged(namespace, &named, ctx).is_err() && judged(namespace, &as_default, ctx).is_ok()
}

/// Whether policies allow what the object names.
fn allowed(
    object: &DistributionTenant,
    key: &ObjectKey,
    declared: &TenantBody,
    ctx: &Ctx,
) -> Result<Leave, Reason> {
    let named = named(object, declared, ctx);
    judged(key.namespace.as_deref().unwrap_or_default(), &named, ctx)
}

/// All that an object names.
fn named<'a>(object: &'a DistributionTenant, declared: &'a TenantBody, ctx: &Ctx) -> Named<'a> {
    let dns = route53(object);
    let group = declared.connection_group_id.as_deref();
    let waits = object.spec.settings.connection_group_ref.is_some();
    Named {
        distribution: Some(&declared.distribution_id),
        zones: dns.into_iter().flat_map(Dns::zones).collect(),
        role: dns.and_then(Dns::role),
        table: None,
        // One that is referred to and not ready has no id yet: that is told first.
        group: (!waits || group.is_some()).then(|| ctx.group(group)),
        domains: declared.domains.iter().map(String::as_str).collect(),
        adoption: adopts(object),
    }
}

fn adopts(object: &DistributionTenant) -> bool {
    let records = route53(object).is_some_and(|dns| dns.record_adoption != RecordAdoption::Never);
    object.spec.adoption.is_some() || records
}

/// Asks the cluster's policies whether objects of `namespace` may name these things.
pub(crate) fn judged(namespace: &str, named: &Named<'_>, ctx: &Ctx) -> Result<Leave, Reason> {
    let (held, required) = ctx.policies();
    let policies = held.iter().map(|(name, spec)| Policy { name, spec });
    let policies: Vec<_> = policies.collect();
    let labels = ctx.labels(namespace);
    let namespace = Namespace {
        name: namespace,
        labels: &labels,
    };
    allowed::allowed(&policies, required, namespace, named)
}

/// Who has what the object wants, where another has it.
fn conflict(object: &DistributionTenant, ctx: &Ctx) -> Option<Reason> {
    let claim = Claim::of(object);
    for holder in lost(&claim, ctx)?.holders() {
        ctx.memory.wait_for(holder, &claim.key);
    }
    // One that let go before it knew who waits is seen now.
    lost(&claim, ctx).map(|conflict| conflict.reason())
}

fn lost(claim: &Claim, ctx: &Ctx) -> Option<Conflict> {
    let mut holders = Holders::default();
    for other in rivals(claim, ctx) {
        if *other.key() == claim.key {
            continue;
        }
        if let Ok(other) = other.parse(&Kind::of::<DistributionTenant>()) {
            holders.put(Claim::of(&other));
        }
    }
    holders.conflict(claim)
}

/// The tenants that want or have something `claim` wants or has, itself among them.
fn rivals(claim: &Claim, ctx: &Ctx) -> Vec<std::sync::Arc<Stored>> {
    let store = ctx.caches.tenants.store();
    let domains = [&claim.domains, &claim.served, &claim.recorded];
    let domains = domains.into_iter().flatten();
    let by_domain = domains.flat_map(|domain| store.by(BY_DOMAIN, domain));
    store
        .by(BY_NAME, &claim.name)
        .into_iter()
        .chain(by_domain)
        .collect()
}

/// Whom a change of `tenant` may concern: those who want the same, or wanted what it gave up.
pub(crate) fn neighbours(ctx: &Ctx, tenant: &Stored) -> Vec<ObjectKey> {
    let Ok(object) = tenant.parse(&Kind::of::<DistributionTenant>()) else {
        return Vec::new();
    };
    let rivals = rivals(&Claim::of(&object), ctx);
    let mut keys = ctx.memory.waiting(tenant.key());
    keys.extend(rivals.iter().map(|rival| rival.key().clone()));
    keys.remove(tenant.key());
    keys.into_iter().collect()
}

/// What [`BY_NAME`] finds a tenant by.
pub(crate) fn name_of(tenant: &Stored) -> Vec<String> {
    let object = tenant.parse(&Kind::of::<DistributionTenant>());
    object
        .ok()
        .map(|object: DistributionTenant| Claim::of(&object).name)
        .into_iter()
        .collect()
}

/// What [`BY_DOMAIN`] finds a tenant by.
pub(crate) fn domains_of(tenant: &Stored) -> Vec<String> {
    let Ok(object) = tenant.parse(&Kind::of::<DistributionTenant>()) else {
        return Vec::new();
    };
    let claim = Claim::of(&object);
    let mut all = claim.domains;
    all.extend(claim.served);
    all.extend(claim.recorded);
    all.into_iter().collect()
}
