//! What is known of a group beyond its status, and may be lost with the process: the next look finds
//! it again.

use std::collections::HashMap;
use std::time::Duration;

use aws::cloudfront::{Group, GroupBody as Body};
use kernel::ObjectKey;
use parking_lot::Mutex;

use super::ineffective::Ineffective;
use crate::trouble::Trouble;

/// What is known of one group. Times are the engine's.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Memory {
    pub(super) trouble: Trouble,
    pub(super) creation: Creation,
    /// How the last calls ended is not known: look before anything is written.
    pub(super) doubted: bool,
    /// When it is to be looked at next; none: now.
    pub(super) look_at: Option<Duration>,
    /// When it was last seen itself: an older list tells nothing new.
    pub(super) seen_at: Option<Duration>,
    /// When its tags are to be read next.
    pub(super) tags_at: Option<Duration>,
    /// When it was first found missing.
    pub(super) missed: Option<Duration>,
    /// When CloudFront said that the name is taken, until it is seen by whom.
    pub(super) taken: Option<Duration>,
    /// The version that our last write replaced: whoever shows it is behind.
    pub(super) replaced: Option<String>,
    /// When drift was last undone: that is done once in an interval.
    pub(super) corrected: Option<Duration>,
    /// What our last Update sent, and the version it made.
    pub(super) sent: Option<(String, Body)>,
    /// Whether that had no effect.
    pub(super) ineffective: Option<Ineffective>,
    /// When the number of its tenants was last told.
    pub(super) counted: Option<Duration>,
}

/// What this process knows of its Create calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Creation {
    /// Nothing: another process may have made one.
    #[default]
    Unknown,
    /// It is announced, and none was made since, or CloudFront refused it.
    Unasked,
    /// One was made then, and it was or may have been accepted.
    Asked(Duration),
}

impl Memory {
    /// A look at the group itself came to its end.
    pub(super) fn saw(&mut self, elapsed: Duration) {
        self.doubted = false;
        self.missed = None;
        self.taken = None;
        self.seen_at = Some(elapsed);
    }

    /// Whether what CloudFront shows is older than our own last write.
    pub(super) fn is_behind(&self, etag: &str) -> bool {
        self.replaced.as_deref() == Some(etag)
    }

    /// CloudFront took `sent` as an Update of version `before`, and shows `after`.
    pub(super) fn updated(&mut self, before: &str, sent: &Body, after: &Group, elapsed: Duration) {
        self.replaced = Some(before.to_owned());
        self.sent = Some((after.etag.clone(), sent.clone()));
        let known = self.ineffective.take();
        self.ineffective = Ineffective::next(known.as_ref(), sent, &after.body, elapsed);
    }

    /// CloudFront shows `group`: whether our last Update took hold, as far as nobody wrote since.
    pub(super) fn reviewed(&mut self, group: &Group, elapsed: Duration) {
        let sent = self.sent.take_if(|(etag, _)| *etag != group.etag);
        if sent.is_some() {
            self.ineffective = None;
        }
        let Some((_, sent)) = &self.sent else { return };
        let seen = Ineffective::next(None, sent, &group.body, elapsed);
        self.ineffective = match (self.ineffective.take(), seen) {
            (Some(known), Some(_)) => Some(known),
            (None, seen) => seen,
            (Some(_), None) => None,
        };
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Memories(Mutex<HashMap<ObjectKey, Memory>>);

impl Memories {
    /// What is known of `key`.
    pub(super) fn of(&self, key: &ObjectKey) -> Memory {
        self.0.lock().get(key).cloned().unwrap_or_default()
    }

    /// CloudFront is about to be asked. Until what is known is [put](Self::put) back, the group is
    /// doubted: a pass that is dropped on its way leaves calls of which nobody knows how they ended.
    pub(super) fn doubt(&self, key: &ObjectKey, memory: &Memory) {
        let doubted = Memory {
            doubted: true,
            ..memory.clone()
        };
        self.put(key, doubted);
    }

    pub(super) fn put(&self, key: &ObjectKey, memory: Memory) {
        self.0.lock().insert(key.clone(), memory);
    }

    /// The object is gone.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(etag: &str, enabled: bool) -> Group {
        Group {
            id: "cg_1".to_owned(),
            arn: "arn".to_owned(),
            name: "edge".to_owned(),
            etag: etag.to_owned(),
            status: "InProgress".to_owned(),
            modified: None,
            routing_endpoint: "d1.cloudfront.net".to_owned(),
            is_default: false,
            body: body(enabled),
            tags: None,
        }
    }

    fn body(enabled: bool) -> Body {
        Body {
            ipv6_enabled: true,
            enabled,
            anycast_ip_list_id: None,
        }
    }

    const NOW: Duration = Duration::ZERO;

    #[test]
    fn an_update_that_a_later_read_does_not_show_had_no_effect() {
        let mut memory = Memory::default();
        memory.updated("1", &body(false), &group("2", false), NOW);
        assert!(memory.is_behind("1") && memory.ineffective.is_none());
        memory.reviewed(&group("2", true), NOW);
        let known = memory.ineffective.clone().unwrap();
        // Looking again does not make it older or younger.
        memory.reviewed(&group("2", true), Duration::from_secs(9));
        assert_eq!(memory.ineffective, Some(known));
        memory.reviewed(&group("2", false), NOW);
        assert_eq!(memory.ineffective, None);
    }

    #[test]
    fn what_others_wrote_since_is_no_lack_of_effect() {
        let mut memory = Memory::default();
        memory.updated("1", &body(false), &group("2", true), NOW);
        assert!(memory.ineffective.is_some());
        memory.reviewed(&group("3", true), NOW);
        assert_eq!((memory.ineffective, memory.sent), (None, None));
    }

    #[test]
    fn a_pass_that_never_came_back_leaves_doubt() {
        let (memories, key) = (Memories::default(), ObjectKey::cluster("edge"));
        let memory = memories.of(&key);
        memories.doubt(&key, &memory);
        assert!(memories.of(&key).doubted);
        memories.put(&key, memory.clone());
        assert_eq!(memories.of(&key), memory);
        memories.doubt(&key, &memory);
        memories.forget(&key);
        assert_eq!(memories.of(&key), Memory::default());
    }
}
