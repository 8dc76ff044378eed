//! Which records a spec wants, name by name.

use std::collections::BTreeSet;
use std::fmt;

use api::tenants::{
    AliasPolicy, Dns, DnsRecord, DriftPolicy, RecordAdoption, RecordState, RecordType,
};

use super::record::RecordSet;
use super::zone::{Refusal, choose};
use super::{Spot, Target, Zone, ZoneAccess, ZoneRole, names};

/// What a plan leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Want {
    /// These names have their records; others go once the tenant no longer serves them.
    These {
        /// The names, each once.
        names: Vec<Wanted>,
        /// What happens to records of these names that nobody owns.
        adoption: RecordAdoption,
        /// What happens to records of ours that others changed.
        drift: DriftPolicy,
    },
    /// Nothing of ours is left: the object goes, or `dns` left its spec.
    Nothing,
    /// Records stay and are nobody's: `dns` left the spec of an object whose policy is `Retain`.
    Unmarked,
}

impl Want {
    pub(super) fn names(&self) -> &[Wanted] {
        match self {
            Self::These { names, .. } => names,
            Self::Nothing | Self::Unmarked => &[],
        }
    }
}

/// The records wanted at one name: a CNAME, or aliases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The name, and the zone it is in.
    pub(crate) spot: Spot,
    /// The name of that zone.
    pub(crate) zone: String,
    /// Whose credentials the spec names.
    pub(crate) login: ZoneRole,
    /// Each of another type, as planned.
    pub(crate) records: Vec<DnsRecord>,
}

impl Wanted {
    pub(super) fn zone_access(&self) -> ZoneAccess {
        ZoneAccess {
            zone: self.spot.zone.clone(),
            login: self.login.clone(),
        }
    }

    /// The wanted record of a type.
    pub(super) fn of(&self, kind: RecordType) -> Option<&DnsRecord> {
        self.records.iter().find(|record| record.kind == kind)
    }

    /// Whether no record set like this can be beside the wanted ones.
    ///
    /// A CNAME is alone at its name. An alias only minds CNAMEs, and others of its own type.
    pub(super) fn is_barred_by(&self, set: &RecordSet) -> bool {
        let kind = set.pointer();
        self.of(RecordType::Cname).is_some()
            || kind == Some(RecordType::Cname)
            || kind.is_some_and(|kind| self.of(kind).is_some())
    }

    /// Has its records lead where those of `recorded` at this name do: the same ones, or else any
    /// that we wrote, whatever their type and zone.
    pub(crate) fn lead_as(&mut self, recorded: &[DnsRecord]) {
        let spot = &self.spot;
        let ours = |state| {
            let mut named = recorded.iter().filter(|one| one.name == spot.name);
            named.find(|one| one.state == state)
        };
        let other = ours(RecordState::Applied).or_else(|| ours(RecordState::Deleting));
        for wanted in &mut self.records {
            let mut there = recorded.iter();
            let there = there.find(|one| one.kind == wanted.kind && Spot::of(one) == *spot);
            if let Some(there) = there.or(other) {
                wanted.target.clone_from(&there.target);
            }
        }
    }

    /// Whether this is where the wanted records lead.
    pub(super) fn leads_to(&self, target: Option<&str>) -> bool {
        let mut own = self.records.iter();
        target.is_some() && own.all(|record| Some(&*record.target) == target)
    }
}

/// Why a spec's records cannot be told: every domain that has no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusals(Vec<Refusal>);

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told: Vec<_> = self.0.iter().map(Refusal::to_string).collect();
        f.write_str(&told.join("; "))
    }
}

