//! What CloudFront showed of a tenant, put into its status.

use api::tenants::{DistributionTenantStatus, DomainResult};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::body::{LiveDomain, Summary};

/// Puts down how the tenant is, whoever made it so.
pub(super) fn note(status: &mut DistributionTenantStatus, seen: &Summary) {
    let Summary {
        id,
        arn,
        name,
        etag,
        status: state,
        domains,
        connection_group_id,
        created,
        modified,
        enabled: _,
        distribution_id: _,
        web_acl: _,
        certificate_arn: _,
        geo_restrictions: _,
    } = seen;
    let time = |time: &Option<jiff::Timestamp>| time.map(Time);
    status.id = Some(id.clone());
    status.arn = Some(arn.clone());
    status.e_tag = Some(etag.clone());
    status.tenant_name = Some(name.clone());
    status.distribution_tenant_status = Some(state.clone());
    status.created_time = time(created).or(status.created_time.take());
    status.last_modified_time = time(modified).or(status.last_modified_time.take());
    status.connection_group_id.clone_from(connection_group_id);
    status.domain_results = domains.iter().map(result).collect();
    status
        .domain_results
        .sort_by(|one, other| one.domain.cmp(&other.domain));
}

/// Whether CloudFront shows domains or certificate otherwise than the status does.
pub(super) fn moved(status: &DistributionTenantStatus, seen: &Summary) -> bool {
    let mut domains: Vec<_> = seen.domains.iter().map(result).collect();
    domains.sort_by(|one, other| one.domain.cmp(&other.domain));
    domains != status.domain_results || seen.certificate_arn != status.certificate_arn
}

fn result(domain: &LiveDomain) -> DomainResult {
    DomainResult {
        domain: domain.domain.clone(),
        status: domain.status.clone(),
    }
}

/// The tenant is gone: what was known of it is no longer so. Its records stay on the list.
pub(super) fn forget(status: &mut DistributionTenantStatus) {
    // Without a list of records, the domains tell where the predecessor may have made some.
    let domain_results = if status.dns_records.is_empty() {
        std::mem::take(&mut status.domain_results)
    } else {
        Vec::new()
    };
    *status = DistributionTenantStatus {
        domain_results,
        conditions: std::mem::take(&mut status.conditions),
        dns_records: std::mem::take(&mut status.dns_records),
        dns_target: status.dns_target.take(),
        dns_change_id: status.dns_change_id.take(),
        required_records: std::mem::take(&mut status.required_records),
        ..DistributionTenantStatus::default()
    };
}
