//! The records of a tenant that is imported: taken over where they lead to it already.

use std::collections::BTreeSet;

use api::tenants::{AliasPolicy, DistributionTenant, Dns, DnsProvider, RecordAdoption};

use crate::body::Live;
use crate::cli::session::TenantsSession;
use crate::dns::outlook::Ahead;
use crate::dns::record::{Action, Content, RecordSet};
use crate::dns::want::wanted;
use crate::dns::{Target, Zone};
use crate::holders::Claim;
use crate::tenant::{taking_over, zones};

/// How long resolvers keep records, as a spec may say it.
const TTL: std::ops::RangeInclusive<i64> = 60..=172_800;
const USUAL_TTL: i64 = 300;
/// Guesses at ttl and alias policy before records count as no match.
const GUESSES: usize = 3;

/// Lets `object` take over the records of its domains, if that changes none of them; or says why
/// it does not.
pub(super) async fn add(
    object: &mut DistributionTenant,
    live: &Live,
    session: &TenantsSession,
) -> Result<(), String> {
    let claim = Claim::of(object);
    let all = zones(&session.asker(), &session.ctx).await?;
    let target = target(live, session).await?;
    let mut dns = Dns {
        provider: DnsProvider::Route53,
        hosted_zone_id: None,
        hosted_zone_ids: Vec::new(),
        discover_zones: false,
        ttl: USUAL_TTL,
        assume_role_arn: None,
        alias_policy: AliasPolicy::ApexOnly,
        record_adoption: RecordAdoption::Matching,
    };
    for _ in 0..GUESSES {
        let domains = claim.domains.iter().map(String::as_str);
        let names = wanted(domains, &dns, &all, &target, None);
        let names = names.map_err(|refusals| refusals.to_string())?;
        let used: BTreeSet<_> = names.iter().map(|one| one.spot.zone.clone()).collect();
        let used: Vec<Zone> = all
            .iter()
            .filter(|zone| used.contains(&zone.id))
            .cloned()
            .collect();
        let ahead = taking_over(&claim.key, names, &used, &session.ctx).await?;
        if ahead.only_marks() {
            object.spec.settings.dns = Some(within(dns, used));
            return Ok(());
        }
        match nearer(&dns, &ahead) {
            Some(better) => dns = better,
            None => return Err(mismatch(&ahead)),
        }
    }
    Err("they differ among each other in ttl or type".to_owned())
}

async fn target(live: &Live, session: &TenantsSession) -> Result<Target, String> {
    let id = live.summary.connection_group_id.as_ref();
    let id = id.ok_or("CloudFront does not tell its connection group")?;
    let own = session.ctx.own().await;
    let group = session.ctx.outside.group(own, &session.asker(), id).await;
    let group = group.map_err(|error| error.to_string())?;
    Ok(Target {
        endpoint: group.routing_endpoint.clone(),
        ipv6: group.body.ipv6_enabled,
    })
}

/// The same in just these zones.
fn within(dns: Dns, zones: Vec<Zone>) -> Dns {
    let mut ids: Vec<_> = zones.into_iter().map(|zone| zone.id).collect();
    let one = (ids.len() == 1).then(|| ids.remove(0));
    Dns {
        hosted_zone_id: one,
        hosted_zone_ids: ids,
        ..dns
    }
}

/// What records are like, by what would be changed of them; none if that tells nothing new.
fn nearer(dns: &Dns, ahead: &Ahead) -> Option<Dns> {
    for one in &ahead.changes {
        let live = one.live.as_ref().map(|live| &live.content);
        match (one.action, live) {
            (Action::Upsert, Some(Content::Values { ttl, .. }))
                if *ttl != dns.ttl && TTL.contains(ttl) && is_cname(&one.set) =>
            {
                return Some(Dns {
                    ttl: *ttl,
                    ..dns.clone()
                });
            }
            (Action::Delete, Some(Content::Alias { .. }))
                if dns.alias_policy == AliasPolicy::ApexOnly =>
            {
                return Some(Dns {
                    alias_policy: AliasPolicy::Always,
                    ..dns.clone()
                });
            }
            (Action::Create | Action::Upsert | Action::Delete, _) => {}
        }
    }
    None
}

fn is_cname(set: &RecordSet) -> bool {
    set.kind.as_str() == "CNAME"
}

fn mismatch(ahead: &Ahead) -> String {
    let changes = ahead.changes.iter();
    let changes = changes.filter(|one| one.set.kind.as_str() != "TXT");
    let names: BTreeSet<_> = changes.map(|one| &*one.set.name).collect();
    if names.is_empty() {
        let verdict = ahead
            .verdict
            .as_ref()
            .map(|verdict| verdict.reason().message);
        return verdict.unwrap_or_else(|| "they cannot be told".to_owned());
    }
    let names: Vec<_> = names.into_iter().collect();
    let names = crate::words::few(&names);
    format!("those of {names} are not there, or lead elsewhere; add spec.dns when they may be made")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns::outlook::Foreseen;
    use crate::dns::record::Kind;

    fn dns(ttl: i64, alias_policy: AliasPolicy) -> Dns {
        Dns {
            provider: DnsProvider::Route53,
            hosted_zone_id: None,
            hosted_zone_ids: Vec::new(),
            discover_zones: false,
            ttl,
            assume_role_arn: None,
            alias_policy,
            record_adoption: RecordAdoption::Matching,
        }
    }

    fn change(action: Action, kind: &str, live: Content) -> Ahead {
        let set = |content| RecordSet {
            name: "a.example.com".to_owned(),
            kind: Kind::of(kind),
            content,
            routed: false,
        };
        let wanted = Content::Values {
            ttl: USUAL_TTL,
            values: vec!["d0.cloudfront.net".to_owned()],
        };
        Ahead {
            changes: vec![Foreseen {
                zone: "Z1".to_owned(),
                action,
                set: set(wanted),
                live: Some(set(live)),
            }],
            ..Ahead::default()
        }
    }

    #[test]
    fn ttl_and_alias_policy_are_those_of_the_records() {
        let usual = dns(USUAL_TTL, AliasPolicy::ApexOnly);
        let slow = Content::Values {
            ttl: 600,
            values: vec!["d0.cloudfront.net".to_owned()],
        };
        let ahead = change(Action::Upsert, "CNAME", slow);
        let better = nearer(&usual, &ahead);
        assert_eq!(better, Some(dns(600, AliasPolicy::ApexOnly)));
        assert_eq!(nearer(&dns(600, AliasPolicy::ApexOnly), &ahead), None);
        let alias = Content::Alias {
            zone: "Z2FDTNDATAQYW2".to_owned(),
            target: "d0.cloudfront.net".to_owned(),
            health: false,
        };
        let ahead = change(Action::Delete, "A", alias);
        let better = nearer(&usual, &ahead);
        assert_eq!(better, Some(dns(USUAL_TTL, AliasPolicy::Always)));
    }

    #[test]
    fn one_zone_is_named_as_one() {
        let zone = |id: &str| Zone {
            id: id.to_owned(),
            name: "example.com".to_owned(),
            private: false,
        };
        let usual = || dns(USUAL_TTL, AliasPolicy::ApexOnly);
        let one = within(usual(), vec![zone("Z1")]);
        assert_eq!(one.hosted_zone_id.as_deref(), Some("Z1"));
        assert_eq!(one.hosted_zone_ids, [""; 0]);
        let two = within(usual(), vec![zone("Z1"), zone("Z2")]);
        assert_eq!(two.hosted_zone_id, None);
        assert_eq!(two.hosted_zone_ids, ["Z1", "Z2"]);
    }
}
