//! The applier against a real API server; requests are counted in its audit log.

use engine::{Applied, Applier, Classified, Clients, Deletion, Kind, Metrics, Propagation};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kernel::{Class, Guard, ObjectKey};
use kube::api::{Api, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use testkit::{ControlPlane, Result};

/// A namespace of the shared control plane, and an applier in it.
struct Shore {
    plane: std::sync::Arc<ControlPlane>,
    namespace: String,
    applier: Applier,
    guard: Guard,
}

async fn shore(name: &str) -> Result<Shore> {
    let plane = ControlPlane::shared().await?;
    plane.ensure_namespace(name).await?;
    let config = Kubeconfig::read_from(plane.kubeconfig())?;
    let config =
        kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    let clients = Clients::new(config, 8, Metrics::default())?;
    let guard = Guard::held();
    guard.renewed(guard.elapsed(), std::time::Duration::from_secs(600));
    let client = clients.client(name, vec![guard.clone()]);
    Ok(Shore {
        plane,
        namespace: name.to_owned(),
        applier: Applier::new(client, "pontoon-test"),
        guard,
    })
}

impl Shore {
    fn map(&self, data: Value) -> Value {
        json!({"metadata": {"name": "m", "namespace": self.namespace, "labels": {"set": "ours"}}, "data": data})
    }

    async fn apply(&self, data: Value) -> Result<Applied> {
        Ok(self
            .applier
            .look_and_apply(&Kind::of::<ConfigMap>(), self.map(data))
            .await?)
    }

    async fn live(&self) -> Result<Value> {
        let key = ObjectKey::namespaced(&*self.namespace, "m");
        Ok(self
            .applier
            .read(&Kind::of::<ConfigMap>(), &key)
            .await?
            .unwrap_or_default())
    }

    async fn edit(&self, manager: &str, data: Value) -> Result<()> {
        let api = Api::<ConfigMap>::namespaced(self.plane.admin(), &self.namespace);
        let edit = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data});
        api.patch(
            "m",
            &PatchParams::apply(manager).force(),
            &Patch::Apply(edit),
        )
        .await?;
        Ok(())
    }
}

#[tokio::test]
async fn an_equal_object_costs_no_request() -> Result<()> {
    let shore = shore("applier-equal").await?;
    assert!(matches!(
        shore.apply(json!({"a": "1"})).await?,
        Applied::Written(_)
    ));
    let live = shore.live().await?;
    let mark = shore.plane.mark();
    let again = shore
        .applier
        .apply(
            &Kind::of::<ConfigMap>(),
            shore.map(json!({"a": "1"})),
            Some(&live),
        )
        .await?;
    assert_eq!(again, Applied::Unchanged);
    let ours = shore.plane.entries_since(mark).await?;
    let ours: Vec<_> = ours
        .iter()
        .filter(|entry| entry.user_agent.contains("applier-equal"))
        .collect();
    assert!(ours.is_empty(), "{ours:?}");
    Ok(())
}

#[tokio::test]
async fn a_foreign_field_survives_and_a_field_no_longer_desired_goes() -> Result<()> {
    let shore = shore("applier-fields").await?;
    shore.apply(json!({"a": "1", "b": "2"})).await?;
    shore.edit("somebody", json!({"theirs": "x"})).await?;
    shore.apply(json!({"a": "1"})).await?;
    assert_eq!(
        shore.live().await?["data"],
        json!({"a": "1", "theirs": "x"})
    );
    Ok(())
}

#[tokio::test]
async fn a_field_that_another_manager_owns_is_a_conflict_that_names_it() -> Result<()> {
    let shore = shore("applier-conflict").await?;
    shore.edit("the-other-one", json!({"a": "theirs"})).await?;
    let kind = Kind::of::<ConfigMap>();
    let live = shore.live().await?;
    let error = shore
        .applier
        .apply(&kind, shore.map(json!({"a": "ours"})), Some(&live))
        .await
        .unwrap_err();
    assert_eq!(error.class(), Class::Conflict);
    assert!(
        error.to_string().contains("the-other-one") && error.to_string().contains(".data.a"),
        "{error}"
    );
    assert_eq!(shore.live().await?["data"]["a"], "theirs");

    shore
        .applier
        .adopt(&kind, shore.map(json!({"a": "ours"})), Some(&live))
        .await?;
    assert_eq!(shore.live().await?["data"]["a"], "ours");
    Ok(())
}

