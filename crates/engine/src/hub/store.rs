//! The objects of one watch, their indices, and the stream of their changes.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use kernel::ObjectKey;
use parking_lot::RwLock;
use tokio::sync::broadcast;

use crate::stored::Stored;

/// Changes a reader may be behind before it must look at everything again. Each watch allocates the
/// slots at once, 40 bytes each.
const BACKLOG: usize = 256;

/// What a reader of a watch is told.
#[derive(Debug, Clone)]
pub enum Change {
    /// It is there, or changed.
    Apply(Arc<Stored>),
    /// It is gone; this is how it was last seen.
    Delete(Arc<Stored>),
    /// All that existed has been delivered.
    Synced,
    /// Changes were missed: look at all that [`Store`] holds.
    Resync,
}

/// Finds objects by something other than their name.
#[derive(Clone)]
pub struct Index {
    name: &'static str,
    values: Arc<dyn Fn(&Stored) -> Vec<String> + Send + Sync>,
}

impl Index {
    /// The name of [`Index::owner`].
    pub const OWNER: &str = "metadata.ownerReferences.uid";

    /// By whatever `values` says of an object. Stores are shared by features, so begin the name with
    /// the feature's.
    pub fn by(
        name: &'static str,
        values: impl Fn(&Stored) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            values: Arc::new(values),
        }
    }

    /// What it says of `object`. One that panics says nothing, and the watch goes on.
    fn of(&self, object: &Stored) -> Vec<String> {
        let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (self.values)(object)));
        said.unwrap_or_else(|_| {
            tracing::error!(index = self.name, object = %object.key(), "index panicked");
            Vec::new()
        })
    }

    /// By the UIDs of its owners.
    pub fn owner() -> Self {
        Self::by(Self::OWNER, |object| {
            let owners = object.metadata().owner_references.unwrap_or_default();
            owners.into_iter().map(|owner| owner.uid).collect()
        })
    }

    /// By the value of one label.
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
    /// UIDs of objects that our own write has let go, until the watch has seen them go.
    released: HashMap<ObjectKey, Box<str>>,
    synced: bool,
    bytes: usize,
}

