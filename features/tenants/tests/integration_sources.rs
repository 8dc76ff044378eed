//! Sources: a table becomes tenants, each row's change that tenant's alone.

mod stories;
mod tables;

use api::tenants::{ChangeAction, DistributionTenant, TenantSource, names};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use rstest::rstest;
use serde_json::json;
use stories::objects::{change, event, said, serving, word};
use stories::{USUAL, tell};
use tables::places::{Place, ROWS, Table};
use tables::{SOURCE, domains, lets_read, polls, reads, says, tenants, writes, written};
use testkit::{Result, is};

#[rstest]
#[case::config_map(Place::ConfigMap)]
#[case::dynamodb(Place::DynamoDb)]
#[case::postgres(Place::Postgres)]
fn rows_become_marked_objects_and_a_changed_row_changes_its_own(
    #[case] place: Place,
) -> Result<()> {
    tell(USUAL, async |site| {
        lets_read(site).await?;
        let table = Table::at(place).await?;
        let spec = table.furnish(site).await?;
        reads(site, spec).await?;
        let status = says(site, is("Ready", "Polled")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "True/Polled");
        assert_eq!(word(&status.conditions, "Pruned"), "True/UpToDate");
        assert_eq!(status.tenants_discovered, Some(2));
        site.ready("acme").await?;
        site.ready("shop").await?;

        let made = tenants(site).await?;
        assert_eq!(made.len(), 2);
        assert_eq!(domains(&made["acme"]), ["a.example.com", "b.example.com"]);
        assert_eq!(domains(&made["shop"]), ["c.example.com"]);
        let sources = Api::<TenantSource>::namespaced(site.client(), site.name());
        let source = sources.get(SOURCE).await?;
        for tenant in made.values() {
            assert_eq!(tenant.labels()[names::SOURCE_LABEL], SOURCE);
            let uid = Some(&tenant.annotations()[names::SOURCE_UID]);
            assert_eq!(uid, source.uid().as_ref());
            assert!(tenant.owner_references().is_empty());
        }
        assert_eq!(site.domains("acme")?, ["a.example.com", "b.example.com"]);
        event(site, SOURCE, "TenantCreated").await?;

        let mark = site.world.mark();
        table.moves_shop(site).await?;
        let moved = |one: &DistributionTenant| domains(one) == ["d.example.com"];
        site.until::<DistributionTenant>("shop", moved).await?;
        event(site, SOURCE, "TenantUpdated").await?;
        let updated = |source: &TenantSource| {
            let status = source.status.as_ref();
            status.is_some_and(|status| status.tenants_updated == Some(1))
        };
        let status = says(site, updated).await?;
        assert_eq!(status.tenants_created, Some(2));
        assert_eq!(written(site, mark).await?, ["shop"]);
        Ok(())
    })
}

#[test]
fn a_table_that_did_not_change_is_read_and_nothing_is_written() -> Result<()> {
    tell(USUAL, async |site| {
        lets_read(site).await?;
        writes(site, "name,domain", &ROWS).await?;
        reads(site, json!({})).await?;
        site.ready("acme").await?;
        site.ready("shop").await?;
        polls(site, 1).await?;
        let mark = site.world.mark();
        polls(site, 3).await?;
        assert_eq!(site.world.writes_since(mark).await?, []);
        Ok(())
    })
}

#[test]
fn columns_and_template_make_the_spec_and_the_row_wins() -> Result<()> {
    tell(USUAL, async |site| {
        lets_read(site).await?;
        site.seeds_distribution("E2", &json!({}))?;
        let header = "name,domain,enabled,connection_group_id,distribution_id,param_tier,tag_team";
        let rows = [
            "acme,a.example.com,false,cg0,E2,gold,shop",
            "plain,b.example.com,,,,,",
        ];
        writes(site, header, &rows).await?;
        let template = json!({
            "parameters": [{"name": "tier", "value": "lead"}], "deletionPolicy": "Retain",
            "driftPolicy": "report",
            "managedCertificateRequest": {"validationTokenHost": "self-hosted"},
        });
        reads(site, json!({"template": template})).await?;
        site.ready("acme").await?;
        site.ready("plain").await?;
        let made = tenants(site).await?;
        let spec = |name: &str| serde_json::to_value(&made[name].spec);
        let (acme, plain) = (spec("acme")?, spec("plain")?);
        assert_eq!(acme["enabled"], false);
        assert_eq!(acme["connectionGroupId"], "cg0");
        assert_eq!(acme["distributionId"], "E2");
        assert_eq!(
            acme["parameters"],
            json!([{"name": "tier", "value": "gold"}])
        );
        assert_eq!(acme["tags"], json!([{"key": "team", "value": "shop"}]));
        assert_eq!(plain["enabled"], true);
        assert_eq!(plain["distributionId"], "E1");
        assert_eq!(plain["parameters"], template["parameters"]);
        for (one, domain) in [(&acme, "a.example.com"), (&plain, "b.example.com")] {
            assert_eq!(one["deletionPolicy"], "Retain");
            assert_eq!(one["driftPolicy"], "report");
            let request = &one["managedCertificateRequest"];
            assert_eq!(request["primaryDomainName"], domain);
        }
        Ok(())
    })
}

