//! A record set: read from a request, kept, written into an answer.

use jiff::Timestamp;
use serde::Serialize;

use super::name;
use crate::protocol::ApiError;
use crate::xml::Element;
use crate::xml::read::Node;

const LONGEST_TTL: u64 = 2_147_483_647;
const LONGEST_VALUE: usize = 4000;
const KINDS: &[&str] = &[
    "SOA", "A", "TXT", "NS", "CNAME", "MX", "NAPTR", "PTR", "SRV", "SPF", "AAAA", "CAA", "DS",
    "TLSA", "SSHFP", "SVCB", "HTTPS",
];

/// All records of one name and type (and set identifier).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecordSet {
    /// Name, as [`name::kept`] gives it.
    pub name: String,
    /// Type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Set identifier of a weighted record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// Its weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u64>,
    /// What it says.
    #[serde(flatten)]
    pub data: Data,
    /// When the name servers know it.
    pub settles: Timestamp,
    /// Whether it came by control and not by a call.
    pub seeded: bool,
}

/// What a record set says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Data {
    /// Plain records.
    Values {
        /// Time to live in seconds.
        ttl: u64,
        /// Values, in the order sent.
        values: Vec<String>,
    },
    /// An alias of something in AWS.
    Alias {
        /// Zone of the target.
        zone: String,
        /// Name of the target, as kept.
        target: String,
        /// EvaluateTargetHealth.
        health: bool,
    },
}

impl Data {
    /// Whether both say the same; the order of values does not count.
    pub fn says(&self, other: &Self) -> bool {
        let sorted = |data: &Self| {
            let mut data = data.clone();
            if let Self::Values { values, .. } = &mut data {
                values.sort();
            }
            data
        };
        sorted(self) == sorted(other)
    }

    /// How many elements and characters it counts for in a batch.
    pub(crate) fn weighs(&self) -> (usize, usize) {
        match self {
            Self::Values { values, .. } => (
                values.len(),
                values.iter().map(|one| one.chars().count()).sum(),
            ),
            Self::Alias { .. } => (1, 0),
        }
    }
}

impl RecordSet {
    /// What tells it from all others in its zone, in the order of listings.
    pub fn key(&self) -> String {
        key(&self.name, &self.kind, self.set.as_deref())
    }

    /// The record as Route 53's errors name it.
    pub fn told(&self) -> String {
        let set = self
            .set
            .as_ref()
            .map_or_else(String::new, |set| format!(", set-identifier='{set}'"));
        format!("[name='{}', type='{}'{set}]", self.name, self.kind)
    }

    /// Reads `ResourceRecordSet`; `action` only words the errors.
    pub(crate) fn read(node: Node<'_, '_>, action: &str) -> Result<Self, ApiError> {
        node.only(&[
            "Name",
            "Type",
            "SetIdentifier",
            "Weight",
            "TTL",
            "ResourceRecords",
            "AliasTarget",
        ])?;
        let (sent, kind) = (node.needed("Name")?, node.needed("Type")?);
        if !KINDS.contains(&kind.as_str()) {
            return Err(invalid_input(&format!("Invalid record type '{kind}'.")));
        }
        let set = node.leaf("SetIdentifier");
        let shown = set.as_deref().unwrap_or("null");
        let told = format!("[Action={action}, Name={sent}, Type={kind}, SetIdentifier={shown}]");
        Ok(Self {
            name: name::kept(&sent).map_err(|wrong| invalid_batch(&[wrong]))?,
            weight: node.number("Weight")?,
            data: data(node, &told)?,
            kind,
            set,
            settles: Timestamp::MIN,
            seeded: false,
        })
    }

