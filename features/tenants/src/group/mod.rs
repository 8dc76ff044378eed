//! ConnectionGroup: keeps one connection group in CloudFront equal to the object.
//!
//! ```text
//! announced ──▶ create ──▶ Deployed ──▶ update, tags ──▶ Deployed ──▶ …
//!      └── found by its name: ours by its marker, or adopted if the spec has `adoption`
//! deleted: disable ──▶ Deployed ──▶ delete ──▶ finalizer
//! ```
//! A group that is as recorded costs no call of its own: one list per interval serves all groups.
//! Status announces a create first. After a crash or a lost answer, the group is found by its name, and
//! its marker shows the owner. The operator never writes a group that is not ours.

mod diff;
mod found;
mod ineffective;
mod io;
mod memory;
#[cfg(test)]
mod model;
mod plan;
mod status;
#[cfg(test)]
mod tests;
mod update;
mod users;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api::tenants::{
    ConnectionGroup, ConnectionGroupSpec, ConnectionGroupStatus, DriftPolicy, DriftedField,
    GroupBody, names,
};
use aws::cloudfront::{Group, GroupBody as Body, GroupSummary};
use aws::{Fault, Priority, Service};
use engine::{Call, ControllerSpec, Effect, Ended, KindCore, Learned, Next, Report, Stop};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::{CallError, Marker};

use crate::ctx::Ctx;
use crate::tags::Tags;
use diff::Update;
use io::Groups;
use memory::Memory;
use users::Users;
pub(crate) use users::{is_default, referring};

/// The longest time of a pass. A call may take 30 s, and a pass makes a few.
const DEADLINE: Duration = Duration::from_secs(5 * 60);
/// How often a pass reads again after CloudFront refused a write because of an old ETag.
const REREADS: u32 = 3;

/// The controller of connection groups, which follows tenants.
pub(crate) fn controller(ctx: &Arc<Ctx>) -> ControllerSpec {
    let caches = &ctx.caches;
    ControllerSpec::of_core(caches.groups.key().clone(), Groups::new(Arc::clone(ctx)))
        .deadline(DEADLINE)
        .follow(
            caches.tenants.key().clone(),
            users::groups_of_tenant(caches),
        )
}

/// Decides about connection groups.
struct GroupCore;

type World = engine::World<GroupCore>;

/// The facts of a pass before its first call to CloudFront.
#[derive(Debug, Clone)]
struct Facts {
    /// The name of the group in CloudFront.
    name: String,
    marker: Marker,
    declared: GroupBody,
    policy: DriftPolicy,
    users: Users,
    /// How often the group is compared.
    sweep: Duration,
}

/// The declared state of a spec, in the form that is compared.
fn declared(spec: &ConnectionGroupSpec) -> GroupBody {
    let list = spec.anycast_ip_list_id.clone();
    let tags = spec.tags.iter();
    GroupBody {
        ipv6_enabled: spec.ipv6_enabled,
        enabled: spec.enabled,
        anycast_ip_list_id: list.filter(|id| !id.is_empty()),
        tags: tags
            .map(|tag| (tag.key.clone(), tag.value.clone().unwrap_or_default()))
            .collect(),
    }
}

/// The priority counts only for the first call of a pass, which gets the permit for all.
#[derive(Debug, Clone, PartialEq)]
enum Read {
    /// All groups.
    List,
    ById(String, Priority),
    ByName(String, Priority),
    /// The tags of this ARN.
    Tags(String),
}

enum Answer {
    Listing(Arc<Listing>),
    Group(Box<Group>),
    Tags(Tags),
}

/// All groups, as one list showed them to every pass.
#[derive(Debug, Clone, PartialEq)]
struct Listing {
    /// When it was read, by the engine's clock.
    at: Duration,
    /// When the next one is due.
    until: Duration,
    groups: Vec<GroupSummary>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Create {
        name: String,
        tags: Tags,
        body: Body,
        intent: CreateIntent,
    },
    /// Adds our marker to a group that is adopted.
    Mark {
        arn: String,
        tags: Tags,
        intent: CreateIntent,
    },
    Update {
        id: String,
        etag: String,
        update: Update,
        /// What others changed. None: it is unknown because an earlier update had no effect.
        drift: Option<Vec<DriftedField>>,
    },
    Tag {
        arn: String,
        tags: Tags,
    },
    Untag {
        arn: String,
        keys: Vec<String>,
    },
    /// Disables the group, so that it can be deleted.
    Disable {
        id: String,
        etag: String,
        body: Body,
    },
    Delete {
        id: String,
        etag: String,
    },
}

