//! Values that all features of one process share.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

/// The shared values of one process, one for each type. A clone has the same values. The engine knows
/// none of the types.
#[derive(Clone, Default)]
pub struct SharedValues(Arc<Values>);

#[derive(Default)]
struct Values {
    /// The `Arc<Cell<T>>` of each type `T`.
    cells: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    /// By name, the lock that the running one of the tasks of this name holds.
    turns: Mutex<HashMap<&'static str, Arc<tokio::sync::Mutex<()>>>>,
}

/// The shared value of one type, which is made on first use. A clone is the same value.
///
/// # When not to use it
/// For a value of one feature, or for one that depends on the feature: the first user makes it for all.
pub struct Shared<T>(Arc<Cell<T>>);

struct Cell<T> {
    value: OnceLock<T>,
    /// Held by the caller that makes the value.
    making: tokio::sync::Mutex<()>,
}

impl SharedValues {
    /// The value of type `T`. This makes nothing.
    pub fn of<T: Send + Sync + 'static>(&self) -> Shared<T> {
        let mut cells = self.0.cells.lock();
        let cell = cells.entry(TypeId::of::<T>()).or_insert_with(|| {
            Arc::new(Cell::<T> {
                value: OnceLock::new(),
                making: tokio::sync::Mutex::default(),
            })
        });
        let cell = Arc::clone(cell).downcast();
        Shared(cell.expect("the cell of a type is stored under its id"))
    }

    /// The lock that the running one of the tasks of this name holds.
    pub(crate) fn lock_of(&self, name: &'static str) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(self.0.turns.lock().entry(name).or_default())
    }
}

impl<T> Shared<T> {
    /// The value, if it has been made.
    pub fn get(&self) -> Option<&T> {
        self.0.value.get()
    }

    /// The value. The first caller makes it with `init`; concurrent callers wait for that. If the first
    /// caller is dropped or panics meanwhile, the next one makes it.
    pub async fn get_or_init<F>(&self, init: impl FnOnce() -> F) -> &T
    where
        F: Future<Output = T>,
    {
        if let Some(value) = self.get() {
            return value;
        }
        let _making = self.0.making.lock().await;
        if let Some(value) = self.get() {
            return value;
        }
        let value = init().await;
        self.0.value.get_or_init(|| value)
    }

    /// The same for a value that is made without waiting. `init` must not block.
    ///
    /// # When not to use it
    /// Beside [`Shared::get_or_init`] for the same type: of two values made at once one is dropped.
    pub fn get_or_make(&self, init: impl FnOnce() -> T) -> &T {
        self.0.value.get_or_init(init)
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use futures::future::join;

    use super::*;

    #[test]
    fn each_type_has_one_value() {
        let values = SharedValues::default();
        assert_eq!(*values.of::<u8>().get_or_make(|| 1), 1);
        assert_eq!(*values.of::<u16>().get_or_make(|| 2), 2);
        let clone = values.clone();
        assert_eq!(*clone.of::<u8>().get_or_make(|| 3), 1);
        assert_eq!(SharedValues::default().of::<u8>().get(), None);
    }

    #[test]
    fn a_value_is_made_on_first_use_only() {
        let value = SharedValues::default().of::<u8>();
        assert_eq!(value.get(), None);
        value.get_or_make(|| 1);
        assert_eq!(value.get(), Some(&1));
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_users_share_one_initialisation() {
        let values = SharedValues::default();
        let count = AtomicUsize::new(0);
        let make = async || {
            tokio::time::sleep(Duration::from_secs(1)).await;
            count.fetch_add(1, Ordering::Relaxed)
        };
        let (one, other) = (values.of::<usize>(), values.of::<usize>());
        let (first, second) = join(one.get_or_init(make), other.get_or_init(make)).await;
        assert_eq!((first, second), (&0, &0));
        assert_eq!(count.into_inner(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_initialisation_is_begun_again() {
        let value = SharedValues::default().of::<u8>();
        let never = value.get_or_init(std::future::pending);
        let dropped = tokio::time::timeout(Duration::from_secs(1), never).await;
        assert!(dropped.is_err());
        assert_eq!(*value.get_or_init(async || 2).await, 2);
    }
}
