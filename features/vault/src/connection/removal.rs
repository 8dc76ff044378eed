//! The end of a connection: first its dependents, then its leftovers, then its login.

use std::time::Duration;

use api::vault::{Phase, RoleStatus, VaultConnection, conditions, names as words, reasons};
use engine::{Note, Pass};
use kernel::{Conditions, Progress, Reason};
use serde::Deserialize;
use vault_client::{AuthMount, Client};

use super::bootstrap::{self, MountMarker, Owner};
use super::look::at_login;
use super::templates;
use crate::ctx::Ctx;
use crate::links::Dependent;
use crate::names;
use crate::sync::Error;

/// Names of children that a message has room for.
const NAMED: usize = 20;
/// How often the children are counted.
const RECOUNT: Duration = Duration::from_secs(5);

pub(super) async fn reconcile(
    connection: &VaultConnection,
    ctx: &Ctx,
    pass: &mut Pass,
) -> Result<Progress, Error> {
    let held = connection.metadata.finalizers.as_deref();
    if !held
        .unwrap_or_default()
        .iter()
        .any(|name| name == words::FINALIZER)
    {
        return Ok(Progress::done());
    }
    let name = pass.key().name.to_string();
    // First of all what we gave ourselves: it waits for nobody's hand.
    if templates::can_be_given(&ctx.settings.controllers) {
        templates::take_back_all(&name, ctx).await?;
    }
    let children = children(ctx, &name);
    if !children.is_empty() {
        let some: Vec<_> = children.iter().take(NAMED).cloned().collect();
        let message = format!(
            "{} objects go through it, delete them first: {}",
            children.len(),
            some.join(", ")
        );
        return wait(connection, reasons::CHILDREN_EXIST, message, ctx, pass).await;
    }
    let records = match ctx.leftovers.of_target(&name).len() {
        0 => ctx.leftovers.list_of_target(&name).await?.len(),
        seen => seen,
    };
    if records > 0 {
        if pass.object().annotation(words::ABANDON_CLEANUP).as_deref() == Some("true") {
            for leftover in ctx.leftovers.abandon(&name).await? {
                pass.event(Note::warning(
                    "CleanupAbandoned",
                    format!("{leftover} stays in Vault"),
                ));
            }
        } else {
            let message = format!(
                "{records} things in Vault are still to be removed; wait, or annotate \
                 vault.platform.io/abandon-cleanup=true to leave them there"
            );
            return wait(
                connection,
                reasons::CLEANUP_RECORDS_EXIST,
                message,
                ctx,
                pass,
            )
            .await;
        }
    }
    if let Some(client) = ctx.links.client(&name) {
        disable_mount(connection, &client, ctx, pass).await;
        if let Err(error) = pass.outside(client.end()).await {
            tracing::warn!(%error, "the login token was not revoked; it ends by itself");
        }
        ctx.links.forget(&name);
    }
    pass.drop_finalizer(words::FINALIZER).await?;
    Ok(Progress::done())
}

/// Whether somebody still has to call Vault over a connection that goes: others, or itself for its
/// mount.
pub(super) fn is_awaited(connection: &VaultConnection, ctx: &Ctx) -> bool {
    let name = connection.metadata.name.as_deref().unwrap_or_default();
    let bootstrap = connection.spec.auth.bootstrap.as_ref();
    let has_mount = bootstrap.is_some_and(|bootstrap| bootstrap.cleanup_auth_mount);
    has_mount || !ctx.dependents(name).is_empty() || !ctx.leftovers.of_target(name).is_empty()
}

fn children(ctx: &Ctx, connection: &str) -> Vec<String> {
    let word = |kind: Dependent| match kind {
        Dependent::Policy => "VaultPolicy",
        Dependent::ClusterPolicy => "VaultClusterPolicy",
        Dependent::Role => "VaultRole",
        Dependent::ClusterRole => "VaultClusterRole",
        Dependent::Seed => "VaultKVSecret",
    };
    let all = ctx.dependents(connection).into_iter();
    let mut named: Vec<_> = all
        .map(|(kind, object)| format!("{} {}", word(kind), object.key()))
        .collect();
    named.sort();
    named
}

async fn wait(
    connection: &VaultConnection,
    code: &'static str,
    message: String,
    ctx: &Ctx,
    pass: &mut Pass,
) -> Result<Progress, Error> {
    let reason = Reason::new(code, message);
    let before = connection.status.clone().unwrap_or_default();
    let mut after = before.clone();
    let generation = connection.metadata.generation;
    let mut set = Conditions::new(&after.conditions, generation, ctx.now());
    set.yes(conditions::DELETING, &reason);
    after.conditions = set.into_parts().0;
    if after.phase != Some(Phase::Deleting) {
        after.phase = Some(Phase::Deleting);
        pass.event(Note::normal("Deleting", reason.message.clone()));
    }
    after.message = Some(reason.message.clone());
    if after != before {
        after.last_reconcile_id = Some(pass.id().to_owned());
        pass.write_status(&after).await?;
    }
    Ok(Progress::Waiting {
        reason,
        after: RECOUNT,
    })
}

/// Disables the mount that bootstrap enabled, if that is wished; what cannot be done is told.
async fn disable_mount(connection: &VaultConnection, client: &Client, ctx: &Ctx, pass: &mut Pass) {
    let auth = &connection.spec.auth;
    let (Some(spec), Some(kubernetes)) = (&auth.bootstrap, &auth.kubernetes) else {
        return;
    };
    if !spec.cleanup_auth_mount {
        return;
    }
    let status = connection.status.as_ref();
    let status = status
        .and_then(|status| status.auth_status.clone())
        .unwrap_or_default();
    let marker = MountMarker {
        identity: ctx.identity(connection),
        connection: pass.key().name.to_string(),
    };
    let owner = Owner {
        marker: &marker,
        status: &status,
        role: &kubernetes.role,
    };
    let mount = AuthMount::new(&kubernetes.auth_path);
    let ours = recorded_roles(ctx, &mount);
    let client = &at_login(client, connection);
    let is_ours = |role: &str| ours.iter().any(|name| names::same(name, role));
    let disabled = bootstrap::disable_mount(client, &mount, owner, is_ours);
    if let Err(stays) = pass.outside(disabled).await {
        pass.event(Note::warning("DisableAuthFailed", stays.to_string()));
    }
}

/// The names of all roles at `mount` that objects here remember.
fn recorded_roles(ctx: &Ctx, mount: &AuthMount) -> Vec<String> {
    #[derive(Deserialize)]
    struct Role {
        #[serde(default)]
        status: RoleStatus,
    }
    let mut found = Vec::new();
    for cache in [&ctx.caches.roles, &ctx.caches.cluster_roles] {
        for role in cache.store().all() {
            let Ok(role) = role.parse::<Role>(&cache.key().kind) else {
                continue;
            };
            let binding = role.status.sync.binding.as_ref();
            let there = binding.and_then(|binding| binding.auth_mount.as_deref());
            if there.map(AuthMount::new).as_ref() != Some(mount) {
                continue;
            }
            found.extend(role.status.vault_role_name);
            let split = role.status.vault_role_names.into_iter();
            found.extend(split.filter_map(|split| split.vault_role_name));
        }
    }
    found
}
