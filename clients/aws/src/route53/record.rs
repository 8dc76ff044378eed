//! Records, and lists of them.

use aws_sdk_route53::error::BuildError;
use aws_sdk_route53::types;

use super::{Route53, bare, domain, name};
use crate::call::Call;
use crate::{Error, Operation, Page};

/// The most entries that a page of a list has.
const PAGE: i32 = 300;

/// A set of records of one name and type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its name.
    pub name: String,
    /// `CNAME`, `A`, `AAAA`, `TXT` and so on.
    pub kind: String,
    /// What name servers answer.
    pub answer: Answer,
    /// Identifies the set where a routing policy chooses among several of this name and type. The
    /// policy itself is not read, so such a set cannot be written back.
    pub set_identifier: Option<String>,
}

/// What name servers answer for a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// These values, with a time to live. Those of TXT are quoted, see
    /// [`txt_value`](super::txt_value).
    Values {
        /// How many seconds resolvers cache it.
        ttl: i64,
        /// As Route 53 writes them.
        values: Vec<String>,
    },
    /// The answer of another name.
    Alias(Alias),
}

/// Another name in AWS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    /// The zone it is in; CloudFront has one of its own.
    pub zone_id: String,
    /// Its name.
    pub target: String,
    /// Whether it answers only while the target is healthy.
    pub evaluate_target_health: bool,
}

/// Where a list of records begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// At this name, in Route 53's order: by labels, the last first.
    pub name: String,
    /// At this type of it.
    pub kind: Option<String>,
    /// At this set of it.
    pub set_identifier: Option<String>,
}

impl Start {
    /// At the first record of a name.
    pub fn at(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind: None,
            set_identifier: None,
        }
    }
}

impl Record {
    pub(super) fn sdk(&self) -> Result<types::ResourceRecordSet, BuildError> {
        let record = types::ResourceRecordSet::builder()
            .name(name::kept(&self.name))
            .r#type(self.kind.as_str().into())
            .set_set_identifier(self.set_identifier.clone());
        let record = match &self.answer {
            Answer::Values { ttl, values } => {
                let values: Result<Vec<_>, _> = values
                    .iter()
                    .map(|value| types::ResourceRecord::builder().value(value).build())
                    .collect();
                record.ttl(*ttl).set_resource_records(Some(values?))
            }
            Answer::Alias(alias) => record.alias_target(
                types::AliasTarget::builder()
                    .hosted_zone_id(&alias.zone_id)
                    .dns_name(name::kept(&alias.target))
                    .evaluate_target_health(alias.evaluate_target_health)
                    .build()?,
            ),
        };
        record.build()
    }

    fn read(received: types::ResourceRecordSet) -> Self {
        let answer = match received.alias_target {
            Some(alias) => Answer::Alias(Alias {
                zone_id: bare(&alias.hosted_zone_id).to_owned(),
                target: domain(&alias.dns_name),
                evaluate_target_health: alias.evaluate_target_health,
            }),
            None => Answer::Values {
                ttl: received.ttl.unwrap_or_default(),
                values: received
                    .resource_records
                    .unwrap_or_default()
                    .into_iter()
                    .map(|record| record.value)
                    .collect(),
            },
        };
        Self {
            name: domain(&received.name),
            kind: received.r#type.as_str().to_owned(),
            answer,
            set_identifier: received.set_identifier,
        }
    }
}

impl Route53 {
    /// A page of up to 300 records of a zone, from `from` on.
    pub async fn records(
        &self,
        zone_id: &str,
        from: Option<&Start>,
    ) -> Result<Page<Record, Start>, Error> {
        let call = Call::new(Operation::ListResourceRecordSets, zone_id);
        let kind = from.and_then(|from| from.kind.as_deref());
        let send = || {
            self.client()
                .list_resource_record_sets()
                .hosted_zone_id(zone_id)
                .set_start_record_name(from.map(|from| name::kept(&from.name)))
                .set_start_record_type(kind.map(Into::into))
                .set_start_record_identifier(from.and_then(|from| from.set_identifier.clone()))
                .max_items(PAGE)
                .send()
        };
        let answer = self.account.call(&call, &self.caller, send).await?;
        let next = match (answer.is_truncated, answer.next_record_name) {
            (false, _) => None,
            (true, None) => return Err(call.lacks("NextRecordName")),
            (true, Some(name)) => Some(Start {
                name: domain(&name),
                kind: answer.next_record_type.map(|kind| kind.as_str().to_owned()),
                set_identifier: answer.next_record_identifier,
            }),
        };
        let sets = answer.resource_record_sets.into_iter();
        Ok(Page {
            items: sets.map(Record::read).collect(),
            next,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let alias = Answer::Alias(Alias {
            zone_id: "Z2FDTNDATAQYW2".to_owned(),
            target: "d0.cloudfront.net".to_owned(),
            evaluate_target_health: false,
        });
        let values = Answer::Values {
            ttl: 300,
            values: vec!["\"a\"".to_owned()],
        };
        for (kind, answer) in [("A", alias), ("TXT", values)] {
            let record = Record {
                name: "*.example.com".to_owned(),
                kind: kind.to_owned(),
                answer,
                set_identifier: None,
            };
            let sdk = record.sdk().unwrap();
            assert_eq!(sdk.name, r"\052.example.com");
            assert_eq!(Record::read(sdk), record);
        }
    }
}
