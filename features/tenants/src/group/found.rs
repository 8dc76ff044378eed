//! Which group CloudFront has for an object, and which read comes next. Pure.

use std::time::Duration;

use api::tenants::{AdoptBy, Adoption, DriftPolicy, GroupAdoption, conditions, reasons};
use aws::Priority;
use aws::cloudfront::{Group, GroupBody as Body};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kernel::{find, is_true};

use super::{Listing, Read, Shown, World, diff};
use crate::body::DEPLOYED;
use crate::tags::{self, Standing, Tags, Whose, whose};

/// A group that exists.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LiveGroup<'a> {
    pub(super) group: &'a Group,
    /// Its tags, if they were read.
    pub(super) tags: Option<&'a Tags>,
    /// It has the id in status.
    pub(super) is_recorded: bool,
}

/// The result of the reads of this pass.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FoundGroup<'a> {
    /// This must be read first.
    Unread(Read),
    /// A list shows the group as recorded. The next list is due at `until`.
    Steady {
        until: Duration,
    },
    /// The group as it was before our last write.
    Stale,
    /// There is no group with our id or name.
    Nothing,
    Group(LiveGroup<'a>),
}

/// Which read comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstRead {
    /// No read before this time has passed.
    Later(Duration),
    /// The list of all groups. The group itself is read only if the list shows a difference.
    List,
    /// The group itself, with this priority.
    Group(Priority),
}

/// The first row that fits:
///
/// | the group                                        | so                                 |
/// |--------------------------------------------------|------------------------------------|
/// | is to be deleted                                 | read it                            |
/// | has no id, is edited or uncertain, or is urgent  | read it                            |
/// | was read, and the status could not be saved      | read it                            |
/// | was read, and the next read is not due           | later                              |
/// | is not Deployed                                  | poll it                            |
/// | is not ready or in sync, or its tags are due     | read it                            |
/// | is ready and in sync                             | read the list                      |
pub(super) fn first_read(world: &World) -> FirstRead {
    let (object, memory) = (&world.object, &world.memory);
    let status = &object.status;
    if object.is_deleting() {
        return FirstRead::Group(Priority::Delete);
    }
    let must_read = world.pass.is_urgent || world.observed.rereads > 0 || world.is_unsaved;
    if status.id.is_none() || must_read || is_edited(world) || memory.is_uncertain {
        return FirstRead::Group(Priority::Edit);
    }
    if let Some(at) = memory.read_at.filter(|at| *at > world.elapsed) {
        return FirstRead::Later(at.saturating_sub(world.elapsed));
    }
    if status.state.as_deref() != Some(DEPLOYED) {
        return FirstRead::Group(Priority::Poll);
    }
    let synced = false_reason(&object.conditions, conditions::SYNCED);
    let is_healthy = is_true(&object.conditions, conditions::READY)
        && synced.is_none_or(|reason| reason == reasons::DRIFT_DETECTED);
    let is_drift_accepted = status.drift.is_empty() || world.facts.policy != DriftPolicy::Enforce;
    if is_healthy && is_drift_accepted && !are_tags_due(world) {
        FirstRead::List
    } else {
        FirstRead::Group(Priority::Sweep)
    }
}

/// Whether the spec has an edit that was not sent to CloudFront yet.
fn is_edited(world: &World) -> bool {
    let (object, declared) = (&world.object, &world.facts.declared);
    object.status.observed_generation != object.metadata.generation
        || object.status.last_applied.as_ref() != Some(declared)
}

fn are_tags_due(world: &World) -> bool {
    let at = world.memory.tags_at;
    at.is_some_and(|at| at <= world.elapsed)
}

/// The reason of a condition that is False; none if it is not False or missing.
pub(super) fn false_reason<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a str> {
    let condition = find(conditions, kind)?;
    (condition.status == "False").then_some(&*condition.reason)
}

/// The group of the object. Reads the list, the group by id, by name, and its tags, as far as needed.
pub(super) fn found(world: &World) -> FoundGroup<'_> {
    let (object, memory) = (&world.object, &world.memory);
    let first_read = first_read(world);
    let priority = match first_read {
        FirstRead::Group(priority) => priority,
        FirstRead::List | FirstRead::Later(_) => Priority::Sweep,
    };
    let Some(id) = object.status.id.clone() else {
        return by_name(world, priority);
    };
    match (&world.observed.by_id, &world.observed.listing) {
        (Shown::Unread, None) if first_read == FirstRead::List => FoundGroup::Unread(Read::List),
        (Shown::Unread, Some(listing)) if !shows_difference(world, listing, &id) => {
            FoundGroup::Steady {
                until: listing.until,
            }
        }
        (Shown::Unread, _) => FoundGroup::Unread(Read::ById(id, priority)),
        (Shown::Missing, _) => by_name(world, priority),
        (Shown::Present(group), _) if memory.is_outdated(&group.etag) => FoundGroup::Stale,
        (Shown::Present(group), _) => {
            let needs_tags = object.is_deleting() || memory.is_uncertain || are_tags_due(world);
            with_tags(world, group, true, needs_tags)
        }
    }
}

