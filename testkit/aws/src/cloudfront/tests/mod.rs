//! The rules of CloudFront's tenants, one by one, and what its oracle sees.

mod certificates;
mod conflicts;
mod control;
mod groups;
mod invalidations;
mod lists;
mod oracle;
mod tags;
mod tenants;
mod updates;

use http::Method;
use serde_json::json;

use crate::desk::{Answer, Desk};

const ARN: &str = "arn:aws:acm:us-east-1:000000000000:certificate/wild";
const NS: &str = "http://cloudfront.amazonaws.com/doc/2020-05-31/";
/// The marker tags of web/acme.
const MARKER: &str = "<Tags><Items><Tag><Key>pontoon.io/cluster</Key><Value>c1</Value></Tag>\
    <Tag><Key>pontoon.io/object</Key><Value>web/acme</Value></Tag></Items></Tags>";

/// Distribution E1 with a certificate for `*.example.com`, default group cg0 at
/// d0.cloudfront.net, zone Z1 of example.com.
fn desk() -> Desk {
    let mut desk = Desk::new();
    desk.mutate(
        "acm",
        json!({ "certificate": { "arn": ARN, "names": ["*.example.com"] } }),
    );
    let group =
        json!({ "name": "default", "id": "cg0", "endpoint": "d0.cloudfront.net", "default": true });
    desk.mutate("cloudfront", json!({ "group": group }));
    desk.mutate(
        "cloudfront",
        json!({ "distribution": { "id": "E1", "certificate": ARN } }),
    );
    desk.mutate(
        "route53",
        json!({ "zone": { "id": "Z1", "name": "example.com" } }),
    );
    desk
}

fn call(desk: &mut Desk, method: Method, path: &str, etag: Option<&str>, body: &str) -> Answer {
    let path = format!("/2020-05-31/{path}");
    let headers: Vec<_> = etag.map(|etag| ("if-match", etag)).into_iter().collect();
    desk.as_key("test", "cloudfront", method, &path, &headers, body)
}

fn get(desk: &mut Desk, path: &str) -> Answer {
    call(desk, Method::GET, path, None, "")
}

fn post(desk: &mut Desk, path: &str, root: &str, inside: &str) -> Answer {
    call(desk, Method::POST, path, None, &document(root, inside))
}

fn document(root: &str, inside: &str) -> String {
    format!("<{root} xmlns=\"{NS}\">{inside}</{root}>")
}

fn domains(domains: &[&str]) -> String {
    let between = "</Domain></member><member><Domain>";
    let all = domains.join(between);
    format!("<Domains><member><Domain>{all}</Domain></member></Domains>")
}

/// Creates a tenant of E1 with `more` in its body.
fn create(desk: &mut Desk, name: &str, hosts: &[&str], more: &str) -> Answer {
    let body = format!(
        "<DistributionId>E1</DistributionId><Name>{name}</Name>{}{more}",
        domains(hosts)
    );
    post(
        desk,
        "distribution-tenant",
        "CreateDistributionTenantRequest",
        &body,
    )
}

fn update(desk: &mut Desk, id: &str, etag: &str, inside: &str) -> Answer {
    let body = document("UpdateDistributionTenantRequest", inside);
    let path = format!("distribution-tenant/{id}");
    call(desk, Method::PUT, &path, Some(etag), &body)
}

fn delete(desk: &mut Desk, id: &str, etag: &str) -> Answer {
    let path = format!("distribution-tenant/{id}");
    call(desk, Method::DELETE, &path, Some(etag), "")
}

fn tenant(desk: &mut Desk, id: &str) -> Answer {
    get(desk, &format!("distribution-tenant/{id}")).ok()
}

fn refused(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}
