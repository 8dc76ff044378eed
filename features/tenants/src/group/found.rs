//! What CloudFront shows of a group, and what must be read first. Pure.

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
pub(super) struct Seen<'a> {
    pub(super) group: &'a Group,
    /// Its tags, if they are known.
    pub(super) tags: Option<&'a Tags>,
    /// It has the id that status names.
    pub(super) on_record: bool,
}

/// What the reads of this pass show.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Found<'a> {
    /// This must be read first.
    Unread(Read),
    /// A list shows the group as recorded; the next list is due then.
    Steady {
        until: Duration,
    },
    /// The group as it was before our last write.
    Stale,
    /// No group of our id or name.
    Nothing,
    Group(Seen<'a>),
}

/// Which read comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstRead {
    /// None before that has passed.
    Later(Duration),
    /// The list of all groups, while it shows nothing new.
    List,
    /// The group itself, this urgently.
    Group(Priority),
}

/// The first row that fits:
///
/// | the group                                        | so                                 |
/// |--------------------------------------------------|------------------------------------|
/// | is to be deleted                                 | read it                            |
/// | has no id yet, is edited, in doubt, or asked for | read it                            |
/// | was read, and its time has not come              | later                              |
/// | is not Deployed                                  | poll it                            |
/// | is not as it should be, or its tags are due      | read it                            |
/// | is as it should be                               | the list shows whether it still is |
pub(super) fn first_read(world: &World) -> FirstRead {
    let (object, memory) = (&world.object, &world.memory);
    let status = &object.status;
    if object.is_deleting() {
        return FirstRead::Group(Priority::Delete);
    }
    let is_asked_for = world.pass.is_urgent || world.observed.rereads > 0;
    if status.id.is_none() || is_asked_for || is_edited(world) || memory.doubted {
        return FirstRead::Group(Priority::Edit);
    }
    if let Some(at) = memory.read_at.filter(|at| *at > world.elapsed) {
        return FirstRead::Later(at.saturating_sub(world.elapsed));
    }
    if status.state.as_deref() != Some(DEPLOYED) {
        return FirstRead::Group(Priority::Poll);
    }
    let synced = unmet(&object.conditions, conditions::SYNCED);
    let is_well = is_true(&object.conditions, conditions::READY)
        && synced.is_none_or(|reason| reason == reasons::DRIFT_DETECTED);
    let is_left = status.drift.is_empty() || world.facts.policy != DriftPolicy::Enforce;
    if is_well && is_left && !are_tags_due(world) {
        FirstRead::List
    } else {
        FirstRead::Group(Priority::Sweep)
    }
}

/// Whether CloudFront was not given yet what the spec says.
fn is_edited(world: &World) -> bool {
    let (object, declared) = (&world.object, &world.facts.declared);
    object.status.observed_generation != object.metadata.generation
        || object.status.last_applied.as_ref() != Some(declared)
}

fn are_tags_due(world: &World) -> bool {
    let at = world.memory.tags_at;
    at.is_some_and(|at| at <= world.elapsed)
}

/// The reason of a condition that does not hold; none if it holds or is not there.
pub(super) fn unmet<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a str> {
    let condition = find(conditions, kind)?;
    (condition.status == "False").then_some(&*condition.reason)
}

/// Reads the list, then the group by its id, then by its name, then its tags, as far as that is needed.
pub(super) fn found(world: &World) -> Found<'_> {
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
        (Shown::Unread, None) if first_read == FirstRead::List => Found::Unread(Read::List),
        (Shown::Unread, Some(listing)) if !shows_news(world, listing, &id) => Found::Steady {
            until: listing.until,
        },
        (Shown::Unread, _) => Found::Unread(Read::ById(id, priority)),
        (Shown::Missing, _) => by_name(world, priority),
        (Shown::Present(group), _) if memory.is_behind(&group.etag) => Found::Stale,
        (Shown::Present(group), _) => {
            let needs_tags = object.is_deleting() || memory.doubted || are_tags_due(world);
            with_tags(world, group, true, needs_tags)
        }
    }
}

