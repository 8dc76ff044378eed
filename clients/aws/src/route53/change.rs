//! Changes of records, and their propagation to the name servers.

use aws_sdk_route53::error::BuildError;
use aws_sdk_route53::types;

use super::{Record, Route53, bare};
use crate::call::Call;
use crate::{Error, Operation};

/// What to do with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Create it; refused if a record of this name and type exists.
    Create,
    /// Create it, or replace the record of this name and type.
    Upsert,
    /// Delete it; refused unless the existing record is equal.
    Delete,
}

/// One change of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What to do.
    pub action: Action,
    /// The record.
    pub record: Record,
}

/// The state of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeStatus {
    /// Not all name servers have it.
    Pending,
    /// All name servers have it; resolvers may still cache older answers.
    InSync,
}

impl Change {
    fn sdk(&self) -> Result<types::Change, BuildError> {
        let action = match self.action {
            Action::Create => types::ChangeAction::Create,
            Action::Upsert => types::ChangeAction::Upsert,
            Action::Delete => types::ChangeAction::Delete,
        };
        types::Change::builder()
            .action(action)
            .resource_record_set(self.record.sdk()?)
            .build()
    }
}

impl Route53 {
    /// Applies all changes or none in this zone; returns the id of the batch.
    ///
    /// # When not to use it
    /// While another batch for the zone has no answer yet: Route 53 refuses the second.
    pub async fn change_batch(&self, zone_id: &str, changes: &[Change]) -> Result<String, Error> {
        let call = Call::new(Operation::ChangeResourceRecordSets, zone_id);
        let batch = batch(changes).map_err(|wrong| call.wrong(&wrong))?;
        let send = || {
            self.client()
                .change_resource_record_sets()
                .hosted_zone_id(zone_id)
                .change_batch(batch.clone())
                .send()
        };
        let answer = self.account.call(&call, &self.caller, send).await?;
        let info = answer.change_info.ok_or_else(|| call.lacks("ChangeInfo"))?;
        Ok(bare(&info.id).to_owned())
    }

    /// The state of the batch of this id.
    pub async fn change(&self, id: &str) -> Result<ChangeStatus, Error> {
        let call = Call::new(Operation::GetChange, id);
        let send = || self.client().get_change().id(id).send();
        let answer = self.account.call(&call, &self.caller, send).await?;
        let info = answer.change_info.ok_or_else(|| call.lacks("ChangeInfo"))?;
        match info.status {
            types::ChangeStatus::Insync => Ok(ChangeStatus::InSync),
            types::ChangeStatus::Pending => Ok(ChangeStatus::Pending),
            _ => Err(call.lacks("known Status")),
        }
    }
}

fn batch(changes: &[Change]) -> Result<types::ChangeBatch, BuildError> {
    let changes: Result<Vec<_>, _> = changes.iter().map(Change::sdk).collect();
    types::ChangeBatch::builder()
        .set_changes(Some(changes?))
        .build()
}
