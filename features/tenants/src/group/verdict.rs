//! What a group says of itself once CloudFront has been looked at. Pure.

use api::tenants::{DriftPolicy, DriftedField, conditions, reasons};
use aws::cloudfront::Group;
use kernel::{Reason, find};

use super::draft::{Draft, unmet};
use super::gather::{DEPLOYED, Facts};
use super::memory::Memory;
use crate::diff::{drift_reason, told};
use crate::tags::Whose;
use crate::words::few;

/// What this pass had CloudFront do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrote {
    Nothing,
    Created,
    Updated,
}

/// Says how the group stands.
pub(super) fn say(draft: &mut Draft, group: &Group, wrote: Wrote, facts: &Facts, memory: &Memory) {
    let deployed = group.status == DEPLOYED;
    if deployed {
        draft.ready(ready(group));
    } else {
        draft.not_ready(deploying(group, wrote, facts));
    }
    let left = draft.status.drift.clone();
    match (&memory.ineffective, drifted(&left, facts.policy)) {
        (Some(known), _) => draft.not_synced(known.reason()),
        (None, Some(drift)) => draft.not_synced(drift),
        (None, None) if !deployed && is_pending(wrote, facts) => {
            draft.synced(Reason::new(
                reasons::UPDATE_PENDING,
                "CloudFront took what the spec says and is deploying it",
            ));
        }
        (None, None) => draft.synced(Reason::new(
            reasons::IN_SYNC,
            "CloudFront has what the spec says",
        )),
    }
}

fn ready(group: &Group) -> Reason {
    let message = if group.body.enabled {
        format!(
            "deployed; DNS records of tenants point to {}",
            group.routing_endpoint
        )
    } else {
        "deployed and disabled: no request comes through".to_owned()
    };
    Reason::new(reasons::DEPLOYED, message)
}

/// It is still the first deployment until something else is sent.
fn deploying(group: &Group, wrote: Wrote, facts: &Facts) -> Reason {
    let is_first = match wrote {
        Wrote::Created => true,
        Wrote::Updated => false,
        Wrote::Nothing => unmet(&facts.status, conditions::READY) == Some(reasons::CREATING),
    };
    let (code, what) = if is_first {
        (reasons::CREATING, "was made")
    } else {
        (reasons::DEPLOYING, "was changed")
    };
    let message = format!(
        "connection group {} ({}) {what} and CloudFront is deploying it",
        group.name, group.id
    );
    Reason::new(code, message)
}

/// Whether what is being deployed is ours.
fn is_pending(wrote: Wrote, facts: &Facts) -> bool {
    match wrote {
        Wrote::Created | Wrote::Updated => true,
        Wrote::Nothing => find(&facts.status.conditions, conditions::SYNCED)
            .is_some_and(|synced| synced.reason == reasons::UPDATE_PENDING),
    }
}

/// Why drift keeps it from being in sync.
fn drifted(drift: &[DriftedField], policy: DriftPolicy) -> Option<Reason> {
    if drift.is_empty() {
        return None;
    }
    match policy {
        DriftPolicy::Enforce => {
            let message = format!(
                "changed in AWS again: {}; undone at the next look",
                told(drift)
            );
            Some(Reason::new(reasons::DRIFT_DETECTED, message))
        }
        DriftPolicy::Report => Some(drift_reason(drift, policy)),
        DriftPolicy::Suspend => None,
    }
}

/// Why a group that was found is left alone.
pub(super) fn not_owned(group: &Group, whose: &Whose) -> String {
    let Group { name, id, .. } = group;
    match whose {
        Whose::Other(owner) => format!(
            "connection group {name} ({id}) belongs to {owner}; make this object anew with another \
             spec.groupName, or delete the group there"
        ),
        Whose::Ours | Whose::Unmarked => format!(
            "connection group {name} ({id}) is there already and carries no marker of Pontoon; set \
             spec.adoption.by to Name to take it over, or make this object anew with another \
             spec.groupName"
        ),
    }
}

/// Why it cannot be deleted yet.
pub(super) fn in_use(facts: &Facts) -> Reason {
    let users = facts.users.using.iter();
    let users: Vec<_> = users.map(ToString::to_string).collect();
    let message = format!(
        "DistributionTenants use it: {}; it is deleted once they are gone or in another group",
        few(&users)
    );
    Reason::new(reasons::IN_USE, message)
}
