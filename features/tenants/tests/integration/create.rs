//! A tenant comes into being: once, marked, under its name, and said so.

use crate::stories::cloud::{ACCOUNT, CERTIFICATE, DENIED};
use crate::stories::objects::{acme, acme_with_dns, declare, said, serving, with, word, words};
use crate::stories::{Plan, Site, USUAL, tell};
use api::tenants::{DistributionTenant, names};
use kube::ResourceExt;
use serde_json::json;
use testkit::{Result, Story, is};

#[test]
fn a_new_tenant_is_made_once_with_our_marker_and_is_ready_when_deployed() -> Result<()> {
    tell(USUAL, async |site| {
        site.holds_deployments()?;
        site.declare("acme", acme()).await?;
        let status = site.made("acme").await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/Creating");
        let tenant = site.tenant("acme").await?;
        assert!(
            tenant
                .finalizers()
                .iter()
                .any(|one| one == names::FINALIZER)
        );

        // One Create, with the marker in it from the beginning.
        let creates = site.calls("CreateDistributionTenant")?;
        let [create] = creates.as_slice() else {
            panic!("{creates:#?}");
        };
        assert_eq!(create.texts("Domain"), ["a.example.com"]);
        let object = format!("{}/acme", site.name());
        let tags = create.tags();
        assert!(
            tags.contains(&(names::CLUSTER_TAG, site.cluster.as_str())),
            "{tags:?}"
        );
        assert!(
            tags.contains(&(names::OBJECT_TAG, object.as_str())),
            "{tags:?}"
        );

        let live = site.live("acme")?;
        assert_eq!(live["id"], json!(status.id));
        assert_eq!(live["arn"], json!(status.arn));
        assert_eq!(live["etag"], json!(status.e_tag));
        assert_eq!(status.tenant_name.as_deref(), Some("acme"));
        assert!(status.create_requested_at.is_some());

        site.deploys("acme")?;
        let status = site.ready("acme").await?;
        assert_eq!(word(&status.conditions, "Ready"), "True/Deployed");
        assert_eq!(word(&status.conditions, "Synced"), "True/InSync");
        let dns = word(&status.conditions, "DNSReady");
        assert_eq!(dns, "True/DNSNotConfigured");
        let certificate = word(&status.conditions, "CertificateReady");
        assert_eq!(certificate, "True/NotConfigured");
        let status_of = status.distribution_tenant_status.as_deref();
        assert_eq!(status_of, Some("Deployed"));
        assert_eq!(status.observed_generation, tenant.metadata.generation);
        let past = site.past("acme").await?;
        assert_eq!(words(&past, "Ready"), ["False/Creating", "True/Deployed"]);
        site.event("acme", "Created").await?;
        assert_eq!(site.done()?, ["CreateDistributionTenant"]);
        Ok(())
    })
}

#[test]
fn the_wish_to_create_is_recorded_before_the_call() -> Result<()> {
    tell(USUAL, async |site| {
        site.breaks("CreateDistributionTenant", DENIED)?;
        site.declare("acme", acme()).await?;
        let status = site.sees("acme", is("Ready", "AccessDenied")).await?;
        assert_eq!(status.id, None);
        // The version before any refusal was told has it already.
        let told = |one: &DistributionTenant| {
            let status = one.status.clone().unwrap_or_default();
            let ready = word(&status.conditions, "Ready");
            (status.create_requested_at.is_some(), ready)
        };
        let told: Vec<_> = site.past("acme").await?.iter().map(told).collect();
        let wish = told.iter().position(|(wished, _)| *wished);
        let refusal = told.iter().position(|(_, ready)| ready.contains("Denied"));
        let (wish, refusal) = (wish.expect("a wish"), refusal.expect("a refusal"));
        assert!(wish < refusal, "{told:?}");
        Ok(())
    })
}

