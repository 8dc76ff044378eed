//! Names that have to be granted: by the tenancy's globs, or by discovery in its own namespace.

use api::vault::{Discovery, Permission, PolicySpec};

use super::{Guard, Refusal, unless};
use crate::language::{cover::for_namespace, glob};
use crate::names;

impl Guard<'_> {
    pub(super) fn raw_hcl(&self, spec: &PolicySpec) -> Result<(), Refusal> {
        let granted = spec.raw_hcl.is_none()
            || self.discovery_here().is_some()
            || self
                .tenancy
                .is_some_and(|tenancy| tenancy.raw_hcl == Permission::Allow);
        unless(granted, || {
            "rawHCL is refused: the connection's tenancy.rawHCL is not Allow; write rules, or have \
             the connection's owner allow it"
                .to_owned()
        })
    }

    pub(super) fn policy_name(&self, given: Option<&str>) -> Result<(), Refusal> {
        self.external_name(given, |discovery, name| {
            is_found(&discovery.policy_patterns, name) && !is_left_out(discovery, name)
        })
    }

    pub(super) fn role_name(&self, given: Option<&str>) -> Result<(), Refusal> {
        self.external_name(given, |discovery, name| {
            is_found(&discovery.role_patterns, name)
        })
    }

    fn external_name(
        &self,
        given: Option<&str>,
        finds: impl Fn(&Discovery, &str) -> bool,
    ) -> Result<(), Refusal> {
        let Some(name) = given else { return Ok(()) };
        let globs = self.tenancy.map(|tenancy| &*tenancy.external_names);
        let found = self.discovery_here();
        let granted = found.is_some_and(|discovery| finds(discovery, name))
            || matches_name(self.here(globs.unwrap_or_default()), name);
        unless(granted, || {
            self.ungranted("externalName", name, "tenancy.externalNames")
        })
    }

    /// Whether a role may bind a policy that only Vault knows.
    pub(crate) fn external_policy(&self, name: &str) -> Result<(), Refusal> {
        let globs = self.tenancy.map(|tenancy| &*tenancy.external_policies);
        let granted = self.discovery_here().is_some()
            || matches_name(self.here(globs.unwrap_or_default()), name);
        unless(granted, || {
            self.ungranted("External policy", name, "tenancy.externalPolicies")
        })
    }

    pub(super) fn vault_namespace(&self, given: Option<&str>) -> Result<(), Refusal> {
        let Some(given) = given else { return Ok(()) };
        // Vault reads `a`, `/a` and `a/` alike; what is left of `/` is its root.
        let bare = given.trim_matches('/');
        let globs = self.tenancy.map(|tenancy| &*tenancy.vault_namespaces);
        let mut globs = self.here(globs.unwrap_or_default());
        let granted = !bare.is_empty() && globs.any(|glob| matches(glob.trim_matches('/'), bare));
        unless(granted, || {
            self.ungranted("vaultNamespace", given, "tenancy.vaultNamespaces")
        })
    }

    /// `globs` as they are for this namespace.
    fn here(&self, globs: &[String]) -> impl Iterator<Item = String> {
        globs
            .iter()
            .map(|glob| for_namespace(glob, self.namespace.name))
    }

    fn ungranted(&self, what: &str, name: &str, field: &str) -> String {
        format!(
            "{what} {name:.200} is refused to namespace {}: no glob of the connection's {field} \
             matches it; have one added, or do without",
            self.namespace.name
        )
    }
}

/// Whether discovery looks for things of this name; without patterns it looks for all.
fn is_found(patterns: &[String], name: &str) -> bool {
    patterns.is_empty() || matches_name(patterns.iter().cloned(), name)
}

/// Whether discovery never makes an object of this name, because it counts as Vault's own.
fn is_left_out(discovery: &Discovery, name: &str) -> bool {
    let mut own = discovery.custom_system_policies.iter();
    discovery.exclude_system_policies && own.any(|own| names::same(own, name))
}

/// Vault does not tell names of policies and roles apart by case, so no glob over them may.
fn matches_name(mut globs: impl Iterator<Item = String>, name: &str) -> bool {
    let name = name.to_lowercase();
    globs.any(|glob| matches(&glob.to_lowercase(), &name))
}

/// A glob that makes no sense grants nothing.
fn matches(glob: &str, name: &str) -> bool {
    glob::matches(glob, name).unwrap_or(false)
}
