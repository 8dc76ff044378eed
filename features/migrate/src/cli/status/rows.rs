//! One row for each migration. Pure.

use api::migrate::{Location, StatefulSetMigration, StatefulSetMigrationStatus, StepName};
use engine::Stored;
use engine::cli::{Finding, ReadyCondition, StatusRow};
use jiff::Timestamp;
use kernel::ObjectKey;
use serde_json::json;

use super::time;
use crate::cli::run_state::RunState;
use crate::cli::session::kind;

/// The columns; the first two name the object.
pub(super) const COLUMNS: &[&str] = &columns("age");
/// The same for `--watch`, where an age would be a change by itself.
pub(super) const WATCH_COLUMNS: &[&str] = &columns("created");

const fn columns(last: &'static str) -> [&'static str; 10] {
    [
        "namespace",
        "name",
        "phase",
        "progress",
        "total",
        "ordinal",
        "step",
        "ready",
        "reason",
        last,
    ]
}

/// The row of an object. Without `now` the last cell is the time of its creation.
pub(super) fn of_stored(stored: &Stored, now: Option<Timestamp>) -> StatusRow {
    match stored.parse::<StatefulSetMigration>(&kind()) {
        Ok(migration) => row(stored.key(), &migration, now),
        Err(error) => unreadable(stored.key(), &error.to_string()),
    }
}

/// The row of a migration.
pub(super) fn row(
    key: &ObjectKey,
    migration: &StatefulSetMigration,
    now: Option<Timestamp>,
) -> StatusRow {
    let metadata = &migration.metadata;
    let status = migration.status.clone().unwrap_or_default();
    let ReadyCondition {
        is_ready,
        reason,
        message,
    } = ReadyCondition::new(&status.conditions, metadata.generation);
    let created = metadata.creation_timestamp.as_ref().map(|time| time.0);
    let age = match (created, now) {
        (None, _) => String::new(),
        (Some(created), None) => created.to_string(),
        (Some(created), Some(now)) => time::age(created, now),
    };
    let (step, ordinal) = current_step(&status);
    let phase = status.phase.map(|phase| phase.to_string());
    let shown = |number: Option<i32>| number.map(|number| number.to_string()).unwrap_or_default();
    let cells = vec![
        namespace(key),
        key.name.to_string(),
        phase.clone().unwrap_or_default(),
        status.current_index.to_string(),
        shown(status.total_replicas),
        shown(ordinal),
        step.map(|step| step.to_string()).unwrap_or_default(),
        if is_ready { "yes" } else { "no" }.to_owned(),
        reason.clone(),
        age,
    ];
    let full = json!({
        "phase": phase,
        "state": RunState::of(migration).as_str(),
        "currentIndex": status.current_index,
        "totalReplicas": status.total_replicas,
        "ordinal": ordinal,
        "step": step,
        "ready": is_ready,
        "reason": reason,
        "message": message,
        "created": created,
    });
    StatusRow {
        is_ready,
        finding: Finding::about("StatefulSetMigration", key, cells, full),
    }
}

/// The step that a run is at: the announced one, or that of the ordinal on its way.
fn current_step(status: &StatefulSetMigrationStatus) -> (Option<StepName>, Option<i32>) {
    if let Some(intent) = &status.intent {
        return (Some(intent.step), intent.ordinal);
    }
    let mut ordinals = status.ordinals.iter();
    let moving = ordinals.find(|record| record.location == Location::Moving);
    moving.map_or((None, None), |record| (record.step, Some(record.ordinal)))
}

/// The row of an object that this version of Pontoon does not understand.
fn unreadable(key: &ObjectKey, error: &str) -> StatusRow {
    let cells = COLUMNS.iter().map(|column| match *column {
        "namespace" => namespace(key),
        "name" => key.name.to_string(),
        "ready" => "no".to_owned(),
        "reason" => "Unreadable".to_owned(),
        _ => String::new(),
    });
    let cells = cells.collect();
    let full = json!({"ready": false, "reason": "Unreadable", "message": error});
    StatusRow {
        is_ready: false,
        finding: Finding::about("StatefulSetMigration", key, cells, full),
    }
}

fn namespace(key: &ObjectKey) -> String {
    key.namespace.as_deref().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use engine::Projection;
    use rstest::rstest;
    use serde_json::Value;

    use super::*;
    use crate::cli::tests::{key, migration};

    const NOW: &str = "2026-01-01T01:00:00Z";

    fn cells(status: Value) -> Vec<String> {
        let now = NOW.parse().ok();
        row(&key(), &migration(json!({}), status), now)
            .finding
            .cells
    }

    fn ready(reason: &str, is: &str) -> Value {
        json!([{
            "type": "Ready", "status": is, "reason": reason, "message": "as expected",
            "lastTransitionTime": NOW, "observedGeneration": 2,
        }])
    }

    #[rstest]
    #[case::new(json!(null), "ops move-web  0    no NotLookedAt 1h")]
    #[case::frozen(
        json!({"phase": "FreezingSource", "totalReplicas": 3, "intent": {"step": "hydrate", "token": "1", "at": NOW},
            "conditions": ready("FreezingSource", "False")}),
        "ops move-web FreezingSource 0 3  hydrate no FreezingSource 1h")]
    #[case::announced(
        json!({"phase": "MigratingPods", "currentIndex": 1, "totalReplicas": 3,
            "intent": {"step": "release", "ordinal": 1, "token": "1", "at": NOW},
            "conditions": ready("MigratingPods", "False")}),
        "ops move-web MigratingPods 1 3 1 release no MigratingPods 1h")]
    #[case::waiting(
        json!({"phase": "MigratingPods", "totalReplicas": 3,
            "ordinals": [{"ordinal": 0, "place": "Moving", "step": "detach"}],
            "conditions": ready("DetachBusy", "False")}),
        "ops move-web MigratingPods 0 3 0 detach no DetachBusy 1h")]
    #[case::completed(
        json!({"phase": "Completed", "currentIndex": 3, "totalReplicas": 3, "conditions": ready("Completed", "True")}),
        "ops move-web Completed 3 3   yes Completed 1h")]
    fn a_migration_is_one_row(#[case] status: Value, #[case] expected: &str) {
        assert_eq!(cells(status).join(" "), expected);
    }

    #[test]
    fn the_full_form_has_the_message_and_the_state() {
        let status = json!({"phase": "Completed", "conditions": ready("Completed", "True")});
        let full = row(&key(), &migration(json!({}), status), None)
            .finding
            .full;
        assert_eq!(full["message"], "as expected");
        assert_eq!(full["state"], "Ended");
        assert_eq!(full["name"], "move-web");
    }

    #[test]
    fn a_watched_row_has_no_age() {
        let row = row(&key(), &migration(json!({}), json!(null)), None);
        assert_eq!(row.finding.cells[9], "2026-01-01T00:00:00Z");
    }

    #[test]
    fn an_object_of_a_newer_version_is_a_row_too() {
        let object = json!({
            "metadata": {"namespace": "ops", "name": "move-web"},
            "spec": {"strategy": "Teleport"},
        });
        let stored = Stored::read(&kind(), &object.to_string(), &Projection::Full).unwrap();
        let row = of_stored(&stored, None);
        assert!(!row.is_ready);
        assert_eq!(row.finding.cells[8], "Unreadable");
        assert_eq!(row.finding.cells.len(), COLUMNS.len());
    }
}
