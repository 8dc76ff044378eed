//! One row for each lock. Pure.

use engine::cli::Finding;
use serde_json::{Value, json};

use super::FoundLock;
use crate::record::journal::Journal;
use crate::record::names::short_run;

/// The columns.
pub(super) const COLUMNS: &[&str] = &[
    "side",
    "lock",
    "state",
    "run",
    "migration",
    "phase",
    "moved",
    "ordinal",
    "step",
    "problem",
];

/// The row of a lock. The full form has spec and journal.
pub(super) fn finding(lock: &FoundLock) -> Finding {
    let stored = &lock.stored;
    let parsed = Journal::parse(&stored.journal);
    let (mut phase, mut moved, mut ordinal, mut step) = Default::default();
    if let Ok(journal) = &parsed {
        let record = journal.record();
        let total = record.total_replicas.unwrap_or_default();
        phase = record
            .phase
            .map(|phase| phase.to_string())
            .unwrap_or_default();
        moved = format!("{}/{total}", record.current_index);
        if let Some(intent) = &record.intent {
            step = intent.step.to_string();
            ordinal = intent
                .ordinal
                .map(|one| one.to_string())
                .unwrap_or_default();
        }
    }
    let problem = parsed
        .as_ref()
        .err()
        .map(ToString::to_string)
        .unwrap_or_default();
    let name = crate::migration::extract::name(&lock.object);
    let title = format!("{}/{name}", lock.namespace);
    let json_of = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|_| json!(text));
    let full = json!({
        "side": lock.side.as_str(),
        "namespace": lock.namespace,
        "name": name,
        "state": stored.state,
        "run": stored.holder,
        "migration": stored.object,
        "managementCluster": stored.cluster,
        "spec": json_of(&stored.spec),
        "journal": json_of(&stored.journal),
        "problem": problem,
    });
    Finding {
        name: format!("ConfigMap/{title}"),
        cells: vec![
            lock.side.to_string(),
            title,
            stored.state.clone(),
            short_run(&stored.holder),
            stored.object.clone(),
            phase,
            moved,
            ordinal,
            step,
            problem,
        ],
        full,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::journal::found_lock;
    use crate::migration::observation::Side;

    fn row(journal: &Value) -> Finding {
        let object = json!({
            "metadata": {"name": "stsm-web", "namespace": "shop"},
            "data": {
                "holder": "0f2b1f0e-6f0a", "object": "ops/move-web", "managementCluster": "m", "state": "Active",
                "spec": "{\"retry\":1}", "journal": journal.to_string(),
            },
        });
        finding(&found_lock(Side::Source, "shop", object))
    }

    #[test]
    fn a_lock_is_one_row() {
        let intent = json!({"step": "grow", "ordinal": 1, "token": "7", "at": "2026-01-01T00:00:00.000000Z"});
        let record = json!({"phase": "MigratingPods", "currentIndex": 1, "totalReplicas": 3, "intent": intent});
        let finding = row(&json!({"version": 1, "record": record}));
        let expected = [
            "source",
            "shop/stsm-web",
            "Active",
            "0f2b1f0e",
            "ops/move-web",
            "MigratingPods",
            "1/3",
            "1",
            "grow",
            "",
        ];
        assert_eq!(finding.cells, expected);
        assert_eq!(finding.full["journal"]["record"]["phase"], "MigratingPods");
        assert_eq!(finding.full["spec"]["retry"], 1);
        assert_eq!(finding.cells.len(), COLUMNS.len());
    }

    #[test]
    fn a_journal_that_cannot_be_read_is_a_row_too() {
        let finding = row(&json!({"version": 9}));
        assert!(finding.cells[9].contains("found version 9"), "{finding:?}");
        assert_eq!(finding.full["journal"]["version"], 9);
    }
}
