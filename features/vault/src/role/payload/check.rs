//! What no schema can refuse in a role.

use std::collections::{BTreeMap, BTreeSet};

use api::vault::RoleSpec;

use super::fields;

/// Admits every name there is.
const ANY: &str = "*";

/// Whether the times and networks of a role make sense; if not, what to do about it.
pub(crate) fn check(spec: &RoleSpec) -> Result<(), String> {
    ttl_within_max(spec)?;
    networks(spec)
}

/// A max TTL of 0 is none.
fn ttl_within_max(spec: &RoleSpec) -> Result<(), String> {
    let (Some(ttl), Some(max)) = (&spec.token_ttl, &spec.token_max_ttl) else {
        return Ok(());
    };
    if max.as_std().is_zero() || ttl.as_std() <= max.as_std() {
        return Ok(());
    }
    Err(format!(
        "tokenTTL {ttl} is longer than tokenMaxTTL {max}; shorten the one or lengthen the other"
    ))
}

/// Vault takes `10.0.0.0/33` for the path of a socket, and no token could be used.
fn networks(spec: &RoleSpec) -> Result<(), String> {
    let wrong = spec
        .token_bound_cidrs
        .iter()
        .find(|text| !fields::is_network(text));
    wrong.map_or(Ok(()), |wrong| {
        Err(format!(
            "tokenBoundCIDRs: {wrong:?} is neither an address nor a network; write 10.0.0.1 or 10.0.0.0/8"
        ))
    })
}

/// Whether ServiceAccounts, as (namespace, name), can be admitted together without some of them
/// saying nothing; if not, what to do about it.
///
/// A role admits names × namespaces, so a glob beside others would swallow them, or lend them its
/// names.
pub(crate) fn check_accounts<'a>(
    accounts: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<(), String> {
    let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (namespace, name) in accounts {
        names.entry(namespace).or_default().insert(name);
    }
    let glob = names.keys().find(|namespace| namespace.contains('*'));
    if let Some(glob) = glob.filter(|_| names.len() > 1) {
        let others = names.keys().filter(|namespace| *namespace != glob);
        return Err(format!(
            "the namespace {glob} is a glob and must be the only one; move the ServiceAccounts of {} to another role",
            listed(others)
        ));
    }
    let any = names
        .iter()
        .find(|(_, names)| names.contains(ANY) && names.len() > 1);
    any.map_or(Ok(()), |(namespace, names)| {
        let others = names.iter().filter(|name| **name != ANY);
        Err(format!(
            "the name * admits every ServiceAccount of namespace {namespace} and must be the only one there; remove it, or remove {}",
            listed(others)
        ))
    })
}

/// The first few, for a message.
fn listed<'a>(names: impl Iterator<Item = &'a &'a str>) -> String {
    const SHOWN: usize = 5;
    let names: Vec<&str> = names.copied().collect();
    match names.get(SHOWN..).map_or(0, <[_]>::len) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..SHOWN].join(", ")),
    }
}
