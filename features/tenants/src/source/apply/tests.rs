use rstest::rstest;
use serde_json::json;

use super::super::object::Desired;
use super::super::rows::Tenant;
use super::*;

fn missing(count: usize) -> Vec<Missing> {
    let one = |n: usize| Missing {
        name: format!("t{n}"),
        uid: format!("uid-{n}"),
        version: 1,
    };
    (0..count).map(one).collect()
}

fn step(change: Change) -> Step {
    let spec = json!({"provider": "configMap", "distributionId": "E1"});
    let origin = Origin {
        name: "onboarding".into(),
        uid: "uid-source".into(),
        target: "web".into(),
        spec: serde_json::from_value(spec).unwrap(),
    };
    let tenant = Tenant {
        name: "acme".into(),
        domains: vec!["a.x.com".into()],
        ..Tenant::default()
    };
    Step {
        name: tenant.name.clone(),
        desired: Desired::new(&tenant, &origin, None).unwrap(),
        change,
    }
}

fn update() -> Step {
    step(Change::Update {
        uid: "u".into(),
        fields: vec!["domains".into()],
    })
}

fn answered(domain: &str) -> DistributionTenant {
    serde_json::from_value(json!({
        "metadata": {"name": "acme", "resourceVersion": "7"},
        "spec": {"distributionId": "E1", "domains": [{"domain": domain}]},
    }))
    .unwrap()
}

fn error(code: u16, reason: &str) -> ApiError {
    ApiError::Answer {
        what: "apply".into(),
        code,
        reason: reason.into(),
        message: "no".into(),
    }
}

#[test]
fn a_pass_takes_a_part_and_leaves_the_rest() {
    let plan = Plan {
        steps: vec![update()],
        creates: 3,
        updates: 2,
        ..Plan::default()
    };
    let verdict = Verdict::Delete(missing(STEPS + 5));
    let work = work(&plan, &verdict, false);
    assert_eq!(
        (work.steps.len(), work.gone.len(), work.later),
        (1, STEPS, 9)
    );
}

#[test]
fn a_dry_run_does_nothing() {
    let plan = Plan {
        steps: vec![update()],
        updates: 1,
        ..Plan::default()
    };
    let verdict = Verdict::Delete(missing(1));
    let work = work(&plan, &verdict, true);
    assert_eq!((work.steps.len(), work.gone.len(), work.later), (0, 0, 0));
}

#[rstest]
#[case::up_to_date(Verdict::UpToDate)]
#[case::disabled(Verdict::Disabled)]
#[case::unconfirmed(Verdict::Unconfirmed)]
#[case::blocked(Verdict::Blocked { set: missing(3), hash: String::new(), why: String::new() })]
fn nothing_goes_without_a_verdict(#[case] verdict: Verdict) {
    assert!(work(&Plan::default(), &verdict, false).gone.is_empty());
}

#[test]
fn what_was_written_is_counted() {
    let mut done = Done::default();
    done.take(
        &step(Change::Create { domains: vec![] }),
        Ok(answered("a.x.com")),
    );
    done.take(&update(), Ok(answered("a.x.com")));
    done.take_deletion(&missing(1)[0], Ok(()));
    assert_eq!(
        (done.created.len(), done.updated.len(), done.pruned.len()),
        (1, 1, 1)
    );
    assert_eq!(done.open(), 0);
}

#[test]
fn the_answer_to_a_change_is_remembered() {
    let mut done = Done::default();
    done.take(&update(), Ok(answered("b.x.com")));
    assert_eq!(done.answers["acme"].1, 7);
}

#[rstest]
#[case::somebody_elses(409, "FieldManagerConflict", (0, 1, 0, false))]
#[case::changed_meanwhile(409, "Conflict", (1, 0, 0, false))]
#[case::refused(422, "Invalid", (0, 0, 1, false))]
#[case::forbidden(403, "Forbidden", (0, 0, 1, false))]
#[case::overloaded(429, "TooManyRequests", (1, 0, 0, true))]
#[case::broken(500, "InternalError", (1, 0, 0, true))]
fn an_error_is_about_the_object_or_about_the_server(
    #[case] code: u16,
    #[case] reason: &str,
    #[case] wanted: (usize, usize, usize, bool),
) {
    let mut done = Done::default();
    done.take(&update(), Err(error(code, reason)));
    let found = (
        done.left.len(),
        done.held_up.len(),
        done.refused.len(),
        done.failed.is_some(),
    );
    assert_eq!(found, wanted);
}

#[rstest]
#[case::changed_meanwhile(409, "Conflict", false)]
#[case::forbidden(403, "Forbidden", true)]
#[case::broken(500, "InternalError", true)]
fn a_deletion_that_failed_leaves_the_object(
    #[case] code: u16,
    #[case] reason: &str,
    #[case] failed: bool,
) {
    let mut done = Done::default();
    done.take_deletion(&missing(1)[0], Err(error(code, reason)));
    assert_eq!((done.undeleted, done.failed.is_some()), (1, failed));
    assert!(done.pruned.is_empty());
}
