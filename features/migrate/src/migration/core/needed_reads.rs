//! What a pass has to read before it can decide: connections, then the caches or the API servers. Pure.

use api::migrate::{HoldReason, StallReason, StatefulSetMigrationSpec, reasons};

use super::decide::{Deciding, PAUSE, Sides};
use super::decided::{Decided, Move, Situation};
use super::{Connection, LiveMigration, Read, Scope};
use crate::migration::decision::{Decision, Interference};
use crate::migration::observation::Side;
use crate::migration::pass::Next;
use crate::record::names::capture_name;

impl<'a> Deciding<'a> {
    /// Both clusters: the caches if they show a wait, else the API servers.
    pub(super) fn sides(&self) -> Result<Option<Sides<'a>>, Box<Decided>> {
        let observed = &self.world.observed;
        if let Some(decided) = self.connection_problem() {
            return Err(Box::new(decided));
        }
        let unconnected = Side::BOTH
            .into_iter()
            .filter(|side| !observed.connections.contains_key(side));
        let connect: Vec<Read> = unconnected.map(|side| self.connect(side)).collect();
        if !connect.is_empty() {
            return Err(Box::new(self.copy().goes_on(Move::Read(connect))));
        }
        if let Some(live) = self.live() {
            if let Some(decided) = self.edited_meanwhile() {
                return Err(Box::new(decided));
            }
            return Ok(Some(live));
        }
        if let Some(cached) = self.cached().filter(|_| self.is_checked.is_none())
            && self.shows_wait(&cached)
        {
            return Ok(Some(cached));
        }
        Err(Box::new(self.copy().goes_on(Move::Read(self.live_reads()))))
    }

    pub(super) fn connect(&self, side: Side) -> Read {
        let (access, pinned) = match side {
            Side::Source => (&self.spec.source_cluster, &self.record.source_cluster_uid),
            Side::Destination => (&self.spec.dest_cluster, &self.record.dest_cluster_uid),
        };
        Read::Connection {
            side,
            access: access.clone(),
            pinned: pinned.clone(),
        }
    }

    pub(super) fn live_reads(&self) -> Vec<Read> {
        let capture = capture_name(&self.spec.stateful_set_name, &self.run_id());
        let documents = Side::BOTH.map(|side| Read::Documents {
            side,
            scope: self.scope(side),
        });
        let observed = &self.world.observed;
        let all = [Read::Migration, Read::Capture(capture)]
            .into_iter()
            .chain(documents);
        let missing = all.filter(|read| match read {
            Read::Migration => observed.migration.is_none(),
            Read::Capture(_) => observed.capture.is_none(),
            Read::Documents { side, .. } => !observed.documents.contains_key(side),
            Read::Connection { .. }
            | Read::Disks { .. }
            | Read::Snapshots { .. }
            | Read::Survey { .. } => true,
        });
        missing.collect()
    }

    /// Which objects of a cluster the run reads.
    pub(super) fn scope(&self, side: Side) -> Scope {
        scope(self.spec, &self.run_id(), side)
    }

    pub(super) fn run_id(&self) -> String {
        let recorded = self.record.run_id.clone();
        recorded.unwrap_or_else(|| self.owner.uid.clone())
    }

    pub(super) fn is_live(&self) -> bool {
        self.live().is_some()
    }

    pub(super) fn live(&self) -> Option<Sides<'a>> {
        let observed = &self.world.observed;
        observed.migration.as_ref()?;
        Some(Sides {
            source: observed.documents.get(&Side::Source)?,
            destination: observed.documents.get(&Side::Destination)?,
            capture: observed.capture.as_ref()?.as_ref(),
        })
    }

    /// After a change of this pass, the caches are old.
    pub(super) fn cached(&self) -> Option<Sides<'a>> {
        let facts = &self.world.facts;
        let is_unchanged = self.world.observed.changes.is_empty();
        Some(Sides {
            source: facts.documents.get(&Side::Source)?,
            destination: facts.documents.get(&Side::Destination)?,
            capture: facts.capture.as_ref(),
        })
        .filter(|_| is_unchanged)
    }

    /// A wait, or a read of EC2, may be decided on the caches.
    pub(super) fn shows_wait(&self, cached: &Sides<'_>) -> bool {
        match self.plan(Some(cached)).next {
            Next::Decided(
                Decision::Wait(_) | Decision::ReadDisks { .. } | Decision::ReadSnapshots { .. },
            ) => true,
            Next::Decided(
                Decision::Done | Decision::Act(_) | Decision::Hold(_) | Decision::Fail(_),
            )
            | Next::Check
            | Next::Continue
            | Next::Mirror(_)
            | Next::Paused
            | Next::AwaitAbort
            | Next::Rest
            | Next::Release => false,
        }
    }

    /// Somebody has edited, paused or deleted the migration after this pass has begun: the next pass sees it.
    pub(super) fn edited_meanwhile(&self) -> Option<Decided> {
        let live = self.world.observed.migration.as_ref()?;
        let object = &self.world.object;
        let seen = LiveMigration {
            uid: self.owner.uid.clone(),
            generation: object.generation(),
            is_deleting: object.is_deleting(),
            is_paused: self.is_paused(),
            token: object
                .status
                .intent
                .as_ref()
                .map(|intent| intent.token.clone()),
        };
        if live.as_ref() == Some(&seen) {
            return None;
        }
        let message = "the migration has changed since this pass began".to_owned();
        Some(self.copy().ends(
            Move::Wait(PAUSE),
            Situation::Progressing,
            reasons::PROGRESSING,
            message,
        ))
    }

    /// | kubeconfig of one cluster          | so                                          |
    /// |------------------------------------|---------------------------------------------|
    /// | leads to another cluster           | hold: ends when it leads to the right one   |
    /// | may not be used                    | wait; a stall after a minute                |
    pub(super) fn connection_problem(&self) -> Option<Decided> {
        self.world
            .observed
            .connections
            .iter()
            .find_map(|(side, connection)| match connection {
                Connection::Cluster(_) => None,
                Connection::Moved(message) => Some(self.copy().on_hold(Interference {
                    reason: HoldReason::IdentityChanged,
                    ordinal: None,
                    message: message.clone(),
                })),
                Connection::Refused(message) => {
                    let message = format!("kubeconfig of the {side}: {message}");
                    let step = self.step();
                    Some(self.copy().outage(step, StallReason::AuthFailed, message))
                }
            })
    }
}

/// Which objects of a cluster a run reads.
pub(super) fn scope(spec: &StatefulSetMigrationSpec, run: &str, side: Side) -> Scope {
    let set = &spec.stateful_set_name;
    let (namespace, capture) = match side {
        Side::Source => (&spec.source_namespace, Some(capture_name(set, run))),
        Side::Destination => (&spec.dest_namespace, None),
    };
    Scope {
        namespace: namespace.clone(),
        set: set.clone(),
        capture,
    }
}
