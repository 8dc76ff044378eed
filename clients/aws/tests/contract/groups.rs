//! Connection groups.

use aws::Fault;
use aws::cloudfront::{GroupBody, Tags};
use kernel::Class;
use serde_json::json;

use crate::world::{Result, World};

fn plain() -> GroupBody {
    GroupBody {
        ipv6_enabled: true,
        enabled: true,
        anycast_ip_list_id: None,
    }
}

fn tags() -> Tags {
    Tags::from([
        ("pontoon.io/cluster".to_owned(), "c1".to_owned()),
        ("pontoon.io/object".to_owned(), "edge".to_owned()),
    ])
}

#[tokio::test]
async fn a_group_is_created_changed_and_deleted() -> Result {
    let world = World::start().await?;
    let cloudfront = world.cloudfront();
    let made = cloudfront.create_group("edge", &tags(), &plain()).await?;
    assert_eq!((&made.body, &made.tags), (&plain(), &Some(tags())));
    assert!(made.routing_endpoint.ends_with(".cloudfront.net") && !made.is_default);
    for named in [&made.id, &made.name, &made.arn] {
        assert_eq!(cloudfront.group(named).await?, made);
    }
    let twice = cloudfront.create_group("edge", &tags(), &plain()).await;
    assert_eq!(twice.unwrap_err().fault(), Fault::NameTaken);

    let off = GroupBody {
        ipv6_enabled: false,
        enabled: false,
        anycast_ip_list_id: Some("list-1".to_owned()),
    };
    let updated = cloudfront.update_group(&made.id, &made.etag, &off).await?;
    assert_eq!(
        (&updated.body, updated.status.as_str()),
        (&off, "InProgress")
    );
    let early = cloudfront.delete_group(&made.id, &updated.etag).await;
    assert_eq!(early.unwrap_err().fault(), Fault::NotDisabled);
    world.later(10);
    let stale = cloudfront.delete_group(&made.id, &made.etag).await;
    assert_eq!(stale.unwrap_err().class(), Class::Stale);
    cloudfront.delete_group(&made.id, &updated.etag).await?;
    let gone = cloudfront.group("edge").await.unwrap_err();
    assert_eq!(gone.fault(), Fault::EntityMissing);
    Ok(())
}

#[tokio::test]
async fn a_group_in_use_is_not_deleted() -> Result {
    let world = World::start().await?;
    let cloudfront = world.cloudfront();
    let group = cloudfront.create_group("edge", &tags(), &plain()).await?;
    let tenant = json!({
        "name": "acme", "distribution": "E1", "domains": ["a.example.com"], "group": group.id,
    });
    world.mutate("cloudfront", json!({ "tenant": tenant }));
    let off = GroupBody {
        enabled: false,
        ..plain()
    };
    let used = cloudfront.update_group(&group.id, &group.etag, &off).await;
    let used = used.unwrap_err();
    assert_eq!(
        (used.fault(), used.class()),
        (Fault::InUse, Class::Conflict)
    );
    assert_eq!(used.code(), Some("ResourceInUse"));

    let edit = json!({ "tenant": "acme", "enabled": false });
    world.mutate("cloudfront", json!({ "edit": edit }));
    let off = cloudfront
        .update_group(&group.id, &group.etag, &off)
        .await?;
    world.later(10);
    let kept = cloudfront.delete_group(&group.id, &off.etag).await;
    let kept = kept.unwrap_err();
    assert_eq!(kept.code(), Some("CannotDeleteEntityWhileInUse"));
    assert_eq!(kept.fault(), Fault::InUse);
    Ok(())
}

#[tokio::test]
async fn groups_are_listed_page_by_page_and_one_is_the_default() -> Result {
    let world = World::start().await?;
    world.switch("cloudfront", json!({ "pageSize": 1 }));
    let cloudfront = world.cloudfront();
    let made = cloudfront.create_group("edge", &tags(), &plain()).await?;
    let first = cloudfront.groups(None).await?;
    let second = cloudfront.groups(first.next.as_deref()).await?;
    assert_eq!(second.next, None);
    let all: Vec<_> = first.items.iter().chain(&second.items).collect();
    let default = all.iter().find(|group| group.is_default);
    assert_eq!(default.map(|group| group.id.as_str()), Some("cg0"));
    let edge = all.iter().find(|group| group.name == "edge");
    assert_eq!(edge.map(|group| &group.etag), Some(&made.etag));
    Ok(())
}
