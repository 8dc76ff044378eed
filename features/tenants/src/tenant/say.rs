//! What conditions say of a tenant in CloudFront: each thing in one way, so that no pass rewrites
//! what another wrote.

use std::collections::BTreeSet;

use api::tenants::{DriftPolicy, DriftedField, names, reasons};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::Reason;

use super::draft::{Draft, Question};
use super::ground::Ground;
use crate::body::{Field, Live};
use crate::ctx::Ctx;
use crate::diff::Ineffective;

/// CloudFront is at it.
pub(super) fn in_progress(reason: &'static str, id: &str) -> Reason {
    let what = if reason == reasons::CREATING {
        "tenant"
    } else {
        "a change of tenant"
    };
    Reason::new(reason, format!("CloudFront is deploying {what} {id}"))
}

pub(super) fn in_sync() -> Reason {
    Reason::new(reasons::IN_SYNC, "CloudFront has what the spec says")
}

pub(super) fn no_records() -> Reason {
    let message = "the spec asks for no DNS records";
    Reason::new(reasons::DNS_NOT_CONFIGURED, message)
}

/// Says that CloudFront made the tenant. It may be deployed at once.
pub(super) fn created(live: &Live, draft: &mut Draft) {
    if live.summary.is_deployed() {
        return deployed(live, None, draft);
    }
    let id = &live.summary.id;
    draft.no(Question::Ready, in_progress(reasons::CREATING, id));
    draft.yes(Question::Synced, in_sync());
}

/// Says that CloudFront took an Update, and what came of it. It may be deployed at once.
pub(super) fn updated(live: &Live, ineffective: Option<&Ineffective>, draft: &mut Draft) {
    if live.summary.is_deployed() {
        return deployed(live, ineffective, draft);
    }
    let id = &live.summary.id;
    draft.no(Question::Ready, in_progress(reasons::DEPLOYING, id));
    match ineffective {
        Some(ineffective) => draft.no(Question::Synced, ineffective.reason()),
        None => draft.yes(Question::Synced, in_progress(reasons::UPDATE_PENDING, id)),
    }
}

/// Says whether the tenant is deployed.
pub(super) fn deployed(live: &Live, ineffective: Option<&Ineffective>, draft: &mut Draft) {
    let id = &live.summary.id;
    let is_deployed = live.summary.is_deployed();
    if is_deployed {
        let message = if live.summary.enabled {
            format!("{id} is deployed and serves its domains")
        } else {
            format!("{id} is deployed and switched off: it serves nothing")
        };
        draft.yes(Question::Ready, Reason::new(reasons::DEPLOYED, message));
    } else {
        let is_new = draft.says(Question::Ready, reasons::CREATING);
        let reason = if is_new {
            reasons::CREATING
        } else {
            reasons::DEPLOYING
        };
        draft.no(Question::Ready, in_progress(reason, id));
    }
    let was_in_sync = draft.says(Question::Synced, reasons::IN_SYNC);
    match ineffective {
        Some(ineffective) => draft.no(Question::Synced, ineffective.reason()),
        None if is_deployed || was_in_sync => draft.yes(Question::Synced, in_sync()),
        None => draft.yes(Question::Synced, in_progress(reasons::UPDATE_PENDING, id)),
    }
}

/// Whose part of `status.drift` a pass has found out about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Tenant,
    Records,
}

impl Part {
    /// How many fields of it the status has room for.
    fn room(self) -> usize {
        match self {
            Self::Tenant => Field::ALL.len(),
            Self::Records => names::DRIFT_CAP - Field::ALL.len(),
        }
    }

    fn has(self, field: &DriftedField) -> bool {
        let is_tenants = Field::named(&field.field).is_some();
        is_tenants == (self == Self::Tenant)
    }
}

/// Says what others changed and is left so; the other part stays as it is known.
pub(super) fn drift(
    part: Part,
    mut found: Vec<DriftedField>,
    ground: &Ground,
    ctx: &Ctx,
    draft: &mut Draft,
) {
    found.truncate(part.room());
    let known = std::mem::take(&mut draft.status.drift);
    let (before, other): (Vec<_>, Vec<_>) = known.into_iter().partition(|one| part.has(one));
    if !found.is_empty() && !is_same(&found, &before) {
        ctx.metrics.drifted();
    }
    let all = match part {
        Part::Tenant => [found, other].concat(),
        Part::Records => [other, found].concat(),
    };
    set_drift(!all.is_empty(), ctx, draft);
    draft.status.drift = all;
    draft.reports = ground.drift == DriftPolicy::Report;
}

