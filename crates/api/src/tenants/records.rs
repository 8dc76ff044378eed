//! What the status of a tenant lists: records, drift, and what its owner has to do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::never_null;

/// A DNS record that is ours, as it was last written.
///
/// Read strictly: one that was skipped would be left behind in its zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct DnsRecord {
    /// The hosted zone it is in.
    pub zone_id: String,
    /// Its name.
    pub name: String,
    /// Its type; A and AAAA are aliases.
    #[serde(rename = "type")]
    pub kind: RecordType,
    /// How long resolvers keep it, in seconds; an alias has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<i64>,
    /// Where it points.
    pub target: String,
    /// The role it was written with; unset: the operator's own credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role_arn: Option<String>,
    /// The external id that role asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// How far it is.
    pub state: RecordState,
    /// The change of Route 53 that is still to reach all name servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_id: Option<String>,
}

/// The type of a DNS record.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum RecordType {
    /// Another name for the target.
    Cname,
    /// An alias of the target's IPv4 addresses.
    A,
    /// An alias of the target's IPv6 addresses.
    Aaaa,
}

impl RecordType {
    /// The word DNS uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cname => "CNAME",
            Self::A => "A",
            Self::Aaaa => "AAAA",
        }
    }
}

/// How far a DNS record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RecordState {
    /// It is wanted; whether it was written cannot be told from here.
    Planned,
    /// Route 53 took it.
    Applied,
    /// It is no longer wanted and may still be there.
    Deleting,
}

/// A DNS record that somebody else has to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequiredRecord {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: RequiredRecordType,
    /// Where it has to point.
    pub value: String,
}

/// The type of a DNS record that somebody else has to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum RequiredRecordType {
    /// A CNAME.
    Cname,
    /// At the top of a zone, whatever its provider offers there: ALIAS, ANAME, a flattened CNAME.
    Alias,
}

impl RequiredRecordType {
    /// The word in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cname => "CNAME",
            Self::Alias => "ALIAS",
        }
    }
}

/// What others changed in AWS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = never_null)]
pub struct DriftedField {
    /// The field, as the spec names it.
    pub field: String,
    /// What we gave, at most 256 characters; unset: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub want: Option<String>,
    /// What is there, at most 256 characters; unset: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<String>,
}

/// A redirect by which your server proves that a domain is yours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = never_null)]
pub struct ValidationToken {
    /// The domain.
    pub domain: String,
    /// The path that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect_from: Option<String>,
    /// Where it has to lead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect_to: Option<String>,
}
