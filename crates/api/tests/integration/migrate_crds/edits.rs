//! Which edits are refused, before and after the run has started.

use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use rstest::rstest;
use serde_json::{Value, json};
use testkit::Result;

use super::server::{api, object, refusal, served, spec};

/// Edits an object that was made from `first` and has this status.
async fn edited(first: &Value, status: &Value, edit: &Value) -> Result<Result<(), String>> {
    let (api, params) = (api(&served().await?), PatchParams::default());
    let mut named = object("x", &spec(first));
    named.metadata.name = None;
    named.metadata.generate_name = Some("edited-".into());
    let name = api.create(&PostParams::default(), &named).await?.name_any();
    if !status.is_null() {
        let status = Patch::Merge(json!({"status": status}));
        api.patch_status(&name, &params, &status).await?;
    }
    let edit = Patch::Merge(json!({"spec": edit}));
    refusal(api.patch(&name, &params, &edit).await.map(drop))
}

async fn assert_refused(first: &Value, status: &Value, edit: &Value, message: &str) -> Result<()> {
    let answer = edited(first, status, edit).await?;
    let refusal = answer.expect_err("the API server accepts the edit");
    assert!(refusal.contains(message), "{refusal}");
    Ok(())
}

#[rstest]
#[case::migration_id("migrationId", json!({}), json!("other"))]
#[case::source_secret("sourceCluster", json!({}), json!({"kubeConfigSecret": "other"}))]
#[case::source_key("sourceCluster", json!({}), json!({"kubeConfigKey": "other"}))]
#[case::dest_secret("destCluster", json!({}), json!({"kubeConfigSecret": "other"}))]
#[case::source_namespace("sourceNamespace", json!({}), json!("other"))]
#[case::dest_namespace("destNamespace", json!({}), json!("other"))]
#[case::stateful_set("statefulSetName", json!({}), json!("other"))]
#[case::mapping_added("storageClassMapping", json!({}), json!({"gp2": "gp3"}))]
#[case::mapping_changed("storageClassMapping", json!({"storageClassMapping": {"gp2": "gp3"}}), json!({"gp2": "io2"}))]
#[case::mapping_removed("storageClassMapping", json!({"storageClassMapping": {"gp2": "gp3"}}), Value::Null)]
#[case::strategy_added("strategy", json!({}), json!("Window"))]
#[case::strategy_changed("strategy", json!({"strategy": "Window"}), json!("OrphanAdopt"))]
#[case::strategy_removed("strategy", json!({"strategy": "Window"}), Value::Null)]
#[case::dry_run("dryRun", json!({}), json!(true))]
#[case::dormant_claims("dormantClaims", json!({}), json!("Leave"))]
#[case::snapshot_time("snapshots", json!({}), json!({"when": "AfterDetach"}))]
#[case::snapshot_tags("snapshots", json!({}), json!({"tags": {"a": "b"}}))]
#[case::fence_added("fence", json!({}), json!({"sourceClusterName": "a", "destClusterName": "b"}))]
#[case::fence_removed("fence", json!({"fence": {"sourceClusterName": "a", "destClusterName": "b"}}), Value::Null)]
#[case::reclaim_policy("destReclaimPolicy", json!({}), json!("Restore"))]
#[tokio::test]
async fn is_frozen_by_the_start_and_free_before(
    #[case] field: &str,
    #[case] first: Value,
    #[case] value: Value,
) -> Result<()> {
    let edit = json!({field: value});
    assert_eq!(edited(&first, &Value::Null, &edit).await?, Ok(()));
    let checked = json!({"phase": "Failed", "currentIndex": 0, "started": false});
    assert_eq!(edited(&first, &checked, &edit).await?, Ok(()));
    let message = format!("spec.{field} cannot change after the migration has started");
    assert_refused(&first, &json!({"started": true}), &edit, &message).await
}

