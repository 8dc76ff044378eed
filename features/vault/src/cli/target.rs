//! An object, as people name it.

use std::sync::Arc;

use engine::Stored;
use kernel::ObjectKey;

use super::Failure;
use super::site::Site;
use crate::links::Dependent;

/// One object of one of the five kinds behind a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) kind: Dependent,
    pub(super) key: ObjectKey,
}

impl Target {
    /// Reads `kind/name` or `kind/namespace/name`.
    pub(super) fn parse(text: &str, namespace: &str) -> Result<Self, Failure> {
        let mut parts = text.split('/');
        let (word, first, second) = (parts.next(), parts.next(), parts.next());
        let wrong = || -> Failure {
            format!("{text:?} names no object; write <kind>/<name>, such as vp/app").into()
        };
        let first = first.filter(|name| !name.is_empty()).ok_or_else(wrong)?;
        if parts.next().is_some() || second == Some("") {
            return Err(wrong());
        }
        let kind = kind(word.unwrap_or_default())?;
        let key = match (is_namespaced(kind), second) {
            (true, Some(name)) => ObjectKey::namespaced(first, name),
            (true, None) => ObjectKey::namespaced(namespace, first),
            (false, None) => ObjectKey::cluster(first),
            (false, Some(_)) => {
                let word = name(kind);
                return Err(format!("a {word} is in no namespace; write {word}/<name>").into());
            }
        };
        Ok(Self { kind, key })
    }

    /// The object as it is in the cluster, if it is there.
    pub(super) fn find(&self, site: &Site) -> Option<Arc<Stored>> {
        site.ctx.caches.of(self.kind).store().get(&self.key)
    }

    /// The object as it is in the cluster.
    pub(super) fn object(&self, site: &Site) -> Result<Arc<Stored>, Failure> {
        self.find(site).ok_or_else(|| self.missing().into())
    }

    /// What is said of one that is not there.
    pub(super) fn missing(&self) -> String {
        let kind = name(self.kind);
        if is_namespaced(self.kind) {
            format!(
                "there is no {kind} {}; check the name, or give its namespace with -n",
                self.key
            )
        } else {
            format!("there is no {kind} {}; check the name", self.key)
        }
    }
}

/// The kind that a word names: the kind itself, its plural, its short name or the word behind Vault.
pub(super) fn kind(word: &str) -> Result<Dependent, Failure> {
    match &*word.to_lowercase() {
        "vaultpolicy" | "vaultpolicies" | "vp" | "policy" => Ok(Dependent::Policy),
        "vaultclusterpolicy" | "vaultclusterpolicies" | "vcp" | "clusterpolicy" => {
            Ok(Dependent::ClusterPolicy)
        }
        "vaultrole" | "vaultroles" | "vr" | "role" => Ok(Dependent::Role),
        "vaultclusterrole" | "vaultclusterroles" | "vcr" | "clusterrole" => {
            Ok(Dependent::ClusterRole)
        }
        "vaultkvsecret" | "vaultkvsecrets" | "vks" | "kvsecret" => Ok(Dependent::Seed),
        _ => Err(format!(
            "there is no kind {word:?} behind a connection; the kinds are: VaultPolicy (vp), \
             VaultClusterPolicy (vcp), VaultRole (vr), VaultClusterRole (vcr), VaultKVSecret (vks)"
        )
        .into()),
    }
}

/// A kind's own name.
pub(super) fn name(kind: Dependent) -> &'static str {
    match kind {
        Dependent::Policy => "VaultPolicy",
        Dependent::ClusterPolicy => "VaultClusterPolicy",
        Dependent::Role => "VaultRole",
        Dependent::ClusterRole => "VaultClusterRole",
        Dependent::Seed => "VaultKVSecret",
    }
}

pub(super) fn is_namespaced(kind: Dependent) -> bool {
    match kind {
        Dependent::Policy | Dependent::Role | Dependent::Seed => true,
        Dependent::ClusterPolicy | Dependent::ClusterRole => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::short("vp/app", Dependent::Policy, "team-a/app")]
    #[case::with_its_namespace("VaultRole/team-b/r", Dependent::Role, "team-b/r")]
    #[case::cluster_wide("clusterrole/r", Dependent::ClusterRole, "r")]
    fn objects_are_named_as_kubectl_names_them(
        #[case] text: &str,
        #[case] kind: Dependent,
        #[case] key: &str,
    ) {
        let target = Target::parse(text, "team-a").unwrap();
        assert_eq!((target.kind, &*target.key.to_string()), (kind, key));
    }

    #[rstest]
    #[case::no_kind("app", "<kind>/<name>")]
    #[case::no_name("vp/", "<kind>/<name>")]
    #[case::too_much("vp/a/b/c", "<kind>/<name>")]
    #[case::unknown("pod/a", "VaultKVSecret (vks)")]
    #[case::in_no_namespace("vcp/a/b", "VaultClusterPolicy/<name>")]
    fn what_names_no_object_is_refused_with_what_to_write(#[case] text: &str, #[case] hint: &str) {
        let error = Target::parse(text, "team-a").unwrap_err().to_string();
        assert!(error.contains(hint), "{error}");
    }
}
