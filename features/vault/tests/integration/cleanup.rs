//! Leftovers: what Vault did not delete in time is recorded, and deleted when that can be done.

use std::collections::BTreeMap;

use crate::stories::{Crew, Plan, Site, admits, annotate, event, note, reader, tell};
use api::vault::{VaultConnection, VaultKVSecret, VaultPolicy, VaultRole, names};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{ListParams, PostParams};
use reqwest::{Method, StatusCode};
use serde_json::json;
use testkit::fault_proxy::{AnyMethod, Rule, RuleId};
use testkit::{Result, is};

/// A minute passes in a second; objects do not wait for Vault, records wait a minute.
const WORLD: Plan = Plan {
    pace: 60,
    args: &[
        "--vault-resync=1m",
        "--vault-deletion-deadline=0",
        "--vault-cleanup-retry=1m",
    ],
};

/// A policy that nobody's marker is on.
const DENIES: &str = r#"path "secret/x" { capabilities = ["deny"] }"#;

#[test]
fn what_vault_refuses_to_delete_is_recorded_and_tried_until_it_is_gone() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let refuses = refuses(&crew, "sys/policies/*");
        let record = leave_policy(&crew).await?;
        let (name, path) = (record.name_any(), policy_path(&crew));
        let data = record.data.clone().unwrap();
        let says = |key: &str| data.get(key).map(String::as_str).unwrap_or_default();
        assert_eq!((says("kind"), says("vaultPath")), ("VaultPolicy", &*path));
        assert_eq!(says("resource"), format!("{}/app", crew.name()));
        assert_eq!(says("address"), crew.proxy.url());
        assert!(says("owner").starts_with("VaultPolicy "), "{data:?}");
        assert_eq!(says("canonicalHash").len(), 64);

        // It is tried again and again, and says what happened.
        let tried = until(site, &name, |data| {
            data["attempts"].parse::<u32>().unwrap() >= 2
        });
        let tried = tried.await?;
        assert!(tried["lastError"].contains("no such luck"), "{tried:?}");
        assert!(tried["nextAttemptAt"] > tried["lastAttemptAt"], "{tried:?}");
        assert!(site.metric("cleanup_queue_size", &[]).await? >= 1.0);
        let failures = [("resource_type", "policy"), ("result", "failure")];
        assert!(site.metric("cleanup_retries_total", &failures).await? >= 2.0);
        let home = site.home();
        let told = event(&home, &name, "DeleteFailed").await?;
        assert!(note(&told).contains(&path), "{}", note(&told));

        // After many a try it is tried once more, an hour later at most.
        let many = json!({"data": {"attempts": "99", "nextAttemptAt": null}});
        crate::stories::change_object::<ConfigMap>(&home, &name, &many).await?;
        let tried = until(site, &name, |data| {
            data["attempts"].parse::<u32>().unwrap() >= 100
        });
        let tried = tried.await?;
        let time = |key: &str| tried[key].parse::<jiff::Timestamp>();
        let wait = time("nextAttemptAt")? - time("lastAttemptAt")?;
        assert!(wait.total(jiff::Unit::Minute)? <= 66.0, "{wait}");
        let now = json!({"data": {"nextAttemptAt": null}});
        crate::stories::change_object::<ConfigMap>(&home, &name, &now).await?;

        crew.proxy.remove(refuses);
        until_gone(site, &name).await?;
        assert_eq!(site.policy(&crew.vault_name("app")).await?, None);
        event(&home, &name, "Deleted").await?;
        Ok(())
    })
}

#[test]
fn while_vault_is_away_nothing_is_tried_and_when_it_is_back_the_rest_goes() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        crew.declare::<VaultRole>("r", admits(&["sa"])).await?;
        let ready = || is("Ready", "Succeeded");
        crew.until::<VaultPolicy>("app", ready()).await?;
        crew.until::<VaultRole>("r", ready()).await?;

        let away = crew.proxy.rule(Rule::on(AnyMethod::any(), "/v1/*").reset());
        crew.proxy.cut_all();
        let down = |connection: &VaultConnection| {
            let status = connection.status.as_ref();
            status.and_then(|status| status.healthy) == Some(false)
        };
        let cluster = crew.cluster();
        cluster
            .until::<VaultConnection>(&crew.connection, down)
            .await?;
        crew.delete::<VaultRole>("r").await?;
        crew.delete::<VaultPolicy>("app").await?;
        crew.gone::<VaultRole>("r").await?;
        crew.gone::<VaultPolicy>("app").await?;
        crew.rereads("sys/health", 2).await?;
        let records = records(&crew).await?;
        assert_eq!(records.len(), 2);
        for record in &records {
            assert_eq!(record.data.as_ref().unwrap()["attempts"], "0");
        }
        crew.proxy.remove(away);
        for record in &records {
            until_gone(site, &record.name_any()).await?;
        }
        assert_eq!(site.policy(&crew.vault_name("app")).await?, None);
        assert_eq!(site.role(&crew.vault_name("r")).await?, None);
        Ok(())
    })
}

