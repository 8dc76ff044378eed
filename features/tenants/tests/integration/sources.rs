//! Sources: a table becomes tenants, each row's change that tenant's alone.

use std::collections::{BTreeMap, BTreeSet};

use crate::stories::cloud::BROKEN;
use crate::stories::objects::{change, event, said, serving, with, word};
use crate::stories::{Site, USUAL, tell};
use crate::tables::places::{Place, ROWS, Table};
use crate::tables::{SOURCE, domains, lets_read, polls, reads, says, tenants, writes, written};
use api::tenants::{ChangeAction, DistributionTenant, TenantSource, names};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::{Result, is};

/// Every reading of the table took its three pages, each as it was at that moment.
async fn scans_three_pages(site: &Site) -> Result<()> {
    // One more is the beginning of the next reading.
    let scans = site.called("Scan", 4).await?;
    for (n, scan) in scans.iter().enumerate() {
        let asked: Value = serde_json::from_str(&scan.body)?;
        assert_eq!(asked["ConsistentRead"], true, "scan {n}: {asked}");
        let goes_on = asked.get("ExclusiveStartKey").is_some();
        assert_eq!(goes_on, n % 3 != 0, "scan {n}: {asked}");
    }
    Ok(())
}

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
        // As many rows as a spec can say, and more than PostgreSQL counts.
        reads(site, with(spec, json!({"maxRows": i64::MAX}))).await?;
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
        if place == Place::DynamoDb {
            scans_three_pages(site).await?;
        }

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

#[rstest]
#[case::by_the_operators_flag(true)]
#[case::by_the_operators_profile(false)]
fn a_table_that_names_no_region_is_in_the_operators(#[case] by_flag: bool) -> Result<()> {
    tell(USUAL, async |site| {
        let rows = json!([{"name": "acme", "domain": "a.example.com"}]);
        let region = "eu-central-1";
        let table = json!({"name": "sites", "key": ["name"], "region": region, "rows": rows});
        site.console("dynamodb", json!({"table": table}))?;
        let profile = format!("[default]\nregion = {region}\n");
        let profile = site.writes_file("aws-profile", profile)?;
        site.start_with(|options| {
            if by_flag {
                options.args.push(format!("--aws-region={region}"));
            } else {
                let said = [
                    ("AWS_REGION", String::new()),
                    ("AWS_DEFAULT_REGION", String::new()),
                    ("AWS_CONFIG_FILE", profile.to_string_lossy().into_owned()),
                ];
                let said = said.map(|(name, value)| (name.to_owned(), value));
                options.env.extend(said);
            }
        })
        .await?;
        let mut source = json!({"provider": "dynamodb", "dynamodb": {"tableName": "sites"}});
        if by_flag {
            // What is empty is not named either.
            source["dynamodb"]["region"] = json!("");
            source["targetNamespace"] = json!("");
        }
        reads(site, source).await?;
        says(site, is("Ready", "Polled")).await?;
        site.ready("acme").await?;
        Ok(())
    })
}

/// The series of the feature that have a value, each with the names of its labels.
fn series(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut all = BTreeMap::<_, BTreeSet<_>>::new();
    let lines = text.lines();
    for line in lines.filter_map(|line| line.strip_prefix("cloudfront_tenant_operator_")) {
        let end = line.find(['{', ' ']).unwrap_or(line.len());
        let (name, rest) = line.split_at(end);
        // What a histogram is made of.
        let parts = ["_bucket", "_sum", "_count"];
        let name = parts.iter().find_map(|part| name.strip_suffix(part));
        let name = name.unwrap_or(&line[..end]);
        let labels = rest
            .split([',', '{'])
            .filter_map(|one| one.split_once("=\""));
        let labels = labels.map(|(label, _)| label.to_owned());
        let known = all.entry(name.to_owned()).or_default();
        known.extend(labels.filter(|label| label != "le"));
    }
    all
}

#[test]
fn every_series_has_its_name_and_its_labels() -> Result<()> {
    tell(USUAL, async |site| {
        lets_read(site).await?;
        writes(site, "name,domain", &ROWS).await?;
        let dns = json!({"template": {"dns": {"provider": "route53", "hostedZoneId": "Z1"}}});
        reads(site, dns).await?;
        site.ready("acme").await?;
        site.breaks_once("UpdateDistributionTenant", BROKEN)?;
        site.edits_tenant("acme", json!({"enabled": false}))?;
        site.event("acme", "DriftCorrected").await?;
        site.ready("acme").await?;
        let wanted: [(&str, &[&str]); 9] = [
            ("reconcile_errors_total", &["error_type"]),
            ("tenants_total", &["namespace", "status"]),
            ("drift_detected_total", &[]),
            ("aws_api_call_duration_seconds", &["operation"]),
            ("aws_bucket_rate", &["account", "service"]),
            ("aws_queue_depth", &["service", "class"]),
            ("sweep_age_seconds", &["distribution"]),
            ("dns_batch_records", &[]),
            ("source_last_poll_timestamp_seconds", &["namespace", "name"]),
        ];
        let wanted = wanted.map(|(name, labels)| {
            let labels = labels.iter().map(|label| (*label).to_owned());
            (name.to_owned(), labels.collect())
        });
        let text = site.world.operator().metrics().await?;
        assert_eq!(series(&text), BTreeMap::from(wanted), "{text}");
        for name in ["reconcile_total", "reconcile_time_seconds_count"] {
            let name = format!("controller_runtime_{name}");
            let label = [("controller", "distributiontenant")];
            assert!(
                site.world.operator().metric(&name, &label).await? > 0.0,
                "{text}"
            );
        }
        Ok(())
    })
}
