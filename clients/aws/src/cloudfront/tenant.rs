//! Distribution tenants.

use std::collections::BTreeMap;

use aws_sdk_cloudfront::error::BuildError;
use aws_sdk_cloudfront::types;
use jiff::Timestamp;

use super::{CloudFront, Customizations, PAGE, Tags, TenantBody, tags};
use crate::call::Call;
use crate::timestamp::timestamp;
use crate::{Error, Operation, Page};

/// A tenant as CloudFront returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    /// CloudFront's id.
    pub id: String,
    /// Its ARN.
    pub arn: String,
    /// Its name.
    pub name: String,
    /// Its version: a write names the version it is based on.
    pub etag: String,
    /// `Deployed` or `InProgress`.
    pub status: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// When it was last written.
    pub modified: Option<Timestamp>,
    /// Its parent.
    pub distribution_id: String,
    /// Its domains.
    pub domains: Vec<Domain>,
    /// Whether it serves.
    pub enabled: bool,
    /// Its group.
    pub connection_group_id: Option<String>,
    /// Values of the distribution's parameters.
    pub parameters: BTreeMap<String, String>,
    /// What it has otherwise than its distribution.
    pub customizations: Customizations,
    /// Its tags; `None` if the answer does not contain them. [`CloudFront::tags`] always returns them.
    pub tags: Option<Tags>,
}

/// A tenant as a list returns it: without parameters and tags. A change of parameters changes the
/// ETag; a change of tags does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantSummary {
    /// CloudFront's id.
    pub id: String,
    /// Its ARN.
    pub arn: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub etag: String,
    /// `Deployed` or `InProgress`.
    pub status: String,
    /// When it was last written.
    pub modified: Option<Timestamp>,
    /// Its parent.
    pub distribution_id: String,
    /// Its domains.
    pub domains: Vec<Domain>,
    /// Whether it serves.
    pub enabled: bool,
    /// Its group.
    pub connection_group_id: Option<String>,
    /// What it has otherwise than its distribution.
    pub customizations: Customizations,
}

/// A tenant's domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// Its name.
    pub name: String,
    /// `active` or `inactive`.
    pub status: String,
}

impl Tenant {
    /// Its configuration, to be changed and sent back. It requests no certificate.
    pub fn body(&self) -> TenantBody {
        TenantBody {
            distribution_id: self.distribution_id.clone(),
            domains: self
                .domains
                .iter()
                .map(|domain| domain.name.clone())
                .collect(),
            enabled: self.enabled,
            connection_group_id: self.connection_group_id.clone(),
            parameters: self.parameters.clone(),
            customizations: self.customizations.clone(),
            certificate_request: None,
        }
    }

    fn read(
        call: &Call<'_>,
        received: Option<types::DistributionTenant>,
        etag: Option<String>,
    ) -> Result<Self, Error> {
        let received = received.ok_or_else(|| call.lacks("DistributionTenant"))?;
        let parameters = received.parameters.unwrap_or_default().into_iter();
        Ok(Self {
            id: received.id.ok_or_else(|| call.lacks("Id"))?,
            arn: received.arn.ok_or_else(|| call.lacks("Arn"))?,
            name: received.name.ok_or_else(|| call.lacks("Name"))?,
            etag: etag.ok_or_else(|| call.lacks("ETag"))?,
            status: received.status.unwrap_or_default(),
            created: received.created_time.as_ref().and_then(timestamp),
            modified: received.last_modified_time.as_ref().and_then(timestamp),
            distribution_id: received
                .distribution_id
                .ok_or_else(|| call.lacks("DistributionId"))?,
            domains: domains(received.domains.unwrap_or_default()),
            enabled: received.enabled.ok_or_else(|| call.lacks("Enabled"))?,
            connection_group_id: received.connection_group_id,
            parameters: parameters.map(|one| (one.name, one.value)).collect(),
            customizations: Customizations::read(received.customizations),
            tags: received.tags.map(|received| tags::read(Some(received))),
        })
    }
}

impl TenantSummary {
    fn read(call: &Call<'_>, received: types::DistributionTenantSummary) -> Result<Self, Error> {
        Ok(Self {
            id: received.id,
            arn: received.arn,
            name: received.name,
            etag: received.e_tag,
            status: received.status.unwrap_or_default(),
            modified: timestamp(&received.last_modified_time),
            distribution_id: received.distribution_id,
            domains: domains(received.domains),
            enabled: received.enabled.ok_or_else(|| call.lacks("Enabled"))?,
            connection_group_id: received.connection_group_id,
            customizations: Customizations::read(received.customizations),
        })
    }
}

fn domains(received: Vec<types::DomainResult>) -> Vec<Domain> {
    let read = |one: types::DomainResult| Domain {
        name: one.domain,
        status: one
            .status
            .map_or_else(String::new, |status| status.as_str().to_owned()),
    };
    received.into_iter().map(read).collect()
}

