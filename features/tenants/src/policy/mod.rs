//! One pass over a TenantPolicy: whether it makes sense. What it allows is looked up by whoever
//! asks.

use std::sync::Arc;

use api::tenants::{TenantPolicy, TenantPolicySpec, TenantPolicyStatus, conditions, reasons};
use engine::{ApiError, ControllerSpec, Note, Pass, Reconcile};
use jiff::Timestamp;
use kernel::{Conditions, Progress, Reason, find};

use crate::allowed::accepted;
use crate::ctx::Ctx;

/// The controller of policies.
pub(crate) fn controller(ctx: &Arc<Ctx>) -> ControllerSpec {
    let policies = Policies {
        ctx: Arc::clone(ctx),
    };
    ControllerSpec::new(ctx.caches.policies.key().clone(), policies)
}

/// Passes over policies.
struct Policies {
    ctx: Arc<Ctx>,
}

impl Reconcile for Policies {
    type Object = TenantPolicy;
    type Error = ApiError;

    async fn reconcile(
        &self,
        policy: &TenantPolicy,
        pass: &mut Pass,
    ) -> Result<Progress, ApiError> {
        let before = policy.status.clone().unwrap_or_default();
        let generation = policy.metadata.generation;
        let (after, note) = judged(&policy.spec, &before, generation, self.ctx.now());
        pass.write_status(&after).await?;
        if let Some(note) = note {
            pass.event(note);
        }
        Ok(Progress::done())
    }
}

/// The status a policy gets, and what is told of it if that is new.
fn judged(
    spec: &TenantPolicySpec,
    before: &TenantPolicyStatus,
    generation: Option<i64>,
    now: Timestamp,
) -> (TenantPolicyStatus, Option<Note>) {
    let mut set = Conditions::new(&before.conditions, generation, now);
    let mut note = None;
    match accepted(spec) {
        Ok(()) => {
            let fine = Reason::new(reasons::ACCEPTED, "the policy is in force");
            set.yes(conditions::READY, &fine);
        }
        Err(wrong) => {
            set.no(conditions::READY, &wrong);
            let known = find(&before.conditions, conditions::READY)
                .is_some_and(|ready| ready.reason == wrong.code && ready.message == wrong.message);
            note = (!known).then(|| Note::warning(wrong.code.into_owned(), wrong.message));
        }
    }
    let conditions = set.into_parts().0;
    (TenantPolicyStatus { conditions }, note)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn told(spec: Value, before: &TenantPolicyStatus) -> (TenantPolicyStatus, Option<Note>) {
        let spec = serde_json::from_value(spec).unwrap();
        judged(&spec, before, Some(1), Timestamp::UNIX_EPOCH)
    }

    fn ready(status: &TenantPolicyStatus) -> (&str, &str) {
        let ready = find(&status.conditions, conditions::READY).unwrap();
        (&ready.status, &ready.reason)
    }

    #[test]
    fn a_policy_that_speaks_for_somebody_is_accepted() {
        let fresh = TenantPolicyStatus::default();
        let (status, note) = told(json!({"namespaces": ["web"]}), &fresh);
        assert_eq!((ready(&status), note), (("True", "Accepted"), None));
    }

    #[test]
    fn one_that_makes_no_sense_says_so_and_tells_it_once() {
        let senseless = json!({"namespaceSelector": {"matchExpressions": [
            {"key": "team", "operator": "Like", "values": ["a"]}
        ]}});
        let fresh = TenantPolicyStatus::default();
        let (status, note) = told(senseless.clone(), &fresh);
        assert_eq!(ready(&status), ("False", "InvalidSpec"));
        assert!(note.is_some());
        assert_eq!(told(senseless, &status), (status, None));
    }
}
