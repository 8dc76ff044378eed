//! One thing that may be left in Vault, and all that is needed to tell whether it is still ours.

use std::fmt;

use api::vault::{IntentKind, PreviousName, VaultConnection, VaultKVSecret, VaultKVSecretStatus};
use kernel::ObjectKey;
use kube::Resource;

use crate::ctx::Ctx;
use crate::kv::KvPath;
use crate::place::{Place, sha256};
use crate::realm::{is_same_address, namespace};
use crate::sync::{Declared, Remains};

/// Names of ConfigMaps have room for more, but nobody reads it.
const HASH_DIGITS: usize = 32;

/// Where in Vault something can be left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Site {
    /// A policy or a role.
    Place(Place),
    /// `<mount>/metadata/<path>`: a seed, with all its versions.
    Seed(KvPath),
}

impl Site {
    /// The site that a recorded path names.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(place) = Place::parse(text) {
            return Some(Self::Place(place));
        }
        KvPath::of_metadata(text).map(Self::Seed)
    }

    /// The site of a seed, by the path in its spec: `<mount>/data/<path>`.
    pub(crate) fn of_seed(path: &str) -> Option<Self> {
        KvPath::parse(path).map(Self::Seed)
    }

    /// Vault does not tell names of policies and roles apart by case.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Place(one), Self::Place(other)) => one.is(other),
            (Self::Seed(_), Self::Seed(_)) => self == other,
            (Self::Place(_) | Self::Seed(_), _) => false,
        }
    }

    /// What is counted: `policy`, `role` or `secret`.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Place(Place::Policy { .. }) => "policy",
            Self::Place(Place::Role { .. }) => "role",
            Self::Seed(_) => "secret",
        }
    }

    /// The same text for the same site, in whatever case its name was given.
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

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place(place) => place.fmt(f),
            Self::Seed(KvPath { mount, path }) => write!(f, "{mount}/metadata/{path}"),
        }
    }
}

/// What may be left in Vault after its object has gone, or has moved away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leftover {
    /// The object's kind.
    pub(crate) kind: String,
    /// The object, as `ns/name` or `name`; empty where the predecessor did not say.
    pub(crate) resource: String,
    pub(crate) site: Site,
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
    pub(crate) recorded: bool,
}

