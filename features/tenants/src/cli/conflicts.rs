//! `conflicts`: who else has or wants a tenant's name or domain, here and in CloudFront.

use std::collections::{BTreeMap, BTreeSet};

use api::tenants::DistributionTenant;
use aws::cloudfront::{DomainConflict, Holder};
use clap::ArgMatches;
use engine::cli::flags::value;
use engine::cli::{Answer, Failure, Finding, Outcome};
use kernel::ObjectKey;
use serde_json::json;

use super::advice::told;
use super::session::{TenantsSession, kind};
use crate::body::domain;
use crate::holders::{Claim, Conflict, Holders};
use crate::source::is_domain;

/// A list has an end; one that does not is cut here.
const PAGES: usize = 100;

/// Two who want the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Contest {
    thing: &'static str,
    name: String,
    holder: String,
    other: String,
}

pub(super) async fn conflicts(
    session: &TenantsSession,
    args: &ArgMatches,
) -> Result<Answer, Failure> {
    let objects: Vec<DistributionTenant> = session
        .all()
        .iter()
        .filter_map(|one| one.parse(&kind()).ok())
        .collect();
    let asked = value(args, "domain").map(asked).transpose()?;
    let here = session.cluster.scope.only().filter(|_| asked.is_none());
    let mut contests = contests(&objects, asked.as_deref(), here);
    let mut untold = None;
    if let Some(domain) = &asked {
        let given = value(args, "distribution");
        match outside(session, domain, given, &objects).await {
            Ok(found) => contests.extend(found),
            Err(why) => untold = Some(why),
        }
    }
    let outcome = match &untold {
        Some(_) => Outcome::Unknown,
        None => Outcome::of(contests.is_empty()),
    };
    let remark = match (untold, contests.is_empty()) {
        (Some(why), _) => Some(format!("CloudFront could not be asked: {why}")),
        (None, true) => Some("Nobody wants what another has.".to_owned()),
        (None, false) => None,
    };
    let findings = contests.into_iter().map(finding).collect();
    let columns = &["what", "name", "holder", "other"];
    Ok(Answer::table(columns, findings, outcome).with_remark(remark))
}

/// A domain as it is compared.
fn asked(given: &str) -> Result<String, Failure> {
    if is_domain(given) {
        return Ok(domain(given));
    }
    Err(format!("{given:?} is no domain; write one such as a.example.com or *.example.com").into())
}

fn finding(contest: Contest) -> Finding {
    let Contest {
        thing,
        name,
        holder,
        other,
    } = contest;
    Finding {
        name: name.clone(),
        full: json!({"what": thing, "name": name, "holder": holder, "other": other}),
        cells: vec![thing.to_owned(), name, holder, other],
    }
}

/// What several objects claim: of one domain, or all that concerns one namespace.
fn contests(
    objects: &[DistributionTenant],
    asked: Option<&str>,
    here: Option<&str>,
) -> Vec<Contest> {
    let claims: Vec<_> = objects.iter().map(Claim::of).collect();
    let mut holders = Holders::default();
    for claim in &claims {
        holders.put(claim.clone());
    }
    let is_here = |key: &ObjectKey| here.is_none_or(|name| key.namespace.as_deref() == Some(name));
    let mut all = BTreeSet::new();
    let mut add = |thing, name: &str, holder: &ObjectKey, other: &ObjectKey| {
        if is_here(holder) || is_here(other) {
            all.insert(Contest {
                thing,
                name: name.to_owned(),
                holder: holder.to_string(),
                other: other.to_string(),
            });
        }
    };
    for (domain, keys) in holders.contested_domains() {
        if asked.is_some_and(|asked| asked != domain) {
            continue;
        }
        if let [holder, others @ ..] = &*keys {
            for other in others {
                add("domain", domain, holder, other);
            }
        }
    }
    for claim in claims.iter().filter(|_| asked.is_none()) {
        match holders.conflict(claim) {
            Some(Conflict::Name { name, holder }) => add("tenantName", &name, &holder, &claim.key),
            Some(Conflict::Domains(_)) | None => {} // told above
        }
    }
    all.into_iter().collect()
}

