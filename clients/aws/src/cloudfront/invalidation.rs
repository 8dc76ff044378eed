//! Invalidations of a tenant's cache.

use aws_sdk_cloudfront::error::BuildError;
use aws_sdk_cloudfront::types;
use jiff::Timestamp;

use super::CloudFront;
use crate::call::Call;
use crate::timestamp::timestamp;
use crate::{Error, Operation};

/// An invalidation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalidation {
    /// CloudFront's id.
    pub id: String,
    /// `InProgress` or `Completed`.
    pub status: String,
    /// When it was created.
    pub created: Option<Timestamp>,
}

impl Invalidation {
    fn read(call: &Call<'_>, received: Option<types::Invalidation>) -> Result<Self, Error> {
        let received = received.ok_or_else(|| call.lacks("Invalidation"))?;
        Ok(Self {
            id: received.id,
            status: received.status,
            created: timestamp(&received.create_time),
        })
    }
}

impl CloudFront {
    /// Invalidates these paths of a tenant, once per `reference`: the same reference again returns
    /// the same invalidation.
    pub async fn invalidate(
        &self,
        tenant_id: &str,
        reference: &str,
        paths: &[String],
    ) -> Result<Invalidation, Error> {
        let operation = Operation::CreateInvalidationForDistributionTenant;
        let call = Call::new(operation, tenant_id);
        let batch = batch(reference, paths).map_err(|wrong| call.wrong(&wrong))?;
        let send = || {
            self.client()
                .create_invalidation_for_distribution_tenant()
                .id(tenant_id)
                .invalidation_batch(batch.clone())
                .send()
        };
        let answer = self.account.call(&call, &self.caller, send).await?;
        Invalidation::read(&call, answer.invalidation)
    }

    /// The state of an invalidation of a tenant.
    pub async fn invalidation(&self, tenant_id: &str, id: &str) -> Result<Invalidation, Error> {
        let call = Call::new(Operation::GetInvalidationForDistributionTenant, id);
        let send = || {
            self.client()
                .get_invalidation_for_distribution_tenant()
                .distribution_tenant_id(tenant_id)
                .id(id)
                .send()
        };
        let answer = self.account.call(&call, &self.caller, send).await?;
        Invalidation::read(&call, answer.invalidation)
    }
}

fn batch(reference: &str, paths: &[String]) -> Result<types::InvalidationBatch, BuildError> {
    let paths = types::Paths::builder()
        .quantity(i32::try_from(paths.len()).unwrap_or(i32::MAX))
        .set_items(Some(paths.to_vec()))
        .build()?;
    types::InvalidationBatch::builder()
        .paths(paths)
        .caller_reference(reference)
        .build()
}