#[tokio::test]
async fn an_object_the_server_writes_differently_is_applied_once() -> Result<()> {
    let shore = shore("applier-forms").await?;
    let kind = Kind::of::<Deployment>();
    let container = json!({"name": "c", "image": "i", "resources": {"limits": {"cpu": "1000m"}}});
    let desired = json!({"metadata": {"name": "d", "namespace": shore.namespace}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}}});
    shore.applier.look_and_apply(&kind, desired.clone()).await?;
    let live = shore
        .applier
        .read(&kind, &ObjectKey::namespaced(&*shore.namespace, "d"))
        .await?
        .unwrap();
    assert_eq!(
        live["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"],
        "1"
    );
    assert_eq!(
        shore.applier.apply(&kind, desired, Some(&live)).await?,
        Applied::Unchanged
    );
    Ok(())
}

#[tokio::test]
async fn a_deletion_spares_a_namesake_and_what_is_gone() -> Result<()> {
    let shore = shore("applier-delete").await?;
    shore.apply(json!({})).await?;
    let (kind, key) = (
        Kind::of::<ConfigMap>(),
        ObjectKey::namespaced(&*shore.namespace, "m"),
    );
    shore.applier.delete(&kind, &key, "another-uid").await?;
    let live = shore.live().await?;
    assert_eq!(live["metadata"]["name"], "m");
    let uid = live["metadata"]["uid"].as_str().unwrap();
    shore.applier.delete(&kind, &key, uid).await?;
    shore.applier.delete(&kind, &key, uid).await?;
    assert_eq!(shore.live().await?, Value::Null);
    Ok(())
}

#[tokio::test]
async fn pruning_deletes_what_carries_the_labels_and_is_not_kept() -> Result<()> {
    let shore = shore("applier-prune").await?;
    let kind = Kind::of::<ConfigMap>();
    for name in ["keep", "drop"] {
        let map = json!({"metadata": {"name": name, "namespace": shore.namespace, "labels": {"set": "ours"}}});
        shore.applier.look_and_apply(&kind, map).await?;
    }
    let foreign = json!({"metadata": {"name": "foreign", "namespace": shore.namespace}});
    shore.applier.look_and_apply(&kind, foreign).await?;
    let key = |name: &str| ObjectKey::of(Some(&shore.namespace), name);
    let gone = shore
        .applier
        .prune(
            &kind,
            Some(&shore.namespace),
            "set=ours",
            &BTreeSet::from([key("keep")]),
        )
        .await?;
    assert_eq!(gone, [key("drop")]);
    assert!(shore.applier.read(&kind, &key("foreign")).await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_dry_run_changes_nothing() -> Result<()> {
    let shore = shore("applier-dry").await?;
    let dry = shore.applier.clone().dry_run();
    let applied = dry
        .look_and_apply(&Kind::of::<ConfigMap>(), shore.map(json!({"a": "1"})))
        .await?;
    assert!(matches!(applied, Applied::Written(object) if object["data"]["a"] == "1"));
    assert_eq!(shore.live().await?, Value::Null);
    Ok(())
}

#[tokio::test]
async fn who_does_not_lead_writes_nothing() -> Result<()> {
    let shore = shore("applier-deposed").await?;
    shore.guard.revoke();
    let mark = shore.plane.mark();
    let error = shore
        .applier
        .apply(&Kind::of::<ConfigMap>(), shore.map(json!({})), None)
        .await
        .unwrap_err();
    assert_eq!(error.class(), Class::Deposed);
    let writes = shore
        .plane
        .writes_since(mark, |entry| entry.user_agent.contains("applier-deposed"))
        .await?;
    assert!(writes.is_empty(), "{writes:?}");
    Ok(())
}

#[tokio::test]
async fn an_object_the_cache_does_not_show_yet_is_not_written_over() -> Result<()> {
    let shore = shore("applier-create").await?;
    let kind = Kind::of::<ConfigMap>();
    let created = shore
        .applier
        .apply(&kind, shore.map(json!({"a": "1"})), None);
    assert!(matches!(created.await?, Applied::Written(_)));
    shore.edit("somebody", json!({"theirs": "x"})).await?;
    for force in [false, true] {
        let desired = shore.map(json!({"b": "2"}));
        let refused = if force {
            shore.applier.adopt(&kind, desired, None).await
        } else {
            shore.applier.apply(&kind, desired, None).await
        };
        assert_eq!(refused.unwrap_err().class(), Class::Stale);
    }
    let data = json!({"a": "1", "theirs": "x"});
    assert_eq!(shore.live().await?["data"], data);
    Ok(())
}

#[tokio::test]
async fn an_object_that_gave_way_to_a_namesake_is_not_written_over() -> Result<()> {
    let shore = shore("applier-namesake").await?;
    let kind = Kind::of::<ConfigMap>();
    shore.apply(json!({"a": "1"})).await?;
    let old = shore.live().await?;
    let key = ObjectKey::namespaced(&*shore.namespace, "m");
    let uid = old["metadata"]["uid"].as_str().unwrap();
    shore.applier.delete(&kind, &key, uid).await?;

    let desired = shore.map(json!({"a": "2"}));
    let refused = shore
        .applier
        .apply(&kind, desired.clone(), Some(&old))
        .await;
    assert_eq!(refused.unwrap_err().class(), Class::Stale, "it is gone");
    shore.edit("somebody", json!({"theirs": "x"})).await?;
    let refused = shore.applier.apply(&kind, desired, Some(&old)).await;
    assert_eq!(refused.unwrap_err().class(), Class::Stale);
    assert_eq!(shore.live().await?["data"], json!({"theirs": "x"}));
    Ok(())
}

#[tokio::test]
async fn lists_are_compared_by_the_type_the_server_knows() -> Result<()> {
    let shore = shore("applier-lists").await?;
    let kind = Kind::of::<Deployment>();
    let container = json!({"name": "ours", "image": "i", "args": ["a", "b"]});
    let desired = json!({"metadata": {"name": "d", "namespace": shore.namespace}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}}});
    shore.applier.look_and_apply(&kind, desired.clone()).await?;
    let api = Api::<Deployment>::namespaced(shore.plane.admin(), &shore.namespace);
    let edit = async |containers: Value| {
        let edit = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        let by = PatchParams::default();
        api.patch("d", &by, &Patch::Strategic(edit)).await
    };

    // A container beside ours is somebody's own; an argument beside ours is a change of ours.
    edit(json!([{"name": "beside", "image": "i"}])).await?;
    let beside = shore.applier.look_and_apply(&kind, desired.clone()).await?;
    assert_eq!(beside, Applied::Unchanged);
    edit(json!([{"name": "ours", "args": ["a", "b", "c"]}])).await?;
    let live = shore
        .applier
        .read(&kind, &ObjectKey::namespaced(&*shore.namespace, "d"))
        .await?;
    let healed = shore.applier.adopt(&kind, desired, live.as_ref()).await?;
    let Applied::Written(healed) = healed else {
        panic!("the argument stays");
    };
    let containers = healed["spec"]["template"]["spec"]["containers"].as_array();
    let ours = containers.unwrap().iter().find(|one| one["name"] == "ours");
    assert_eq!(ours.unwrap()["args"], json!(["a", "b"]));
    Ok(())
}

