//! Tenants: create, read, update, delete, list.

use std::collections::BTreeMap;

use aws::cloudfront::{
    CertificateRequest, Customizations, GeoRestriction, Tags, TenantBody, WebAcl,
};
use aws::{Fault, Operation};
use kernel::Class;
use serde_json::json;

use crate::world::{CERTIFICATE, Result, World, body, marker};

const ACL: &str = "arn:aws:wafv2:us-east-1:000000000000:global/webacl/a/1";

fn customized() -> Customizations {
    Customizations {
        web_acl: Some(WebAcl {
            action: "override".to_owned(),
            arn: Some(ACL.to_owned()),
        }),
        certificate_arn: Some(CERTIFICATE.to_owned()),
        geo_restriction: Some(GeoRestriction {
            kind: "whitelist".to_owned(),
            locations: vec!["DE".to_owned(), "FR".to_owned()],
        }),
    }
}

#[tokio::test]
async fn a_created_tenant_is_found_by_id_name_arn_and_domain() -> Result {
    let world = World::start().await?;
    let cloudfront = world.cloudfront();
    let wanted = TenantBody {
        connection_group_id: Some("cg0".to_owned()),
        customizations: customized(),
        ..body(&["a.example.com", "b.example.com"])
    };
    let made = cloudfront.create_tenant("acme", &marker(), &wanted).await?;
    assert_eq!(made.name, "acme");
    assert_eq!(made.body(), wanted);
    assert_eq!(made.tags, Some(marker()));
    assert_eq!(made.status, "InProgress");
    assert_eq!(made.domains[0].status, "active");
    assert!(made.arn.ends_with(&made.id) && made.created.is_some() && !made.etag.is_empty());

    for named in [&made.id, &made.name, &made.arn] {
        assert_eq!(cloudfront.tenant(named).await?, made);
    }
    assert_eq!(cloudfront.tenant_by_domain("b.example.com").await?, made);
    world.later(10);
    assert_eq!(cloudfront.tenant("acme").await?.status, "Deployed");
    for entry in world
        .log()
        .iter()
        .filter(|entry| entry["service"] == "cloudfront")
    {
        let scope = entry["scope"].as_str().expect("signed");
        assert!(scope.contains("/us-east-1/cloudfront/"), "{scope}");
    }
    Ok(())
}

#[tokio::test]
async fn a_create_request_omits_unset_values() -> Result {
    let world = World::start().await?;
    let plain = TenantBody {
        parameters: BTreeMap::from([("colour".to_owned(), "red".to_owned())]),
        ..body(&["a.example.com"])
    };
    let made = world
        .cloudfront()
        .create_tenant("acme", &Tags::new(), &plain)
        .await?;
    let sent = world.sent("CreateDistributionTenant")[0]["body"].to_string();
    for absent in ["Customizations", "Tags", "ConnectionGroupId", "Managed"] {
        assert!(!sent.contains(absent), "{sent}");
    }
    assert_eq!(made.connection_group_id.as_deref(), Some("cg0"));
    Ok(())
}

#[tokio::test]
async fn an_update_is_complete_and_clears_unset_values() -> Result {
    let world = World::start().await?;
    // If CloudFront keeps omitted members, only explicit empty blocks remove anything.
    world.switch("cloudfront", json!({ "update": "merge" }));
    let distribution = json!({ "id": "E1", "certificate": CERTIFICATE });
    world.mutate("cloudfront", json!({ "distribution": distribution }));
    let cloudfront = world.cloudfront();
    let full = TenantBody {
        customizations: customized(),
        ..body(&["a.example.com"])
    };
    let made = cloudfront.create_tenant("acme", &marker(), &full).await?;
    let bare = TenantBody {
        customizations: Customizations::default(),
        parameters: BTreeMap::new(),
        enabled: false,
        ..made.body()
    };
    let updated = cloudfront
        .update_tenant(&made.id, &made.etag, &bare)
        .await?;
    assert_eq!(updated.body(), bare);
    assert_ne!(updated.etag, made.etag);
    let sent = world.sent("UpdateDistributionTenant")[0]["body"].to_string();
    for explicit in [
        "Customizations",
        "Parameters",
        "ConnectionGroupId",
        "Enabled",
    ] {
        assert!(sent.contains(explicit), "{sent}");
    }
    Ok(())
}

