//! What a pass over a group does before CloudFront is asked, and whether it is asked at all. Pure.

use std::time::Duration;

use api::tenants::{DeletionPolicy, events};
use aws::Priority;
use engine::Note;

use super::gather::{DEPLOYED, Facts, Look, look};
use super::memory::{Creation, Memory};
use crate::ctx::UNSETTLED;

/// How often a group that changes is looked at.
pub(super) const POLL: Duration = Duration::from_secs(30);
/// So long after a Create a group that cannot be seen may still be on its way.
pub(super) const GRACE: Duration = Duration::from_secs(2 * 60);

/// The first step of a pass.
#[derive(Debug, PartialEq)]
pub(super) enum First {
    /// Nothing: the object goes by itself.
    Nothing,
    /// Put the finalizer on it.
    Hold,
    /// Record that CloudFront is about to be asked for the group.
    Announce,
    /// Nothing before that has passed.
    Wait(Duration),
    /// Say who uses it; their going wakes it.
    InUse,
    /// Let the object go.
    Release(Note),
    /// Look at CloudFront.
    Look(Look),
}

/// | the object   | finalizer | in CloudFront     | and               | so             |
/// |--------------|-----------|-------------------|-------------------|----------------|
/// | lives        | no        |                   |                   | hold           |
/// | lives        | yes       | never asked for   |                   | announce       |
/// | lives        | yes       | any               |                   | wait or look   |
/// | is to go     | no        |                   |                   | nothing        |
/// | is to go     | yes       | any               | Retain            | release        |
/// | is to go     | yes       | the default group |                   | release        |
/// | is to go     | yes       | any               | nobody knows yet  | wait           |
/// | is to go     | yes       | any               | tenants use it    | in use         |
/// | is to go     | yes       | never asked for   |                   | release        |
/// | is to go     | yes       | any               |                   | wait or look   |
pub(super) fn first(facts: &Facts, memory: &Memory) -> First {
    let is_unasked = facts.status.id.is_none() && facts.status.create_requested_at.is_none();
    match (facts.deleting, facts.held) {
        (false, false) => First::Hold,
        (false, true) if is_unasked => First::Announce,
        (false, true) => closer(look(facts, memory), facts, memory),
        (true, false) => First::Nothing,
        (true, true) if facts.deletion == DeletionPolicy::Retain => {
            First::Release(retained(facts, "deletionPolicy is Retain"))
        }
        (true, true) if facts.status.is_default == Some(true) => {
            First::Release(retained(facts, IS_DEFAULT))
        }
        (true, true) if facts.users.unread => First::Wait(UNSETTLED),
        (true, true) if !facts.users.using.is_empty() => First::InUse,
        (true, true) if is_unasked => {
            let message = "nothing of it was ever asked of CloudFront";
            First::Release(Note::normal(events::DELETED, message))
        }
        (true, true) => closer(Look::Itself(Priority::Delete), facts, memory),
    }
}

/// Why the default group is kept.
pub(super) const IS_DEFAULT: &str = "it is the account's default group";

pub(super) fn retained(facts: &Facts, why: &str) -> Note {
    let message = format!("{} stays in CloudFront, as {why}", facts.called());
    Note::normal(events::RETAINED, message)
}

/// A look, unless a refusal holds it back or its time has not come.
fn closer(look: Look, facts: &Facts, memory: &Memory) -> First {
    let held = memory.trouble.holds_back(&facts.moment());
    match (look, held) {
        (_, Some(left)) | (Look::Later(left), None) => First::Wait(left),
        (look @ (Look::Listed | Look::Itself(_)), None) => First::Look(look),
    }
}

/// Whether a group that cannot be seen may still be on its way. Who does not know when it was asked
/// for gives it its time from the first look on; one that was seen deployed is known everywhere.
pub(super) fn may_come(facts: &Facts, memory: &Memory) -> bool {
    let is_recent = |at: Duration| facts.elapsed.saturating_sub(at) < GRACE;
    match memory.creation {
        Creation::Unasked => false,
        Creation::Asked(at) => is_recent(at),
        Creation::Unknown if facts.status.state.as_deref() == Some(DEPLOYED) => false,
        Creation::Unknown => memory.missed.is_none_or(is_recent),
    }
}
