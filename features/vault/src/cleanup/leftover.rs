//! One thing that may be left in Vault, and all that is needed to tell whether it is still ours.

use std::fmt;

use api::vault::{
    IntentKind, PreviousName, VaultConnection, VaultKVSecret, VaultKVSecretStatus, names as words,
};
use engine::leftovers::Leftover;
use kernel::ObjectKey;
use kube::Resource;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ctx::Ctx;
use crate::kv::KvPath;
use crate::place::{Place, sha256};
use crate::realm::{is_same_address, namespace};
use crate::sync::{Declared, Remains};

/// Names of ConfigMaps have room for more, but nobody reads it.
const HASH_DIGITS: usize = 32;

/// Where in Vault something can be left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum VaultPath {
    /// A policy or a role.
    Place(Place),
    /// `<mount>/metadata/<path>`: a seed, with all its versions.
    Seed(KvPath),
}

impl VaultPath {
    /// The path that a record names.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(place) = Place::parse(text) {
            return Some(Self::Place(place));
        }
        KvPath::of_metadata(text).map(Self::Seed)
    }

    /// The path of a seed's metadata, from the path in its spec: `<mount>/data/<path>`.
    pub(crate) fn of_seed(path: &str) -> Option<Self> {
        KvPath::parse(path).map(Self::Seed)
    }

    /// Whether both are the same. Vault ignores case in names of policies and roles.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Place(one), Self::Place(other)) => one.is(other),
            (Self::Seed(_), Self::Seed(_)) => self == other,
            (Self::Place(_) | Self::Seed(_), _) => false,
        }
    }

    /// The label of its metrics: `policy`, `role` or `secret`.
    pub(super) fn resource_type(&self) -> &'static str {
        match self {
            Self::Place(Place::Policy { .. }) => "policy",
            Self::Place(Place::Role { .. }) => "role",
            Self::Seed(_) => "secret",
        }
    }

    /// The same text for the same path, in whatever case its name was given.
    fn canonical(&self) -> String {
        match self {
            Self::Place(Place::Policy { name }) => Place::Policy {
                name: name.to_lowercase(),
            }
            .to_string(),
            Self::Place(Place::Role { mount, name }) => Place::Role {
                mount: mount.clone(),
                name: name.to_lowercase(),
            }
            .to_string(),
            Self::Seed(_) => self.to_string(),
        }
    }
}

impl fmt::Display for VaultPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place(place) => place.fmt(f),
            Self::Seed(KvPath { mount, path }) => write!(f, "{mount}/metadata/{path}"),
        }
    }
}

impl From<VaultPath> for String {
    fn from(path: VaultPath) -> Self {
        path.to_string()
    }
}

impl TryFrom<String> for VaultPath {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("neither a policy, a role nor the metadata of a secret")
    }
}

/// What may be left in Vault after its object has gone, or has moved away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VaultLeftover {
    /// The object's kind.
    pub(crate) kind: String,
    /// The object, as `ns/name` or `name`; empty where the predecessor did not say.
    #[serde(default)]
    pub(crate) resource: String,
    #[serde(rename = "vaultPath")]
    pub(crate) path: VaultPath,
    /// Its Vault namespace: from the root if the address is known, else below the connection's.
    pub(crate) vault_namespace: Option<String>,
    pub(crate) connection: String,
    /// Where the connection led; none if it was gone already.
    pub(crate) address: Option<String>,
    /// The owner that its marker named.
    pub(crate) owner: Option<String>,
    /// SHA-256 of the canonical form that was last written.
    pub(crate) canonical_hash: Option<String>,
    /// The version of a seed that we wrote.
    pub(crate) seeded_version: Option<u64>,
    /// Written by us for certain; else only a marker or the hash can tell.
    #[serde(
        default = "recorded_by_default",
        serialize_with = "write_recorded",
        deserialize_with = "read_recorded"
    )]
    pub(crate) recorded: bool,
}

/// Only what is uncertain has the key.
fn recorded_by_default() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference
fn write_recorded<S: Serializer>(recorded: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    (!recorded).then_some(false).serialize(serializer)
}

fn read_recorded<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(String::deserialize(deserializer)? != "false")
}

impl VaultLeftover {
    /// An earlier place of an object, whose connection is gone.
    pub(crate) fn of<K: Declared>(
        object: &K,
        entry: &PreviousName,
        place: &Place,
        connection: &str,
    ) -> Self {
        Self {
            owner: entry.owner.clone(),
            vault_namespace: object.terms().vault_namespace.map(str::to_owned),
            ..Self::at(VaultPath::Place(place.clone()), object, connection)
        }
    }

