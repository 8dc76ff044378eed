//! What a pass over a group knows without asking CloudFront, and how it looks there.

use std::time::Duration;

use api::tenants::{
    ConnectionGroup, ConnectionGroupStatus, DeletionPolicy, DriftPolicy, GroupAdoption, GroupBody,
    conditions, names, reasons,
};
use aws::cloudfront::{Group, GroupSummary};
use aws::{Error, Fault, Priority};
use engine::Pass;
use jiff::Timestamp;
use kernel::{Marker, ObjectKey};

use super::cloud::Cloud;
use super::diff;
use super::draft::{is_ready, unmet};
use super::memory::Memory;
use super::users::{Users, users};
pub(super) use crate::body::DEPLOYED;
use crate::ctx::Ctx;
use crate::tags::{Tags, Whose, whose};
use crate::trouble::Moment;

/// All that a pass knows of its group before it looks.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    /// Its name in CloudFront.
    pub(super) name: String,
    pub(super) marker: Marker,
    /// What it declares.
    pub(super) declared: GroupBody,
    pub(super) policy: DriftPolicy,
    /// Whether an unmarked group of its name is taken over.
    pub(super) adoption: Option<GroupAdoption>,
    /// Whether what is in AWS goes with the object.
    pub(super) deletion: DeletionPolicy,
    pub(super) deleting: bool,
    pub(super) held: bool,
    /// A person waits for this pass.
    pub(super) asked: bool,
    pub(super) generation: Option<i64>,
    pub(super) status: ConnectionGroupStatus,
    pub(super) users: Users,
    pub(super) now: Timestamp,
    /// The same by the engine's clock.
    pub(super) elapsed: Duration,
    /// How often it is looked at.
    pub(super) sweep: Duration,
    /// 0 to 1: spreads what would come together.
    pub(super) random: f64,
}

impl Facts {
    pub(super) fn moment(&self) -> Moment {
        Moment {
            generation: self.generation,
            elapsed: self.elapsed,
            random: self.random,
        }
    }

    /// Whether CloudFront was not given yet what the spec says.
    pub(super) fn is_edited(&self) -> bool {
        self.status.observed_generation != self.generation
            || self.status.last_applied.as_ref() != Some(&self.declared)
    }

    /// The group as messages name it.
    pub(super) fn called(&self) -> String {
        let name = &self.name;
        match &self.status.id {
            Some(id) => format!("connection group {name} ({id})"),
            None => format!("connection group {name}"),
        }
    }
}

pub(super) fn facts(group: &ConnectionGroup, ctx: &Ctx, pass: &Pass) -> Facts {
    let ConnectionGroup {
        metadata,
        spec,
        status,
    } = group;
    let status = status.clone().unwrap_or_default();
    let object = &*pass.key().name;
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    Facts {
        name: spec.group_name.clone().unwrap_or_else(|| object.to_owned()),
        marker: Marker::new(&ctx.deck.cluster, &ObjectKey::cluster(object)),
        declared: declared(group),
        policy: spec.drift_policy.unwrap_or(ctx.settings.drift),
        adoption: spec.adoption,
        deletion: spec.deletion_policy,
        deleting: metadata.deletion_timestamp.is_some(),
        held: finalizers.iter().any(|held| held == names::FINALIZER),
        asked: pass.is_asked_for(),
        generation: metadata.generation,
        users: users(ctx, object, status.id.as_deref()),
        status,
        now: ctx.now(),
        elapsed: ctx.deck.clock.elapsed(),
        sweep: ctx.settings.sweep,
        random: fastrand::f64(),
    }
}

/// What a spec declares, as it is compared.
fn declared(group: &ConnectionGroup) -> GroupBody {
    let spec = &group.spec;
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

/// How closely a group is to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Not before that has passed.
    Later(Duration),
    /// The list of all groups will do, while it shows nothing new.
    Listed,
    /// It alone; this is how urgent that is.
    Itself(Priority),
}

/// | the group                                | so                               |
/// |------------------------------------------|----------------------------------|
/// | is not there yet, edited, or in doubt    | look at it now                   |
/// | was looked at, and its time has not come | later                            |
/// | is not deployed                          | poll it                          |
/// | is not as it should be, or tags are due  | look at it                       |
/// | is all right                             | the list tells if it still is    |
pub(super) fn look(facts: &Facts, memory: &Memory) -> Look {
    let Facts {
        status, elapsed, ..
    } = facts;
    if status.id.is_none() || facts.asked || facts.is_edited() || memory.doubted {
        return Look::Itself(Priority::Edit);
    }
    if let Some(at) = memory.look_at.filter(|at| at > elapsed) {
        return Look::Later(at.saturating_sub(*elapsed));
    }
    if status.state.as_deref() != Some(DEPLOYED) {
        return Look::Itself(Priority::Poll);
    }
    let is_well = is_ready(status)
        && match unmet(status, conditions::SYNCED) {
            None => true,
            Some(reason) => reason == reasons::DRIFT_DETECTED,
        };
    let is_left = status.drift.is_empty() || facts.policy != DriftPolicy::Enforce;
    let tags_are_due = memory.tags_at.is_some_and(|at| at <= *elapsed);
    if is_well && is_left && !tags_are_due {
        Look::Listed
    } else {
        Look::Itself(Priority::Sweep)
    }
}

