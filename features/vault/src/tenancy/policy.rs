//! What a policy may grant: the boundary of its namespace, and ceilings.

use api::vault::{Capability, PolicyRule, PolicySpec, VaultPolicySpec};

use super::{Guard, Refusal, unless};
use crate::language::Policy;
use crate::language::cover::{self, boundary_prefix, for_namespace, prefix_allowed};

impl Guard<'_> {
    /// Whether a policy may be what it is.
    ///
    /// `granted` is what the text made from `spec` says, templates replaced. In it, blocks of one
    /// path are one rule. The boundary is judged by the paths as written: only there can be seen
    /// where `{{namespace}}` stood.
    pub(crate) fn policy(&self, spec: &PolicySpec, granted: &Policy) -> Result<(), Refusal> {
        self.admits()?;
        self.raw_hcl(spec)?;
        self.policy_name(spec.external_name.as_deref())?;
        self.vault_namespace(spec.vault_namespace.as_deref())?;
        self.boundary(spec)?;
        self.ceilings(granted)
    }

    fn boundary(&self, spec: &PolicySpec) -> Result<(), Refusal> {
        let enforcing = self
            .tenancy
            .filter(|tenancy| tenancy.enforce_namespace_boundary);
        let Some(tenancy) = enforcing else {
            return Ok(());
        };
        let prefixes = tenancy.boundary_prefixes.as_deref();
        for path in granting_paths(spec)? {
            let prefix = boundary_prefix(&path).ok_or_else(|| {
                Refusal(format!(
                    "path {path:.200} leaves the namespace: the connection's \
                     tenancy.enforceNamespaceBoundary wants {{{{namespace}}}} as a whole segment \
                     after literal segments only, as in secret/data/{{{{namespace}}}}/*"
                ))
            })?;
            unless(self.is_boundary(&path, prefix, prefixes), || {
                format!(
                    "path {path:.200} leaves the namespace: the connection's \
                     tenancy.boundaryPrefixes allow {} before {{{{namespace}}}}; use such a path, \
                     or have the prefix added",
                    shown(prefixes)
                )
            })?;
        }
        Ok(())
    }

    /// Whether the namespace's name behind `prefix` keeps it apart from others. First in a path it
    /// is a mount, and that may be Vault's own: a namespace can be called `sys`.
    fn is_boundary(&self, path: &str, prefix: &str, prefixes: Option<&[String]>) -> bool {
        let anywhere: Option<&[String]> = None;
        let is_mount = prefix.is_empty();
        prefix_allowed(prefix, prefixes)
            && (!is_mount || prefix_allowed(&for_namespace(path, self.namespace.name), anywhere))
    }

    fn ceilings(&self, granted: &Policy) -> Result<(), Refusal> {
        let Some(ceilings) = self.tenancy.and_then(|tenancy| tenancy.ceilings.as_ref()) else {
            return Ok(());
        };
        let here = |ceiling: &api::vault::Ceiling| {
            let capabilities = ceiling.capabilities.iter().map(|one| one.as_str());
            cover::Ceiling::new(&ceiling.path, capabilities, self.namespace.name)
        };
        let ceilings: Vec<_> = ceilings.iter().map(here).collect();
        for (path, block) in granted.blocks() {
            let capabilities = &block.capabilities;
            unless(
                cover::within_ceilings(&ceilings, path, capabilities),
                || {
                    let wanted: Vec<&str> = capabilities.iter().map(String::as_str).collect();
                    format!(
                        "path {path:.200} with [{}] is above the connection's tenancy.ceilings: none \
                     covers all of it; narrow path or capabilities, or have a ceiling raised",
                        wanted.join(", ")
                    )
                },
            )?;
        }
        Ok(())
    }
}

/// Whether a policy keeps the boundary it sets itself by `enforceNamespaceBoundary`.
///
/// What breaks it is invalid rather than denied: no connection is asked. The API server has checked
/// rules, but not those stored before it knew how, and no rawHCL.
pub(crate) fn own_boundary(spec: &VaultPolicySpec) -> Result<(), Refusal> {
    if !spec.enforce_namespace_boundary {
        return Ok(());
    }
    for path in granting_paths(&spec.policy)? {
        unless(boundary_prefix(&path).is_some(), || {
            format!(
                "path {path:.200}: {{{{namespace}}}} must be a whole segment after literal \
                 segments only, or the policy does without enforceNamespaceBoundary"
            )
        })?;
    }
    Ok(())
}

/// The paths as written, `{{namespace}}` not replaced, on which something is granted. A leading
/// slash of a raw text's path is dropped, as Vault does.
fn granting_paths(spec: &PolicySpec) -> Result<Vec<String>, Refusal> {
    let denies = |rule: &PolicyRule| rule.capabilities.iter().all(|one| *one == Capability::Deny);
    let granting = spec.rules.iter().filter(|rule| !denies(rule));
    let mut paths: Vec<String> = granting.map(|rule| rule.path.clone()).collect();
    if let Some(raw) = &spec.raw_hcl {
        let unreadable = |refused| Refusal(format!("rawHCL is no policy: {refused}"));
        let raw = Policy::parse(raw).map_err(unreadable)?;
        let granting = raw.blocks().filter(|(_, block)| !block.is_pure_deny());
        paths.extend(granting.map(|(path, _)| path.to_owned()));
    }
    Ok(paths)
}

fn shown(prefixes: Option<&[String]>) -> String {
    match prefixes {
        None => "any but sys/, auth/, identity/ and cubbyhole/".to_owned(),
        Some([]) => "nothing".to_owned(),
        Some(prefixes) => {
            let quoted: Vec<String> = prefixes
                .iter()
                .map(|prefix| format!("{prefix:?}"))
                .collect();
            format!("only {}", quoted.join(", "))
        }
    }
}
