//! A cluster with one ConnectionGroup, and the passes over it.

use std::time::Duration;

use api::tenants::{ConnectionGroupStatus, DeletionPolicy, DriftPolicy, GroupBody, conditions};
use engine::Note;
use futures::FutureExt;
use jiff::Timestamp;
use kernel::{ClusterId, Marker, ObjectKey, find};

use super::super::draft::{Draft, Ended};
use super::super::gather::Facts;
use super::super::memory::Memory;
use super::super::plan::{First, first};
use super::super::users::Users;
use super::super::{apply, asked, verdict};
use super::model::Model;

pub(super) const NAME: &str = "edge";

pub(super) fn marker(object: &str) -> Marker {
    let cluster = ClusterId::new("c1").unwrap();
    Marker::new(&cluster, &ObjectKey::cluster(object))
}

pub(super) fn declared() -> GroupBody {
    GroupBody {
        ipv6_enabled: true,
        enabled: true,
        ..GroupBody::default()
    }
}

/// What is known of a group that was made and never looked at since.
pub(in crate::group) fn facts() -> Facts {
    Facts {
        name: NAME.to_owned(),
        marker: marker(NAME),
        declared: declared(),
        policy: DriftPolicy::Enforce,
        adoption: None,
        deletion: DeletionPolicy::Delete,
        deleting: false,
        held: true,
        asked: false,
        generation: Some(1),
        status: ConnectionGroupStatus::default(),
        users: Users::default(),
        now: Timestamp::from_second(1000).unwrap(),
        elapsed: Duration::from_secs(1000),
        sweep: Duration::from_secs(300),
        random: 0.5,
    }
}

pub(super) struct World {
    pub(super) object: Facts,
    pub(super) gone: bool,
    pub(super) memory: Memory,
    pub(super) cloud: Model,
    /// When the next pass is due.
    pub(super) due: Duration,
    failures: u32,
    /// The process dies in the next pass, before anything is recorded.
    pub(super) dies: bool,
    pub(super) notes: Vec<Note>,
    pub(super) drifts: u32,
    pub(super) counted: Vec<&'static str>,
}

impl World {
    pub(super) fn new() -> Self {
        let object = Facts {
            held: false,
            ..facts()
        };
        Self {
            gone: false,
            memory: Memory::default(),
            cloud: Model::new(marker(NAME)),
            due: Duration::ZERO,
            failures: 0,
            dies: false,
            notes: Vec::new(),
            drifts: 0,
            counted: Vec::new(),
            object,
        }
    }

    /// Waits for the next look, and looks.
    pub(super) fn run(&mut self) {
        self.cloud.now = self.cloud.now.max(self.due);
        self.pass(false);
    }

    /// Runs until nothing is due for a minute, and to the end of a deployment.
    pub(super) fn settle(&mut self) {
        for _ in 0..40 {
            if self.gone {
                return;
            }
            self.run();
        }
    }

    /// An edit, and the pass it wakes.
    pub(super) fn edit(&mut self, edit: impl FnOnce(&mut Facts)) {
        edit(&mut self.object);
        self.object.generation = self.object.generation.map(|one| one + 1);
        self.cloud.forgive();
        self.pass(true);
    }

    pub(super) fn delete(&mut self) {
        self.edit(|object| object.deleting = true);
    }

    /// The process dies and another takes over.
    pub(super) fn crash(&mut self) {
        self.memory = Memory::default();
        self.failures = 0;
        self.due = self.cloud.now;
        self.cloud.forgive();
    }

    pub(super) fn pass(&mut self, asked_for: bool) {
        if self.gone {
            return;
        }
        self.cloud.adopts = self.object.adoption.is_some();
        self.cloud.on_record.clone_from(&self.object.status.id);
        let second = i64::try_from(self.cloud.now.as_secs()).unwrap();
        let facts = Facts {
            asked: asked_for,
            now: Timestamp::from_second(second).unwrap(),
            elapsed: self.cloud.now,
            ..self.object.clone()
        };
        let mut memory = self.memory.clone();
        let mut draft = Draft::new(&facts.status);
        if facts.asked {
            memory.trouble.forgive();
        }
        let ended = match first(&facts, &memory) {
            First::Nothing => {
                self.gone = true;
                return;
            }
            First::Hold => {
                self.object.held = true;
                self.due = self.cloud.now;
                return;
            }
            First::Announce => {
                apply::announce(&mut draft, &mut memory, &facts);
                Ended::Again
            }
            First::Wait(after) => Ended::After(after),
            First::InUse => {
                draft.not_ready(verdict::in_use(&facts));
                Ended::After(Duration::from_secs(300))
            }
            First::Release(note) => Ended::Released(note),
            First::Look(look) => {
                let work = asked(look, &facts, &mut memory, &mut draft, &mut self.cloud);
                work.now_or_never().expect("the model answers at once")
            }
        };
        if std::mem::take(&mut self.dies) {
            self.crash();
            return;
        }
        self.memory = memory;
        self.finish(draft, ended, &facts);
    }

    fn finish(&mut self, draft: Draft, ended: Ended, facts: &Facts) {
        self.drifts += u32::from(draft.drifted);
        self.counted.extend(&draft.counted);
        let (status, notes) = draft.finished(facts.generation, facts.now);
        self.notes.extend(notes);
        self.due = self.cloud.now;
        match ended {
            Ended::Again => self.object.status = status,
            Ended::After(after) => {
                self.object.status = status;
                self.failures = 0;
                self.due += after;
            }
            Ended::Released(note) => {
                self.notes.push(note);
                self.object.held = false;
                self.gone = true;
            }
            Ended::Failed(_) => {
                self.object.status = status;
                self.failures = (self.failures + 1).min(8);
                self.due += Duration::from_secs(1 << self.failures);
            }
        }
    }

    /// Reason of Ready, and whether it holds.
    pub(super) fn ready(&self) -> (String, bool) {
        self.condition(conditions::READY)
    }

    pub(super) fn synced(&self) -> (String, bool) {
        self.condition(conditions::SYNCED)
    }

    fn condition(&self, kind: &str) -> (String, bool) {
        let found = find(&self.object.status.conditions, kind);
        found.map_or_else(
            || ("none".to_owned(), false),
            |one| (one.reason.clone(), one.status == "True"),
        )
    }

    pub(super) fn told(&self, reason: &str) -> usize {
        let text = format!("reason: {reason:?}");
        let notes = self.notes.iter();
        notes
            .filter(|note| format!("{note:?}").contains(&text))
            .count()
    }
}
