//! Creates that this process has announced in a status and not yet made.
//!
//! The pass that announced a create has just found nothing at its path, so the pass that makes it
//! reads no second time. What is lost here costs a read, never correctness: without an entry the
//! path is read.

use std::collections::HashMap;
use std::time::Duration;

use api::vault::{Intent, IntentKind};
use engine::Pass;
use kernel::ObjectKey;
use parking_lot::Mutex;

use crate::links::Dependent;

/// An announcement serves this long, in real time: less than a Lease takes to pass to another
/// process, which could make the create in between.
const SERVES: Duration = Duration::from_secs(10);

/// The open announcement of each object.
#[derive(Default)]
pub(crate) struct Announcements(Mutex<HashMap<(Dependent, ObjectKey), Announcement>>);

struct Announcement {
    uid: String,
    vault_path: String,
    at: Duration,
}

impl Announcements {
    /// `intent` is being saved. If it is a create, nothing was found at its path just before.
    pub(super) fn saved(&self, kind: Dependent, pass: &Pass, intent: &Intent) {
        let create = Some(intent).filter(|intent| intent.kind == Some(IntentKind::Create));
        let Some(vault_path) = create.and_then(|intent| intent.vault_path.clone()) else {
            return;
        };
        let announcement = Announcement {
            uid: pass.object().uid().to_owned(),
            vault_path,
            at: pass.clock().elapsed(),
        };
        let key = (kind, pass.key().clone());
        self.0.lock().insert(key, announcement);
    }

    /// The path that needs no second read. It is answered once: whatever becomes of the create, the
    /// next pass reads.
    pub(super) fn take(
        &self,
        kind: Dependent,
        pass: &Pass,
        open: Option<&Intent>,
    ) -> Option<String> {
        let key = (kind, pass.key().clone());
        let saved = self.0.lock().remove(&key)?;
        let age = pass.clock().elapsed().saturating_sub(saved.at);
        let is_fresh = saved.uid == pass.object().uid() && pass.clock().real(age) < SERVES;
        (is_fresh && saved.is_for(open?)).then_some(saved.vault_path)
    }

    /// The object is gone.
    pub(super) fn forget(&self, kind: Dependent, key: &ObjectKey) {
        self.0.lock().remove(&(kind, key.clone()));
    }
}

impl Announcement {
    /// Whether it is this intent that was saved.
    fn is_for(&self, open: &Intent) -> bool {
        open.kind == Some(IntentKind::Create) && open.vault_path.as_ref() == Some(&self.vault_path)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::the_same(IntentKind::Create, "auth/kubernetes/role/r", true)]
    #[case::a_correction_reads(IntentKind::Correct, "auth/kubernetes/role/r", false)]
    #[case::another_path_reads(IntentKind::Create, "auth/kubernetes/role/s", false)]
    fn only_the_announced_create_reads_no_second_time(
        #[case] kind: IntentKind,
        #[case] vault_path: &str,
        #[case] serves: bool,
    ) {
        let saved = Announcement {
            uid: "u".to_owned(),
            vault_path: "auth/kubernetes/role/r".to_owned(),
            at: Duration::ZERO,
        };
        let open = Intent {
            vault_path: Some(vault_path.to_owned()),
            kind: Some(kind),
            canonical_hash: None,
            at: None,
        };
        assert_eq!(saved.is_for(&open), serves);
    }
}
