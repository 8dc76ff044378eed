//! DescribeInstances.

use super::Ec2;
use super::access::{Asker, rehearsed};
use super::error::no_instance;
use super::filter::{all_match, checked};
use super::inventory::Instance;
use super::request::{Selection, instance_id};
use super::volume::is_in;
use crate::protocol::ApiError;

impl Ec2 {
    /// DescribeInstances.
    pub(super) fn describe_instances(
        &self,
        asker: &Asker<'_>,
        selection: &Selection,
    ) -> Result<(Vec<&Instance>, Option<String>), ApiError> {
        checked::<Instance>(&selection.filters)?;
        let is_own =
            |one: &&Instance| one.account == asker.account && is_in(&one.zone, asker.region);
        let own = || self.inventory.instances.values().filter(is_own);
        for id in &selection.ids {
            instance_id(id)?;
            if !own().any(|one| one.id == *id) {
                return Err(no_instance(id));
            }
        }
        rehearsed(asker)?;
        let found = own().filter(|one| {
            let is_named = selection.ids.is_empty() || selection.ids.contains(&one.id);
            is_named && all_match(&selection.filters, *one)
        });
        Ok(selection.page.of(found, |one| &one.id))
    }
}
