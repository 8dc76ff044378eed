//! What vault-access-operator has yet to delete is taken over, entry by entry.

use crate::stories::{Plan, Site, change_object, event, note, tell};
use api::vault::names;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};
use testkit::{Result, eventually};

/// A minute passes in a second, and what could not be taken over is looked at once a minute.
const WORLD: Plan = Plan {
    pace: 60,
    args: &["--vault-cleanup-retry=1m"],
};

#[test]
fn the_predecessors_queue_becomes_records_and_what_is_not_understood_stays_in_it() -> Result<()> {
    tell(WORLD, async |site| {
        let crew = site.crew().await?;
        let (ours, theirs) = (crew.vault_name("app"), crew.own("app"));
        for name in [&ours, &theirs] {
            let text = r#"path "secret/x" { capabilities = ["deny"] }"#;
            site.write_policy(name, text).await?;
        }
        let strange = json!({"what": "ever"});
        let policy = |name: &str| {
            json!({
                "resourceType": "policy",
                "vaultName": name,
                "connectionName": crew.connection,
                "k8sNamespace": crew.name(),
                "k8sName": "app",
                "attempts": 3,
            })
        };
        queue(site, &[policy(&ours), strange.clone(), policy(&theirs)]).await?;
        site.world.operator().restart(|_| {}).await?;

        // Unmarked as both are, only the name that we give tells that one is ours.
        let home = site.home();
        eventually("what was queued is deleted", async || {
            Ok(site.policy(&ours).await?.is_none().then_some(()))
        })
        .await?;
        eventually("no record is left", async || {
            Ok(records(site).await?.is_empty().then_some(()))
        })
        .await?;
        assert!(site.policy(&theirs).await?.is_some());

        let left = home
            .until::<ConfigMap>(names::LEGACY_CLEANUP_QUEUE, |map: &ConfigMap| {
                entries(map) == [strange.clone()]
            })
            .await?;
        let told = event(&home, &left.name_any(), "CleanupItemNotUnderstood").await?;
        assert!(note(&told).contains("ever"), "{}", note(&told));

        // A person removes it, and the queue goes.
        let none = json!({"data": {"queue": "[]"}});
        change_object::<ConfigMap>(&home, names::LEGACY_CLEANUP_QUEUE, &none).await?;
        home.gone::<ConfigMap>(names::LEGACY_CLEANUP_QUEUE).await
    })
}

async fn queue(site: &Site, entries: &[Value]) -> Result<()> {
    let map = json!({
        "metadata": {"name": names::LEGACY_CLEANUP_QUEUE},
        "data": {"queue": serde_json::to_string(entries)?},
    });
    let made = serde_json::from_value(map)?;
    site.config_maps()
        .create(&PostParams::default(), &made)
        .await?;
    Ok(())
}

fn entries(map: &ConfigMap) -> Vec<Value> {
    let text = map.data.as_ref().and_then(|data| data.get("queue"));
    let entries = text.and_then(|text| serde_json::from_str(text).ok());
    entries.unwrap_or_default()
}

async fn records(site: &Site) -> Result<Vec<ConfigMap>> {
    let labelled = format!("{}=true", names::CLEANUP_RECORD_LABEL);
    let labelled = ListParams::default().labels(&labelled);
    Ok(site.config_maps().list(&labelled).await?.items)
}
