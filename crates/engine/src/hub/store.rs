//! The objects of one watch, their indices, and the stream of their changes.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use kernel::ObjectKey;
use parking_lot::RwLock;
use tokio::sync::broadcast;

use crate::stored::Stored;

/// How many changes a reader may be behind. Beyond that it must read all objects again. Each watch
/// allocates this many slots of 40 bytes.
const BACKLOG: usize = 256;

/// What a reader of a watch receives.
#[derive(Debug, Clone)]
pub enum Change {
    /// The object exists or has changed.
    Apply(Arc<Stored>),
    /// The object was deleted. This is its last seen state.
    Delete(Arc<Stored>),
    /// The reader has received all objects that existed.
    Synced,
    /// The reader has missed changes, and must read all objects of the [`Store`].
    Resync,
}

/// Finds objects by values other than their name.
#[derive(Clone)]
pub struct Index {
    name: &'static str,
    values: Arc<dyn Fn(&Stored) -> Vec<String> + Send + Sync>,
}

impl Index {
    /// The name of [`Index::owner`].
    pub const OWNER: &str = "metadata.ownerReferences.uid";

    /// An index of the values that `values` returns for an object. Features share stores, so the name
    /// must begin with the feature's name.
    pub fn by(
        name: &'static str,
        values: impl Fn(&Stored) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            values: Arc::new(values),
        }
    }

    /// The values of `object`; none if the index function panics, so that the watch continues.
    fn of(&self, object: &Stored) -> Vec<String> {
        let values = std::panic::AssertUnwindSafe(|| (self.values)(object));
        std::panic::catch_unwind(values).unwrap_or_else(|_| {
            tracing::error!(index = self.name, object = %object.key(), "index panicked");
            Vec::new()
        })
    }

    /// An index of the UIDs of an object's owners.
    pub fn owner() -> Self {
        Self::by(Self::OWNER, |object| {
            let owners = object.metadata().owner_references.unwrap_or_default();
            owners.into_iter().map(|owner| owner.uid).collect()
        })
    }

    /// An index of the values of one label.
    pub fn label(label: &'static str) -> Self {
        Self::by(label, move |object| {
            let labels = object.metadata().labels.unwrap_or_default();
            labels.get(label).cloned().into_iter().collect()
        })
    }
}

#[derive(Default)]
struct Inner {
    objects: HashMap<ObjectKey, Arc<Stored>>,
    indices: Vec<(Index, HashMap<String, BTreeSet<ObjectKey>>)>,
    /// UIDs of objects whose last finalizer we removed, until the watch shows their deletion.
    released: HashMap<ObjectKey, Box<str>>,
    synced: bool,
    bytes: usize,
}

/// The cached objects of one watch. Readers share it. The watch and our own writes change it.
pub struct Store {
    inner: RwLock<Inner>,
    changes: broadcast::Sender<Change>,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            inner: RwLock::default(),
            changes: broadcast::channel(BACKLOG).0,
        }
    }
}

