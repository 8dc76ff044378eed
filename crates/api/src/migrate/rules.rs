//! Rules in CEL: what the API server checks beyond types, patterns and bounds.
//!
//! Rules about a change are at the root, since most depend on the status. A write of the spec sees the stored
//! status on both sides, and a write of the status the stored spec, so that the rules concern spec edits only.

use kube::core::Rule;
use serde_json::Value;

use crate::schema::rule;

/// Once the run has started, `field` of the spec cannot change.
pub(super) fn frozen(field: &str) -> Rule {
    about(
        field,
        &format!("!({STARTED}) || {}", unchanged(field)),
        "cannot change after the migration has started",
    )
}

/// Once the clean-up of the source has begun or the run is over, `field` of the spec cannot change.
pub(super) fn frozen_by_cleanup(field: &str) -> Rule {
    about(
        field,
        &format!("!({CLEANED} || {OVER}) || {}", unchanged(field)),
        "cannot change after the clean-up of the source has begun",
    )
}

/// `retry` never falls.
pub(super) fn retry_rises() -> Rule {
    about(
        "retry",
        "!has(oldSelf.spec.retry) || (has(self.spec.retry) && self.spec.retry >= oldSelf.spec.retry)",
        "cannot be lowered",
    )
}

/// `abort` is never cleared.
pub(super) fn abort_stays() -> Rule {
    about(
        "abort",
        "!has(oldSelf.spec.abort) || has(self.spec.abort)",
        "cannot be cleared",
    )
}

/// A rollback goes on.
pub(super) fn rollback_stays() -> Rule {
    about(
        "abort",
        "!has(oldSelf.spec.abort) || !has(self.spec.abort) \
         || oldSelf.spec.abort != 'Rollback' || self.spec.abort == 'Rollback'",
        "cannot change from Rollback to Leave",
    )
}

/// The two names of a fence are given together.
pub(super) fn names_in_pairs() -> Value {
    rule(
        "has(self.sourceClusterName) == has(self.destClusterName)",
        "spec.fence needs both sourceClusterName and destClusterName, or neither",
    )
}

/// EC2 accepts the keys, and none is one of ours.
pub(super) fn usable_tags() -> Value {
    let reserved =
        super::valid::RESERVED_TAGS.map(|start| format!("key.lowerAscii().startsWith('{start}')"));
    rule(
        &format!(
            "self.all(key, key.size() >= 1 && key.size() <= {} && !({}))",
            super::valid::TAG_KEY_CHARS,
            reserved.join(" || ")
        ),
        "keys of spec.snapshots.tags have 1 to 128 characters and do not begin with aws:, pontoon.io/ or \
         migration.aqua.io/",
    )
}

const STARTED: &str =
    "has(oldSelf.status) && has(oldSelf.status.started) && oldSelf.status.started";
const CLEANED: &str =
    "has(oldSelf.status) && has(oldSelf.status.cleanupStarted) && oldSelf.status.cleanupStarted";
const OVER: &str = "has(oldSelf.status) && has(oldSelf.status.phase) \
                    && oldSelf.status.phase in ['Completed', 'RolledBack']";

/// `field` of the spec is as it was, and so is its absence.
fn unchanged(field: &str) -> String {
    let (new, old) = (
        format!("self.spec.{field}"),
        format!("oldSelf.spec.{field}"),
    );
    format!("(has({new}) == has({old}) && (!has({new}) || {new} == {old}))")
}

/// A rule at the root whose refusal names a field of the spec.
fn about(field: &str, cel: &str, message: &str) -> Rule {
    Rule::new(cel)
        .message(format!("spec.{field} {message}").as_str())
        .field_path(format!(".spec.{field}"))
}
