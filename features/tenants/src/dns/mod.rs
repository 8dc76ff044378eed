//! DNS records of tenants: which are wanted, whose a live one is, and what to change next. Pure.
//!
//! ```text
//! let want = want::wanted(..)?;                        // names, zones, types, target
//! let step = plan::next(&recorded, &want, &seen);
//! // step.reads             -> read, tell `Known`, ask again
//! // step.records, .verdict -> status.dnsRecords and DNSReady; stored, tell `Known`
//! // step.submit            -> the zone's writer, tell `Known`; it answers later
//! ```
//! # What is where
//! [`names`] and [`owner`]: one spelling of names, and the TXT record (the *mark*) that says whose a
//! name is. [`zone`], [`want`], [`required`]: from spec to records. [`known`]: what a pass
//! remembers between writer and zone. [`plan`]: the whole; `hold` and `removal` decide at one name,
//! and `standing` what is to be said of it.
//! [`zones`] and [`listing`] are not pure: they hand changes to the zone writer of the process
//! ([`aws::route53::zone_writer`]), take in its answers and look after what is in the zones.
//!
//! # Promises
//! - Nothing is written that `status.dnsRecords` does not name already.
//! - A record is changed or deleted only where our mark, our record of it, or the spec's
//!   `recordAdoption` allows it. Changes carry their proof: mark and record go in one batch that
//!   Route 53 refuses if either is not as we believe.
//! - What may exist is not forgotten: a record leaves the status when Route 53 took its deletion or
//!   a read shows that it is not, or not ours.

mod ground;
mod hold;
pub(crate) mod inherit;
pub(crate) mod known;
mod ledger;
pub(crate) mod listing;
pub(crate) mod names;
pub(crate) mod outlook;
pub(crate) mod owner;
pub(crate) mod plan;
pub(crate) mod record;
mod removal;
pub(crate) mod required;
mod standing;
#[cfg(test)]
mod tests;
pub(crate) mod verdict;
pub(crate) mod want;
pub(crate) mod wire;
pub(crate) mod zone;
pub(crate) mod zones;

use api::tenants::DnsRecord;
use aws::route53::zone_writer::{ChangeSet, ZoneAccess, ZoneRole};

use record::{Action, Change, RecordSet};

/// A hosted zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Zone {
    /// Its id, without `/hostedzone/`.
    pub(crate) id: String,
    /// Its name, as [`names::canonical`] gives it.
    pub(crate) name: String,
    /// Whether only VPCs see it.
    pub(crate) private: bool,
}

impl Zone {
    /// Whether a domain, in any spelling, lies in it.
    pub(crate) fn holds(&self, domain: &str) -> bool {
        names::is_within(&names::canonical(domain), &self.name)
    }
}

/// What records point to: the routing endpoint of a connection group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// Its name.
    pub(crate) endpoint: String,
    /// Whether it has IPv6 addresses.
    pub(crate) ipv6: bool,
}

/// The role that `record` was written as.
pub(crate) fn login_of(record: &DnsRecord) -> ZoneRole {
    ZoneRole {
        role_arn: record.role_arn.clone(),
        external_id: record.external_id.clone(),
    }
}

/// One name in one zone: what one mark claims.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Spot {
    /// The id of the zone.
    pub(crate) zone: String,
    /// The name, as [`names::canonical`] gives it.
    pub(crate) name: String,
}

impl Spot {
    /// Where `record` is.
    pub(crate) fn of(record: &DnsRecord) -> Self {
        Self {
            zone: record.zone_id.clone(),
            name: record.name.clone(),
        }
    }
}

impl From<&ChangeSet> for Spot {
    fn from(set: &ChangeSet) -> Self {
        Self {
            zone: set.access.zone.clone(),
            name: set.name.clone(),
        }
    }
}

/// The changes at one spot. Route 53 takes all of them or none, so they stay in one batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bundle {
    /// Where they are sent.
    pub(crate) place: ZoneAccess,
    /// The name they are about; a mark among them has a name of its own.
    pub(crate) name: String,
    /// In the order in which they are carried out.
    pub(crate) changes: Vec<Change>,
}

impl Bundle {
    /// What it is about.
    pub(crate) fn spot(&self) -> Spot {
        Spot {
            zone: self.place.zone.clone(),
            name: self.name.clone(),
        }
    }

    /// Whether it writes the mark and nothing else.
    fn only_marks(&self) -> bool {
        let is_mark = |change: &Change| change.set.pointer().is_none();
        self.changes.iter().all(is_mark) && !self.unmarks()
    }

    /// Whether it leaves the name without our mark.
    fn unmarks(&self) -> bool {
        let mut marks = self
            .changes
            .iter()
            .filter(|one| one.set.pointer().is_none());
        let last = marks.next_back();
        last.is_some_and(|change| change.action == Action::Delete)
    }

    /// The records it puts, marks aside.
    fn puts(&self) -> impl Iterator<Item = &RecordSet> {
        let put = self.changes.iter().filter(|one| match one.action {
            Action::Create | Action::Upsert => one.set.pointer().is_some(),
            Action::Delete => false,
        });
        put.map(|one| &one.set)
    }
}