    /// Writes `ResourceRecordSet`.
    pub(crate) fn element(&self) -> Element {
        let weight = self.weight.map(|weight| weight.to_string());
        let element = Element::new("ResourceRecordSet")
            .leaf("Name", &self.name)
            .leaf("Type", &self.kind)
            .leaf_if("SetIdentifier", self.set.as_deref())
            .leaf_if("Weight", weight.as_deref());
        match &self.data {
            Data::Values { ttl, values } => {
                let records = values
                    .iter()
                    .map(|value| Element::new("ResourceRecord").leaf("Value", value));
                element
                    .leaf("TTL", &ttl.to_string())
                    .child(Element::new("ResourceRecords").children(records))
            }
            Data::Alias {
                zone,
                target,
                health,
            } => element.child(
                Element::new("AliasTarget")
                    .leaf("HostedZoneId", zone)
                    .leaf("DNSName", target)
                    .leaf("EvaluateTargetHealth", &health.to_string()),
            ),
        }
    }
}

/// The key of a record set; without a type, what the keys of all at a name begin with.
pub(crate) fn key(name: &str, kind: &str, set: Option<&str>) -> String {
    let set = set.unwrap_or_default();
    format!("{}\u{0}{kind}\u{0}{set}", name::order(name))
}

fn data(node: Node<'_, '_>, told: &str) -> Result<Data, ApiError> {
    let ttl = node.number("TTL")?;
    let records = node.list("ResourceRecords", &["ResourceRecord"])?;
    let expected = "Invalid request: Expected exactly one of [AliasTarget, all of [TTL, and ResourceRecords], or TrafficPolicyInstanceId], but found";
    match (node.child("AliasTarget"), ttl, records) {
        (None, Some(ttl), Some(records)) if !records.is_empty() => {
            if ttl > LONGEST_TTL {
                let told = format!("Invalid TTL {ttl}: the longest is {LONGEST_TTL}.");
                return Err(invalid_input(&told));
            }
            let values: Result<Vec<_>, _> = records
                .iter()
                .map(|record| record.needed("Value"))
                .collect();
            let values = values?;
            if values.iter().any(|value| value.len() > LONGEST_VALUE) {
                let told = format!("A value is longer than {LONGEST_VALUE} characters.");
                return Err(invalid_input(&told));
            }
            Ok(Data::Values { ttl, values })
        }
        (Some(alias), None, None) => Ok(Data::Alias {
            zone: alias.needed("HostedZoneId")?,
            target: name::kept(&alias.needed("DNSName")?)
                .map_err(|wrong| invalid_batch(&[wrong]))?,
            health: alias.flag("EvaluateTargetHealth")?.ok_or_else(|| {
                invalid_input("EvaluateTargetHealth is required in an AliasTarget.")
            })?,
        }),
        (Some(_), _, _) => Err(invalid_input(&format!(
            "{expected} more than one in Change with {told}"
        ))),
        (None, _, _) => Err(invalid_input(&format!(
            "{expected} none in Change with {told}"
        ))),
    }
}

/// The request cannot be understood.
pub(crate) fn invalid_input(told: &str) -> ApiError {
    ApiError::new(400, "InvalidInput", told)
}

/// The batch cannot be carried out; nothing of it was.
pub(crate) fn invalid_batch(told: &[String]) -> ApiError {
    let told = format!("[{}]", told.join(", "));
    ApiError::new(400, "InvalidChangeBatch", &told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(ttl: u64, values: &[&str]) -> Data {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Data::Values { ttl, values }
    }

    #[test]
    fn the_order_of_values_does_not_count_but_the_ttl_does() {
        assert!(values(60, &["a", "b"]).says(&values(60, &["b", "a"])));
        assert!(!values(60, &["a"]).says(&values(61, &["a"])));
        assert!(!values(60, &["a"]).says(&values(60, &["a", "a"])));
    }

    #[test]
    fn a_set_identifier_is_part_of_the_key_and_of_what_is_told() {
        let mut record = RecordSet {
            name: "a.example.com.".to_owned(),
            kind: "A".to_owned(),
            set: None,
            weight: None,
            data: values(60, &["192.0.2.1"]),
            settles: Timestamp::MIN,
            seeded: false,
        };
        let (key, told) = (record.key(), record.told());
        record.set = Some("blue".to_owned());
        assert!(key < record.key());
        assert_eq!(told, "[name='a.example.com.', type='A']");
        assert_eq!(
            record.told(),
            "[name='a.example.com.', type='A', set-identifier='blue']"
        );
    }
}
