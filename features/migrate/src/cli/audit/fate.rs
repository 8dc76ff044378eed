//! What has become of a run. Pure.

use std::fmt;

use api::migrate::{FailReason, Phase, StatefulSetMigration};

use crate::record::lock::StoredLock;

/// What has become of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RunFate {
    /// Its migration is here, and the run goes on or may at any time.
    Ongoing(String),
    /// Its migration is here, and the run is over.
    Over(String),
    /// No migration of it exists.
    Lost,
    /// Its migration is in another cluster, whose identity this is.
    Elsewhere(String),
}

impl RunFate {
    /// | migration of this run here       | its lock                      | fate      |
    /// |----------------------------------|-------------------------------|-----------|
    /// | completed, rolled back or left   | any                           | over      |
    /// | any other                        | any                           | ongoing   |
    /// | none                             | names another cluster         | elsewhere |
    /// | none                             | names this cluster, or none   | lost      |
    ///
    /// A run without locks writes nothing, so one without locks and without migration here cannot be ongoing.
    pub(super) fn of(
        run: &str,
        migrations: &[StatefulSetMigration],
        locks: &[&StoredLock],
        management: &str,
    ) -> Self {
        let mut own = migrations.iter().filter(|one| has_run(one, run));
        if let Some(migration) = own.next() {
            return fate_here(migration);
        }
        let mut foreign = locks.iter().filter(|lock| lock.holder == run);
        let foreign = foreign.find(|lock| !lock.cluster.is_empty() && lock.cluster != management);
        foreign.map_or(Self::Lost, |lock| Self::Elsewhere(lock.cluster.clone()))
    }

    /// Whether nobody will go on with the run.
    pub(super) fn is_ended(&self) -> bool {
        match self {
            Self::Over(_) | Self::Lost => true,
            Self::Ongoing(_) | Self::Elsewhere(_) => false,
        }
    }
}

fn has_run(migration: &StatefulSetMigration, run: &str) -> bool {
    let status = migration.status.as_ref();
    let recorded = status.and_then(|status| status.run_id.as_deref());
    recorded == Some(run) || (recorded.is_none() && migration.metadata.uid.as_deref() == Some(run))
}

fn fate_here(migration: &StatefulSetMigration) -> RunFate {
    let metadata = &migration.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let name = format!(
        "{namespace}/{}",
        metadata.name.as_deref().unwrap_or_default()
    );
    let status = migration.status.clone().unwrap_or_default();
    let is_left = status.failure == Some(FailReason::AbortedLeave);
    if is_left || status.phase.is_some_and(Phase::is_over) {
        RunFate::Over(name)
    } else {
        RunFate::Ongoing(name)
    }
}

impl fmt::Display for RunFate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ongoing(name) => write!(f, "its run goes on: StatefulSetMigration {name}"),
            Self::Over(name) => write!(f, "its run is over: StatefulSetMigration {name}"),
            Self::Lost => f.write_str("its run is lost: no StatefulSetMigration of it exists"),
            Self::Elsewhere(cluster) => write!(
                f,
                "its migration is in the cluster with kube-system UID {cluster}; run audit there"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::cli::tests::migration;

    const RUN: &str = "run-1";

    fn lock(holder: &str, cluster: &str) -> StoredLock {
        StoredLock {
            holder: holder.to_owned(),
            cluster: cluster.to_owned(),
            ..StoredLock::default()
        }
    }

    fn ongoing() -> RunFate {
        RunFate::Ongoing("ops/move-web".to_owned())
    }

    fn over() -> RunFate {
        RunFate::Over("ops/move-web".to_owned())
    }

    #[rstest]
    #[case::moving(json!({"runId": RUN, "phase": "MigratingPods"}), None, ongoing())]
    #[case::failed(json!({"runId": RUN, "phase": "Failed", "failure": "AttachTimeout"}), None, ongoing())]
    #[case::left(json!({"runId": RUN, "phase": "Failed", "failure": "AbortedLeave"}), None, over())]
    #[case::completed(json!({"runId": RUN, "phase": "Completed"}), None, over())]
    #[case::of_another_run(json!({"runId": "run-2", "phase": "Completed"}), None, RunFate::Lost)]
    #[case::with_a_lock_of_this_cluster(json!({"runId": "run-2"}), Some(lock(RUN, "here")), RunFate::Lost)]
    #[case::with_a_lock_without_cluster(json!({"runId": "run-2"}), Some(lock(RUN, "")), RunFate::Lost)]
    #[case::with_a_lock_of_another_cluster(
        json!({"runId": "run-2"}), Some(lock(RUN, "there")), RunFate::Elsewhere("there".to_owned()))]
    #[case::with_a_lock_of_another_run(json!({"runId": "run-2"}), Some(lock("run-3", "there")), RunFate::Lost)]
    #[case::here_with_a_lock_of_another_cluster(
        json!({"runId": RUN, "phase": "MigratingPods"}), Some(lock(RUN, "there")), ongoing())]
    fn a_run_has_a_fate(
        #[case] status: Value,
        #[case] lock: Option<StoredLock>,
        #[case] expected: RunFate,
    ) {
        let migrations = [migration(json!({}), status)];
        let locks: Vec<&StoredLock> = lock.iter().collect();
        assert_eq!(RunFate::of(RUN, &migrations, &locks, "here"), expected);
    }

    #[test]
    fn a_migration_that_has_not_begun_is_found_by_its_uid() {
        let migrations = [migration(json!({}), json!(null))];
        assert_eq!(RunFate::of("uid-1", &migrations, &[], "here"), ongoing());
    }
}