#[rstest]
#[case::force(json!({"force": true}))]
#[case::paused(json!({"paused": true}))]
#[case::rollback(json!({"abort": "Rollback"}))]
#[case::leave(json!({"abort": "Leave"}))]
#[case::retry(json!({"retry": 1}))]
#[case::ordinal_limit(json!({"ordinalLimit": 2}))]
#[case::acknowledge(json!({"acknowledge": ["Health/1"]}))]
#[case::on_failure(json!({"onFailure": "Rollback"}))]
#[case::detach_timeout(json!({"volumeDetachTimeout": "6m"}))]
#[case::ready_timeout(json!({"podReadyTimeout": "6m"}))]
#[case::termination_timeout(json!({"podTerminationTimeout": "6m"}))]
#[case::attach_timeout(json!({"attachTimeout": "6m"}))]
#[case::cleanup_policy(json!({"sourceCleanup": {"policy": "Keep"}}))]
#[case::soak(json!({"sourceCleanup": {"soak": "1h"}}))]
#[case::nothing(json!({"migrationId": "m"}))]
#[tokio::test]
async fn stays_free_after_the_start(#[case] edit: Value) -> Result<()> {
    let soaking = json!({"phase": "Finalizing", "started": true});
    assert_eq!(edited(&json!({}), &soaking, &edit).await?, Ok(()));
    Ok(())
}

#[rstest]
#[case::being_deleted(json!({"phase": "Finalizing", "started": true, "cleanupStarted": true}))]
#[case::failed_while_being_deleted(json!({"phase": "Failed", "started": true, "cleanupStarted": true}))]
#[case::completed(json!({"phase": "Completed", "started": true}))]
#[case::rolled_back(json!({"phase": "RolledBack", "started": true}))]
#[tokio::test]
async fn clean_up_cannot_change_once_the_source_is(#[case] status: Value) -> Result<()> {
    let message = "spec.sourceCleanup cannot change after the clean-up of the source has begun";
    for edit in [json!({"policy": "Keep"}), json!({"soak": "1m"})] {
        let edit = json!({"sourceCleanup": edit});
        assert_refused(&json!({}), &status, &edit, message).await?;
    }
    Ok(())
}

#[rstest]
#[case::lower_retry(json!({"retry": 2}), json!({"retry": 1}), "spec.retry cannot be lowered")]
#[case::removed_retry(json!({"retry": 2}), json!({"retry": null}), "spec.retry cannot be lowered")]
#[case::cleared_rollback(json!({"abort": "Rollback"}), json!({"abort": null}), "spec.abort cannot be cleared")]
#[case::cleared_leave(json!({"abort": "Leave"}), json!({"abort": null}), "spec.abort cannot be cleared")]
#[case::replaced_rollback(json!({"abort": "Rollback"}), json!({"abort": "Leave"}), "spec.abort cannot change from Rollback to Leave")]
#[case::half_a_fence(json!({}), json!({"fence": {"destClusterName": "b"}}), "spec.fence needs both")]
#[tokio::test]
async fn is_refused_before_and_after_the_start(
    #[case] first: Value,
    #[case] edit: Value,
    #[case] message: &str,
) -> Result<()> {
    for status in [Value::Null, json!({"started": true})] {
        assert_refused(&first, &status, &edit, message).await?;
    }
    Ok(())
}

#[rstest]
#[case::equal_retry(json!({"retry": 2}), json!({"retry": 2}))]
#[case::higher_retry(json!({"retry": 2}), json!({"retry": 9}))]
#[case::rollback_instead_of_leave(json!({"abort": "Leave"}), json!({"abort": "Rollback"}))]
#[case::beside_a_rollback(json!({"abort": "Rollback"}), json!({"paused": true}))]
#[tokio::test]
async fn is_accepted_at_any_time(#[case] first: Value, #[case] edit: Value) -> Result<()> {
    for status in [Value::Null, json!({"phase": "Completed", "started": true})] {
        assert_eq!(edited(&first, &status, &edit).await?, Ok(()));
    }
    Ok(())
}
