//! Kinds whose fields the API server defaults, normalizes or merges in its own way.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, PostParams};
use testkit::{objects_of, until_served};

use super::*;

/// A Deployment in which the server sets defaults in lists of every type.
fn deployment(namespace: &str, cpu: &str) -> Value {
    let container = json!({
        "name": "c",
        "image": "i",
        "args": ["a", "b"],
        "ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP", "name": "dns"}],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {
            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
        "resources": {"limits": {"cpu": cpu, "memory": "1Gi"}},
        "livenessProbe": {"httpGet": {"port": 53}},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    });
    let pod = json!({
        "containers": [container],
        "volumes": [{"name": "v", "secret": {"secretName": "s"}}],
        "tolerations": [{"operator": "Exists"}],
        "securityContext": {},
    });
    json!({"metadata": {"name": "d", "namespace": namespace, "labels": {"set": "ours"}}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod}}})
}

/// Applies `desired` with each applier; what is cached before each apply is as a watch has it. Returns our
/// requests.
async fn requests(
    fixture: &Fixture,
    kind: &Kind,
    desired: &Value,
    appliers: &[&Applier],
) -> Result<Vec<String>> {
    let name = desired["metadata"]["name"].as_str().unwrap_or_default();
    let mut verbs = Vec::new();
    for applier in appliers {
        let cached = fixture.cached(kind, name).await?;
        let mark = fixture.plane.mark();
        applier.apply(kind, desired.clone(), Some(&cached)).await?;
        verbs.extend(fixture.requests_since(mark).await?);
    }
    Ok(verbs)
}

