//! A place in Vault where a policy or a role can be, and what is wanted and found there.

use std::fmt;

use engine::kill_point;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use vault_client::{AuthMount, Client, Error};

use crate::language::policy::{self, Policy};
use crate::language::text::{Marker, parse_header};
use crate::names;
use crate::role::payload::{self, Canonical, Payload};

const POLICIES: &str = "sys/policies/acl/";

/// Where in Vault.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Place {
    /// `sys/policies/acl/<name>`
    Policy { name: String },
    /// `auth/<mount>/role/<name>`
    Role { mount: AuthMount, name: String },
}

impl Place {
    /// The place that a recorded path names.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        if let Some(name) = path.strip_prefix(POLICIES) {
            let name = name.to_owned();
            return Some(Self::Policy { name });
        }
        let (mount, name) = path.strip_prefix("auth/")?.rsplit_once("/role/")?;
        Some(Self::Role {
            mount: AuthMount::new(mount),
            name: name.to_owned(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Policy { name } | Self::Role { name, .. } => name,
        }
    }

    pub(crate) fn mount(&self) -> Option<&AuthMount> {
        match self {
            Self::Policy { .. } => None,
            Self::Role { mount, .. } => Some(mount),
        }
    }

    /// Vault does not tell names apart by case.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.mount() == other.mount() && names::same(self.name(), other.name())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy { name } => write!(f, "{POLICIES}{name}"),
            Self::Role { mount, name } => write!(f, "auth/{mount}/role/{name}"),
        }
    }
}

/// What is to be at a place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Wanted {
    Policy { text: String, canonical: Policy },
    Role(Payload),
}

impl Wanted {
    /// SHA-256 of what is sent.
    pub(crate) fn sent_hash(&self) -> String {
        match self {
            Self::Policy { text, .. } => sha256(text),
            Self::Role(payload) => payload.sent_hash(),
        }
    }

    /// SHA-256 of what it means.
    pub(crate) fn hash(&self) -> String {
        match self {
            Self::Policy { canonical, .. } => canonical.canonical_hash(),
            Self::Role(payload) => payload.canonical().hash(),
        }
    }
}

/// What was found at a place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Found {
    Policy {
        text: String,
        /// None: Vault has a text that is no policy to us.
        canonical: Option<Policy>,
    },
    Role {
        fields: Map<String, Value>,
        canonical: Canonical,
    },
}

impl Found {
    fn policy(text: String) -> Self {
        let canonical = Policy::parse(&text).ok();
        Self::Policy { text, canonical }
    }

    fn role(fields: Map<String, Value>) -> Self {
        let canonical = Canonical::of_live(payload::family(&fields), &fields);
        Self::Role { fields, canonical }
    }

    /// The owner it names, if it names one.
    pub(crate) fn marker(&self) -> Option<Marker> {
        match self {
            Self::Policy { text, .. } => parse_header(text),
            Self::Role { fields, .. } => payload::marker(fields),
        }
    }

    /// SHA-256 of what it means; none for what cannot be understood.
    pub(crate) fn hash(&self) -> Option<String> {
        match self {
            Self::Policy { canonical, .. } => canonical.as_ref().map(Policy::canonical_hash),
            Self::Role { canonical, .. } => Some(canonical.hash()),
        }
    }

    /// SHA-256 of the text, as vault-access-operator records it; roles have none to compare with.
    pub(crate) fn text_hash(&self) -> Option<String> {
        match self {
            Self::Policy { text, .. } => Some(sha256(text)),
            Self::Role { .. } => None,
        }
    }

    /// What differs from `wanted`: `-` is lost and `+` gained when `wanted` is written.
    pub(crate) fn diff(&self, wanted: &Wanted, max_lines: usize) -> String {
        match (self, wanted) {
            (
                Self::Policy {
                    canonical: Some(found),
                    ..
                },
                Wanted::Policy { canonical, .. },
            ) => policy::diff(found, canonical, max_lines),
            (Self::Role { canonical, .. }, Wanted::Role(payload)) => {
                payload::diff(canonical, &payload.canonical(), max_lines)
            }
            (Self::Policy { .. } | Self::Role { .. }, _) => "- a text that is no policy".to_owned(),
        }
    }
}

/// What is at `place`.
pub(crate) async fn read(vault: &Client, place: &Place) -> Result<Option<Found>, Error> {
    match place {
        Place::Policy { name } => Ok(vault.read_policy(name).await?.map(Found::policy)),
        Place::Role { mount, name } => Ok(vault.read_role(mount, name).await?.map(Found::role)),
    }
}

/// Makes `place` hold `wanted`. A lost answer is looked into by the next pass.
pub(crate) async fn write(vault: &Client, place: &Place, wanted: &Wanted) -> Result<(), Error> {
    kill_point("vault-before-write");
    match (place, wanted) {
        (Place::Policy { name }, Wanted::Policy { text, .. }) => {
            vault.write_policy(name, text).await?;
        }
        (Place::Role { mount, name }, Wanted::Role(payload)) => {
            vault.write_role(mount, name, payload.fields()).await?;
        }
        (Place::Policy { .. } | Place::Role { .. }, _) => {
            unreachable!("a policy is wanted at a policy's place, a role at a role's")
        }
    }
    kill_point("vault-after-write");
    Ok(())
}

/// Removes what is at `place`; nothing there is fine.
pub(crate) async fn delete(vault: &Client, place: &Place) -> Result<(), Error> {
    kill_point("vault-before-delete");
    match place {
        Place::Policy { name } => vault.delete_policy(name).await?,
        Place::Role { mount, name } => vault.delete_role(mount, name).await?,
    }
    kill_point("vault-after-delete");
    Ok(())
}

pub(crate) fn sha256(text: &str) -> String {
    format!("{:x}", Sha256::digest(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::policy("sys/policies/acl/vao.kubernetes.team-a.app")]
    #[case::role("auth/kubernetes/role/vao.kubernetes.team-a.r")]
    #[case::nested_mount("auth/eu/kubernetes/role/r")]
    fn a_recorded_path_reads_back(#[case] path: &str) {
        assert_eq!(Place::parse(path).unwrap().to_string(), path);
    }

    #[rstest]
    #[case("secret/data/x")]
    #[case("auth/kubernetes/config")]
    fn other_paths_are_no_places(#[case] path: &str) {
        assert_eq!(Place::parse(path), None);
    }

    #[test]
    fn names_are_the_same_in_any_case() {
        let place = |path| Place::parse(path).unwrap();
        assert!(place("sys/policies/acl/A").is(&place("sys/policies/acl/a")));
        assert!(!place("auth/x/role/a").is(&place("auth/y/role/a")));
    }
}