    /// What could not be removed before the object has to go.
    pub(crate) fn of_remains<K: Declared>(object: &K, remains: &Remains, ctx: &Ctx) -> Self {
        let Remains {
            place,
            connection,
            owner,
            hash,
            recorded,
        } = remains;
        let leftover = Self {
            owner: owner.clone(),
            canonical_hash: hash.clone(),
            recorded: *recorded,
            ..Self::at(VaultPath::Place(place.clone()), object, connection)
        };
        let own = object.terms().vault_namespace;
        leftover.over(ctx.connection(connection).as_ref(), own)
    }

    /// A seed that could not be removed before its object has to go, in the Vault that `connection` leads
    /// to.
    pub(crate) fn of_seed(seed: &VaultKVSecret, connection: Option<&VaultConnection>) -> Self {
        let declared = &seed.spec.path;
        // A path that names nothing was never written to; its record says so to a person.
        let path = VaultPath::of_seed(declared).unwrap_or_else(|| {
            VaultPath::Seed(KvPath {
                mount: String::new(),
                path: declared.clone(),
            })
        });
        let status = seed.status.clone().unwrap_or_default();
        let leftover = Self {
            seeded_version: seeded(&status),
            owner: status.sync.binding.and_then(|binding| binding.owner),
            ..Self::at(path, seed, &seed.spec.connection_ref)
        };
        leftover.over(connection, None)
    }

    fn at<K: Resource<DynamicType = ()>>(path: VaultPath, object: &K, connection: &str) -> Self {
        let meta = object.meta();
        let name = meta.name.as_deref().unwrap_or_default();
        Self {
            kind: K::kind(&()).into_owned(),
            resource: ObjectKey::of(meta.namespace.as_deref(), name).to_string(),
            path,
            vault_namespace: None,
            connection: connection.to_owned(),
            address: None,
            owner: None,
            canonical_hash: None,
            seeded_version: None,
            recorded: true,
        }
    }

    /// The same in the Vault that `connection` leads to; `own` is the object's namespace there.
    pub(super) fn over(self, connection: Option<&VaultConnection>, own: Option<&str>) -> Self {
        let parent = connection.and_then(|connection| connection.spec.vault_namespace.as_deref());
        Self {
            vault_namespace: namespace(parent, own),
            address: connection.map(|connection| connection.spec.address.clone()),
            ..self
        }
    }

    /// The Vault namespace it is in, from the root; none for the root.
    pub(super) fn namespace(&self, connection: &VaultConnection) -> Option<String> {
        let own = self.vault_namespace.as_deref();
        match self.address {
            Some(_) => namespace(None, own),
            None => namespace(connection.spec.vault_namespace.as_deref(), own),
        }
    }

    /// Whether `connection` leads where the thing is, as far as is known.
    pub(super) fn is_behind(&self, connection: &VaultConnection) -> bool {
        let known = self.address.as_deref();
        known.is_none_or(|address| is_same_address(address, &connection.spec.address))
    }
}

impl Leftover for VaultLeftover {
    const LABEL: (&'static str, &'static str) = (words::CLEANUP_RECORD_LABEL, "true");
    const TARGET: &'static str = "connection";
    const OUTSIDE: &'static str = "Vault";

    fn record_name(&self) -> String {
        let namespace = self.vault_namespace.as_deref().unwrap_or_default();
        let text = format!(
            "{}\n{namespace}\n{}",
            self.connection,
            self.path.canonical()
        );
        format!("vault-cleanup-{}", &sha256(&text)[..HASH_DIGITS])
    }

    /// What is certain covers what is only suspected.
    fn covers(&self, other: &Self) -> bool {
        self == other || (self.recorded && !other.recorded)
    }
}

impl fmt::Display for VaultLeftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)?;
        match &self.vault_namespace {
            Some(namespace) => write!(f, " in Vault namespace {namespace}"),
            None => Ok(()),
        }
    }
}

/// The version that is ours if it carries our marker: the one on record, or the first if that was
/// announced and a crash kept it from the record.
fn seeded(status: &VaultKVSecretStatus) -> Option<u64> {
    let announced = status.sync.intent.as_ref().and_then(|intent| intent.kind);
    match announced {
        Some(IntentKind::Create) => Some(1),
        Some(IntentKind::Correct) | None => status.seeded_version?.try_into().ok(),
    }
}

#[cfg(test)]
mod tests;
