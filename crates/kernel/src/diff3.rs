//! Three-way diff: what was last applied, what is live, what is desired.

mod agree;
mod path;
mod rules;
mod sides;
mod summary;

pub use rules::{ListKey, Rules};

use serde_json::Value;

use agree::agrees;
use path::Path;
use sides::{Children, Sides};

/// What changed at one path.
///
/// | last | live | desired | kind                                    |
/// |------|------|---------|-----------------------------------------|
/// | any  | a    | a       | `Same`, also if our record is old       |
/// | a    | a    | b       | `Edit`: the spec changed                |
/// | a    | x    | a       | `Drift`: live changed, the spec did not |
/// | a    | x    | b       | `Both`                                  |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// The spec changed; live is still as last applied.
    Edit,
    /// Live changed; the spec did not.
    Drift,
    /// The spec and live changed independently.
    Both,
    /// Live is as desired.
    Same,
}

/// One path that we manage, and its three sides. A side without a value there is none.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// A JSON pointer. An element of a list map is `<key>=<value>`, with a comma between several, one of a set
    /// its value.
    pub path: String,
    /// What changed.
    pub kind: ChangeKind,
    /// What was last applied.
    pub last: Option<Value>,
    /// The live value.
    pub live: Option<Value>,
    /// The desired value; none if it should be removed.
    pub desired: Option<Value>,
}

/// Every path in desired or last applied, with what changed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Diff {
    /// In the order of the paths, including unchanged ones.
    pub changes: Vec<Change>,
}

impl Diff {
    /// Whether live has everything desired, so that nothing has to be written.
    pub fn is_same(&self) -> bool {
        self.changes
            .iter()
            .all(|change| change.kind == ChangeKind::Same)
    }

    /// Whether the spec changed anywhere since it was last applied.
    pub fn edited(&self) -> bool {
        self.any_of([ChangeKind::Edit, ChangeKind::Both])
    }

    /// Whether live changed anywhere without us.
    pub fn drifted(&self) -> bool {
        self.any_of([ChangeKind::Drift, ChangeKind::Both])
    }

    fn any_of(&self, kinds: [ChangeKind; 2]) -> bool {
        self.changes
            .iter()
            .any(|change| kinds.contains(&change.kind))
    }
}

/// Compares what was last applied, what is live and what is desired, path by path.
///
/// Only paths in `desired` or `last` are ours: the service or others have set what only `live` has,
/// so it is never a change. A path that is in `last` and `live` but no longer in `desired` is an edit
/// whose `desired` is none. Null counts as absent; 1 and 1.0 are
/// equal; integers keep all their digits.
///
/// Lists are compared as a whole and in order, but fields that only live has are ignored in their
/// elements too; `rules` name the lists of other kinds.
///
/// - `last` none: never applied, so every difference is an edit.
/// - `live` none: the whole document is missing, which is drift if `desired` is as last applied, else
///   an edit.
///
/// # When not to use it
/// To compute what to send: send the whole of `desired`. The diff only says whether and why.
pub fn diff3(last: Option<&Value>, live: Option<&Value>, desired: &Value, rules: &Rules) -> Diff {
    let mut walk = Walk {
        rules,
        never_applied: last.is_none(),
        path: Path::default(),
        changes: Vec::new(),
    };
    if live.is_none() {
        walk.all_missing(last, desired);
    } else {
        walk.visit(Sides {
            last: last.filter(|value| !value.is_null()),
            live: live.filter(|value| !value.is_null()),
            desired: Some(desired).filter(|value| !value.is_null()),
        });
    }
    Diff {
        changes: walk.changes,
    }
}

struct Walk<'r> {
    rules: &'r Rules,
    never_applied: bool,
    path: Path,
    changes: Vec<Change>,
}

impl Walk<'_> {
    fn all_missing(&mut self, last: Option<&Value>, desired: &Value) {
        let desired = Some(desired);
        let kind = if self.equal(last, desired) {
            ChangeKind::Drift
        } else {
            ChangeKind::Edit
        };
        self.note(
            kind,
            Sides {
                last,
                live: None,
                desired,
            },
        );
    }

    fn visit(&mut self, sides: Sides<'_>) {
        if self.rules.is_theirs(&self.path) || sides.is_not_ours() {
            return;
        }
        if sides.desired.is_none() && self.rules.is_defaulted(&self.path) {
            return self.note(ChangeKind::Same, sides);
        }
        match sides.children(self.rules.list(&self.path)) {
            Children::None => self.note(self.kind(sides), sides),
            Children::Nested(children) => {
                for (segment, child) in children {
                    self.path.push(segment);
                    self.visit(child);
                    self.path.pop();
                }
            }
            Children::Elements(elements) => {
                for (segment, element) in elements {
                    self.path.push(segment);
                    self.note(self.kind(element), element);
                    self.path.pop();
                }
            }
        }
    }

    fn kind(&self, sides: Sides<'_>) -> ChangeKind {
        let Sides {
            last,
            live,
            desired,
        } = sides;
        if self.agrees(desired, live) {
            return ChangeKind::Same;
        }
        if self.never_applied {
            return ChangeKind::Edit;
        }
        match (self.equal(desired, last), self.agrees(last, live)) {
            (false, true) => ChangeKind::Edit,
            (true, false) => ChangeKind::Drift,
            (false, false) => ChangeKind::Both,
            (true, true) => ChangeKind::Same,
        }
    }

    /// Whether `found` contains all of `wanted`.
    fn agrees(&self, wanted: Option<&Value>, found: Option<&Value>) -> bool {
        match (wanted, found) {
            (None, None) => true,
            (Some(wanted), Some(found)) => {
                agrees(self.rules, &mut self.path.clone(), wanted, found)
            }
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    fn equal(&self, one: Option<&Value>, other: Option<&Value>) -> bool {
        self.agrees(one, other) && self.agrees(other, one)
    }

    fn note(&mut self, kind: ChangeKind, sides: Sides<'_>) {
        self.changes.push(Change {
            path: self.path.to_string(),
            kind,
            last: sides.last.cloned(),
            live: sides.live.cloned(),
            desired: sides.desired.cloned(),
        });
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
