//! Small choices and references that several kinds share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::never_null;

/// What is done about changes that others made in AWS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DriftPolicy {
    /// They are undone.
    #[default]
    Enforce,
    /// They are reported and left alone.
    Report,
    /// They are only noted in the status.
    Suspend,
}

impl DriftPolicy {
    /// The word in specs and flags.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Report => "report",
            Self::Suspend => "suspend",
        }
    }
}

/// Whether what is in AWS goes with the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// It goes.
    #[default]
    Delete,
    /// It stays.
    Retain,
}

/// An existing tenant that the object takes over instead of making one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct Adoption {
    /// How it is found.
    pub by: AdoptBy,
    /// The owner it may be taken from, as `<cluster>/<namespace>/<name>`; unset: it must have
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = "^[^/]+/[^/]+/[^/]+$"))]
    pub from_owner: Option<String>,
}

/// How the tenant to take over is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AdoptBy {
    /// It has this tenant's name.
    Name,
    /// It serves the first of the domains.
    Domain,
}

/// Another object, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ObjectName {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}