impl Store {
    /// The last seen state of the object with this name.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Stored>> {
        self.inner.read().objects.get(key).cloned()
    }

    /// All objects, in no order.
    pub fn all(&self) -> Vec<Arc<Stored>> {
        self.inner.read().objects.values().cloned().collect()
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.inner.read().objects.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the list of existing objects is complete.
    pub fn is_synced(&self) -> bool {
        self.inner.read().synced
    }

    /// The memory of the objects in bytes.
    pub fn bytes(&self) -> usize {
        self.inner.read().bytes
    }

    /// Adds an index. Does nothing if there is one of the same name.
    pub fn index(&self, index: Index) {
        let mut inner = self.inner.write();
        if inner
            .indices
            .iter()
            .any(|(other, _)| other.name == index.name)
        {
            return;
        }
        let mut values: HashMap<String, BTreeSet<ObjectKey>> = HashMap::new();
        for object in inner.objects.values() {
            for value in index.of(object) {
                values
                    .entry(value)
                    .or_default()
                    .insert(object.key().clone());
            }
        }
        inner.indices.push((index, values));
    }

    /// The objects that have `value` in an index, sorted by name.
    pub fn by(&self, index: &str, value: &str) -> Vec<Arc<Stored>> {
        let inner = self.inner.read();
        let found = inner.indices.iter().find(|(one, _)| one.name == index);
        let keys = found
            .and_then(|(_, values)| values.get(value))
            .into_iter()
            .flatten();
        keys.filter_map(|key| inner.objects.get(key).cloned())
            .collect()
    }

    /// The values of an index that have objects, sorted.
    pub fn values(&self, index: &str) -> Vec<String> {
        let inner = self.inner.read();
        let found = inner.indices.iter().find(|(one, _)| one.name == index);
        let values = found.into_iter().flat_map(|(_, values)| values);
        let used = values.filter(|(_, keys)| !keys.is_empty());
        let mut values: Vec<_> = used.map(|(value, _)| value.clone()).collect();
        values.sort();
        values
    }

    /// The current objects, whether their list is complete, and a receiver of all later changes.
    pub(super) fn read(&self) -> (Vec<Arc<Stored>>, bool, broadcast::Receiver<Change>) {
        let inner = self.inner.read(); // locked: no change is lost between snapshot and subscription
        let now = inner.objects.values().cloned().collect();
        (now, inner.synced, self.changes.subscribe())
    }

    /// Stores `object` unless the stored one is as new.
    pub(super) fn apply(&self, object: Stored) {
        let mut inner = self.inner.write();
        if inner.is_released(&object) {
            return;
        }
        let current = inner.objects.get(object.key());
        if current.is_none_or(|current| supersedes(&object, current)) {
            inner.insert(Arc::new(object), &self.changes);
        }
    }

    /// Stores the response to our own write, so that no pass starts from an older object. Ignores an
    /// object that is not in the store, or has another UID there: the watch brings it.
    pub fn learn(&self, object: Stored) -> Arc<Stored> {
        let mut inner = self.inner.write();
        let object = Arc::new(object);
        if let Some(current) = inner.objects.get(object.key())
            && current.uid() == object.uid()
            && supersedes(&object, current)
        {
            inner.insert(object.clone(), &self.changes);
        }
        object
    }

    /// Removes an object whose last finalizer we removed, so that no pass starts from it before the watch
    /// shows the deletion.
    pub(crate) fn release(&self, object: &Stored) {
        let mut inner = self.inner.write();
        let current = inner.objects.get(object.key());
        if current.is_some_and(|current| current.uid() == object.uid()) {
            let (key, uid) = (object.key(), object.uid());
            inner.released.insert(key.clone(), uid.into());
            inner.remove(key, &self.changes);
        }
    }

    /// Removes an object whose deletion the watch has shown.
    pub(super) fn delete(&self, key: &ObjectKey) {
        let mut inner = self.inner.write();
        inner.released.remove(key);
        inner.remove(key, &self.changes);
    }

    /// Removes all objects, because the kind is absent.
    pub(super) fn clear(&self) {
        let mut inner = self.inner.write();
        let keys: Vec<_> = inner.objects.keys().cloned().collect();
        for key in keys {
            inner.remove(&key, &self.changes);
        }
        inner.released.clear();
        inner.synced = false;
    }

    /// Drops all objects, because the watch has ended. They may still exist, so readers receive no deletions.
    pub(super) fn end(&self) {
        let mut inner = self.inner.write();
        let indices = std::mem::take(&mut inner.indices).into_iter();
        let indices = indices.map(|(index, _)| (index, HashMap::new())).collect();
        *inner = Inner {
            indices,
            ..Inner::default()
        };
    }

    /// Replaces the objects by a complete list. Removes those that are not in `fresh`. Accepts an older
    /// object only if `restored`: then the server itself has returned to an older state.
    pub(super) fn replace(&self, fresh: HashMap<ObjectKey, Stored>, restored: bool) {
        let mut inner = self.inner.write();
        let deleted: Vec<_> = inner
            .objects
            .keys()
            .filter(|key| !fresh.contains_key(*key))
            .cloned()
            .collect();
        for key in deleted {
            inner.remove(&key, &self.changes);
        }
        inner
            .released
            .retain(|key, _| fresh.contains_key(key) && !restored);
        for object in fresh.into_values() {
            if inner.is_released(&object) {
                continue;
            }
            let current = inner.objects.get(object.key());
            let differs = |current: &Arc<Stored>| {
                supersedes(&object, current) || (restored && object.version() != current.version())
            };
            if current.is_none_or(differs) {
                inner.insert(Arc::new(object), &self.changes);
            }
        }
        if !std::mem::replace(&mut inner.synced, true) {
            self.changes.send(Change::Synced).ok();
        }
    }
}