/// What a look finds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Found {
    /// As it is on record; the next list is due then.
    Steady {
        until: Duration,
    },
    /// Something that is older than our last write: nothing can be told from it.
    Behind,
    /// Nothing, neither of its id nor of its name.
    Nothing,
    There(Box<Seen>),
}

/// A group that is there.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    pub(super) group: Group,
    /// Its tags, if they are known.
    pub(super) tags: Option<Tags>,
    /// It has the id that is on record.
    pub(super) on_record: bool,
}

/// Looks for the group, as closely as `look` says.
pub(super) async fn find(
    look: Look,
    facts: &Facts,
    memory: &Memory,
    cloud: &mut impl Cloud,
) -> Result<Found, Error> {
    let Some(id) = &facts.status.id else {
        return by_name(facts, cloud).await;
    };
    if look == Look::Listed {
        let listing = cloud.listing().await?;
        let steady = Found::Steady {
            until: listing.until,
        };
        if memory.seen_at.is_some_and(|seen| listing.at < seen) {
            return Ok(steady);
        }
        if let Some(listed) = listing.of(id)
            && (memory.is_behind(&listed.etag) || !tells_news(listed, &facts.status))
        {
            return Ok(steady);
        }
    }
    match cloud.group(id).await {
        Ok(group) if memory.is_behind(&group.etag) => Ok(Found::Behind),
        Ok(group) => {
            let due = memory.tags_at.is_some_and(|at| at <= facts.elapsed);
            let needs_tags = due || memory.doubted || facts.deleting;
            seen(group, true, needs_tags, &facts.marker, cloud).await
        }
        Err(error) if is_missing(&error) => by_name(facts, cloud).await,
        Err(error) => Err(error),
    }
}

/// Looks for a group of its name. Whose that is, only its tags tell.
pub(super) async fn by_name(facts: &Facts, cloud: &mut impl Cloud) -> Result<Found, Error> {
    match cloud.group(&facts.name).await {
        // Some kinds of AWS take a name for an id: it must be the one that was meant.
        Ok(group) if group.name == facts.name => {
            let on_record = facts.status.id.as_ref() == Some(&group.id);
            seen(group, on_record, true, &facts.marker, cloud).await
        }
        Ok(_) => Ok(Found::Nothing),
        Err(error) if is_missing(&error) => Ok(Found::Nothing),
        Err(error) => Err(error),
    }
}

/// The group with its tags. Those in its own answer count if they show our marker: an answer that
/// leaves tags out does not say that there are none.
async fn seen(
    group: Group,
    on_record: bool,
    needs_tags: bool,
    marker: &Marker,
    cloud: &mut impl Cloud,
) -> Result<Found, Error> {
    let echoed = group.tags.as_ref().map(|tags| whose(tags, marker));
    let tags = match echoed {
        Some(Whose::Ours) => group.tags.clone(),
        Some(Whose::Unmarked) | None if !needs_tags => None,
        Some(Whose::Unmarked | Whose::Other(_)) | None => match cloud.tags(&group.arn).await {
            Ok(tags) => Some(tags),
            Err(error) if error.fault() == Fault::OtherMissing => return Ok(Found::Behind),
            Err(error) => return Err(error),
        },
    };
    Ok(Found::There(Box::new(Seen {
        group,
        tags,
        on_record,
    })))
}

pub(super) fn is_missing(error: &Error) -> bool {
    error.fault() == Fault::EntityMissing
}

/// Whether a list shows a group otherwise than its status does. Drift that the status lists is no
/// news.
fn tells_news(listed: &GroupSummary, status: &ConnectionGroupStatus) -> bool {
    let Some(applied) = &status.last_applied else {
        return true;
    };
    let ours = diff::body(applied);
    let shown = aws::cloudfront::GroupBody {
        enabled: listed.enabled,
        anycast_ip_list_id: listed.anycast_ip_list_id.clone(),
        // A list does not tell.
        ipv6_enabled: ours.ipv6_enabled,
    };
    let mut differing = diff::differing(&ours, &shown).into_iter();
    status.e_tag.as_ref() != Some(&listed.etag)
        || status.state.as_ref() != Some(&listed.status)
        || status.routing_endpoint.as_ref() != Some(&listed.routing_endpoint)
        || status.is_default != Some(listed.is_default)
        || differing.any(|field| !status.drift.contains(&field))
}
