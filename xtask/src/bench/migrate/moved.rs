//! What the logs show of the ordinals of a run.
//!
//! ```text
//! release ─▶ ■ pod, attachment gone, disk detached ─▶ fence: delete the claim ─▶ ■ claim gone
//!   ─▶ tombstone ─▶ ■ tombstone there, volume Released; two seconds after the first read ─▶ grow
//!   ─▶ ■ pod Ready ─▶ release of the next ordinal, or deletion of the first source volume
//! ```
//! ■ is evidence: from there to the next arrow the operator is at work.

use jiff::Timestamp;
use testkit::Entry;
use testkit::disks::SetPlan;

use super::logs::{CONTROLLERS, Logs, SIMULATORS, Sought, is_write_of_operator};

/// The template of the claims.
const TEMPLATE: &str = "data";
/// From the beginning of the first read of a free disk to that of the second.
const CONFIRM: f64 = 2.0;
const MIGRATIONS: &str = "statefulsetmigrations";

/// A run in the logs. Its migration has the name of the namespace of its set.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) logs: &'a Logs,
    pub(super) set: &'a SetPlan,
}

/// How long an ordinal was down; `to` is none if it still is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Down {
    pub(super) from: Timestamp,
    pub(super) to: Option<Timestamp>,
}

/// The writes of one kind for each ordinal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Writes {
    pub(super) object: usize,
    pub(super) mirrors: usize,
}

/// The steps of an ordinal: when the last evidence of one came true, and when the operator acted on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Steps {
    /// Pod gone, VolumeAttachment gone, disk detached, whichever is last.
    pub(super) detached: Timestamp,
    /// The first read of the disk after that.
    pub(super) first_read: Timestamp,
    /// The deletion of the claim.
    pub(super) fence: Timestamp,
    /// The last finalizer of the claim is removed.
    pub(super) claim_gone: Timestamp,
    /// The tombstone is created.
    pub(super) tombstone: Timestamp,
    /// The tombstone is there and the volume is Released, whichever is last.
    pub(super) fenced: Timestamp,
    /// The patch of the destination.
    pub(super) grow: Timestamp,
    /// The pod is Ready in the destination.
    pub(super) ready: Timestamp,
    /// The next effect: the release of the next ordinal, or the deletion of the first source volume.
    pub(super) next: Timestamp,
    /// When its pod was gone in the source.
    pub(super) pod_gone: Timestamp,
}

/// What the operator adds to a step, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Overhead {
    pub(super) fence: f64,
    pub(super) tombstone: f64,
    /// Without what is left of the two seconds after the first read.
    pub(super) grow: f64,
    pub(super) next: f64,
    /// The sum of all gaps less two seconds, as the contract defines it.
    pub(super) total: f64,
}

impl Steps {
    pub(super) fn overhead(&self) -> Overhead {
        let gap = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64();
        let (fence, tombstone) = (
            gap(self.detached, self.fence),
            gap(self.claim_gone, self.tombstone),
        );
        let (grow, next) = (gap(self.fenced, self.grow), gap(self.ready, self.next));
        let since_read = gap(self.first_read, self.grow) - CONFIRM;
        Overhead {
            fence,
            tombstone,
            grow: grow.min(since_read),
            next,
            total: fence + tombstone + grow + next - CONFIRM,
        }
    }
}

impl Overhead {
    /// The sum of all gaps, with what the operator does during the two seconds.
    pub(super) fn sum(&self) -> f64 {
        self.fence + self.tombstone + self.grow + self.next
    }
}

