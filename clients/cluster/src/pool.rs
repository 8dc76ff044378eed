//! One connection for all who use the same cluster.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;

use kernel::{CallError, Class};
use parking_lot::Mutex;

use crate::ConnectionKey;

/// Shared connections, or whatever else is made once a cluster. A clone is the same pool.
///
/// A value lives from its first user to its last: then it leaves the pool and is dropped, or given to the
/// last user ([`Pooled::release`]).
///
/// # Bounds
/// At most `limit` values at a time.
pub struct Pool<T, K = ConnectionKey> {
    shared: Arc<Shared<T, K>>,
}

struct Shared<T, K> {
    limit: usize,
    values: Mutex<HashMap<K, Used<T>>>,
}

/// A value in the pool. The pool and its users have the only references to it.
struct Used<T> {
    value: Arc<T>,
    users: usize,
}

/// How full a pool is, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolCounts {
    /// Values in use.
    pub values: usize,
    /// Users of all values together.
    pub users: usize,
    /// Values that there may be.
    pub limit: usize,
}

/// The pool has no room for another cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "there are connections to {limit} other clusters already; remove objects that use one of them, or \
     raise the limit"
)]
pub struct PoolFull {
    /// How many there may be.
    pub limit: usize,
}

impl From<PoolFull> for CallError {
    fn from(full: PoolFull) -> Self {
        Self::new(Class::LimitExceeded, full.to_string())
    }
}

/// The use of a value of a [`Pool`]. The value lives at least as long.
pub struct Pooled<T, K: Clone + Eq + Hash = ConnectionKey> {
    key: K,
    /// Absent only while it is given up.
    value: Option<Arc<T>>,
    shared: Arc<Shared<T, K>>,
}

