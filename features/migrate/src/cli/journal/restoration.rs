//! A lost migration, as its locks restore it. Pure.

use api::migrate::StatefulSetMigration;
use engine::cli::Finding;
use kernel::{ObjectKey, PAUSED};
use serde_json::json;

use super::FoundLock;
use crate::migration::observation::Side;
use crate::record::journal::{self, Journal};
use crate::record::lock::{Lock, LockIdentity, LockPhase};

/// The columns of the answer.
pub(super) const COLUMNS: &[&str] = &["namespace", "name", "run", "phase", "from"];

/// A migration that can be created again.
#[derive(Debug)]
pub(super) struct Restoration {
    /// With its status, and paused by annotation.
    pub(super) migration: StatefulSetMigration,
    /// The cluster whose lock has the newer journal.
    pub(super) from: Side,
    phase: LockPhase,
}

/// What exists under the name of the lost migration.
#[derive(Debug)]
pub(super) enum Existing {
    /// Nothing.
    Missing,
    /// What an interrupted restore has left before its status was written.
    WithoutStatus(Box<StatefulSetMigration>),
    /// The restored migration, or the one that was never lost.
    Restored(Box<StatefulSetMigration>),
    /// Another migration, for this reason.
    Foreign(String),
}

impl Restoration {
    /// The migration of the newer journal.
    ///
    /// | locks                     | migration                          |
    /// |---------------------------|------------------------------------|
    /// | one                       | of this one                        |
    /// | two of one run            | of the newer one that can be read  |
    /// | two of different runs     | refused                            |
    pub(super) fn of(locks: &[FoundLock]) -> Result<Self, String> {
        let lock = match locks {
            [one] => one,
            [source, destination] if source.stored.holder == destination.stored.holder => {
                let newest = journal::newest(&source.stored, &destination.stored);
                if std::ptr::eq(newest, &raw const source.stored) {
                    source
                } else {
                    destination
                }
            }
            [source, destination, ..] => {
                return Err(format!(
                    "the lock in the source is of run {}, and that in the destination of run {}; pontoon migrate \
                     audit shows what is left of each",
                    source.stored.holder, destination.stored.holder
                ));
            }
            [] => return Err("there is no lock".to_owned()),
        };
        let migration = journal::restore(&lock.stored).map_err(|error| {
            format!("the lock in the {} cannot be restored: {error}", lock.side)
        })?;
        Ok(Self {
            migration,
            from: lock.side,
            phase: lock.stored.phase(),
        })
    }

    /// Namespace and name of the migration.
    pub(super) fn key(&self) -> ObjectKey {
        let metadata = &self.migration.metadata;
        let name = metadata.name.as_deref().unwrap_or_default();
        ObjectKey::of(metadata.namespace.as_deref(), name)
    }

    /// The id of the run.
    pub(super) fn run(&self) -> &str {
        let status = self.migration.status.as_ref();
        let run = status.and_then(|status| status.run_id.as_deref());
        run.unwrap_or_default()
    }

    /// The object to create.
    pub(super) fn without_status(&self) -> StatefulSetMigration {
        StatefulSetMigration {
            status: None,
            ..self.migration.clone()
        }
    }

    /// | found                                    | result         |
    /// |------------------------------------------|----------------|
    /// | nothing                                  | missing        |
    /// | our run                                  | restored       |
    /// | another run                              | foreign        |
    /// | no run, paused, and with the same spec   | without status |
    /// | no run, any other                        | foreign        |
    pub(super) fn existing(&self, found: Option<&StatefulSetMigration>) -> Existing {
        let Some(found) = found else {
            return Existing::Missing;
        };
        let run = found
            .status
            .as_ref()
            .and_then(|status| status.run_id.as_deref());
        let annotations = found.metadata.annotations.as_ref();
        let is_paused = annotations.is_some_and(|all| all.contains_key(PAUSED));
        let (key, found) = (self.key(), Box::new(found.clone()));
        match run {
            Some(run) if run == self.run() => Existing::Restored(found),
            Some(run) => Existing::Foreign(format!(
                "StatefulSetMigration {key} exists, and is of run {run}; delete or finish it first"
            )),
            None if is_paused && found.spec == self.migration.spec => {
                Existing::WithoutStatus(found)
            }
            None => Existing::Foreign(format!(
                "StatefulSetMigration {key} exists, and has not begun a run; delete it first"
            )),
        }
    }

    /// The lock of the restored migration in this management cluster.
    pub(super) fn lock(&self, management: &str) -> Result<Lock, String> {
        let identity = LockIdentity {
            run_id: self.run().to_owned(),
            cluster: management.to_owned(),
            object: self.key().to_string(),
        };
        let status = self.migration.status.clone().unwrap_or_default();
        let lock = Lock::of(
            identity,
            self.phase,
            &self.migration.spec,
            &Journal::of(&status),
        );
        lock.map_err(|error| error.to_string())
    }

