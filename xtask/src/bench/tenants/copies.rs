//! 10,000 steady tenants in a short time: the operator creates one, and the others are copies of its
//! tenant in CloudFront, of its records and of its object.
//!
//! A wrong copy shows in the later bars: the operator would read it and write.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use testkit::{Result, eventually_within};
use tokio::time::sleep;

use super::super::cluster::{JSON, MERGE, PATIENCE, send};
use super::STEADY;
use super::crowd::{ZONE, is_ready};
use super::setup::{Pace, TenantsSetup};
use crate::progress::Progress;
use crate::verdict::Error;

/// The account of the operator's keys.
const ACCOUNT: &str = "000000000000";
/// Concurrent requests.
const SETTING: usize = 32;
/// Copies per batch.
const BATCH: usize = 500;
/// The contract's size of an object, in bytes.
const SIZE: usize = 3_000;
/// After this long the operator writes no more for a ready tenant.
const QUIET: Duration = Duration::from_secs(10);

/// The first tenant, as the operator left it.
struct Original {
    object: Value,
    /// In CloudFront.
    live: Value,
    /// In the zone.
    records: Vec<Value>,
}

/// Creates all tenants and stops the operator; returns the size of an object.
pub(super) async fn create_all(setup: &TenantsSetup, progress: &Progress) -> Result<usize> {
    progress.step("10,000 tenants: making one, and copying it");
    let original = Original::made(setup).await?;
    let size = original.size()?;
    let numbers: Vec<usize> = (1..STEADY.count).collect();
    for batch in numbers.chunks(BATCH) {
        original.records(setup, batch)?;
        let copies = batch.iter().map(|number| original.copy(setup, *number));
        let copies: Vec<Copy> = copies.collect::<Result<_>>()?;
        let put = stream::iter(copies).map(Ok);
        put.try_for_each_concurrent(SETTING, |copy| copy.put(setup))
            .await?;
    }
    Ok(size)
}

impl Original {
    /// Lets the operator create the first tenant.
    async fn made(setup: &TenantsSetup) -> Result<Self> {
        // Waiting for AWS is not measured here.
        setup.switch(json!({"cloudfront": {"deployDelay": 0}, "route53": {"insyncDelay": 0}}))?;
        setup.run(Pace::Real).await?;
        let path = STEADY.path(0);
        let object = (STEADY.home_path(0), STEADY.object(0));
        setup.cluster.create([object]).await?;
        let attempt = async || Ok(is_ready(&setup.cluster.read(&path).await?).then_some(()));
        eventually_within(PATIENCE, "the first tenant is ready", attempt).await?;
        sleep(QUIET).await;
        setup.cluster.stop().await?;
        setup.switch(json!({"cloudfront": {"deployDelay": 10}, "route53": {"insyncDelay": 5}}))?;

        let tenants = format!("cloudfront/tenants/{ACCOUNT}");
        let mut listed = setup.control(Method::GET, &tenants, Value::Null)?;
        let zone = format!("route53/records/{ZONE}");
        let mut zone = setup.control(Method::GET, &zone, Value::Null)?;
        let Value::Array(mut records) = zone["records"].take() else {
            return Err(Error::new("the zone of the first tenant has no records").into());
        };
        let name = STEADY.tenant(0);
        records.retain(|record| text(&record["name"]).contains(&name));
        Ok(Self {
            object: setup.cluster.read(&path).await?,
            live: listed["tenants"][0].take(),
            records,
        })
    }

    /// The size of the object without managedFields.
    fn size(&self) -> Result<usize> {
        let mut object = self.object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        let size = object.to_string().len();
        if size < SIZE {
            let message = format!("an object has {size} bytes; the contract says {SIZE}");
            return Err(Error::new(message).into());
        }
        Ok(size)
    }

    /// Creates the records of these copies.
    fn records(&self, setup: &TenantsSetup, batch: &[usize]) -> Result<()> {
        let mut put = Vec::new();
        for number in batch {
            for record in &self.records {
                let record = altered(record, &names(*number))?;
                put.push(json!({
                    "name": record["name"], "type": record["type"],
                    "ttl": record["ttl"], "values": record["values"],
                }));
            }
        }
        let records = json!({"zone": ZONE, "put": put});
        setup
            .console("route53", json!({"records": records}))
            .map(drop)
    }

    /// Creates a copy in CloudFront; returns its object.
    fn copy(&self, setup: &TenantsSetup, number: usize) -> Result<Copy> {
        let mut changes = names(number);
        let live = altered(&self.live, &changes)?;
        let parameters = live["parameters"].as_array().cloned().unwrap_or_default();
        let parameters: Map<_, _> = parameters
            .into_iter()
            .map(|one| (text(&one["name"]).to_owned(), one["value"].clone()))
            .collect();
        let tenant = json!({
            "name": live["name"], "distribution": live["distribution"], "group": live["group"],
            "domains": live["domains"], "tags": live["tags"], "parameters": parameters,
        });
        let made = setup.console("cloudfront", json!({"tenant": tenant}))?;
        for field in ["id", "etag"] {
            changes.push((text(&live[field]).to_owned(), text(&made[field]).to_owned()));
        }
        let mut status = altered(&self.object["status"], &changes)?;
        status["createdTime"] = seconds(&made["created"])?;
        status["lastModifiedTime"] = seconds(&made["modified"])?;
        let mut object = STEADY.object(number);
        object["metadata"]["finalizers"] = self.object["metadata"]["finalizers"].clone();
        Ok(Copy {
            number,
            object,
            status: json!({"status": status}),
        })
    }
}

/// The object of a copy, which is not created yet.
struct Copy {
    number: usize,
    object: Value,
    status: Value,
}

impl Copy {
    async fn put(self, setup: &TenantsSetup) -> Result<()> {
        let (client, home) = (&setup.cluster.admin, STEADY.home_path(self.number));
        send(client, Method::POST, &home, JSON, &self.object).await?;
        let path = format!("{}/status", STEADY.path(self.number));
        let put = send(client, Method::PATCH, &path, MERGE, &self.status);
        put.await.map(drop)
    }
}

/// The names of the original and those of the copy. The pair of namespace and name comes first.
fn names(number: usize) -> Vec<(String, String)> {
    vec![
        (STEADY.key(0), STEADY.key(number)),
        (STEADY.tenant(0), STEADY.tenant(number)),
    ]
}

fn altered(value: &Value, changes: &[(String, String)]) -> Result<Value> {
    let all = changes.iter().fold(value.to_string(), |text, (from, to)| {
        text.replace(from.as_str(), to)
    });
    Ok(serde_json::from_str(&all)?)
}

/// A time as in objects: in whole seconds.
fn seconds(time: &Value) -> Result<Value> {
    let time: Timestamp = text(time).parse()?;
    Ok(json!(Timestamp::from_second(time.as_second())?))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_its_own_namespace_and_name_wherever_they_occur() {
        let original = json!({
            "name": format!("_pontoon-owner.{}.example.com", STEADY.tenant(0)),
            "values": [format!("\"resource={}\"", STEADY.key(0))],
        });
        let copy = altered(&original, &names(9_999)).unwrap();
        assert_eq!(copy["name"], "_pontoon-owner.steady-09999.example.com");
        assert_eq!(copy["values"][0], "\"resource=steady-49/steady-09999\"");
    }
}
