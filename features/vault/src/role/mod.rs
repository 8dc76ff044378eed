//! VaultRole and VaultClusterRole: who may log in, and with which policies.
//!
//! The pass is [`crate::sync`]'s; here is what a role wants and what it says beyond that.

pub(crate) mod payload;
mod policies;
mod subjects;
mod told;

use std::time::Duration;

use api::vault::{
    RoleFamily, RoleSpec, RoleStatus, SyncStatus, VaultClusterRole, VaultRole, reasons,
};
use engine::{Note, Pass};
use kernel::{Conditions, ObjectKey, Reason};

use crate::ctx::Ctx;
use crate::links::Dependent;
use crate::names::{self, Naming, RoleMount};
use crate::place::{Place, Wanted};
use crate::sync::{Applied, Declared, Desired, Ground, Kept, Record, Stop, Target, Terms};
use crate::tenancy;

use policies::Resolved;
use subjects::Admitted;

/// An earlier role is kept at least and at most this long, unless the connection says otherwise.
const GRACE: (Duration, Duration) = (Duration::from_secs(3600), Duration::from_secs(24 * 3600));

/// What a role says beyond the shared status.
pub(crate) struct Extra {
    pub(crate) resolved: Resolved,
    pub(crate) admitted: Admitted,
}

impl Kept for RoleStatus {
    fn sync(&self) -> &SyncStatus {
        &self.sync
    }

    fn sync_mut(&mut self) -> &mut SyncStatus {
        &mut self.sync
    }
}

impl Declared for VaultRole {
    type Status = RoleStatus;
    type Extra = Extra;
    const DEPENDENT: Dependent = Dependent::Role;

    fn terms(&self) -> Terms<'_> {
        terms(&self.spec.role)
    }

    fn status(&self) -> RoleStatus {
        self.status.clone().unwrap_or_default()
    }

    fn records(status: &RoleStatus) -> Vec<Record> {
        told::records(status)
    }

    fn desired(&self, ctx: &Ctx, ground: &Ground) -> Result<Desired<Extra>, Stop> {
        let family = family(&self.spec.role, ground)?;
        let admitted = subjects::of_namespace(&self.spec, family.family, &ground.key)?;
        desired(
            &self.spec.role,
            self.status.as_ref(),
            &family,
            admitted,
            ctx,
            ground,
        )
    }

    fn tell(
        status: &mut RoleStatus,
        desired: &Desired<Extra>,
        applied: &Applied,
        set: &mut Conditions,
    ) {
        told::tell(status, desired, applied, set);
    }

    fn remember(status: &mut RoleStatus, records: &[Record]) {
        told::remember(status, records);
    }

    fn forget_places(status: &mut RoleStatus) {
        told::forget_places(status);
    }

    fn events(before: &RoleStatus, after: &RoleStatus, pass: &Pass) {
        told::events(before, after, pass);
    }

    fn grace(&self, _ctx: &Ctx) -> Duration {
        grace(&self.spec.role)
    }
}

impl Declared for VaultClusterRole {
    type Status = RoleStatus;
    type Extra = Extra;
    const DEPENDENT: Dependent = Dependent::ClusterRole;

    fn terms(&self) -> Terms<'_> {
        terms(&self.spec.role)
    }

    fn status(&self) -> RoleStatus {
        self.status.clone().unwrap_or_default()
    }

    fn records(status: &RoleStatus) -> Vec<Record> {
        told::records(status)
    }

    fn desired(&self, ctx: &Ctx, ground: &Ground) -> Result<Desired<Extra>, Stop> {
        let family = family(&self.spec.role, ground)?;
        let recorded = told::recorded_pairs(&self.status());
        let admitted = subjects::of_cluster(&self.spec, family.family, &recorded, ctx, ground)?;
        desired(
            &self.spec.role,
            self.status.as_ref(),
            &family,
            admitted,
            ctx,
            ground,
        )
    }

    fn tell(
        status: &mut RoleStatus,
        desired: &Desired<Extra>,
        applied: &Applied,
        set: &mut Conditions,
    ) {
        told::tell(status, desired, applied, set);
        told::tell_exact(status, desired, set);
    }

    fn remember(status: &mut RoleStatus, records: &[Record]) {
        told::remember(status, records);
    }

    fn forget_places(status: &mut RoleStatus) {
        told::forget_places(status);
    }

    fn events(before: &RoleStatus, after: &RoleStatus, pass: &Pass) {
        told::events(before, after, pass);
    }

    fn grace(&self, _ctx: &Ctx) -> Duration {
        grace(&self.spec.role)
    }
}