#[test]
fn the_same_in_other_words_is_one_create_and_no_update() -> Result<()> {
    tell(USUAL, async |site| {
        let empty = with(serving(&["b.example.com"]), json!({"customizations": {}}));
        let acl = json!({"webAcl": {
            "action": "disable", "arn": "arn:aws:wafv2:us-east-1:000000000000:global/webacl/w/1",
        }});
        let disabled = with(serving(&["c.example.com"]), json!({"customizations": acl}));
        let twice = serving(&["A.Example.com", "a.example.com."]);
        for (name, spec) in [("empty", empty), ("disabled", disabled), ("twice", twice)] {
            site.declare(name, spec).await?;
        }
        for name in ["empty", "disabled", "twice"] {
            site.ready(name).await?;
        }
        assert_eq!(site.domains("twice")?, ["a.example.com"]);
        site.stays_quiet(5).await?;
        assert_eq!(site.done()?, ["CreateDistributionTenant"; 3]);
        Ok(())
    })
}

/// A namespace beside the story's, and the name by which markers and messages call its `acme`.
async fn neighbour(site: &Site) -> Result<(Story, String)> {
    let other = site.namespace("shop").await?;
    let object = format!("{}/acme", other.name());
    Ok((other, object))
}

#[test]
fn one_name_in_two_namespaces_belongs_to_the_first_until_that_is_gone() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        let (other, _) = neighbour(site).await?;
        let second = serving(&["b.example.com"]);
        declare::<DistributionTenant>(&other, "acme", &second).await?;
        let conflict = is("Ready", "NameConflict");
        let told = other.until::<DistributionTenant>("acme", conflict).await?;
        let status = told.status.unwrap_or_default();
        let holder = format!("{}/acme", site.name());
        let message = said(&status.conditions, "Ready");
        assert!(message.contains(&holder), "{message}");
        assert_eq!(word(&status.conditions, "Synced"), "False/NameConflict");
        site.sweeps(2).await?;
        assert_eq!(site.count("CreateDistributionTenant")?, 1);

        site.removes("acme").await?;
        let ready = is("Ready", "Deployed");
        other.until::<DistributionTenant>("acme", ready).await?;
        assert_eq!(site.domains("acme")?, ["b.example.com"]);
        Ok(())
    })
}

#[test]
fn tenant_names_keep_namesakes_apart() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        let (other, object) = neighbour(site).await?;
        let own = json!({"tenantName": "acme-of-the-shop"});
        let second = with(serving(&["b.example.com"]), own);
        declare::<DistributionTenant>(&other, "acme", &second).await?;
        let ready = is("Ready", "Deployed");
        let made = other.until::<DistributionTenant>("acme", ready).await?;
        let status = made.status.unwrap_or_default();
        assert_eq!(status.tenant_name.as_deref(), Some("acme-of-the-shop"));
        let live = site.live("acme-of-the-shop")?;
        assert_eq!(live["tags"][names::OBJECT_TAG], object);
        Ok(())
    })
}

#[test]
fn a_domain_that_another_object_serves_is_not_asked_for() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        let mark = site.mark()?;
        // In another case: it is the same domain.
        let wanted = ["b.example.com", "A.example.com"];
        site.declare("second", serving(&wanted)).await?;
        let status = site.sees("second", is("Ready", "DomainConflict")).await?;
        let message = said(&status.conditions, "Ready");
        let holder = format!("{}/acme", site.name());
        assert!(message.contains(&holder), "{message}");
        assert_eq!(word(&status.conditions, "Synced"), "False/DomainConflict");
        assert_eq!(site.done_since(mark)?, [""; 0]);
        assert_eq!(site.count("CreateDistributionTenant")?, 1);

        // The holder lets go of it, and the second gets it without an edit.
        site.edit("acme", serving(&["c.example.com"])).await?;
        site.ready("second").await?;
        assert_eq!(site.domains("second")?, ["a.example.com", "b.example.com"]);
        Ok(())
    })
}