/// Whether the status lists this of the tenant's fields.
pub(super) fn is_known(drift: &[DriftedField], draft: &Draft) -> bool {
    let known = draft.status.drift.iter();
    let known: Vec<_> = known.filter(|one| Part::Tenant.has(one)).cloned().collect();
    is_same(drift, &known)
}

/// Whether others did the same: what both sides have in common does not count, as edits change it.
fn is_same(one: &[DriftedField], other: &[DriftedField]) -> bool {
    let told = |side: &Option<String>| {
        let elements = side.iter().flat_map(|side| side.split(", "));
        elements.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let done = |fields: &[DriftedField]| {
        let fields = fields.iter().map(|field| {
            let (want, live) = (told(&field.want), told(&field.live));
            let (taken, added) = (&want - &live, &live - &want);
            (field.field.clone(), taken, added)
        });
        fields.collect::<Vec<_>>()
    };
    done(one) == done(other)
}

/// Others' changes were undone just now.
pub(super) fn corrected(ctx: &Ctx, draft: &mut Draft) {
    draft.status.drift.clear();
    set_drift(false, ctx, draft);
}

fn set_drift(detected: bool, ctx: &Ctx, draft: &mut Draft) {
    if draft.status.drift_detected.unwrap_or_default() != detected {
        draft.status.drift_detected = Some(detected);
        draft.status.last_drift_check_time = Some(Time(ctx.now()));
    }
}

#[cfg(test)]
mod tests {
    use api::tenants::DistributionTenant;
    use jiff::Timestamp;
    use kernel::find;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::body::Summary;

    /// A draft whose Ready condition was False/Creating before, and CloudFront's answer.
    fn answered(state: &str) -> (Draft, Live) {
        let object = json!({
            "apiVersion": "cloudfront-tenant-operator.io/v1alpha1",
            "kind": "DistributionTenant",
            "metadata": {"name": "acme", "namespace": "web", "generation": 1},
            "spec": {"distributionId": "E1", "domains": [{"domain": "a.example.com"}]},
            "status": {"conditions": [{
                "type": "Ready", "status": "False", "reason": "Creating", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]},
        });
        let object: DistributionTenant = serde_json::from_value(object).unwrap();
        let summary = Summary {
            id: "dt_1".to_owned(),
            status: state.to_owned(),
            enabled: true,
            ..Summary::default()
        };
        let live = Live {
            summary,
            ..Live::default()
        };
        (Draft::new(&object), live)
    }

    fn conditions_of(draft: Draft) -> [String; 2] {
        let (status, _) = draft.finished(Timestamp::UNIX_EPOCH);
        ["Ready", "Synced"].map(|kind| {
            let one = find(&status.conditions, kind).expect("the condition is set");
            format!("{}/{}", one.status, one.reason)
        })
    }

    #[rstest]
    #[case::in_progress("InProgress", ["False/Creating", "True/InSync"])]
    #[case::deployed_at_once("Deployed", ["True/Deployed", "True/InSync"])]
    fn a_create_is_reported_as_it_is_answered(#[case] state: &str, #[case] expected: [&str; 2]) {
        let (mut draft, live) = answered(state);
        created(&live, &mut draft);
        assert_eq!(conditions_of(draft), expected);
    }

    #[rstest]
    #[case::in_progress("InProgress", ["False/Deploying", "True/UpdatePending"])]
    #[case::deployed_at_once("Deployed", ["True/Deployed", "True/InSync"])]
    fn an_update_is_reported_as_it_is_answered(#[case] state: &str, #[case] expected: [&str; 2]) {
        let (mut draft, live) = answered(state);
        updated(&live, None, &mut draft);
        assert_eq!(conditions_of(draft), expected);
    }

    fn drifted(want: &str, live: &str) -> Vec<DriftedField> {
        let side = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        vec![DriftedField {
            field: "domains".to_owned(),
            want: side(want),
            live: side(live),
        }]
    }

    #[rstest]
    #[case::as_before(("a", "a, x"), true)]
    #[case::behind_an_edit(("a, b", "a, b, x"), true)]
    #[case::something_else(("a", "a, y"), false)]
    #[case::something_more(("a", "a, x, y"), false)]
    #[case::the_other_way_round(("a, x", "a"), false)]
    #[case::nothing(("a", ""), false)]
    fn drift_is_what_others_did(#[case] (want, live): (&str, &str), #[case] same: bool) {
        let known = drifted("a", "a, x");
        assert_eq!(is_same(&drifted(want, live), &known), same);
        assert!(!is_same(&[], &known));
    }
}