fn terms(spec: &RoleSpec) -> Terms<'_> {
    Terms {
        connection: &spec.connection_ref,
        conflict: spec.conflict_policy,
        deletion: spec.deletion_policy,
        drift: spec.drift_mode,
        external_name: spec.external_name.as_deref(),
        vault_namespace: spec.vault_namespace.as_deref(),
    }
}

fn grace(spec: &RoleSpec) -> Duration {
    let life = spec.token_max_ttl.as_ref();
    let life = life.map(api::vault::Duration::as_std).unwrap_or_default();
    life.clamp(GRACE.0, GRACE.1)
}

fn invalid(message: impl Into<String>) -> Stop {
    Stop::blocked(Reason::new(reasons::VALIDATION_FAILED, message))
}

/// Where the role goes, once its spec has been found to fit there.
fn family(spec: &RoleSpec, ground: &Ground) -> Result<RoleMount, Stop> {
    let connection = &ground.connection.spec;
    let mount = names::role_mount(connection.defaults.as_ref(), &connection.auth);
    let mount = mount.map_err(|missing| invalid(missing.to_string()))?;
    if mount.family == RoleFamily::Kubernetes && spec.jwt.is_some() {
        return Err(invalid(format!(
            "jwt does not fit auth/{}, which reviews tokens of service accounts; remove it, or use \
             a connection whose defaults.authPath is a jwt mount",
            mount.mount
        )));
    }
    payload::check(spec).map_err(invalid)?;
    Ok(mount)
}

fn desired(
    spec: &RoleSpec,
    status: Option<&RoleStatus>,
    mount: &RoleMount,
    admitted: Admitted,
    ctx: &Ctx,
    ground: &Ground,
) -> Result<Desired<Extra>, Stop> {
    let guard = ground.guard();
    if let Some(guard) = &guard {
        guard.role(spec).map_err(|refusal| {
            Stop::blocked(Reason::new(reasons::TENANCY_DENIED, refusal.to_string()))
        })?;
    }
    let resolved = policies::resolve(spec, ctx, ground);
    let name = base_name(spec, &ground.naming, &ground.key);
    let jwt = ground.connection.spec.auth.jwt.as_ref();
    let target = |slot: Option<&str>, subjects: &payload::Subjects| {
        let payload = payload::payload(&payload::Wanted {
            spec,
            subjects,
            policies: &resolved.names,
            header: &ground.header,
            audiences: jwt.map(|jwt| &*jwt.audiences).unwrap_or_default(),
            max_token_ttl: guard.as_ref().and_then(tenancy::Guard::max_token_ttl),
        });
        Target {
            place: Place::Role {
                mount: mount.mount.clone(),
                name: match slot {
                    Some(namespace) => format!("{name}__{namespace}"),
                    None => name.clone(),
                },
            },
            slot: slot.map(str::to_owned),
            wanted: Wanted::Role(payload),
        }
    };
    let base = admitted.base.iter().map(|subjects| target(None, subjects));
    let split = admitted.split.iter();
    let split = split.map(|(namespace, subjects)| target(Some(namespace), subjects));
    Ok(Desired {
        targets: base.chain(split).collect(),
        lacks: resolved.lacks(),
        expects: resolved.expects(status),
        spends_consent: admitted.spends_consent,
        note: admitted.overridden.then(|| {
            Note::warning(
                "ServiceAccountsOverridden",
                "jwt names a subject or claims, so serviceAccounts do not count; remove one of them",
            )
        }),
        extra: Extra { resolved, admitted },
    })
}

/// The name of the role, or of what its parts are called after.
fn base_name(spec: &RoleSpec, naming: &Naming, key: &ObjectKey) -> String {
    let derived = || naming.derived(key.namespace.as_deref(), &key.name);
    spec.external_name.clone().unwrap_or_else(derived)
}