#[test]
fn every_part_of_a_spec_reaches_cloudfront() -> Result<()> {
    tell(USUAL, async |site| {
        let acl = "arn:aws:wafv2:us-east-1:000000000000:global/webacl/w/1";
        let spec = with(
            acme(),
            json!({
                "enabled": false, "connectionGroupId": "cg0",
                "parameters": [{"name": "tier", "value": "gold"}],
                "tags": [{"key": "team", "value": "shop"}],
                "customizations": {
                    "webAcl": {"action": "override", "arn": acl},
                    "certificate": {"arn": CERTIFICATE},
                    "geoRestrictions": {"restrictionType": "whitelist", "locations": ["DE", "AT"]},
                },
            }),
        );
        let status = site.makes("acme", spec).await?;
        // Disabled and deployed is ready; that nothing is served is said.
        let message = said(&status.conditions, "Ready");
        assert!(message.contains("nothing"), "{message}");
        assert_eq!(status.certificate_arn.as_deref(), Some(CERTIFICATE));

        let live = site.live("acme")?;
        assert_eq!(live["enabled"], false);
        assert_eq!(live["group"], "cg0");
        let parameters = json!([{"name": "tier", "value": "gold"}]);
        assert_eq!(live["parameters"], parameters);
        assert_eq!(live["tags"]["team"], "shop");
        let customized = &live["customizations"];
        assert_eq!(customized["webAcl"]["arn"], acl);
        assert_eq!(customized["certificate"], CERTIFICATE);
        assert_eq!(customized["geo"]["type"], "whitelist");
        site.stays_quiet(2).await?;
        Ok(())
    })
}

#[test]
fn without_a_default_group_the_tenant_comes_first_and_its_records_follow() -> Result<()> {
    tell(USUAL, async |site| {
        site.switch("cloudfront", json!({"defaultGroup": "withTenant"}))?;
        site.console("cloudfront", json!({"deleteGroup": "cg0"}))?;
        site.makes("acme", acme_with_dns()).await?;
        let status = site.sees("acme", is("DNSReady", "DNSReady")).await?;
        let group = site.live("acme")?["group"].clone();
        let mut state = site.state()?;
        let groups = state["cloudfront"][ACCOUNT]["groups"].take();
        let groups = groups.as_array().cloned().unwrap_or_default();
        let made = groups.iter().find(|one| one["id"] == group);
        let endpoint = made.expect("its group is there")["endpoint"].clone();
        assert_eq!(json!(status.dns_target), endpoint);
        let order = ["CreateDistributionTenant", "ChangeResourceRecordSets"];
        assert_eq!(site.done()?, order);
        let endpoint = endpoint.as_str().unwrap_or_default();
        let wanted = site.records_to("acme", &["a.example.com"], 300, endpoint);
        site.zone_has("Z1", wanted).await?;
        Ok(())
    })
}

#[test]
fn tenants_are_counted_by_namespace_and_readiness() -> Result<()> {
    tell(USUAL, async |site| {
        site.makes("acme", acme()).await?;
        site.declare("ab", serving(&["b.example.com"])).await?;
        site.sees("ab", is("Ready", "ValidationFailed")).await?;
        let count = async |status: &str| {
            let labels = [("namespace", site.name()), ("status", status)];
            site.metric("tenants_total", &labels).await
        };
        assert_eq!(count("Ready").await?, 1);
        assert_eq!(count("NotReady").await?, 1);
        Ok(())
    })
}

/// Slow enough that who is not woken comes too late for the story.
const UNHURRIED: Plan = Plan { pace: 2, ..USUAL };

#[test]
fn who_wants_a_domain_gets_it_when_its_holder_lets_go() -> Result<()> {
    tell(UNHURRIED, async |site| {
        site.switch("cloudfront", json!({"deployDelay": 0}))?;
        let both = serving(&["a.example.com", "b.example.com"]);
        site.declare("first", both).await?;
        site.made("first").await?;
        site.declare("second", serving(&["b.example.com"])).await?;
        site.sees("second", is("Ready", "DomainConflict")).await?;
        site.declare("first", acme()).await?;
        site.made("second").await?;
        assert_eq!(site.domains("second")?, ["b.example.com"]);
        Ok(())
    })
}
