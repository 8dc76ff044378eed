//! What the schemas of this group share: patterns and rules.

use serde_json::Value;

pub(super) use crate::schema::{is_default, never_null, none_required, rule, unchanging};

/// A host name of two or more labels in any case, below `*.` or not, with a final dot or not.
pub(super) const DOMAIN: &str = r"^(\*\.)?([a-zA-Z0-9_]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?\.)+[a-zA-Z0-9_]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?\.?$";
/// A name CloudFront takes for a tenant or a group.
pub(super) const AWS_NAME: &str = "^[a-zA-Z0-9][a-zA-Z0-9.-]*[a-zA-Z0-9]$";
/// The ARN of an IAM role.
pub(super) const ROLE_ARN: &str = "^arn:aws[a-z-]*:iam::[0-9]{12}:role/[!-~]+$";
/// The id of a hosted zone, as Route 53 prints it or without its prefix.
pub(super) const ZONE_ID: &str = "^(/hostedzone/)?[A-Z0-9]{1,32}$";

/// The most domains a tenant has.
pub(super) const DOMAINS: usize = 500;
/// The longest domain, with a final dot.
pub(super) const DOMAIN_CHARS: usize = 254;
/// The most parameters a tenant has.
pub(super) const PARAMETERS: usize = 50;
/// The most tags: AWS takes 50, and two are the marker.
pub(super) const TAGS: usize = 48;

/// Every parameter has a name of its own.
pub(super) fn distinct_names() -> Value {
    distinct("name", PARAMETERS, "names of parameters must be unique")
}

/// Every tag has a key of its own.
pub(super) fn distinct_keys() -> Value {
    distinct("key", TAGS, "keys of tags must be unique")
}

// The API server forgives a stored list that breaks a rule, but not that looking at it costs too
// much. So a list beyond its bound, which is refused for that already, is not walked.
fn distinct(field: &str, bound: usize, message: &str) -> Value {
    let walk = format!("self.all(one, self.exists_one(other, other.{field} == one.{field}))");
    rule(&format!("self.size() > {bound} || {walk}"), message)
}

/// No tag takes a key that is AWS's or the operator's.
pub(super) fn free_key() -> Value {
    rule(
        "!self.lowerAscii().startsWith('aws:') && !self.lowerAscii().startsWith('pontoon.io/')",
        "keys that begin with aws: or pontoon.io/ are reserved",
    )
}

/// A group is named by its id or by its object.
pub(super) fn one_group() -> Value {
    rule(
        "!has(self.connectionGroupRef) || !has(self.connectionGroupId) \
         || self.connectionGroupId == ''",
        "connectionGroupId and connectionGroupRef are mutually exclusive",
    )
}

pub(super) fn yes() -> bool {
    true
}
