//! What the schemas of this group share: patterns and rules.

use serde_json::{Value, json};

pub(super) use crate::schema::{never_null, rule};

/// A shell glob: `*`, `?`, `[abc]`, `[!abc]`, `\x`. Every `[` is closed around at least one
/// character, and no backslash stands alone at the end.
pub(super) const GLOB: &str =
    r"^([^\\\[]|\\.|\[([!^](\\.|[^\\\]])+|(\\.|[^\\\]!^])(\\.|[^\\\]])*)\])*$";
/// Text on one line.
pub(super) const SINGLE_LINE: &str = r"^[^\x00-\x1f\x7f]*$";
/// Text on one line in which Vault's parser finds no interpolation: no `${`.
pub(super) const LITERAL: &str = r"^([^\x00-\x1f\x7f$]|\$+[^\x00-\x1f\x7f${])*\$*$";
/// A path of Vault's policy language; what a pattern cannot say of it is in [`path_rules`].
pub(super) const PATH: &str = r"^[a-zA-Z0-9/_*.{}+-]+$";
/// What a header of HTTP can carry.
pub(super) const VISIBLE: &str = "^[!-~]+$";

/// What holds of every path beyond [`PATH`].
pub(super) fn path_rules() -> [Value; 2] {
    [
        rule("!self.contains('..')", "a path must not contain '..'"),
        rule("!self.contains('+*')", "a path must not contain '+*'"),
    ]
}

/// `field` is the same for the whole life of the object, and so is its absence.
pub(super) fn fixed(field: &str) -> Value {
    crate::schema::unchanging(
        field,
        &format!("{field} can be neither added, changed nor removed; make another object"),
    )
}

/// Schema of a map whose values are lists of [`LITERAL`] texts.
pub(super) fn lists_of_literals() -> Value {
    json!({"type": "array", "items": {"type": "string", "pattern": LITERAL}})
}