#[tokio::test]
async fn a_write_based_on_an_old_version_is_stale() -> Result {
    let world = World::start().await?;
    let cloudfront = world.cloudfront();
    let wanted = body(&["a.example.com"]);
    let made = cloudfront.create_tenant("acme", &marker(), &wanted).await?;
    let disabled = TenantBody {
        enabled: false,
        ..made.body()
    };
    cloudfront
        .update_tenant(&made.id, &made.etag, &disabled)
        .await?;
    let stale = cloudfront.delete_tenant(&made.id, &made.etag).await;
    assert_eq!(stale.unwrap_err().class(), Class::Stale);
    let unnamed = cloudfront.delete_tenant(&made.id, "").await;
    assert_eq!(unnamed.unwrap_err().class(), Class::Stale);
    Ok(())
}

#[tokio::test]
async fn a_tenant_is_deleted_when_it_is_disabled_and_deployed() -> Result {
    let world = World::start().await?;
    let cloudfront = world.cloudfront();
    let wanted = body(&["a.example.com"]);
    let made = cloudfront.create_tenant("acme", &marker(), &wanted).await?;
    let early = cloudfront.delete_tenant(&made.id, &made.etag).await;
    let early = early.unwrap_err();
    assert_eq!(
        (early.fault(), early.class()),
        (Fault::NotDisabled, Class::Conflict)
    );

    let disabled = TenantBody {
        enabled: false,
        ..made.body()
    };
    let disabled = cloudfront
        .update_tenant(&made.id, &made.etag, &disabled)
        .await?;
    world.later(10);
    cloudfront.delete_tenant(&made.id, &disabled.etag).await?;
    let gone = cloudfront.tenant("acme").await.unwrap_err();
    assert_eq!(
        (gone.fault(), gone.class()),
        (Fault::EntityMissing, Class::NotFound)
    );
    let seen = world.seen.of(Operation::GetDistributionTenant);
    assert_eq!(seen[0].1, Some(Class::NotFound));
    Ok(())
}

#[tokio::test]
async fn taken_names_and_taken_domains_are_distinguished() -> Result {
    let world = World::start().await?;
    let cloudfront = world.cloudfront();
    let first = body(&["a.example.com"]);
    cloudfront.create_tenant("acme", &marker(), &first).await?;
    let second = body(&["b.example.com"]);
    let named = cloudfront.create_tenant("acme", &marker(), &second).await;
    let named = named.unwrap_err();
    assert_eq!(
        (named.fault(), named.class()),
        (Fault::NameTaken, Class::AlreadyExists)
    );
    let taken_domain = cloudfront.create_tenant("other", &marker(), &first).await;
    let taken_domain = taken_domain.unwrap_err();
    assert_eq!(
        (taken_domain.fault(), taken_domain.class()),
        (Fault::DomainTaken, Class::AlreadyExists)
    );
    assert_eq!(taken_domain.code(), Some("CNAMEAlreadyExists"));
    Ok(())
}

#[tokio::test]
async fn tenants_are_listed_page_by_page() -> Result {
    let world = World::start().await?;
    world.switch("cloudfront", json!({ "pageSize": 2 }));
    world.mutate("cloudfront", json!({ "distribution": { "id": "E2" } }));
    for (name, distribution) in [("one", "E1"), ("two", "E1"), ("three", "E1"), ("far", "E2")] {
        let domains = [format!("{name}.example.com")];
        let tenant = json!({ "name": name, "distribution": distribution, "domains": domains });
        world.mutate("cloudfront", json!({ "tenant": tenant }));
    }
    let cloudfront = world.cloudfront();
    let first = cloudfront.tenants(Some("E1"), None).await?;
    assert_eq!(first.items.len(), 2);
    let second = cloudfront
        .tenants(Some("E1"), first.next.as_deref())
        .await?;
    assert_eq!((second.items.len(), &second.next), (1, &None));
    let summary = &second.items[0];
    let whole = cloudfront.tenant(&summary.id).await?;
    assert_eq!((&summary.etag, &summary.arn), (&whole.etag, &whole.arn));
    assert_eq!(summary.domains, whole.domains);
    assert_eq!(summary.status, "Deployed");

    let mut all = Vec::new();
    let mut marker = None;
    loop {
        let page = cloudfront.tenants(None, marker.as_deref()).await?;
        all.extend(page.items);
        marker = page.next;
        if marker.is_none() {
            break;
        }
    }
    assert_eq!(all.len(), 4);
    Ok(())
}

