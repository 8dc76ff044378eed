//! The three sides at one path, and their children.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::agree::{Identity, canonical, keyed, segment};
use super::rules::{ListKey, ListKind};

/// The value of each side at one path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sides<'v> {
    pub(super) last: Option<&'v Value>,
    pub(super) live: Option<&'v Value>,
    pub(super) desired: Option<&'v Value>,
}

type Parts<'v> = Vec<(String, Sides<'v>)>;

/// The children of a path.
pub(super) enum Children<'v> {
    /// None: the path is compared as a whole.
    None,
    /// Paths that may have children of their own.
    Nested(Parts<'v>),
    /// Elements of a set, each present or absent.
    Elements(Parts<'v>),
}

impl<'v> Sides<'v> {
    /// Whether only live has a value here.
    pub(super) fn is_not_ours(self) -> bool {
        self.desired.is_none() && self.last.is_none()
    }

    pub(super) fn children(self, list: Option<&ListKind>) -> Children<'v> {
        let children = if self.all(Value::is_object) {
            Children::Nested(self.fields())
        } else if self.all(Value::is_array) {
            match list {
                Some(ListKind::Map { keys }) => {
                    self.entries(keys).map_or(Children::None, Children::Nested)
                }
                Some(ListKind::Set) => Children::Elements(self.elements()),
                Some(ListKind::Unordered) => Children::None,
                None => self.positions().map_or(Children::None, Children::Nested),
            }
        } else {
            Children::None
        };
        match children {
            // A desired empty object or list means that it must exist.
            Children::Nested(parts) | Children::Elements(parts)
                if parts.is_empty() || self.wants_empty_where_nothing_is() =>
            {
                Children::None
            }
            other => other,
        }
    }

    fn wants_empty_where_nothing_is(self) -> bool {
        let empty = |value: &Value| match value {
            Value::Object(fields) => fields.is_empty(),
            Value::Array(elements) => elements.is_empty(),
            _ => false,
        };
        self.live.is_none() && self.desired.is_some_and(empty)
    }

    fn all(self, is: fn(&Value) -> bool) -> bool {
        [self.last, self.live, self.desired]
            .into_iter()
            .flatten()
            .all(is)
    }

    /// Field by field. Null is absent.
    fn fields(self) -> Parts<'v> {
        let names: BTreeSet<&String> = [self.last, self.desired]
            .into_iter()
            .flatten()
            .filter_map(Value::as_object)
            .flat_map(|fields| fields.keys())
            .collect();
        let field = |side: Option<&'v Value>, name: &str| {
            side.and_then(|value| value.get(name))
                .filter(|value| !value.is_null())
        };
        names
            .into_iter()
            .map(|name| (name.clone(), self.each(|side| field(side, name))))
            .collect()
    }

    /// Element by element of a list map, if every side is a valid one.
    fn entries(self, keys: &[ListKey]) -> Option<Parts<'v>> {
        let read =
            |side: Option<&'v Value>| side.map_or(Some(BTreeMap::new()), |list| keyed(list, keys));
        let (last, live, desired) = (read(self.last)?, read(self.live)?, read(self.desired)?);
        let segment = |identity: &Identity| segment(keys, identity);
        Some(by_name(&last, &live, &desired, segment))
    }

    /// Element by element of a set.
    fn elements(self) -> Parts<'v> {
        let read = |side: Option<&'v Value>| -> BTreeMap<String, &'v Value> {
            let elements = side.and_then(Value::as_array).into_iter().flatten();
            elements
                .map(|element| (canonical(element), element))
                .collect()
        };
        let (last, live, desired) = (read(self.last), read(self.live), read(self.desired));
        by_name(&last, &live, &desired, |canonical: &String| {
            // A string is in the path without its quotes.
            serde_json::from_str::<String>(canonical).unwrap_or_else(|_| canonical.clone())
        })
    }

    /// Position by position, if all elements of desired and live are objects and the lengths are equal.
    fn positions(self) -> Option<Parts<'v>> {
        let live = self.live?.as_array()?;
        let desired = self.desired?.as_array()?;
        let objects = live.iter().chain(desired).all(Value::is_object);
        if live.len() != desired.len() || !objects {
            return None;
        }
        let at = |side: Option<&'v Value>, index: usize| side.and_then(|list| list.get(index));
        let positions = 0..desired.len();
        Some(
            positions
                .map(|index| (index.to_string(), self.each(|side| at(side, index))))
                .collect(),
        )
    }

    fn each(self, find: impl Fn(Option<&'v Value>) -> Option<&'v Value>) -> Self {
        Self {
            last: find(self.last),
            live: find(self.live),
            desired: find(self.desired),
        }
    }
}

type Named<'v, N> = BTreeMap<N, &'v Value>;

/// The names in last or desired, each with its three sides.
fn by_name<'v, N: Ord>(
    last: &Named<'v, N>,
    live: &Named<'v, N>,
    desired: &Named<'v, N>,
    segment: impl Fn(&N) -> String,
) -> Parts<'v> {
    let names: BTreeSet<&N> = last.keys().chain(desired.keys()).collect();
    let sides = |name: &N| Sides {
        last: last.get(name).copied(),
        live: live.get(name).copied(),
        desired: desired.get(name).copied(),
    };
    names
        .into_iter()
        .map(|name| (segment(name), sides(name)))
        .collect()
}
