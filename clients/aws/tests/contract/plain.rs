//! Plain requests: under the same limits, credentials, guards and classes as those of the SDK.

use aws::wire::{Answer, Request, XmlElement};
use aws::{Account, Error, Fault, Operation, Role};
use kernel::{Class, Guard};
use serde_json::{Value, json};

use crate::world::{OTHER, OWN, ROLE, Result, World, caller, same};

const TENANT: &str = "arn:aws:cloudfront::000000000000:distribution-tenant/dt_1";

async fn zone(account: &Account, id: &str) -> Result<Answer, Error> {
    let request = Request::new("GET", "/2013-04-01/hostedzone/{Id}").path("Id", id);
    let operation = Operation::GetHostedZone;
    account.send(operation, id, None, &caller(), &request).await
}

async fn tag(account: &Account) -> Result<Answer, Error> {
    let tag = XmlElement::new("Tag").text("Key", "a").text("Value", "b");
    let tags = XmlElement::new("Tags")
        .namespace("http://cloudfront.amazonaws.com/doc/2020-05-31/")
        .child(XmlElement::new("Items").child(tag));
    let request = Request::new("POST", "/2020-05-31/tagging")
        .query("Operation", "Tag")
        .query("Resource", TENANT)
        .xml_body(&tags);
    let operation = Operation::TagResource;
    let caller = caller();
    let sent = account.send(operation, TENANT, None, &caller, &request);
    sent.await
}

async fn certificate(account: &Account, arn: &str) -> Result<Answer, Error> {
    let body = json!({ "CertificateArn": arn });
    let request = Request::json("1.1", "CertificateManager.DescribeCertificate", &body);
    let operation = Operation::DescribeCertificate;
    let caller = caller();
    let sent = account.send(operation, arn, None, &caller, &request);
    sent.await
}

#[tokio::test]
async fn a_global_service_is_signed_for_us_east_1_and_read_as_xml() -> Result {
    let world = World::start().await?;
    let answer = zone(world.aws.own(), "Z1").await?;
    let document = answer.xml()?;
    let found = document.root().child("HostedZone").expect("a zone");
    assert_eq!(found.text("Id"), Some("/hostedzone/Z1"));
    let scope = world.sent("GetHostedZone")[0]["scope"].to_string();
    assert!(scope.contains("/us-east-1/route53/"), "{scope}");
    assert_eq!(world.seen.of(Operation::GetHostedZone).len(), 1);
    assert!(world.gauge(OWN, "route53/GetHostedZone").is_some());
    Ok(())
}

#[tokio::test]
async fn a_global_service_is_signed_for_the_region_of_its_partition() -> Result {
    let world = World::start().await?;
    let request = Request::new("GET", "/2013-04-01/hostedzone/{Id}").path("Id", "Z1");
    let (own, operation, caller) = (world.aws.own(), Operation::GetHostedZone, caller());
    let region = Some("eu-central-1");
    own.send(operation, "Z1", region, &caller, &request).await?;
    let scope = world.sent("GetHostedZone")[0]["scope"].to_string();
    assert!(scope.contains("/us-east-1/route53/"), "{scope}");
    Ok(())
}

#[tokio::test]
async fn a_json_service_is_called_in_the_region_that_is_named() -> Result {
    let world = World::start().await?;
    let table = json!({ "name": "sites", "key": ["name"], "rows": [{ "name": "a" }],
        "region": "eu-central-1" });
    world.mutate("dynamodb", json!({ "table": table }));
    let request = Request::json(
        "1.0",
        "DynamoDB_20120810.Scan",
        &json!({ "TableName": "sites" }),
    );
    let own = world.aws.own();
    let scan = async |region| {
        let caller = caller();
        let sent = own.send(Operation::Scan, "sites", region, &caller, &request);
        sent.await
    };
    let answer = scan(Some("eu-central-1")).await?.json()?;
    assert_eq!(answer["Items"][0]["name"], json!({ "S": "a" }));
    let missing = scan(None).await.unwrap_err();
    assert_eq!(missing.fault(), Fault::OtherMissing);
    assert_eq!(missing.code(), Some("ResourceNotFoundException"));
    let scopes: Vec<Value> = world
        .sent("Scan")
        .iter()
        .map(|one| one["scope"].clone())
        .collect();
    assert!(scopes[0].to_string().contains("/eu-central-1/dynamodb/"));
    assert!(scopes[1].to_string().contains("/eu-west-1/dynamodb/"));
    Ok(())
}