/// `status.createRequestedAt`: saved before a step that makes a group ours.
#[derive(Debug, Clone, PartialEq)]
struct CreateIntent(Time);

/// What a read has shown.
#[derive(Debug, Clone, Default, PartialEq)]
enum Shown<T> {
    #[default]
    Unread,
    Missing,
    Present(T),
}

/// What this pass has observed.
#[derive(Debug, Clone, Default)]
struct Observed {
    /// A call was made.
    has_begun: bool,
    listing: Option<Arc<Listing>>,
    /// The groups with our id and with our name, after the steps of this pass.
    by_id: Shown<Group>,
    by_name: Shown<Group>,
    tags: Shown<Tags>,
    created: Option<Group>,
    /// The update that was sent, and the drift before it.
    updated: Option<(Update, Option<Vec<DriftedField>>)>,
    /// The names of the steps that succeeded.
    done: Vec<&'static str>,
    /// Writes that were refused because of an old ETag.
    rereads: u32,
    /// CloudFront refused the create: the name is taken.
    name_taken: Option<CallError>,
    /// An update failed because the group or its Anycast IP list does not exist.
    not_found: Option<CallError>,
    /// Whether the group does not exist, by the read that follows.
    is_gone: Option<bool>,
    /// Why a call failed.
    error: Option<CallError>,
}

impl Observed {
    fn has_done(&self, step: &str) -> bool {
        self.done.contains(&step)
    }

    /// Records a failed call. After a write with an old ETag, everything is read again.
    fn fail(&mut self, error: CallError) {
        if fault(&error) != Fault::Stale || self.rereads == REREADS {
            self.error = Some(error);
            return;
        }
        self.rereads += 1;
        self.listing = None;
        (self.by_id, self.by_name) = (Shown::Unread, Shown::Unread);
        self.tags = Shown::Unread;
    }

    /// Replaces the group by the answer to an update. The tags stay as they were read.
    fn replace(&mut self, after: Group) {
        for shown in [&mut self.by_id, &mut self.by_name] {
            if let Shown::Present(group) = shown
                && group.id == after.id
            {
                let tags = group.tags.take();
                *group = Group {
                    tags,
                    ..after.clone()
                };
            }
        }
    }
}

/// The meaning of an error of CloudFront.
fn fault(error: &CallError) -> Fault {
    Fault::of_call(Service::CloudFront, error)
}

/// Whether the error means that the group does not exist.
fn is_missing(error: &CallError) -> bool {
    fault(error) == Fault::EntityMissing
}

impl KindCore for GroupCore {
    type Resource = ConnectionGroup;
    type Status = ConnectionGroupStatus;
    type Facts = Facts;
    type Observed = Observed;
    type Memory = Memory;
    type Read = Read;
    type Answer = Answer;
    type Step = Step;
    type Outcome = Option<Group>;
    type Intent = CreateIntent;

    fn name(&self) -> &'static str {
        "group"
    }

    fn finalizer(&self) -> &'static str {
        names::FINALIZER
    }

    fn next(&self, world: &World) -> Result<Next<Read, Step>, Stop> {
        plan::next(world)
    }

    fn learn(&self, world: &mut World, learned: Learned<Self>) {
        world.observed.has_begun = true;
        match learned {
            Learned::Answer { read, answer, .. } => match answer {
                Ok(answer) => answered(world, &read, answer),
                Err(error) => unanswered(&mut world.observed, &read, error),
            },
            Learned::Outcome { step, outcome } => match outcome {
                Ok(after) => succeeded(world, step, after),
                Err(error) => failed(world, &step, error),
            },
        }
    }

    fn status(
        &self,
        world: &World,
        ended: &Ended<CreateIntent>,
    ) -> (ConnectionGroupStatus, Report) {
        status::status(world, ended)
    }

    fn remember(&self, world: &World, ended: &Ended<CreateIntent>) -> Memory {
        memory::remember(world, ended)
    }

    fn intent_for(&self, step: &Step) -> Option<CreateIntent> {
        match step {
            Step::Create { intent, .. } | Step::Mark { intent, .. } => Some(intent.clone()),
            Step::Update { .. }
            | Step::Tag { .. }
            | Step::Untag { .. }
            | Step::Disable { .. }
            | Step::Delete { .. } => None,
        }
    }

    fn saved_intents(&self, status: &ConnectionGroupStatus) -> Vec<CreateIntent> {
        let saved = status.create_requested_at.clone();
        saved.map(CreateIntent).into_iter().collect()
    }

    /// The plan itself holds off all calls after a refusal, including reads.
    fn hold_off(&self, _error: &CallError, _count: u32) -> Option<Duration> {
        None
    }
}

