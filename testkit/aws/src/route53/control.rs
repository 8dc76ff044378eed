//! Seeds and console edits of zones.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Route53;
use super::name;
use super::record::{Data, RecordSet, key};
use super::zones::{Zone, Zones};
use crate::accounts::DEFAULT_ACCOUNT;
use crate::control::read;
use crate::service::{ControlError, Moment};
use crate::shelf::View;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Change {
    Zone(Seed),
    DeleteZone(String),
    Records(Records),
    Settle(bool),
    ForgetChanges(bool),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seed {
    id: String,
    name: String,
    account: Option<String>,
    #[serde(default)]
    private: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Records {
    zone: String,
    #[serde(default)]
    put: Vec<Put>,
    #[serde(default)]
    delete: Vec<Named>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Put {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default = "five_minutes")]
    ttl: u64,
    values: Option<Vec<String>>,
    alias: Option<String>,
    set: Option<String>,
    weight: Option<u64>,
}

fn five_minutes() -> u64 {
    300
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    set: Option<String>,
}

impl Route53 {
    pub(super) fn change(
        &mut self,
        moment: &Moment<'_>,
        change: Value,
    ) -> Result<Value, ControlError> {
        let now = moment.now;
        match read("mutate route53", change)? {
            Change::Zone(seed) => {
                let zone = seeded(seed, now)?;
                self.zones.lock().put(zone);
            }
            Change::DeleteZone(id) => {
                if !self.zones.lock().remove(&id) {
                    return Err(no_zone(&id));
                }
            }
            Change::Records(records) => edit(&mut self.zones.lock(), records, now)?,
            Change::Settle(true) => self.settle(now),
            Change::ForgetChanges(true) => self.changes.clear(),
            Change::Settle(false) | Change::ForgetChanges(false) => {}
        }
        Ok(json!({}))
    }

    /// All changes are in sync at once, and the name servers know all records.
    fn settle(&mut self, now: Timestamp) {
        for change in self.changes.values_mut() {
            change.settles = change.settles.min(now);
        }
        let mut zones = self.zones.lock();
        let ids: Vec<_> = zones.all().map(|zone| zone.id.clone()).collect();
        for id in ids {
            let zone = zones.get_mut(&id).expect("just listed");
            let late: Vec<_> = zone
                .records
                .list(View::Live)
                .filter(|(_, record)| record.settles > now)
                .map(|(key, record)| (key.to_owned(), record.clone()))
                .collect();
            for (key, mut record) in late {
                record.settles = now;
                zone.records.put(&key, Some(record), now);
            }
        }
    }
}

fn seeded(seed: Seed, now: Timestamp) -> Result<Zone, ControlError> {
    let Seed {
        id,
        name,
        account,
        private,
    } = seed;
    let name = name::kept(&name).map_err(ControlError::invalid)?;
    let account = account.unwrap_or_else(|| DEFAULT_ACCOUNT.to_owned());
    Ok(Zone::new(id, name, account, private, now))
}

fn edit(zones: &mut Zones, records: Records, now: Timestamp) -> Result<(), ControlError> {
    let Records { zone, put, delete } = records;
    let zone = zones.get_mut(&zone).ok_or_else(|| no_zone(&zone))?;
    for Named { name, kind, set } in delete {
        let name = name::kept(&name).map_err(ControlError::invalid)?;
        let key = key(&name, &kind, set.as_deref());
        if zone.records.get(&key, View::Live).is_none() {
            let told = format!("zone {} has no {kind} record {name}", zone.id);
            return Err(ControlError::unknown(told));
        }
        zone.records.put(&key, None, now);
    }
    for one in put {
        let record = made(one)?;
        zone.put(record, now, Duration::ZERO);
    }
    Ok(())
}

fn made(put: Put) -> Result<RecordSet, ControlError> {
    let Put {
        name,
        kind,
        ttl,
        values,
        alias,
        set,
        weight,
    } = put;
    let data = match (values, alias) {
        (Some(values), None) => Data::Values { ttl, values },
        (None, Some(target)) => Data::Alias {
            zone: "Z2FDTNDATAQYW2".to_owned(),
            target: name::kept(&target).map_err(ControlError::invalid)?,
            health: false,
        },
        (Some(_), Some(_)) | (None, None) => {
            let told = format!("record {name}: give either values or an alias");
            return Err(ControlError::invalid(told));
        }
    };
    Ok(RecordSet {
        name: name::kept(&name).map_err(ControlError::invalid)?,
        kind,
        set,
        weight,
        data,
        settles: Timestamp::MIN,
        seeded: true,
    })
}

fn no_zone(id: &str) -> ControlError {
    ControlError::unknown(format!("there is no zone {id:?}"))
}