#[test]
fn what_an_object_claims_again_is_not_deleted() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let refuses = refuses(&crew, "sys/policies/*");
        let record = leave_policy(&crew).await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        let home = site.home();
        until_gone(site, &record.name_any()).await?;
        event(&home, &record.name_any(), "Superseded").await?;
        crew.proxy.remove(refuses);
        crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
            .await?;
        assert!(site.policy(&crew.vault_name("app")).await?.is_some());
        Ok(())
    })
}

#[test]
fn what_others_took_over_meanwhile_is_left_to_them() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let refuses = refuses(&crew, "sys/policies/*");
        let record = leave_policy(&crew).await?;
        let foreign = "# managed-by: vault-access-operator\n# auth-mount: elsewhere\n\
                       # k8s-resource: theirs/app\n# k8s-kind: VaultPolicy\n";
        let name = crew.vault_name("app");
        site.write_policy(&name, foreign).await?;
        crew.proxy.remove(refuses);
        let home = site.home();
        until_gone(site, &record.name_any()).await?;
        let told = event(&home, &record.name_any(), "ForeignPolicyNotDeleted").await?;
        assert!(note(&told).contains("VaultPolicy theirs/app"));
        assert_eq!(site.policy(&name).await?.as_deref(), Some(foreign));
        Ok(())
    })
}

#[test]
fn an_unmarked_role_goes_as_we_left_it_and_stays_if_it_was_changed() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        crew.declare::<VaultPolicy>("app", reader()).await?;
        for role in ["same", "changed"] {
            crew.declare::<VaultRole>(role, admits(&["sa"])).await?;
            crew.until::<VaultRole>(role, is("Ready", "Succeeded"))
                .await?;
        }
        let refuses = refuses(&crew, "auth/kubernetes/role/*");
        let changed = format!("auth/kubernetes/role/{}", crew.vault_name("changed"));
        for role in ["same", "changed"] {
            crew.delete::<VaultRole>(role).await?;
            crew.gone::<VaultRole>(role).await?;
        }
        let records = records(&crew).await?;
        assert_eq!(records.len(), 2);
        site.put(&changed, json!({"token_ttl": 77})).await?;
        crew.proxy.remove(refuses);
        let home = site.home();
        for record in &records {
            let name = record.name_any();
            until_gone(site, &name).await?;
            let stays = record.data.as_ref().unwrap()["vaultPath"] == changed;
            let reason = if stays {
                "ForeignRoleNotDeleted"
            } else {
                "Deleted"
            };
            event(&home, &name, reason).await?;
        }
        assert_eq!(site.role(&crew.vault_name("same")).await?, None);
        assert!(site.read(&changed).await?.is_some());
        Ok(())
    })
}

#[test]
fn a_seed_goes_later_too() -> Result<()> {
    tell(WORLD, async |site| {
        let grants = r#"
            path "secret/data/*" { capabilities = ["create", "read"] }
            path "secret/metadata/*" { capabilities = ["read", "patch", "delete"] }
        "#;
        site.write_policy("seeder", grants).await?;
        site.let_operator_in("kubernetes", "seeder", "seeder")
            .await?;
        let as_seeder = json!({"auth": {"kubernetes": {"role": "seeder"}}});
        let crew = site.crew_with(as_seeder).await?;
        let path = format!("{}/seed", crew.name());
        let spec = json!({"path": format!("secret/data/{path}"), "data": {"colour": "red"}});
        crew.declare::<VaultKVSecret>("seed", spec).await?;
        let seeded = |seed: &VaultKVSecret| {
            let status = seed.status.as_ref();
            status.and_then(|status| status.seeded) == Some(true)
        };
        crew.until::<VaultKVSecret>("seed", seeded).await?;
        let refuses = refuses(&crew, "secret/metadata/*");
        crew.delete::<VaultKVSecret>("seed").await?;
        crew.gone::<VaultKVSecret>("seed").await?;
        let records = records(&crew).await?;
        let data = records[0].data.as_ref().unwrap();
        assert_eq!(data["vaultPath"], format!("secret/metadata/{path}"));
        assert_eq!(data["seededVersion"], "1");
        crew.proxy.remove(refuses);
        until_gone(site, &records[0].name_any()).await?;
        let metadata = site.read(&format!("secret/metadata/{path}")).await?;
        assert_eq!(metadata, None);
        Ok(())
    })
}

