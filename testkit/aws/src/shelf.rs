//! Named values with a short history, so that reads can be stale.
//!
//! # How staleness works
//! The router never replays answers. It passes the [`View`] of a read to the service, and the service
//! reads its [`Shelf`] through that view:
//! - under a `stale` fault, [`View::Previous`]: one value before its own last change, or the whole
//!   list before the last change of any value;
//! - under a `readLag` switch, [`View::AsOf`]: everything as it was that long ago.
//!
//! Writes always work on the current version.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use jiff::Timestamp;

/// How many versions of one value are kept. After more changes within one `readLag`, a lagging read
/// returns the oldest one.
const KEPT: usize = 32;

/// Which version a read returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// The current one.
    Live,
    /// The one before the last change.
    Previous,
    /// The one at this time.
    AsOf(Timestamp),
}

impl View {
    /// This view with a read lag: the current version becomes an earlier one, `Previous` stays.
    #[must_use]
    pub fn lagged(self, now: Timestamp, lag: Duration) -> Self {
        match self {
            Self::Live if !lag.is_zero() => {
                Self::AsOf(now.saturating_sub(lag).unwrap_or(Timestamp::MIN))
            }
            Self::Live | Self::Previous | Self::AsOf(_) => self,
        }
    }
}

/// Named values, each with its last versions; absence is a version too.
#[derive(Debug, Clone)]
pub struct Shelf<T> {
    things: BTreeMap<String, VecDeque<Version<T>>>,
    changes: u64,
}

#[derive(Debug, Clone)]
struct Version<T> {
    since: Timestamp,
    change: u64,
    thing: Option<T>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self {
            things: BTreeMap::new(),
            changes: 0,
        }
    }
}

impl<T> Shelf<T> {
    /// Stores `thing` under `name` or, with `None`, removes it.
    pub fn put(&mut self, name: &str, thing: Option<T>, now: Timestamp) {
        self.changes += 1;
        let versions = self.things.entry(name.to_owned()).or_default();
        versions.push_back(Version {
            since: now,
            change: self.changes,
            thing,
        });
        if versions.len() > KEPT {
            versions.pop_front();
        }
    }

    /// The value of this name.
    pub fn get(&self, name: &str, view: View) -> Option<&T> {
        let versions = self.things.get(name)?;
        match view {
            View::Live => versions.back(),
            View::Previous => versions.iter().rev().nth(1),
            View::AsOf(time) => versions.iter().rev().find(|version| version.since <= time),
        }
        .and_then(|version| version.thing.as_ref())
    }

    /// All values with their names, in order of name.
    pub fn list(&self, view: View) -> impl Iterator<Item = (&str, &T)> {
        self.list_from("", view)
    }

    /// The values whose name is `start` or comes after it, in order of name.
    pub fn list_from<'a>(
        &'a self,
        start: &str,
        view: View,
    ) -> impl Iterator<Item = (&'a str, &'a T)> + use<'a, T> {
        let last = self.changes;
        let rest = self
            .things
            .range::<str, _>((Bound::Included(start), Bound::Unbounded));
        rest.filter_map(move |(name, versions)| {
            let version = match view {
                View::Live => versions.back(),
                View::Previous => versions.iter().rev().find(|version| version.change < last),
                View::AsOf(time) => versions.iter().rev().find(|version| version.since <= time),
            }?;
            Some((name.as_str(), version.thing.as_ref()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a small number")
    }

    fn names(shelf: &Shelf<u8>, view: View) -> Vec<(&str, u8)> {
        shelf
            .list(view)
            .map(|(name, thing)| (name, *thing))
            .collect()
    }

    fn shelf() -> Shelf<u8> {
        let mut shelf = Shelf::default();
        shelf.put("a", Some(1), at(10));
        shelf.put("b", Some(2), at(20));
        shelf.put("a", Some(3), at(30));
        shelf.put("b", None, at(40));
        shelf
    }

    #[test]
    fn the_current_view_is_the_last_version() {
        assert_eq!(names(&shelf(), View::Live), [("a", 3)]);
    }

    #[test]
    fn the_previous_value_is_the_one_before_its_own_last_change() {
        assert_eq!(shelf().get("a", View::Previous), Some(&1));
        assert_eq!(shelf().get("b", View::Previous), Some(&2));
    }

    #[test]
    fn the_previous_list_is_from_before_the_last_change_of_any() {
        assert_eq!(names(&shelf(), View::Previous), [("a", 3), ("b", 2)]);
    }

    #[test]
    fn an_earlier_view_is_the_state_at_that_time() {
        assert_eq!(names(&shelf(), View::AsOf(at(25))), [("a", 1), ("b", 2)]);
        assert_eq!(shelf().get("b", View::AsOf(at(15))), None);
    }

    #[test]
    fn a_list_can_start_anywhere() {
        let shelf = shelf();
        let from = |start| -> Vec<_> { shelf.list_from(start, View::AsOf(at(35))).collect() };
        assert_eq!(from("a"), [("a", &3), ("b", &2)]);
        assert_eq!(from("aa"), [("b", &2)]);
        assert_eq!(from("c"), []);
    }

    #[test]
    fn no_lag_is_the_current_version() {
        assert_eq!(View::Live.lagged(at(9), Duration::ZERO), View::Live);
        assert_eq!(
            View::Live.lagged(at(9), Duration::from_secs(2)),
            View::AsOf(at(7))
        );
    }
}