fn answered(world: &mut World, read: &Read, answer: Answer) {
    let (observed, memory) = (&mut world.observed, &mut world.memory);
    match answer {
        Answer::Listing(listing) => observed.listing = Some(listing),
        Answer::Tags(tags) => observed.tags = Shown::Present(tags),
        // The read that follows a refused update.
        Answer::Group(_) if observed.not_found.is_some() => observed.is_gone = Some(false),
        Answer::Group(group) => {
            if !memory.is_outdated(&group.etag) {
                memory.record_read(&group, world.elapsed);
            }
            let is_by_id = matches!(read, Read::ById(..));
            let shown = Shown::Present(*group);
            if is_by_id {
                observed.by_id = shown;
            } else {
                observed.by_name = shown;
            }
        }
    }
}

fn unanswered(observed: &mut Observed, read: &Read, error: CallError) {
    match read {
        Read::ById(..) if observed.not_found.is_some() => {
            observed.is_gone = Some(is_missing(&error));
        }
        Read::ById(..) if is_missing(&error) => observed.by_id = Shown::Missing,
        Read::ByName(..) if is_missing(&error) => observed.by_name = Shown::Missing,
        Read::Tags(_) if fault(&error) == Fault::OtherMissing => {
            observed.tags = Shown::Missing;
        }
        Read::List | Read::ById(..) | Read::ByName(..) | Read::Tags(_) => {
            observed.fail(error);
        }
    }
}

fn succeeded(world: &mut World, step: Step, after: Option<Group>) {
    let (observed, memory) = (&mut world.observed, &mut world.memory);
    observed.done.push(step.name());
    match (step, after) {
        (Step::Create { body, .. }, Some(group)) => {
            memory.record_create(&group, &body, world.elapsed);
            observed.created = Some(group);
        }
        (
            Step::Update {
                etag,
                update,
                drift,
                ..
            },
            Some(group),
        ) => {
            memory.record_update(&etag, &update.body, &group, world.elapsed);
            if update.corrects {
                memory.corrected_at = Some(world.elapsed);
            }
            observed.replace(group);
            observed.updated = Some((update, drift));
        }
        (Step::Disable { etag, body, .. }, Some(group)) => {
            memory.record_update(&etag, &body, &group, world.elapsed);
            observed.replace(group);
        }
        (Step::Mark { tags, .. }, _) => {
            if let Shown::Present(read) = &mut observed.tags {
                read.extend(tags);
            }
        }
        (Step::Tag { .. } | Step::Untag { .. } | Step::Delete { .. }, _)
        | (Step::Create { .. } | Step::Update { .. } | Step::Disable { .. }, None) => {}
    }
}

fn failed(world: &mut World, step: &Step, error: CallError) {
    let (observed, fault) = (&mut world.observed, fault(&error));
    let is_create = matches!(step, Step::Create { .. });
    let is_update = matches!(step, Step::Update { .. } | Step::Disable { .. });
    if is_create && error.may_have_happened {
        world.memory.create_sent_at = Some(world.elapsed);
    }
    if is_create && fault == Fault::NameTaken {
        observed.name_taken = Some(error);
    } else if is_update && fault == Fault::EntityMissing {
        observed.not_found = Some(error);
    } else if matches!(step, Step::Delete { .. }) && fault == Fault::EntityMissing {
        observed.done.push(step.name());
    } else {
        observed.fail(error);
    }
}

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List => write!(f, "list connection groups"),
            Self::ById(id, _) => write!(f, "get connection group {id}"),
            Self::ByName(name, _) => write!(f, "get connection group named {name}"),
            Self::Tags(arn) => write!(f, "list tags of {arn}"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { name, .. } => write!(f, "create connection group {name}"),
            Self::Mark { arn, .. } => write!(f, "put our marker on {arn}"),
            Self::Update { id, .. } => write!(f, "update connection group {id}"),
            Self::Tag { arn, .. } => write!(f, "set tags of {arn}"),
            Self::Untag { arn, .. } => write!(f, "remove tags of {arn}"),
            Self::Disable { id, .. } => write!(f, "disable connection group {id}"),
            Self::Delete { id, .. } => write!(f, "delete connection group {id}"),
        }
    }
}

impl Call for Read {}

impl Call for Step {}

impl Effect for Step {
    const NAMES: &'static [&'static str] = &[
        "create", "mark", "update", "tag", "untag", "disable", "delete",
    ];

    fn name(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Mark { .. } => "mark",
            Self::Update { .. } => "update",
            Self::Tag { .. } => "tag",
            Self::Untag { .. } => "untag",
            Self::Disable { .. } => "disable",
            Self::Delete { .. } => "delete",
        }
    }
}
