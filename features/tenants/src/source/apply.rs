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
    /// The same of objects that it does not let go.
    pub(super) undeletable: Vec<(String, String)>,
    /// What turned out to be in the way only now.
    pub(super) held_up: Vec<PendingChange>,
    /// What has changed meanwhile, or was not come to: for the next pass.
    pub(super) left: Vec<PendingChange>,
    /// Objects that were to go and are still there: for the next pass, too.
    pub(super) undeleted: usize,
    /// What nobody has looked at yet.
    pub(super) later: usize,
    /// What the API server answered to changes.
    pub(super) answers: Answers,
    /// What the API server failed at: the pass ends in it.
    pub(super) failed: Option<ApiError>,
    /// That it ended the work early.
    pub(super) cut_short: bool,
}

/// Does the work; ends early when the API server is not to be asked any more.
pub(super) async fn apply(work: &Work<'_>, origin: &Origin, client: &Client) -> Done {
    let api = Api::<DistributionTenant>::namespaced(client.clone(), &origin.target);
    carried_out(work, |step| write(&api, step), |one| delete(&api, one)).await
}

async fn carried_out<'a, W, D>(
    work: &Work<'a>,
    write: impl Fn(&'a Step) -> W,
    delete: impl Fn(&'a Missing) -> D,
) -> Done
where
    W: Future<Output = Result<DistributionTenant, ApiError>>,
    D: Future<Output = Result<(), ApiError>>,
{
    let mut done = Done {
        later: work.later,
        ..Done::default()
    };
    for some in work.steps.chunks(AT_ONCE) {
        if done.cut_short {
            done.left.extend(some.iter().map(Step::pending));
            continue;
        }
        let written = join_all(some.iter().map(&write)).await;
        for (step, written) in some.iter().zip(written) {
            done.take(step, written);
        }
    }
    for some in work.gone.chunks(AT_ONCE) {
        if done.cut_short {
            done.undeleted += some.len();
            continue;
        }
        let deleted = join_all(some.iter().map(&delete)).await;
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

    /// Whether anything came of it: else going on at once leads nowhere.
    pub(super) fn is_progress(&self) -> bool {
        let all = [&self.created, &self.updated, &self.pruned];
        all.iter().any(|names| !names.is_empty())
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
                    self.failed.get_or_insert(error);
                }
                Meaning::Away => {
                    self.left.push(step.pending());
                    self.cut(error);
                }
            },
        }
    }

    fn take_deletion(&mut self, one: &Missing, deleted: Result<(), ApiError>) {
        match deleted {
            Ok(()) => self.pruned.push(one.name.clone()),
            Err(error) => match meaning(error.class()) {
                Meaning::InTheWay | Meaning::Changed => self.undeleted += 1,
                Meaning::Refused => {
                    let refused = (one.name.clone(), error.to_string());
                    self.undeletable.push(refused);
                }
                Meaning::Failed => {
                    self.undeleted += 1;
                    self.failed.get_or_insert(error);
                }
                Meaning::Away => {
                    self.undeleted += 1;
                    self.cut(error);
                }
            },
        }
    }

    fn cut(&mut self, error: ApiError) {
        self.failed = Some(error);
        self.cut_short = true;
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
    /// It is not taken, as long as it is what it is: the next reading tries again.
    Refused,
    /// The API server failed at it, and may well do others.
    Failed,
    /// The API server is not to be asked any more: it is not about this object.
    Away,
}

fn meaning(class: Class) -> Meaning {
    match class {
        Class::Conflict | Class::AlreadyExists => Meaning::InTheWay,
        Class::Stale | Class::NotFound => Meaning::Changed,
        Class::Invalid | Class::Denied | Class::LimitExceeded => Meaning::Refused,
        Class::Transient => Meaning::Failed,
        Class::Throttled | Class::Unreachable | Class::Sealed | Class::Deposed => Meaning::Away,
    }
}

#[cfg(test)]
mod tests;
