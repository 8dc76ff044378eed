//! What a verb changes of a migration, and what follows from it. Pure.

use api::migrate::{
    Abort, CleanupPolicy, Location, Phase, StatefulSetMigration, StatefulSetMigrationStatus,
};
use kernel::PAUSED;
use serde_json::{Value, json};

/// A change of a spec that a verb stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpecEdit {
    /// A planned migration begins.
    Start,
    /// The run stops when no ordinal is on its way.
    Pause,
    /// It goes on after a pause.
    Resume,
    /// It goes on after a failure or hold.
    Retry,
    /// Every ordinal goes back.
    Rollback,
    /// Everything stays where it is.
    Leave,
}

/// What a verb would do.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum EditPlan {
    /// The spec says so already.
    Nothing(String),
    /// The migration does not allow it.
    Refused(String),
    /// The merge patch, and what it changes, for people.
    Patch { patch: Value, lines: Vec<String> },
}

impl SpecEdit {
    /// | verb     | migration                                  | plan                            |
    /// |----------|--------------------------------------------|---------------------------------|
    /// | start    | dryRun                                     | dryRun: false                   |
    /// | start    | not dryRun                                 | nothing                         |
    /// | pause    | over                                       | refused                         |
    /// | pause    | paused                                     | nothing                         |
    /// | pause    | any other                                  | paused: true                    |
    /// | resume   | paused by spec or annotation               | both removed                    |
    /// | resume   | any other                                  | nothing                         |
    /// | retry    | over                                       | refused                         |
    /// | retry    | any other                                  | retry raised by one             |
    /// | rollback | abort is Rollback                          | nothing                         |
    /// | rollback | rolled back, or clean-up has begun         | refused                         |
    /// | rollback | completed, and the source was not kept     | refused                         |
    /// | rollback | any other                                  | abort: Rollback                 |
    /// | leave    | abort is Leave                             | nothing                         |
    /// | leave    | abort is Rollback, or over                 | refused                         |
    /// | leave    | any other                                  | abort: Leave                    |
    pub(super) fn plan(self, migration: &StatefulSetMigration) -> EditPlan {
        match self {
            Self::Start => start(migration),
            Self::Pause => pause(migration),
            Self::Resume => resume(migration),
            Self::Retry => retry(migration),
            Self::Rollback => rollback(migration),
            Self::Leave => leave(migration),
        }
    }
}

fn start(migration: &StatefulSetMigration) -> EditPlan {
    if !migration.spec.dry_run {
        return nothing("spec.dryRun is false already: the run goes on by itself");
    }
    let spec = &migration.spec;
    let mut lines = vec![
        "spec.dryRun: true -> false".to_owned(),
        format!(
            "StatefulSet {} moves from {} in the source to {} in the destination, one ordinal at a time.",
            spec.stateful_set_name, spec.source_namespace, spec.dest_namespace
        ),
    ];
    if phase(migration) != Some(Phase::Planned) {
        lines.push(
            "Its checks have not passed yet; they run again before anything moves.".to_owned(),
        );
    }
    change("dryRun", json!(false), lines)
}

fn pause(migration: &StatefulSetMigration) -> EditPlan {
    if let Some(why) = over(migration) {
        return EditPlan::Refused(why);
    }
    if migration.spec.paused {
        return nothing("spec.paused is true already");
    }
    let lines = vec![
        "spec.paused: false -> true".to_owned(),
        "An ordinal on its way is finished first; then nothing is written.".to_owned(),
    ];
    change("paused", json!(true), lines)
}

fn resume(migration: &StatefulSetMigration) -> EditPlan {
    let annotations = migration.metadata.annotations.as_ref();
    let is_annotated = annotations.is_some_and(|all| all.contains_key(PAUSED));
    let mut patch = json!({});
    let mut lines = Vec::new();
    if migration.spec.paused {
        patch["spec"] = json!({"paused": false});
        lines.push("spec.paused: true -> false".to_owned());
    }
    if is_annotated {
        patch["metadata"] = json!({"annotations": {PAUSED: null}});
        lines.push(format!("annotation {PAUSED}: removed"));
    }
    if !lines.is_empty() {
        return EditPlan::Patch { patch, lines };
    }
    let hold = migration.status.as_ref().and_then(|status| status.hold);
    match hold {
        Some(hold) => nothing(format!(
            "nothing asks for a pause; the run holds because of {}: remove the cause, then \
             pontoon migrate retry",
            hold.reason
        )),
        None => nothing("nothing asks for a pause"),
    }
}

fn retry(migration: &StatefulSetMigration) -> EditPlan {
    if let Some(why) = over(migration) {
        return EditPlan::Refused(why);
    }
    let (now, status) = (migration.spec.retry, status(migration));
    let next = now.saturating_add(1);
    let why = match (&status.hold, status.failure) {
        (Some(hold), _) => format!(
            "The run goes on after its hold {} if the cause is gone.",
            hold.reason
        ),
        (None, Some(failure)) => format!("The run goes on after its failure {failure}."),
        (None, None) => {
            "The run has neither failed nor is it on hold, so nothing waits for this.".to_owned()
        }
    };
    let lines = vec![format!("spec.retry: {now} -> {next}"), why];
    change("retry", json!(next), lines)
}

