//! Everything CloudFront holds, over all accounts.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use serde::Serialize;

use super::config::{Asked, Config};
use super::judge::{Marker, marker};
use crate::acm::Status;
use crate::shelf::{Shelf, View};

pub(crate) type Tags = BTreeMap<String, String>;

/// A distribution tenant.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Tenant {
    pub(crate) id: String,
    pub(crate) arn: String,
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) config: Config,
    pub(crate) tags: Tags,
    pub(crate) managed: Option<Managed>,
    #[serde(flatten)]
    pub(crate) version: Version,
}

/// What every write changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Version {
    pub(crate) etag: String,
    pub(crate) created: Timestamp,
    pub(crate) modified: Timestamp,
    /// From when on it is Deployed.
    pub(crate) deployed_at: Timestamp,
}

impl Version {
    pub(crate) fn status(&self, at: Timestamp) -> &'static str {
        if self.deployed_at <= at {
            "Deployed"
        } else {
            "InProgress"
        }
    }
}

/// A managed certificate and what was asked for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Managed {
    pub(crate) asked: Asked,
    pub(crate) arn: String,
    pub(crate) status: Status,
    /// When it is issued by itself, if it is.
    #[serde(rename = "issuedAt")]
    pub(crate) issued_at: Option<Timestamp>,
}

/// A connection group.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Group {
    pub(crate) id: String,
    pub(crate) arn: String,
    pub(crate) name: String,
    pub(crate) endpoint: String,
    pub(crate) ipv6: bool,
    pub(crate) anycast: Option<String>,
    pub(crate) enabled: bool,
    pub(crate) is_default: bool,
    pub(crate) tags: Tags,
    #[serde(flatten)]
    pub(crate) version: Version,
}

/// A distribution, as far as tenants need it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Distribution {
    pub(crate) id: String,
    pub(crate) arn: String,
    pub(crate) tenant_only: bool,
    pub(crate) certificate: Option<String>,
    pub(crate) parameters: Vec<Definition>,
    pub(crate) aliases: Vec<String>,
    pub(crate) etag: String,
    pub(crate) modified: Timestamp,
    pub(crate) tags: Tags,
}

/// A parameter a distribution defines.
#[derive(Debug, Clone, Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Definition {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) required: bool,
    pub(crate) default: Option<String>,
}

/// An invalidation of a tenant's paths.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Invalidation {
    pub(crate) id: String,
    pub(crate) reference: String,
    pub(crate) paths: Vec<String>,
    pub(crate) created: Timestamp,
    pub(crate) completed_at: Timestamp,
}

/// What one account has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Account {
    pub(crate) tenants: Shelf<Tenant>,
    pub(crate) groups: Shelf<Group>,
    pub(crate) distributions: BTreeMap<String, Distribution>,
    /// By tenant.
    pub(crate) invalidations: BTreeMap<String, Vec<Invalidation>>,
    names: HashMap<String, String>,
}

/// Who has a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) account: String,
    pub(crate) id: String,
    pub(crate) is_tenant: bool,
}

/// All accounts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Store {
    pub(crate) accounts: BTreeMap<String, Account>,
    /// By domain in lower case, over all accounts.
    domains: BTreeMap<String, Holder>,
    /// Tenants by the cluster and the object their tags name.
    marked: HashMap<(String, String), BTreeSet<String>>,
    /// Tenants whose certificate will be issued by itself, by when.
    issues: BTreeSet<(Timestamp, String, String)>,
    made: u64,
}

impl Store {
    pub(crate) fn account(&mut self, account: &str) -> &mut Account {
        self.accounts.entry(account.to_owned()).or_default()
    }

