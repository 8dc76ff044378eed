//! Requests that want something to themselves from their arrival to their answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

type Key = (&'static str, String);

/// What is taken right now, by service.
#[derive(Debug, Default)]
pub(crate) struct Underway(Arc<Mutex<BTreeSet<Key>>>);

/// Holds what was taken; dropping it gives it back, also when the client has gone away.
#[derive(Debug)]
pub(crate) struct Alone {
    taken: Arc<Mutex<BTreeSet<Key>>>,
    key: Key,
}

impl Underway {
    /// Takes `what`, unless another request has it.
    pub(crate) fn take(&self, service: &'static str, what: &str) -> Option<Alone> {
        let key = (service, what.to_owned());
        self.0.lock().insert(key.clone()).then(|| Alone {
            taken: Arc::clone(&self.0),
            key,
        })
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.taken.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_taken_once_until_it_is_given_back() {
        let underway = Underway::default();
        let first = underway.take("dns", "Z1");
        assert!(first.is_some());
        assert!(underway.take("dns", "Z1").is_none());
        assert!(underway.take("dns", "Z2").is_some());
        drop(first);
        assert!(underway.take("dns", "Z1").is_some());
    }
}
