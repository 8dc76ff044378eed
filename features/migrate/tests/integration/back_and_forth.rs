//! A set goes to the destination, and returns by a second migration in which the clusters are exchanged.

use api::migrate::Phase;
use api::migrate::names::{DEST_NAMESPACE_LABEL, MIGRATED_FROM, RUN};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolume, Secret};
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use testkit::{Result, Story};

use crate::stories::{DESTINATION, SOURCE, Shop, replicas, run_story_of};

/// The name of the second migration.
const RETURN: &str = "return";

/// A login of the verb is good for both sides of a run.
fn make_login(shop: &Shop, cluster: &str) -> Result<()> {
    let args = ["kubeconfig", "--context", cluster, "--apply", "--yes"];
    shop.verb(&args)?.exits(0);
    Ok(())
}

fn login(cluster: &str) -> Value {
    json!({"kubeConfigSecret": format!("{cluster}-kubeconfig")})
}

/// The PersistentVolume of the set in a cluster, and the reclaim policy.
async fn volume(shop: &Shop, team: &Story) -> Result<(PersistentVolume, Option<String>)> {
    let volumes = Api::<PersistentVolume>::all(team.client());
    let volume = volumes.get(&shop.set.persistent_volume("data", 0)).await?;
    let spec = volume.spec.as_ref();
    let policy = spec.and_then(|spec| spec.persistent_volume_reclaim_policy.clone());
    Ok((volume, policy))
}

/// No object of the set, no fence, lock or capture is left in a cluster.
async fn assert_empty(shop: &Shop, team: &Story) -> Result<()> {
    assert_eq!(shop.definition(team).await?, Vec::<Value>::new());
    assert_eq!(shop.disks(team).await?, []);
    let secrets = Api::<Secret>::namespaced(team.client(), team.name());
    let secrets = secrets.list(&ListParams::default()).await?;
    let captures = secrets.iter().map(ResourceExt::name_any);
    let captures: Vec<String> = captures.filter(|name| name.starts_with("stsm-")).collect();
    assert_eq!(captures, Vec::<String>::new());
    Ok(())
}

#[test]
fn a_set_goes_and_returns_and_leaves_nothing_behind() -> Result<()> {
    run_story_of(replicas(1), async |shop| {
        shop.open_shop().await?;
        let before = shop.stateful_set(&shop.source).await?;
        for cluster in [SOURCE, DESTINATION] {
            make_login(shop, cluster)?;
        }
        let fields = json!({
            "sourceCluster": login(SOURCE), "destCluster": login(DESTINATION),
            "destReclaimPolicy": "Restore",
        });
        shop.migrate(&fields).await?;
        let first = shop.until_phase(Phase::Completed).await?;
        assert_empty(shop, &shop.source).await?;
        assert_eq!(shop.disks(&shop.destination).await?, shop.own_disks());
        assert_eq!(
            volume(shop, &shop.destination).await?.1.as_deref(),
            Some("Delete")
        );
        shop.audit(&[]).await?.exits(0);

        let fields = json!({
            "sourceCluster": login(DESTINATION), "destCluster": login(SOURCE),
            "sourceNamespace": shop.destination.name(), "destNamespace": shop.source.name(),
            "destReclaimPolicy": "Restore",
        });
        shop.migrate_as(RETURN, &fields).await?;
        let second = shop.until_phase_of(RETURN, Phase::Completed).await?;
        assert_ne!(second.run_id, first.run_id);
        assert_empty(shop, &shop.destination).await?;
        assert_eq!(shop.disks(&shop.source).await?, shop.own_disks());
        assert_eq!(shop.ready_pods(&shop.source).await?, ["web-0"]);
        let after = shop.stateful_set(&shop.source).await?;
        let spec = |set: &Option<StatefulSet>| set.as_ref().and_then(|set| set.spec.clone());
        assert_eq!(spec(&after), spec(&before));

        // What the first run has written is not taken for the second's.
        let (volume, policy) = volume(shop, &shop.source).await?;
        assert_eq!(policy.as_deref(), Some("Delete"));
        assert_eq!(volume.annotations().get(RUN), second.run_id.as_ref());
        let namespace = volume.labels().get(DEST_NAMESPACE_LABEL);
        assert_eq!(namespace.map(String::as_str), Some(shop.source.name()));
        let origin = after
            .as_ref()
            .map(|set| set.annotations().get(MIGRATED_FROM));
        let left = format!("{}/web", shop.destination.name());
        assert_eq!(origin.flatten(), Some(&left));
        shop.audit(&[]).await?.exits(0);
        Ok(())
    })
}