/// The group of our name. Only its tags say whose it is.
fn by_name(world: &World, priority: Priority) -> Found<'_> {
    let name = &world.facts.name;
    match &world.observed.by_name {
        Shown::Unread => Found::Unread(Read::ByName(name.clone(), priority)),
        // CloudFront takes an id for a name, too.
        Shown::Present(group) if group.name == *name => {
            let on_record = world.object.status.id.as_ref() == Some(&group.id);
            with_tags(world, group, on_record, true)
        }
        Shown::Present(_) | Shown::Missing => Found::Nothing,
    }
}

/// Tags in the answer itself count only if they show our marker: an answer that leaves tags out does not
/// say that there are none.
fn with_tags<'a>(
    world: &'a World,
    group: &'a Group,
    on_record: bool,
    needs_tags: bool,
) -> Found<'a> {
    let echoed = group.tags.as_ref();
    let tags = match echoed.map(|tags| whose(tags, &world.facts.marker)) {
        Some(Whose::Ours) => echoed,
        Some(Whose::Unmarked) | None if !needs_tags => None,
        Some(Whose::Unmarked | Whose::Other(_)) | None => match &world.observed.tags {
            Shown::Unread => return Found::Unread(Read::Tags(group.arn.clone())),
            Shown::Missing => return Found::Stale,
            Shown::Present(tags) => Some(tags),
        },
    };
    Found::Group(Seen {
        group,
        tags,
        on_record,
    })
}

/// Whether a list shows the group otherwise than status does. Drift that status names is no news.
fn shows_news(world: &World, listing: &Listing, id: &str) -> bool {
    let (status, memory) = (&world.object.status, &world.memory);
    if memory.seen_at.is_some_and(|seen| listing.at < seen) {
        return false;
    }
    let Some(listed) = listing.groups.iter().find(|group| group.id == id) else {
        return true;
    };
    if memory.is_behind(&listed.etag) {
        return false;
    }
    let Some(applied) = status.last_applied.as_ref().map(diff::body) else {
        return true;
    };
    let shown = Body {
        enabled: listed.enabled,
        anycast_ip_list_id: listed.anycast_ip_list_id.clone(),
        // A list does not show it.
        ipv6_enabled: applied.ipv6_enabled,
    };
    let mut differing = diff::differing(&applied, &shown).into_iter();
    status.e_tag.as_ref() != Some(&listed.etag)
        || status.state.as_ref() != Some(&listed.status)
        || status.routing_endpoint.as_ref() != Some(&listed.routing_endpoint)
        || status.is_default != Some(listed.is_default)
        || differing.any(|field| !status.drift.contains(&field))
}

/// The group that is ours, once a read or our create has shown it.
pub(super) fn ours(world: &World) -> Option<Seen<'_>> {
    if let Some(group) = &world.observed.created {
        return Some(Seen {
            group,
            tags: None,
            on_record: false,
        });
    }
    let Found::Group(seen) = found(world) else {
        return None;
    };
    (standing(world, &seen) == Standing::Ours).then_some(seen)
}

/// Whose a group is. Nothing is adopted by an object that is being deleted.
pub(super) fn standing(world: &World, seen: &Seen<'_>) -> Standing {
    let Some(tags) = seen.tags else {
        return Standing::Ours; // tags are left out only for one that is on record
    };
    let object = &world.object;
    let adoption = object.resource.spec.adoption;
    let adoption = adoption.filter(|_| !object.is_deleting());
    let by_name = |_: GroupAdoption| Adoption {
        by: AdoptBy::Name,
        from_owner: None,
    };
    let whose = whose(tags, &world.facts.marker);
    tags::standing(whose, seen.on_record, adoption.map(by_name).as_ref())
}
