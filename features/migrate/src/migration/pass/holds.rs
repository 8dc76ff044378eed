//! Holds that stay until a person ends them, and waits that become stalls or failures.

use std::time::Duration;

use api::migrate::{
    HoldEnd, HoldReason, HoldRecord, Phase, StatefulSetMigrationSpec, StatefulSetMigrationStatus,
    StepName,
};

use super::{Next, PassInput, Plan};
use crate::migration::decision::{Decision, Failure, Interference, Step};
use crate::migration::extract;
use crate::migration::limits::{self, Waited};
use crate::migration::progress::begun_again;

/// | recorded hold ends    | still found | retry raised, or accepted | so                              |
/// |-----------------------|-------------|---------------------------|---------------------------------|
/// | SourceWidened         | yes         | retry raised              | set the window back, once       |
/// | any, or none recorded | yes         | any                       | hold; see [`kept_hold`]         |
/// | any, waiting for abort | no         | any                       | keep it, and wait for abort     |
/// | by itself             | no          | any                       | go on                           |
/// | by a person           | no          | no                        | hold: the cause is gone         |
/// | by a person           | no          | yes                       | go on; the retry is used up     |
///
/// The retry that has set the window back ends the hold too.
pub(super) fn lasting_hold(input: &PassInput<'_>, mut plan: Plan) -> Plan {
    if let Some(step) = repair(input, &mut plan) {
        plan.record.observed_retry = input.spec.retry;
        plan.record.hold = Some(HoldRecord {
            reason: HoldReason::SourceWidened,
            ordinal: None,
        });
        plan.next = Next::Decided(Decision::Act(step));
        return plan;
    }
    if let Next::Decided(Decision::Hold(hold)) = &plan.next {
        plan.record.hold = Some(kept_hold(input.record.hold, hold, input.spec));
        return plan;
    }
    let Some(hold) = input.record.hold.filter(|_| plan.next != Next::AwaitAbort) else {
        return plan;
    };
    let (reason, ordinal) = (hold.reason, hold.ordinal);
    let remedy = match reason.end() {
        HoldEnd::ByItself => None,
        HoldEnd::Acknowledged => (!input.spec.acknowledges(reason.as_str(), ordinal))
            .then(|| format!("add {reason} to spec.acknowledge")),
        HoldEnd::Retry => {
            let is_raised = input.spec.retry > input.record.observed_retry;
            let is_repaired = reason == HoldReason::SourceWidened && has_repaired(input);
            (!is_raised && !is_repaired).then(|| "raise spec.retry".to_owned())
        }
    };
    let Some(remedy) = remedy else {
        plan.record.hold = None;
        begun_again(&mut plan.record);
        if has_repaired(input) {
            plan.record.intent = None; // it ends one hold
        }
        if reason.end() == HoldEnd::Retry {
            plan.record.observed_retry = input.spec.retry;
        }
        return plan;
    };
    Plan {
        next: Next::Decided(Decision::Hold(Interference {
            reason,
            ordinal,
            message: format!("the cause of {reason} is gone; {remedy} to go on"),
        })),
        record: input.record.clone(),
        ..plan
    }
}

/// What the record says after a hold was found: its cause may be gone later, but not what a person has to accept.
///
/// | recorded hold ends        | found one ends | record       |
/// |---------------------------|----------------|--------------|
/// | when accepted, and is not | any            | stays        |
/// | by a retry                | by itself      | stays        |
/// | any other, or none        | any            | found one    |
pub fn kept_hold(
    recorded: Option<HoldRecord>,
    found: &Interference,
    spec: &StatefulSetMigrationSpec,
) -> HoldRecord {
    let stays = |recorded: &HoldRecord| match recorded.reason.end() {
        HoldEnd::Acknowledged => !spec.acknowledges(recorded.reason.as_str(), recorded.ordinal),
        HoldEnd::Retry => found.reason.end() == HoldEnd::ByItself,
        HoldEnd::ByItself => false,
    };
    recorded.filter(stays).unwrap_or(HoldRecord {
        reason: found.reason,
        ordinal: found.ordinal,
    })
}

/// The intent to set the window of the source back was saved.
fn has_repaired(input: &PassInput<'_>) -> bool {
    let intent = input.record.intent.as_ref();
    intent.is_some_and(|intent| intent.step == StepName::Narrow)
}

/// The change that sets the window of the source back: after a raise of `spec.retry` its intent is saved, and then
/// it is made once.
fn repair(input: &PassInput<'_>, plan: &mut Plan) -> Option<Step> {
    let is_raised = input.spec.retry > input.record.observed_retry;
    let is_recorded = input
        .record
        .hold
        .is_some_and(|hold| hold.reason == HoldReason::SourceWidened);
    let is_due = is_raised || (has_repaired(input) && input.is_intent_unused);
    plan.repair.take().filter(|_| is_recorded && is_due)
}

/// Remembers since when a step waits, and judges the wait by its limit.
pub(super) fn limited(input: &PassInput<'_>, mut plan: Plan) -> Plan {
    let Next::Decided(Decision::Wait(wait)) = &plan.next else {
        plan.memory.waiting = None;
        if let Next::Decided(Decision::Fail(failure)) = &plan.next {
            let failure = failure.clone();
            fail(&mut plan.record, &failure);
        }
        return plan;
    };
    let about = (wait.step, wait.ordinal);
    let since = input.memory.waiting.filter(|(of, _)| *of == about);
    let since = since.map_or(input.elapsed, |(_, since)| since);
    plan.memory.waiting = Some((about, since));
    let waited = input.elapsed.saturating_sub(since);
    match limits::judge(
        wait.step,
        wait.reason,
        waited,
        input.spec,
        grace(input, wait.ordinal),
    ) {
        Waited::Waiting => {}
        Waited::Stalled => plan.is_stalled = true,
        Waited::Failed(reason) => {
            let failure = Failure {
                reason,
                ordinal: wait.ordinal,
                message: format!(
                    "{} after {} s; repair it and raise spec.retry, or set spec.abort",
                    wait.detail,
                    waited.as_secs()
                ),
            };
            fail(&mut plan.record, &failure);
            plan.memory.waiting = None;
            plan.next = Next::Decided(Decision::Fail(failure));
        }
    }
    plan
}

/// The grace period of the ordinal's pod, the longer one of both clusters.
fn grace(input: &PassInput<'_>, ordinal: Option<i32>) -> Duration {
    let Some(ordinal) = ordinal else {
        return Duration::ZERO;
    };
    let name = format!("{}-{ordinal}", input.spec.stateful_set_name);
    let pods = input.source.pods.iter().chain(&input.destination.pods);
    let pods = pods.filter(|pod| extract::name(pod) == name);
    pods.map(|pod| extract::pod(pod).grace)
        .max()
        .unwrap_or_default()
}

fn fail(record: &mut StatefulSetMigrationStatus, failure: &Failure) {
    record.phase = Some(Phase::Failed);
    record.failure = Some(failure.reason);
    record.last_error = Some(failure.message.clone());
}