impl CloudFront {
    /// Creates a tenant of this name with these tags.
    pub async fn create_tenant(
        &self,
        name: &str,
        tags: &Tags,
        body: &TenantBody,
    ) -> Result<Tenant, Error> {
        let call = Call::new(Operation::CreateDistributionTenant, name);
        let wrong = |error: BuildError| call.wrong(&error);
        let domains = body.sdk_domains().map_err(wrong)?;
        let parameters = body.sdk_parameters().map_err(wrong)?;
        let customizations = body.customizations.sdk().map_err(wrong)?;
        let request = body.sdk_request().map_err(wrong)?;
        let tags = tags::some(tags).map_err(wrong)?;
        let send = || {
            self.client()
                .create_distribution_tenant()
                .name(name)
                .distribution_id(&body.distribution_id)
                .set_domains(Some(domains.clone()))
                .enabled(body.enabled)
                .set_tags(tags.clone())
                .set_connection_group_id(body.connection_group_id.clone())
                .set_parameters(Some(parameters.clone()).filter(|all| !all.is_empty()))
                .set_customizations(
                    Some(customizations.clone()).filter(|_| !body.customizations.is_empty()),
                )
                .set_managed_certificate_request(request.clone())
                .send()
        };
        let answer = self.account.call(&call, &self.caller, send).await?;
        Tenant::read(&call, answer.distribution_tenant, answer.e_tag)
    }

    /// The tenant of this id, name or ARN.
    pub async fn tenant(&self, named: &str) -> Result<Tenant, Error> {
        let call = Call::new(Operation::GetDistributionTenant, named);
        let send = || {
            let request = self.client().get_distribution_tenant();
            request.identifier(named).send()
        };
        let answer = self.account.call(&call, &self.caller, send).await?;
        Tenant::read(&call, answer.distribution_tenant, answer.e_tag)
    }

    /// The tenant in our account that has this domain.
    pub async fn tenant_by_domain(&self, domain: &str) -> Result<Tenant, Error> {
        let call = Call::new(Operation::GetDistributionTenantByDomain, domain);
        let send = || {
            let request = self.client().get_distribution_tenant_by_domain();
            request.domain(domain).send()
        };
        let answer = self.account.call(&call, &self.caller, send).await?;
        Tenant::read(&call, answer.distribution_tenant, answer.e_tag)
    }

    /// Updates the tenant of this id to `body`, if it is still at version `etag`.
    ///
    /// The request is complete, with empty blocks for unset values, so that it has the same effect
    /// whether CloudFront replaces or merges.
    pub async fn update_tenant(
        &self,
        id: &str,
        etag: &str,
        body: &TenantBody,
    ) -> Result<Tenant, Error> {
        let call = Call::new(Operation::UpdateDistributionTenant, id);
        let wrong = |error: BuildError| call.wrong(&error);
        let domains = body.sdk_domains().map_err(wrong)?;
        let parameters = body.sdk_parameters().map_err(wrong)?;
        let customizations = body.customizations.sdk().map_err(wrong)?;
        let request = body.sdk_request().map_err(wrong)?;
        let send = || {
            self.client()
                .update_distribution_tenant()
                .id(id)
                .if_match(etag)
                .distribution_id(&body.distribution_id)
                .set_domains(Some(domains.clone()))
                .enabled(body.enabled)
                .set_connection_group_id(body.connection_group_id.clone())
                .set_parameters(Some(parameters.clone()))
                .customizations(customizations.clone())
                .set_managed_certificate_request(request.clone())
                .send()
        };
        let answer = self.account.call(&call, &self.caller, send).await?;
        Tenant::read(&call, answer.distribution_tenant, answer.e_tag)
    }

    /// Deletes the tenant of this id, if it is still at version `etag`. It must be disabled and
    /// deployed.
    pub async fn delete_tenant(&self, id: &str, etag: &str) -> Result<(), Error> {
        let call = Call::new(Operation::DeleteDistributionTenant, id);
        let send = || {
            let request = self.client().delete_distribution_tenant();
            request.id(id).if_match(etag).send()
        };
        self.account.call(&call, &self.caller, send).await.map(drop)
    }

    /// A page of up to 100 tenants of a distribution, or of all, from `marker` on.
    pub async fn tenants(
        &self,
        distribution_id: Option<&str>,
        marker: Option<&str>,
    ) -> Result<Page<TenantSummary>, Error> {
        let resource = distribution_id.unwrap_or_default();
        let call = Call::new(Operation::ListDistributionTenants, resource);
        let filter = distribution_id.map(|id| {
            let filter = types::DistributionTenantAssociationFilter::builder();
            filter.distribution_id(id).build()
        });
        let send = || {
            self.client()
                .list_distribution_tenants()
                .set_association_filter(filter.clone())
                .set_marker(marker.map(str::to_owned))
                .max_items(PAGE)
                .send()
        };
        let answer = self.account.call(&call, &self.caller, send).await?;
        let received = answer.distribution_tenant_list.unwrap_or_default();
        let items: Result<_, _> = received
            .into_iter()
            .map(|one| TenantSummary::read(&call, one))
            .collect();
        Ok(Page {
            items: items?,
            next: answer.next_marker.filter(|marker| !marker.is_empty()),
        })
    }
}