#[tokio::test]
async fn a_deployment_with_defaults_is_applied_once() -> Result<()> {
    let fixture = fixture("applier-deployment").await?;
    let kind = Kind::of::<Deployment>();
    let desired = deployment(&fixture.namespace, "2");
    let restarted = fixture.restarted();
    fixture.applier.apply(&kind, desired.clone(), None).await?;
    let appliers = [&fixture.applier, &fixture.applier, &restarted];
    let verbs = requests(&fixture, &kind, &desired, &appliers).await?;
    assert_eq!(verbs, Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn a_normalized_quantity_is_applied_once_by_each_process() -> Result<()> {
    let fixture = fixture("applier-quantity").await?;
    let kind = Kind::of::<Deployment>();
    let desired = deployment(&fixture.namespace, "1000m");
    fixture.applier.apply(&kind, desired.clone(), None).await?;
    let before = fixture.cached(&kind, "d").await?;

    // A new version without a change of our fields.
    let api = Api::<Deployment>::namespaced(fixture.plane.admin(), &fixture.namespace);
    let replicas = json!({"status": {"observedGeneration": 1, "replicas": 0}});
    let by = PatchParams::default();
    api.patch_status("d", &by, &Patch::Merge(replicas)).await?;
    let after = fixture.cached(&kind, "d").await?;
    assert_ne!(
        before["metadata"]["resourceVersion"],
        after["metadata"]["resourceVersion"]
    );

    let restarted = fixture.restarted();
    let appliers = [&fixture.applier, &restarted, &restarted];
    let verbs = requests(&fixture, &kind, &desired, &appliers).await?;
    assert_eq!(verbs, ["patch"]);
    assert_eq!(
        fixture.cached(&kind, "d").await?,
        after,
        "it changed nothing"
    );
    Ok(())
}

#[tokio::test]
async fn a_service_is_applied_once() -> Result<()> {
    let fixture = fixture("applier-service").await?;
    let kind = Kind::of::<Service>();
    let desired = json!({"metadata": {"name": "s", "namespace": fixture.namespace}, "spec": {
        "selector": {"a": "b"},
        "ports": [{"port": 80, "targetPort": "http", "name": "http"},
            {"port": 80, "protocol": "UDP", "name": "udp"}],
    }});
    let restarted = fixture.restarted();
    fixture.applier.apply(&kind, desired.clone(), None).await?;
    let appliers = [&fixture.applier, &restarted];
    let verbs = requests(&fixture, &kind, &desired, &appliers).await?;
    assert_eq!(verbs, Vec::<String>::new());

    // Without the second port it is written again, and quiet again.
    let mut fewer = desired;
    fewer["spec"]["ports"].as_array_mut().unwrap().pop();
    let verbs = requests(&fixture, &kind, &fewer, &appliers).await?;
    assert_eq!(verbs, ["patch"]);
    let ports = fixture.cached(&kind, "s").await?["spec"]["ports"].clone();
    assert_eq!(ports.as_array().map(Vec::len), Some(1), "{ports}");
    Ok(())
}

/// A kind with a list of each type.
fn definition() -> Result<CustomResourceDefinition> {
    let entry = json!({"type": "object", "required": ["port"], "properties": {
        "port": {"type": "integer"},
        "protocol": {"type": "string", "default": "TCP"},
        "size": {"type": "integer", "default": 7},
    }});
    let spec = json!({"type": "object", "properties": {
        "atomic": {"type": "array", "items": entry},
        "map": {"type": "array", "items": entry, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"]},
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    Ok(serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "shapes.example.pontoon.io"},
        "spec": {
            "group": "example.pontoon.io",
            "scope": "Namespaced",
            "names": {"kind": "Shape", "plural": "shapes", "singular": "shape", "listKind": "ShapeList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}],
        },
    }))?)
}

#[tokio::test]
async fn lists_of_a_custom_resource_are_healed_by_their_type() -> Result<()> {
    let fixture = fixture("applier-custom").await?;
    let admin = fixture.plane.admin();
    let crd = definition()?;
    Api::all(admin.clone())
        .create(&PostParams::default(), &crd)
        .await?;
    until_served(&admin, &crd).await?;
    let kind = Kind {
        group: "example.pontoon.io".to_owned(),
        version: "v1".to_owned(),
        kind: "Shape".to_owned(),
        plural: "shapes".to_owned(),
        namespaced: true,
    };
    let desired = json!({"metadata": {"name": "s", "namespace": fixture.namespace}, "spec": {
        "atomic": [{"port": 1}, {"port": 2}],
        "map": [{"port": 1, "size": 1}],
        "set": ["a"],
        "free": {"list": [{"name": "x"}], "map": {"y": 1}},
    }});
    fixture.applier.apply(&kind, desired.clone(), None).await?;
    let appliers = [&fixture.applier, &fixture.applier];
    let verbs = requests(&fixture, &kind, &desired, &appliers).await?;
    assert_eq!(
        verbs,
        Vec::<String>::new(),
        "defaults inside the atomic list"
    );

    let objects: Api<DynamicObject> = objects_of(&admin, &crd, &fixture.namespace);
    let edit = async |spec: Value| {
        let edit = json!({"spec": spec});
        objects
            .patch("s", &PatchParams::default(), &Patch::Merge(edit))
            .await
    };
    // Entries of others in a map and a set stay.
    edit(
        json!({"map": [{"port": 1, "size": 1}, {"port": 1, "protocol": "UDP"}], "set": ["a", "b"]}),
    )
    .await?;
    let verbs = requests(&fixture, &kind, &desired, &appliers).await?;
    assert_eq!(verbs, Vec::<String>::new(), "entries of others");
    // An atomic list is ours as a whole.
    let extra = json!([{"port": 1}, {"port": 2}, {"port": 3}]);
    let reordered = json!([{"port": 2}, {"port": 1}]);
    for edited in [extra, reordered] {
        edit(json!({"atomic": edited})).await?;
        let cached = fixture.cached(&kind, "s").await?;
        let refused = fixture
            .applier
            .apply(&kind, desired.clone(), Some(&cached))
            .await;
        let error = refused.unwrap_err();
        assert_eq!(error.class(), Class::Conflict);
        assert!(error.to_string().contains(".spec.atomic"), "{error}");
        fixture
            .applier
            .adopt(&kind, desired.clone(), Some(&cached))
            .await?;
        let spec = fixture.cached(&kind, "s").await?["spec"].clone();
        let default = |port: u8| json!({"port": port, "protocol": "TCP", "size": 7});
        assert_eq!(spec["atomic"], json!([default(1), default(2)]));
        assert_eq!(spec["map"].as_array().map(Vec::len), Some(2));
        assert_eq!(spec["set"], json!(["a", "b"]));
        let verbs = requests(&fixture, &kind, &desired, &appliers).await?;
        assert_eq!(verbs, Vec::<String>::new());
    }
    Ok(())
}

#[tokio::test]
async fn a_cache_without_managers_costs_one_read_in_each_process() -> Result<()> {
    let fixture = fixture("applier-unmanaged").await?;
    let kind = Kind::of::<ConfigMap>();
    fixture.apply(json!({"a": "1"})).await?;
    let mut live = fixture.live().await?;
    live["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    let mark = fixture.plane.mark();
    let restarted = fixture.restarted();
    for applier in [&fixture.applier, &restarted, &restarted] {
        let desired = fixture.map(json!({"a": "1"}));
        let applied = applier.apply(&kind, desired, Some(&live)).await?;
        assert_eq!(applied, Applied::Unchanged);
    }
    assert_eq!(fixture.requests_since(mark).await?, ["get"]);
    Ok(())
}