fn rollback(migration: &StatefulSetMigration) -> EditPlan {
    let status = status(migration);
    if migration.spec.abort == Some(Abort::Rollback) {
        return nothing("spec.abort is Rollback already");
    }
    let keeps = migration.spec.source_cleanup.policy == CleanupPolicy::Keep;
    let is_completed = status.phase == Some(Phase::Completed);
    if status.phase == Some(Phase::RolledBack) {
        return EditPlan::Refused("it is rolled back".to_owned());
    }
    if status.cleanup_started || (is_completed && !keeps) {
        let why = "the source is being cleaned up or already gone, so there is no way back; move it by a new \
                   migration in the other direction";
        return EditPlan::Refused(why.to_owned());
    }
    let moved = status.ordinals.iter().rev();
    let moved = moved.filter(|record| record.location != Location::Source);
    let moved: Vec<String> = moved.map(|record| record.ordinal.to_string()).collect();
    let effect = match (status.started, &moved[..]) {
        (false, _) => "The run has not begun: nothing is written outside.".to_owned(),
        (true, []) => "No ordinal has moved: what was prepared is removed.".to_owned(),
        (true, _) => format!(
            "These ordinals go back to the source, one at a time, each with a downtime: {}.",
            moved.join(", ")
        ),
    };
    change(
        "abort",
        json!(Abort::Rollback),
        abort_lines(migration, Abort::Rollback, effect),
    )
}

fn leave(migration: &StatefulSetMigration) -> EditPlan {
    match migration.spec.abort {
        Some(Abort::Leave) => return nothing("spec.abort is Leave already"),
        Some(Abort::Rollback) => {
            return EditPlan::Refused(
                "spec.abort is Rollback, which cannot be replaced".to_owned(),
            );
        }
        None => {}
    }
    if let Some(why) = over(migration) {
        return EditPlan::Refused(why);
    }
    let effect = if status(migration).cleanup_started {
        "The clean-up of the source stops where it is. There is no way back."
    } else {
        "Everything stays where it is, an ordinal on its way too; its pod may stay down. Rollback is still possible."
    };
    change(
        "abort",
        json!(Abort::Leave),
        abort_lines(migration, Abort::Leave, effect.to_owned()),
    )
}

fn abort_lines(migration: &StatefulSetMigration, to: Abort, effect: String) -> Vec<String> {
    let from = migration.spec.abort.map_or("(unset)", Abort::as_str);
    vec![
        format!("spec.abort: {from} -> {to}, which cannot be taken back"),
        effect,
    ]
}

/// Why nothing of the run is left to change.
fn over(migration: &StatefulSetMigration) -> Option<String> {
    let phase = phase(migration).filter(|phase| phase.is_over())?;
    Some(format!("the run is over: {phase}"))
}

fn phase(migration: &StatefulSetMigration) -> Option<Phase> {
    migration.status.as_ref()?.phase
}

fn status(migration: &StatefulSetMigration) -> StatefulSetMigrationStatus {
    migration.status.clone().unwrap_or_default()
}

fn nothing(why: impl Into<String>) -> EditPlan {
    EditPlan::Nothing(why.into())
}

