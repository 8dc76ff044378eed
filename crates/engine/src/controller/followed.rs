//! Which objects a change of a followed object affects. Pure, except for the memory of earlier changes.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use kernel::ObjectKey;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::hub::{Cache, WatchKey};
use crate::stored::Stored;

type Map = Arc<dyn Fn(&Stored) -> Vec<ObjectKey> + Send + Sync>;
type Filter = Arc<dyn Fn(&Stored) -> u64 + Send + Sync>;

/// Which objects a controller follows besides its own, and which of its objects they affect.
///
/// A change of a followed object wakes the objects that `map` names, unless it is the echo of a write
/// by their own pass. UIDs tell the echoes of several clusters apart.
#[derive(Clone)]
pub struct FollowSpec {
    pub(super) key: WatchKey,
    map: Map,
    /// A hash of the relevant fields of a followed object. Without it, every version counts.
    filter: Option<Filter>,
    /// Whether a change also affects the objects that the followed object named before.
    has_references: bool,
}

impl FollowSpec {
    /// Follows the objects of `key`. A change or deletion of one affects the objects that `map` names.
    pub fn new(
        key: WatchKey,
        map: impl Fn(&Stored) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        Self {
            key,
            map: Arc::new(map),
            filter: None,
            has_references: false,
        }
    }

    /// Counts only the changes that change the value of `relevant`.
    #[must_use]
    pub fn when_changed<T: Hash>(
        self,
        relevant: impl Fn(&Stored) -> T + Send + Sync + 'static,
    ) -> Self {
        let filter = move |object: &Stored| {
            let mut hasher = DefaultHasher::new();
            relevant(object).hash(&mut hasher);
            hasher.finish()
        };
        Self {
            filter: Some(Arc::new(filter)),
            ..self
        }
    }

    /// Takes `map` for the references of a followed object: when they change, the objects that it named
    /// before are affected too.
    #[must_use]
    pub fn with_references(self) -> Self {
        Self {
            has_references: true,
            ..self
        }
    }

    /// Whether the result of a change depends on earlier changes.
    pub(super) fn has_memory(&self) -> bool {
        self.filter.is_some() || self.has_references
    }
}

/// A follower that was added while its controller runs. It ends when this value is dropped, when the
/// controller ends, or when the followed cluster is closed.
#[must_use = "the follower ends when this is dropped"]
pub struct Following {
    cache: Cache,
    _end: DropGuard,
}

impl Following {
    pub(super) fn new(cache: Cache, end: CancellationToken) -> Self {
        Self {
            cache,
            _end: end.drop_guard(),
        }
    }

    /// The followed objects. Passes do not wait for this cache: they must check that it is settled
    /// before they take an object for absent.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }
}

/// What a controller last saw of each followed object.
#[derive(Default)]
pub(super) struct LastSeen {
    hashes: HashMap<ObjectKey, u64>,
    references: HashMap<ObjectKey, Vec<ObjectKey>>,
}

impl LastSeen {
    /// The objects that an applied object affects.
    pub(super) fn applied(&mut self, object: &Stored, following: &FollowSpec) -> Vec<ObjectKey> {
        if let Some(filter) = &following.filter {
            let hash = filter(object);
            if self.hashes.insert(object.key().clone(), hash) == Some(hash) {
                return Vec::new();
            }
        }
        let named = (following.map)(object);
        if !following.has_references {
            return named;
        }
        let before = self.references.insert(object.key().clone(), named.clone());
        merged(named, before.unwrap_or_default())
    }

    /// The objects that a deleted object affects.
    pub(super) fn deleted(&mut self, object: &Stored, following: &FollowSpec) -> Vec<ObjectKey> {
        self.hashes.remove(object.key());
        let before = self.references.remove(object.key());
        merged((following.map)(object), before.unwrap_or_default())
    }

    /// Forgets the hashes after changes were missed: the next change of each object counts. References
    /// stay.
    pub(super) fn clear(&mut self) {
        self.hashes.clear();
    }
}

fn merged(mut keys: Vec<ObjectKey>, before: Vec<ObjectKey>) -> Vec<ObjectKey> {
    keys.extend(before);
    keys.sort();
    keys.dedup();
    keys
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};

    use super::*;
    use crate::{Kind, Projection};

    /// The ConfigMap `n` with this data.
    fn object(data: &Value) -> Stored {
        let text = json!({"metadata": {"name": "n", "namespace": "a"}, "data": data}).to_string();
        Stored::read(&Kind::of::<ConfigMap>(), &text, &Projection::Full).unwrap()
    }

    fn field(object: &Stored, name: &str) -> Option<String> {
        let value: Value = serde_json::from_str(object.json()).unwrap();
        value["data"][name].as_str().map(str::to_owned)
    }

    /// Affects the object that the field `refers` names.
    fn following() -> FollowSpec {
        FollowSpec::new(WatchKey::all(Kind::of::<ConfigMap>()), |object| {
            let refers = field(object, "refers");
            refers.map(|name| key(&name)).into_iter().collect()
        })
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("a", name)
    }

    #[test]
    fn only_relevant_fields_count() {
        let following = following().when_changed(|object| field(object, "size"));
        let mut seen = LastSeen::default();
        let small = object(&json!({"refers": "x", "size": "1", "other": "a"}));
        assert_eq!(seen.applied(&small, &following), [key("x")]);
        let same = object(&json!({"refers": "x", "size": "1", "other": "b"}));
        assert_eq!(seen.applied(&same, &following), []);
        let large = object(&json!({"refers": "x", "size": "2"}));
        assert_eq!(seen.applied(&large, &following), [key("x")]);
        assert_eq!(seen.deleted(&large, &following), [key("x")]);
        assert_eq!(seen.applied(&large, &following), [key("x")]);
        seen.clear();
        assert_eq!(seen.applied(&large, &following), [key("x")]);
    }

    #[test]
    fn a_changed_reference_affects_both_objects() {
        let following = following().with_references();
        let mut seen = LastSeen::default();
        let to = |name: &str| object(&json!({"refers": name}));
        assert_eq!(seen.applied(&to("x"), &following), [key("x")]);
        assert_eq!(seen.applied(&to("y"), &following), [key("x"), key("y")]);
        assert_eq!(seen.applied(&to("y"), &following), [key("y")]);
        let without = object(&json!({}));
        assert_eq!(seen.applied(&without, &following), [key("y")]);
        assert_eq!(seen.applied(&without, &following), []);
    }
}