/// The names of `domains` and their records, for provider `route53`.
///
/// | name                  | aliasPolicy | IPv6 | records          |
/// |-----------------------|-------------|------|------------------|
/// | below the zone's top  | ApexOnly    |      | CNAME with `ttl` |
/// | the zone's top        | any         | no   | alias A          |
/// | the zone's top        | any         | yes  | alias A and AAAA |
/// | any                   | Always      | no   | alias A          |
/// | any                   | Always      | yes  | alias A and AAAA |
///
/// `zones` are the candidates: those the spec names, and under `discoverZones` all of the account.
/// `external_id` is what the policy says beside the spec's role.
///
/// # Errors
/// A domain has no zone, or two, or no mark of its own. Then nothing is wanted, which is not the same as wanting nothing:
/// no plan is made, and what is recorded stays.
pub(crate) fn wanted<'d>(
    domains: impl IntoIterator<Item = &'d str>,
    dns: &Dns,
    zones: &[Zone],
    target: &Target,
    external_id: Option<&str>,
) -> Result<Vec<Wanted>, Refusals> {
    let domains: BTreeSet<_> = domains.into_iter().map(names::canonical).collect();
    let login = login(dns, external_id);
    let (mut found, mut refused) = (Vec::new(), Vec::new());
    for name in domains {
        match choose(&name, zones) {
            Ok(zone) => found.push(one(&name, zone, dns, target, &login)),
            Err(refusal) => refused.push(refusal),
        }
    }
    if refused.is_empty() {
        Ok(found)
    } else {
        Err(Refusals(refused))
    }
}

/// The credentials a spec names, and what the policy says beside its role.
pub(crate) fn login(dns: &Dns, external_id: Option<&str>) -> ZoneRole {
    let role_arn = dns.role().map(str::to_owned);
    ZoneRole {
        external_id: role_arn.as_ref().and(external_id).map(str::to_owned),
        role_arn,
    }
}