fn change(field: &str, value: Value, lines: Vec<String>) -> EditPlan {
    EditPlan::Patch {
        patch: json!({"spec": {field: value}}),
        lines,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::cli::tests::migration;

    fn outcome(edit: SpecEdit, spec: Value, status: Value) -> Value {
        match edit.plan(&migration(spec, status)) {
            EditPlan::Nothing(_) => json!("nothing"),
            EditPlan::Refused(_) => json!("refused"),
            EditPlan::Patch { patch, .. } => patch["spec"].clone(),
        }
    }

    #[rstest]
    #[case::start_of_a_planned_one(SpecEdit::Start, json!({"dryRun": true}), json!({"phase": "Planned"}), json!({"dryRun": false}))]
    #[case::start_of_a_running_one(SpecEdit::Start, json!({}), json!({"phase": "MigratingPods"}), json!("nothing"))]
    #[case::pause(SpecEdit::Pause, json!({}), json!({"phase": "MigratingPods"}), json!({"paused": true}))]
    #[case::pause_again(SpecEdit::Pause, json!({"paused": true}), json!({"phase": "MigratingPods"}), json!("nothing"))]
    #[case::pause_at_the_end(SpecEdit::Pause, json!({}), json!({"phase": "Completed"}), json!("refused"))]
    #[case::resume(SpecEdit::Resume, json!({"paused": true}), json!({"phase": "MigratingPods"}), json!({"paused": false}))]
    #[case::resume_of_none(SpecEdit::Resume, json!({}), json!({"phase": "MigratingPods"}), json!("nothing"))]
    #[case::resume_of_a_hold(
        SpecEdit::Resume, json!({}), json!({"phase": "MigratingPods", "hold": {"reason": "LockLost"}}), json!("nothing"))]
    #[case::retry(SpecEdit::Retry, json!({"retry": 2}), json!({"phase": "Failed"}), json!({"retry": 3}))]
    #[case::first_retry(SpecEdit::Retry, json!({}), json!({"phase": "Failed"}), json!({"retry": 1}))]
    #[case::retry_at_the_end(SpecEdit::Retry, json!({}), json!({"phase": "RolledBack"}), json!("refused"))]
    #[case::rollback(SpecEdit::Rollback, json!({}), json!({"phase": "MigratingPods"}), json!({"abort": "Rollback"}))]
    #[case::rollback_again(SpecEdit::Rollback, json!({"abort": "Rollback"}), json!({"phase": "RollingBack"}), json!("nothing"))]
    #[case::rollback_after_leave(
        SpecEdit::Rollback, json!({"abort": "Leave"}), json!({"phase": "Failed"}), json!({"abort": "Rollback"}))]
    #[case::rollback_in_the_soak(SpecEdit::Rollback, json!({}), json!({"phase": "Finalizing"}), json!({"abort": "Rollback"}))]
    #[case::rollback_in_the_clean_up(
        SpecEdit::Rollback, json!({}), json!({"phase": "Finalizing", "cleanupStarted": true}), json!("refused"))]
    #[case::rollback_at_the_end(SpecEdit::Rollback, json!({}), json!({"phase": "Completed"}), json!("refused"))]
    #[case::rollback_of_a_kept_source(
        SpecEdit::Rollback, json!({"sourceCleanup": {"policy": "Keep", "soak": "0"}}), json!({"phase": "Completed"}),
        json!({"abort": "Rollback"}))]
    #[case::rollback_of_one(SpecEdit::Rollback, json!({}), json!({"phase": "RolledBack"}), json!("refused"))]
    #[case::leave(SpecEdit::Leave, json!({}), json!({"phase": "MigratingPods"}), json!({"abort": "Leave"}))]
    #[case::leave_again(SpecEdit::Leave, json!({"abort": "Leave"}), json!({"phase": "Failed"}), json!("nothing"))]
    #[case::leave_in_a_rollback(SpecEdit::Leave, json!({"abort": "Rollback"}), json!({"phase": "RollingBack"}), json!("refused"))]
    #[case::leave_at_the_end(SpecEdit::Leave, json!({}), json!({"phase": "Completed"}), json!("refused"))]
    fn a_verb_changes(
        #[case] edit: SpecEdit,
        #[case] spec: Value,
        #[case] status: Value,
        #[case] expected: Value,
    ) {
        assert_eq!(outcome(edit, spec, status), expected);
    }

    fn lines(edit: SpecEdit, spec: Value, status: Value) -> String {
        match edit.plan(&migration(spec, status)) {
            EditPlan::Patch { lines, .. } => lines.join("\n"),
            EditPlan::Nothing(text) | EditPlan::Refused(text) => text,
        }
    }

    #[rstest]
    #[case::ordinals_that_go_back(
        SpecEdit::Rollback,
        json!({"phase": "MigratingPods", "started": true, "ordinals": [
            {"ordinal": 0, "place": "Destination"}, {"ordinal": 1, "place": "Moving"}, {"ordinal": 2, "place": "Source"}]}),
        "each with a downtime: 1, 0.")]
    #[case::nothing_has_moved(
        SpecEdit::Rollback, json!({"phase": "FreezingSource", "started": true}), "No ordinal has moved")]
    #[case::nothing_has_begun(SpecEdit::Rollback, json!({"phase": "Pending"}), "The run has not begun")]
    #[case::the_hold_that_ends(
        SpecEdit::Retry, json!({"phase": "MigratingPods", "hold": {"reason": "SourceWidened"}}), "its hold SourceWidened")]
    #[case::the_failure_that_ends(
        SpecEdit::Retry, json!({"phase": "Failed", "failure": "AttachTimeout"}), "its failure AttachTimeout")]
    #[case::a_clean_up_that_stops(
        SpecEdit::Leave, json!({"phase": "Finalizing", "cleanupStarted": true}), "There is no way back.")]
    #[case::a_retry_without_cause(SpecEdit::Retry, json!({"phase": "MigratingPods"}), "nothing waits for this")]
    #[case::the_hold_that_stays(
        SpecEdit::Resume, json!({"phase": "MigratingPods", "hold": {"reason": "LockLost"}}), "because of LockLost")]
    fn the_effect_is_shown(#[case] edit: SpecEdit, #[case] status: Value, #[case] expected: &str) {
        let lines = lines(edit, json!({}), status);
        assert!(lines.contains(expected), "{lines}");
    }

    #[test]
    fn resume_removes_the_annotation_too() {
        let mut paused = migration(json!({}), json!({"phase": "MigratingPods"}));
        paused.metadata.annotations = Some([(PAUSED.to_owned(), "true".to_owned())].into());
        let plan = SpecEdit::Resume.plan(&paused);
        let patch = json!({"metadata": {"annotations": {PAUSED: null}}});
        let lines = vec![format!("annotation {PAUSED}: removed")];
        assert_eq!(plan, EditPlan::Patch { patch, lines });
    }
}
