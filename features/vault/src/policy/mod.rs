//! VaultPolicy and VaultClusterPolicy: a text in Vault that grants paths.
//!
//! The pass is [`crate::sync`]'s; here is what a policy wants and what it says beyond that.

mod wanted;

use std::time::Duration;

use api::vault::{
    PolicyKind, PolicySpec, PolicyStatus, RoleStatus, SyncStatus, VaultClusterPolicy,
    VaultConnection, VaultPolicy, conditions, names as words, reasons,
};
use engine::Kind;
use kernel::{Conditions, ObjectKey, Reason};
use serde::Deserialize;

use crate::ctx::Ctx;
use crate::links::Dependent;
use crate::names::{self, Naming};
use crate::place::Place;
use crate::sync::{Applied, Declared, Desired, Ground, Kept, Record, Stop, Terms};
use crate::tenancy::own_boundary;

/// An earlier name is kept at least and at most this long, unless the connection says otherwise.
const GRACE: (Duration, Duration) = (Duration::from_secs(3600), Duration::from_secs(24 * 3600));

/// What a policy says beyond the shared status.
pub(crate) struct Extra {
    rules: i64,
    used_by: Vec<String>,
}

impl Kept for PolicyStatus {
    fn sync(&self) -> &SyncStatus {
        &self.sync
    }

    fn sync_mut(&mut self) -> &mut SyncStatus {
        &mut self.sync
    }
}

impl Declared for VaultPolicy {
    type Status = PolicyStatus;
    type Extra = Extra;
    const DEPENDENT: Dependent = Dependent::Policy;

    fn terms(&self) -> Terms<'_> {
        terms(&self.spec.policy)
    }

    fn status(&self) -> PolicyStatus {
        self.status.clone().unwrap_or_default()
    }

    fn records(status: &PolicyStatus) -> Vec<Record> {
        records(status)
    }

    fn desired(&self, ctx: &Ctx, ground: &Ground) -> Result<Desired<Extra>, Stop> {
        own_boundary(&self.spec).map_err(|broken| {
            Stop::blocked(Reason::new(reasons::VALIDATION_FAILED, broken.to_string()))
        })?;
        desired(&self.spec.policy, PolicyKind::VaultPolicy, ctx, ground)
    }

    fn tell(
        status: &mut PolicyStatus,
        desired: &Desired<Extra>,
        applied: &Applied,
        set: &mut Conditions,
    ) {
        tell(status, desired, applied, set);
    }

    fn unannounced(
        &self,
        ctx: &Ctx,
        connection: &VaultConnection,
        key: &ObjectKey,
    ) -> Option<Place> {
        unannounced(&self.spec.policy, ctx, connection, key)
    }

    fn is_needed(ctx: &Ctx, place: &Place) -> Vec<String> {
        bound_by(ctx, place)
    }

    fn grace(&self, ctx: &Ctx) -> Duration {
        let key = ObjectKey::of(
            self.metadata.namespace.as_deref(),
            self.metadata.name.as_deref().unwrap_or_default(),
        );
        grace(ctx, PolicyKind::VaultPolicy, &key)
    }
}

impl Declared for VaultClusterPolicy {
    type Status = PolicyStatus;
    type Extra = Extra;
    const DEPENDENT: Dependent = Dependent::ClusterPolicy;

    fn terms(&self) -> Terms<'_> {
        terms(&self.spec.policy)
    }

    fn status(&self) -> PolicyStatus {
        self.status.clone().unwrap_or_default()
    }

    fn records(status: &PolicyStatus) -> Vec<Record> {
        records(status)
    }

    fn desired(&self, ctx: &Ctx, ground: &Ground) -> Result<Desired<Extra>, Stop> {
        desired(
            &self.spec.policy,
            PolicyKind::VaultClusterPolicy,
            ctx,
            ground,
        )
    }

    fn tell(
        status: &mut PolicyStatus,
        desired: &Desired<Extra>,
        applied: &Applied,
        set: &mut Conditions,
    ) {
        tell(status, desired, applied, set);
    }

    fn unannounced(
        &self,
        ctx: &Ctx,
        connection: &VaultConnection,
        key: &ObjectKey,
    ) -> Option<Place> {
        unannounced(&self.spec.policy, ctx, connection, key)
    }

    fn is_needed(ctx: &Ctx, place: &Place) -> Vec<String> {
        bound_by(ctx, place)
    }

    fn grace(&self, ctx: &Ctx) -> Duration {
        let name = self.metadata.name.clone().unwrap_or_default();
        grace(
            ctx,
            PolicyKind::VaultClusterPolicy,
            &ObjectKey::cluster(name),
        )
    }
}

fn terms(spec: &PolicySpec) -> Terms<'_> {
    Terms {
        connection: &spec.connection_ref,
        conflict: spec.conflict_policy,
        deletion: spec.deletion_policy,
        drift: spec.drift_mode,
        external_name: spec.external_name.as_deref(),
        vault_namespace: spec.vault_namespace.as_deref(),
    }
}

