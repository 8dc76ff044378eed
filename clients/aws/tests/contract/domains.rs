//! Domain conflicts, DNS checks, and tags.

use aws::Fault;
use aws::cloudfront::{Holder, Tags};
use kernel::Class;
use serde_json::json;

use crate::world::{OTHER, Result, World, body, marker};

#[tokio::test]
async fn a_conflicting_owner_of_a_domain_is_named() -> Result {
    let world = World::start().await?;
    let distribution = json!({ "id": "E2" });
    world.mutate(
        "cloudfront",
        json!({ "account": OTHER, "distribution": distribution }),
    );
    let tenant = json!({ "name": "theirs", "distribution": "E2", "domains": ["a.example.com"] });
    world.mutate("cloudfront", json!({ "account": OTHER, "tenant": tenant }));
    let cloudfront = world.cloudfront();
    let own = Holder::Distribution("E1");
    let page = cloudfront
        .domain_conflicts("a.example.com", own, None)
        .await?;
    assert_eq!(page.next, None);
    let [conflict] = &page.items[..] else {
        panic!("{:?}", page.items);
    };
    assert_eq!(conflict.domain, "a.example.com");
    assert_eq!(conflict.resource_type, "distribution-tenant");
    assert!(conflict.account_id.ends_with("222222"), "{conflict:?}");
    assert!(conflict.account_id.starts_with('*'), "{conflict:?}");
    let none = cloudfront
        .domain_conflicts("b.example.com", own, None)
        .await?;
    assert_eq!(none.items, []);
    Ok(())
}

#[tokio::test]
async fn dns_is_checked_for_each_domain() -> Result {
    let world = World::start().await?;
    let record =
        json!({ "name": "a.example.com", "type": "CNAME", "values": ["d0.cloudfront.net"] });
    world.mutate(
        "route53",
        json!({ "records": { "zone": "Z1", "put": [record] } }),
    );
    let cloudfront = world.cloudfront();
    let wanted = body(&["a.example.com", "b.example.com"]);
    let made = cloudfront.create_tenant("acme", &marker(), &wanted).await?;
    let found = cloudfront.verify_dns(&made.id, None).await?;
    let valid: Vec<_> = found
        .iter()
        .map(|one| (one.domain.as_str(), one.is_valid()))
        .collect();
    assert_eq!(valid, [("a.example.com", true), ("b.example.com", false)]);
    assert!(found[1].reason.is_some());
    let one = cloudfront.verify_dns("acme", Some("b.example.com")).await?;
    assert_eq!(one, found[1..]);
    Ok(())
}

#[tokio::test]
async fn tags_are_added_and_removed_by_key() -> Result {
    let world = World::start().await?;
    let cloudfront = world.cloudfront();
    let wanted = body(&["a.example.com"]);
    let made = cloudfront.create_tenant("acme", &marker(), &wanted).await?;
    let more = Tags::from([
        ("team".to_owned(), "web & more".to_owned()),
        ("empty".to_owned(), String::new()),
    ]);
    cloudfront.tag(&made.arn, &more).await?;
    cloudfront.untag(&made.arn, &["empty".to_owned()]).await?;
    let mut expected = marker();
    expected.insert("team".to_owned(), "web & more".to_owned());
    assert_eq!(cloudfront.tags(&made.arn).await?, expected);
    // Tags are not part of the version.
    assert_eq!(cloudfront.tenant("acme").await?.etag, made.etag);

    let reserved = Tags::from([("aws:x".to_owned(), "y".to_owned())]);
    let refused = cloudfront.tag(&made.arn, &reserved).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.class()),
        (Some("InvalidTagging"), Class::Invalid)
    );
    let nothing = "arn:aws:cloudfront::000000000000:distribution-tenant/dt_404";
    let missing = cloudfront.tags(nothing).await.unwrap_err();
    assert_eq!(
        (missing.fault(), missing.class()),
        (Fault::OtherMissing, Class::NotFound)
    );
    Ok(())
}

#[tokio::test]
async fn tags_missing_in_an_answer_are_not_an_empty_set() -> Result {
    let world = World::start().await?;
    world.switch("cloudfront", json!({ "tagsEchoed": false }));
    let cloudfront = world.cloudfront();
    let wanted = body(&["a.example.com"]);
    let made = cloudfront.create_tenant("acme", &marker(), &wanted).await?;
    assert_eq!(made.tags, None);
    assert_eq!(cloudfront.tags(&made.arn).await?, marker());
    Ok(())
}
