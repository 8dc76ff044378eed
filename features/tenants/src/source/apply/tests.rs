use std::future::ready;

use rstest::rstest;
use serde_json::json;

use super::super::object::Desired;
use super::super::prune::Objection;
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
    step_for("acme", change)
}

fn step_for(name: &str, change: Change) -> Step {
    let spec = json!({"provider": "configMap", "distributionId": "E1"});
    let origin = Origin {
        name: "onboarding".into(),
        uid: "uid-source".into(),
        target: "web".into(),
        spec: serde_json::from_value(spec).unwrap(),
    };
    let tenant = Tenant {
        name: name.into(),
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
#[case::blocked(Verdict::Blocked { set: missing(3), hash: String::new(), why: Objection::Empty })]
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

#[rstest] //                                                left, held up, refused, failed, cut
#[case::somebody_elses(409, "FieldManagerConflict", (0, 1, 0, false, false))]
#[case::changed_meanwhile(409, "Conflict", (1, 0, 0, false, false))]
#[case::refused(422, "Invalid", (0, 0, 1, false, false))]
#[case::forbidden(403, "Forbidden", (0, 0, 1, false, false))]
#[case::broken(500, "InternalError", (1, 0, 0, true, false))]
#[case::overloaded(429, "TooManyRequests", (1, 0, 0, true, true))]
fn an_error_is_about_the_object_or_about_the_server(
    #[case] code: u16,
    #[case] reason: &str,
    #[case] wanted: (usize, usize, usize, bool, bool),
) {
    let mut done = Done::default();
    done.take(&update(), Err(error(code, reason)));
    let found = (
        done.left.len(),
        done.held_up.len(),
        done.refused.len(),
        done.failed.is_some(),
        done.cut_short,
    );
    assert_eq!(found, wanted);
}

#[rstest] //                                         undeleted, undeletable, failed, cut
#[case::changed_meanwhile(409, "Conflict", (1, 0, false, false))]
#[case::forbidden(403, "Forbidden", (0, 1, false, false))]
#[case::broken(500, "InternalError", (1, 0, true, false))]
#[case::overloaded(429, "TooManyRequests", (1, 0, true, true))]
fn a_deletion_that_failed_leaves_the_object(
    #[case] code: u16,
    #[case] reason: &str,
    #[case] wanted: (usize, usize, bool, bool),
) {
    let mut done = Done::default();
    done.take_deletion(&missing(1)[0], Err(error(code, reason)));
    let found = (
        done.undeleted,
        done.undeletable.len(),
        done.failed.is_some(),
        done.cut_short,
    );
    assert_eq!(found, wanted);
    assert!(done.pruned.is_empty());
    // What is refused is not waited for: the next reading tries again.
    assert_eq!(done.open(), wanted.0);
}

/// What comes of three chunks of changes and as many deletions, if the server answers so to the
/// first of each.
async fn carried_out_but(answer: impl Fn() -> ApiError) -> Done {
    let create = |n: usize| step_for(&format!("t{n}"), Change::Create { domains: vec![] });
    let steps: Vec<Step> = (0..3 * AT_ONCE).map(create).collect();
    let gone = missing(3 * AT_ONCE);
    let work = Work {
        steps: &steps,
        gone: &gone,
        later: 0,
    };
    let write = |step: &Step| {
        ready(if step.name == "t0" {
            Err(answer())
        } else {
            Ok(answered("a.x.com"))
        })
    };
    let delete = |one: &Missing| {
        ready(if one.name == "t0" {
            Err(answer())
        } else {
            Ok(())
        })
    };
    carried_out(&work, write, delete).await
}

#[rstest]
#[case::refused(403, "Forbidden", false)]
#[case::failing(500, "InternalError", true)]
#[tokio::test]
async fn one_object_that_is_not_done_holds_up_no_other(
    #[case] code: u16,
    #[case] reason: &str,
    #[case] failed: bool,
) {
    let done = carried_out_but(|| error(code, reason)).await;
    let others = 3 * AT_ONCE - 1;
    assert_eq!((done.created.len(), done.pruned.len()), (others, others));
    assert_eq!(done.failed.is_some(), failed);
}

#[rstest]
#[case::throttled(|| error(429, "TooManyRequests"))]
#[case::unreachable(|| ApiError::Unreachable { what: "apply".into(), message: "no".into() })]
#[tokio::test]
async fn a_server_that_is_away_is_left_alone(#[case] answer: fn() -> ApiError) {
    let done = carried_out_but(answer).await;
    assert_eq!((done.created.len(), done.pruned.len()), (AT_ONCE - 1, 0));
    assert_eq!(
        (done.left.len(), done.undeleted),
        (2 * AT_ONCE + 1, 3 * AT_ONCE)
    );
    assert!(done.failed.is_some());
}

#[test]
fn an_error_that_ends_the_work_is_the_one_that_is_told() {
    let mut done = Done::default();
    done.take(&update(), Err(error(429, "TooManyRequests")));
    done.take(&update(), Err(error(500, "InternalError")));
    let told = done.failed.expect("both failed").class();
    assert_eq!(told, Class::Throttled);
}
