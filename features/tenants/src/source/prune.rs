//! Which objects go because their rows are gone.
//!
//! | of the objects without a row             | so                                   |
//! |------------------------------------------|--------------------------------------|
//! | there are none                           | up to date                           |
//! | prune is off                             | they stay, and the source says so    |
//! | missed by too few readings in a row      | they stay for now                    |
//! | few enough, of a table with rows, all of |                                      |
//! | which name a tenant                      | those confirmed are deleted          |
//! | approved by hash, exactly this set       | the same                             |
//! | else                                     | none is deleted: blocked, with hash  |
//!
//! How often an object was missed is only kept in memory. After a restart the count begins anew, and
//! a deletion comes later, never sooner; a set that was blocked is known again by its hash.

use std::collections::BTreeMap;
use std::fmt;

use api::tenants::Prune;

/// Bytes of a hash that are shown: enough to tell sets apart, few enough to copy by eye.
const HASH_BYTES: usize = 6;

/// An object without a row. Two of one name, made at different times, are two.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Missing {
    pub(crate) name: String,
    pub(crate) uid: String,
    /// The version in which it was looked at: it is deleted only as it was judged.
    pub(crate) version: u64,
}

/// Readings in a row that missed an object, by its UID.
pub(crate) type Misses = BTreeMap<String, i64>;

/// The counts after one more reading. What has its row again is forgotten.
pub(crate) fn counted(before: &Misses, missing: &[Missing]) -> Misses {
    let one_more = |one: &Missing| (one.uid.clone(), before.get(&one.uid).map_or(1, |n| n + 1));
    missing.iter().map(one_more).collect()
}

/// What is known when it is decided.
pub(crate) struct Facts<'a> {
    pub(crate) rules: Prune,
    /// Rows the reading gave.
    pub(crate) rows: usize,
    /// Those of them that name no tenant.
    pub(crate) nameless: usize,
    /// Objects of the source, with and without a row.
    pub(crate) marked: usize,
    /// Those without, by name.
    pub(crate) missing: &'a [Missing],
    pub(crate) misses: &'a Misses,
    /// The hash that somebody has approved.
    pub(crate) approved: Option<&'a str>,
}

/// What becomes of the objects without a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Every object has its row.
    UpToDate,
    /// They stay: prune is off.
    Disabled,
    /// They stay until more readings have missed them.
    Unconfirmed,
    /// These go now.
    Delete(Vec<Missing>),
    /// None goes before this set is approved.
    Blocked {
        set: Vec<Missing>,
        hash: String,
        why: Objection,
    },
}

/// Why objects may not go without approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Objection {
    /// Such a table is more likely broken than meant.
    Empty,
    /// So many rows name no tenant: any of them may be a missing one.
    Nameless(usize),
    /// They are more than `percent` of all.
    TooMany {
        count: usize,
        marked: usize,
        percent: i64,
    },
}

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the table gave no row at all"),
            Self::Nameless(rows) => {
                write!(f, "{rows} rows name no tenant, and may be theirs")
            }
            Self::TooMany {
                count,
                marked,
                percent,
            } => write!(f, "they are {count} of {marked}, over {percent} percent"),
        }
    }
}

/// Decides by the table above.
pub(crate) fn verdict(facts: &Facts<'_>) -> Verdict {
    if facts.missing.is_empty() {
        return Verdict::UpToDate;
    }
    if !facts.rules.enabled {
        return Verdict::Disabled;
    }
    let is_confirmed = |one: &&Missing| {
        let misses = facts.misses.get(&one.uid).copied().unwrap_or_default();
        misses >= facts.rules.confirm_polls
    };
    let set: Vec<Missing> = facts.missing.iter().filter(is_confirmed).cloned().collect();
    if set.is_empty() {
        return Verdict::Unconfirmed;
    }
    let hash = hash(&set);
    let approved = facts.approved.is_some_and(|given| given.trim() == hash);
    match objection(facts, set.len()) {
        Some(why) if !approved => Verdict::Blocked { set, hash, why },
        Some(_) | None => Verdict::Delete(set),
    }
}

fn objection(facts: &Facts<'_>, count: usize) -> Option<Objection> {
    let Facts {
        nameless, marked, ..
    } = *facts;
    let percent = facts.rules.max_delete_percent;
    if facts.rows == 0 {
        return Some(Objection::Empty);
    }
    if nameless > 0 {
        return Some(Objection::Nameless(nameless));
    }
    let allowed = u128::try_from(percent).unwrap_or_default() * marked as u128;
    let few = count as u128 * 100 <= allowed || (count == 1 && marked >= 2);
    (!few).then_some(Objection::TooMany {
        count,
        marked,
        percent,
    })
}

/// Names exactly this set of objects.
pub(crate) fn hash(set: &[Missing]) -> String {
    let mut lines: Vec<String> = set
        .iter()
        .map(|Missing { name, uid, .. }| format!("{name} {uid}\n"))
        .collect();
    lines.sort();
    super::digest(&lines.concat(), HASH_BYTES)
}

#[cfg(test)]
mod tests;
