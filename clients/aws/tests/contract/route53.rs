//! Zones, records and batches.

use aws::route53::{Action, Alias, Answer, Change, ChangeStatus, Record, Start, txt_value};
use aws::{Fault, Operation};
use kernel::Class;
use serde_json::json;

use crate::world::{OTHER, Result, World};

fn values(name: &str, kind: &str, value: &str) -> Record {
    Record {
        name: name.to_owned(),
        kind: kind.to_owned(),
        answer: Answer::Values {
            ttl: 300,
            values: vec![value.to_owned()],
        },
        set_identifier: None,
    }
}

fn alias(name: &str, kind: &str) -> Record {
    Record {
        answer: Answer::Alias(Alias {
            zone_id: "Z2FDTNDATAQYW2".to_owned(),
            target: "d0.cloudfront.net".to_owned(),
            evaluate_target_health: false,
        }),
        ..values(name, kind, "")
    }
}

fn change(action: Action, record: &Record) -> Change {
    Change {
        action,
        record: record.clone(),
    }
}

fn owner(name: &str) -> Record {
    let text = "heritage=pontoon,owner=c1,resource=web/acme";
    values(name, "TXT", &txt_value(text))
}

/// All records of the zone except its own NS and SOA.
async fn records(world: &World) -> Result<Vec<Record>> {
    let mut all = Vec::new();
    let mut start = None;
    loop {
        let page = world.route53().records("Z1", start.as_ref()).await?;
        all.extend(page.items);
        start = page.next;
        if start.is_none() {
            break;
        }
    }
    all.retain(|record| record.kind != "NS" && record.kind != "SOA");
    Ok(all)
}

#[tokio::test]
async fn a_batch_is_followed_until_all_name_servers_have_it() -> Result {
    let world = World::start().await?;
    let route53 = world.route53();
    let made = [
        alias("example.com", "A"),
        alias("example.com", "AAAA"),
        values("*.example.com", "CNAME", "d0.cloudfront.net"),
        owner("_pontoon-owner._wildcard.example.com"),
    ];
    let changes: Vec<_> = made.iter().map(|one| change(Action::Create, one)).collect();
    let id = route53.change_batch("Z1", &changes).await?;
    assert!(id.starts_with('C') && !id.contains('/'), "{id}");
    assert_eq!(route53.change(&id).await?, ChangeStatus::Pending);
    world.later(5);
    assert_eq!(route53.change(&id).await?, ChangeStatus::InSync);

    let found = records(&world).await?;
    assert_eq!(found.len(), made.len());
    for record in &made {
        assert!(found.contains(record), "{record:?} in {found:?}");
    }
    for entry in world
        .log()
        .iter()
        .filter(|entry| entry["service"] == "route53")
    {
        let scope = entry["scope"].as_str().expect("signed");
        assert!(scope.contains("/us-east-1/route53/"), "{scope}");
    }
    Ok(())
}

#[tokio::test]
async fn records_are_changed_and_deleted_as_they_are() -> Result {
    let world = World::start().await?;
    let route53 = world.route53();
    let first = values("a.example.com", "CNAME", "d0.cloudfront.net");
    let batch = [
        change(Action::Create, &first),
        change(Action::Create, &owner("_pontoon-owner.a.example.com")),
    ];
    route53.change_batch("Z1", &batch).await?;
    let second = values("a.example.com", "CNAME", "d1.cloudfront.net");
    route53
        .change_batch("Z1", &[change(Action::Upsert, &second)])
        .await?;
    let mismatch = route53
        .change_batch("Z1", &[change(Action::Delete, &first)])
        .await;
    let mismatch = mismatch.unwrap_err();
    assert_eq!(mismatch.fault(), Fault::InvalidRecords);
    assert!(!mismatch.is_record_there(), "{mismatch}");
    route53
        .change_batch("Z1", &[change(Action::Delete, &second)])
        .await?;
    assert_eq!(
        records(&world).await?,
        [owner("_pontoon-owner.a.example.com")]
    );
    Ok(())
}

#[tokio::test]
async fn an_existing_record_is_recognised() -> Result {
    let world = World::start().await?;
    let foreign = json!({ "name": "a.example.com", "type": "CNAME", "values": ["x.org"] });
    world.mutate(
        "route53",
        json!({ "records": { "zone": "Z1", "put": [foreign] } }),
    );
    let own = values("a.example.com", "CNAME", "d0.cloudfront.net");
    let there = world
        .route53()
        .change_batch("Z1", &[change(Action::Create, &own)])
        .await;
    let there = there.unwrap_err();
    assert_eq!(there.class(), Class::Invalid);
    assert!(there.is_record_there(), "{there}");
    assert!(there.to_string().contains("a.example.com"), "{there}");
    Ok(())
}

