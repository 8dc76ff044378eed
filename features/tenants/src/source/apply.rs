//! Makes, changes and deletes objects, several at once.

use api::tenants::{ChangeAction, DistributionTenant, PendingChange, names};
use engine::{ApiError, Classified as _, kill_point};
use futures::future::join_all;
use kernel::Class;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Client, ResourceExt as _};

use super::object::Origin;
use super::plan::{Answers, Change, Plan, Step, pending};
use super::prune::{Missing, Verdict};

/// Writes under way at once. The client has a bound of its own, for all features together.
const AT_ONCE: usize = 8;

/// Objects that one pass makes, changes or deletes; the next one goes on.
pub(super) const STEPS: usize = 2000;

/// What one pass does.
#[derive(Debug, Default)]
pub(super) struct Work<'a> {
    steps: &'a [Step],
    gone: &'a [Missing],
    /// What is left for later passes.
    later: usize,
}

/// What a pass does of `plan` and of what `verdict` lets go: in a dry run nothing.
pub(super) fn work<'a>(plan: &'a Plan, verdict: &'a Verdict, dry: bool) -> Work<'a> {
    if dry {
        return Work::default();
    }
    let all: &[Missing] = match verdict {
        Verdict::Delete(set) => set,
        Verdict::UpToDate | Verdict::Disabled | Verdict::Unconfirmed | Verdict::Blocked { .. } => {
            &[]
        }
    };
    let gone = &all[..all.len().min(STEPS)];
    let changes = plan.creates + plan.updates;
    Work {
        steps: &plan.steps,
        gone,
        later: (changes - plan.steps.len()) + (all.len() - gone.len()),
    }
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) created: Vec<String>,
    pub(super) updated: Vec<String>,
    pub(super) pruned: Vec<String>,
    /// Tenants whose object the API server does not take, and why.
    pub(super) refused: Vec<(String, String)>,
    /// What turned out to be in the way only now.
    pub(super) held_up: Vec<PendingChange>,
    /// What has changed meanwhile, or was not come to: for the next pass.
    pub(super) left: Vec<PendingChange>,
    /// Objects that were to go and are still there.
    pub(super) undeleted: usize,
    /// What nobody has looked at yet.
    pub(super) later: usize,
    /// What the API server answered to changes.
    pub(super) answers: Answers,
    /// What ended the work early.
    pub(super) failed: Option<ApiError>,
}

/// Does the work; ends early when the API server fails.
pub(super) async fn apply(work: &Work<'_>, origin: &Origin, client: &Client) -> Done {
    let api = Api::<DistributionTenant>::namespaced(client.clone(), &origin.target);
    let mut done = Done {
        later: work.later,
        ..Done::default()
    };
    for some in work.steps.chunks(AT_ONCE) {
        if done.failed.is_some() {
            done.left.extend(some.iter().map(Step::pending));
            continue;
        }
        let written = join_all(some.iter().map(|step| write(&api, step))).await;
        for (step, written) in some.iter().zip(written) {
            done.take(step, written);
        }
    }
    for some in work.gone.chunks(AT_ONCE) {
        if done.failed.is_some() {
            done.undeleted += some.len();
            continue;
        }
        let deleted = join_all(some.iter().map(|one| delete(&api, one))).await;
        for (one, deleted) in some.iter().zip(deleted) {
            done.take_deletion(one, deleted);
        }
    }
    done
}

/// What we already own is applied by force: the table wins. What we make is not, so that an object
/// which our cache does not know yet keeps what it says.
async fn write(api: &Api<DistributionTenant>, step: &Step) -> Result<DistributionTenant, ApiError> {
    let params = PatchParams::apply(names::SOURCE_MANAGER);
    let (params, uid) = match &step.change {
        Change::Create { .. } => (params, None),
        Change::Update { uid, .. } => (params.force(), Some(uid.as_str())),
    };
    let body = step.desired.bound_to(uid);
    kill_point("tenants-before-declare");
    let written = api.patch(&step.name, &params, &Patch::Apply(&body)).await;
    kill_point("tenants-after-declare");
    written.map_err(|error| {
        ApiError::classify(format!("apply DistributionTenant {}", step.name), error)
    })
}

/// Deletes this very object as it was judged: one that changed since is judged again.
async fn delete(api: &Api<DistributionTenant>, one: &Missing) -> Result<(), ApiError> {
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(one.uid.clone()),
            resource_version: Some(one.version.to_string()),
        }),
        ..DeleteParams::background()
    };
    kill_point("tenants-before-prune");
    let deleted = api.delete(&one.name, &params).await;
    kill_point("tenants-after-prune");
    match deleted {
        Ok(_) => Ok(()),
        Err(error) => {
            let what = format!("delete DistributionTenant {}", one.name);
            match ApiError::classify(what, error) {
                error if error.is_not_found() => Ok(()),
                error => Err(error),
            }
        }
    }
}

impl Done {
    /// How many changes are still to be made.
    pub(super) fn open(&self) -> usize {
        self.left.len() + self.undeleted + self.later
    }

    fn take(&mut self, step: &Step, written: Result<DistributionTenant, ApiError>) {
        let name = step.name.clone();
        match written {
            Ok(object) => match step.change {
                Change::Create { .. } => self.created.push(name),
                Change::Update { .. } => {
                    self.remember(step, &object);
                    self.updated.push(name);
                }
            },
            Err(error) => match meaning(error.class()) {
                Meaning::InTheWay => self.held_up.push(pending(
                    ChangeAction::Conflict,
                    name,
                    "an object of that name was made by somebody else just now; it is left alone",
                )),
                Meaning::Changed => self.left.push(step.pending()),
                Meaning::Refused => self.refused.push((name, error.to_string())),
                Meaning::Failed => {
                    self.left.push(step.pending());
                    self.failed = Some(error);
                }
            },
        }
    }

    fn take_deletion(&mut self, one: &Missing, deleted: Result<(), ApiError>) {
        match deleted {
            Ok(()) => self.pruned.push(one.name.clone()),
            Err(error) => {
                self.undeleted += 1;
                match meaning(error.class()) {
                    Meaning::InTheWay | Meaning::Changed => {}
                    Meaning::Refused | Meaning::Failed => self.failed = Some(error),
                }
            }
        }
    }

    fn remember(&mut self, step: &Step, object: &DistributionTenant) {
        let version = object.resource_version().and_then(|text| text.parse().ok());
        if let (Some(version), Some(mark)) = (version, step.desired.mark()) {
            let said = (mark.to_owned(), version);
            self.answers.insert(step.name.clone(), said);
        }
    }
}

/// What an error says of one object.
enum Meaning {
    /// Somebody else has it.
    InTheWay,
    /// It is not what it was when it was looked at.
    Changed,
    /// It is not taken, now or later.
    Refused,
    /// The API server failed: it is not about this object.
    Failed,
}

fn meaning(class: Class) -> Meaning {
    match class {
        Class::Conflict | Class::AlreadyExists => Meaning::InTheWay,
        Class::Stale | Class::NotFound => Meaning::Changed,
        Class::Invalid | Class::Denied | Class::LimitExceeded => Meaning::Refused,
        Class::Throttled
        | Class::Transient
        | Class::Unreachable
        | Class::Sealed
        | Class::Deposed => Meaning::Failed,
    }
}

#[cfg(test)]
mod tests;
