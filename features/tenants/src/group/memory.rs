//! What the process remembers of a group. Without it the next read finds the same again.

use std::time::Duration;

use aws::cloudfront::{Group, GroupBody as Body};
use engine::Ended;
use kernel::spread;

use super::found::ours;
use super::ineffective::Ineffective;
use super::plan::{self, Decision, Ending, SPREAD};
use super::{CreateIntent, World, users};
use crate::trouble::Trouble;

/// How often tags are read, give or take a tenth.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What is known of one group. Times are the engine's.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Memory {
    pub(super) trouble: Trouble,
    /// When this process last sent a create that was, or may have been, accepted.
    pub(super) requested: Option<Duration>,
    /// How the last calls ended is unknown: read before anything is written.
    pub(super) doubted: bool,
    /// When it is read next; none: now.
    pub(super) read_at: Option<Duration>,
    /// When it was last read itself: an older list shows nothing new.
    pub(super) seen_at: Option<Duration>,
    /// When its tags are read next.
    pub(super) tags_at: Option<Duration>,
    /// When it was first missing.
    pub(super) missed: Option<Duration>,
    /// When CloudFront refused a create because the name is taken, until a read shows by whom.
    pub(super) taken: Option<Duration>,
    /// The version that our last write replaced: a read that shows it is stale.
    pub(super) replaced: Option<String>,
    /// When drift was last corrected: that happens once an interval.
    pub(super) corrected: Option<Duration>,
    /// What our last write sent, and the version it made.
    pub(super) sent: Option<(String, Body)>,
    /// An update that had no effect.
    pub(super) ineffective: Option<Ineffective>,
    /// When the number of its tenants was last recorded.
    pub(super) counted: Option<Duration>,
}

impl Memory {
    /// Whether a read that shows this version is older than our last write.
    pub(super) fn is_behind(&self, etag: &str) -> bool {
        self.replaced.as_deref() == Some(etag)
    }

    /// CloudFront made `group` as `sent` asks.
    pub(super) fn created(&mut self, group: &Group, sent: &Body, elapsed: Duration) {
        self.requested = Some(elapsed);
        self.replaced = None;
        self.sent = Some((group.etag.clone(), sent.clone()));
        self.reviewed(group, elapsed);
    }

    /// CloudFront accepted `sent` as an update of version `before`, and shows `after`.
    pub(super) fn updated(&mut self, before: &str, sent: &Body, after: &Group, elapsed: Duration) {
        self.replaced = Some(before.to_owned());
        self.sent = Some((after.etag.clone(), sent.clone()));
        let known = self.ineffective.take();
        self.ineffective = Ineffective::next(known.as_ref(), sent, &after.body, elapsed);
    }

    /// CloudFront shows `group`: whether our last write had its effect, unless someone wrote since.
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

/// | the pass                           | doubted | also                                     |
/// |------------------------------------|---------|------------------------------------------|
/// | read a group that is ours          | no      | not missing, name not taken, read now    |
/// | announces a create                 | no      | no create was sent since                 |
/// | failed                             | yes     | by [`Trouble`]                           |
/// | found it missing, or not owned     | yes     | missing since the first such read        |
/// | met a taken name                   | yes     | taken since now                          |
/// | any other                          | as was  |                                          |
pub(super) fn remember(world: &World, ended: &Ended<CreateIntent>) -> Memory {
    let World {
        object,
        observed,
        elapsed,
        pass,
        ..
    } = world;
    let mut memory = world.memory.clone();
    memory.trouble = plan::trouble(world);
    if observed.name_taken.is_some() {
        memory.taken = Some(*elapsed);
    }
    if observed.has_begun && !object.is_deleting() {
        // After a restart the reading of tags is spread over the day.
        memory
            .tags_at
            .get_or_insert(*elapsed + DAY.mul_f64(pass.random));
    }
    if let Some(seen) = ours(world) {
        memory.doubted = false;
        memory.missed = None;
        memory.taken = None;
        memory.seen_at = Some(*elapsed);
        if seen.tags.is_some() || observed.created.is_some() {
            memory.tags_at = Some(*elapsed + spread(DAY, SPREAD, pass.random));
        }
    }
    match ended {
        Ended::Announcing(intents) if !intents.is_empty() => {
            memory.requested = None;
            memory.doubted = false;
        }
        Ended::Announcing(_) | Ended::Done { .. } | Ended::Previewed(_) | Ended::Stopped(_) => {}
    }
    if let Decision::End(end) = plan::decide(world) {
        memory.trouble = end.trouble;
        let read_at = end.after.map(|after| *elapsed + after);
        match end.how {
            Ending::Steady | Ending::Stale | Ending::Settled => memory.read_at = read_at,
            Ending::Unconfirmed => (memory.doubted, memory.read_at) = (true, read_at),
            Ending::Missing => {
                (memory.doubted, memory.read_at) = (true, read_at);
                memory.missed.get_or_insert(*elapsed);
            }
            Ending::LeftDeleted | Ending::MayAppear => {
                memory.missed.get_or_insert(*elapsed);
            }
            Ending::NotOwned(_) => (memory.doubted, memory.taken) = (true, None),
            Ending::Failed { .. } => memory.doubted = true,
            Ending::Later | Ending::InUse | Ending::Disabling(_) | Ending::Released(_) => {}
        }
    }
    let is_new = object.status.tenants != users::count(world);
    if is_new && users::is_count_due(world, ended) {
        memory.counted = Some(*elapsed);
    }
    memory
}