/// Where a crash may have left a policy that no status records. Nothing is written to reserved names.
fn unannounced(
    spec: &PolicySpec,
    ctx: &Ctx,
    connection: &VaultConnection,
    key: &ObjectKey,
) -> Option<Place> {
    let naming = ctx.naming(connection);
    let place = place(spec, &naming, key);
    let is_external = spec.external_name.is_some();
    let is_refused = !is_external && naming.refuses(&place, &connection.spec.auth);
    (!is_refused).then_some(place)
}

/// Where the policy is to be.
fn place(spec: &PolicySpec, naming: &Naming, key: &ObjectKey) -> Place {
    let derived = || naming.derived(key.namespace.as_deref(), &key.name);
    Place::Policy {
        name: spec.external_name.clone().unwrap_or_else(derived),
    }
}

fn records(status: &PolicyStatus) -> Vec<Record> {
    let sync = &status.sync;
    let Some(binding) = &sync.binding else {
        return Vec::new();
    };
    let Some(place) = binding.vault_path.as_deref().and_then(Place::parse) else {
        return Vec::new();
    };
    vec![Record {
        place,
        slot: None,
        hash: sync.last_applied_canonical_hash.clone(),
        sent: sync.last_applied_hash.clone(),
        owner: binding.owner.clone(),
        connection: binding.connection.clone(),
    }]
}

fn desired(
    spec: &PolicySpec,
    kind: PolicyKind,
    ctx: &Ctx,
    ground: &Ground,
) -> Result<Desired<Extra>, Stop> {
    let (wanted, rules) = wanted::wanted(spec, ground)?;
    let target = crate::sync::Target {
        place: place(spec, &ground.naming, &ground.key),
        slot: None,
        wanted,
    };
    let mut used_by: Vec<String> = ctx
        .roles_of(kind, &ground.key)
        .into_iter()
        .map(|(kind, role)| match kind {
            Dependent::Role => format!("VaultRole/{}", role.key()),
            _ => format!("VaultClusterRole/{}", role.key()),
        })
        .collect();
    used_by.sort();
    Ok(Desired {
        targets: vec![target],
        lacks: None,
        expects: None,
        spends_consent: false,
        note: None,
        extra: Extra { rules, used_by },
    })
}

fn tell(
    status: &mut PolicyStatus,
    desired: &Desired<Extra>,
    applied: &Applied,
    set: &mut Conditions,
) {
    let Extra { rules, used_by } = &desired.extra;
    if let Some(record) = applied.records.first() {
        status.vault_name = Some(record.place.name().to_owned());
    }
    status.rules_count = Some(*rules);
    let cap = words::USED_BY_ROLES_CAP;
    status.used_by_roles = used_by.iter().take(cap).cloned().collect();
    if used_by.len() > cap {
        set.yes(
            conditions::USED_BY_ROLES_TRUNCATED,
            &Reason::new(
                reasons::CAPPED,
                format!("{} roles use it; {cap} are listed", used_by.len()),
            ),
        );
    } else {
        set.drop(conditions::USED_BY_ROLES_TRUNCATED);
    }
}

/// A role as far as it concerns the names of policies.
#[derive(Deserialize)]
struct Binding {
    #[serde(default)]
    status: RoleStatus,
}

/// The roles that bind the policy at `place`.
fn bound_by(ctx: &Ctx, place: &Place) -> Vec<String> {
    let mut bound = Vec::new();
    for (roles, kind) in [
        (&ctx.caches.roles, "VaultRole"),
        (&ctx.caches.cluster_roles, "VaultClusterRole"),
    ] {
        for role in roles.store().all() {
            let Ok(binding) = role.parse::<Binding>(&roles.key().kind) else {
                continue;
            };
            let names_it = |name: &String| names::same(name, place.name());
            if binding.status.resolved_policies.iter().any(names_it) {
                bound.push(format!("{kind}/{}", role.key()));
            }
        }
    }
    bound.sort();
    bound
}

/// The longest life of a token under the roles that refer to the policy, within limits.
fn grace(ctx: &Ctx, kind: PolicyKind, key: &ObjectKey) -> Duration {
    #[derive(Deserialize)]
    struct Role {
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Spec {
        #[serde(rename = "tokenMaxTTL")]
        token_max_ttl: Option<api::vault::Duration>,
    }
    let any = Kind::of::<api::vault::VaultRole>();
    let roles = ctx.roles_of(kind, key);
    let lives = roles
        .iter()
        .filter_map(|(_, role)| role.parse::<Role>(&any).ok()?.spec.token_max_ttl)
        .map(|life| life.as_std());
    lives.max().unwrap_or_default().clamp(GRACE.0, GRACE.1)
}