impl<T, K: Clone + Eq + Hash> Pool<T, K> {
    /// An empty pool of at most `limit` values.
    pub fn new(limit: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                limit,
                values: Mutex::default(),
            }),
        }
    }

    /// The value of `key`, if somebody uses it.
    pub fn get(&self, key: &K) -> Option<Pooled<T, K>> {
        let mut values = self.shared.values.lock();
        let used = values.get_mut(key)?;
        Some(self.pooled(key.clone(), used))
    }

    /// The value of `key`, made by `make` if nobody uses one. Concurrent callers share one value.
    ///
    /// `make` runs while the pool is locked: it must be short, and must not use the pool.
    ///
    /// # Errors
    /// [`PoolFull`] if another value is one too many; `make` did not run. The error of `make`; nothing was
    /// added.
    pub fn get_or_insert<E: From<PoolFull>>(
        &self,
        key: K,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Pooled<T, K>, E> {
        let mut values = self.shared.values.lock();
        let (count, limit) = (values.len(), self.shared.limit);
        match values.entry(key.clone()) {
            Entry::Occupied(mut entry) => Ok(self.pooled(key, entry.get_mut())),
            Entry::Vacant(_) if count >= limit => Err(PoolFull { limit }.into()),
            Entry::Vacant(entry) => {
                let value = Arc::new(make()?);
                Ok(self.pooled(key, entry.insert(Used { value, users: 0 })))
            }
        }
    }

    /// How full it is.
    pub fn counts(&self) -> PoolCounts {
        let values = self.shared.values.lock();
        PoolCounts {
            values: values.len(),
            users: values.values().map(|used| used.users).sum(),
            limit: self.shared.limit,
        }
    }

    fn pooled(&self, key: K, used: &mut Used<T>) -> Pooled<T, K> {
        used.users += 1;
        Pooled {
            key,
            value: Some(Arc::clone(&used.value)),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T, K> Clone for Pool<T, K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T, K> fmt::Debug for Pool<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.shared.values.lock().len();
        write!(f, "Pool({values} of {})", self.shared.limit)
    }
}

impl<T, K: Clone + Eq + Hash> Pooled<T, K> {
    /// What the value is pooled by.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Ends this use. The last user gets the value, to close it in good order.
    pub fn release(mut self) -> Option<T> {
        self.give_up()
    }

    /// The value, if this was its last user. It is no longer in the pool then.
    fn give_up(&mut self) -> Option<T> {
        let value = self.value.take()?;
        let mut values = self.shared.values.lock();
        let Entry::Occupied(mut entry) = values.entry(self.key.clone()) else {
            return None;
        };
        entry.get_mut().users -= 1;
        if entry.get().users > 0 {
            // Under the lock: else the last user could find that it is not alone.
            drop(value);
            return None;
        }
        drop(entry.remove());
        drop(values);
        Arc::into_inner(value)
    }
}

impl<T, K: Clone + Eq + Hash> Deref for Pooled<T, K> {
    type Target = T;

    fn deref(&self) -> &T {
        let value = self.value.as_ref();
        value.expect("it is given up only by the methods that consume this")
    }
}

impl<T, K: Clone + Eq + Hash> Drop for Pooled<T, K> {
    fn drop(&mut self) {
        // Without the lock: closing a connection may take a while.
        drop(self.give_up());
    }
}

impl<T, K: Clone + Eq + Hash + fmt::Debug> fmt::Debug for Pooled<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pooled").field(&self.key).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;

    use super::*;

    type TestPool = Pool<Counted, u8>;

    static MADE: AtomicUsize = AtomicUsize::new(0);

    /// Counts the values that live.
    struct Counted {
        id: usize,
        living: Arc<AtomicUsize>,
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            self.living.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn make(living: &Arc<AtomicUsize>) -> Counted {
        living.fetch_add(1, Ordering::Relaxed);
        Counted {
            id: MADE.fetch_add(1, Ordering::Relaxed),
            living: living.clone(),
        }
    }

    /// A user of the value of `key`.
    fn user(
        pool: &TestPool,
        key: u8,
        living: &Arc<AtomicUsize>,
    ) -> Result<Pooled<Counted, u8>, PoolFull> {
        pool.get_or_insert(key, || Ok(make(living)))
    }

    fn counts(values: usize, users: usize) -> PoolCounts {
        PoolCounts {
            values,
            users,
            limit: 2,
        }
    }

    #[test]
    fn users_of_one_key_share_one_value() {
        let (pool, living) = (TestPool::new(2), Arc::default());
        let one = user(&pool, 1, &living).unwrap();
        let same = user(&pool, 1, &living).unwrap();
        let found = pool.get(&1).unwrap();
        assert_eq!((one.id, found.id), (same.id, one.id));
        assert_eq!(pool.counts(), counts(1, 3));
        assert!(pool.get(&2).is_none());
    }

    #[test]
    fn a_value_goes_with_its_last_user() {
        let (pool, living) = (TestPool::new(2), Arc::default());
        let one = user(&pool, 1, &living).unwrap();
        let two = pool.get(&1).unwrap();
        let id = one.id;
        drop(one);
        assert_eq!(living.load(Ordering::Relaxed), 1);
        drop(two);
        assert_eq!(living.load(Ordering::Relaxed), 0);
        assert_eq!(pool.counts(), counts(0, 0));
        let next = user(&pool, 1, &living).unwrap();
        assert_ne!(next.id, id);
    }

    #[test]
    fn only_the_last_user_gets_the_value() {
        let (pool, living) = (TestPool::new(2), Arc::default());
        let one = user(&pool, 1, &living).unwrap();
        let two = pool.get(&1).unwrap();
        assert!(one.release().is_none());
        let value = two.release().unwrap();
        assert_eq!(pool.counts(), counts(0, 0));
        assert_eq!(living.load(Ordering::Relaxed), 1);
        drop(value);
        assert_eq!(living.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_full_pool_refuses_a_new_cluster_and_serves_the_others() {
        let (pool, living) = (TestPool::new(2), Arc::default());
        let one = user(&pool, 1, &living).unwrap();
        let _two = user(&pool, 2, &living).unwrap();
        let refused = user(&pool, 3, &living).unwrap_err();
        assert_eq!(refused, PoolFull { limit: 2 });
        assert_eq!(living.load(Ordering::Relaxed), 2);
        assert!(user(&pool, 1, &living).is_ok());
        let error = CallError::from(refused);
        assert_eq!(error.class, Class::LimitExceeded);
        assert!(error.message.contains("raise the limit"), "{error}");
        drop(one);
        assert!(user(&pool, 3, &living).is_ok());
    }

    #[test]
    fn a_value_that_cannot_be_made_is_not_added() {
        let pool = TestPool::new(2);
        let failed = || Err(PoolFull { limit: 9 });
        assert_eq!(pool.get_or_insert(1, failed).unwrap_err().limit, 9);
        assert_eq!(pool.counts(), counts(0, 0));
    }

    #[test]
    fn concurrent_users_make_one_value_at_a_time() {
        let (pool, living) = (TestPool::new(2), Arc::<AtomicUsize>::default());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let used = user(&pool, 1, &living).unwrap();
                        // A value that was given up may still be on its way out in another thread.
                        assert!(used.living.load(Ordering::Relaxed) >= 1);
                        assert_eq!(pool.get(&1).unwrap().id, used.id);
                    }
                });
            }
        });
        assert_eq!(living.load(Ordering::Relaxed), 0);
        assert_eq!(pool.counts(), counts(0, 0));
    }

    proptest! {
        #[test]
        fn counts_follow_the_users(events in proptest::collection::vec((0..4_u8, any::<bool>()), 0..80)) {
            let (pool, living) = (TestPool::new(2), Arc::<AtomicUsize>::default());
            let mut users = Vec::new();
            for (key, begins) in events {
                if begins {
                    users.extend(user(&pool, key, &living));
                } else if let Some(at) = users.iter().position(|user: &Pooled<_, _>| *user.key() == key) {
                    users.swap_remove(at);
                }
                let mut keys: Vec<_> = users.iter().map(|user| *user.key()).collect();
                keys.sort_unstable();
                keys.dedup();
                prop_assert_eq!(pool.counts(), counts(keys.len(), users.len()));
                prop_assert_eq!(living.load(Ordering::Relaxed), keys.len());
            }
        }
    }
}
