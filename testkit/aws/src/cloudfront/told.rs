//! Tenants, groups and tags as answers tell them.

use jiff::Timestamp;

use super::store::{Group, Tags, Tenant, Version};
use super::{At, CloudFront};
use crate::xml::Element;

impl CloudFront {
    /// A whole tenant, as it is at `seen`; `None`: InProgress, whatever the delay.
    pub(super) fn told(&self, tenant: &Tenant, at: &At<'_>, seen: Option<Timestamp>) -> Element {
        let element = self
            .begun("DistributionTenant", tenant)
            .child(tenant.config.customized())
            .child(tenant.config.parameters())
            .leaf("ConnectionGroupId", &tenant.config.group);
        let element = if at.moment.switches.flag("tagsEchoed") {
            element.child(tags(&tenant.tags))
        } else {
            element
        };
        ended(element, &tenant.version, tenant.config.enabled, seen)
    }

    /// A tenant as lists tell it: without tags and parameters, with its ETag.
    pub(super) fn summary(&self, tenant: &Tenant, at: &At<'_>) -> Element {
        let element = self
            .begun("DistributionTenantSummary", tenant)
            .child(tenant.config.customized())
            .leaf("ConnectionGroupId", &tenant.config.group)
            .leaf("ETag", &tenant.version.etag);
        let (version, enabled) = (&tenant.version, tenant.config.enabled);
        ended(element, version, enabled, Some(at.seen()))
    }

    fn begun(&self, root: &str, tenant: &Tenant) -> Element {
        let certificates = self.certificates.lock();
        let account = tenant.arn.split(':').nth(4).unwrap_or_default();
        let parent = self
            .store
            .distribution(account, &tenant.config.distribution);
        let parent = parent.and_then(|parent| parent.certificate.as_ref());
        let arn = tenant.config.customizations.certificate.as_ref().or(parent);
        let certificate = arn.and_then(|arn| certificates.get(arn));
        let domains = tenant.config.domains.iter().map(|domain| {
            let active = certificate.is_some_and(|certificate| certificate.covers(domain));
            Element::new("member")
                .leaf("Domain", domain)
                .leaf("Status", if active { "active" } else { "inactive" })
        });
        Element::new(root)
            .leaf("Id", &tenant.id)
            .leaf("DistributionId", &tenant.config.distribution)
            .leaf("Name", &tenant.name)
            .leaf("Arn", &tenant.arn)
            .child(Element::new("Domains").children(domains))
    }
}

fn ended(element: Element, version: &Version, enabled: bool, seen: Option<Timestamp>) -> Element {
    let status = seen.map_or("InProgress", |seen| version.status(seen));
    element
        .leaf("CreatedTime", &version.created.to_string())
        .leaf("LastModifiedTime", &version.modified.to_string())
        .leaf("Enabled", &enabled.to_string())
        .leaf("Status", status)
}

/// A whole group.
pub(super) fn group(group: &Group, at: &At<'_>, seen: Option<Timestamp>) -> Element {
    let element = Element::new("ConnectionGroup")
        .leaf("Id", &group.id)
        .leaf("Name", &group.name)
        .leaf("Arn", &group.arn)
        .leaf("Ipv6Enabled", &group.ipv6.to_string())
        .leaf("RoutingEndpoint", &group.endpoint)
        .leaf_if("AnycastIpListId", group.anycast.as_deref())
        .leaf("IsDefault", &group.is_default.to_string());
    let element = if at.moment.switches.flag("tagsEchoed") {
        element.child(tags(&group.tags))
    } else {
        element
    };
    ended(element, &group.version, group.enabled, seen)
}

/// A group as lists tell it.
pub(super) fn group_summary(group: &Group, at: &At<'_>) -> Element {
    let element = Element::new("ConnectionGroupSummary")
        .leaf("Id", &group.id)
        .leaf("Name", &group.name)
        .leaf("Arn", &group.arn)
        .leaf("RoutingEndpoint", &group.endpoint)
        .leaf("ETag", &group.version.etag)
        .leaf_if("AnycastIpListId", group.anycast.as_deref())
        .leaf("IsDefault", &group.is_default.to_string());
    ended(element, &group.version, group.enabled, Some(at.seen()))
}

/// `Tags`, with or without any.
pub(super) fn tags(tags: &Tags) -> Element {
    let all = tags
        .iter()
        .map(|(key, value)| Element::new("Tag").leaf("Key", key).leaf("Value", value));
    Element::new("Tags").child(Element::new("Items").children(all))
}
