//! Tags of a tenant or group: which to write, and whose they say it is. Pure.
//!
//! The marker is two tags, on it from the Create call on. Keys that neither spec nor record has
//! are foreign and stay.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use api::tenants::{Adoption, DriftPolicy, reasons};
use kernel::{MARKER_CLUSTER, MARKER_OBJECT, Marker, Reason};

pub(crate) type Tags = BTreeMap<String, String>;

/// What is written: one TagResource and one UntagResource, each only if it has something.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TagChanges {
    pub(crate) set: Tags,
    pub(crate) remove: BTreeSet<String>,
}

impl TagChanges {
    pub(crate) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty()
    }
}

/// The tags of a Create: those declared, and the marker, which wins.
pub(crate) fn at_creation(declared: &Tags, marker: &Marker) -> Tags {
    let marks = marker.tags();
    let marks = marks.map(|(key, value)| (key.to_owned(), value.to_owned()));
    declared.clone().into_iter().chain(marks).collect()
}

/// | last  | live    | declared | enforce | report, suspend |
/// |-------|---------|----------|---------|-----------------|
/// | any   | a       | a        | –       | –               |
/// | not b | any     | b        | set b   | set b           |
/// | a     | x, none | a        | set a   | –               |
/// | a     | any     | none     | remove  | remove          |
/// | none  | any     | none     | –       | –               |
///
/// The marker is set wherever it is missing: without it nobody could tell whose the tenant is.
/// `live` none means that the tags were not read, so only edits are known.
pub(crate) fn changes(
    last: &Tags,
    live: Option<&Tags>,
    declared: &Tags,
    marker: &Marker,
    policy: DriftPolicy,
) -> TagChanges {
    let is_there = |key: &str, value: &str| {
        live.is_some_and(|live| live.get(key).is_some_and(|there| there == value))
    };
    let is_due = |key: &str, value: &str| {
        let edited = last.get(key).is_none_or(|before| before != value);
        let corrected = live.is_some() && policy == DriftPolicy::Enforce;
        (edited || corrected) && !is_there(key, value)
    };
    let ours = declared.iter().filter(|(key, _)| !is_mark(key));
    let ours = ours.filter(|(key, value)| is_due(key, value));
    let mut set: Tags = ours
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let marks = marker.tags().into_iter();
    let missing = marks.filter(|(key, value)| live.is_some() && !is_there(key, value));
    set.extend(missing.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let dropped = last
        .keys()
        .filter(|key| !declared.contains_key(*key) && !is_mark(key));
    let dropped = dropped.filter(|key| live.is_none_or(|live| live.contains_key(*key)));
    TagChanges {
        remove: dropped.cloned().collect(),
        set,
    }
}

fn is_mark(key: &str) -> bool {
    [MARKER_CLUSTER, MARKER_OBJECT].contains(&key)
}

/// Whose a tenant or group is, by its tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Whose {
    /// This very object's.
    Ours,
    /// It has no marker, or a part of ours.
    Unmarked,
    /// It has this owner's: `<cluster>/<namespace>/<name>`, of a group `<cluster>/<name>`.
    Other(String),
}

/// Reads a marker. Half of another's is another's.
pub(crate) fn whose(tags: &Tags, marker: &Marker) -> Whose {
    let pairs = tags
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()));
    if marker.is_ours(pairs) {
        return Whose::Ours;
    }
    let mark = |key: &str| tags.get(key).map(String::as_str);
    let (cluster, object) = (mark(MARKER_CLUSTER), mark(MARKER_OBJECT));
    let differs = cluster.is_some_and(|cluster| cluster != marker.cluster.as_str())
        || object.is_some_and(|object| object != marker.object);
    if differs {
        let shown = |part: Option<&str>| part.unwrap_or("?").to_owned();
        Whose::Other(format!("{}/{}", shown(cluster), shown(object)))
    } else {
        Whose::Unmarked
    }
}

/// What may be done with a tenant that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Ours; its marker may have to be set.
    Ours,
    /// Taken over because the spec says so: its marker is set before anything else.
    Adopt {
        /// The owner it is taken from; none if it had none.
        from: Option<String>,
    },
    /// Neither written nor deleted.
    NotOwned(Whose),
}

/// | marker  | id on record | adoption in spec | so                     |
/// |---------|--------------|------------------|------------------------|
/// | ours    | any          | any              | ours                   |
/// | none    | yes          | any              | ours                   |
/// | none    | no           | yes              | adopted                |
/// | none    | no           | no               | not owned              |
/// | another | any          | fromOwner is it  | adopted from it        |
/// | another | any          | else             | not owned, names owner |
///
/// `on_record` says that `status.id` is the id of what was found. `adoption` counts where a policy
/// allows it, and never on deletion.
pub(crate) fn standing(whose: Whose, on_record: bool, adoption: Option<&Adoption>) -> Standing {
    match (whose, on_record, adoption) {
        (Whose::Ours, ..) | (Whose::Unmarked, true, _) => Standing::Ours,
        (Whose::Unmarked, false, Some(_)) => Standing::Adopt { from: None },
        (Whose::Unmarked, false, None) => Standing::NotOwned(Whose::Unmarked),
        (Whose::Other(owner), _, Some(adoption))
            if adoption.from_owner.as_deref() == Some(&*owner) =>
        {
            Standing::Adopt { from: Some(owner) }
        }
        (other @ Whose::Other(_), ..) => Standing::NotOwned(other),
    }
}

/// Why a tenant or group that was found is left alone; `found` names it.
pub(crate) fn not_owned(found: &str, whose: &Whose) -> Reason {
    let message = match whose {
        Whose::Other(owner) => format!(
            "{found} belongs to {owner}; set spec.adoption.fromOwner to that if it may be taken \
             over, or use another name"
        ),
        Whose::Ours | Whose::Unmarked => format!(
            "{found} is there already and carries no marker of Pontoon; set spec.adoption to take \
             it over, or use another name"
        ),
    };
    Reason::new(reasons::NOT_OWNED, message)
}