impl Run<'_> {
    fn namespace(&self) -> &str {
        &self.set.namespace
    }

    fn pod(&self, ordinal: u32) -> String {
        format!("{}-{ordinal}", self.set.name)
    }

    /// When the pod of an ordinal began to end in the source.
    fn ended(&self, ordinal: u32) -> Option<Timestamp> {
        let pod = self.pod(ordinal);
        let deleted = Sought::by(CONTROLLERS, "delete", "pods", self.namespace());
        deleted.named(&pod).first(&self.logs.source, ..)
    }

    /// When the pod of an ordinal was Ready in the destination.
    fn ready(&self, ordinal: u32) -> Option<Timestamp> {
        let pod = self.pod(ordinal);
        let published = Sought::by(SIMULATORS, "patch", "pods/status", self.namespace());
        published.named(&pod).first(&self.logs.destination, ..)
    }

    /// When the operator released an ordinal: its last change of the set before the controller acted on it.
    fn release(&self, ordinal: u32) -> Option<Timestamp> {
        let patched = Sought::ours("patch", "statefulsets", self.namespace());
        let patched = patched.named(&self.set.name);
        patched.last(&self.logs.source, ..self.ended(ordinal)?)
    }

    /// How long each ordinal was down; those that have not moved are left out.
    pub(super) fn downtimes(&self) -> Vec<Down> {
        let down = |ordinal| {
            let from = self.ended(ordinal)?;
            let to = self.ready(ordinal);
            Some(Down { from, to })
        };
        self.set.ordinals().filter_map(down).collect()
    }

    /// The steps of an ordinal of a run that nothing ran beside: VolumeAttachments do not name a run.
    pub(super) fn steps(&self, ordinal: u32) -> Option<Steps> {
        let (source, destination) = (&self.logs.source, &self.logs.destination);
        let (namespace, set) = (self.namespace(), &*self.set.name);
        let claim = self.set.claim(TEMPLATE, ordinal);
        let volume = self.set.persistent_volume(TEMPLATE, ordinal);
        let disk = self.set.volume(TEMPLATE, ordinal);
        let pod = self.pod(ordinal);

        let ended = self.ended(ordinal)?;
        let fence = Sought::ours("delete", "persistentvolumeclaims", namespace);
        let fence = fence.named(&claim).first(source, ended..)?;
        let pod_gone = Sought::by(SIMULATORS, "delete", "pods", namespace);
        let pod_gone = pod_gone.named(&pod).first(source, ended..)?;
        let attachment = Sought::by(SIMULATORS, "patch", "volumeattachments", "");
        let attachment = attachment.last(source, ended..fence)?;
        let mut events = self.logs.disks.iter().filter(|one| one.volume == disk);
        let detached = events.find(|one| one.event == "detached" && one.time > ended)?;
        let detached = detached.time.max(attachment).max(pod_gone);
        let reads = self.logs.calls.iter().filter(|call| call.is_read());
        let mut reads = reads.filter(|call| call.names(&disk) && call.time > detached);
        let first_read = reads.next()?.time;

        let tombstone = Sought::ours("create", "persistentvolumeclaims", namespace);
        let tombstone = tombstone.named(&claim).first(source, fence..)?;
        let freed = ["update", "patch"].into_iter().filter_map(|verb| {
            let freed = Sought::by(CONTROLLERS, verb, "persistentvolumeclaims", namespace);
            freed.named(&claim).last(source, fence..tombstone)
        });
        let claim_gone = freed.max().unwrap_or(fence);

        let ready = self.ready(ordinal)?;
        let grow = Sought::ours("patch", "statefulsets", namespace).named(set);
        let grow = grow.last(destination, tombstone..ready)?;
        let released = ["update", "patch"].into_iter().filter_map(|verb| {
            let released = Sought::by(CONTROLLERS, verb, "persistentvolumes/status", "");
            released.named(&volume).last(source, fence..grow)
        });
        let fenced = released.max().map_or(tombstone, |time| time.max(tombstone));

        let next = if ordinal + 1 == self.set.ordinals().end {
            let first = self.set.persistent_volume(TEMPLATE, self.set.start);
            let deleted = Sought::ours("delete", "persistentvolumes", "");
            deleted.named(&first).first(source, ready..)?
        } else {
            self.release(ordinal + 1)?
        };
        Some(Steps {
            detached,
            first_read,
            fence,
            claim_gone,
            tombstone,
            fenced,
            grow,
            ready,
            next,
            pod_gone,
        })
    }

    /// The writes for each ordinal that has moved: from the moment at which the one before was Ready, or the
    /// destination was prepared. Refused attempts count.
    pub(super) fn writes(&self) -> Vec<Writes> {
        let prepared = Sought::ours("create", "statefulsets", self.namespace());
        let prepared = prepared.named(&self.set.name);
        let Some(mut from) = prepared.first(&self.logs.destination, ..) else {
            return Vec::new();
        };
        let mut all = Vec::new();
        for to in self.set.ordinals().map_while(|ordinal| self.ready(ordinal)) {
            let of_span =
                |entry: &&Entry| is_write_of_operator(entry) && (from..to).contains(&entry.time);
            let entries = self.logs.source.iter().chain(&self.logs.destination);
            let entries: Vec<&Entry> = entries.filter(of_span).collect();
            let lock = format!("stsm-{}", self.set.name);
            let is_mirror = |entry: &Entry| {
                entry.resource == "configmaps"
                    && entry.namespace == *self.namespace()
                    && entry.name == lock
            };
            all.push(Writes {
                object: entries
                    .iter()
                    .filter(|entry| self.is_of_object(entry))
                    .count(),
                mirrors: entries.iter().filter(|entry| is_mirror(entry)).count(),
            });
            from = to;
        }
        all
    }

    fn is_of_object(&self, entry: &Entry) -> bool {
        entry.resource == MIGRATIONS && entry.name == *self.namespace()
    }

    /// When its migration was created, and when the operator last wrote its status.
    pub(super) fn span(&self) -> Option<(Timestamp, Timestamp)> {
        let writes = self.logs.destination.iter();
        let own = writes.filter(|entry| entry.is_write() && self.is_of_object(entry));
        let times: Vec<Timestamp> = own.map(|entry| entry.time).collect();
        Some((*times.iter().min()?, *times.iter().max()?))
    }
}

/// How many of these were down at the same time, at most.
pub(super) fn most_at_once(downtimes: &[Down]) -> usize {
    let at_begin = |down: &Down| {
        let overlaps =
            |other: &&Down| other.from <= down.from && other.to.is_none_or(|to| to > down.from);
        downtimes.iter().filter(overlaps).count()
    };
    downtimes.iter().map(at_begin).max().unwrap_or_default()
}

#[cfg(test)]
mod tests;
