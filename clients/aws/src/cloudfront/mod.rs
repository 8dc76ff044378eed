//! CloudFront: distribution tenants and what belongs to them.
//!
//! | about | calls |
//! |---|---|
//! | tenants | [`create_tenant`](CloudFront::create_tenant), [`tenant`](CloudFront::tenant), [`tenant_by_domain`](CloudFront::tenant_by_domain), [`update_tenant`](CloudFront::update_tenant), [`delete_tenant`](CloudFront::delete_tenant), [`tenants`](CloudFront::tenants) |
//! | connection groups | [`create_group`](CloudFront::create_group), [`group`](CloudFront::group), [`update_group`](CloudFront::update_group), [`delete_group`](CloudFront::delete_group), [`groups`](CloudFront::groups) |
//! | a tenant's certificate | [`managed_certificate`](CloudFront::managed_certificate) |
//! | the parent | [`distribution`](CloudFront::distribution) |
//! | invalidations | [`invalidate`](CloudFront::invalidate), [`invalidation`](CloudFront::invalidation) |
//! | domains | [`domain_conflicts`](CloudFront::domain_conflicts), [`verify_dns`](CloudFront::verify_dns) |
//! | tags | [`tag`](CloudFront::tag), [`untag`](CloudFront::untag), [`tags`](CloudFront::tags) |
//!
//! Enumerations that AWS may extend (a status, an action) are strings as AWS writes them, so that a
//! value that was read can be sent back unchanged.

mod body;
mod certificate;
mod distribution;
mod domains;
mod group;
mod invalidation;
mod operations;
mod tags;
mod tenant;

pub use body::{CertificateRequest, Customizations, GeoRestriction, TenantBody, WebAcl};
pub use certificate::{ManagedCertificate, ValidationToken};
pub use distribution::{Distribution, ParameterDefinition};
pub use domains::{DnsConfiguration, DomainConflict, Holder};
pub use group::{Group, GroupBody, GroupSummary};
pub use invalidation::Invalidation;
pub(crate) use operations::OPERATIONS;
pub use tags::Tags;
pub use tenant::{Domain, Tenant, TenantSummary};

use crate::{Account, Caller};

/// The most entries that a page of a list has.
const PAGE: i32 = 100;

/// CloudFront, used by one caller; see [`Account::cloudfront`].
#[derive(Debug, Clone)]
pub struct CloudFront {
    account: Account,
    caller: Caller,
}

impl CloudFront {
    pub(crate) fn new(account: Account, caller: Caller) -> Self {
        Self { account, caller }
    }

    fn client(&self) -> &aws_sdk_cloudfront::Client {
        self.account.cloudfront_client()
    }
}
