//! A snapshot of each disk between the two clusters, if the spec asks for one. Its completion is not awaited.
//!
//! EC2 has nothing that makes a repeated request harmless. So a snapshot is searched for by its tags before it is
//! created, and again and again if a request may have been lost: a new one may show late.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::migrate::names::{CLAIM_TAG, ORDINAL_TAG, RUN};
use api::migrate::{StallReason, StepName};

use super::{Direction, Handover, HandoverClaim, detach};
use crate::migration::decision::{Change, Decision, Wait};
use crate::migration::observation::SnapshotRead;

/// How long a search must find nothing before a request counts as lost.
const SHOWS_WITHIN: Duration = Duration::from_secs(30);
/// The time between two searches.
const BETWEEN_SEARCHES: Duration = Duration::from_secs(2);

/// Attempts that are distinguished. Each of them takes at least 30 s.
const MOST_ATTEMPTS: i32 = 1_000;

/// The snapshots of an ordinal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshots {
    /// The tags that all of them have, and that only they have.
    pub search: BTreeMap<String, String>,
    /// The user's tags.
    pub user_tags: BTreeMap<String, String>,
    /// The claims whose snapshot is on record.
    pub recorded: BTreeSet<String>,
    /// The token of the saved intent.
    pub intent: Option<String>,
    /// Whether its change was certainly not begun yet.
    pub is_intent_unused: bool,
}

impl Snapshots {
    /// The tags by which the snapshots of an ordinal are found. `marker` names the migration.
    pub fn search(
        marker: &BTreeMap<String, String>,
        run: &str,
        ordinal: i32,
    ) -> BTreeMap<String, String> {
        let mut tags = marker.clone();
        tags.insert(RUN.to_owned(), run.to_owned());
        tags.insert(ORDINAL_TAG.to_owned(), ordinal.to_string());
        tags
    }

    /// The token of an intent whose change may have been made.
    pub(super) fn unconfirmed(&self) -> Option<&String> {
        self.intent.as_ref().filter(|_| !self.is_intent_unused)
    }

    /// The attempt that the saved intent is about. The record may have gone back to an earlier step since.
    fn attempt(&self, claim: &HandoverClaim) -> i32 {
        let mut attempts = 0..MOST_ATTEMPTS;
        let is_saved = |attempt: &i32| self.intent == Some(self.create(claim, *attempt).token());
        attempts.find(is_saved).unwrap_or_default()
    }

    fn create(&self, claim: &HandoverClaim, attempt: i32) -> Change {
        let mut tags = self.user_tags.clone();
        tags.extend(self.search.clone());
        tags.insert(CLAIM_TAG.to_owned(), claim.name.clone());
        Change::CreateSnapshot {
            disk: claim.disk.clone(),
            tags,
            attempt,
        }
    }
}

/// The snapshot of a claim in the answer of a search.
pub fn found<'r>(read: &'r SnapshotRead, claim: &str) -> Option<&'r str> {
    let of_claim = read.found.iter().filter(|one| {
        let tag = one.tags.get(CLAIM_TAG);
        tag.is_some_and(|tag| tag == claim)
    });
    of_claim.map(|one| &*one.id).min()
}

/// The first claim without a snapshot decides. A disk that is with the new cluster already gets none.
///
/// | recorded, or found | search    | its intent                       | so                                    |
/// |--------------------|-----------|----------------------------------|---------------------------------------|
/// | yes                | any       | any                              | done                                  |
/// | no                 | not young | any                              | search                                |
/// | no                 | young     | not saved, or saved and not used | create                                |
/// | no                 | young     | used less than 30 s ago          | wait, then search                     |
/// | no                 | young     | used, and nothing shows for 30 s | create, as another attempt            |
pub(super) fn next(handover: &Handover<'_>) -> Decision {
    let Some(snapshots) = handover
        .snapshots
        .filter(|_| handover.direction == Direction::Forward)
    else {
        return Decision::Done;
    };
    let read = handover.observation.snapshots.get(&handover.ordinal);
    let read =
        read.filter(|read| read.began.saturating_add(super::FREE_READ_VALIDITY) > handover.elapsed);
    let is_found =
        |claim: &HandoverClaim| read.is_some_and(|read| found(read, &claim.name).is_some());
    let missing = handover.claims.iter().find(|claim| {
        !snapshots.recorded.contains(&claim.name)
            && !is_found(claim)
            && !detach::has_arrived(handover, claim)
    });
    let Some(claim) = missing else {
        return Decision::Done;
    };
    let Some(read) = read else {
        return Decision::ReadSnapshots {
            step: StepName::Snapshot,
            ordinal: handover.ordinal,
            tags: snapshots.search.clone(),
            not_before: handover.elapsed,
        };
    };
    let attempt = snapshots.attempt(claim);
    let change = snapshots.create(claim, attempt);
    let token = change.token();
    if snapshots.unconfirmed() != Some(&token) {
        return handover.step(StepName::Snapshot, change);
    }
    let since = handover.proof.unconfirmed_since(&token);
    if since.is_some_and(|since| read.began >= since.saturating_add(SHOWS_WITHIN)) {
        let again = snapshots.create(claim, attempt + 1);
        return handover.step(StepName::Snapshot, again);
    }
    Decision::Wait(Wait {
        step: StepName::Snapshot,
        ordinal: Some(handover.ordinal),
        reason: StallReason::Ec2Unavailable,
        detail: format!("EC2 does not show a snapshot of volume {} yet", claim.disk),
        after: Some(BETWEEN_SEARCHES),
    })
}

#[cfg(test)]
mod tests;