    /// A number never given before, for ids, ETags and endpoints.
    pub(crate) fn next(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    /// A new ETag.
    pub(crate) fn etag(&mut self) -> String {
        format!("E{:013X}", self.next())
    }

    /// Puts a tenant, new or changed.
    pub(crate) fn put(&mut self, account: &str, tenant: Tenant, now: Timestamp) {
        self.forget(account, &tenant.id);
        for domain in &tenant.config.domains {
            let holder = Holder {
                account: account.to_owned(),
                id: tenant.id.clone(),
                is_tenant: true,
            };
            self.domains.insert(domain.to_lowercase(), holder);
        }
        if let Some(when) = tenant
            .managed
            .as_ref()
            .and_then(|managed| managed.issued_at)
        {
            let key = (when, account.to_owned(), tenant.id.clone());
            self.issues.insert(key);
        }
        if let Some(Marker { cluster, object }) = marker(&tenant.tags) {
            let key = (cluster.to_owned(), object.to_owned());
            let twins = self.marked.entry(key).or_default();
            twins.insert(tenant.id.clone());
        }
        let held = self.account(account);
        held.names.insert(tenant.name.clone(), tenant.id.clone());
        let id = tenant.id.clone();
        held.tenants.put(&id, Some(tenant), now);
    }

    /// Takes a tenant away.
    pub(crate) fn remove(&mut self, account: &str, id: &str, now: Timestamp) {
        self.forget(account, id);
        let held = self.account(account);
        if let Some(tenant) = held.tenants.get(id, View::Live) {
            held.names.remove(&tenant.name);
        }
        held.invalidations.remove(id);
        held.tenants.put(id, None, now);
    }

    /// Frees the domains and the marker of a tenant before it is put anew.
    fn forget(&mut self, account: &str, id: &str) {
        let there = self.accounts.get(account);
        let Some(there) = there.and_then(|held| held.tenants.get(id, View::Live)) else {
            return;
        };
        for domain in &there.config.domains {
            self.domains.remove(&domain.to_lowercase());
        }
        if let Some(Marker { cluster, object }) = marker(&there.tags) {
            let key = (cluster.to_owned(), object.to_owned());
            if let Some(twins) = self.marked.get_mut(&key) {
                twins.remove(id);
            }
        }
        self.issues
            .retain(|(_, owner, tenant)| (owner.as_str(), tenant.as_str()) != (account, id));
    }

    /// How many tenants an account has.
    pub(crate) fn count(&self, account: &str) -> usize {
        let held = self.accounts.get(account);
        held.map_or(0, |held| held.names.len())
    }

    /// The tenants that carry a marker.
    pub(crate) fn marked(&self, marker: Marker<'_>) -> impl Iterator<Item = &str> {
        let key = (marker.cluster.to_owned(), marker.object.to_owned());
        self.marked
            .get(&key)
            .into_iter()
            .flatten()
            .map(String::as_str)
    }

    pub(crate) fn put_distribution(&mut self, account: &str, distribution: Distribution) {
        for alias in &distribution.aliases {
            let holder = Holder {
                account: account.to_owned(),
                id: distribution.id.clone(),
                is_tenant: false,
            };
            self.domains.insert(alias.to_lowercase(), holder);
        }
        let held = self.account(account);
        let id = distribution.id.clone();
        held.distributions.insert(id, distribution);
    }

    /// Who has this domain.
    pub(crate) fn holder(&self, domain: &str) -> Option<&Holder> {
        self.domains.get(&domain.to_lowercase())
    }

    /// All domains and who has them.
    pub(crate) fn domains(&self) -> impl Iterator<Item = (&str, &Holder)> {
        self.domains
            .iter()
            .map(|(domain, holder)| (domain.as_str(), holder))
    }

    /// The tenant an id, a name or an ARN means.
    pub(crate) fn tenant(&self, account: &str, named: &str, view: View) -> Option<&Tenant> {
        let held = self.accounts.get(account)?;
        let prefix = format!("arn:aws:cloudfront::{account}:distribution-tenant/");
        let id = named.strip_prefix(&prefix).unwrap_or(named);
        let by_id = held.tenants.get(id, view);
        by_id.or_else(|| match held.names.get(named) {
            Some(id) => held.tenants.get(id, view),
            None if view == View::Live => None,
            // A name that is free by now may still be seen by a read that is behind.
            None => {
                let mut all = held.tenants.list(view).map(|(_, tenant)| tenant);
                all.find(|tenant| tenant.name == named)
            }
        })
    }

    /// The group an id, a name or an ARN means.
    pub(crate) fn group(&self, account: &str, named: &str, view: View) -> Option<&Group> {
        let held = self.accounts.get(account)?;
        let prefix = format!("arn:aws:cloudfront::{account}:connection-group/");
        let id = named.strip_prefix(&prefix).unwrap_or(named);
        held.groups.get(id, view).or_else(|| {
            let mut all = held.groups.list(view).map(|(_, group)| group);
            all.find(|group| group.name == named)
        })
    }

    pub(crate) fn default_group(&self, account: &str) -> Option<&Group> {
        let held = self.accounts.get(account)?;
        let mut all = held.groups.list(View::Live).map(|(_, group)| group);
        all.find(|group| group.is_default)
    }

    pub(crate) fn distribution(&self, account: &str, id: &str) -> Option<&Distribution> {
        self.accounts.get(account)?.distributions.get(id)
    }

    /// The tenants of an account that route through a group.
    pub(crate) fn users(&self, account: &str, group: &str) -> impl Iterator<Item = &Tenant> {
        let held = self.accounts.get(account).into_iter();
        let all = held.flat_map(|held| held.tenants.list(View::Live));
        all.map(|(_, tenant)| tenant)
            .filter(move |tenant| tenant.config.group == group)
    }

    /// The tenants whose certificate is due: account and id.
    pub(crate) fn due(&mut self, now: Timestamp) -> Vec<(String, String)> {
        let due = self.issues.iter().take_while(|(when, ..)| *when <= now);
        due.map(|(_, account, id)| (account.clone(), id.clone()))
            .collect()
    }

    /// Forgets all but the numbers given out.
    pub(crate) fn reset(&mut self) {
        *self = Self {
            made: self.made,
            ..Self::default()
        };
    }
}
