//! Which object may have a tenant's name or a domain, where several declare it. Pure.
//!
//! Whoever has it in AWS holds it, else the oldest; so an edit never makes the loser win, and all
//! replicas and every order of events agree.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use api::tenants::{DistributionTenant, reasons};
use jiff::Timestamp;
use kernel::{ObjectKey, Reason};

use crate::body::domain;
use crate::words::FEW;

/// What an object wants and has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) key: ObjectKey,
    pub(crate) created: Timestamp,
    /// Its tenant's name in CloudFront.
    pub(crate) name: String,
    /// The domains its spec wants.
    pub(crate) domains: BTreeSet<String>,
    /// Whether its tenant is there, or may be: Create was about to be asked.
    pub(crate) exists: bool,
    /// The domains CloudFront was last given.
    pub(crate) served: BTreeSet<String>,
    /// The names of its DNS records.
    pub(crate) recorded: BTreeSet<String>,
    /// Being deleted: it keeps what it has until it is gone and wants nothing more.
    pub(crate) deleting: bool,
}

impl Claim {
    pub(crate) fn of(object: &DistributionTenant) -> Self {
        let meta = &object.metadata;
        let name = meta.name.clone().unwrap_or_default();
        let status = object.status.clone().unwrap_or_default();
        let exists = status.id.is_some()
            || status.last_applied.is_some()
            || status.create_requested_at.is_some();
        let known = status.tenant_name.filter(|_| exists);
        let declared = object.spec.tenant_name.clone();
        let created = meta.creation_timestamp.as_ref();
        // cloudfront-tenant-operator keeps no record, but it tells what CloudFront showed.
        let shown = status.domain_results.iter().filter(|_| status.id.is_some());
        let shown = shown.map(|one| domain(&one.domain)).collect();
        let served = status.last_applied.map_or(shown, |body| body.domains);
        let wanted = object.spec.domains.iter();
        let records = status.dns_records.iter();
        Self {
            key: ObjectKey::of(meta.namespace.as_deref(), &name),
            created: created.map_or(Timestamp::MAX, |time| time.0),
            name: known.or(declared).unwrap_or(name),
            domains: wanted.map(|one| domain(&one.domain)).collect(),
            exists,
            served,
            recorded: records.map(|one| domain(&one.name)).collect(),
            deleting: meta.deletion_timestamp.is_some(),
        }
    }

    /// How strong its claim is, strongest first; none if it has none.
    fn hold(&self, thing: Thing<'_>) -> Option<Hold> {
        match thing {
            Thing::Name(name) if name != self.name => None,
            Thing::Name(_) if self.exists => Some(Hold::Served),
            Thing::Domain(domain) if self.served.contains(domain) => Some(Hold::Served),
            Thing::Domain(domain) if self.recorded.contains(domain) => Some(Hold::Recorded),
            Thing::Domain(domain) if !self.domains.contains(domain) => None,
            Thing::Name(_) | Thing::Domain(_) => (!self.deleting).then_some(Hold::Wanted),
        }
    }

    /// Its place in the queue for a thing: the smallest holds it.
    fn rank(&self, thing: Thing<'_>) -> Option<Rank<'_>> {
        Some((self.hold(thing)?, self.created, &self.key))
    }
}

/// How an object has what it claims; the first is the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Hold {
    /// CloudFront has it for this object.
    Served,
    /// A DNS record is there for it, or about to be.
    Recorded,
    /// The spec says so.
    Wanted,
}

/// How an object has it, how old the object is, and which it is.
type Rank<'a> = (Hold, Timestamp, &'a ObjectKey);

/// What only one object can have.
#[derive(Debug, Clone, Copy)]
enum Thing<'a> {
    Name(&'a str),
    Domain(&'a str),
}

/// Why an object may not be acted on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// Another object has its tenant's name.
    Name { name: String, holder: ObjectKey },
    /// Other objects have some of its domains.
    Domains(BTreeMap<String, ObjectKey>),
}

impl Conflict {
    /// Who has it.
    pub(crate) fn holders(&self) -> BTreeSet<&ObjectKey> {
        match self {
            Self::Name { holder, .. } => BTreeSet::from([holder]),
            Self::Domains(domains) => domains.values().collect(),
        }
    }

    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::Name { name, holder } => Reason::new(
                reasons::NAME_CONFLICT,
                format!(
                    "the tenant name {name} belongs to DistributionTenant {holder}; make this \
                     object anew with another spec.tenantName, or delete that one"
                ),
            ),
            Self::Domains(domains) => {
                let each = domains.iter().take(FEW);
                let each = each.map(|(domain, holder)| {
                    format!("domain {domain} belongs to DistributionTenant {holder}")
                });
                let more = match domains.len().saturating_sub(FEW) {
                    0 => String::new(),
                    more => format!(", and {more} more"),
                };
                let told = each.collect::<Vec<_>>().join(", ");
                let message = format!("{told}{more}; remove it from one of the two");
                Reason::new(reasons::DOMAIN_CONFLICT, message)
            }
        }
    }
}

/// The claims of objects that may want the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holders {
    claims: BTreeMap<ObjectKey, Claim>,
}

impl Holders {
    /// Takes in a claim, new or changed.
    pub(crate) fn put(&mut self, claim: Claim) {
        self.claims.insert(claim.key.clone(), claim);
    }

    /// What stands against acting on `claim`, known here or not. Nothing, for one that is deleted:
    /// it works from what it has.
    pub(crate) fn conflict(&self, claim: &Claim) -> Option<Conflict> {
        if claim.deleting {
            return None;
        }
        let name = Thing::Name(&claim.name);
        if let Some(holder) = self.stronger(name, claim) {
            let name = claim.name.clone();
            return Some(Conflict::Name { name, holder });
        }
        let lost = claim.domains.iter().filter_map(|domain| {
            let holder = self.stronger(Thing::Domain(domain), claim)?;
            Some((domain.clone(), holder))
        });
        let lost: BTreeMap<_, _> = lost.collect();
        (!lost.is_empty()).then_some(Conflict::Domains(lost))
    }

    /// The domains that more than one object has or wants, each with those, its holder first.
    pub(crate) fn contested_domains(&self) -> BTreeMap<&str, Vec<&ObjectKey>> {
        let mut ranks: BTreeMap<&str, BTreeSet<Rank<'_>>> = BTreeMap::new();
        for claim in self.claims.values() {
            let all = [&claim.domains, &claim.served, &claim.recorded];
            for domain in all.into_iter().flatten() {
                let rank = claim.rank(Thing::Domain(domain));
                ranks.entry(domain).or_default().extend(rank);
            }
        }
        let contested = ranks.into_iter().filter(|(_, ranks)| ranks.len() > 1);
        contested
            .map(|(domain, ranks)| (domain, ranks.into_iter().map(|(.., key)| key).collect()))
            .collect()
    }

    /// The holder of `thing`, if its claim is stronger than `claim`.
    fn stronger(&self, thing: Thing<'_>, claim: &Claim) -> Option<ObjectKey> {
        let others = self.claims.values().filter(|other| other.key != claim.key);
        let strongest = others.filter_map(|other| other.rank(thing)).min()?;
        let weaker = claim.rank(thing).is_none_or(|own| strongest < own);
        weaker.then(|| strongest.2.clone())
    }
}
