//! What the references of a role stand for in Vault.

use api::vault::{
    NamespaceChoice, PolicyBinding, PolicyKind, PolicyReference, PolicyStatus, RoleSpec, reasons,
};
use kernel::{ObjectKey, Reason};
use serde::Deserialize;

use crate::ctx::{Ctx, named};
use crate::place::Place;
use crate::sync::Ground;

/// What became of a role's references.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    /// The policies' names in Vault, in the order of the references.
    pub(crate) names: Vec<String>,
    pub(crate) bindings: Vec<PolicyBinding>,
    /// What is missing: a reason for the condition and what to do.
    pub(crate) missing: Vec<(&'static str, String)>,
}

impl Resolved {
    /// Why the role is not Ready, if something is missing.
    pub(super) fn lacks(&self) -> Option<Reason> {
        let said: Vec<_> = self.missing.iter().map(|(_, said)| &**said).collect();
        let refused = |(reason, _): &(&str, String)| *reason == reasons::REFERENCE_NOT_GRANTED;
        let reason = if self.missing.iter().any(refused) {
            reasons::TENANCY_DENIED
        } else {
            reasons::POLICY_NOT_IN_VAULT
        };
        (!said.is_empty()).then(|| Reason::new(reason, said.join("; ")))
    }
}

/// A policy, as far as roles care.
#[derive(Deserialize)]
struct Policy {
    spec: Spec,
    #[serde(default)]
    status: PolicyStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    connection_ref: String,
    vault_namespace: Option<String>,
    bindable_from: Option<NamespaceChoice>,
}

/// Looks every reference up. What is missing is left out: the role is written without it.
pub(super) fn resolve(spec: &RoleSpec, ctx: &Ctx, ground: &Ground) -> Resolved {
    let mut resolved = Resolved::default();
    for reference in &spec.policies {
        let own = ground.key.namespace.as_deref();
        let namespace = reference.namespace.as_deref().or(own);
        let shown = named(reference.kind, namespace, &reference.name);
        let found = find(reference, namespace, &shown, spec, ctx, ground);
        let path = found.as_ref().ok().map(|name| {
            let name = name.clone();
            Place::Policy { name }.to_string()
        });
        resolved.bindings.push(PolicyBinding {
            k8s_ref: Some(shown),
            vault_policy_path: path,
            resolved: Some(found.is_ok()),
        });
        match found {
            Ok(name) => resolved.names.push(name),
            Err(missing) => resolved.missing.push(missing),
        }
    }
    resolved
}

fn find(
    reference: &PolicyReference,
    namespace: Option<&str>,
    shown: &str,
    spec: &RoleSpec,
    ctx: &Ctx,
    ground: &Ground,
) -> Result<String, (&'static str, String)> {
    let (cache, key) = match reference.kind {
        PolicyKind::External => {
            granted(reference, None, ground)?;
            return Ok(reference.name.clone());
        }
        PolicyKind::VaultPolicy => (
            &ctx.caches.policies,
            ObjectKey::of(namespace, &reference.name),
        ),
        PolicyKind::VaultClusterPolicy => (
            &ctx.caches.cluster_policies,
            ObjectKey::cluster(&*reference.name),
        ),
    };
    let missing = |why: &str| (reasons::POLICY_NOT_IN_VAULT, format!("{shown} {why}"));
    let held = cache.store().get(&key);
    let held = held.ok_or_else(|| missing("does not exist; make it, or remove the reference"))?;
    let policy: Policy = held
        .parse(&cache.key().kind)
        .map_err(|_| missing("cannot be read"))?;
    if !is_same_vault(&policy.spec, spec, ctx, ground) {
        return Err((
            reasons::POLICY_ON_OTHER_CONNECTION,
            format!(
                "{shown} is in another Vault (connection {}); refer to one in this role's",
                policy.spec.connection_ref
            ),
        ));
    }
    granted(reference, policy.spec.bindable_from.as_ref(), ground)?;
    let name = policy.status.vault_name.filter(|name| !name.is_empty());
    name.ok_or_else(|| missing("is not in Vault yet; its own conditions say why"))
}

/// Whether tenancy lets the role bind it; cluster roles are not guarded.
fn granted(
    reference: &PolicyReference,
    bindable_from: Option<&NamespaceChoice>,
    ground: &Ground,
) -> Result<(), (&'static str, String)> {
    let judged = ground
        .guard()
        .map_or(Ok(()), |guard| guard.may_bind(reference, bindable_from));
    judged.map_err(|refusal| (reasons::REFERENCE_NOT_GRANTED, refusal.to_string()))
}

/// Whether a policy is where the role is: the same address, and the same namespace in it.
fn is_same_vault(policy: &Spec, role: &RoleSpec, ctx: &Ctx, ground: &Ground) -> bool {
    let same_namespace = policy.vault_namespace == role.vault_namespace;
    if policy.connection_ref == ground.connection_name {
        return same_namespace;
    }
    let here = &ground.connection.spec;
    ctx.connection(&policy.connection_ref).is_some_and(|there| {
        same_namespace
            && there.spec.address.trim_end_matches('/') == here.address.trim_end_matches('/')
            && there.spec.vault_namespace == here.vault_namespace
    })
}