#[test]
fn wrong_rows_are_named_and_their_tenants_left_as_they_are() -> Result<()> {
    tell(USUAL, async |site| {
        lets_read(site).await?;
        writes(site, "name,domain", &ROWS).await?;
        // Deleting is on: a wrong row is not a missing one.
        let prune = json!({"enabled": true, "maxDeletePercent": 100, "confirmPolls": 1});
        reads(site, json!({"prune": prune})).await?;
        site.ready("acme").await?;
        let mark = site.world.mark();
        let rows = ["acme,not a domain", ROWS[2], "fresh,d.example.com"];
        writes(site, "name,domain", &rows).await?;
        let status = says(site, is("Ready", "RowsInvalid")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/RowsInvalid");
        let message = said(&status.conditions, "Ready");
        assert!(message.contains("acme"), "{message}");
        let [wrong] = status.row_errors.as_slice() else {
            panic!("{:?}", status.row_errors);
        };
        assert!(wrong.contains("acme"), "{wrong}");
        site.ready("fresh").await?;
        polls(site, 2).await?;
        let made = tenants(site).await?;
        assert_eq!(domains(&made["acme"]), ["a.example.com", "b.example.com"]);
        assert_eq!(written(site, mark).await?, ["fresh"]);
        Ok(())
    })
}

#[test]
fn an_object_that_is_not_the_sources_is_a_conflict_and_never_touched() -> Result<()> {
    tell(USUAL, async |site| {
        lets_read(site).await?;
        let own = serving(&["x.example.com"]);
        site.makes("acme", own).await?;
        let before = site.tenant("acme").await?;
        writes(site, "name,domain", &ROWS).await?;
        reads(site, json!({})).await?;
        let conflict = |source: &TenantSource| {
            let pending = source
                .status
                .iter()
                .flat_map(|status| &status.pending_changes);
            let mut conflicts = pending.filter(|one| one.action == ChangeAction::Conflict);
            conflicts.any(|one| one.tenant_name == "acme")
        };
        says(site, conflict).await?;
        site.ready("shop").await?;
        polls(site, 2).await?;
        let after = site.tenant("acme").await?;
        assert_eq!(after.spec, before.spec);
        assert_eq!(after.labels(), before.labels());
        Ok(())
    })
}

#[test]
fn what_people_change_of_a_tenant_is_changed_back() -> Result<()> {
    tell(USUAL, async |site| {
        lets_read(site).await?;
        writes(site, "name,domain", &ROWS).await?;
        reads(site, json!({})).await?;
        site.ready("shop").await?;
        site.edit("shop", serving(&["x.example.com"])).await?;
        let back = |one: &DistributionTenant| domains(one) == ["c.example.com"];
        site.until::<DistributionTenant>("shop", back).await?;
        site.ready("shop").await?;
        Ok(())
    })
}

#[test]
fn a_table_that_cannot_be_read_changes_nothing() -> Result<()> {
    tell(USUAL, async |site| {
        lets_read(site).await?;
        writes(site, "name,domain", &ROWS).await?;
        let prune = json!({"enabled": true, "maxDeletePercent": 100, "confirmPolls": 1});
        reads(site, json!({"prune": prune})).await?;
        site.ready("acme").await?;
        site.ready("shop").await?;
        let maps = Api::<ConfigMap>::namespaced(site.client(), site.name());
        maps.delete(SOURCE, &DeleteParams::default()).await?;
        let status = says(site, is("Ready", "PollFailed")).await?;
        assert_eq!(word(&status.conditions, "Ready"), "False/PollFailed");
        let message = said(&status.conditions, "Ready");
        assert!(message.contains(SOURCE), "{message}");
        event(site, SOURCE, "PollFailed").await?;

        // More rows than may be read are none that were read to their end.
        let few = json!({"spec": {"maxRows": 2}});
        change::<TenantSource>(site, SOURCE, &few).await?;
        writes(
            site,
            "name,domain",
            &["only,d.example.com", ROWS[0], ROWS[2]],
        )
        .await?;
        let too_many = |source: &TenantSource| {
            let status = source.status.clone().unwrap_or_default();
            said(&status.conditions, "Ready").contains("maxRows")
        };
        says(site, too_many).await?;
        polls(site, 2).await?;
        let names: Vec<_> = tenants(site).await?.into_keys().collect();
        assert_eq!(names, ["acme", "shop"]);
        Ok(())
    })
}

#[test]
fn a_source_that_goes_deletes_nothing() -> Result<()> {
    tell(USUAL, async |site| {
        lets_read(site).await?;
        writes(site, "name,domain", &ROWS).await?;
        reads(site, json!({})).await?;
        site.ready("acme").await?;
        site.ready("shop").await?;
        site.delete::<TenantSource>(SOURCE).await?;
        site.gone::<TenantSource>(SOURCE).await?;
        site.makes("beside", serving(&["x.example.com"])).await?;
        site.stays_quiet(2).await?;
        assert_eq!(tenants(site).await?.len(), 3);
        Ok(())
    })
}
