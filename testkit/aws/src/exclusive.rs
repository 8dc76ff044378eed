//! Requests that use a resource exclusively from their arrival to their answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

type Key = (&'static str, String);

/// The resources in exclusive use, by service.
#[derive(Debug, Default)]
pub(crate) struct ExclusiveResources(Arc<Mutex<BTreeSet<Key>>>);

/// The exclusive use of a resource; dropping it ends the use, also if the client has gone.
#[derive(Debug)]
pub(crate) struct ExclusiveUse {
    in_use: Arc<Mutex<BTreeSet<Key>>>,
    key: Key,
}

impl ExclusiveResources {
    /// Starts the use of `what`, unless another request uses it.
    pub(crate) fn take(&self, service: &'static str, what: &str) -> Option<ExclusiveUse> {
        let key = (service, what.to_owned());
        self.0.lock().insert(key.clone()).then(|| ExclusiveUse {
            in_use: Arc::clone(&self.0),
            key,
        })
    }
}

impl Drop for ExclusiveUse {
    fn drop(&mut self) {
        self.in_use.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_has_one_exclusive_use_at_a_time() {
        let exclusive = ExclusiveResources::default();
        let first = exclusive.take("dns", "Z1");
        assert!(first.is_some());
        assert!(exclusive.take("dns", "Z1").is_none());
        assert!(exclusive.take("dns", "Z2").is_some());
        drop(first);
        assert!(exclusive.take("dns", "Z1").is_some());
    }
}