    /// What is written beside the locks.
    pub(super) fn lines(&self, existing: &Existing) -> Vec<String> {
        let phase = self.phase_text();
        let first = match existing {
            Existing::Missing => "create the migration and write its status",
            Existing::WithoutStatus(_) => {
                "write the status of the migration, which exists without one"
            }
            Existing::Restored(_) => "let the migration go on, which exists already",
            Existing::Foreign(_) => "nothing",
        };
        vec![format!("{first}: phase {phase}")]
    }

    /// The row of the answer.
    pub(super) fn finding(&self) -> Finding {
        let (key, phase) = (self.key(), self.phase_text());
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let cells = [namespace, &key.name, self.run(), &phase, self.from.as_str()];
        let cells = cells.map(str::to_owned).into();
        let full = json!({"run": self.run(), "phase": phase, "from": self.from.as_str()});
        Finding::about("StatefulSetMigration", &key, cells, full)
    }

    fn phase_text(&self) -> String {
        let phase = self
            .migration
            .status
            .as_ref()
            .and_then(|status| status.phase);
        phase.map(|phase| phase.to_string()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::Value;

    use super::*;
    use crate::cli::journal::found_lock;
    use crate::cli::tests::migration;
    use crate::record::lock::{LockAction, LockGoal, next_action};

    const RUN: &str = "0f2b1f0e-6f0a-4c9e-9d55-5a3d1c6a7b11";

    fn lost(run: &str, second: u32) -> StatefulSetMigration {
        let at = format!("2026-01-01T00:00:{second:02}.000000Z");
        let intent = json!({"step": "grow", "ordinal": 1, "token": "7", "at": at});
        let status =
            json!({"phase": "MigratingPods", "started": true, "runId": run, "intent": intent});
        migration(json!({}), status)
    }

    fn lock(side: Side, run: &str, second: u32) -> FoundLock {
        let lost = lost(run, second);
        let identity = LockIdentity {
            run_id: run.to_owned(),
            cluster: "management".to_owned(),
            object: "ops/move-web".to_owned(),
        };
        let journal = Journal::of(lost.status.as_ref().unwrap());
        let lock = Lock::of(identity, LockPhase::Active, &lost.spec, &journal).unwrap();
        found_lock(side, "shop", json!(lock.config_map("shop", "web")))
    }

    fn both(seconds: [u32; 2]) -> [FoundLock; 2] {
        let [source, destination] = seconds;
        [
            lock(Side::Source, RUN, source),
            lock(Side::Destination, RUN, destination),
        ]
    }

    #[rstest]
    #[case::the_source_is_newer(vec![lock(Side::Source, RUN, 9), lock(Side::Destination, RUN, 8)], Side::Source)]
    #[case::the_destination_is_newer(vec![lock(Side::Source, RUN, 8), lock(Side::Destination, RUN, 9)], Side::Destination)]
    #[case::only_the_destination(vec![lock(Side::Destination, RUN, 9)], Side::Destination)]
    fn the_newer_journal_is_restored(#[case] locks: Vec<FoundLock>, #[case] from: Side) {
        let restored = Restoration::of(&locks).unwrap();
        assert_eq!(restored.from, from);
        assert_eq!(restored.run(), RUN);
        assert_eq!(restored.key().to_string(), "ops/move-web");
        assert_eq!(restored.without_status().status, None);
    }

    #[test]
    fn locks_of_two_runs_are_refused() {
        let locks = [
            lock(Side::Source, RUN, 9),
            lock(Side::Destination, "other", 9),
        ];
        let why = Restoration::of(&locks).unwrap_err();
        assert!(why.contains("of run other"), "{why}");
    }

    fn paused(change: Value) -> Option<StatefulSetMigration> {
        let found = json!(Restoration::of(&both([8, 9])).unwrap().without_status());
        serde_json::from_value(engine::merged(&found, &change)).ok()
    }

    #[rstest]
    #[case::nothing(None, "missing")]
    #[case::our_run(paused(json!({"status": {"runId": RUN}})), "restored")]
    #[case::another_run(paused(json!({"status": {"runId": "other"}})), "foreign")]
    #[case::an_interrupted_restore(paused(json!({})), "without status")]
    #[case::not_paused(paused(json!({"metadata": {"annotations": null}})), "foreign")]
    #[case::another_spec(paused(json!({"spec": {"retry": 5}})), "foreign")]
    fn what_exists_is_compared(
        #[case] found: Option<StatefulSetMigration>,
        #[case] expected: &str,
    ) {
        let restored = Restoration::of(&both([8, 9])).unwrap();
        let existing = match restored.existing(found.as_ref()) {
            Existing::Missing => "missing",
            Existing::WithoutStatus(_) => "without status",
            Existing::Restored(_) => "restored",
            Existing::Foreign(_) => "foreign",
        };
        assert_eq!(existing, expected);
    }

    #[rstest]
    #[case::in_the_same_cluster("management", LockAction::Nothing)]
    #[case::in_another_cluster("new management", LockAction::Rewrite)]
    fn locks_follow_the_management_cluster(#[case] management: &str, #[case] expected: LockAction) {
        let locks = both([9, 9]);
        let wanted = Restoration::of(&locks).unwrap().lock(management).unwrap();
        assert_eq!(
            next_action(LockGoal::Restore, Some(&locks[0].stored), &wanted),
            expected
        );
    }
}