impl Leftover {
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
            ..Self::at(Site::Place(place.clone()), object, connection)
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
            ..Self::at(Site::Place(place.clone()), object, connection)
        };
        let own = object.terms().vault_namespace;
        leftover.over(ctx.connection(connection).as_ref(), own)
    }

    /// A seed that could not be removed before its object has to go, in the Vault that `connection` leads
    /// to.
    pub(crate) fn of_seed(seed: &VaultKVSecret, connection: Option<&VaultConnection>) -> Self {
        let path = &seed.spec.path;
        // A path that names nothing was never written to; its record says so to a person.
        let site = Site::of_seed(path).unwrap_or_else(|| {
            Site::Seed(KvPath {
                mount: String::new(),
                path: path.clone(),
            })
        });
        let status = seed.status.clone().unwrap_or_default();
        let leftover = Self {
            seeded_version: seeded(&status),
            owner: status.sync.binding.and_then(|binding| binding.owner),
            ..Self::at(site, seed, &seed.spec.connection_ref)
        };
        leftover.over(connection, None)
    }

    fn at<K: Resource<DynamicType = ()>>(site: Site, object: &K, connection: &str) -> Self {
        let meta = object.meta();
        let name = meta.name.as_deref().unwrap_or_default();
        Self {
            kind: K::kind(&()).into_owned(),
            resource: ObjectKey::of(meta.namespace.as_deref(), name).to_string(),
            site,
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

    /// The name of its record: the same for the same thing over the same connection.
    pub(super) fn record_name(&self) -> String {
        let namespace = self.vault_namespace.as_deref().unwrap_or_default();
        let text = format!(
            "{}\n{namespace}\n{}",
            self.connection,
            self.site.canonical()
        );
        format!("vault-cleanup-{}", &sha256(&text)[..HASH_DIGITS])
    }
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.site.fmt(f)?;
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
mod tests {
    use super::*;
    use api::vault::VaultPolicy;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn policy() -> VaultPolicy {
        serde_json::from_value(json!({
            "apiVersion": "vault.platform.io/v1alpha1",
            "kind": "VaultPolicy",
            "metadata": {"namespace": "team-a", "name": "app"},
            "spec": {"connectionRef": "c", "vaultNamespace": "/child/"},
        }))
        .unwrap()
    }

    fn connection(spec: Value) -> VaultConnection {
        let mut whole = json!({
            "apiVersion": "vault.platform.io/v1alpha1",
            "kind": "VaultConnection",
            "metadata": {"name": "c"},
            "spec": {"address": "https://vault", "auth": {}},
        });
        for (key, value) in spec.as_object().unwrap() {
            whole["spec"][key] = value.clone();
        }
        serde_json::from_value(whole).unwrap()
    }

    fn earlier(path: &str) -> Leftover {
        let entry = PreviousName {
            owner: Some("VaultPolicy team-a/app".to_owned()),
            ..PreviousName::default()
        };
        Leftover::of(&policy(), &entry, &Place::parse(path).unwrap(), "gone")
    }

    #[rstest]
    #[case::policy("sys/policies/acl/vao.k.team-a.app", "policy")]
    #[case::role("auth/eu/kubernetes/role/r", "role")]
    #[case::seed("secret/metadata/team-a/seed", "secret")]
    fn a_recorded_path_reads_back(#[case] path: &str, #[case] word: &str) {
        let site = Site::parse(path).unwrap();
        assert_eq!((&*site.to_string(), site.word()), (path, word));
    }

    #[rstest]
    #[case("secret/data/team-a/seed")]
    #[case("secret/metadata/")]
    #[case("auth/kubernetes/config")]
    #[case("")]
    fn other_paths_are_no_sites(#[case] path: &str) {
        assert_eq!(Site::parse(path), None);
    }

    #[test]
    fn a_seed_is_left_with_its_metadata() {
        let site = Site::of_seed("secret/data/a/data/b").unwrap();
        assert_eq!(site.to_string(), "secret/metadata/a/data/b");
    }

    #[rstest]
    #[case::on_record(json!({"seeded": true, "seededVersion": 4}), Some(4))]
    #[case::announced_and_not_recorded(json!({"intent": {"kind": "create"}}), Some(1))]
    #[case::announced_again(json!({"seededVersion": 4, "intent": {"kind": "correct"}}), Some(4))]
    #[case::never(json!({}), None)]
    fn a_seed_is_known_by_the_version_we_wrote(#[case] status: Value, #[case] ours: Option<u64>) {
        assert_eq!(seeded(&serde_json::from_value(status).unwrap()), ours);
    }

    #[test]
    fn an_earlier_place_knows_its_object_and_no_address() {
        let left = earlier("sys/policies/acl/old");
        assert_eq!(
            (&*left.kind, &*left.resource),
            ("VaultPolicy", "team-a/app")
        );
        assert_eq!((&*left.connection, &left.address), ("gone", &None));
        assert_eq!(left.owner.as_deref(), Some("VaultPolicy team-a/app"));
        assert!(left.recorded);
    }

    #[test]
    fn a_namespace_is_kept_from_the_root_if_the_connection_is_known() {
        let parent = connection(json!({"vaultNamespace": "parent/"}));
        let unknown = earlier("sys/policies/acl/x");
        assert_eq!(unknown.namespace(&parent).as_deref(), Some("parent/child"));
        let known = unknown.over(Some(&parent), Some("child"));
        assert_eq!(known.vault_namespace.as_deref(), Some("parent/child"));
        let moved = connection(json!({"vaultNamespace": "elsewhere"}));
        assert_eq!(known.namespace(&moved).as_deref(), Some("parent/child"));
        assert_eq!(namespace(Some("/"), None), None);
    }

    #[test]
    fn a_connection_that_leads_elsewhere_is_told() {
        let left = earlier("sys/policies/acl/x");
        let other = connection(json!({"address": "https://other"}));
        assert!(left.is_behind(&other));
        let known = left.over(
            Some(&connection(json!({"address": "https://vault/"}))),
            None,
        );
        assert!(known.is_behind(&connection(json!({}))));
        assert!(!known.is_behind(&other));
    }

    #[test]
    fn one_thing_over_one_connection_has_one_record() {
        let name = |path: &str| earlier(path).record_name();
        assert_eq!(name("sys/policies/acl/App"), name("sys/policies/acl/app"));
        assert_ne!(name("sys/policies/acl/a"), name("sys/policies/acl/b"));
        let mut other = earlier("sys/policies/acl/a");
        other.connection = "another".to_owned();
        assert_ne!(other.record_name(), name("sys/policies/acl/a"));
        other.connection = "gone".to_owned();
        other.vault_namespace = None;
        assert_ne!(other.record_name(), name("sys/policies/acl/a"));
        assert_eq!(
            name("sys/policies/acl/a").len(),
            "vault-cleanup-".len() + 32
        );
    }
}