#[tokio::test]
async fn records_are_listed_page_by_page_from_a_name_on() -> Result {
    let world = World::start().await?;
    let put: Vec<_> = ["a", "b", "*", "z"]
        .iter()
        .map(|label| {
            let name = format!("{label}.example.com");
            json!({ "name": name, "type": "CNAME", "values": ["d0.cloudfront.net"] })
        })
        .collect();
    world.mutate(
        "route53",
        json!({ "records": { "zone": "Z1", "put": put } }),
    );
    world.switch("route53", json!({ "pageSize": 2 }));
    let mut names: Vec<_> = records(&world)
        .await?
        .into_iter()
        .map(|one| one.name)
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "*.example.com",
            "a.example.com",
            "b.example.com",
            "z.example.com"
        ]
    );

    for name in ["*.example.com", "b.example.com"] {
        let start = Start::at(name);
        let page = world.route53().records("Z1", Some(&start)).await?;
        assert_eq!(page.items[0].name, name);
    }
    Ok(())
}

#[tokio::test]
async fn a_set_of_a_routing_policy_has_its_identifier() -> Result {
    let world = World::start().await?;
    let weighted = json!({
        "name": "a.example.com", "type": "CNAME", "values": ["x.org"], "set": "one", "weight": 1,
    });
    world.mutate(
        "route53",
        json!({ "records": { "zone": "Z1", "put": [weighted] } }),
    );
    let found = records(&world).await?;
    assert_eq!(found[0].set_identifier.as_deref(), Some("one"));
    Ok(())
}

#[tokio::test]
async fn zones_are_read_one_by_one_and_page_by_page() -> Result {
    let world = World::start().await?;
    world.switch("route53", json!({ "pageSize": 1 }));
    let private = json!({ "id": "Z2", "name": "internal.example.com", "private": true });
    world.mutate("route53", json!({ "zone": private }));
    let foreign = json!({ "id": "Z3", "name": "example.org", "account": OTHER });
    world.mutate("route53", json!({ "zone": foreign }));
    let route53 = world.route53();
    for id in ["Z1", "/hostedzone/Z1"] {
        let zone = route53.zone(id).await?;
        assert_eq!(
            (zone.id.as_str(), zone.name.as_str()),
            ("Z1", "example.com")
        );
    }
    let first = route53.zones(None).await?;
    let second = route53.zones(first.next.as_deref()).await?;
    assert_eq!(
        (first.items.len(), second.items.len(), &second.next),
        (1, 1, &None)
    );
    assert!(!first.items[0].private && second.items[0].private);
    Ok(())
}

#[tokio::test]
async fn missing_and_foreign_zones_are_distinguished() -> Result {
    let world = World::start().await?;
    let foreign = json!({ "id": "Z3", "name": "example.org", "account": OTHER });
    world.mutate("route53", json!({ "zone": foreign }));
    let route53 = world.route53();
    let missing = route53.zone("Z404").await.unwrap_err();
    assert_eq!(
        (missing.fault(), missing.class()),
        (Fault::ZoneMissing, Class::NotFound)
    );
    let denied = route53.records("Z3", None).await.unwrap_err();
    assert_eq!(denied.class(), Class::Denied);
    assert_eq!(denied.operation(), Some(Operation::ListResourceRecordSets));
    let message = denied.to_string();
    assert!(
        message.contains("must allow route53:ListResourceRecordSets"),
        "{message}"
    );

    let record = values("a.example.com", "CNAME", "d0.cloudfront.net");
    let batch = [change(Action::Create, &record)];
    let id = route53.change_batch("Z1", &batch).await?;
    world.mutate("route53", json!({ "forgetChanges": true }));
    let forgotten = route53.change(&id).await.unwrap_err();
    assert_eq!(
        (forgotten.fault(), forgotten.class()),
        (Fault::ChangeMissing, Class::NotFound)
    );
    Ok(())
}

#[tokio::test]
async fn a_busy_zone_does_not_slow_other_zones() -> Result {
    let world = World::still().await?;
    let route53 = world.route53();
    world.fail(
        "ChangeResourceRecordSets",
        400,
        "PriorRequestNotComplete",
        Some(1),
    );
    let record = values("a.example.com", "CNAME", "d0.cloudfront.net");
    let batch = [change(Action::Create, &record)];
    let busy = route53.change_batch("Z1", &batch).await.unwrap_err();
    assert_eq!(
        (busy.fault(), busy.class()),
        (Fault::ZoneBusy, Class::Throttled)
    );
    let rate = world.rate(crate::world::OWN, "route53/ChangeResourceRecordSets");
    assert!(crate::world::same(rate, 8.0), "{rate}");
    Ok(())
}
