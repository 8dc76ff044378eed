//! 10,000 tenants put in order without much ado: the operator makes one, and the others are copies
//! of what it left in CloudFront, in the zone and in the object.
//!
//! A copy that is not as the operator would have left it shows in the bars that follow: the operator
//! would look at it, and write.

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
use super::site::{Pace, Site};
use crate::progress::Progress;
use crate::verdict::Error;

/// The account of the operator's keys.
const ACCOUNT: &str = "000000000000";
/// Requests at once.
const SETTING: usize = 32;
/// Copies made together.
const BATCH: usize = 500;
/// The contract's size of an object, in bytes.
const SIZE: usize = 3_000;
/// The operator writes nothing more of a tenant that has been ready for so long.
const REST: Duration = Duration::from_secs(10);

/// What the operator left of the first tenant.
struct Original {
    object: Value,
    /// In CloudFront.
    live: Value,
    /// In the zone.
    records: Vec<Value>,
}

/// Puts all of them in place; the operator does not run in the end. The size of an object.
pub(super) async fn place(site: &Site, progress: &Progress) -> Result<usize> {
    progress.step("10,000 tenants: making one, and copying it");
    let original = Original::made(site).await?;
    let size = original.size()?;
    let numbers: Vec<usize> = (1..STEADY.count).collect();
    for batch in numbers.chunks(BATCH) {
        original.records(site, batch)?;
        let copies = batch.iter().map(|number| original.copy(site, *number));
        let copies: Vec<Copy> = copies.collect::<Result<_>>()?;
        let put = stream::iter(copies).map(Ok);
        put.try_for_each_concurrent(SETTING, |copy| copy.put(site))
            .await?;
    }
    Ok(size)
}

impl Original {
    /// Lets the operator make the first tenant.
    async fn made(site: &Site) -> Result<Self> {
        // There is nothing to learn from waiting for AWS here.
        site.switch(json!({"cloudfront": {"deployDelay": 0}, "route53": {"insyncDelay": 0}}))?;
        site.run(Pace::Real).await?;
        let path = STEADY.path(0);
        let object = (STEADY.home_path(0), STEADY.object(0));
        site.cluster.create([object]).await?;
        let look = async || Ok(is_ready(&site.cluster.read(&path).await?).then_some(()));
        eventually_within(PATIENCE, "the first tenant is ready", look).await?;
        sleep(REST).await;
        site.cluster.stop().await?;
        site.switch(json!({"cloudfront": {"deployDelay": 10}, "route53": {"insyncDelay": 5}}))?;

        let tenants = format!("cloudfront/tenants/{ACCOUNT}");
        let mut held = site.control(Method::GET, &tenants, Value::Null)?;
        let zone = format!("route53/records/{ZONE}");
        let mut zone = site.control(Method::GET, &zone, Value::Null)?;
        let Value::Array(mut records) = zone["records"].take() else {
            return Err(Error::new("the zone of the first tenant has no records").into());
        };
        let name = STEADY.tenant(0);
        records.retain(|record| text(&record["name"]).contains(&name));
        Ok(Self {
            object: site.cluster.read(&path).await?,
            live: held["tenants"][0].take(),
            records,
        })
    }

    /// How large the object is, which fields were written by whom left out.
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

    /// Puts the records of these copies.
    fn records(&self, site: &Site, batch: &[usize]) -> Result<()> {
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
        site.console("route53", json!({"records": records}))
            .map(drop)
    }

    /// Makes a copy in CloudFront; the object that goes with it.
    fn copy(&self, site: &Site, number: usize) -> Result<Copy> {
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
        let made = site.console("cloudfront", json!({"tenant": tenant}))?;
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

/// What is left to put of a copy.
struct Copy {
    number: usize,
    object: Value,
    status: Value,
}

impl Copy {
    async fn put(self, site: &Site) -> Result<()> {
        let (client, home) = (&site.cluster.admin, STEADY.home_path(self.number));
        send(client, Method::POST, &home, JSON, &self.object).await?;
        let path = format!("{}/status", STEADY.path(self.number));
        let put = send(client, Method::PATCH, &path, MERGE, &self.status);
        put.await.map(drop)
    }
}

/// What names the original, and what the copy has instead. Namespace and name come before the name.
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

/// A time as objects have it: in whole seconds.
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
