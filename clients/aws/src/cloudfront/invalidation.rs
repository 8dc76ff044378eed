//! Forgetting what was cached of a tenant.

use aws_sdk_cloudfront::error::BuildError;
use aws_sdk_cloudfront::types;
use jiff::Timestamp;

use super::CloudFront;
use crate::call::Call;
use crate::moment::moment;
use crate::{Error, Operation};

/// An invalidation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalidation {
    /// CloudFront's id.
    pub id: String,
    /// `InProgress` or `Completed`.
    pub status: String,
    /// When it was asked for.
    pub created: Option<Timestamp>,
}

impl Invalidation {
    fn read(call: &Call<'_>, told: Option<types::Invalidation>) -> Result<Self, Error> {
        let told = told.ok_or_else(|| call.lacks("Invalidation"))?;
        Ok(Self {
            id: told.id,
            status: told.status,
            created: moment(&told.create_time),
        })
    }
}

impl CloudFront {
    /// Invalidates these paths of a tenant, once for a `reference`: the same one again gives the
    /// same invalidation.
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
        let answer = self.account.call(&call, &self.asker, send).await?;
        Invalidation::read(&call, answer.invalidation)
    }

    /// How an invalidation of a tenant stands.
    pub async fn invalidation(&self, tenant_id: &str, id: &str) -> Result<Invalidation, Error> {
        let call = Call::new(Operation::GetInvalidationForDistributionTenant, id);
        let send = || {
            self.client()
                .get_invalidation_for_distribution_tenant()
                .distribution_tenant_id(tenant_id)
                .id(id)
                .send()
        };
        let answer = self.account.call(&call, &self.asker, send).await?;
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
