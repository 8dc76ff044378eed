//! An API server on which objects were stored before the rules came.
//!
//! First it serves a definition without any rule and stores the offenders; then the real one replaces it, as an
//! upgrade of the chart would.

use api::migrate::{self, names};
use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::{Value, json};
pub(crate) use testkit::stories::merge;
use testkit::{ControlPlane, Result, eventually, objects_of, until_served};
use tokio::sync::OnceCell;

use super::stored::offenders;
use crate::tenants_crds::server::{apply, without_rules};

/// A client of the shared API server, which serves the kind and has stored the offenders.
pub(crate) async fn served() -> Result<Client> {
    static READY: OnceCell<()> = OnceCell::const_new();
    let plane = ControlPlane::shared().await?;
    let client = plane.admin();
    let prepare = async || -> Result<()> {
        plane.ensure_namespace("team-a").await?;
        let [crd] = &*migrate::crds() else {
            panic!("one kind")
        };
        apply(&client, &without_rules(crd.clone())).await?;
        until_served(&client, crd).await?;
        for (name, change) in offenders() {
            let mut offender = object(name, &spec(&change));
            offender.metadata.finalizers = Some(vec![names::FINALIZER.into()]);
            api(&client)
                .create(&PostParams::default(), &offender)
                .await?;
        }
        apply(&client, crd).await?;
        eventually("the rules are in force", async || {
            let answer = offered_to(&client, &json!(5)).await?;
            Ok(answer.is_err().then_some(()))
        })
        .await
    };
    READY.get_or_try_init(prepare).await?;
    Ok(client)
}

pub(crate) fn api(client: &Client) -> Api<DynamicObject> {
    objects_of(client, &migrate::crds()[0], "team-a")
}

/// The smallest spec, changed by the merge patch `change`.
pub(crate) fn spec(change: &Value) -> Value {
    let mut spec = json!({
        "migrationId": "m", "sourceCluster": {"kubeConfigSecret": "src"},
        "destCluster": {"kubeConfigSecret": "dst"}, "sourceNamespace": "a", "destNamespace": "b",
        "statefulSetName": "web",
    });
    merge(&mut spec, change);
    spec
}

pub(crate) fn object(name: &str, spec: &Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "migration.aqua.io/v1alpha1", "kind": "StatefulSetMigration",
        "metadata": {"name": name}, "spec": spec,
    }))
    .expect("an object")
}

/// The spec that the API server would store, or its refusal. Nothing is stored.
pub(crate) async fn offered(spec: &Value) -> Result<Result<Value, String>> {
    offered_to(&served().await?, spec).await
}

async fn offered_to(client: &Client, spec: &Value) -> Result<Result<Value, String>> {
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let answer = api(client).create(&dry_run, &object("offered", spec)).await;
    refusal(answer.map(|stored| stored.data["spec"].clone()))
}

/// Separates what the API server refuses as invalid from every other error.
pub(crate) fn refusal<T>(answer: kube::Result<T>) -> Result<Result<T, String>> {
    match answer {
        Ok(value) => Ok(Ok(value)),
        Err(kube::Error::Api(status)) if status.code == 422 => Ok(Err(status.message)),
        Err(other) => Err(other.into()),
    }
}
