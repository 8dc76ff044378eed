//! A map with a capacity: the entry that was not used for the longest time is dropped first.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

#[derive(Debug)]
pub(super) struct Lru<K, V> {
    capacity: usize,
    uses: u64,
    entries: HashMap<K, (u64, V)>,
    by_use: BTreeMap<u64, K>,
}

impl<K: Clone + Eq + Hash, V> Lru<K, V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            uses: 0,
            entries: HashMap::new(),
            by_use: BTreeMap::new(),
        }
    }

    pub(super) fn get(&mut self, key: &K) -> Option<&V> {
        let (used, value) = self.entries.get_mut(key)?;
        self.by_use.remove(used);
        self.uses += 1;
        *used = self.uses;
        self.by_use.insert(self.uses, key.clone());
        Some(value)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        self.uses += 1;
        self.by_use.insert(self.uses, key.clone());
        if let Some((used, _)) = self.entries.insert(key, (self.uses, value)) {
            self.by_use.remove(&used);
        }
        if self.entries.len() > self.capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.entries.remove(&oldest);
        }
    }

    pub(super) fn remove(&mut self, key: &K) {
        if let Some((used, _)) = self.entries.remove(key) {
            self.by_use.remove(&used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_unused_for_the_longest_time_is_dropped() {
        let mut lru = Lru::new(2);
        lru.insert("a", 1);
        lru.insert("b", 2);
        assert_eq!(lru.get(&"a"), Some(&1));
        lru.insert("c", 3);
        assert_eq!(lru.get(&"a"), Some(&1));
        assert_eq!(lru.get(&"b"), None);
        assert_eq!(lru.get(&"c"), Some(&3));
        assert_eq!(lru.by_use.len(), lru.entries.len());
    }

    #[test]
    fn a_replaced_or_removed_entry_leaves_nothing() {
        let mut lru = Lru::new(2);
        lru.insert("a", 1);
        lru.insert("a", 2);
        assert_eq!(lru.get(&"a"), Some(&2));
        assert_eq!(lru.by_use.len(), 1);
        lru.remove(&"a");
        assert!(lru.by_use.is_empty() && lru.get(&"a").is_none());
    }
}
