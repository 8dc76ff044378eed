//! The zones of all accounts, and where their names lead.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::name;
use super::record::{Data, RecordSet, key};
use crate::shelf::{Shelf, View};

/// How many names a lookup follows before it gives up.
const HOPS: usize = 8;

/// A hosted zone.
#[derive(Debug, Clone, Serialize)]
pub struct Zone {
    /// Id, without `/hostedzone/`.
    pub id: String,
    /// Name, as kept.
    pub name: String,
    /// Whose it is.
    pub account: String,
    /// Whether only VPCs see it.
    pub private: bool,
    /// Its record sets.
    #[serde(skip)]
    pub records: Shelf<RecordSet>,
}

/// Where a name leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pointing {
    /// To the name asked for.
    There,
    /// To another.
    Elsewhere(String),
    /// Its zone has no record for it, or none that the name servers know yet.
    NoRecord,
    /// No public zone here holds it.
    NoZone,
}

/// All zones, by id.
#[derive(Debug, Default)]
pub struct Zones {
    zones: BTreeMap<String, Zone>,
}

impl Zone {
    /// A zone with what every zone begins with: its SOA and NS records.
    pub fn new(id: String, name: String, account: String, private: bool, now: Timestamp) -> Self {
        let soa = "ns-1.awsdns-01.org. awsdns-hostmaster.amazon.com. 1 7200 900 1209600 86400";
        let first = [
            ("NS", 172_800, NAME_SERVERS.map(str::to_owned).to_vec()),
            ("SOA", 900, vec![soa.to_owned()]),
        ];
        let mut zone = Self {
            id,
            name,
            account,
            private,
            records: Shelf::default(),
        };
        for (kind, ttl, values) in first {
            let record = RecordSet {
                name: zone.name.clone(),
                kind: kind.to_owned(),
                set: None,
                weight: None,
                data: Data::Values { ttl, values },
                settles: now,
                seeded: true,
            };
            zone.records.put(&record.key(), Some(record), now);
        }
        zone
    }

    /// All record sets at a name.
    pub fn at(&self, name: &str) -> impl Iterator<Item = &RecordSet> {
        let start = format!("{}\u{0}", name::order(name));
        self.records
            .list_from(&start, View::Live)
            .take_while(move |(key, _)| key.starts_with(&start))
            .map(|(_, record)| record)
    }

    /// The record set of this name and type, without a set identifier.
    pub fn record(&self, name: &str, kind: &str) -> Option<&RecordSet> {
        self.records.get(&key(name, kind, None), View::Live)
    }

    /// Puts a record set; the name servers know it after `delay`, at once if they do already.
    pub fn put(&mut self, mut record: RecordSet, now: Timestamp, delay: Duration) {
        let known = self
            .records
            .get(&record.key(), View::Live)
            .filter(|there| there.data.says(&record.data))
            .map(|there| there.settles);
        let later = now.saturating_add(delay).unwrap_or(Timestamp::MAX);
        record.settles = known.map_or(later, |known| known.min(later));
        self.records.put(&record.key(), Some(record), now);
    }
}

/// The name servers of every zone.
pub(crate) const NAME_SERVERS: [&str; 2] = ["ns-1.awsdns-01.org.", "ns-2.awsdns-02.com."];

impl Zones {
    /// The zone of this id.
    pub fn get(&self, id: &str) -> Option<&Zone> {
        self.zones.get(id)
    }

    /// The zone of this id, to change.
    pub fn get_mut(&mut self, id: &str) -> Option<&mut Zone> {
        self.zones.get_mut(id)
    }

    /// Puts a zone in the place of one of the same id.
    pub fn put(&mut self, zone: Zone) {
        self.zones.insert(zone.id.clone(), zone);
    }

    /// Takes one away; `false` if there is none.
    pub fn remove(&mut self, id: &str) -> bool {
        self.zones.remove(id).is_some()
    }

    /// All zones, by id.
    pub fn all(&self) -> impl Iterator<Item = &Zone> {
        self.zones.values()
    }

    /// Whether the name servers lead from `domain` to `target`, at `now`.
    pub fn pointing(&self, domain: &str, target: &str, now: Timestamp) -> Pointing {
        let (Ok(mut at), Ok(target)) = (name::kept(domain), name::kept(target)) else {
            return Pointing::NoZone;
        };
        for hop in 0..HOPS {
            if hop > 0 && at == target {
                return Pointing::There;
            }
            match self.next(&at, now) {
                Ok(next) => at = next,
                Err(end) if hop == 0 => return end,
                Err(_) => break,
            }
        }
        Pointing::Elsewhere(at)
    }