#[tokio::test]
async fn a_refusal_equals_that_of_a_call_by_the_sdk() -> Result {
    let world = World::start().await?;
    let refusals = [
        (404, "NoSuchHostedZone", Fault::ZoneMissing),
        (403, "AccessDenied", Fault::Denied),
        (400, "Throttling", Fault::Throttled),
        (503, "ServiceUnavailable", Fault::Passing),
    ];
    for (status, code, fault) in refusals {
        world.fail("GetHostedZone", status, code, Some(2));
        let plain = zone(world.aws.own(), "Z1").await.unwrap_err();
        let sdk = world.route53().zone("Z1").await.unwrap_err();
        assert_eq!(plain.fault(), fault);
        assert_eq!(plain.to_string(), sdk.to_string());
        assert!(
            plain
                .refusal()
                .is_some_and(|refusal| refusal.request_id.is_some())
        );
    }
    let (status, code) = (400, "ResourceNotFoundException");
    world.fail("DescribeCertificate", status, code, Some(2));
    let plain = certificate(world.aws.own(), "arn").await.unwrap_err();
    let sdk = world.aws.own().acm(&caller()).certificate("arn").await;
    assert_eq!(plain.to_string(), sdk.unwrap_err().to_string());
    assert_eq!(plain.class(), Class::NotFound);
    Ok(())
}

#[tokio::test]
async fn a_throttled_plain_call_halves_the_rate_of_all() -> Result {
    let world = World::still().await?;
    world.fail("GetHostedZone", 400, "Throttling", Some(1));
    assert!(zone(world.aws.own(), "Z1").await.is_err());
    assert!(same(world.rate(OWN, "route53/GetHostedZone"), 4.0));
    Ok(())
}

#[tokio::test]
async fn expired_keys_of_a_plain_call_are_renewed_once() -> Result {
    let world = World::still().await?;
    world.mutate("sts", json!({ "roles": [{ "arn": ROLE }] }));
    let lent = json!({ "id": "Z2", "name": "example.org", "account": OTHER });
    world.mutate("route53", json!({ "zone": lent }));
    let account = world.aws.role(&Role::new(ROLE, None::<String>)?);
    zone(&account, "Z2").await?;
    world.later(7200);
    zone(&account, "Z2").await?;
    assert_eq!(world.sent("AssumeRole").len(), 2);
    let expired = |entry: &&Value| entry["code"] == "ExpiredToken";
    assert_eq!(world.log().iter().filter(expired).count(), 1);
    Ok(())
}

#[tokio::test]
async fn a_closed_guard_stops_a_plain_write_but_no_read() -> Result {
    let world = World::start().await?;
    let guard = Guard::always();
    let seen = world.seen.clone();
    let aws = world.aws.for_feature(vec![guard.clone()], seen);
    guard.revoke();
    let stopped = tag(aws.own()).await.unwrap_err();
    assert_eq!(stopped.fault(), Fault::Deposed);
    assert_eq!(world.sent("TagResource").len(), 0);
    zone(aws.own(), "Z1").await?;
    // Under an open guard it is sent, and CloudFront knows no such tenant.
    let refused = tag(world.aws.own()).await.unwrap_err();
    assert_eq!(refused.class(), Class::NotFound, "{refused}");
    assert_eq!(world.sent("TagResource").len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_cut_plain_call_may_have_happened() -> Result {
    let world = World::start().await?;
    for effect in ["cutBefore", "cutAfter"] {
        world.fault(json!({ "operation": "TagResource", "times": 1, "effect": effect }));
        let lost = tag(world.aws.own()).await.unwrap_err();
        assert!(matches!(lost, Error::NoAnswer { .. }), "{lost:?}");
        assert!(lost.may_have_happened());
    }
    assert_eq!(world.sent("TagResource").len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_request_without_a_path_parameter_is_not_sent() -> Result {
    let world = World::start().await?;
    let error = zone(world.aws.own(), "").await.unwrap_err();
    assert!(error.is_our_refusal(), "{error}");
    assert!(error.to_string().contains("Id has no value"), "{error}");
    assert_eq!(world.sent("GetHostedZone").len(), 0);
    Ok(())
}
