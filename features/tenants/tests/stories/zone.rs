//! Hosted zones: what stands in them, and what should.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testkit::{Result, eventually};

use super::Site;
use super::cloud::D0;

/// The records of a zone, one a line: its own NS and SOA records left out, ttl of TXT records too.
pub(crate) type Zone = BTreeSet<String>;

/// `a.example.com CNAME 300 d0.cloudfront.net`
pub(crate) fn cname(name: &str, ttl: i64, target: &str) -> String {
    format!("{name} CNAME {ttl} {target}")
}

/// `example.com A ALIAS d0.cloudfront.net`: of CloudFront's own zone, health not evaluated.
pub(crate) fn alias(name: &str, kind: &str, target: &str) -> String {
    format!("{name} {kind} ALIAS {target}")
}

fn line(record: &Value) -> Option<String> {
    let text = |field: &str| record[field].as_str().unwrap_or_default();
    let bare = |name: &str| name.trim_end_matches('.').to_owned();
    let (name, kind) = (bare(text("name")).replace("\\052", "*"), text("type"));
    let first = record["values"][0].as_str().unwrap_or_default();
    match kind {
        "NS" | "SOA" => None,
        "TXT" => Some(format!("{name} TXT {first}")),
        _ if record["target"].is_string() => {
            let target = bare(text("target"));
            let usual = text("zone") == "Z2FDTNDATAQYW2" && record["health"] == false;
            let usual = if usual {
                ""
            } else {
                " (not as for CloudFront)"
            };
            Some(alias(&name, kind, &target) + usual)
        }
        _ => Some(format!("{name} {kind} {} {}", record["ttl"], bare(first))),
    }
}

impl Site {
    /// What stands in a zone.
    pub(crate) fn zone(&self, id: &str) -> Result<Zone> {
        Ok(self.held_records(id)?.iter().filter_map(line).collect())
    }

    /// Waits until just this stands in a zone.
    pub(crate) async fn zone_has(&self, id: &str, wanted: Zone) -> Result<()> {
        let what = format!("zone {id} has {wanted:#?}");
        let seen = eventually(&what, async || Ok((self.zone(id)? == wanted).then_some(())));
        seen.await.map_err(|late| {
            let zone = self.zone(id).unwrap_or_default();
            late.context(format!("it has {zone:#?}"))
        })
    }

    /// The ownership record beside a name, if it belongs to an object of this story's namespace.
    pub(crate) fn owner_line(&self, name: &str, object: &str) -> String {
        self.owner_line_of(name, &format!("{}/{object}", self.name()))
    }

    /// The same for an object anywhere.
    pub(crate) fn owner_line_of(&self, name: &str, object: &str) -> String {
        let name = name.replace('*', "_wildcard");
        let value = format!("heritage=pontoon,owner={},resource={object}", self.cluster);
        format!("_pontoon-owner.{name} TXT \"{value}\"")
    }

    /// CNAMEs to the default group, and that they are the object's.
    pub(crate) fn records_of(&self, object: &str, names: &[&str]) -> Zone {
        self.records_to(object, names, 300, D0)
    }

    /// CNAMEs to `target`, and that they are the object's.
    pub(crate) fn records_to(&self, object: &str, names: &[&str], ttl: i64, target: &str) -> Zone {
        let both = names
            .iter()
            .flat_map(|name| [cname(name, ttl, target), self.owner_line(name, object)]);
        both.collect()
    }

    /// Puts a CNAME as a person at the console does.
    pub(crate) fn puts_cname(&self, zone: &str, name: &str, ttl: i64, target: &str) -> Result<()> {
        let record = json!({"name": name, "type": "CNAME", "ttl": ttl, "values": [target]});
        self.puts(zone, record)
    }

    /// Puts a TXT record as a person at the console does.
    pub(crate) fn puts_txt(&self, zone: &str, name: &str, text: &str) -> Result<()> {
        let values = [format!("\"{text}\"")];
        self.puts(zone, json!({"name": name, "type": "TXT", "values": values}))
    }

    fn puts(&self, zone: &str, record: Value) -> Result<()> {
        let records = json!({"zone": zone, "put": [record]});
        self.console("route53", json!({"records": records}))
            .map(drop)
    }

    /// Deletes a record as a person at the console does.
    pub(crate) fn deletes_record(&self, zone: &str, name: &str, kind: &str) -> Result<()> {
        let records = json!({"zone": zone, "delete": [{"name": name, "type": kind}]});
        self.console("route53", json!({"records": records}))
            .map(drop)
    }

    /// Makes a zone of the operator's account.
    pub(crate) fn seeds_zone(&self, id: &str, name: &str) -> Result<()> {
        let zone = json!({"id": id, "name": name});
        self.console("route53", json!({"zone": zone})).map(drop)
    }
}
