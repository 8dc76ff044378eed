//! Records what a pass wrote to other objects. The watch event of such a write (its echo) does not
//! cause another pass over the same object.
//!
//! # Guarantees
//! - Only the object whose pass wrote is exempt. Other objects and controllers see the change.
//! - A later change by others has a higher version, so it always causes a pass.
//! # Limits
//! Writes are recorded only on the task of the pass. A write from another task costs one more pass, and
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
    /// The last written versions of other objects of this cluster that the operator owns.
    pub(crate) objects: Vec<Version>,
    /// Whether a guard allowed any write, in this cluster or in an external system.
    pub(crate) any: bool,
}

/// Runs a pass. Returns its result and its writes.
pub(crate) async fn track_writes<T>(pass: impl Future<Output = T>) -> (T, Writes) {
    let mut pass = pin!(pass);
    let mut any = false;
    let tracked = async {
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
    WRITTEN.scope(RefCell::default(), tracked).await
}

/// Records that the pass on this task wrote this version of `object`.
pub(crate) fn record_write(object: &Value) {
    if let Some(version) = Version::of(object) {
        // It fails outside a pass, where no writes are tracked.
        let _ = WRITTEN.try_with(|written| set_version(&mut written.borrow_mut(), version));
    }
}

/// Adds a version and removes others of the same object.
fn set_version(versions: &mut Vec<Version>, version: Version) {
    versions.retain(|other| other.uid != version.uid);
    versions.push(version);
}

/// Distinguishes echoes from changes by others, for the objects of one controller.
#[derive(Debug, Default)]
pub(crate) struct Echoes {
    /// What an object's last pass wrote and the watch has not shown yet.
    expected: HashMap<ObjectKey, Vec<Version>>,
    /// What the watch showed during the object's pass. The pass may not have the response to its write
    /// yet.
    early: HashMap<ObjectKey, Vec<Version>>,
}

impl Echoes {
    /// Defers the decision on a version that the watch showed during a pass over `key`. [`Self::ended`]
    /// decides.
    pub(crate) fn defer(&mut self, key: &ObjectKey, seen: Version) {
        set_version(self.early.entry(key.clone()).or_default(), seen);
    }

    /// Whether a version that the watch showed outside a pass over `key` is the pass's own write.
    pub(crate) fn is_echo(&mut self, key: &ObjectKey, seen: &Version) -> bool {
        let Some(expected) = self.expected.get_mut(key) else {
            return false;
        };
        let Some(at) = expected.iter().position(|one| one.uid == seen.uid) else {
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

    /// Takes in what a pass over `key` wrote. Returns whether others changed something during the pass.
    pub(crate) fn ended(&mut self, key: &ObjectKey, wrote: Vec<Version>) -> bool {
        if wrote.is_empty() {
            self.expected.remove(key);
        } else {
            self.expected.insert(key.clone(), wrote);
        }
        let early = self.early.remove(key).unwrap_or_default();
        early.iter().filter(|seen| !self.is_echo(key, seen)).count() > 0
    }

    /// Removes what is recorded of `key`.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        self.expected.remove(key);
        self.early.remove(key);
    }

    /// Clears everything, because passes were dropped and run again.
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
    async fn the_last_written_version_of_an_object_counts() {
        let object = |number: &str| json!({"metadata": {"uid": "u", "resourceVersion": number}});
        record_write(&object("1"));
        let pass = async {
            record_write(&object("2"));
            record_write(&object("3"));
            "ended"
        };
        let (ended, writes) = track_writes(pass).await;
        assert_eq!((ended, writes.objects), ("ended", vec![version("u", 3)]));
    }

    #[rstest]
    #[case::a_write(Guard::always(), true)]
    #[case::a_refused_write(Guard::closed(), false)]
    #[tokio::test]
    async fn a_write_to_any_system_counts(#[case] guard: Guard, #[case] expected: bool) {
        Guard::always().check().unwrap(); // outside the pass
        let pass = async {
            tokio::task::yield_now().await;
            guard.check().ok(); // every client does this before a write
            tokio::task::yield_now().await;
        };
        assert_eq!(track_writes(pass).await.1.any, expected);
    }

    #[test]
    fn our_own_write_is_an_echo_and_a_later_version_is_not() {
        let mut echoes = Echoes::default();
        assert!(!echoes.ended(&key(), vec![version("u", 5)]));
        assert!(echoes.is_echo(&key(), &version("u", 4)));
        assert!(echoes.is_echo(&key(), &version("u", 5)));
        assert!(!echoes.is_echo(&key(), &version("u", 6)));
        assert!(echoes.expected.is_empty());
    }

    #[test]
    fn a_skipped_version_or_another_object_is_no_echo() {
        let mut echoes = Echoes::default();
        echoes.ended(&key(), vec![version("u", 5)]);
        assert!(!echoes.is_echo(&key(), &version("u", 7)));
        assert!(!echoes.is_echo(&key(), &version("v", 5)));
    }

    #[test]
    fn an_echo_during_the_pass_is_recognised_when_it_ends() {
        let mut echoes = Echoes::default();
        echoes.defer(&key(), version("u", 5));
        assert!(!echoes.ended(&key(), vec![version("u", 5)]));
        echoes.defer(&key(), version("u", 8));
        assert!(echoes.ended(&key(), vec![version("u", 7)]));
        assert!(echoes.expected.is_empty() && echoes.early.is_empty());
    }

    #[test]
    fn a_write_by_the_pass_of_another_object_is_no_echo() {
        let mut echoes = Echoes::default();
        echoes.ended(&key(), vec![version("u", 5)]);
        assert!(!echoes.is_echo(&ObjectKey::namespaced("a", "other"), &version("u", 5)));
    }
}
