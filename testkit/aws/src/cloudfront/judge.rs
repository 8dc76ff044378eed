//! What CloudFront's oracle holds against a caller.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::CloudFront;
use super::store::Tags;
use crate::oracle::{Declared, Living};
use crate::service::{Leak, Moment, Outcome, Violation};
use crate::shelf::View;

const CLUSTER: &str = "pontoon.io/cluster";
const OBJECT: &str = "pontoon.io/object";

/// Whose a thing is, by its tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marker<'a> {
    pub(super) cluster: &'a str,
    pub(super) object: &'a str,
}

pub(super) fn marker(tags: &Tags) -> Option<Marker<'_>> {
    let (cluster, object) = (tags.get(CLUSTER)?, tags.get(OBJECT)?);
    Some(Marker { cluster, object })
}

/// A thing that is written to.
pub(super) struct Touched<'a> {
    pub(super) account: &'a str,
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    pub(super) tags: &'a Tags,
}

/// What was seen, and who has yet to look again.
#[derive(Debug, Clone, Default)]
pub(super) struct Judge {
    pub(super) violations: Vec<Violation>,
    /// Account and id of what was refused as stale and not read since.
    stale: BTreeSet<(String, String)>,
}

impl Judge {
    pub(super) fn tell(&mut self, rule: &'static str, detail: String, time: Timestamp) {
        self.violations.push(Violation { time, rule, detail });
    }

    /// A write to something without our marker, and not declared ours.
    pub(super) fn foreign(
        &mut self,
        rule: &'static str,
        touched: &Touched<'_>,
        moment: &Moment<'_>,
    ) {
        let Touched {
            account,
            id,
            name,
            tags,
        } = *touched;
        let marker = marker(tags);
        let declared = moment.declared;
        let ours = marker
            .as_ref()
            .is_some_and(|marker| declared.is_ours(marker.cluster));
        if ours || declared.owns(&[id, name]) {
            return;
        }
        let owner = marker.map_or_else(
            || "nobody".to_owned(),
            |Marker { cluster, object }| format!("{cluster}/{object}"),
        );
        let detail = format!("{account} touched {name} ({id}) of {owner}");
        self.tell(rule, detail, moment.now);
    }
}

impl CloudFront {
    /// A second tenant, or group, that carries the marker of an object. A group is there already.
    pub(super) fn judge_twins(&mut self, id: &str, tags: &Tags, now: Timestamp) {
        let Some(own) = marker(tags) else { return };
        let groups = || {
            let accounts = self.store.accounts.values();
            accounts.flat_map(|held| held.groups.list(View::Live))
        };
        let twin = if groups().any(|(other, _)| other == id) {
            let twins = groups().filter(|(_, group)| marker(&group.tags) == Some(own));
            twins.map(|(other, _)| other).find(|other| *other != id)
        } else {
            self.store.marked(own).find(|other| *other != id)
        };
        if let Some(twin) = twin {
            let Marker { cluster, object } = own;
            let detail = format!("{id} and {twin} both carry the marker of {cluster}/{object}");
            self.judge.tell("twoForOneObject", detail, now);
        }
    }

    /// Notes who was told that he is behind, and whether he looked before he wrote again.
    pub(super) fn judge_stale(&mut self, moment: &Moment<'_>, outcome: &Outcome<'_>) {
        let Some(caller) = outcome.caller else { return };
        let account = caller.account.as_str();
        let named = outcome.operation.resource.as_deref().unwrap_or_default();
        let id = self.id_of(account, named);
        let key = (account.to_owned(), id);
        let name = outcome.operation.name.as_str();
        let read = outcome.status == Some(200);
        match name {
            "UpdateDistributionTenant"
            | "DeleteDistributionTenant"
            | "UpdateConnectionGroup"
            | "DeleteConnectionGroup" => {
                if self.judge.stale.remove(&key) {
                    let detail = format!("{account} sent {name} of {named} without a read");
                    self.judge.tell("writeAfterStale", detail, moment.now);
                }
                if matches!(
                    outcome.code,
                    Some("PreconditionFailed" | "InvalidIfMatchVersion")
                ) {
                    self.judge.stale.insert(key);
                }
            }
            "ListDistributionTenants" | "ListConnectionGroups" if read => {
                self.judge.stale.retain(|(owner, _)| owner != account);
            }
            "GetDistributionTenantByDomain" if read => {
                if let Some(holder) = self.store.holder(named) {
                    let key = (account.to_owned(), holder.id.clone());
                    self.judge.stale.remove(&key);
                }
            }
            "GetDistributionTenant" | "GetConnectionGroup" if read => {
                self.judge.stale.remove(&key);
            }
            _ => {}
        }
    }

    fn id_of(&self, account: &str, named: &str) -> String {
        let tenant = self.store.tenant(account, named, View::Live);
        let group = || self.store.group(account, named, View::Live);
        tenant
            .map(|tenant| &tenant.id)
            .or_else(|| group().map(|group| &group.id))
            .map_or_else(|| named.to_owned(), Clone::clone)
    }

    /// Marked tenants and groups whose object does not live.
    pub(super) fn leaked(&self, declared: &Declared, living: &Living) -> Vec<Leak> {
        let mut leaks = Vec::new();
        for held in self.store.accounts.values() {
            for (id, tenant) in held.tenants.list(View::Live) {
                let lost = marker(&tenant.tags).filter(|marker| {
                    declared.is_ours(marker.cluster)
                        && !living.has(marker.cluster, marker.object)
                        && !living.retains(&[id, &tenant.name])
                });
                leaks.extend(lost.map(|marker| Leak {
                    kind: "distributionTenant",
                    detail: format!("{} ({id}) of {}", tenant.name, marker.object),
                }));
            }
            for (id, group) in held.groups.list(View::Live) {
                let lost = marker(&group.tags).filter(|marker| {
                    declared.is_ours(marker.cluster)
                        && !living.has_group(marker.cluster, marker.object)
                        && !living.retains(&[id, &group.name])
                });
                leaks.extend(lost.map(|marker| Leak {
                    kind: "connectionGroup",
                    detail: format!("{} ({id}) of {}", group.name, marker.object),
                }));
            }
        }
        leaks
    }
}