#[test]
fn a_connection_waits_for_its_records_unless_they_are_abandoned() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let _refuses = refuses(&crew, "sys/policies/*");
        let record = leave_policy(&crew).await?;
        let (cluster, connection) = (crew.cluster(), &crew.connection);
        cluster.delete::<VaultConnection>(connection).await?;
        let waits = is("Deleting", "CleanupRecordsExist");
        cluster.until::<VaultConnection>(connection, waits).await?;

        let abandon = names::ABANDON_CLEANUP;
        annotate::<VaultConnection>(&cluster, connection, abandon, Some("true")).await?;
        cluster.gone::<VaultConnection>(connection).await?;
        let told = event(&cluster, connection, "CleanupAbandoned").await?;
        assert!(note(&told).contains(&policy_path(&crew)), "{}", note(&told));
        assert_eq!(told.type_.as_deref(), Some("Warning"));
        until_gone(site, &record.name_any()).await?;
        assert!(site.policy(&crew.vault_name("app")).await?.is_some());
        Ok(())
    })
}

#[test]
fn nothing_is_deleted_over_a_connection_that_leads_elsewhere() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let path = policy_path(&crew);
        crew.searched().await?; // what the search for orphans reads is none of our deletion's
        site.write_policy(&crew.vault_name("app"), DENIES).await?;
        let name = crew.own("elsewhere");
        let record = json!({
            "metadata": {"name": name, "labels": {names::CLEANUP_RECORD_LABEL: "true"}},
            "data": {
                "kind": "VaultPolicy",
                "resource": format!("{}/app", crew.name()),
                "vaultPath": path,
                "connection": crew.connection,
                "address": "https://elsewhere:8200",
            },
        });
        let made = serde_json::from_value(record)?;
        site.config_maps()
            .create(&PostParams::default(), &made)
            .await?;
        let said = until(site, &name, |data| data.contains_key("lastError")).await?;
        assert!(said["lastError"].contains("https://elsewhere:8200"));
        assert_eq!(crew.calls(Method::GET, &path), 0);

        // Told that it is there after all, it goes: its name is one of ours, and nobody claims it.
        let here = json!({"data": {"address": crew.proxy.url()}});
        crate::stories::change_object::<ConfigMap>(&site.home(), &name, &here).await?;
        until_gone(site, &name).await?;
        assert_eq!(site.policy(&crew.vault_name("app")).await?, None);
        Ok(())
    })
}

/// Makes Vault refuse all deletions below `path`.
fn refuses(crew: &Crew, path: &str) -> RuleId {
    let rule = Rule::on(Method::DELETE, &format!("/v1/{path}"));
    crew.proxy.rule(rule.status(
        StatusCode::INTERNAL_SERVER_ERROR,
        r#"{"errors":["no such luck"]}"#,
    ))
}

fn policy_path(crew: &Crew) -> String {
    format!("sys/policies/acl/{}", crew.vault_name("app"))
}

/// Declares the policy `app` and deletes it while Vault refuses that; answers the record.
async fn leave_policy(crew: &Crew) -> Result<ConfigMap> {
    crew.declare::<VaultPolicy>("app", reader()).await?;
    crew.until::<VaultPolicy>("app", is("Ready", "Succeeded"))
        .await?;
    crew.delete::<VaultPolicy>("app").await?;
    crew.gone::<VaultPolicy>("app").await?;
    event(crew, "app", "DeleteRetryEnqueued").await?;
    let mut records = records(crew).await?;
    assert_eq!(records.len(), 1);
    Ok(records.remove(0))
}

/// The records of the crew's connection.
async fn records(crew: &Crew) -> Result<Vec<ConfigMap>> {
    let labels = format!("{}=true", names::CLEANUP_RECORD_LABEL);
    let all = crew.site.config_maps();
    let mut all = all
        .list(&ListParams::default().labels(&labels))
        .await?
        .items;
    all.retain(|record| {
        let data = record.data.as_ref();
        data.and_then(|data| data.get("connection")) == Some(&crew.connection)
    });
    Ok(all)
}

/// Waits until a record says what `sign` looks for.
async fn until(
    site: &Site,
    name: &str,
    sign: impl Fn(&BTreeMap<String, String>) -> bool,
) -> Result<BTreeMap<String, String>> {
    let said = |record: &ConfigMap| record.data.as_ref().is_some_and(&sign);
    let record = site.home().until::<ConfigMap>(name, said).await?;
    Ok(record.data.unwrap_or_default())
}

/// Waits until a record is no more.
async fn until_gone(site: &Site, name: &str) -> Result<()> {
    site.home().gone::<ConfigMap>(name).await
}
