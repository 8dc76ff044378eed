//! What a source may: read where it was let, make objects where it is accepted, and tell no secret.

mod stories;
mod tables;

use api::tenants::{DistributionTenant, TenantPolicy, names};
use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};
use stories::objects::{change, declare, event, said, word};
use stories::{USUAL, tell};
use tables::places::{Place, ROWS, Table, keeps_address};
use tables::{SOURCE, lets_read, reads, says, tenants, writes};
use testkit::{Postgres, Result, is};

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
        let allows = async |tables: Value| {
            let spec = json!({
                "namespaces": [site.name()], "distributions": ["E1"], "dynamodbTables": tables,
            });
            declare::<TenantPolicy>(&site.cluster_wide(), "web", &spec).await
        };
        allows(json!(["others"])).await?;
        let table = Table::at(Place::DynamoDb).await?;
        let spec = table.furnish(site).await?;
        reads(site, spec).await?;
        let status = says(site, is("Ready", "PolicyDenied")).await?;
        let message = said(&status.conditions, "Ready");
        assert!(message.contains("sites"), "{message}");
        assert_eq!(site.count("Scan")?, 0);
        allows(json!(["sites"])).await?;
        site.ready("acme").await?;
        Ok(())
    })
}
