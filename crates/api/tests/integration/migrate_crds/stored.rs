//! What is forgiven to objects that were stored before the rules: status, metadata and edits of other fields.

use kube::api::{DeleteParams, Patch, PatchParams};
use rstest::rstest;
use serde_json::{Map, Value, json};
use testkit::Result;

use super::server::{api, offered, served, spec};

/// Names of stored objects, and how the spec of each differs from the smallest one.
pub(crate) fn offenders() -> Vec<(&'static str, Value)> {
    let classes = (0..65).map(|n| (n.to_string(), json!("x")));
    let classes = classes.collect::<Map<_, _>>();
    vec![
        ("namespace", json!({"sourceNamespace": "Shop"})),
        ("duration", json!({"podReadyTimeout": "-5m"})),
        ("soak", json!({"sourceCleanup": {"soak": "soon"}})),
        ("classes", json!({"storageClassMapping": classes})),
        ("strategy", json!({"strategy": "Cutover"})),
        ("retry", json!({"retry": -1})),
        ("acknowledged", json!({"acknowledge": ["Health/web-1"]})),
        ("fence", json!({"fence": {"sourceClusterName": "a"}})),
        ("tag", json!({"snapshots": {"tags": {"aws:x": ""}}})),
    ]
}

#[tokio::test]
async fn every_offender_breaks_a_rule() -> Result<()> {
    for (name, change) in offenders() {
        let answer = offered(&spec(&change)).await?;
        assert!(answer.is_err(), "{name} is accepted");
    }
    Ok(())
}

#[rstest]
#[tokio::test]
async fn a_stored_offender_takes_status_and_loses_its_finalizer(
    #[values(
        "namespace",
        "duration",
        "soak",
        "classes",
        "strategy",
        "retry",
        "acknowledged",
        "fence",
        "tag"
    )]
    name: &str,
) -> Result<()> {
    let (api, params) = (api(&served().await?), PatchParams::default());
    let paused = Patch::Merge(json!({"spec": {"paused": true}}));
    api.patch(name, &params, &paused).await?;

    let condition = json!({"type": "Ready", "status": "False", "reason": "InvalidSpec",
        "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"});
    let status = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    let written = api.patch_status(name, &params, &status).await?;
    assert_eq!(
        written.data["status"]["conditions"][0]["reason"],
        "InvalidSpec"
    );

    api.delete(name, &DeleteParams::default()).await?;
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch(name, &params, &free).await?;
    assert!(api.get_opt(name).await?.is_none(), "{name} is still there");
    Ok(())
}
