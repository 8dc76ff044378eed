//! What a pass wrote of other objects, so that its echo on a watch is no news to the same object.
//!
//! # Guarantees
//! - Only the object whose pass wrote is spared: other objects and controllers hear of the change.
//! - A change by others after our write has a later version, so it is always news.
//! # Limits
//! Writes are noticed on the pass's own task. One sent from another task only costs a pass more, and
//! does not count as a write of the pass.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;

use kernel::{Guard, ObjectKey};
use serde_json::Value;

tokio::task_local! {
    static WRITTEN: RefCell<Vec<Version>>;
}

/// One version of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) uid: Box<str>,
    pub(crate) number: u64,
}

impl Version {
    fn of(object: &Value) -> Option<Self> {
        let metadata = &object["metadata"];
        Some(Self {
            uid: metadata["uid"].as_str()?.into(),
            number: metadata["resourceVersion"].as_str()?.parse().ok()?,
        })
    }
}

/// What a pass wrote.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Writes {
    /// Other objects of this cluster that are wholly ours, as the pass left them.
    pub(crate) objects: Vec<Version>,
    /// Whether a guard let any write through, in this cluster or outside.
    pub(crate) any: bool,
}

/// Runs a pass and answers, beside how it ended, what it wrote.
pub(crate) async fn listen<T>(pass: impl Future<Output = T>) -> (T, Writes) {
    let mut pass = pin!(pass);
    let mut any = false;
    let listening = async {
        let ended = poll_fn(|context| {
            let before = Guard::allowed_on_this_thread();
            let polled = pass.as_mut().poll(context);
            any |= Guard::allowed_on_this_thread() != before;
            polled
        });
        let ended = ended.await;
        let objects = WRITTEN.with(RefCell::take);
        (ended, Writes { objects, any })
    };
    WRITTEN.scope(RefCell::default(), listening).await
}

/// Notes that the pass on this task left `object` as it is here.
pub(crate) fn wrote(object: &Value) {
    if let Some(version) = Version::of(object) {
        // Outside a pass nobody listens.
        let _ = WRITTEN.try_with(|written| keep(&mut written.borrow_mut(), version));
    }
}

/// Replaces an older version of the same object.
fn keep(versions: &mut Vec<Version>, version: Version) {
    versions.retain(|known| known.uid != version.uid);
    versions.push(version);
}

/// Tells echoes from news, for the objects of one controller.
#[derive(Debug, Default)]
pub(crate) struct Echoes {
    /// What an object's last pass wrote, until the watch has shown it.
    expected: HashMap<ObjectKey, Vec<Version>>,
    /// What the watch has shown while the object's pass was under way: its answers may be missing.
    early: HashMap<ObjectKey, Vec<Version>>,
}

impl Echoes {
    /// Keeps what was seen during a pass over `key` until it is known what that pass wrote.
    pub(crate) fn hold(&mut self, key: &ObjectKey, seen: Version) {
        keep(self.early.entry(key.clone()).or_default(), seen);
    }

    /// Whether what was seen, outside a pass over `key`, is its own write.
    pub(crate) fn is_echo(&mut self, key: &ObjectKey, seen: &Version) -> bool {
        let Some(expected) = self.expected.get_mut(key) else {
            return false;
        };
        let Some(at) = expected.iter().position(|known| known.uid == seen.uid) else {
            return false;
        };
        let number = expected[at].number;
        if seen.number >= number {
            expected.swap_remove(at);
            if expected.is_empty() {
                self.expected.remove(key);
            }
        }
        seen.number <= number
    }

    /// A pass over `key` has ended and wrote this; answers whether there was news during it.
    pub(crate) fn ended(&mut self, key: &ObjectKey, wrote: Vec<Version>) -> bool {
        if wrote.is_empty() {
            self.expected.remove(key);
        } else {
            self.expected.insert(key.clone(), wrote);
        }
        let early = self.early.remove(key).unwrap_or_default();
        early.iter().filter(|seen| !self.is_echo(key, seen)).count() > 0
    }

    /// `key` is gone.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        self.expected.remove(key);
        self.early.remove(key);
    }

    /// Passes were dropped and run again: nothing is expected of them.
    pub(crate) fn interrupted(&mut self) {
        self.expected.clear();
        self.early.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    fn version(uid: &str, number: u64) -> Version {
        Version {
            uid: uid.into(),
            number,
        }
    }

    fn key() -> ObjectKey {
        ObjectKey::namespaced("a", "owner")
    }

    #[tokio::test]
    async fn a_pass_is_told_what_it_wrote_last() {
        let object = |number: &str| json!({"metadata": {"uid": "u", "resourceVersion": number}});
        wrote(&object("1"));
        let pass = async {
            wrote(&object("2"));
            wrote(&object("3"));
            "ended"
        };
        let (ended, writes) = listen(pass).await;
        assert_eq!((ended, writes.objects), ("ended", vec![version("u", 3)]));
    }

    #[rstest]
    #[case::a_write(Guard::always(), true)]
    #[case::a_refused_write(Guard::held(), false)]
    #[tokio::test]
    async fn a_write_counts_wherever_it_goes(#[case] guard: Guard, #[case] expected: bool) {
        Guard::always().check().unwrap(); // not by the pass
        let pass = async {
            tokio::task::yield_now().await;
            guard.check().ok(); // as every client does
            tokio::task::yield_now().await;
        };
        assert_eq!(listen(pass).await.1.any, expected);
    }

    #[test]
    fn our_own_write_is_an_echo_once_and_what_follows_is_news() {
        let mut echoes = Echoes::default();
        assert!(!echoes.ended(&key(), vec![version("u", 5)]));
        assert!(echoes.is_echo(&key(), &version("u", 4)));
        assert!(echoes.is_echo(&key(), &version("u", 5)));
        assert!(!echoes.is_echo(&key(), &version("u", 6)));
        assert!(echoes.expected.is_empty());
    }

    #[test]
    fn a_later_version_hides_no_news() {
        let mut echoes = Echoes::default();
        echoes.ended(&key(), vec![version("u", 5)]);
        assert!(!echoes.is_echo(&key(), &version("u", 7)));
        assert!(!echoes.is_echo(&key(), &version("v", 5)));
    }

    #[test]
    fn an_echo_that_comes_before_the_answer_is_known_at_the_end_of_the_pass() {
        let mut echoes = Echoes::default();
        echoes.hold(&key(), version("u", 5));
        assert!(!echoes.ended(&key(), vec![version("u", 5)]));
        echoes.hold(&key(), version("u", 8));
        assert!(echoes.ended(&key(), vec![version("u", 7)]));
        assert!(echoes.expected.is_empty() && echoes.early.is_empty());
    }

    #[test]
    fn the_write_of_one_object_is_news_to_another() {
        let mut echoes = Echoes::default();
        echoes.ended(&key(), vec![version("u", 5)]);
        assert!(!echoes.is_echo(&ObjectKey::namespaced("a", "other"), &version("u", 5)));
    }
}
