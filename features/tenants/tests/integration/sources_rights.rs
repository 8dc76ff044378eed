//! What a source may: read where it was let, make objects where it is accepted, and tell no secret.

use crate::stories::objects::{change, declare, event, said, with, word};
use crate::stories::{Plan, Site, USUAL, tell};
use crate::tables::places::{Place, ROWS, Table, keeps_address};
use crate::tables::{SOURCE, lets_read, reads, says, tenants, writes};
use api::tenants::{DistributionTenant, TenantPolicy, TenantSource, names};
use k8s_openapi::api::core::v1::Namespace;
use rstest::rstest;
use serde_json::{Value, json};
use testkit::{Postgres, Result, is};

/// Makes a policy for the story's namespace that allows E1, changed by a merge patch.
async fn allows(site: &Site, change: Value) -> Result<()> {
    let spec = json!({"namespaces": [site.name()], "distributions": ["E1"]});
    let spec = with(spec, change);
    declare::<TenantPolicy>(&site.cluster_wide(), "web", &spec).await
}

#[test]
fn a_namespace_whose_tables_may_not_be_read_is_told_which_right_is_missing() -> Result<()> {
    tell(USUAL, async |site| {
        writes(site, "name,domain", &ROWS).await?;
        reads(site, json!({})).await?;
        let status = says(site, is("Ready", "PollFailed")).await?;
        let message = said(&status.conditions, "Ready");
        assert!(message.contains("configmaps"), "{message}");
        assert!(message.contains(site.name()), "{message}");
        lets_read(site).await?;
        site.ready("shop").await?;
        Ok(())
    })
}

#[test]
fn a_secret_of_the_database_is_told_to_nobody() -> Result<()> {
    tell(USUAL, async |site| {
        lets_read(site).await?;
        let (hidden, database) = ("hush-hush-password", Postgres::start().await?);
        let address = database.connection_string_as("nobody", hidden);
        keeps_address(site, &database, address).await?;
        reads(
            site,
            json!({"provider": "postgres", "postgres": {
                "connectionSecretRef": {"name": "database"}, "query": "SELECT 1",
            }}),
        )
        .await?;
        let status = says(site, is("Ready", "PollFailed")).await?;
        let message = said(&status.conditions, "Ready");
        let note = event(site, SOURCE, "PollFailed").await?;
        // The pass logs how it ended last of all.
        site.world.operator().logs(site.name()).await?;
        let log = site.world.operator().log();
        for told in [&message, &note, &log] {
            assert!(!told.contains(hidden), "{told}");
        }
        Ok(())
    })
}

