//! What the references of a role stand for in Vault.

use api::vault::{
    NamespaceChoice, PolicyBinding, PolicyKind, PolicyReference, PolicyStatus, RoleSpec,
    RoleStatus, VaultConnection, reasons,
};
use kernel::{ObjectKey, Reason};
use serde::Deserialize;

use crate::ctx::{Ctx, named};
use crate::place::Place;
use crate::realm::Realm;
use crate::sync::{Ground, Neighbour};

/// What became of a role's references.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    /// The policies' names in Vault, in the order of the references.
    pub(crate) names: Vec<String>,
    pub(crate) bindings: Vec<PolicyBinding>,
    /// What is missing: a reason for the condition and what to do.
    pub(crate) missing: Vec<(&'static str, String)>,
    /// A policy exists, and its first pass is still to come.
    is_coming: bool,
    /// Policies that do not exist, as statuses name them.
    absent: Vec<String>,
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

    /// What the role of this status had better wait for before it is written.
    pub(super) fn expects(&self, status: Option<&RoleStatus>) -> Option<Neighbour> {
        let bindings = status.map(|status| &*status.policy_bindings);
        let was_bound = |absent: &String| {
            let mut bindings = bindings.unwrap_or_default().iter();
            bindings.any(|one| one.resolved == Some(true) && one.k8s_ref.as_ref() == Some(absent))
        };
        let is_written = status.is_some_and(|status| status.sync.binding.is_some());
        if self.is_coming && !is_written {
            Some(Neighbour::Coming)
        } else if self.absent.iter().any(was_bound) {
            Some(Neighbour::Leaving)
        } else {
            None
        }
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
        let found = find(
            reference,
            namespace,
            &shown,
            spec,
            ctx,
            ground,
            &mut resolved,
        );
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
    resolved: &mut Resolved,
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
    if held.is_none() {
        resolved.absent.push(shown.to_owned());
    }
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
    let status = policy.status;
    let name = status.vault_name.filter(|name| !name.is_empty());
    resolved.is_coming |=
        name.is_none() && status.sync.conditions.is_empty() && !held.is_deleting();
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

/// Whether a policy is where the role is: the same address, and the same namespace in it. What a role
/// grants must not depend on whether a server has answered yet, so cluster IDs do not count.
fn is_same_vault(policy: &Spec, role: &RoleSpec, ctx: &Ctx, ground: &Ground) -> bool {
    let here = Realm::new(&ground.connection, None, role.vault_namespace.as_deref());
    let leads_here = |connection: &VaultConnection| {
        let there = Realm::new(connection, None, policy.vault_namespace.as_deref());
        there.is(&here)
    };
    if policy.connection_ref == ground.connection_name {
        return leads_here(&ground.connection);
    }
    let connection = ctx.connection(&policy.connection_ref);
    connection.as_ref().is_some_and(leads_here)
}

#[cfg(test)]
mod tests {
    use api::vault::Binding;
    use rstest::rstest;

    use super::*;

    /// A role that bound `VaultPolicy/a/p`, or that was not written yet.
    fn status(is_written: bool) -> RoleStatus {
        let mut status = RoleStatus::default();
        if is_written {
            status.sync.binding = Some(Binding::default());
            status.policy_bindings = vec![PolicyBinding {
                k8s_ref: Some("VaultPolicy/a/p".to_owned()),
                vault_policy_path: None,
                resolved: Some(true),
            }];
        }
        status
    }

    #[rstest]
    #[case::all_resolved(false, &[], false, None)]
    #[case::new_role_and_new_policy(true, &[], false, Some(Neighbour::Coming))]
    #[case::an_edit_waits_for_no_new_policy(true, &[], true, None)]
    #[case::new_role_without_its_policy(false, &["VaultPolicy/a/p"], false, None)]
    #[case::bound_policy_has_gone(false, &["VaultPolicy/a/p"], true, Some(Neighbour::Leaving))]
    #[case::another_never_was(false, &["VaultPolicy/a/q"], true, None)]
    fn a_role_waits_for_a_policy_that_is_about_to_change(
        #[case] is_coming: bool,
        #[case] absent: &[&str],
        #[case] is_written: bool,
        #[case] expected: Option<Neighbour>,
    ) {
        let resolved = Resolved {
            is_coming,
            absent: absent.iter().map(|name| (*name).to_owned()).collect(),
            ..Resolved::default()
        };
        assert_eq!(resolved.expects(Some(&status(is_written))), expected);
    }
}