/// Whether `object` has another UID or a higher version than `current`. Versions that are no numbers
/// have no order: then the object that arrived last counts.
fn supersedes(object: &Stored, current: &Stored) -> bool {
    current.uid() != object.uid()
        || match (object.version(), current.version()) {
            (0, _) | (_, 0) => object.json() != current.json(),
            (newer, older) => newer > older,
        }
}

impl Inner {
    fn is_released(&self, object: &Stored) -> bool {
        let released = self.released.get(object.key());
        released.is_some_and(|uid| **uid == *object.uid())
    }

    fn insert(&mut self, object: Arc<Stored>, changes: &broadcast::Sender<Change>) {
        self.bytes += object.size();
        if let Some(previous) = self.objects.insert(object.key().clone(), object.clone()) {
            self.bytes -= previous.size();
            if previous.uid() != object.uid() {
                changes.send(Change::Delete(previous.clone())).ok(); // its deletion was missed
            }
            self.unindex(&previous);
        }
        for (index, values) in &mut self.indices {
            for value in index.of(&object) {
                values
                    .entry(value)
                    .or_default()
                    .insert(object.key().clone());
            }
        }
        changes.send(Change::Apply(object)).ok(); // fails without readers, which is fine
    }

    fn remove(&mut self, key: &ObjectKey, changes: &broadcast::Sender<Change>) {
        if let Some(removed) = self.objects.remove(key) {
            self.bytes -= removed.size();
            self.unindex(&removed);
            changes.send(Change::Delete(removed)).ok();
        }
    }