#[test]
fn another_namespace_has_to_accept_the_source() -> Result<()> {
    tell(USUAL, async |site| {
        lets_read(site).await?;
        let other = site.namespace("shop").await?;
        writes(site, "name,domain", &ROWS).await?;
        reads(site, json!({"targetNamespace": other.name()})).await?;
        let status = says(site, is("Ready", "PolicyDenied")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/PolicyDenied");
        let message = said(&status.conditions, "Ready");
        assert!(message.contains(other.name()), "{message}");
        assert!(message.contains(names::ACCEPT_SOURCES), "{message}");
        assert!(tenants(&other).await?.is_empty());

        let accepts = format!("elsewhere,{}", site.name());
        let annotation = json!({"metadata": {"annotations": {names::ACCEPT_SOURCES: accepts}}});
        change::<Namespace>(&site.cluster_wide(), other.name(), &annotation).await?;
        let ready = is("Ready", "Deployed");
        other.until::<DistributionTenant>("acme", ready).await?;
        let ready = is("Ready", "Deployed");
        other.until::<DistributionTenant>("shop", ready).await?;
        assert!(tenants(site).await?.is_empty());
        Ok(())
    })
}

#[test]
fn a_table_in_dynamodb_needs_leave_where_there_are_policies() -> Result<()> {
    tell(USUAL, async |site| {
        allows(site, json!({"dynamodbTables": ["others"]})).await?;
        let table = Table::at(Place::DynamoDb).await?;
        let spec = table.furnish(site).await?;
        reads(site, spec).await?;
        let status = says(site, is("Ready", "PolicyDenied")).await?;
        let message = said(&status.conditions, "Ready");
        assert!(message.contains("sites"), "{message}");
        assert_eq!(site.count("Scan")?, 0);
        allows(site, json!({"dynamodbTables": ["sites"]})).await?;
        site.ready("acme").await?;
        Ok(())
    })
}

#[rstest]
#[case::distribution(
    json!({"distributionId": "E2"}), "E2", json!({"distributions": ["E1", "E2"]})
)]
#[case::zone_of_the_template(
    json!({"template": {"dns": {"provider": "route53", "hostedZoneId": "Z2"}}}), "Z2",
    json!({"hostedZones": ["Z2"]})
)]
fn what_a_source_names_needs_leave_before_its_table_is_read(
    #[case] named: Value,
    #[case] refused: &'static str,
    #[case] allowed: Value,
) -> Result<()> {
    tell(USUAL, async |site| {
        lets_read(site).await?;
        site.seeds_distribution("E2", &json!({}))?;
        site.seeds_zone("Z2", "example.com")?;
        allows(site, json!({})).await?;
        writes(site, "name,domain", &ROWS).await?;
        let mark = site.world.mark();
        reads(site, named).await?;
        let status = says(site, is("Ready", "PolicyDenied")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/PolicyDenied");
        let message = said(&status.conditions, "Ready");
        assert!(message.contains(refused), "{message}");
        event(site, SOURCE, "PolicyDenied").await?;
        // Longer than the interval at which it would be read.
        site.waits(60).await?;
        let asked = site.world.control_plane().entries_since(mark).await?;
        let mut read = asked
            .iter()
            .filter(|one| one.verb == "get" && one.resource == "configmaps" && one.name == SOURCE);
        assert_eq!(read.next(), None);
        assert!(tenants(site).await?.is_empty());

        allows(site, allowed).await?;
        site.ready("acme").await?;
        site.ready("shop").await?;
        Ok(())
    })
}

/// Time runs as it does: nothing is looked at again by itself while somebody waits.
const SLOW: Plan = Plan { pace: 1, ..USUAL };

#[test]
fn a_source_hears_of_a_label_of_its_namespace_that_gives_it_leave() -> Result<()> {
    tell(SLOW, async |site| {
        lets_read(site).await?;
        let labelled = json!({"namespaces": null, "namespaceSelector": {
            "matchLabels": {"team": "shop"},
        }});
        allows(site, labelled).await?;
        writes(site, "name,domain", &ROWS).await?;
        reads(site, json!({})).await?;
        let status = says(site, is("Ready", "PolicyDenied")).await?;
        let message = said(&status.conditions, "Ready");
        assert!(message.contains(site.name()), "{message}");
        let label = json!({"metadata": {"labels": {"team": "shop"}}});
        change::<Namespace>(&site.cluster_wide(), site.name(), &label).await?;
        let is_there = |_: &DistributionTenant| true;
        site.until::<DistributionTenant>("acme", is_there).await?;
        Ok(())
    })
}

#[test]
fn the_default_group_may_be_named_by_its_id() -> Result<()> {
    tell(USUAL, async |site| {
        lets_read(site).await?;
        allows(site, json!({"connectionGroups": ["default"]})).await?;
        writes(site, "name,domain", &ROWS).await?;
        // A new process does not know at first which one it is, and asks before it judges.
        let by_id = json!({"template": {"connectionGroupId": "cg0"}});
        reads(site, by_id).await?;
        site.ready("acme").await?;
        let other = json!({"spec": {"template": {"connectionGroupId": "cg1"}}});
        change::<TenantSource>(site, SOURCE, &other).await?;
        let status = says(site, is("Ready", "PolicyDenied")).await?;
        let message = said(&status.conditions, "Ready");
        assert!(message.contains("cg1"), "{message}");
        Ok(())
    })
}
