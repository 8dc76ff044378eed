//! TenantPolicies: what the objects of a namespace may name, and that nothing else is done for them.

use std::time::Duration;

use crate::stories::cloud::OTHER_ACCOUNT;
use crate::stories::objects::{
    acme, acme_with_dns, change, declare, said, serving, with, word, words,
};
use crate::stories::zone::Zone;
use crate::stories::{Plan, Site, USUAL, tell};
use api::tenants::{DistributionTenant, TenantPolicy, TenantPolicyStatus};
use http::{Method, StatusCode};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::fault_proxy::Rule;
use testkit::{Result, eventually, eventually_within, is};

const ROLE: &str = "arn:aws:iam::222222222222:role/dns";

/// Makes a policy for the story's namespace that allows E1 and Z1, changed by a merge patch.
async fn allows(site: &Site, change: Value) -> Result<()> {
    let spec = json!({
        "namespaces": [site.name()], "distributions": ["E1"], "hostedZones": ["Z1"],
    });
    let spec = with(spec, change);
    declare::<TenantPolicy>(&site.cluster_wide(), "web", &spec).await
}

/// Waits until a tenant is denied; its words. Nothing was written for it.
async fn denied(site: &Site, name: &str) -> Result<String> {
    let status = site.sees(name, is("Ready", "PolicyDenied")).await?;
    assert_eq!(word(&status.conditions, "Ready"), "False/PolicyDenied");
    assert_eq!(word(&status.conditions, "Synced"), "False/PolicyDenied");
    Ok(said(&status.conditions, "Ready"))
}

#[test]
fn what_a_policy_allows_is_made() -> Result<()> {
    tell(USUAL, async |site| {
        allows(site, json!({})).await?;
        site.makes("acme", acme_with_dns()).await?;
        let cluster = site.cluster_wide();
        let accepted = is("Ready", "Accepted");
        let policy = cluster.until::<TenantPolicy>("web", accepted).await?;
        let TenantPolicyStatus { conditions } = policy.status.unwrap_or_default();
        assert_eq!(word(&conditions, "Ready"), "True/Accepted");
        Ok(())
    })
}

#[rstest]
#[case::distribution(json!({"distributionId": "E2"}), "E2", json!({"distributions": ["E1", "E2"]}))]
#[case::zone(
    json!({"dns": {"hostedZoneId": "Z2"}}), "Z2", json!({"hostedZones": ["Z1", "Z2"]})
)]
#[case::role(
    json!({"dns": {"hostedZoneId": "Z7", "assumeRoleArn": ROLE}}), ROLE,
    json!({"hostedZones": ["Z7"], "roles": [{"arn": ROLE}]})
)]
#[case::group(
    json!({"connectionGroupId": "cg1"}), "cg1", json!({"connectionGroups": ["cg1"]})
)]
#[case::domain(
    json!({"domains": [{"domain": "b.example.com"}]}), "b.example.com",
    json!({"domains": ["b.example.com"]})
)]
fn what_no_policy_allows_is_named_and_comes_true_when_one_does(
    #[case] named: Value,
    #[case] refused: &'static str,
    #[case] allowed: Value,
) -> Result<()> {
    tell(USUAL, async |site| {
        site.seeds_distribution("E2", &json!({}))?;
        site.seeds_group("cg1", "d1.cloudfront.net")?;
        site.seeds_zone("Z2", "example.com")?;
        site.console("sts", json!({"roles": [{"arn": ROLE}]}))?;
        let zone = json!({"id": "Z7", "name": "example.com", "account": OTHER_ACCOUNT});
        site.console("route53", json!({"zone": zone}))?;
        // Groups and domains are free unless the policy names some; zones are as it says.
        let narrow = json!({
            "hostedZones": ["Z1", "Z7"], "connectionGroups": ["default"],
            "domains": ["a.example.com"],
        });
        allows(site, narrow).await?;
        site.declare("acme", with(acme_with_dns(), named)).await?;
        let message = denied(site, "acme").await?;
        assert!(message.contains(refused), "{message}");
        site.event("acme", "PolicyDenied").await?;
        site.waits(60).await?;
        assert_eq!(site.done()?, [""; 0]);
        assert_eq!(site.count("AssumeRole")?, 0);

        // The platform team lets them; nobody edits the tenant.
        let wide = json!({"connectionGroups": null, "domains": null});
        allows(site, with(wide, allowed)).await?;
        site.ready("acme").await?;
        assert_eq!(site.tenant("acme").await?.metadata.generation, Some(1));
        Ok(())
    })
}

