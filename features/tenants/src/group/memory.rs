//! What the process remembers of a group. Without it, the next read finds the same again.

use std::time::Duration;

use aws::cloudfront::{Group, GroupBody as Body};
use engine::Ended;
use kernel::spread;

use super::found::ours;
use super::ineffective::Ineffective;
use super::plan::{self, Decision, Ending, SPREAD};
use super::{CreateIntent, World, users};
use crate::trouble::Trouble;

/// The time between two reads of the tags, ±10 %.
const TAG_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// What the process remembers of one group. Times are of the engine's clock.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Memory {
    pub(super) failures: Trouble,
    /// When this process last sent a create that CloudFront has accepted, or may have.
    pub(super) create_sent_at: Option<Duration>,
    /// The result of the last calls is unknown: the next pass reads before it writes.
    pub(super) is_uncertain: bool,
    /// The time of the next read; none: now.
    pub(super) read_at: Option<Duration>,
    /// The time of the last read of the group. An older list shows nothing new.
    pub(super) seen_at: Option<Duration>,
    /// The time of the next read of its tags.
    pub(super) tags_at: Option<Duration>,
    /// When a read first did not show the group.
    pub(super) missing_since: Option<Duration>,
    /// When CloudFront refused a create because the name is taken; none once a read shows the group.
    pub(super) name_taken_at: Option<Duration>,
    /// The ETag that our last write replaced. A read that shows it is stale.
    pub(super) replaced_etag: Option<String>,
    /// When drift was last corrected. This happens at most once per interval.
    pub(super) corrected_at: Option<Duration>,
    /// The body of our last write, and the ETag after it.
    pub(super) sent: Option<(String, Body)>,
    /// An update that had no effect.
    pub(super) ineffective: Option<Ineffective>,
    /// When the number of its tenants was last recorded.
    pub(super) counted_at: Option<Duration>,
}

impl Memory {
    /// Whether a read that shows this ETag is older than our last write.
    pub(super) fn is_outdated(&self, etag: &str) -> bool {
        self.replaced_etag.as_deref() == Some(etag)
    }

    /// Records that CloudFront created `group` from `sent`.
    pub(super) fn record_create(&mut self, group: &Group, sent: &Body, elapsed: Duration) {
        self.create_sent_at = Some(elapsed);
        self.replaced_etag = None;
        self.sent = Some((group.etag.clone(), sent.clone()));
        self.record_read(group, elapsed);
    }

    /// Records that CloudFront accepted `sent` as an update of the ETag `before`, and returned `after`.
    pub(super) fn record_update(
        &mut self,
        before: &str,
        sent: &Body,
        after: &Group,
        elapsed: Duration,
    ) {
        self.replaced_etag = Some(before.to_owned());
        self.sent = Some((after.etag.clone(), sent.clone()));
        let earlier = self.ineffective.take();
        self.ineffective = Ineffective::next(earlier.as_ref(), sent, &after.body, elapsed);
    }

    /// Records a read of `group`: whether our last write had its effect, unless others wrote since.
    pub(super) fn record_read(&mut self, group: &Group, elapsed: Duration) {
        let sent = self.sent.take_if(|(etag, _)| *etag != group.etag);
        if sent.is_some() {
            self.ineffective = None;
        }
        let Some((_, sent)) = &self.sent else { return };
        let seen = Ineffective::next(None, sent, &group.body, elapsed);
        self.ineffective = match (self.ineffective.take(), seen) {
            (Some(earlier), Some(_)) => Some(earlier),
            (None, seen) => seen,
            (Some(_), None) => None,
        };
    }
}

/// | the pass                           | uncertain | also                                     |
/// |------------------------------------|-----------|------------------------------------------|
/// | read a group that is ours          | no        | not missing, name not taken, read now    |
/// | announces a create                 | no        | no create was sent since                 |
/// | failed                             | yes       | by [`Trouble`]                           |
/// | found it missing, or not owned     | yes       | missing since the first such read        |
/// | was refused because of its name    | unchanged | name taken since now                     |
/// | any other                          | unchanged |                                          |
pub(super) fn remember(world: &World, ended: &Ended<CreateIntent>) -> Memory {
    let World {
        object,
        observed,
        elapsed,
        pass,
        ..
    } = world;
    let mut memory = world.memory.clone();
    memory.failures = plan::failures(world);
    if observed.name_taken.is_some() {
        memory.name_taken_at = Some(*elapsed);
    }
    if observed.has_begun && !object.is_deleting() {
        // After a restart, the reads of tags are spread over the interval.
        memory
            .tags_at
            .get_or_insert(*elapsed + TAG_INTERVAL.mul_f64(pass.random));
    }
    if let Some(seen) = ours(world) {
        memory.is_uncertain = false;
        memory.missing_since = None;
        memory.name_taken_at = None;
        memory.seen_at = Some(*elapsed);
        if seen.tags.is_some() || observed.created.is_some() {
            memory.tags_at = Some(*elapsed + spread(TAG_INTERVAL, SPREAD, pass.random));
        }
    }
    match ended {
        Ended::Announcing(intents) if !intents.is_empty() => {
            memory.create_sent_at = None;
            memory.is_uncertain = false;
        }
        Ended::Announcing(_) | Ended::Done { .. } | Ended::Previewed(_) | Ended::Stopped(_) => {}
    }
    if let Decision::End(end) = plan::decide(world) {
        memory.failures = end.failures;
        let read_at = end.after.map(|after| *elapsed + after);
        match end.how {
            Ending::Steady | Ending::Stale | Ending::Settled => memory.read_at = read_at,
            Ending::Unconfirmed => (memory.is_uncertain, memory.read_at) = (true, read_at),
            Ending::Missing => {
                (memory.is_uncertain, memory.read_at) = (true, read_at);
                memory.missing_since.get_or_insert(*elapsed);
            }
            Ending::LeftDeleted | Ending::MayAppear => {
                memory.missing_since.get_or_insert(*elapsed);
            }
            Ending::NotOwned(_) => (memory.is_uncertain, memory.name_taken_at) = (true, None),
            Ending::Failed { .. } => memory.is_uncertain = true,
            Ending::Later | Ending::InUse | Ending::Disabling(_) | Ending::Released(_) => {}
        }
    }
    let is_new = object.status.tenants != users::count(world);
    if is_new && users::is_count_due(world, ended) {
        memory.counted_at = Some(*elapsed);
    }
    memory
}