    /// The name after `name`, or how the way ends there.
    fn next(&self, name: &str, now: Timestamp) -> Result<String, Pointing> {
        let holding = self
            .all()
            .filter(|zone| !zone.private && name::is_within(name, &zone.name));
        let zone = holding
            .max_by_key(|zone| zone.name.len())
            .ok_or(Pointing::NoZone)?;
        let known = |record: &&RecordSet| record.settles <= now;
        let named = |name: &str| -> Vec<&RecordSet> {
            let leading = |record: &&RecordSet| ["CNAME", "A"].contains(&record.kind.as_str());
            zone.at(name).filter(known).filter(leading).collect()
        };
        let mut found = named(name);
        let mut below = name;
        while let (true, Some((_, rest))) = (found.is_empty(), below.split_once('.'))
            && name::is_within(rest, &zone.name)
        {
            found = named(&format!("\\052.{rest}"));
            below = rest;
        }
        match found.first().map(|record| &record.data) {
            Some(Data::Alias { target, .. }) => Ok(target.clone()),
            Some(Data::Values { values, .. }) => {
                let value = values.first().map_or("", String::as_str);
                name::kept(value).map_err(|_| Pointing::NoRecord)
            }
            None => Err(Pointing::NoRecord),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a small number")
    }

    fn record(name: &str, kind: &str, data: Data) -> RecordSet {
        RecordSet {
            name: name::kept(name).expect("a name"),
            kind: kind.to_owned(),
            set: None,
            weight: None,
            data,
            settles: at(0),
            seeded: false,
        }
    }

    fn values(value: &str) -> Data {
        Data::Values {
            ttl: 60,
            values: vec![value.to_owned()],
        }
    }

    fn zones() -> Zones {
        let mut zone = Zone::new(
            "Z1".to_owned(),
            "example.com.".to_owned(),
            "1".to_owned(),
            false,
            at(0),
        );
        let alias = Data::Alias {
            zone: "Z2FDTNDATAQYW2".to_owned(),
            target: "d0.cloudfront.net.".to_owned(),
            health: false,
        };
        let all = [
            record("example.com", "A", alias),
            record("a.example.com", "CNAME", values("D0.cloudfront.net")),
            record("b.example.com", "CNAME", values("a.example.com.")),
            record("ip.example.com", "A", values("192.0.2.1")),
            record("*.w.example.com", "CNAME", values("d0.cloudfront.net")),
        ];
        for record in all {
            zone.put(record, at(0), Duration::from_secs(10));
        }
        let mut zones = Zones::default();
        zones.put(zone);
        zones
    }

    #[rstest]
    #[case::an_alias("example.com", Pointing::There)]
    #[case::a_cname("a.example.com", Pointing::There)]
    #[case::two_hops("b.example.com", Pointing::There)]
    #[case::a_wildcard("x.w.example.com", Pointing::There)]
    #[case::the_wildcard_itself("*.w.example.com", Pointing::There)]
    #[case::an_address("ip.example.com", Pointing::Elsewhere("192.0.2.1.".to_owned()))]
    #[case::nothing("c.example.com", Pointing::NoRecord)]
    #[case::nowhere("a.example.org", Pointing::NoZone)]
    fn a_name_leads(#[case] domain: &str, #[case] pointing: Pointing) {
        assert_eq!(
            zones().pointing(domain, "d0.cloudfront.net", at(10)),
            pointing
        );
    }

    #[test]
    fn a_record_leads_nowhere_until_the_name_servers_know_it() {
        let mut zones = zones();
        let ask = |zones: &Zones| zones.pointing("a.example.com", "d0.cloudfront.net", at(9));
        assert_eq!(ask(&zones), Pointing::NoRecord);
        let zone = zones.get_mut("Z1").expect("there");
        let same = record("a.example.com", "CNAME", values("D0.cloudfront.net"));
        zone.put(same, at(9), Duration::ZERO);
        assert_eq!(ask(&zones), Pointing::There);
        let zone = zones.get_mut("Z1").expect("there");
        let again = record("a.example.com", "CNAME", values("D0.cloudfront.net"));
        zone.put(again, at(9), Duration::from_secs(10));
        assert_eq!(ask(&zones), Pointing::There); // known values stay known
    }
}
