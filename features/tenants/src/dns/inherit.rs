//! Records that cloudfront-tenant-operator wrote: it kept no list of them, and marked none.

use api::tenants::{DistributionTenantStatus, Dns, DnsRecord, RecordState, RecordType};

use super::known::Sight;
use super::owner::{Holder, Owner, holder};
use super::want::login;
use super::zone::choose;
use super::{Spot, Zone, ZoneAccess, names};

/// A name at which the predecessor may have left a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inherited {
    pub(super) spot: Spot,
    /// The name of its mark.
    pub(super) mark: String,
    pub(super) place: ZoneAccess,
    /// Where the predecessor pointed.
    target: String,
}

/// The names to look at: those of `domainResults`, while status tells a target and no record.
///
/// Pontoon keeps `dnsTarget` only together with records, so this is over with the first of them.
/// Names without a zone are left out: the predecessor wrote nothing for them.
pub(crate) fn inherited(
    status: &DistributionTenantStatus,
    dns: &Dns,
    zones: &[Zone],
    external_id: Option<&str>,
) -> Vec<Inherited> {
    let Some(target) = &status.dns_target else {
        return Vec::new();
    };
    if !status.dns_records.is_empty() {
        return Vec::new();
    }
    let served = status.domain_results.iter();
    let served = served.map(|result| names::canonical(&result.domain));
    let found = served.filter_map(|name| {
        let zone = choose(&name, zones).ok()?;
        Some(Inherited {
            mark: names::mark_name(&name, Some(&zone.name))?,
            spot: Spot {
                zone: zone.id.clone(),
                name,
            },
            place: ZoneAccess {
                zone: zone.id.clone(),
                login: login(dns, external_id),
            },
            target: names::canonical(target),
        })
    });
    found.collect()
}

impl Inherited {
    /// The record, if the predecessor left one: a CNAME whose only value is its target, and which
    /// nobody marked as theirs.
    pub(super) fn record(&self, sight: &Sight, us: &Owner) -> Option<DnsRecord> {
        match holder(sight, &self.mark, us) {
            Holder::Ours(_) | Holder::Unreadable(_) | Holder::Nobody => {}
            Holder::Pontoon(..) | Holder::ExternalDns(_) => return None,
        }
        let mut there = sight.at(&self.spot.name);
        let cname = there.find(|set| {
            set.replaceable() == Some(RecordType::Cname)
                && set.target().as_ref() == Some(&self.target)
        })?;
        cname.recorded(&self.place, RecordState::Applied)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::dns::record::RecordSet;
    use crate::dns::tests::{D0, cname, foreign, owner, txt, zone};

    const MARK: &str = "_pontoon-owner.a.example.com";

    fn looked_at(status: serde_json::Value) -> Vec<Inherited> {
        let status = serde_json::from_value(status).unwrap();
        let dns = json!({"provider": "route53", "hostedZoneId": "Z1", "assumeRoleArn": "arn:r"});
        let dns = serde_json::from_value(dns).unwrap();
        inherited(&status, &dns, &[zone("Z1", "example.com")], None)
    }

    #[test]
    fn names_that_were_served_are_looked_at() {
        let results = json!([{"domain": "A.example.com"}, {"domain": "x.other.net"}]);
        let status = json!({"dnsTarget": D0, "domainResults": results});
        let found = looked_at(status);
        let told: Vec<_> = found
            .iter()
            .map(|one| (&*one.spot.name, &*one.mark))
            .collect();
        assert_eq!(told, [("a.example.com", MARK)]);
        assert_eq!(found[0].place.login.role_arn.as_deref(), Some("arn:r"));
    }

    #[rstest]
    #[case::without_a_target(json!({"domainResults": [{"domain": "a.example.com"}]}))]
    #[case::with_records(json!({"dnsTarget": D0, "domainResults": [{"domain": "a.example.com"}],
        "dnsRecords": [cname("a.example.com", 300, D0)]}))]
    fn nothing_is_inherited(#[case] status: serde_json::Value) {
        assert_eq!(looked_at(status), []);
    }

    #[rstest]
    #[case::its_cname(vec![foreign("CNAME", &[D0])], true)]
    #[case::with_its_dot(vec![foreign("CNAME", &["d0.cloudfront.net."])], true)]
    #[case::one_of_two_values(vec![foreign("CNAME", &[D0, "x.net"])], false)]
    #[case::elsewhere(vec![foreign("CNAME", &["x.net"])], false)]
    #[case::nothing(vec![], false)]
    #[case::one_of_several(vec![RecordSet { routed: true, ..foreign("CNAME", &[D0]) }], false)]
    #[case::marked_by_another(
        vec![
            foreign("CNAME", &[D0]),
            txt(MARK, &["\"heritage=pontoon,owner=c2,resource=a/b\""]),
        ],
        false
    )]
    #[case::of_external_dns(
        vec![
            foreign("CNAME", &[D0]),
            txt("cname-a.example.com", &["\"heritage=external-dns,external-dns/owner=x\""]),
        ],
        false
    )]
    fn the_predecessors_record_is(#[case] sets: Vec<RecordSet>, #[case] ours: bool) {
        let status = json!({"dnsTarget": D0, "domainResults": [{"domain": "a.example.com"}]});
        let looked = looked_at(status);
        let record = looked[0].record(&Sight { sets }, &owner());
        assert_eq!(record.is_some(), ours);
        if let Some(record) = record {
            assert_eq!(
                (record.state, record.ttl),
                (RecordState::Applied, Some(300))
            );
        }
    }
}
