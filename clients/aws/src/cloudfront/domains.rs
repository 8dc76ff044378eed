//! Conflicts between domains, and whether DNS points a tenant's domains to CloudFront.

use aws_sdk_cloudfront::types;

use super::{CloudFront, PAGE};
use crate::call::Call;
use crate::{Error, Operation, Page};

/// A resource of ours whose certificate covers the domain. CloudFront requires one before it tells
/// who has a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder<'a> {
    /// A distribution, by id.
    Distribution(&'a str),
    /// A tenant, by id.
    Tenant(&'a str),
}

/// Another resource that has the domain, or one that overlaps with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainConflict {
    /// Its domain.
    pub domain: String,
    /// `distribution` or `distribution-tenant`.
    pub resource_type: String,
    /// Its id; partly hidden if it is in another account.
    pub resource_id: String,
    /// Its account; partly hidden if it is not ours.
    pub account_id: String,
}

/// Whether DNS points a domain to the tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsConfiguration {
    /// The domain.
    pub domain: String,
    /// `valid-configuration`, `invalid-configuration` or `unknown-configuration`.
    pub status: String,
    /// Why it is not valid.
    pub reason: Option<String>,
}

impl DnsConfiguration {
    /// Whether DNS points to the tenant.
    pub fn is_valid(&self) -> bool {
        self.status == "valid-configuration"
    }
}

impl CloudFront {
    /// A page of resources other than `own` that have `domain`, from `marker` on.
    pub async fn domain_conflicts(
        &self,
        domain: &str,
        own: Holder<'_>,
        marker: Option<&str>,
    ) -> Result<Page<DomainConflict>, Error> {
        let call = Call::new(Operation::ListDomainConflicts, domain);
        let by = types::DistributionResourceId::builder();
        let by = match own {
            Holder::Distribution(id) => by.distribution_id(id),
            Holder::Tenant(id) => by.distribution_tenant_id(id),
        };
        let by = by.build();
        let send = || {
            self.client()
                .list_domain_conflicts()
                .domain(domain)
                .domain_control_validation_resource(by.clone())
                .set_marker(marker.map(str::to_owned))
                .max_items(PAGE)
                .send()
        };
        let answer = self.account.call(&call, &self.caller, send).await?;
        let received = answer.domain_conflicts.unwrap_or_default().into_iter();
        Ok(Page {
            items: received
                .map(|one| DomainConflict {
                    domain: one.domain,
                    resource_type: one.resource_type.as_str().to_owned(),
                    resource_id: one.resource_id,
                    account_id: one.account_id,
                })
                .collect(),
            next: answer.next_marker.filter(|marker| !marker.is_empty()),
        })
    }

    /// Whether DNS points to the tenant of this id, name or ARN, for all its domains or for one.
    pub async fn verify_dns(
        &self,
        tenant: &str,
        domain: Option<&str>,
    ) -> Result<Vec<DnsConfiguration>, Error> {
        let call = Call::new(Operation::VerifyDnsConfiguration, tenant);
        let send = || {
            self.client()
                .verify_dns_configuration()
                .identifier(tenant)
                .set_domain(domain.map(str::to_owned))
                .send()
        };
        let answer = self.account.call(&call, &self.caller, send).await?;
        let received = answer.dns_configuration_list.unwrap_or_default();
        let read = |one: types::DnsConfiguration| DnsConfiguration {
            domain: one.domain,
            status: one.status.as_str().to_owned(),
            reason: one.reason,
        };
        Ok(received.into_iter().map(read).collect())
    }
}
