//! What a role's status remembers and says.

use std::collections::BTreeSet;

use api::vault::{Binding, RoleStatus, SplitRole, conditions, reasons};
use engine::{Note, Pass};
use kernel::{Conditions, Reason, find};
use vault_client::AuthMount;

use super::Extra;
use super::payload::Subjects;
use crate::pairs::{self, Pair, Product};
use crate::place::Place;
use crate::sync::{Applied, Desired, Record};

/// The roles in Vault that a status remembers.
pub(super) fn records(status: &RoleStatus) -> Vec<Record> {
    let sync = &status.sync;
    let Some(binding) = &sync.binding else {
        return Vec::new();
    };
    let record = |place, slot, hash| Record {
        place,
        slot,
        hash,
        sent: sync.last_applied_hash.clone(),
        owner: binding.owner.clone(),
        connection: binding.connection.clone(),
    };
    let base = binding.vault_path.as_deref().and_then(Place::parse);
    if status.vault_role_names.is_empty() {
        let hash = sync.last_applied_canonical_hash.clone();
        let base = base.map(|place| record(place, None, hash));
        return base.into_iter().collect();
    }
    let told = binding.auth_mount.as_deref().map(AuthMount::new);
    let mount = told.or_else(|| base.as_ref().and_then(|place| place.mount().cloned()));
    let Some(mount) = mount else {
        return Vec::new();
    };
    let named = status.vault_role_names.iter().filter_map(|split| {
        let place = Place::Role {
            mount: mount.clone(),
            name: split.vault_role_name.clone()?,
        };
        let slot = split.namespace.clone().filter(|slot| !slot.is_empty());
        Some(record(place, slot, split.canonical_hash.clone()))
    });
    named.collect()
}

/// Whom the remembered roles admit.
pub(super) fn recorded_pairs(status: &RoleStatus) -> pairs::Recorded {
    let pairs = |texts: &[String]| -> BTreeSet<Pair> {
        let split = texts.iter().filter_map(|text| text.split_once('/'));
        split
            .map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
            .collect()
    };
    let is_base = |split: &&SplitRole| split.namespace.as_deref().unwrap_or_default().is_empty();
    let names = &status.vault_role_names;
    let base = if names.is_empty() {
        let written = status.sync.binding.as_ref();
        let written = written.is_some_and(|binding| binding.vault_path.is_some());
        written.then(|| Product::over(&pairs(&status.bound_service_accounts)))
    } else {
        let base = names.iter().find(is_base);
        base.map(|base| Product::over(&pairs(&base.service_accounts)))
    };
    let split = names.iter().filter(|split| !is_base(split));
    pairs::Recorded {
        base,
        split: split.filter_map(|split| split.namespace.clone()).collect(),
    }
}

/// Puts down the roles written so far; those written before stay.
pub(super) fn remember(status: &mut RoleStatus, records: &[Record]) {
    let is_split = records.iter().any(|record| record.slot.is_some());
    if !is_split && status.vault_role_names.is_empty() {
        return;
    }
    enter_base(status);
    if let Some(first) = records.first() {
        let binding = status.sync.binding.get_or_insert_with(Binding::default);
        binding.auth_mount = first.place.mount().map(ToString::to_string);
        binding.connection.clone_from(&first.connection);
        binding.owner.clone_from(&first.owner);
    }
    for record in records {
        let namespace = record.slot.clone().unwrap_or_default();
        let is_it = |split: &SplitRole| split.namespace.as_deref().unwrap_or_default() == namespace;
        let at = status.vault_role_names.iter().position(is_it);
        let at = at.unwrap_or_else(|| {
            status.vault_role_names.push(SplitRole::default());
            status.vault_role_names.len() - 1
        });
        let entry = &mut status.vault_role_names[at];
        entry.namespace = Some(namespace);
        entry.vault_role_name = Some(record.place.name().to_owned());
        entry.canonical_hash.clone_from(&record.hash);
    }
}

/// A role that was alone so far gets an entry of its own before others stand beside it.
fn enter_base(status: &mut RoleStatus) {
    let sync = &status.sync;
    let name = sync.binding.as_ref().and_then(|binding| {
        let place = binding.vault_path.as_deref().and_then(Place::parse)?;
        Some(place.name().to_owned())
    });
    if let (Some(name), true) = (name, status.vault_role_names.is_empty()) {
        status.vault_role_names.push(SplitRole {
            namespace: Some(String::new()),
            vault_role_name: Some(name),
            service_accounts: status.bound_service_accounts.clone(),
            canonical_hash: sync.last_applied_canonical_hash.clone(),
        });
    }
}

/// All remembered places have been noted as earlier ones.
pub(super) fn forget_places(status: &mut RoleStatus) {
    status.vault_role_names.clear();
    status.sync.binding = None;
    status.sync.last_applied_canonical_hash = None;
    status.sync.last_applied_hash = None;
}