fn one(name: &str, zone: &Zone, dns: &Dns, target: &Target, login: &ZoneRole) -> Wanted {
    let alias = match dns.alias_policy {
        AliasPolicy::Always => true,
        AliasPolicy::ApexOnly => name == zone.name,
    };
    let kinds: &[RecordType] = match (alias, target.ipv6) {
        (false, _) => &[RecordType::Cname],
        (true, false) => &[RecordType::A],
        (true, true) => &[RecordType::A, RecordType::Aaaa],
    };
    let record = |kind: &RecordType| DnsRecord {
        zone_id: zone.id.clone(),
        name: name.to_owned(),
        kind: *kind,
        ttl: (!alias).then_some(dns.ttl),
        target: names::canonical(&target.endpoint),
        role_arn: login.role_arn.clone(),
        external_id: login.external_id.clone(),
        state: RecordState::Planned,
        change_id: None,
    };
    Wanted {
        spot: Spot {
            zone: zone.id.clone(),
            name: name.to_owned(),
        },
        zone: zone.name.clone(),
        login: login.clone(),
        records: kinds.iter().map(record).collect(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::dns::tests::{D0, records, zone};

    fn dns(spec: serde_json::Value) -> Dns {
        let mut all = json!({"provider": "route53", "hostedZoneId": "Z1"});
        let more = spec.as_object().expect("a map").clone();
        all.as_object_mut().expect("a map").extend(more);
        serde_json::from_value(all).unwrap()
    }

    fn target(ipv6: bool) -> Target {
        Target {
            endpoint: "D0.cloudfront.net.".to_owned(),
            ipv6,
        }
    }

    #[rstest] //                           domain            spec                              ipv6   records
    #[case::a_cname(                       "a.example.com",  json!({}),                        true,  &["CNAME 300"])]
    #[case::in_any_spelling(               "A.Example.com.", json!({}),                        true,  &["CNAME 300"])]
    #[case::with_its_ttl(                  "a.example.com",  json!({"ttl": 600}),              true,  &["CNAME 600"])]
    #[case::a_wildcard(                    "*.example.com",  json!({}),                        true,  &["CNAME 300"])]
    #[case::aliases_at_the_top(            "example.com",    json!({"ttl": 600}),              true,  &["A", "AAAA"])]
    #[case::an_alias_without_ipv6(         "example.com",    json!({}),                        false, &["A"])]
    #[case::aliases_everywhere(            "a.example.com",  json!({"aliasPolicy": "Always"}), true,  &["A", "AAAA"])]
    #[rustfmt::skip]
    fn a_domain_wants(#[case] domain: &str, #[case] spec: serde_json::Value, #[case] ipv6: bool, #[case] records: &[&str]) {
        let zones = [zone("Z1", "example.com")];
        let found = wanted([domain], &dns(spec), &zones, &target(ipv6), None).unwrap();
        let [one] = found.as_slice() else { panic!("{found:?}") };
        let told: Vec<_> = one.records.iter().map(|record| {
            assert_eq!((&*record.target, record.state), (D0, RecordState::Planned));
            match record.ttl {
                Some(ttl) => format!("{} {ttl}", record.kind.as_str()),
                None => record.kind.as_str().to_owned(),
            }
        }).collect();
        assert_eq!(told, records);
    }

    #[test]
    fn names_are_wanted_once_each_in_its_zone() {
        let zones = [zone("Z1", "example.com"), zone("Z2", "eu.example.com")];
        let domains = ["x.eu.example.com", "B.example.com", "b.example.com."];
        let found = wanted(domains, &dns(json!({})), &zones, &target(true), None).unwrap();
        let spots: Vec<_> = found
            .iter()
            .map(|one| (&*one.spot.zone, &*one.spot.name))
            .collect();
        assert_eq!(spots, [("Z1", "b.example.com"), ("Z2", "x.eu.example.com")]);
    }

    #[rstest] //                              recorded in Z1                                 zone  wants     leads to
    #[case::the_same_record(                  "Applied CNAME d1 300",                        "Z1", "ApexOnly", "d1")]
    #[case::one_in_another_zone(              "Applied CNAME d1 300",                        "Z2", "ApexOnly", "d1")]
    #[case::one_of_another_type(              "Applied CNAME d1 300",                        "Z1", "Always",   "d1")]
    #[case::both(                             "Applied A d1 + Applied AAAA d1",              "Z2", "ApexOnly", "d1")]
    #[case::one_that_is_to_go(                "Deleting CNAME d1 300 + Planned CNAME d2 300", "Z2", "ApexOnly", "d1")]
    #[case::a_plan_for_it(                    "Planned CNAME d2 300",                        "Z1", "ApexOnly", "d2")]
    #[case::no_plan_elsewhere(                "Planned CNAME d2 300",                        "Z2", "ApexOnly", "d0")]
    #[case::new_as_it_is(                     "",                                            "Z1", "ApexOnly", "d0")]
    #[rustfmt::skip]
    fn a_name_that_waits_leads_as_before(
        #[case] recorded: &str, #[case] id: &str, #[case] alias: &str, #[case] leads: &str,
    ) {
        let zones = [zone(id, "example.com")];
        let dns = dns(json!({"aliasPolicy": alias}));
        let found = wanted(["a.example.com"], &dns, &zones, &target(true), None).unwrap();
        let [mut one] = <[_; 1]>::try_from(found).unwrap();
        one.lead_as(&records(recorded));
        let leads = format!("{leads}.cloudfront.net");
        assert!(one.leads_to(Some(&leads)), "{:?}", one.records);
    }

    #[test]
    fn a_name_that_waits_does_not_lead_as_another() {
        let zones = [zone("Z1", "example.com")];
        let found = wanted(
            ["b.example.com"],
            &dns(json!({})),
            &zones,
            &target(true),
            None,
        );
        let [mut one] = <[_; 1]>::try_from(found.unwrap()).unwrap();
        one.lead_as(&records("Applied CNAME d1 300"));
        assert!(one.leads_to(Some(D0)), "{:?}", one.records);
    }

    #[test]
    fn every_domain_without_a_place_is_told() {
        let zones = [zone("Z1", "example.com")];
        let domains = [
            "a.x.net",
            "b.x.net",
            "*.example.com",
            "_wildcard.example.com",
        ];
        let refused = wanted(domains, &dns(json!({})), &zones, &target(true), None).unwrap_err();
        let told = refused.to_string();
        for part in [
            "a.x.net lies",
            "b.x.net lies",
            "_wildcard.example.com cannot",
        ] {
            assert!(told.contains(part), "{told}");
        }
    }

    #[rstest]
    #[case::the_operators_own(json!({}), Some("x"), None)]
    #[case::a_role(json!({"assumeRoleArn": "arn:r"}), None, Some(("arn:r", None)))]
    #[case::a_role_with_external_id(json!({"assumeRoleArn": "arn:r"}), Some("x"), Some(("arn:r", Some("x"))))]
    fn records_are_written_with(
        #[case] spec: serde_json::Value,
        #[case] external_id: Option<&str>,
        #[case] expected: Option<(&str, Option<&str>)>,
    ) {
        let login = login(&dns(spec), external_id);
        let told = login
            .role_arn
            .as_deref()
            .map(|arn| (arn, login.external_id.as_deref()));
        assert_eq!(told, expected);
    }
}
