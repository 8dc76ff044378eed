//! Certificate Manager, STS and DynamoDB.

use aws::dynamodb::{Row, Value};
use aws::{Caller, Fault, Priority};
use kernel::Class;
use serde_json::json;

use crate::world::{CERTIFICATE, OTHER, OWN, Result, World, caller};

#[tokio::test]
async fn a_certificate_has_its_names_and_status() -> Result {
    let world = World::start().await?;
    let arn = "arn:aws:acm:us-east-1:000000000000:certificate/two";
    let names = ["a.example.org", "*.example.org"];
    let seed = json!({ "arn": arn, "names": names, "status": "pending-validation" });
    world.mutate("acm", json!({ "certificate": seed }));
    let acm = world.aws.own().acm(&caller());
    let found = acm.certificate(arn).await?;
    assert_eq!(
        (found.arn.as_str(), found.status.as_str()),
        (arn, "PENDING_VALIDATION")
    );
    assert_eq!(found.names, names);
    assert_eq!(acm.certificate(CERTIFICATE).await?.status, "ISSUED");
    let scope = world.sent("DescribeCertificate")[0]["scope"].to_string();
    assert!(scope.contains("/us-east-1/acm/"), "{scope}");

    let missing = "arn:aws:acm:us-east-1:000000000000:certificate/none";
    let missing = acm.certificate(missing).await.unwrap_err();
    assert_eq!(
        (missing.fault(), missing.class()),
        (Fault::OtherMissing, Class::NotFound)
    );
    let foreign = "arn:aws:acm:us-east-1:222222222222:certificate/theirs";
    let foreign = acm.certificate(foreign).await.unwrap_err();
    assert_eq!(foreign.code(), Some("AccessDeniedException"));
    assert!(
        foreign.to_string().contains("acm:DescribeCertificate"),
        "{foreign}"
    );
    Ok(())
}

#[tokio::test]
async fn the_caller_identity_is_read_in_our_region() -> Result {
    let world = World::start().await?;
    let identity = world.aws.own().sts(&caller()).caller_identity().await?;
    assert_eq!(
        (
            identity.account.as_str(),
            identity.arn.ends_with(":user/test")
        ),
        (OWN, true)
    );
    assert_eq!(world.aws.region(), "eu-west-1");
    for entry in world.sent("GetCallerIdentity") {
        let scope = entry["scope"].as_str().expect("signed");
        assert!(scope.contains("/eu-west-1/sts/"), "{scope}");
    }
    Ok(())
}

#[tokio::test]
async fn a_table_is_scanned_page_by_page_consistently() -> Result {
    let world = World::start().await?;
    world.switch("dynamodb", json!({ "pageSize": 2, "readLag": "1h" }));
    let rows = json!([
        { "name": "a", "domain": "a.example.com", "enabled": true, "weight": 5, "note": null },
        { "name": "b", "domain": { "SS": ["b.example.com", "c.example.com"] } },
        { "name": "c", "domain": ["d.example.com", "e.example.com"] },
        { "name": "d", "domain": { "x": 1 } },
        { "name": "e", "domain": "f.example.com" },
    ]);
    let table = json!({ "name": "sites", "key": ["name"], "rows": rows, "region": "eu-central-1" });
    world.mutate("dynamodb", json!({ "table": table }));
    let dynamodb = world.aws.own().dynamodb(&caller(), "eu-central-1");
    let mut all: Vec<Row> = Vec::new();
    let mut from = None;
    for _ in 0..3 {
        let page = dynamodb.scan("sites", from.as_ref()).await?;
        all.extend(page.items);
        from = page.next;
    }
    assert_eq!((all.len(), from), (5, None));
    let texts = |texts: &[&str]| Value::Texts(texts.iter().map(|&text| text.to_owned()).collect());
    let a = Row::from([
        ("name".to_owned(), Value::Text("a".to_owned())),
        ("domain".to_owned(), Value::Text("a.example.com".to_owned())),
        ("enabled".to_owned(), Value::Flag(true)),
        ("weight".to_owned(), Value::Number("5".to_owned())),
    ]);
    assert_eq!(all[0], a);
    let mut set = all[1]["domain"].clone();
    if let Value::Texts(texts) = &mut set {
        texts.sort();
    }
    assert_eq!(set, texts(&["b.example.com", "c.example.com"]));
    assert_eq!(all[2]["domain"], texts(&["d.example.com", "e.example.com"]));
    assert_eq!(all[3]["domain"], Value::Other("M"));
    let sent = &world.sent("Scan")[0];
    assert!(
        sent["scope"]
            .as_str()
            .expect("signed")
            .contains("/eu-central-1/dynamodb/")
    );
    Ok(())
}

#[tokio::test]
async fn a_missing_or_foreign_table_is_refused() -> Result {
    let world = World::start().await?;
    let table = json!({ "name": "sites", "key": ["name"], "region": "eu-central-1" });
    world.mutate("dynamodb", json!({ "table": table }));
    let sweep = Caller::new(Priority::Sweep, "web");
    let elsewhere = world.aws.own().dynamodb(&sweep, "us-west-2");
    let missing = elsewhere.scan("sites", None).await.unwrap_err();
    assert_eq!(
        (missing.fault(), missing.class()),
        (Fault::OtherMissing, Class::NotFound)
    );
    let foreign = format!("arn:aws:dynamodb:us-west-2:{OTHER}:table/sites");
    let denied = elsewhere.scan(&foreign, None).await.unwrap_err();
    assert_eq!(denied.class(), Class::Denied);
    assert!(
        denied.to_string().contains("must allow dynamodb:Scan"),
        "{denied}"
    );
    Ok(())
}