#[test]
fn the_default_group_may_be_named_by_its_id() -> Result<()> {
    tell(USUAL, async |site| {
        allows(site, json!({"connectionGroups": ["default"]})).await?;
        let by_id = json!({"connectionGroupId": "cg0"});
        site.makes("acme", with(acme(), by_id)).await?;
        // A new process does not know at first which one it is, and asks before it judges.
        site.start().await?;
        site.sweeps(1).await?;
        let past = words(&site.past("acme").await?, "Ready");
        assert!(!past.contains(&"False/PolicyDenied".to_owned()), "{past:?}");
        Ok(())
    })
}

#[test]
fn what_is_denied_anyway_is_not_asked_for() -> Result<()> {
    tell(USUAL, async |site| {
        allows(site, json!({"connectionGroups": ["default"]})).await?;
        let both = json!({"connectionGroupId": "cg0", "distributionId": "E2"});
        site.declare("acme", with(acme(), both)).await?;
        denied(site, "acme").await?;
        assert_eq!(site.count("ListConnectionGroups")?, 0);
        Ok(())
    })
}

#[test]
fn one_policy_has_to_allow_all_of_it() -> Result<()> {
    tell(USUAL, async |site| {
        site.seeds_distribution("E2", &json!({}))?;
        allows(site, json!({"hostedZones": null})).await?;
        let zones = json!({
            "namespaces": [site.name()], "distributions": ["E2"], "hostedZones": ["Z1"],
        });
        declare::<TenantPolicy>(&site.cluster_wide(), "zones", &zones).await?;
        site.declare("acme", acme_with_dns()).await?;
        denied(site, "acme").await?;
        site.waits(60).await?;
        assert_eq!(site.done()?, [""; 0]);
        Ok(())
    })
}

#[test]
fn a_namespace_without_a_policy_gets_nothing_once_there_is_one() -> Result<()> {
    tell(USUAL, async |site| {
        allows(site, json!({})).await?;
        let other = site.namespace("shop").await?;
        let tenant = serving(&["b.example.com"]);
        declare::<DistributionTenant>(&other, "second", &tenant).await?;
        let denied = is("Ready", "PolicyDenied");
        other.until::<DistributionTenant>("second", denied).await?;
        // Chosen by a label, it gets what the others have.
        let labelled = json!({
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": other.name()}},
            "distributions": ["*"],
        });
        declare::<TenantPolicy>(&site.cluster_wide(), "shop", &labelled).await?;
        let ready = is("Ready", "Deployed");
        other.until::<DistributionTenant>("second", ready).await?;
        Ok(())
    })
}

/// Without a policy nothing is allowed.
const REQUIRED: Plan = Plan {
    args: &["--tenants-sweep-interval=30s", "--tenants-policy=required"],
    ..USUAL
};

#[test]
fn a_policy_can_be_required() -> Result<()> {
    tell(REQUIRED, async |site| {
        site.declare("acme", acme()).await?;
        denied(site, "acme").await?;
        assert_eq!(site.done()?, [""; 0]);
        allows(site, json!({})).await?;
        site.ready("acme").await?;
        Ok(())
    })
}

