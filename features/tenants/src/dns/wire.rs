//! Records as Route 53's client has them.

use aws::route53::zone_writer::ChangeSet;
use aws::route53::{self, Alias, Answer, Record, Start};
use aws::{Account, Caller};

use super::Bundle;
use super::known::Sight;
use super::plan::Look;
use super::record::{Action, Change, Content, Kind, RecordSet};

impl From<&Change> for route53::Change {
    fn from(change: &Change) -> Self {
        Self {
            action: match change.action {
                Action::Create => route53::Action::Create,
                Action::Upsert => route53::Action::Upsert,
                Action::Delete => route53::Action::Delete,
            },
            record: Record {
                name: change.set.name.clone(),
                kind: change.set.kind.as_str().to_owned(),
                answer: match change.set.content.clone() {
                    Content::Values { ttl, values } => Answer::Values { ttl, values },
                    Content::Alias {
                        zone,
                        target,
                        health,
                    } => Answer::Alias(Alias {
                        zone_id: zone,
                        target,
                        evaluate_target_health: health,
                    }),
                },
                set_identifier: None,
            },
        }
    }
}

impl From<&Bundle> for ChangeSet {
    fn from(bundle: &Bundle) -> Self {
        Self {
            access: bundle.place.clone(),
            name: bundle.name.clone(),
            changes: bundle.changes.iter().map(Into::into).collect(),
        }
    }
}

impl From<Record> for RecordSet {
    fn from(record: Record) -> Self {
        let Record {
            name,
            kind,
            answer,
            set_identifier,
        } = record;
        Self {
            name,
            kind: Kind::of(&kind),
            content: match answer {
                Answer::Values { ttl, values } => Content::Values { ttl, values },
                Answer::Alias(Alias {
                    zone_id,
                    target,
                    evaluate_target_health,
                }) => Content::Alias {
                    zone: zone_id,
                    target,
                    health: evaluate_target_health,
                },
            },
            routed: set_identifier.is_some(),
        }
    }
}

/// Reads what `look` asks for. A name's sets are few, so one page from it on holds them all.
pub(crate) async fn read(
    look: &Look,
    account: &Account,
    asker: &Caller,
) -> Result<Sight, aws::Error> {
    let route53 = account.route53(asker);
    let mut sets = Vec::new();
    for name in &look.names {
        let from = Start::at(name);
        let page = route53.records(&look.place.zone, Some(&from)).await?;
        let records = page.items.into_iter();
        sets.extend(records.filter(|one| one.name == *name).map(RecordSet::from));
    }
    Ok(Sight { sets })
}