/// Who has the domain in CloudFront besides the object that holds it here.
async fn outside(
    session: &TenantsSession,
    domain: &str,
    given: Option<&str>,
    objects: &[DistributionTenant],
) -> Result<Vec<Contest>, String> {
    let wanting: BTreeMap<_, _> = objects
        .iter()
        .map(|object| (Claim::of(object), object))
        .filter(|(claim, _)| claim.domains.contains(domain) || claim.served.contains(domain))
        .map(|(claim, object)| (claim.key, object))
        .collect();
    let mut declared = wanting.values().map(|one| &*one.spec.distribution_id);
    let distribution = given.or_else(|| declared.next()).ok_or(
        "no object here wants the domain; name a distribution whose certificate covers it with \
         --distribution",
    )?;
    let cloudfront = session.cloudfront().await;
    let mut found = Vec::new();
    let mut marker = None::<String>;
    for _ in 0..PAGES {
        let of = Holder::Distribution(distribution);
        let page = cloudfront.domain_conflicts(domain, of, marker.as_deref());
        let page = page.await.map_err(|error| told(&error))?;
        found.extend(page.items);
        marker = page.next;
        if marker.is_none() {
            break;
        }
    }
    let ids = wanting.values().filter_map(|one| one.status.as_ref());
    let ids: BTreeSet<_> = ids.filter_map(|status| status.id.as_deref()).collect();
    let who: Vec<_> = wanting.keys().map(ToString::to_string).collect();
    let other = if who.is_empty() {
        format!("distribution {distribution}")
    } else {
        who.join(", ")
    };
    let others = found.into_iter();
    let others = others.filter(|one| !ids.contains(&*one.resource_id));
    Ok(others.map(|one| contest(one, &other)).collect())
}

fn contest(conflict: DomainConflict, other: &str) -> Contest {
    let DomainConflict {
        domain,
        resource_type,
        resource_id,
        account_id,
    } = conflict;
    Contest {
        thing: "domain",
        name: domain,
        holder: format!("{resource_type} {resource_id} of account {account_id}"),
        other: other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(namespace: &str, name: &str, domain: &str, created: &str) -> DistributionTenant {
        let object = json!({
            "apiVersion": "cloudfront-tenant-operator.io/v1alpha1",
            "kind": "DistributionTenant",
            "metadata": {"name": name, "namespace": namespace, "creationTimestamp": created},
            "spec": {"distributionId": "E1", "domains": [{"domain": domain}]},
        });
        serde_json::from_value(object).unwrap()
    }

    fn contested(asked: Option<&str>, here: Option<&str>) -> Vec<String> {
        let objects = [
            tenant("web", "acme", "a.example.com", "2026-01-01T00:00:00Z"),
            tenant("web", "second", "A.example.com.", "2026-01-02T00:00:00Z"),
            tenant("shop", "acme", "c.example.com", "2026-01-03T00:00:00Z"),
            tenant("shop", "other", "d.example.com", "2026-01-04T00:00:00Z"),
        ];
        let contests = contests(&objects, asked, here).into_iter();
        contests
            .map(|one| format!("{} {} {} {}", one.thing, one.name, one.holder, one.other))
            .collect()
    }

    #[test]
    fn names_and_domains_that_two_want_are_told_with_both() {
        let domain = "domain a.example.com web/acme web/second";
        let name = "tenantName acme web/acme shop/acme";
        assert_eq!(contested(None, None), [domain, name]);
        assert_eq!(contested(None, Some("shop")), [name]);
        assert_eq!(contested(Some("a.example.com"), None), [domain]);
        assert_eq!(contested(Some("d.example.com"), None), [""; 0]);
    }

    #[test]
    fn what_is_no_domain_is_refused_with_one_that_is() {
        assert_eq!(asked("A.Example.com.").unwrap(), "a.example.com");
        let why = asked("not a domain").unwrap_err().to_string();
        assert!(why.contains("such as a.example.com"), "{why}");
    }
}
