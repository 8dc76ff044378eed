//! A cluster, EC2 or the cluster of the migration does not answer: the run waits, says so, and goes on afterwards.

use api::migrate::{Phase, StallReason, StatefulSetMigrationStatus, conditions};
use http::{Method, StatusCode};
use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::json;
use testkit::fault_proxy::{AnyMethod, FaultProxy, Rule, RuleId};
use testkit::stories::condition_message;
use testkit::{Result, eventually};

use crate::stories::{
    ATTACH, DESTINATION, READ, SOURCE, Shop, replicas, replicas_of, run_story_of,
};

/// A proxy of this story alone, through which its migration reaches a cluster.
async fn proxy(shop: &Shop, cluster: &str) -> Result<FaultProxy> {
    let proxy = shop.cluster(cluster).control_plane().proxy().await?;
    shop.use_proxy(cluster, &proxy).await?;
    Ok(proxy)
}

/// From the first request that `trigger` has refused the cluster does not answer, until the run has stalled.
async fn outage(
    shop: &Shop,
    cluster: &str,
    proxy: &FaultProxy,
    trigger: RuleId,
) -> Result<StatefulSetMigrationStatus> {
    let is_refused = async || Ok((proxy.hits(trigger) > 0).then_some(()));
    eventually("the run comes to the request", is_refused).await?;
    let all = Rule::on(AnyMethod::any(), "*").ending_watches();
    let all = proxy.rule(all.reset());
    let status = shop.until_stalled(StallReason::ClusterUnreachable).await?;
    let message = condition_message(&status.conditions, conditions::STALLED);
    assert!(message.contains(cluster), "{message}");
    proxy.remove(trigger);
    proxy.remove(all);
    Ok(status)
}

/// The run is complete, and has never failed.
async fn assert_never_failed(shop: &Shop) -> Result<()> {
    let status = shop.until_phase(Phase::Completed).await?;
    let mut all = status.conditions.iter();
    assert_eq!(all.find(|one| one.type_ == conditions::FAILED), None);
    assert_eq!(shop.disks(&shop.destination).await?, shop.own_disks());
    Ok(())
}

#[test]
fn an_outage_of_a_cluster_stalls_and_the_run_resumes() -> Result<()> {
    run_story_of(replicas(1), async |shop| {
        shop.open_shop().await?;
        let source = proxy(shop, SOURCE).await?;
        let destination = proxy(shop, DESTINATION).await?;
        let set = "/apis/apps/v1/namespaces/*/statefulsets/web";
        let lock = source.rule(Rule::on(Method::POST, "*/configmaps").reset());
        let grow = destination.rule(Rule::on(Method::PATCH, set).reset());
        let clean = source.rule(Rule::on(Method::DELETE, "*/persistentvolumes/*").reset());
        shop.migrate(&json!({})).await?;
        let freezing = outage(shop, SOURCE, &source, lock).await?;
        assert_eq!(freezing.phase, Some(Phase::FreezingSource));
        let moving = outage(shop, DESTINATION, &destination, grow).await?;
        assert_eq!(moving.phase, Some(Phase::MigratingPods));
        assert_eq!(
            replicas_of(shop.stateful_set(&shop.destination).await?.as_ref()),
            0
        );
        let finalizing = outage(shop, SOURCE, &source, clean).await?;
        assert_eq!(finalizing.phase, Some(Phase::Finalizing));
        assert_never_failed(shop).await?;
        assert_eq!(shop.disks(&shop.source).await?, []);
        Ok(())
    })
}

#[test]
fn nothing_is_written_while_the_object_is_unreachable() -> Result<()> {
    run_story_of(replicas(1), async |shop| {
        shop.open_shop().await?;
        shop.migrate(&json!({"ordinalLimit": 0})).await?;
        shop.until_paused("OrdinalLimit").await?;
        let proxy = shop.cluster(DESTINATION).proxy();
        let own = format!("/namespaces/{}/", shop.ops.name());
        let down = Rule::on_regex(AnyMethod::any(), &own)?;
        let down = proxy.rule(down.status(StatusCode::SERVICE_UNAVAILABLE, ""));
        let marks = [SOURCE, DESTINATION].map(|name| (name, shop.cluster(name).mark()));
        shop.edit(&json!({"ordinalLimit": 1})).await?;
        let has_tried = async || Ok((proxy.hits(down) >= 4).then_some(()));
        eventually("the operator tries to reach the object", has_tried).await?;
        for (name, mark) in marks {
            let writes = shop.writes_since(name, mark).await?;
            assert!(writes.is_empty(), "{name}: {writes:?}");
        }
        assert_eq!(shop.ready_pods(&shop.source).await?, ["web-0"]);
        proxy.remove(down);
        assert_never_failed(shop).await
    })
}

#[test]
fn an_outage_of_ec2_stalls_and_the_run_resumes() -> Result<()> {
    run_story_of(replicas(1), async |shop| {
        shop.open_shop().await?;
        let calls = async |class: &str| {
            let labels = [("action", READ.0), ("class", class)];
            let operator = shop.cluster(DESTINATION).operator();
            let name = "pontoon_migrate_ec2_calls_total";
            operator.metric(name, &labels).await
        };
        let (throttled, failed) = (calls("throttled").await?, calls("transient").await?);
        shop.migrate(&json!({"ordinalLimit": 0, "attachTimeout": "20s"}))
            .await?;
        shop.until_paused("OrdinalLimit").await?;
        let throttle = shop.fail_ec2(READ, 0, "throttle")?;
        shop.edit(&json!({"ordinalLimit": 1})).await?;
        let status = shop.until_stalled(StallReason::Ec2Unavailable).await?;
        assert_eq!(status.phase, Some(Phase::MigratingPods));
        assert!(calls("throttled").await? > throttled);

        // The disk is not attached before EC2 fails in another way.
        let unattached = shop.fail_ec2(ATTACH, 0, "deny")?;
        drop(throttle);
        let has_grown = |set: &StatefulSet| replicas_of(Some(set)) == 1;
        let grown = shop.destination.until::<StatefulSet>("web", has_grown);
        grown.await?;
        let failing = shop.fail_ec2(READ, 0, "500")?;
        drop(unattached);
        // The limit of the attachment is shorter than that of an outage, and does not count.
        let status = shop.until_stalled(StallReason::Ec2Unavailable).await?;
        assert_eq!(status.phase, Some(Phase::MigratingPods));
        assert!(calls("transient").await? > failed);
        drop(failing);
        assert_never_failed(shop).await
    })
}
