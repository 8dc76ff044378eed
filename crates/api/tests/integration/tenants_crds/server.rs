//! An API server on which objects were stored before the rules came.
//!
//! First it serves definitions without any rule and stores every offender; then the real ones
//! replace them, as an upgrade of the chart would.

use api::tenants::{self, names};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
pub(crate) use testkit::stories::merge;
use testkit::{ControlPlane, Result, eventually, objects_of, until_served};
use tokio::sync::OnceCell;

use super::offenders::offenders;

pub(crate) const TENANT: &str = "DistributionTenant";
pub(crate) const SOURCE: &str = "TenantSource";
pub(crate) const GROUP: &str = "ConnectionGroup";
pub(crate) const INVALIDATION: &str = "Invalidation";
pub(crate) const POLICY: &str = "TenantPolicy";

/// A client of the shared API server, which serves the five kinds and holds the offenders.
pub(crate) async fn served() -> Result<Client> {
    static READY: OnceCell<()> = OnceCell::const_new();
    let plane = ControlPlane::shared().await?;
    let client = plane.admin();
    let prepare = async || -> Result<()> {
        plane.ensure_namespace("team-a").await?;
        for crd in tenants::crds() {
            apply(&client, &without_rules(crd)).await?;
        }
        for crd in tenants::crds() {
            until_served(&client, &crd).await?;
        }
        for one in offenders() {
            let mut offender = object(one.kind, &one.name(), &one.spec());
            offender.metadata.finalizers = Some(vec![names::FINALIZER.into()]);
            let api = api(&client, one.kind);
            api.create(&PostParams::default(), &offender).await?;
        }
        for crd in tenants::crds() {
            apply(&client, &crd).await?;
        }
        for crd in tenants::crds() {
            until_strict(&client, &crd.spec.names.kind).await?;
        }
        Ok(())
    };
    READY.get_or_try_init(prepare).await?;
    Ok(client)
}

pub(crate) async fn apply(client: &Client, crd: &CustomResourceDefinition) -> Result<()> {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let params = PatchParams::apply("test").force();
    let name = crd.name_any();
    definitions
        .patch(&name, &params, &Patch::Apply(crd))
        .await?;
    Ok(())
}

pub(crate) fn without_rules(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"openAPIV3Schema": anything});
    for version in &mut crd.spec.versions {
        version.schema = serde_json::from_value(schema.clone()).expect("a schema");
    }
    crd
}

/// The rules are in force as soon as a number is no spec.
async fn until_strict(client: &Client, kind: &str) -> Result<()> {
    eventually(&format!("the rules of {kind} are in force"), async || {
        let answer = offered_to(client, kind, &json!(5)).await?;
        Ok(answer.is_err().then_some(()))
    })
    .await
}

pub(crate) fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    let mut crds = tenants::crds().into_iter();
    let crd = crds.find(|crd| crd.spec.names.kind == kind);
    objects_of(client, &crd.expect("one of the five kinds"), "team-a")
}

/// The smallest spec of `kind`, changed by the merge patch `change`.
pub(crate) fn spec(kind: &str, change: &Value) -> Value {
    let mut spec = match kind {
        TENANT => json!({"distributionId": "E1", "domains": [{"domain": "a.example.com"}]}),
        SOURCE => {
            json!({"provider": "configMap", "configMap": {"name": "rows"}, "distributionId": "E1"})
        }
        GROUP => json!({}),
        INVALIDATION => json!({"tenantRef": {"name": "acme"}, "paths": ["/*"]}),
        POLICY => json!({"namespaces": ["web"]}),
        other => panic!("no kind of ours: {other}"),
    };
    merge(&mut spec, change);
    spec
}

pub(crate) fn object(kind: &str, name: &str, spec: &Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "cloudfront-tenant-operator.io/v1alpha1", "kind": kind,
        "metadata": {"name": name}, "spec": spec,
    }))
    .expect("an object")
}

/// What the API server would store, or what it says against it. Nothing is stored.
pub(crate) async fn offered(kind: &str, spec: &Value) -> Result<Result<Value, String>> {
    offered_to(&served().await?, kind, spec).await
}

async fn offered_to(client: &Client, kind: &str, spec: &Value) -> Result<Result<Value, String>> {
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let offer = object(kind, "offered", spec);
    Ok(match api(client, kind).create(&dry_run, &offer).await {
        Ok(stored) => Ok(stored.data["spec"].clone()),
        Err(kube::Error::Api(status)) if status.code == 422 => Err(status.message),
        Err(other) => return Err(other.into()),
    })
}
