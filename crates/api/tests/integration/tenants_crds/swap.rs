//! Objects are stored whole: those that cloudfront-tenant-operator left, and those with every field.

use api::tenants::names;
use assert_json_diff::assert_json_eq;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testkit::Result;

use super::server::{api, merge, object, served};

const LEGACY: &str = include_str!("../../fixtures/tenants/objects.yaml");
const WHOLE: &str = include_str!("../../fixtures/tenants/whole.yaml");

/// Stores spec and status, as the operator before us did; then, as the first and last pass of a
/// swap would, puts the finalizer and takes it away. What was given must still be there.
async fn is_stored_whole(given: &Value) -> Result<()> {
    let kind = given["kind"].as_str().expect("a kind");
    let name = given["metadata"]["name"].as_str().expect("a name");
    let api = api(&served().await?, kind);
    let params = PatchParams::default();
    api.create(&PostParams::default(), &object(kind, name, &given["spec"]))
        .await?;
    if given["status"].is_object() {
        let status = Patch::Merge(json!({"status": given["status"]}));
        api.patch_status(name, &params, &status).await?;
    }
    let mark = Patch::Merge(json!({"metadata": {"finalizers": [names::FINALIZER]}}));
    api.patch(name, &params, &mark).await?;
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let stored = api.patch(name, &params, &free).await?;

    assert_json_eq!(
        stored.data.get("status").unwrap_or(&Value::Null),
        given["status"]
    );
    let mut completed = stored.data["spec"].clone();
    merge(&mut completed, &given["spec"]);
    assert_json_eq!(stored.data["spec"], completed);
    Ok(())
}

#[tokio::test]
async fn objects_of_the_reference_are_stored_whole_and_can_be_written_on() -> Result<()> {
    let list: Value = serde_saphyr::from_str(LEGACY).expect("valid YAML");
    for legacy in list["items"].as_array().expect("a list") {
        is_stored_whole(legacy).await?;
    }
    Ok(())
}

#[tokio::test]
async fn objects_with_every_field_are_stored_whole_and_can_be_written_on() -> Result<()> {
    let objects: Vec<Value> = serde_saphyr::from_str(WHOLE).expect("valid YAML");
    for object in &objects {
        is_stored_whole(object).await?;
    }
    Ok(())
}
