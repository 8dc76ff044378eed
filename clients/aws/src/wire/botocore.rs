//! The same requests as botocore makes them: its signer and its serialisers are independent of ours.
//! `tests/botocore/generate.py` wrote `requests.json`, and a contract test runs it again.

use std::collections::BTreeMap;

use rstest::rstest;
use serde_json::{Value, json};

use super::{Endpoint, Form, Hosts, Request, Scope, Variants, XmlElement, sign};
use crate::ec2::request::{self, Filter};
use crate::ec2::{NewSnapshot, Permission, Tags};
use crate::{Keys, Operation, Secret, Service};

const REQUESTS: &str = include_str!("../../tests/botocore/requests.json");
/// Characters that have to be escaped in one place or another.
const ODD: &str = "a b+c/d&e=ü€*~'";
const FUNCTION: &str = "arn:aws:lambda:eu-west-1:000000000000:function:f";
const ROUTE53: &str = "https://route53.amazonaws.com/doc/2013-04-01/";
const CLOUDFRONT: &str = "http://cloudfront.amazonaws.com/doc/2020-05-31/";

/// Hosts and signing name of a service.
type Target = (Hosts, &'static str);

fn of(service: Service) -> Target {
    (service.0.hosts, service.0.signing)
}

fn regional(name: &'static str) -> Target {
    (Hosts::Regional(name), name)
}

fn tag(key: &'static str, value: &str) -> Vec<(&'static str, String)> {
    vec![("Key", key.to_owned()), ("Value", value.to_owned())]
}

fn query() -> (Target, Request) {
    let form = Form::new("AssumeRole", "2011-06-15")
        .text("RoleArn", "arn:aws:iam::222222222222:role/dns")
        .text("RoleSessionName", "pontoon")
        .text("ExternalId", ODD);
    (of(Service::Sts), Request::form(&form))
}

fn identity() -> (Target, Request) {
    let form = Form::new("GetCallerIdentity", "2011-06-15");
    (of(Service::Sts), Request::form(&form))
}

fn map_and_structures() -> (Target, Request) {
    let form = Form::new("CreateTopic", "2010-03-31")
        .text("Name", "topic")
        .map("Attributes", [("DisplayName", ODD), ("Policy", "")])
        .structures("Tags.member", [tag("one", "1"), tag("two", ODD)]);
    (regional("sns"), Request::form(&form))
}

fn named_list() -> (Target, Request) {
    let form = Form::new("DescribeDBInstances", "2014-10-31")
        .text("Filters.Filter.1.Name", "engine")
        .list("Filters.Filter.1.Values", "Value", ["mysql", "postgres"])
        .text("MaxRecords", "20");
    (regional("rds"), Request::form(&form))
}

fn list() -> (Target, Request) {
    let form = Form::new("ModifyDBInstance", "2014-10-31")
        .text("DBInstanceIdentifier", "db")
        .list(
            "VpcSecurityGroupIds",
            "VpcSecurityGroupId",
            ["sg-1", "sg-2"],
        )
        .list("DBSecurityGroups", "DBSecurityGroupName", [""; 0])
        .text("ApplyImmediately", "true");
    (regional("rds"), Request::form(&form))
}

fn ec2() -> (Target, Request) {
    let form = Form::new("DescribeVolumes", "2016-11-15")
        .flat_list("VolumeId", ["vol-1", "vol-2"])
        .text("Filter.1.Name", "tag:k")
        .flat_list("Filter.1.Value", ["a", ODD])
        .text("MaxResults", "500");
    of_ec2(&form)
}

fn of_ec2(form: &Form) -> (Target, Request) {
    (of(Service::Ec2), Request::form(form))
}

fn tags<const N: usize>(pairs: [(&str, &str); N]) -> Tags {
    let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
    pairs.into_iter().collect()
}

fn ec2_tags() -> (Target, Request) {
    let tags = tags([("empty", ""), ("pontoon.io/object", "a/b")]);
    of_ec2(&request::create_tags("vol-1", &tags))
}

fn ec2_list(operation: Operation, filters: &[Filter], next: Option<&str>) -> (Target, Request) {
    of_ec2(&request::list(operation, filters, next))
}

fn ec2_volumes() -> (Target, Request) {
    let filters = [Filter::volumes(&["vol-1", "vol-2"])];
    ec2_list(Operation::DescribeVolumes, &filters, Some(ODD))
}

fn ec2_volumes_of_instances() -> (Target, Request) {
    let filters = [Filter::instances(&["i-1", "i-2"])];
    ec2_list(Operation::DescribeVolumes, &filters, None)
}

fn ec2_volume_changes() -> (Target, Request) {
    let filters = [Filter::volumes(&["vol-1"])];
    ec2_list(Operation::DescribeVolumesModifications, &filters, None)
}

fn ec2_snapshots() -> (Target, Request) {
    let filters = [Filter::tag("a/run", "r"), Filter::tag("odd", ODD)];
    ec2_list(Operation::DescribeSnapshots, &filters, None)
}

fn snapshot(description: &str, tags: Tags) -> NewSnapshot {
    NewSnapshot {
        volume: "vol-1".to_owned(),
        description: description.to_owned(),
        tags,
    }
}

fn ec2_create_snapshot() -> (Target, Request) {
    let tags = tags([("a/run", "r"), ("odd", ODD)]);
    of_ec2(&request::create_snapshot(&snapshot(ODD, tags)))
}

fn ec2_delete_tags() -> (Target, Request) {
    of_ec2(&request::delete_tags("vol-1", &["a", "b/c"]))
}

fn ec2_dry_run() -> (Target, Request) {
    of_ec2(&Permission::DescribeVolumes.request())
}

fn ec2_dry_run_of_snapshot() -> (Target, Request) {
    let snapshot = snapshot("", Tags::new());
    of_ec2(&Permission::CreateSnapshot(&snapshot).request())
}

fn json_1_1() -> (Target, Request) {
    let body = json!({ "CertificateArn": "arn:aws:acm:us-east-1:000000000000:certificate/x" });
    let target = "CertificateManager.DescribeCertificate";
    (of(Service::Acm), Request::json("1.1", target, &body))
}

fn json_1_0() -> (Target, Request) {
    let item = json!({ "name": { "S": ODD }, "tags": { "L": [{ "N": "1" }, { "BOOL": true }] } });
    let body = json!({ "Item": item, "TableName": "t" });
    let request = Request::json("1.0", "DynamoDB_20120810.PutItem", &body);
    (of(Service::DynamoDb), request)
}

fn rest_get() -> (Target, Request) {
    let request = Request::new("GET", "/2015-03-31/functions/{FunctionName}")
        .path("FunctionName", FUNCTION)
        .query("Qualifier", "$LATEST");
    (regional("lambda"), request)
}

fn rest_post() -> (Target, Request) {
    let request = Request::new("POST", "/2015-03-31/functions/{FunctionName}/policy")
        .path("FunctionName", "f")
        .json_body(&json!({
            "Action": "lambda:InvokeFunction",
            "Principal": "apigateway.amazonaws.com",
            "SourceArn": ODD,
            "StatementId": "s",
        }));
    (regional("lambda"), request)
}

fn rest_list_in_query() -> (Target, Request) {
    let request = Request::new("DELETE", "/2017-03-31/tags/{Resource}")
        .path("Resource", FUNCTION)
        .query("tagKeys", "a")
        .query("tagKeys", ODD);
    (regional("lambda"), request)
}

fn rest_odd_path() -> (Target, Request) {
    let request = Request::new("GET", "/v2/apis/{ApiId}/stages/{StageName}")
        .path("ApiId", "api")
        .path("StageName", ODD);
    (regional("apigateway"), request)
}

fn rest_patch() -> (Target, Request) {
    let request = Request::new("PATCH", "/v2/apis/{ApiId}/stages/{StageName}")
        .path("ApiId", "api")
        .path("StageName", "$default")
        .json_body(&json!({ "description": "", "stageVariables": { "k": ODD } }));
    (regional("apigateway"), request)
}

fn xml() -> (Target, Request) {
    let tag = |key, value| XmlElement::new("Tag").text("Key", key).text("Value", value);
    let add = XmlElement::new("AddTags").child(tag("a<b", "\"&'ü"));
    let body = XmlElement::new("ChangeTagsForResourceRequest")
        .namespace(ROUTE53)
        .child(add.child(tag("empty", "")))
        .child(XmlElement::new("RemoveTagKeys").text("Key", "old"));
    let request = Request::new("POST", "/2013-04-01/tags/{ResourceType}/{ResourceId}")
        .path("ResourceType", "hostedzone")
        .path("ResourceId", "Z1")
        .xml_body(&body);
    (of(Service::Route53), request)
}

fn xml_query() -> (Target, Request) {
    let request = Request::new("GET", "/2013-04-01/hostedzone/{Id}/rrset")
        .path("Id", "Z1")
        .query("name", "\\052.example.com.")
        .query("type", "A");
    (of(Service::Route53), request)
}

fn xml_nested() -> (Target, Request) {
    let items = XmlElement::new("Items");
    let items = items.text("Path", "/*").text("Path", "/a b");
    let paths = XmlElement::new("Paths").text("Quantity", "2").child(items);
    let body = XmlElement::new("InvalidationBatch")
        .namespace(CLOUDFRONT)
        .child(paths)
        .text("CallerReference", "r");
    let request = Request::new("POST", "/2020-05-31/distribution/{Id}/invalidation")
        .path("Id", "E1")
        .xml_body(&body);
    (of(Service::CloudFront), request)
}

fn s3_key() -> (Target, Request) {
    let request = Request::new("GET", "/{Bucket}/{Key+}")
        .path("Bucket", "bucket")
        .path("Key", "a b/ü+c//d");
    (regional("s3"), request)
}

fn s3_body() -> (Target, Request) {
    let request = Request::new("PUT", "/bucket/k").body("text/plain", "content");
    (regional("s3"), request)
}

fn s3_unsigned_body() -> (Target, Request) {
    let (target, request) = s3_body();
    (target, request.unsigned_body())
}

#[rstest]
#[case::query("query", query())]
#[case::china("query_in_china", identity())]
#[case::gov("query_in_gov", identity())]
#[case::map_and_structures("query_map_and_structures", map_and_structures())]
#[case::named_list("query_named_list", named_list())]
#[case::list("query_list", list())]
#[case::ec2("ec2", ec2())]
#[case::ec2_tags("ec2_tags", ec2_tags())]
#[case::ec2_volumes("ec2_volumes", ec2_volumes())]
#[case::ec2_volumes_of_instances("ec2_volumes_of_instances", ec2_volumes_of_instances())]
#[case::ec2_volume_changes("ec2_volume_changes", ec2_volume_changes())]
#[case::ec2_snapshots("ec2_snapshots", ec2_snapshots())]
#[case::ec2_create_snapshot("ec2_create_snapshot", ec2_create_snapshot())]
#[case::ec2_delete_tags("ec2_delete_tags", ec2_delete_tags())]
#[case::ec2_dry_run("ec2_dry_run", ec2_dry_run())]
#[case::ec2_dry_run_of_snapshot("ec2_dry_run_of_snapshot", ec2_dry_run_of_snapshot())]
#[case::json_1_1("json_1_1", json_1_1())]
#[case::json_1_0("json_1_0", json_1_0())]
#[case::rest_json_get("rest_json_get", rest_get())]
#[case::rest_json_post("rest_json_post", rest_post())]
#[case::list_in_query("rest_json_list_in_query", rest_list_in_query())]
#[case::odd_path("rest_json_odd_path", rest_odd_path())]
#[case::rest_json_patch("rest_json_patch", rest_patch())]
#[case::rest_xml("rest_xml", xml())]
#[case::rest_xml_query("rest_xml_query", xml_query())]
#[case::rest_xml_nested("rest_xml_nested", xml_nested())]
#[case::s3_key("s3_key", s3_key())]
#[case::s3_signed_body("s3_signed_body", s3_body())]
#[case::s3_unsigned_body("s3_unsigned_body", s3_unsigned_body())]
fn a_request_equals_botocores(#[case] case: &str, #[case] ours: (Target, Request)) {
    let all: Vec<Value> = serde_json::from_str(REQUESTS).unwrap();
    let theirs = all.iter().find(|one| one["case"] == case).unwrap();
    let ((hosts, service), request) = ours;
    let region = theirs["region"].as_str().unwrap();
    let endpoint = Endpoint::of(hosts, region, Variants::default());
    let token = theirs["token"].as_bool().unwrap();
    let keys = Keys {
        access_key_id: "AKIDEXAMPLE".to_owned(),
        secret_access_key: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned()),
        session_token: token.then(|| Secret::new("to/ken+==".to_owned())),
    };
    let scope = Scope {
        region: &endpoint.region,
        service,
        time: "2024-02-29T12:36:00Z".parse().unwrap(),
    };
    let signed = sign(&request, &endpoint.url, &keys, scope).unwrap();
    let headers = signed.headers.iter().filter(|(name, _)| name != "host");
    let headers: BTreeMap<_, _> = headers.cloned().collect();
    let ours = json!({
        "case": case,
        "region": region,
        "token": token,
        "method": signed.method,
        "url": signed.url,
        "headers": headers,
        "body": std::str::from_utf8(&signed.body).unwrap(),
    });
    assert_eq!(&ours, theirs);
}

#[test]
fn every_request_of_botocore_is_compared() {
    let all: Vec<Value> = serde_json::from_str(REQUESTS).unwrap();
    assert_eq!(all.len(), 29);
}