#[tokio::test]
async fn a_managed_certificate_is_followed_until_it_is_issued() -> Result {
    let world = World::start().await?;
    let cloudfront = world.cloudfront();
    let wanted = TenantBody {
        certificate_request: Some(CertificateRequest {
            validation_token_host: "self-hosted".to_owned(),
            primary_domain: Some("a.elsewhere.org".to_owned()),
            transparency_logging: Some("enabled".to_owned()),
        }),
        ..body(&["a.elsewhere.org"])
    };
    let made = cloudfront.create_tenant("acme", &marker(), &wanted).await?;
    assert_eq!(made.domains[0].status, "inactive");
    let pending = cloudfront.managed_certificate(&made.id).await?;
    assert_eq!(pending.status, "pending-validation");
    assert_eq!(
        pending.validation_token_host.as_deref(),
        Some("self-hosted")
    );
    assert_eq!(pending.tokens[0].domain, "a.elsewhere.org");
    assert!(pending.tokens[0].redirect_from.is_some() && pending.tokens[0].redirect_to.is_some());

    let issued = json!({ "managed": { "tenant": "acme", "status": "issued" } });
    world.mutate("cloudfront", issued);
    let issued = cloudfront.managed_certificate("acme").await?;
    assert_eq!(issued.status, "issued");
    let attached = TenantBody {
        customizations: Customizations {
            certificate_arn: issued.arn.clone(),
            ..Customizations::default()
        },
        ..made.body()
    };
    let attached = cloudfront
        .update_tenant(&made.id, &made.etag, &attached)
        .await?;
    assert_eq!(attached.domains[0].status, "active");
    Ok(())
}

#[tokio::test]
async fn unverified_ownership_differs_from_an_invalid_argument() -> Result {
    let world = World::start().await?;
    let cloudfront = world.cloudfront();
    let wanted = TenantBody {
        certificate_request: Some(CertificateRequest {
            validation_token_host: "cloudfront".to_owned(),
            primary_domain: Some("a.elsewhere.org".to_owned()),
            transparency_logging: None,
        }),
        ..body(&["a.elsewhere.org"])
    };
    let unseen = cloudfront.create_tenant("acme", &marker(), &wanted).await;
    let unseen = unseen.unwrap_err();
    assert!(unseen.is_ownership_unverified(), "{unseen}");
    let wrong = body(&["A.EXAMPLE.COM"]);
    let wrong = cloudfront.create_tenant("acme", &marker(), &wrong).await;
    let wrong = wrong.unwrap_err();
    assert_eq!(
        (wrong.fault(), wrong.class()),
        (Fault::InvalidSpec, Class::Invalid)
    );
    Ok(())
}

#[tokio::test]
async fn a_distribution_has_what_tenants_need() -> Result {
    let world = World::start().await?;
    let other = json!({ "id": "E9", "mode": "direct" });
    world.mutate("cloudfront", json!({ "distribution": other }));
    let cloudfront = world.cloudfront();
    let one = cloudfront.distribution("E1").await?;
    assert!(one.is_tenant_only());
    assert_eq!(one.certificate_arn.as_deref(), Some(CERTIFICATE));
    let [colour, shape] = &one.parameters[..] else {
        panic!("{:?}", one.parameters);
    };
    assert_eq!(
        (colour.name.as_str(), colour.required, &colour.default),
        ("colour", true, &None)
    );
    assert_eq!(
        (shape.required, shape.default.as_deref()),
        (false, Some("round"))
    );

    let direct = cloudfront.distribution("E9").await?;
    assert!(!direct.is_tenant_only());
    assert_eq!(direct.certificate_arn, None);
    let missing = cloudfront.distribution("E7").await.unwrap_err();
    assert_eq!(
        (missing.fault(), missing.class()),
        (Fault::DistributionMissing, Class::NotFound)
    );
    Ok(())
}

#[tokio::test]
async fn an_invalidation_is_created_once_per_reference() -> Result {
    let world = World::start().await?;
    let cloudfront = world.cloudfront();
    let wanted = body(&["a.example.com"]);
    let made = cloudfront.create_tenant("acme", &marker(), &wanted).await?;
    let paths = ["/*".to_owned(), "/a&b".to_owned()];
    let first = cloudfront.invalidate(&made.id, "uid-1", &paths).await?;
    let again = cloudfront.invalidate(&made.id, "uid-1", &paths).await?;
    assert_eq!(first.id, again.id);
    assert_eq!(first.status, "InProgress");
    world.later(10);
    let done = cloudfront.invalidation(&made.id, &first.id).await?;
    assert_eq!(
        (done.status.as_str(), done.created),
        ("Completed", first.created)
    );
    let missing = cloudfront.invalidation(&made.id, "I404").await;
    assert_eq!(missing.unwrap_err().class(), Class::NotFound);
    let many: Vec<String> = (0..3001).map(|path| format!("/{path}")).collect();
    let large = cloudfront.invalidate(&made.id, "uid-2", &many).await;
    let large = large.unwrap_err();
    assert_eq!(
        (large.code(), large.class()),
        (Some("BatchTooLarge"), Class::Invalid)
    );
    Ok(())
}
