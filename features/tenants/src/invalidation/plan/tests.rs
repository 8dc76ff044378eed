use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rstest::rstest;

use super::*;
use crate::failure::Again;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn there() -> Standing {
    Standing::There("dt_1".to_owned())
}

fn create() -> Step {
    Step::Create {
        tenant: "dt_1".to_owned(),
    }
}

fn poll() -> Step {
    Step::Poll {
        tenant: "dt_1".to_owned(),
        id: "I1".to_owned(),
    }
}

fn wait(why: &str) -> Step {
    Step::Wait(format!("DistributionTenant acme {why}"))
}

/// One that was made at second 100, if it was.
fn status(phase: Option<Phase>, made: bool) -> InvalidationStatus {
    InvalidationStatus {
        id: made.then(|| "I1".to_owned()),
        create_time: made.then(|| Time(at(100))),
        phase,
        ..InvalidationStatus::default()
    }
}

#[rstest]
#[case::fresh(None, false, there(), create())]
#[case::waited(Some(Phase::Pending), false, there(), create())]
#[case::at_work(Some(Phase::InProgress), true, there(), poll())]
#[case::no_tenant(None, false, Standing::Missing, wait("does not exist"))]
#[case::early(None, false, Standing::Unmade, wait("is not in CloudFront yet"))]
#[case::late(None, false, Standing::Going, wait("is being deleted"))]
#[case::made_anew(
    Some(Phase::InProgress),
    true,
    Standing::Unmade,
    wait("is not in CloudFront yet")
)]
fn a_step_follows_from_phase_and_tenant(
    #[case] phase: Option<Phase>,
    #[case] made: bool,
    #[case] tenant: Standing,
    #[case] expected: Step,
) {
    let step = step(&status(phase, made), 3600, ("acme", tenant), at(200));
    assert_eq!(step, expected);
}

#[test]
fn one_whose_tenant_went_is_given_up() {
    let status = status(Some(Phase::InProgress), true);
    let step = step(&status, 3600, ("acme", Standing::Missing), at(200));
    assert!(matches!(step, Step::GiveUp(why) if why.contains("I1")));
}

#[rstest]
#[case::early(100, Step::Rest(Duration::from_secs(60)))]
#[case::late(159, Step::Rest(Duration::from_secs(1)))]
#[case::over(160, Step::Remove)]
#[case::long_over(9999, Step::Remove)]
fn one_that_ended_stays_for_its_time(#[case] now: i64, #[case] expected: Step) {
    for phase in [Phase::Completed, Phase::Failed] {
        let status = InvalidationStatus {
            finished_time: Some(Time(at(100))),
            ..status(Some(phase), true)
        };
        let step = step(&status, 60, ("acme", Standing::Missing), at(now));
        assert_eq!(step, expected);
    }
}

fn refused(code: &str, status: u16) -> aws::Error {
    aws::Error::Refused(Box::new(aws::Refusal {
        operation: aws::Operation::CreateInvalidationForDistributionTenant,
        resource: "dt_1".to_owned(),
        code: code.to_owned(),
        message: "no".to_owned(),
        status,
        request_id: None,
    }))
}

#[rstest]
#[case::paths("InvalidArgument", 400)]
#[case::too_many_paths("BatchTooLarge", 413)]
fn paths_that_are_refused_are_the_end(#[case] code: &str, #[case] http: u16) {
    let failed = failed(&refused(code, http), &status(None, false), at(200));
    let Failed::Finally { counted, why } = failed else {
        panic!("{failed:?}");
    };
    assert_eq!(counted, Some("invalid_spec"));
    assert!(why.contains(code), "{why}");
}

#[rstest]
#[case::crowded(
    "TooManyInvalidationsInProgress",
    400,
    Says::Ready("TooManyInvalidations"),
    Some("limit_exceeded"),
    Again::Slow
)]
#[case::no_tenant("EntityNotFound", 404, Says::Ready("Waiting"), None, Again::Slow)]
#[case::denied(
    "AccessDenied",
    403,
    Says::Both("AccessDenied"),
    Some("access_denied"),
    Again::Slow
)]
#[case::failed(
    "InternalError",
    500,
    Says::Both("AWSError"),
    Some("retryable"),
    Again::Backoff
)]
fn all_else_is_tried_again(
    #[case] code: &str,
    #[case] http: u16,
    #[case] says: Says,
    #[case] counted: Option<&'static str>,
    #[case] again: Again,
) {
    let failed = failed(&refused(code, http), &status(None, false), at(200));
    let expected = Failure {
        says,
        counted,
        again,
    };
    assert_eq!(failed, Failed::ForNow(expected));
}

#[rstest]
#[case::invalidation("NoSuchInvalidation")]
#[case::tenant("EntityNotFound")]
fn one_that_cannot_be_found_is_given_time_and_then_given_up(#[case] code: &str) {
    let status = status(Some(Phase::InProgress), true);
    let error = refused(code, 404);
    assert_eq!(failed(&error, &status, at(219)), Failed::TooEarly);
    let late = failed(&error, &status, at(220));
    assert!(matches!(late, Failed::Finally { .. }), "{late:?}");
}
