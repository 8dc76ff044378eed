//! Which objects go because their rows are gone.
//!
//! | of the objects without a row             | so                                   |
//! |------------------------------------------|--------------------------------------|
//! | there are none                           | up to date                           |
//! | prune is off                             | they stay, and the source says so    |
//! | missed by too few readings in a row      | they stay for now                    |
//! | few enough, and the table has rows       | those confirmed are deleted          |
//! | approved by hash, exactly this set       | the same                             |
//! | else                                     | none is deleted: blocked, with hash  |
//!
//! How often an object was missed is only kept in memory. After a restart the count begins anew, and
//! a deletion comes later, never sooner; a set that was blocked is known again by its hash.

use std::collections::BTreeMap;

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
        why: String,
    },
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

/// Why `count` objects may not go without approval.
fn objection(facts: &Facts<'_>, count: usize) -> Option<String> {
    let Facts { rows, marked, .. } = *facts;
    let percent = facts.rules.max_delete_percent;
    if rows == 0 {
        return Some("the table gave no row at all".to_owned());
    }
    let allowed = u128::try_from(percent).unwrap_or_default() * marked as u128;
    let few = count as u128 * 100 <= allowed || (count == 1 && marked >= 2);
    (!few).then(|| format!("they are {count} of {marked}, over {percent} percent"))
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
