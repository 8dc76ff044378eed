//! Whom a role admits, and by how many roles in Vault.

use std::collections::{BTreeMap, BTreeSet};

use api::vault::{
    ResolveBy, RoleFamily, ServiceAccountBinding, VaultClusterRoleSpec, VaultRoleSpec,
};
use kernel::ObjectKey;

use super::invalid;
use super::payload::{self, Subjects};
use crate::ctx::Ctx;
use crate::pairs::{self, Pair, Product};
use crate::sync::{Ground, Stop};
use crate::tenancy::selects;

/// Whom the role admits.
#[derive(Debug, Default)]
pub(crate) struct Admitted {
    /// At the base name.
    pub(crate) base: Option<Subjects>,
    /// At `<base>__<namespace>`.
    pub(crate) split: BTreeMap<String, Subjects>,
    /// All that were asked for.
    pub(crate) pairs: BTreeSet<Pair>,
    /// Who gets in though nobody asked for it.
    pub(crate) beyond: BTreeSet<Pair>,
    /// They were told that a product is fine.
    pub(crate) product_accepted: bool,
    /// The role's own subject or claims count, and its service accounts do not.
    pub(crate) overridden: bool,
    /// A role that admits more is deleted only because somebody consented.
    pub(crate) spends_consent: bool,
}

/// The service accounts that a namespace's role names.
pub(super) fn of_namespace(
    spec: &VaultRoleSpec,
    family: RoleFamily,
    key: &ObjectKey,
) -> Result<Admitted, Stop> {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let names = spec.service_accounts.iter();
    payload::check_accounts(names.clone().map(|name| (namespace, &**name))).map_err(invalid)?;
    let pairs: BTreeSet<Pair> = names
        .map(|name| (namespace.to_owned(), name.clone()))
        .collect();
    let subjects = match family {
        RoleFamily::Kubernetes => Subjects::Accounts(Product::over(&pairs)),
        RoleFamily::Jwt => Subjects::Jwt(pairs.clone()),
    };
    Ok(Admitted {
        base: Some(subjects),
        overridden: payload::is_bound_by_token(&spec.role) && !pairs.is_empty(),
        pairs,
        ..Admitted::default()
    })
}

/// The service accounts that a cluster role names or selects.
pub(super) fn of_cluster(
    spec: &VaultClusterRoleSpec,
    family: RoleFamily,
    recorded: &pairs::Recorded,
    ctx: &Ctx,
    ground: &Ground,
) -> Result<Admitted, Stop> {
    let listed = spec.service_accounts.iter();
    let listed = listed.map(|one| (one.namespace.clone(), one.name.clone()));
    let mut pairs: BTreeSet<Pair> = listed.collect();
    if let Some(selected) = &spec.selected_service_accounts {
        match selected.resolve_by {
            ResolveBy::Vault => return by_vault(spec, family, &pairs),
            ResolveBy::Operator => {
                for namespace in ctx.caches.namespaces.store().all() {
                    let labels = namespace.metadata().labels.unwrap_or_default();
                    if !namespace.is_deleting() && selects(&selected.namespace_selector, &labels) {
                        let namespace = &*namespace.key().name;
                        let named = selected.names.iter();
                        pairs.extend(named.map(|name| (namespace.to_owned(), name.clone())));
                    }
                }
            }
        }
    }
    let accounts = pairs
        .iter()
        .map(|(namespace, name)| (&**namespace, &**name));
    payload::check_accounts(accounts).map_err(invalid)?;
    let overridden = payload::is_bound_by_token(&spec.role) && !pairs.is_empty();
    if family == RoleFamily::Jwt {
        return Ok(Admitted {
            base: Some(Subjects::Jwt(pairs.clone())),
            pairs,
            overridden,
            ..Admitted::default()
        });
    }
    let binding = spec.service_account_binding;
    let roles = pairs::roles(&pairs, recorded, binding, ground.consent);
    let without = pairs::roles(&pairs, recorded, binding, false);
    Ok(Admitted {
        spends_consent: roles.base != without.base,
        base: roles.base.map(Subjects::Accounts),
        split: split(roles.split),
        pairs,
        beyond: roles.beyond,
        product_accepted: binding == Some(ServiceAccountBinding::Product),
        overridden,
    })
}

fn split(split: BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, Subjects> {
    let one = |(namespace, names): (String, BTreeSet<String>)| {
        let namespaces = [namespace.clone()].into();
        (namespace, Subjects::Accounts(Product { names, namespaces }))
    };
    split.into_iter().map(one).collect()
}

/// Vault itself looks at the labels of namespaces; then there is nothing to list.
fn by_vault(
    spec: &VaultClusterRoleSpec,
    family: RoleFamily,
    listed: &BTreeSet<Pair>,
) -> Result<Admitted, Stop> {
    if !listed.is_empty() {
        return Err(invalid(
            "selectedServiceAccounts with resolveBy: Vault cannot stand beside serviceAccounts; \
             remove one of them, or use resolveBy: Operator",
        ));
    }
    if family == RoleFamily::Jwt {
        return Err(invalid(
            "resolveBy: Vault needs a kubernetes mount; use resolveBy: Operator",
        ));
    }
    let selected = spec.selected_service_accounts.as_ref();
    let base = selected.map(|selected| Subjects::Selected {
        names: selected.names.iter().cloned().collect(),
        selector: selected.namespace_selector.clone(),
    });
    Ok(Admitted {
        base,
        ..Admitted::default()
    })
}
