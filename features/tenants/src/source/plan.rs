//! What a table changes: which objects are made, changed or in the way.
//!
//! | row of the tenant | object of that name    | so                                    |
//! |-------------------|------------------------|---------------------------------------|
//! | good              | none                   | make it                               |
//! | good              | ours, otherwise        | change it                             |
//! | good              | ours, the same         | nothing                               |
//! | good              | ours, being deleted    | wait until it is gone                 |
//! | good              | not ours               | conflict: leave it alone              |
//! | wrong             | any                    | leave it alone; the row is told       |
//! | none              | ours                   | missing: [`super::prune`] decides     |
//! | none              | not ours               | nothing                               |

use std::collections::BTreeMap;
use std::ops::Bound;

use api::tenants::{ChangeAction, PendingChange, names};

use super::object::{Desired, Held, Origin};
use super::prune::Missing;
use super::rows::{Tenant, Tenants};

/// One change of one object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    pub(super) name: String,
    pub(super) desired: Desired,
    pub(super) change: Change,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Create { domains: Vec<String> },
    Update { uid: String, fields: Vec<String> },
}

/// Objects that were changed, by name: the mark of what was said, and the version the API server made
/// of it. Saying the same again to that version, or to an older one that the cache still shows, would
/// change nothing.
pub(crate) type Answers = BTreeMap<String, (String, u64)>;

/// What is to be done for a table.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// What this pass does: of many changes the first.
    pub(super) steps: Vec<Step>,
    /// How many objects are to be made, and to be changed, in all.
    pub(super) creates: usize,
    pub(super) updates: usize,
    /// Objects in the way, and those that go first.
    pub(super) held_up: Vec<PendingChange>,
    pub(super) conflicts: usize,
    /// Objects of the source that are to stay unless they lack their row.
    pub(super) marked: usize,
    pub(super) missing: Vec<Missing>,
}

impl Plan {
    /// Where the next pass goes on, if this one cannot do all.
    pub(super) fn stops_at(&self) -> Option<&str> {
        let is_more = self.creates + self.updates > self.steps.len();
        let last = self.steps.last().filter(|_| is_more);
        last.map(|step| step.name.as_str())
    }
}

/// What is there.
pub(crate) struct World<'a> {
    pub(super) origin: &'a Origin,
    /// The object of a name.
    pub(super) held: &'a dyn Fn(&str) -> Option<Held>,
    /// All objects with the source's mark, by name.
    pub(super) marked: &'a [Missing],
    pub(super) answers: &'a Answers,
    /// Where the pass before stopped, if there was more to do: tenants up to this name come last.
    pub(super) after: Option<&'a str>,
}

/// Compares a table with the objects; at most `limit` steps are worked out for one pass. Tenants
/// that no object can be made for become wrong ones.
pub(crate) fn plan(tenants: &mut Tenants, world: &World<'_>, limit: usize) -> Plan {
    let missing = world.marked.iter().filter(|one| !tenants.has(&one.name));
    let mut plan = Plan {
        marked: world.marked.len(),
        missing: missing.cloned().collect(),
        ..Plan::default()
    };
    let mut refused = Vec::new();
    let after = world.after.unwrap_or_default();
    let next = tenants
        .good
        .range::<str, _>((Bound::Excluded(after), Bound::Unbounded));
    let tried = tenants
        .good
        .range::<str, _>((Bound::Unbounded, Bound::Included(after)));
    for (_, tenant) in next.chain(tried) {
        match step(tenant, world) {
            Ok(Outcome::Same) => {}
            Ok(Outcome::HeldUp(why)) => {
                plan.conflicts += usize::from(why.action == ChangeAction::Conflict);
                plan.held_up.push(why);
            }
            Ok(Outcome::Changes(step)) => {
                match step.change {
                    Change::Create { .. } => plan.creates += 1,
                    Change::Update { .. } => plan.updates += 1,
                }
                if plan.steps.len() < limit {
                    plan.steps.push(step);
                }
            }
            Err(why) => refused.push((tenant.name.clone(), why)),
        }
    }
    for (name, why) in refused {
        tenants.refuse(&name, &why);
    }
    plan
}

enum Outcome {
    Same,
    HeldUp(PendingChange),
    Changes(Step),
}

fn step(tenant: &Tenant, world: &World<'_>) -> Result<Outcome, String> {
    let live = (world.held)(&tenant.name);
    let desired = Desired::new(tenant, world.origin, live.as_ref())?;
    let name = tenant.name.clone();
    let change = match live {
        None => Change::Create {
            domains: tenant.domains.clone(),
        },
        Some(live) if !live.is_of(world.origin) => {
            return Ok(Outcome::HeldUp(conflict(&live, world.origin)));
        }
        Some(live) if live.deleting => {
            let why = "the object of that name is being deleted; it is made again once it is gone";
            return Ok(Outcome::HeldUp(pending(ChangeAction::Create, name, why)));
        }
        Some(live) => {
            let fields = desired.differs_from(&live);
            if fields.is_empty() || is_in_vain(&desired, &live, world.answers) {
                return Ok(Outcome::Same);
            }
            Change::Update {
                uid: live.uid,
                fields,
            }
        }
    };
    Ok(Outcome::Changes(Step {
        name,
        desired,
        change,
    }))
}

fn is_in_vain(desired: &Desired, live: &Held, answers: &Answers) -> bool {
    answers
        .get(&live.name)
        .is_some_and(|(mark, version)| desired.mark() == Some(mark) && live.version <= *version)
}

fn conflict(live: &Held, origin: &Origin) -> PendingChange {
    let why = format!(
        "the object of that name is {}, so it is left alone; rename or delete one of both, or hand \
         it over by the label {}={} and the annotation {}={}",
        live.owner(),
        names::SOURCE_LABEL,
        origin.label(),
        names::SOURCE_UID,
        origin.uid
    );
    pending(ChangeAction::Conflict, live.name.clone(), why)
}

pub(super) fn pending(
    action: ChangeAction,
    tenant_name: String,
    description: impl Into<String>,
) -> PendingChange {
    PendingChange {
        action,
        tenant_name,
        description: Some(description.into()),
    }
}

impl Step {
    /// The step as the status lists it while it is not done.
    pub(super) fn pending(&self) -> PendingChange {
        let (action, said) = match &self.change {
            Change::Create { domains } => {
                let first = domains.first().map(String::as_str).unwrap_or_default();
                let more = match domains.len().saturating_sub(1) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                (ChangeAction::Create, format!("for {first}{more}"))
            }
            Change::Update { fields, .. } => (
                ChangeAction::Update,
                format!("the table says otherwise in {}", fields.join(", ")),
            ),
        };
        pending(action, self.name.clone(), said)
    }
}

#[cfg(test)]
mod tests;