/// The group with our name. Only its tags show the owner.
fn by_name(world: &World, priority: Priority) -> FoundGroup<'_> {
    let name = &world.facts.name;
    match &world.observed.by_name {
        Shown::Unread => FoundGroup::Unread(Read::ByName(name.clone(), priority)),
        // CloudFront also accepts an id in place of a name.
        Shown::Present(group) if group.name == *name => {
            let is_recorded = world.object.status.id.as_ref() == Some(&group.id);
            with_tags(world, group, is_recorded, true)
        }
        Shown::Present(_) | Shown::Missing => FoundGroup::Nothing,
    }
}

/// The group with its tags. Tags in the answer to the read count only if they have our marker: an answer
/// without tags does not mean that there are none.
fn with_tags<'a>(
    world: &'a World,
    group: &'a Group,
    is_recorded: bool,
    needs_tags: bool,
) -> FoundGroup<'a> {
    let answered = group.tags.as_ref();
    let tags = match answered.map(|tags| whose(tags, &world.facts.marker)) {
        Some(Whose::Ours) => answered,
        Some(Whose::Unmarked) | None if !needs_tags => None,
        Some(Whose::Unmarked | Whose::Other(_)) | None => match &world.observed.tags {
            Shown::Unread => return FoundGroup::Unread(Read::Tags(group.arn.clone())),
            Shown::Missing => return FoundGroup::Stale,
            Shown::Present(tags) => Some(tags),
        },
    };
    FoundGroup::Group(LiveGroup {
        group,
        tags,
        is_recorded,
    })
}

/// Whether a list shows a difference from status. Drift that status has does not count.
fn shows_difference(world: &World, listing: &Listing, id: &str) -> bool {
    let (status, memory) = (&world.object.status, &world.memory);
    if memory.seen_at.is_some_and(|seen| listing.at < seen) {
        return false;
    }
    let Some(listed) = listing.groups.iter().find(|group| group.id == id) else {
        return true;
    };
    if memory.is_outdated(&listed.etag) {
        return false;
    }
    let Some(applied) = status.last_applied.as_ref().map(diff::body) else {
        return true;
    };
    let shown = Body {
        enabled: listed.enabled,
        anycast_ip_list_id: listed.anycast_ip_list_id.clone(),
        // A list does not have this field.
        ipv6_enabled: applied.ipv6_enabled,
    };
    let mut differing = diff::differing(&applied, &shown).into_iter();
    status.e_tag.as_ref() != Some(&listed.etag)
        || status.state.as_ref() != Some(&listed.status)
        || status.routing_endpoint.as_ref() != Some(&listed.routing_endpoint)
        || status.is_default != Some(listed.is_default)
        || differing.any(|field| !status.drift.contains(&field))
}

/// Our group, after a read or our create has shown it.
pub(super) fn ours(world: &World) -> Option<LiveGroup<'_>> {
    if let Some(group) = &world.observed.created {
        return Some(LiveGroup {
            group,
            tags: None,
            is_recorded: false,
        });
    }
    let FoundGroup::Group(seen) = found(world) else {
        return None;
    };
    (tag_ownership(world, &seen) == Standing::Ours).then_some(seen)
}

/// Whether a group is ours, by its tags. An object that is being deleted adopts nothing.
pub(super) fn tag_ownership(world: &World, seen: &LiveGroup<'_>) -> Standing {
    let Some(tags) = seen.tags else {
        return Standing::Ours; // tags are omitted only for a recorded group
    };
    let object = &world.object;
    let adoption = object.resource.spec.adoption;
    let adoption = adoption.filter(|_| !object.is_deleting());
    let by_name = |_: GroupAdoption| Adoption {
        by: AdoptBy::Name,
        from_owner: None,
    };
    let whose = whose(tags, &world.facts.marker);
    tags::standing(whose, seen.is_recorded, adoption.map(by_name).as_ref())
}
