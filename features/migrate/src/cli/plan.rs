//! `plan`: the checks and the steps of a migration, as the operator has written them to its status.

use api::migrate::{FailReason, Phase, Severity, StatefulSetMigration};
use clap::ArgMatches;
use engine::cli::flags::{self, value};
use engine::cli::{Answer, Failure, Finding, Outcome, counted};
use kernel::ObjectKey;
use serde_json::json;

use super::run_state::RunState;
use super::session::MigrateSession;
use super::{created, refused, time_limit, wait};

/// The columns of the answer.
const COLUMNS: &[&str] = &["part", "id", "severity", "text", "remedy"];

/// With `-f` it creates the migration with `dryRun: true` and waits for its plan.
pub(super) async fn plan(session: &MigrateSession, args: &ArgMatches) -> Result<Answer, Failure> {
    if value(args, flags::FILENAME).is_none() {
        let key = session.required_name()?;
        return Ok(answer(key, &session.live(key).await?));
    }
    let (key, created) = match created::create(session, args, true).await? {
        Ok(created) => created,
        Err(why) => return Ok(refused(why)),
    };
    let limit = time_limit(args).unwrap_or_default();
    let version = created.metadata.resource_version.as_deref();
    wait::until_decided(session, &key, limit, version).await;
    Ok(answer(&key, &session.live(&key).await?))
}

/// | found                                   | outcome     |
/// |-----------------------------------------|-------------|
/// | a check blocks the run                  | does not    |
/// | the checks have not run                 | as the run  |
/// | they passed                             | holds       |
fn answer(key: &ObjectKey, migration: &StatefulSetMigration) -> Answer {
    let status = migration.status.clone().unwrap_or_default();
    let checks = status.preflight.map(|preflight| preflight.checks);
    let is_checked = checks.is_some();
    let checks = checks.unwrap_or_default();
    let blockers = checks
        .iter()
        .filter(|check| check.severity == Severity::Blocker)
        .count();
    let (checked, steps) = (checks.len(), status.plan.len());
    let name = |part: &str, id: &str| format!("StatefulSetMigration/{key}/{part}/{id}");
    let checks = checks.into_iter().map(|check| {
        let id = check.id.to_string();
        Finding {
            name: name("check", &id),
            cells: vec![
                "check".to_owned(),
                id,
                check.severity.to_string(),
                check.message.clone(),
                check.remedy.clone(),
            ],
            full: with_part(json!(check), "check"),
        }
    });
    let steps_of_plan = (1..)
        .zip(status.plan)
        .map(|(number, step): (i32, String)| Finding {
            name: name("step", &number.to_string()),
            cells: vec![
                "step".to_owned(),
                number.to_string(),
                String::new(),
                step.clone(),
                String::new(),
            ],
            full: json!({"part": "step", "number": number, "text": step}),
        });
    let findings = checks.chain(steps_of_plan).collect();
    let is_blocked =
        status.phase == Some(Phase::Failed) && status.failure == Some(FailReason::PreflightBlocked);
    let outcome = match (is_blocked, is_checked) {
        (true, _) => Outcome::DoesNot,
        (false, false) => RunState::of(migration).outcome(),
        (false, true) => Outcome::Holds,
    };
    let remark = if is_checked {
        let blockers = counted(blockers, "blocker");
        format!(
            "{key}: {} of the checks, {blockers}; {}.",
            counted(checked, "finding"),
            counted(steps, "step")
        )
    } else {
        format!("{key}: the operator has not checked it yet; see that it runs, and try again.")
    };
    Answer::table(COLUMNS, findings, outcome).with_remark(remark)
}

fn with_part(mut full: serde_json::Value, part: &str) -> serde_json::Value {
    full["part"] = json!(part);
    full
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::Value;

    use super::*;
    use crate::cli::tests::{key, migration};

    fn preflight(severity: &str) -> Value {
        json!({"at": "2026-01-01T00:00:00Z", "checks": [{
            "id": "Health", "severity": severity, "subject": "Pod web-0", "message": "Pod web-0: found unready",
            "remedy": "heal it",
        }]})
    }

    #[rstest]
    #[case::planned(
        json!({"phase": "Planned", "preflight": preflight("Info"), "plan": ["lock: create ConfigMap stsm-web"]}),
        Outcome::Holds, 2, "1 finding of the checks, 0 blockers; 1 step.")]
    #[case::blocked(
        json!({"phase": "Failed", "failure": "PreflightBlocked", "preflight": preflight("Blocker")}),
        Outcome::DoesNot, 1, "1 blocker; 0 steps.")]
    #[case::not_checked_yet(json!({"phase": "PreFlightChecks"}), Outcome::InProgress, 0, "has not checked it yet")]
    #[case::invalid(
        json!({"phase": "Pending", "conditions": [{"type": "Ready", "status": "False", "reason": "InvalidSpec",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}),
        Outcome::DoesNot, 0, "has not checked it yet")]
    fn a_plan_is_shown(
        #[case] status: Value,
        #[case] outcome: Outcome,
        #[case] findings: usize,
        #[case] remark: &str,
    ) {
        let answer = answer(&key(), &migration(json!({}), status));
        assert_eq!(answer.outcome, outcome);
        assert_eq!(answer.findings.len(), findings);
        let found = answer.remark.unwrap();
        assert!(found.contains(remark), "{found}");
    }

    #[test]
    fn a_finding_names_its_remedy() {
        let status = json!({"phase": "Planned", "preflight": preflight("Info")});
        let answer = answer(&key(), &migration(json!({}), status));
        let finding = &answer.findings[0];
        assert_eq!(
            finding.cells,
            [
                "check",
                "Health",
                "Info",
                "Pod web-0: found unready",
                "heal it"
            ]
        );
        assert_eq!(finding.full["part"], "check");
        assert_eq!(finding.full["subject"], "Pod web-0");
    }
}
