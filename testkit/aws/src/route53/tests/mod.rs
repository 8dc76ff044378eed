//! The rules of Route 53, one by one, and what its oracle sees.

mod batches;
mod changes;
mod lists;
mod ownership;

use http::Method;
use serde_json::json;

use crate::desk::{Answer, Desk};

/// A desk with zone Z1, example.com.
pub(crate) fn desk() -> Desk {
    let mut desk = Desk::new();
    desk.mutate(
        "route53",
        json!({ "zone": { "id": "Z1", "name": "example.com" } }),
    );
    desk
}

pub(crate) fn get(desk: &mut Desk, path: &str) -> Answer {
    let path = format!("/2013-04-01/{path}");
    desk.as_key("test", "route53", Method::GET, &path, &[], "")
}

/// Sends a batch of changes to a zone.
pub(crate) fn batch(desk: &mut Desk, zone: &str, changes: &[String]) -> Answer {
    let path = format!("/2013-04-01/hostedzone/{zone}/rrset/");
    let body = document(changes);
    desk.as_key("test", "route53", Method::POST, &path, &[], &body)
}

fn document(changes: &[String]) -> String {
    let changes = changes.concat();
    format!(
        "<ChangeResourceRecordSetsRequest xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\">\
         <ChangeBatch><Comment>c</Comment><Changes>{changes}</Changes></ChangeBatch>\
         </ChangeResourceRecordSetsRequest>"
    )
}

pub(crate) fn change(action: &str, name: &str, kind: &str, ttl: u64, values: &[&str]) -> String {
    let between = "</Value></ResourceRecord><ResourceRecord><Value>";
    let records = values.join(between);
    let records = format!("<ResourceRecord><Value>{records}</Value></ResourceRecord>");
    format!(
        "<Change><Action>{action}</Action><ResourceRecordSet><Name>{name}</Name><Type>{kind}</Type>\
         <TTL>{ttl}</TTL><ResourceRecords>{records}</ResourceRecords></ResourceRecordSet></Change>"
    )
}

pub(crate) fn cname(action: &str, name: &str, value: &str) -> String {
    change(action, name, "CNAME", 300, &[value])
}

fn alias(action: &str, name: &str, kind: &str, target: &str) -> String {
    format!(
        "<Change><Action>{action}</Action><ResourceRecordSet><Name>{name}</Name><Type>{kind}</Type>\
         <AliasTarget><HostedZoneId>Z2FDTNDATAQYW2</HostedZoneId><DNSName>{target}</DNSName>\
         <EvaluateTargetHealth>false</EvaluateTargetHealth></AliasTarget></ResourceRecordSet></Change>"
    )
}

fn owner(action: &str, name: &str, object: &str) -> String {
    let value = format!("\"heritage=pontoon,owner=c1,resource={object}\"");
    let name = format!("_pontoon-owner.{name}");
    change(action, &name, "TXT", 300, &[&value])
}
