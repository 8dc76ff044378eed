//! Which operation a path and a method ask for.

use http::Method;

use super::{NAMESPACE, VERSION};
use crate::service::Operation;
use crate::wire::Request;
use crate::xml::read;

/// The operation and what it is about: an id as sent, the name of what is to be created, the
/// domain or ARN in the query.
pub(super) fn operation(request: &Request) -> Option<Operation> {
    let segments = request.segments();
    let segments: Vec<_> = segments.iter().map(String::as_str).collect();
    let [VERSION, path @ ..] = segments.as_slice() else {
        return None;
    };
    let (name, resource) = named(request, path)?;
    Some(Operation {
        name: name.to_owned(),
        resource,
    })
}

fn named(request: &Request, path: &[&str]) -> Option<(&'static str, Option<String>)> {
    let id = |id: &&str| Some((*id).to_owned());
    let query = |name: &str| request.query_value(name).map(str::to_owned);
    Some(match (request.method.as_str(), path) {
        ("POST", ["distribution-tenant"]) => (
            "CreateDistributionTenant",
            member(request, "CreateDistributionTenantRequest", "Name"),
        ),
        ("GET", ["distribution-tenant"]) => ("GetDistributionTenantByDomain", query("domain")),
        ("GET", ["distribution-tenant", one]) => ("GetDistributionTenant", id(one)),
        ("PUT", ["distribution-tenant", one]) => ("UpdateDistributionTenant", id(one)),
        ("DELETE", ["distribution-tenant", one]) => ("DeleteDistributionTenant", id(one)),
        ("POST", ["distribution-tenants"]) => ("ListDistributionTenants", None),
        ("POST", ["distribution-tenant", one, "invalidation"]) => {
            ("CreateInvalidationForDistributionTenant", id(one))
        }
        ("GET", ["distribution-tenant", one, "invalidation", _]) => {
            ("GetInvalidationForDistributionTenant", id(one))
        }
        ("POST", ["connection-group"]) => (
            "CreateConnectionGroup",
            member(request, "CreateConnectionGroupRequest", "Name"),
        ),
        ("GET", ["connection-group", one]) => ("GetConnectionGroup", id(one)),
        ("PUT", ["connection-group", one]) => ("UpdateConnectionGroup", id(one)),
        ("DELETE", ["connection-group", one]) => ("DeleteConnectionGroup", id(one)),
        ("POST", ["connection-groups"]) => ("ListConnectionGroups", None),
        ("GET", ["managed-certificate", one]) => ("GetManagedCertificateDetails", id(one)),
        ("GET", ["distribution", one]) => ("GetDistribution", id(one)),
        ("POST", ["domain-conflicts"]) => (
            "ListDomainConflicts",
            member(request, "ListDomainConflictsRequest", "Domain"),
        ),
        ("POST", ["verify-dns-configuration"]) => (
            "VerifyDnsConfiguration",
            member(request, "VerifyDnsConfigurationRequest", "Identifier"),
        ),
        ("POST" | "GET", ["tagging"]) => (tagging(request)?, query("Resource")),
        _ => return None,
    })
}

fn tagging(request: &Request) -> Option<&'static str> {
    match (&request.method, request.query_value("Operation")) {
        (&Method::GET, None) => Some("ListTagsForResource"),
        (&Method::POST, Some("Tag")) => Some("TagResource"),
        (&Method::POST, Some("Untag")) => Some("UntagResource"),
        _ => None,
    }
}

/// A member of the body, where it can be read at all.
fn member(request: &Request, root: &str, name: &str) -> Option<String> {
    let found = read::document(&request.body, root, NAMESPACE, |root| Ok(root.leaf(name)));
    found.ok().flatten()
}