#[test]
fn external_ids_come_from_the_policy_alone() -> Result<()> {
    tell(USUAL, async |site| {
        let role = json!({"arn": ROLE, "externalId": "shared-secret"});
        site.console("sts", json!({"roles": [role]}))?;
        let zone = json!({"id": "Z7", "name": "example.com", "account": OTHER_ACCOUNT});
        site.console("route53", json!({"zone": zone}))?;
        let dns = json!({"dns": {
            "provider": "route53", "hostedZoneId": "Z7", "assumeRoleArn": ROLE,
        }});
        // Without its external id the role is not had.
        allows(
            site,
            json!({"hostedZones": ["Z7"], "roles": [{"arn": ROLE}]}),
        )
        .await?;
        site.declare("acme", with(acme(), dns)).await?;
        let status = site.sees("acme", is("DNSReady", "DNSError")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/DNSError");
        assert!(site.errors("dns_access_denied").await? >= 1);

        allows(site, json!({"hostedZones": ["Z7"], "roles": [role]})).await?;
        site.ready("acme").await?;
        let records = site.records_of("acme", &["a.example.com"]);
        assert_eq!(site.zone("Z7")?, records);

        // The end needs no policy: it goes by what is recorded.
        let cluster = site.cluster_wide();
        cluster.delete::<TenantPolicy>("web").await?;
        site.removes("acme").await?;
        assert_eq!(site.zone("Z7")?, Zone::new());
        Ok(())
    })
}

#[test]
fn what_a_policy_no_longer_allows_can_still_be_deleted() -> Result<()> {
    tell(USUAL, async |site| {
        allows(site, json!({})).await?;
        site.makes("acme", acme_with_dns()).await?;
        let mark = site.mark()?;
        allows(site, json!({"hostedZones": null})).await?;
        denied(site, "acme").await?;
        assert_eq!(site.done_since(mark)?, [""; 0]);
        site.removes("acme").await?;
        assert!(site.live("acme")?.is_null());
        assert_eq!(site.zone("Z1")?, Zone::new());
        Ok(())
    })
}

#[test]
fn a_policy_that_comes_in_between_ends_the_making_and_leaves_nothing() -> Result<()> {
    tell(USUAL, async |site| {
        site.holds_dns()?;
        site.declare("acme", acme_with_dns()).await?;
        site.sees("acme", is("DNSReady", "DNSPropagating")).await?;
        allows(site, json!({"distributions": ["E2"]})).await?;
        denied(site, "acme").await?;
        assert_eq!(site.count("CreateDistributionTenant")?, 0);
        site.removes("acme").await?;
        assert_eq!(site.zone("Z1")?, Zone::new());
        Ok(())
    })
}

#[test]
fn adoption_needs_leave() -> Result<()> {
    tell(USUAL, async |site| {
        let live = json!({"name": "acme", "distribution": "E1", "domains": ["a.example.com"]});
        site.seeds_tenant(live)?;
        allows(site, json!({})).await?;
        let adopting = json!({"adoption": {"by": "Name"}});
        site.declare("acme", with(acme(), adopting)).await?;
        denied(site, "acme").await?;
        assert_eq!(site.done()?, [""; 0]);
        site.may_take(&["acme"])?;
        allows(site, json!({"adoption": true})).await?;
        site.ready("acme").await?;
        assert_eq!(site.done()?, ["TagResource"]);
        Ok(())
    })
}

#[test]
fn a_policy_that_makes_no_sense_says_so_and_allows_nothing() -> Result<()> {
    tell(USUAL, async |site| {
        let expression = json!({"key": "team", "operator": "Sometimes"});
        let senseless = json!({
            "namespaceSelector": {"matchExpressions": [expression]}, "distributions": ["*"],
        });
        let cluster = site.cluster_wide();
        declare::<TenantPolicy>(&cluster, "senseless", &senseless).await?;
        let invalid = is("Ready", "InvalidSpec");
        cluster.until::<TenantPolicy>("senseless", invalid).await?;
        site.declare("acme", acme()).await?;
        denied(site, "acme").await?;

        let sense = json!({"spec": {"namespaceSelector": {"matchExpressions": null}}});
        change::<TenantPolicy>(&cluster, "senseless", &sense).await?;
        site.ready("acme").await?;
        let accepted = is("Ready", "Accepted");
        cluster.until::<TenantPolicy>("senseless", accepted).await?;
        Ok(())
    })
}

#[test]
fn while_policies_cannot_be_read_nothing_is_made() -> Result<()> {
    tell(USUAL, async |site| {
        allows(site, json!({})).await?;
        let roles = Api::<ClusterRole>::all(site.client());
        let reads_policies = |role: &ClusterRole| {
            let rules = role.rules.iter().flatten();
            let mut resources = rules.flat_map(|rule| rule.resources.iter().flatten());
            resources.any(|one| one == "tenantpolicies")
        };
        let all = roles.list(&ListParams::default()).await?;
        let whole: Vec<_> = all.into_iter().filter(reads_policies).collect();
        let set = async |role: &ClusterRole, keep: fn(&String) -> bool| -> Result<()> {
            let mut role = role.clone();
            role.metadata.managed_fields = None;
            role.metadata.resource_version = None;
            for rule in role.rules.iter_mut().flatten() {
                rule.resources.iter_mut().for_each(|all| all.retain(keep));
            }
            let name = role.name_any();
            roles.replace(&name, &PostParams::default(), &role).await?;
            Ok(())
        };
        for role in &whole {
            set(role, |one| one != "tenantpolicies").await?;
        }
        let started = site.start().await;
        let other = with(acme(), json!({"distributionId": "E2"}));
        site.declare("acme", other).await?;
        // Half a minute is waited for all that has to be read, before passes begin without it.
        let waiting = eventually_within(Duration::from_secs(90), "it is told", async || {
            let tenant = site.tenant("acme").await?;
            let status = tenant.status.unwrap_or_default();
            let told = word(&status.conditions, "Ready") == "False/DependencyNotReady";
            Ok(told.then_some(status))
        });
        let waiting = waiting.await;
        for role in &whole {
            set(role, |_| true).await?;
        }
        started?;
        let message = said(&waiting?.conditions, "Ready");
        assert!(message.contains("TenantPolicies"), "{message}");
        assert_eq!(site.count("CreateDistributionTenant")?, 0);
        site.start().await?;
        denied(site, "acme").await?;
        assert_eq!(site.count("CreateDistributionTenant")?, 0);
        Ok(())
    })
}

/// A path of the API server that lists or watches policies.
const POLICIES: &str = "/apis/cloudfront-tenant-operator.io/v1alpha1/tenantpolicies*";

#[test]
fn a_404_for_policies_does_not_mean_that_there_are_none() -> Result<()> {
    tell(USUAL, async |site| {
        site.seeds_distribution("E2", &json!({}))?;
        allows(site, json!({})).await?;
        let front = site.world.front().await?;
        let behind = site.world.kubeconfig_behind(front)?;
        site.start_with(|options| options.kubeconfig = behind)
            .await?;
        let ready = site.makes("live", acme()).await?;
        let spec = with(serving(&["b.example.com"]), json!({"distributionId": "E2"}));
        site.declare("refused", spec).await?;
        denied(site, "refused").await?;

        let before = site.done()?;
        let broken = Rule::on(Method::GET, POLICIES);
        front.rule(broken.status(StatusCode::NOT_FOUND, "404 page not found"));
        front.cut_all();
        let readyz = async || site.world.operator().probe("/readyz?verbose").await;
        eventually("the policies are in doubt", async || {
            let in_doubt = "TenantPolicy answered with 404";
            Ok(readyz().await?.1.contains(in_doubt).then_some(()))
        })
        .await?;
        // Edits make passes, and none of them takes the policy for gone.
        let edit = json!({"domains": [{"domain": "c.example.com"}]});
        site.edit("refused", edit).await?;
        site.waits(120).await?;
        assert_eq!(site.done()?, before);
        assert_eq!(site.status("refused").await?.id, None);
        assert_eq!(site.status("live").await?.id, ready.id);

        front.clear();
        eventually("the policies are read again", async || {
            let fine = "TenantPolicy up to date";
            Ok(readyz().await?.1.contains(fine).then_some(()))
        })
        .await?;
        denied(site, "refused").await?;
        allows(site, json!({"distributions": ["E1", "E2"]})).await?;
        site.ready("refused").await?;
        Ok(())
    })
}