    fn unindex(&mut self, object: &Stored) {
        for (index, values) in &mut self.indices {
            for value in index.of(object) {
                if let Some(keys) = values.get_mut(&value) {
                    keys.remove(object.key());
                    if keys.is_empty() {
                        values.remove(&value);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Projection};
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    fn object(name: &str, uid: &str, version: u64, owner: &str) -> Stored {
        let json = json!({"metadata": {"name": name, "namespace": "a", "uid": uid,
            "resourceVersion": version.to_string(),
            "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": owner}]}});
        Stored::read(
            &Kind::of::<ConfigMap>(),
            &json.to_string(),
            &Projection::Full,
        )
        .unwrap()
    }

    fn received(reader: &mut broadcast::Receiver<Change>) -> Vec<String> {
        std::iter::from_fn(|| reader.try_recv().ok())
            .map(|change| match change {
                Change::Apply(object) => format!("+{}@{}", object.key().name, object.version()),
                Change::Delete(object) => format!("-{}@{}", object.key().name, object.version()),
                Change::Synced => "synced".into(),
                Change::Resync => "resync".into(),
            })
            .collect()
    }

    fn by_key<const N: usize>(objects: [Stored; N]) -> HashMap<ObjectKey, Stored> {
        objects.map(|object| (object.key().clone(), object)).into()
    }

    #[test]
    fn older_objects_are_accepted_after_a_restore() {
        let store = Store::default();
        store.apply(object("n", "u", 7, "o"));
        let (_, _, mut reader) = store.read();
        store.replace(by_key([object("n", "u", 5, "o")]), false);
        assert_eq!(received(&mut reader), ["synced"]);
        store.replace(by_key([object("n", "u", 5, "o")]), true);
        store.replace(by_key([object("n", "u", 5, "o")]), true);
        assert_eq!(received(&mut reader), ["+n@5"]);
    }

    #[test]
    fn versions_that_are_no_numbers_go_by_arrival() {
        let named = |version: &str| {
            let json = json!({"metadata": {"name": "n", "uid": "u", "resourceVersion": version}});
            let kind = Kind::of::<ConfigMap>();
            Stored::read(&kind, &json.to_string(), &Projection::Full).unwrap()
        };
        let store = Store::default();
        let (_, _, mut reader) = store.read();
        for version in ["b3", "b3", "a9"] {
            store.apply(named(version));
        }
        assert_eq!(received(&mut reader).len(), 2);
        let stored = store.get(&ObjectKey::cluster("n")).unwrap();
        assert_eq!(stored.resource_version(), "a9");
    }

    #[test]
    fn an_older_object_never_replaces_a_newer_one() {
        let store = Store::default();
        let (_, _, mut reader) = store.read();
        store.apply(object("n", "u", 5, "o"));
        store.apply(object("n", "u", 5, "o"));
        store.apply(object("n", "u", 4, "o"));
        assert_eq!(received(&mut reader), ["+n@5"]);
    }

    #[test]
    fn a_relist_delivers_missed_deletions() {
        let store = Store::default();
        store.apply(object("kept", "1", 1, "o"));
        store.apply(object("gone", "2", 2, "o"));
        let (_, _, mut reader) = store.read();
        let fresh = [object("kept", "1", 1, "o"), object("new", "3", 9, "o")];
        store.replace(by_key(fresh), false);
        assert_eq!(received(&mut reader), ["-gone@2", "+new@9", "synced"]);
    }

    #[test]
    fn a_namesake_is_a_deletion_and_a_new_object() {
        let store = Store::default();
        store.apply(object("n", "1", 1, "o"));
        let (_, _, mut reader) = store.read();
        store.apply(object("n", "2", 7, "o"));
        assert_eq!(received(&mut reader), ["-n@1", "+n@7"]);
    }

    #[test]
    fn our_own_write_is_stored_unless_the_object_is_deleted() {
        let store = Store::default();
        store.apply(object("n", "1", 1, "o"));
        store.learn(object("n", "1", 3, "o"));
        assert_eq!(
            store
                .get(&ObjectKey::namespaced("a", "n"))
                .unwrap()
                .version(),
            3
        );
        store.delete(&ObjectKey::namespaced("a", "n"));
        store.learn(object("n", "1", 4, "o"));
        assert!(store.is_empty());
    }

    #[test]
    fn a_released_object_is_removed_before_the_watch_shows_it() {
        let store = Store::default();
        store.apply(object("n", "1", 1, "o"));
        let (_, _, mut reader) = store.read();
        store.release(&object("n", "1", 1, "o"));
        assert_eq!(received(&mut reader), ["-n@1"]);
        store.apply(object("n", "1", 2, "o")); // a change from before its deletion
        let late = object("n", "1", 2, "o");
        store.replace(HashMap::from([(late.key().clone(), late)]), false);
        assert!(store.is_empty());
        store.delete(&ObjectKey::namespaced("a", "n"));
        assert_eq!(received(&mut reader), ["synced"]);
    }

    #[test]
    fn a_restore_brings_a_released_object_back() {
        let store = Store::default();
        store.apply(object("n", "1", 5, "o"));
        store.release(&object("n", "1", 5, "o"));
        let back = object("n", "1", 1, "o");
        store.replace(HashMap::from([(back.key().clone(), back)]), true);
        assert!(!store.is_empty());
    }

    #[test]
    fn a_namesake_of_a_released_object_is_stored() {
        let store = Store::default();
        store.apply(object("n", "1", 1, "o"));
        store.release(&object("n", "1", 1, "o"));
        store.delete(&ObjectKey::namespaced("a", "n"));
        store.apply(object("n", "2", 5, "o"));
        store.release(&object("n", "1", 1, "o"));
        assert_eq!(store.len(), 1, "the release is for another UID");
    }

    #[test]
    fn an_index_follows_its_objects() {
        let store = Store::default();
        store.apply(object("early", "1", 1, "o"));
        store.index(Index::owner());
        store.apply(object("late", "2", 2, "o"));
        let names = |owner: &str| -> Vec<_> {
            store
                .by(Index::OWNER, owner)
                .iter()
                .map(|o| o.key().name.to_string())
                .collect()
        };
        assert_eq!(names("o"), ["early", "late"]);
        assert_eq!(store.values(Index::OWNER), ["o"]);
        store.apply(object("late", "2", 3, "p"));
        store.delete(&ObjectKey::namespaced("a", "early"));
        assert_eq!((names("o"), names("p")), (vec![], vec!["late".to_owned()]));
        assert_eq!(store.values(Index::OWNER), ["p"]);
    }

    #[test]
    fn the_memory_of_deleted_objects_is_subtracted() {
        let store = Store::default();
        store.apply(object("n", "1", 1, "o"));
        store.apply(object("n", "1", 2, "longer-owner"));
        assert!(store.bytes() > 100);
        store.delete(&ObjectKey::namespaced("a", "n"));
        assert_eq!(store.bytes(), 0);
    }
}
