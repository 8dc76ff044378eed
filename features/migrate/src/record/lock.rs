//! The lock of a StatefulSet: a ConfigMap in the namespaces of source and destination.
//!
//! Creating it is taking the lock. It also mirrors spec and journal of the migration, so that the
//! run can be continued or undone if the migration or its cluster is lost. It has no secrets.

mod decision;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use api::migrate::StatefulSetMigrationSpec;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::journal::{Journal, JournalTooLarge, check_size};
use super::{hashes, names};

pub use decision::{LockAction, LockGoal, next_action};

const HOLDER: &str = "holder";
const CLUSTER: &str = "managementCluster";
const OBJECT: &str = "object";
const STATE: &str = "state";
const SPEC: &str = "spec";
const JOURNAL: &str = "journal";

const ACTIVE: &str = "Active";
const RELEASED: &str = "Released";

/// Whose a lock is: one run of one migration in one management cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockIdentity {
    /// `status.runId`.
    pub run_id: String,
    /// The UID of the namespace kube-system in the cluster of the migration.
    pub cluster: String,
    /// The migration, as `<namespace>/<name>`.
    pub object: String,
}

/// Whether the run of a lock goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockPhase {
    /// It goes on, or may at any time.
    Active,
    /// It has ended. The lock stays for its journal and still excludes other runs.
    Released,
}

impl LockPhase {
    fn as_str(self) -> &'static str {
        match self {
            Self::Active => ACTIVE,
            Self::Released => RELEASED,
        }
    }
}

/// The lock as we write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// Whose it is.
    pub identity: LockIdentity,
    /// Whether the run goes on.
    pub phase: LockPhase,
    /// The spec of the migration, as JSON.
    pub spec: String,
    /// The journal, as JSON.
    pub journal: String,
}

impl Lock {
    /// The lock of a run with its mirror.
    pub fn of(
        identity: LockIdentity,
        phase: LockPhase,
        spec: &StatefulSetMigrationSpec,
        journal: &Journal,
    ) -> Result<Self, JournalTooLarge> {
        let journal = journal.render();
        check_size(&identity.object, journal.len())?;
        Ok(Self {
            identity,
            phase,
            spec: json!(spec).to_string(),
            journal,
        })
    }

    /// The ConfigMap, to be created.
    pub fn config_map(&self, namespace: &str, stateful_set: &str) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(names::lock_name(stateful_set)),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some(self.keys()),
            ..ConfigMap::default()
        }
    }

    /// The merge patch that rewrites the lock. The caller adds UID and resourceVersion.
    pub fn patch(&self) -> Value {
        json!({ "data": self.keys() })
    }

    /// The hash of all that it says; see [`StoredLock::content_sha256`].
    pub fn content_sha256(&self) -> String {
        StoredLock::parse(&self.config_map("", "")).content_sha256()
    }

    fn keys(&self) -> BTreeMap<String, String> {
        let LockIdentity {
            run_id,
            cluster,
            object,
        } = &self.identity;
        let keys = [
            (HOLDER, &**run_id),
            (CLUSTER, cluster),
            (OBJECT, object),
            (STATE, self.phase.as_str()),
            (SPEC, &self.spec),
            (JOURNAL, &self.journal),
        ];
        keys.map(|(key, text)| (key.to_owned(), text.to_owned()))
            .into()
    }
}

/// A lock as it was read. Somebody may have edited it: an absent key is an empty text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredLock {
    /// The id of its run.
    pub holder: String,
    /// The UID of the management cluster.
    pub cluster: String,
    /// The migration, as `<namespace>/<name>`.
    pub object: String,
    /// `Active` or `Released`.
    pub state: String,
    /// The spec of the migration.
    pub spec: String,
    /// The journal.
    pub journal: String,
}

impl StoredLock {
    /// The lock in a ConfigMap, whatever the ConfigMap contains.
    pub fn parse(map: &ConfigMap) -> Self {
        let text = |key: &str| {
            let text = map.data.as_ref().and_then(|keys| keys.get(key));
            text.map(|text| text.trim().to_owned()).unwrap_or_default()
        };
        Self {
            holder: text(HOLDER),
            cluster: text(CLUSTER),
            object: text(OBJECT),
            state: text(STATE),
            spec: text(SPEC),
            journal: text(JOURNAL),
        }
    }

    /// Whether its run has ended. Any state but `Released` counts as active, which is the safe one.
    pub fn phase(&self) -> LockPhase {
        if self.state == RELEASED {
            LockPhase::Released
        } else {
            LockPhase::Active
        }
    }

    /// The hash of all that it says. Equal hashes: the mirror is current.
    pub fn content_sha256(&self) -> String {
        let Self {
            holder,
            cluster,
            object,
            state,
            spec,
            journal,
        } = self;
        let content = json!([holder, cluster, object, state, spec, journal]);
        hashes::canonical_sha256(&content)
    }
}

/// Whose the lock under our name is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LockOwnership {
    /// There is none.
    #[default]
    Missing,
    /// It is of our run.
    Ours,
    /// It is of another run, or of our run in another place.
    Foreign(ForeignLock),
}

/// The owner of a foreign lock. Texts are empty if the lock does not have them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignLock {
    /// The id of its run.
    pub holder: String,
    /// The migration, as `<namespace>/<name>`.
    pub object: String,
    /// The UID of the management cluster.
    pub cluster: String,
}

impl fmt::Display for ForeignLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_unknown = |text: &'_ str| match text {
            "" => "(not named)".to_owned(),
            text => text.to_owned(),
        };
        write!(
            f,
            "run {} of StatefulSetMigration {} in the cluster with kube-system UID {}",
            or_unknown(&self.holder),
            or_unknown(&self.object),
            or_unknown(&self.cluster),
        )
    }
}

/// Whose a lock is.
///
/// | holder | object, cluster                | ownership |
/// |--------|--------------------------------|-----------|
/// | (none) |                                | missing   |
/// | ours   | each of them ours or absent    | ours      |
/// | ours   | one of them another            | foreign   |
/// | other  | any                            | foreign   |
/// | absent | any                            | foreign   |
///
/// With our holder and another object the run was restored from its journal elsewhere: a person
/// moved it there, and two controllers must not continue one run.
pub fn ownership(found: Option<&StoredLock>, ours: &LockIdentity) -> LockOwnership {
    let Some(found) = found else {
        return LockOwnership::Missing;
    };
    let agrees = |found: &str, ours: &str| found.is_empty() || found == ours;
    if found.holder == ours.run_id
        && agrees(&found.object, &ours.object)
        && agrees(&found.cluster, &ours.cluster)
    {
        return LockOwnership::Ours;
    }
    LockOwnership::Foreign(ForeignLock {
        holder: found.holder.clone(),
        object: found.object.clone(),
        cluster: found.cluster.clone(),
    })
}