pub(super) fn tell(
    status: &mut RoleStatus,
    desired: &Desired<Extra>,
    applied: &Applied,
    set: &mut Conditions,
) {
    let Extra { resolved, admitted } = &desired.extra;
    let shown = |(namespace, name): &Pair| format!("{namespace}/{name}");
    status.bound_service_accounts = admitted.pairs.iter().map(shown).collect();
    status.resolved_policies.clone_from(&resolved.names);
    status.policy_bindings.clone_from(&resolved.bindings);
    let base = applied.records.iter().find(|record| record.slot.is_none());
    status.vault_role_name = base.map(|record| record.place.name().to_owned());
    if admitted.split.is_empty() {
        status.vault_role_names.clear();
    } else {
        let wanted = |split: &SplitRole| {
            let slot = split.namespace.as_deref().unwrap_or_default();
            if slot.is_empty() {
                admitted.base.is_some()
            } else {
                admitted.split.contains_key(slot)
            }
        };
        status.vault_role_names.retain(wanted);
        for split in &mut status.vault_role_names {
            let slot = split.namespace.as_deref().unwrap_or_default();
            split.service_accounts = match (slot.is_empty(), &admitted.base) {
                (true, Some(Subjects::Accounts(product))) => {
                    product.pairs().iter().map(shown).collect()
                }
                (true, Some(Subjects::Selected { .. } | Subjects::Jwt(_)) | None) => Vec::new(),
                (false, _) => match admitted.split.get(slot) {
                    Some(Subjects::Accounts(product)) => product.names.iter().cloned().collect(),
                    Some(Subjects::Selected { .. } | Subjects::Jwt(_)) | None => Vec::new(),
                },
            };
        }
        status
            .vault_role_names
            .sort_by(|one, other| one.namespace.cmp(&other.namespace));
    }
    if base.is_none()
        && let Some(binding) = &mut status.sync.binding
    {
        binding.vault_path = None;
        binding.vault_resource_name = None;
    }
    tell_policies(desired, set);
}

fn tell_policies(desired: &Desired<Extra>, set: &mut Conditions) {
    let missing = &desired.extra.resolved.missing;
    match missing.first() {
        None => set.yes(
            conditions::POLICIES_RESOLVED,
            &Reason::new(reasons::ALL_POLICIES_EXIST, "every policy is in Vault"),
        ),
        Some((code, _)) => {
            let said: Vec<_> = missing.iter().map(|(_, said)| &**said).collect();
            set.no(
                conditions::POLICIES_RESOLVED,
                &Reason::new(*code, said.join("; ")),
            )
        }
    };
}

/// Says whether exactly those get in who are named.
pub(super) fn tell_exact(status: &RoleStatus, desired: &Desired<Extra>, set: &mut Conditions) {
    let admitted = &desired.extra.admitted;
    let strangers: Vec<_> = admitted
        .beyond
        .iter()
        .map(|(ns, name)| format!("{ns}/{name}"))
        .collect();
    let strangers = strangers.join(", ");
    let name = status.vault_role_name.as_deref().unwrap_or_default();
    if admitted.beyond.is_empty() {
        set.yes(
            conditions::BINDING_EXACT,
            &Reason::new(reasons::EXACT, "exactly the service accounts named get in"),
        );
    } else if admitted.product_accepted {
        set.no(
            conditions::BINDING_EXACT,
            &Reason::new(
                reasons::PRODUCT_ACCEPTED,
                format!("as serviceAccountBinding: Product says, these get in too: {strangers}"),
            ),
        );
    } else {
        set.no(
            conditions::BINDING_EXACT,
            &Reason::new(
                reasons::LEGACY_PRODUCT_ROLE,
                format!(
                    "the role {name} of before also lets in {strangers}; move workloads to the roles \
                     in vaultRoleNames, then set serviceAccountBinding: Exact"
                ),
            ),
        );
    }
}

/// Tells of references that were lost or found, and of bindings that admit strangers.
pub(super) fn events(before: &RoleStatus, after: &RoleStatus, pass: &Pass) {
    let unresolved = |status: &RoleStatus| -> BTreeSet<String> {
        let missing = status.policy_bindings.iter();
        let missing = missing.filter(|binding| binding.resolved == Some(false));
        missing
            .filter_map(|binding| binding.k8s_ref.clone())
            .collect()
    };
    let (was, is) = (unresolved(before), unresolved(after));
    for lost in is.difference(&was) {
        pass.event(Note::warning(
            "PolicyNotInVault",
            format!("{lost} is not bound: it is not in this Vault, or not for this role"),
        ));
    }
    for found in was.difference(&is) {
        pass.event(Note::normal(
            "PolicyResolved",
            format!("{found} is bound now"),
        ));
    }
    let legacy = |status: &RoleStatus| {
        let one = find(&status.sync.conditions, conditions::BINDING_EXACT)?;
        (one.reason == reasons::LEGACY_PRODUCT_ROLE).then(|| one.message.clone())
    };
    if let (None, Some(message)) = (legacy(before), legacy(after)) {
        pass.event(Note::warning("LegacyProductRole", message));
    }
}
