//! What a connection lets the objects of a namespace do: its `tenancy`.
//!
//! ```text
//! choice: which namespaces are meant      grant: names that have to be granted
//! policy: rawHCL, boundary, ceilings      role: claims, External and foreign policies
//! ```
//! Cluster-wide kinds are not guarded. Without a tenancy all is open but what has to be granted:
//! rawHCL, external names, External policies, Vault namespaces.

mod choice;
mod grant;
mod policy;
mod role;

use api::vault::{Discovery, Permission, Tenancy};

pub(crate) use choice::{Namespace, chosen, selects};
pub(crate) use policy::own_boundary;

use crate::language::cover::{covers, for_namespace};

/// What is refused, by which field of the connection, and what to do about it.
///
/// What was applied before stays in Vault; whoever shows the refusal names it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refusal(String);

/// Judges what objects of one namespace want of one connection. The first refusal wins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guard<'a> {
    /// The connection's.
    pub(crate) tenancy: Option<&'a Tenancy>,
    /// The connection's, too: it grants what its own objects need.
    pub(crate) discovery: Option<&'a Discovery>,
    /// Where the objects are.
    pub(crate) namespace: Namespace<'a>,
}

impl<'a> Guard<'a> {
    /// Whether the namespace may use the connection at all. [`Guard::policy`], [`Guard::role`] and
    /// [`Guard::seed`] ask this first.
    pub(crate) fn admits(&self) -> Result<(), Refusal> {
        let allowed = self
            .tenancy
            .and_then(|tenancy| tenancy.allowed_namespaces.as_ref());
        let admitted = allowed.is_none_or(|allowed| chosen(allowed, &self.namespace));
        unless(admitted, || {
            format!(
                "namespace {} may not use the connection: its tenancy.allowedNamespaces picks it \
                 neither by name nor by label; have the namespace listed or labelled",
                self.namespace.name
            )
        })
    }

    /// Whether what is in Vault may be taken over.
    pub(crate) fn adoption(&self) -> Result<(), Refusal> {
        let adoption = self
            .tenancy
            .map_or(Permission::Allow, |tenancy| tenancy.adoption);
        unless(adoption == Permission::Allow, || {
            "adoption is refused: the connection's tenancy.adoption is Deny; rename the object, \
             or have the connection's owner allow it"
                .to_owned()
        })
    }

    /// Whether `path`, as `<mount>/data/<path>`, may be seeded.
    pub(crate) fn seed(&self, path: &str) -> Result<(), Refusal> {
        self.admits()?;
        let allowed = self.tenancy.and_then(|tenancy| tenancy.kv_paths.as_ref());
        let is_below =
            |allowed: &String| covers(&for_namespace(allowed, self.namespace.name), path);
        let covered = allowed.is_none_or(|allowed| allowed.iter().any(is_below));
        unless(covered, || {
            format!(
                "path {path:.200} may not be seeded from namespace {}: none of the connection's \
                 tenancy.kvPaths covers it; seed a path below one, or have one added",
                self.namespace.name
            )
        })
    }

    /// The discovery that makes objects in this namespace. Its grants stay when it stops looking,
    /// so that what it made goes on.
    fn discovery_here(&self) -> Option<&'a Discovery> {
        self.discovery.filter(|discovery| {
            discovery.auto_create_crs == Some(true)
                && discovery.target_namespace.as_deref() == Some(self.namespace.name)
        })
    }
}

fn unless(granted: bool, why: impl FnOnce() -> String) -> Result<(), Refusal> {
    if granted {
        return Ok(());
    }
    Err(Refusal(why()))
}

#[cfg(test)]
mod tests;
