//! Who else has a domain, and whether a tenant's domains lead to it.

use super::error::{invalid, not_found};
use super::rules;
use super::store::Holder;
use super::{At, CloudFront, NAMESPACE};
use crate::protocol::ApiError;
use crate::route53::Pointing;
use crate::shelf::View;
use crate::wire::Request;
use crate::xml::Element;
use crate::xml::read::{self, Node};

/// What ListDomainConflicts asks.
struct Asked {
    domain: String,
    distribution: Option<String>,
    tenant: Option<String>,
    marker: Option<String>,
    most: Option<u64>,
}

fn asked(root: Node<'_, '_>) -> Result<Asked, ApiError> {
    let members = [
        "Domain",
        "DomainControlValidationResource",
        "MaxItems",
        "Marker",
    ];
    root.only(&members)?;
    let by = root.child("DomainControlValidationResource");
    Ok(Asked {
        domain: root.needed("Domain")?,
        distribution: by.and_then(|by| by.leaf("DistributionId")),
        tenant: by.and_then(|by| by.leaf("DistributionTenantId")),
        marker: root.leaf("Marker"),
        most: root.number("MaxItems")?,
    })
}

impl CloudFront {
    /// Everything that has the domain or overlaps with it, but not the one who asks.
    pub(super) fn domain_conflicts(
        &self,
        at: &At<'_>,
        request: &Request,
    ) -> Result<Element, ApiError> {
        let root = "ListDomainConflictsRequest";
        let asked = read::document(&request.body, root, NAMESPACE, asked)?;
        let own = match (&asked.distribution, &asked.tenant) {
            (Some(id), _) => {
                let found = self.store.distribution(at.account, id);
                found.ok_or_else(|| rules::no_distribution(id))?;
                id
            }
            (None, Some(id)) => {
                let found = self.store.tenant(at.account, id, View::Live);
                &found
                    .ok_or_else(|| not_found("distribution tenant", id))?
                    .id
            }
            (None, None) => {
                let told = "DomainControlValidationResource needs an id.";
                return Err(invalid(told));
            }
        };
        let most = at.page(asked.most)?;
        let marker = asked.marker.as_deref();
        let others = self.store.domains().filter(|(domain, holder)| {
            overlap(domain, &asked.domain)
                && holder.id != *own
                && marker.is_none_or(|marker| *domain > marker)
        });
        let mut found: Vec<_> = others.take(most.saturating_add(1)).collect();
        let more = found.len() > most;
        found.truncate(most);
        let next = found.last().filter(|_| more).map(|(domain, _)| *domain);
        let told = found
            .iter()
            .map(|(domain, holder)| conflict(domain, holder, at.account));
        Ok(Element::new("ListDomainConflictsResult")
            .child(Element::new("DomainConflicts").children(told))
            .leaf_if("NextMarker", next))
    }

    /// Whether each domain of a tenant, or one of them, leads to its group.
    pub(super) fn verify_dns(&self, at: &At<'_>, request: &Request) -> Result<Element, ApiError> {
        let asking = |root: Node<'_, '_>| {
            root.only(&["Domain", "Identifier"])?;
            Ok((root.leaf("Domain"), root.needed("Identifier")?))
        };
        let root = "VerifyDnsConfigurationRequest";
        let (domain, named) = read::document(&request.body, root, NAMESPACE, asking)?;
        let tenant = self
            .store
            .tenant(at.account, &named, at.view)
            .ok_or_else(|| not_found("distribution tenant", &named))?;
        let group = &tenant.config.group;
        let group = self
            .store
            .group(at.account, group, View::Live)
            .ok_or_else(|| rules::no_group(group))?;
        if let Some(domain) = &domain
            && !tenant.config.domains.contains(domain)
        {
            return Err(invalid(&format!("{domain} is no domain of the tenant.")));
        }
        let zones = self.zones.lock();
        let wanted = |one: &&String| domain.is_none() || domain.as_ref() == Some(*one);
        let told = tenant.config.domains.iter().filter(wanted).map(|domain| {
            let pointing = zones.pointing(domain, &group.endpoint, at.moment.now);
            configuration(domain, pointing)
        });
        let list = Element::new("DnsConfigurationList").children(told);
        Ok(Element::new("VerifyDnsConfigurationResult").child(list))
    }
}

fn configuration(domain: &str, pointing: Pointing) -> Element {
    let (status, reason) = match pointing {
        Pointing::There => ("valid-configuration", None),
        Pointing::Elsewhere(other) => {
            let reason = format!("The domain points to {other}, not to the routing endpoint.");
            ("invalid-configuration", Some(reason))
        }
        Pointing::NoRecord => {
            let reason = "No DNS record was found for the domain.".to_owned();
            ("invalid-configuration", Some(reason))
        }
        Pointing::NoZone => {
            let reason = "The domain could not be resolved.".to_owned();
            ("unknown-configuration", Some(reason))
        }
    };
    Element::new("DnsConfiguration")
        .leaf("Domain", domain)
        .leaf("Status", status)
        .leaf_if("Reason", reason.as_deref())
}

fn conflict(domain: &str, holder: &Holder, account: &str) -> Element {
    let own = holder.account == account;
    let kind = if holder.is_tenant {
        "distribution-tenant"
    } else {
        "distribution"
    };
    let id = if own {
        holder.id.clone()
    } else {
        masked(&holder.id)
    };
    let owner = if own {
        holder.account.clone()
    } else {
        masked(&holder.account)
    };
    Element::new("DomainConflicts")
        .leaf("Domain", domain)
        .leaf("ResourceType", kind)
        .leaf("ResourceId", &id)
        .leaf("AccountId", &owner)
}

/// What belongs to others is shown by its last six characters only.
fn masked(text: &str) -> String {
    let hidden = text.chars().count().saturating_sub(6);
    let shown: String = text.chars().skip(hidden).collect();
    "*".repeat(hidden) + &shown
}

/// Equal, or one is a wildcard that covers the other.
fn overlap(one: &str, other: &str) -> bool {
    let covers = |wild: &str, domain: &str| {
        let base = wild.strip_prefix("*.");
        base.is_some_and(|base| domain.split_once('.').is_some_and(|(_, rest)| rest == base))
    };
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    one == other || covers(&one, &other) || covers(&other, &one)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::equal("a.example.com", "A.example.com", true)]
    #[case::covered("*.example.com", "a.example.com", true)]
    #[case::covering("a.example.com", "*.example.com", true)]
    #[case::deeper("*.example.com", "a.b.example.com", false)]
    #[case::beside("a.example.com", "b.example.com", false)]
    fn domains_overlap(#[case] one: &str, #[case] other: &str, #[case] overlaps: bool) {
        assert_eq!(overlap(one, other), overlaps);
    }

    #[test]
    fn what_belongs_to_others_is_masked() {
        assert_eq!(masked("222222222222"), "******222222");
    }
}