#[tokio::test]
async fn pruning_without_labels_is_refused() -> Result<()> {
    let shore = shore("applier-prune-all").await?;
    shore.apply(json!({})).await?;
    let kind = Kind::of::<ConfigMap>();
    let none = BTreeSet::new();
    for labels in ["", " "] {
        let refused = shore
            .applier
            .prune(&kind, Some(&shore.namespace), labels, &none);
        assert_eq!(refused.await.unwrap_err().class(), Class::Invalid);
    }
    assert_eq!(shore.live().await?["metadata"]["name"], "m");
    Ok(())
}

#[tokio::test]
async fn a_deletion_may_be_bound_to_a_version() -> Result<()> {
    let shore = shore("applier-delete-version").await?;
    shore.apply(json!({"a": "1"})).await?;
    let (kind, key) = (
        Kind::of::<ConfigMap>(),
        ObjectKey::namespaced(&*shore.namespace, "m"),
    );
    let old = shore.live().await?;
    shore.edit("somebody", json!({"theirs": "x"})).await?;
    let version = |object: &Value| object["metadata"]["resourceVersion"].as_str()?.parse().ok();
    let deletion = Deletion {
        uid: old["metadata"]["uid"].as_str().unwrap(),
        version: version(&old),
        propagation: Propagation::Orphan,
        grace_seconds: Some(0),
    };
    let refused = shore.applier.delete_with(&kind, &key, &deletion).await;
    assert_eq!(refused.unwrap_err().class(), Class::Stale);
    let deletion = Deletion {
        version: version(&shore.live().await?),
        ..deletion
    };
    shore.applier.delete_with(&kind, &key, &deletion).await?;
    // The garbage collector, which does not run here, lets what it owns go first.
    let finalizers = &shore.live().await?["metadata"]["finalizers"];
    assert_eq!(*finalizers, json!(["orphan"]));
    Ok(())
}
