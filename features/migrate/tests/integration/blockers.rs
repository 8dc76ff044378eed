//! What stops a run before its start, and what lets it begin. The source is untouched by all of it.

use api::migrate::{CheckId, Phase};
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use serde_json::json;
use testkit::Result;
use testkit::disks::SetPlan;
use testkit::stories::annotate;

use crate::stories::{
    DESTINATION, NAME, SOURCE, foreign_volume, has_condition, ids, message, replicas, run_story_of,
};

#[test]
fn foreign_destination_objects_block_before_any_write() -> Result<()> {
    run_story_of(replicas(2), async |shop| {
        shop.open_shop().await?;
        let mut set = shop.set.stateful_set();
        set["metadata"]["namespace"] = json!(shop.destination.name());
        set["spec"]["replicas"] = json!(0);
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data-web-0"},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "",
                "resources": {"requests": {"storage": "10Gi"}},
            },
        });
        let name = format!("{}-foreign", shop.destination.name());
        let volume = foreign_volume(&name, &shop.set.volume("data", 1));
        for object in [&set, &claim, &volume] {
            shop.destination.apply(&object.to_string()).await?;
        }
        let mark = shop.cluster(SOURCE).mark();
        shop.migrate(&json!({})).await?;
        let findings = shop.until_blocked(NAME).await?;
        let of_set = message(&findings, CheckId::DestStatefulSet);
        assert!(of_set.contains("web"), "{findings:?}");
        let of_claims = message(&findings, CheckId::DestClaims);
        assert!(of_claims.contains("data-web-0"), "{findings:?}");
        assert!(of_claims.contains("-foreign"), "{findings:?}");
        let writes = shop.writes_since(SOURCE, mark).await?;
        assert!(writes.is_empty(), "{writes:?}");
        assert_eq!(shop.ready_pods(&shop.source).await?, ["web-0", "web-1"]);
        Ok(())
    })
}

#[test]
fn one_blocker_lists_all_that_the_template_lacks() -> Result<()> {
    run_story_of(replicas(1), async |shop| {
        let needed = [
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}}),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "runner"}}),
        ];
        for object in &needed {
            shop.source.apply(&object.to_string()).await?;
        }
        let pod = json!({
            "serviceAccountName": "runner",
            "volumes": [
                {"name": "settings", "configMap": {"name": "settings"}},
                {"name": "login", "secret": {"secretName": "login"}},
            ],
        });
        shop.open_shop_with(&json!({"spec": {"template": {"spec": pod}}}))
            .await?;
        shop.migrate(&json!({"dryRun": true})).await?;
        let findings = shop.until_blocked(NAME).await?;
        assert_eq!(ids(&findings), [CheckId::Dependencies], "{findings:?}");
        let destination = shop.destination.name();
        for (kind, name) in [
            ("ConfigMap", "settings"),
            ("Secret", "login"),
            ("ServiceAccount", "runner"),
        ] {
            let subject = format!("{kind} {destination}/{name}");
            assert!(findings[0].1.contains(&subject), "{findings:?}");
        }
        for object in &needed {
            shop.destination.apply(&object.to_string()).await?;
        }
        shop.edit(&json!({"retry": 1})).await?;
        shop.until_phase(Phase::Planned).await?;
        Ok(())
    })
}

#[test]
fn an_unready_pod_blocks_until_it_is_accepted() -> Result<()> {
    const NEVER_READY: &str = "sim.pontoon.test/never-ready";
    // All stories share the nodes: no other one has pods of this name.
    let set = SetPlan {
        name: "slow".to_owned(),
        ..replicas(1)
    };
    run_story_of(set, async |shop| {
        shop.open_shop().await?;
        let is_bound = |pod: &Pod| {
            pod.spec
                .as_ref()
                .is_some_and(|spec| spec.node_name.is_some())
        };
        let pod = shop.source.until::<Pod>("slow-0", is_bound).await?;
        let node = pod.spec.and_then(|spec| spec.node_name).unwrap_or_default();
        let nodes = shop.cluster(SOURCE).cluster();
        annotate::<Node>(&nodes, &node, NEVER_READY, Some("slow-0")).await?;
        let is_unready = |pod: &Pod| has_condition(pod, "Ready", "False");
        shop.source.until::<Pod>("slow-0", is_unready).await?;
        shop.migrate(&json!({"dryRun": true, "force": true}))
            .await?;
        let findings = shop.until_blocked(NAME).await?;
        assert_eq!(ids(&findings), [CheckId::Health], "{findings:?}");
        assert!(findings[0].1.contains("slow-0"), "{findings:?}");
        shop.edit(&json!({"acknowledge": ["Health/0"]})).await?;
        shop.until_phase(Phase::Planned).await?;
        annotate::<Node>(&nodes, &node, NEVER_READY, None).await
    })
}

#[test]
fn owners_and_autoscalers_block_until_they_are_accepted() -> Result<()> {
    run_story_of(replicas(1), async |shop| {
        let labels = json!({"argocd.argoproj.io/instance": "web"});
        shop.open_shop_with(&json!({"metadata": {"labels": labels}}))
            .await?;
        let autoscaler = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "scaler"},
            "spec": {
                "minReplicas": 1, "maxReplicas": 1,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
            },
        });
        shop.source.apply(&autoscaler.to_string()).await?;
        shop.migrate(&json!({"dryRun": true, "force": true}))
            .await?;
        let findings = shop.until_blocked(NAME).await?;
        let expected = [CheckId::Owner, CheckId::Autoscaler];
        assert_eq!(ids(&findings), expected, "{findings:?}");
        assert!(findings[0].1.contains("Argo CD"), "{findings:?}");
        assert!(findings[1].1.contains("scaler"), "{findings:?}");
        shop.edit(&json!({"acknowledge": ["Owner", "Autoscaler"]}))
            .await?;
        shop.until_phase(Phase::Planned).await?;
        Ok(())
    })
}

#[test]
fn two_kubeconfigs_of_one_cluster_block_the_run() -> Result<()> {
    run_story_of(replicas(1), async |shop| {
        shop.migrate(&json!({"sourceCluster": {"kubeConfigSecret": DESTINATION}}))
            .await?;
        let findings = shop.until_blocked(NAME).await?;
        let identity = message(&findings, CheckId::ClusterIdentity);
        assert!(identity.contains("one cluster"), "{findings:?}");
        Ok(())
    })
}

#[test]
fn a_missing_headless_service_stops_the_run_unless_forced() -> Result<()> {
    run_story_of(replicas(1), async |shop| {
        shop.open_shop().await?;
        shop.destination.delete::<Service>("web").await?;
        shop.destination.gone::<Service>("web").await?;
        shop.migrate(&json!({"dryRun": true})).await?;
        let findings = shop.until_blocked(NAME).await?;
        assert_eq!(ids(&findings), [CheckId::HeadlessService], "{findings:?}");
        shop.edit(&json!({"force": true})).await?;
        shop.until_phase(Phase::Planned).await?;
        Ok(())
    })
}