/// What one watch holds. Shared by its readers; written by the watch and by our own writes.
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
    /// The object of this name, as last seen.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Stored>> {
        self.inner.read().objects.get(key).cloned()
    }

    /// All objects, in no order.
    pub fn all(&self) -> Vec<Arc<Stored>> {
        self.inner.read().objects.values().cloned().collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.inner.read().objects.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether all that existed at the start has been read.
    pub fn is_synced(&self) -> bool {
        self.inner.read().synced
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.inner.read().bytes
    }

    /// Keeps `index` from now on; an index of the same name is kept once.
    pub fn index(&self, index: Index) {
        let mut inner = self.inner.write();
        if inner
            .indices
            .iter()
            .any(|(known, _)| known.name == index.name)
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

    /// The objects an index has under `value`, by name.
    pub fn by(&self, index: &str, value: &str) -> Vec<Arc<Stored>> {
        let inner = self.inner.read();
        let found = inner.indices.iter().find(|(known, _)| known.name == index);
        let keys = found
            .and_then(|(_, values)| values.get(value))
            .into_iter()
            .flatten();
        keys.filter_map(|key| inner.objects.get(key).cloned())
            .collect()
    }

    /// Every value that an index has objects under, in order.
    pub fn values(&self, index: &str) -> Vec<String> {
        let inner = self.inner.read();
        let found = inner.indices.iter().find(|(known, _)| known.name == index);
        let values = found.into_iter().flat_map(|(_, values)| values);
        let taken = values.filter(|(_, keys)| !keys.is_empty());
        let mut values: Vec<_> = taken.map(|(value, _)| value.clone()).collect();
        values.sort();
        values
    }

    /// A reader's start: what is there now, whether that is all, and every change after it.
    pub(super) fn read(&self) -> (Vec<Arc<Stored>>, bool, broadcast::Receiver<Change>) {
        let inner = self.inner.read(); // no change can pass between the snapshot and the subscription
        let now = inner.objects.values().cloned().collect();
        (now, inner.synced, self.changes.subscribe())
    }

    /// Takes in `object` unless what is held is as new.
    pub(super) fn apply(&self, object: Stored) {
        let mut inner = self.inner.write();
        if inner.is_released(&object) {
            return;
        }
        let known = inner.objects.get(object.key());
        if known.is_none_or(|held| supersedes(&object, held)) {
            inner.insert(Arc::new(object), &self.changes);
        }
    }

    /// Takes in the answer to a write of our own, so that no pass starts from an older object.
    /// An object the watch does not know, or knows to be another, is left to the watch.
    pub fn learn(&self, object: Stored) -> Arc<Stored> {
        let mut inner = self.inner.write();
        let object = Arc::new(object);
        if let Some(held) = inner.objects.get(object.key())
            && held.uid() == object.uid()
            && supersedes(&object, held)
        {
            inner.insert(object.clone(), &self.changes);
        }
        object
    }

    /// Drops an object that our own write has let go: no pass starts from what the watch has yet to
    /// see go.
    pub(crate) fn release(&self, object: &Stored) {
        let mut inner = self.inner.write();
        let held = inner.objects.get(object.key());
        if held.is_some_and(|held| held.uid() == object.uid()) {
            let (key, uid) = (object.key(), object.uid());
            inner.released.insert(key.clone(), uid.into());
            inner.remove(key, &self.changes);
        }
    }

    /// The watch saw it go.
    pub(super) fn delete(&self, key: &ObjectKey) {
        let mut inner = self.inner.write();
        inner.released.remove(key);
        inner.remove(key, &self.changes);
    }

    /// The kind is gone: all its objects went with it.
    pub(super) fn clear(&self) {
        let mut inner = self.inner.write();
        let keys: Vec<_> = inner.objects.keys().cloned().collect();
        for key in keys {
            inner.remove(&key, &self.changes);
        }
        inner.released.clear();
        inner.synced = false;
    }

    /// The watch listed everything: what is not in `fresh` went while nobody looked. An older object
    /// is taken only if `restored`: the server itself went back to an older state.
    pub(super) fn replace(&self, fresh: HashMap<ObjectKey, Stored>, restored: bool) {
        let mut inner = self.inner.write();
        let gone: Vec<_> = inner
            .objects
            .keys()
            .filter(|key| !fresh.contains_key(*key))
            .cloned()
            .collect();
        for key in gone {
            inner.remove(&key, &self.changes);
        }
        inner
            .released
            .retain(|key, _| fresh.contains_key(key) && !restored);
        for object in fresh.into_values() {
            if inner.is_released(&object) {
                continue;
            }
            let known = inner.objects.get(object.key());
            let is_news = |held: &Arc<Stored>| {
                supersedes(&object, held) || (restored && object.version() != held.version())
            };
            if known.is_none_or(is_news) {
                inner.insert(Arc::new(object), &self.changes);
            }
        }
        if !std::mem::replace(&mut inner.synced, true) {
            self.changes.send(Change::Synced).ok();
        }
    }
}

/// Whether `object` is another or a newer one than `held`. Versions that are no numbers have no
/// order: then the order of arrival counts.
fn supersedes(object: &Stored, held: &Stored) -> bool {
    held.uid() != object.uid()
        || match (object.version(), held.version()) {
            (0, _) | (_, 0) => object.json() != held.json(),
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
        if let Some(held) = self.objects.insert(object.key().clone(), object.clone()) {
            self.bytes -= held.size();
            if held.uid() != object.uid() {
                changes.send(Change::Delete(held.clone())).ok(); // its namesake went unseen
            }
            self.unindex(&held);
        }
        for (index, values) in &mut self.indices {
            for value in index.of(&object) {
                values
                    .entry(value)
                    .or_default()
                    .insert(object.key().clone());
            }
        }
        changes.send(Change::Apply(object)).ok(); // no reader is no error
    }

    fn remove(&mut self, key: &ObjectKey, changes: &broadcast::Sender<Change>) {
        if let Some(held) = self.objects.remove(key) {
            self.bytes -= held.size();
            self.unindex(&held);
            changes.send(Change::Delete(held)).ok();
        }
    }

    fn unindex(&mut self, held: &Stored) {
        for (index, values) in &mut self.indices {
            for value in index.of(held) {
                if let Some(keys) = values.get_mut(&value) {
                    keys.remove(held.key());
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

    fn told(reader: &mut broadcast::Receiver<Change>) -> Vec<String> {
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
    fn after_a_restore_older_objects_are_taken() {
        let store = Store::default();
        store.apply(object("n", "u", 7, "o"));
        let (_, _, mut reader) = store.read();
        store.replace(by_key([object("n", "u", 5, "o")]), false);
        assert_eq!(told(&mut reader), ["synced"]);
        store.replace(by_key([object("n", "u", 5, "o")]), true);
        store.replace(by_key([object("n", "u", 5, "o")]), true);
        assert_eq!(told(&mut reader), ["+n@5"]);
    }

    #[test]
    fn a_version_that_is_no_number_counts_by_arrival() {
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
        assert_eq!(told(&mut reader).len(), 2);
        let held = store.get(&ObjectKey::cluster("n")).unwrap();
        assert_eq!(held.resource_version(), "a9");
    }

    #[test]
    fn an_older_object_never_replaces_a_newer_one() {
        let store = Store::default();
        let (_, _, mut reader) = store.read();
        store.apply(object("n", "u", 5, "o"));
        store.apply(object("n", "u", 5, "o"));
        store.apply(object("n", "u", 4, "o"));
        assert_eq!(told(&mut reader), ["+n@5"]);
    }

    #[test]
    fn a_relist_delivers_what_went_meanwhile() {
        let store = Store::default();
        store.apply(object("kept", "1", 1, "o"));
        store.apply(object("gone", "2", 2, "o"));
        let (_, _, mut reader) = store.read();
        let fresh = [object("kept", "1", 1, "o"), object("new", "3", 9, "o")];
        store.replace(by_key(fresh), false);
        assert_eq!(told(&mut reader), ["-gone@2", "+new@9", "synced"]);
    }

    #[test]
    fn a_namesake_is_a_deletion_and_a_new_object() {
        let store = Store::default();
        store.apply(object("n", "1", 1, "o"));
        let (_, _, mut reader) = store.read();
        store.apply(object("n", "2", 7, "o"));
        assert_eq!(told(&mut reader), ["-n@1", "+n@7"]);
    }

    #[test]
    fn our_own_write_is_learned_but_never_brings_the_dead_back() {
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
    fn what_our_write_let_go_is_gone_before_the_watch_sees_it() {
        let store = Store::default();
        store.apply(object("n", "1", 1, "o"));
        let (_, _, mut reader) = store.read();
        store.release(&object("n", "1", 1, "o"));
        assert_eq!(told(&mut reader), ["-n@1"]);
        store.apply(object("n", "1", 2, "o")); // a change from before it went
        let late = object("n", "1", 2, "o");
        store.replace(HashMap::from([(late.key().clone(), late)]), false);
        assert!(store.is_empty());
        store.delete(&ObjectKey::namespaced("a", "n"));
        assert_eq!(told(&mut reader), ["synced"]);
    }

    #[test]
    fn what_a_restore_brings_back_is_there_again() {
        let store = Store::default();
        store.apply(object("n", "1", 5, "o"));
        store.release(&object("n", "1", 5, "o"));
        let back = object("n", "1", 1, "o");
        store.replace(HashMap::from([(back.key().clone(), back)]), true);
        assert!(!store.is_empty());
    }

    #[test]
    fn a_namesake_of_what_our_write_let_go_is_told_of() {
        let store = Store::default();
        store.apply(object("n", "1", 1, "o"));
        store.release(&object("n", "1", 1, "o"));
        store.delete(&ObjectKey::namespaced("a", "n"));
        store.apply(object("n", "2", 5, "o"));
        store.release(&object("n", "1", 1, "o"));
        assert_eq!(store.len(), 1, "another object is not ours to drop");
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
    fn memory_is_counted_in_and_out() {
        let store = Store::default();
        store.apply(object("n", "1", 1, "o"));
        store.apply(object("n", "1", 2, "longer-owner"));
        assert!(store.bytes() > 100);
        store.delete(&ObjectKey::namespaced("a", "n"));
        assert_eq!(store.bytes(), 0);
    }
}
