//! The applier with a real API server. Its audit log shows the requests.

mod forms;
mod shapes;

use engine::{
    Applied, Applier, Classified, Clients, Deletion, Kind, Metrics, Projection, Propagation, Stored,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kernel::{Class, Guard, ObjectKey};
use kube::api::{Api, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use testkit::{ControlPlane, Result};

/// A namespace of the shared control plane, and an applier for it.
struct Fixture {
    plane: std::sync::Arc<ControlPlane>,
    namespace: String,
    client: kube::Client,
    applier: Applier,
    guard: Guard,
}

const FIELD_OWNER: &str = "pontoon-test";

async fn fixture(name: &str) -> Result<Fixture> {
    let plane = ControlPlane::shared().await?;
    plane.ensure_namespace(name).await?;
    let config = Kubeconfig::read_from(plane.kubeconfig())?;
    let config =
        kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    let clients = Clients::new(config, 8, Metrics::default())?;
    let guard = Guard::closed();
    guard.renewed(guard.elapsed(), std::time::Duration::from_secs(600));
    let client = clients.client(name, vec![guard.clone()]);
    Ok(Fixture {
        plane,
        namespace: name.to_owned(),
        applier: Applier::new(client.clone(), FIELD_OWNER),
        client,
        guard,
    })
}

impl Fixture {
    fn map(&self, data: Value) -> Value {
        json!({"metadata": {"name": "m", "namespace": self.namespace, "labels": {"set": "ours"}}, "data": data})
    }

    /// The applier of a process that has just started.
    fn restarted(&self) -> Applier {
        Applier::new(self.client.clone(), FIELD_OWNER)
    }

    /// The object as a watch for this applier caches it.
    async fn cached(&self, kind: &Kind, name: &str) -> Result<Value> {
        let key = ObjectKey::namespaced(&*self.namespace, name);
        let live = self.applier.read(kind, &key).await?.unwrap_or_default();
        let projection = Projection::ManagedBy(FIELD_OWNER.to_owned());
        let stored = Stored::read(kind, &live.to_string(), &projection)?;
        Ok(stored.parse(kind)?)
    }

    /// The verbs of our requests since `mark`, except for schemas.
    async fn requests_since(&self, mark: testkit::Mark) -> Result<Vec<String>> {
        let mut entries = self.plane.entries_since(mark).await?;
        entries.retain(|entry| {
            entry.user_agent.contains(&self.namespace) && !entry.resource.is_empty()
        });
        Ok(entries.into_iter().map(|entry| entry.verb).collect())
    }

    async fn apply(&self, data: Value) -> Result<Applied> {
        Ok(self
            .applier
            .read_and_apply(&Kind::of::<ConfigMap>(), self.map(data))
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
    let fixture = fixture("applier-equal").await?;
    assert!(matches!(
        fixture.apply(json!({"a": "1"})).await?,
        Applied::Written(_)
    ));
    let live = fixture.live().await?;
    let mark = fixture.plane.mark();
    let again = fixture
        .applier
        .apply(
            &Kind::of::<ConfigMap>(),
            fixture.map(json!({"a": "1"})),
            Some(&live),
        )
        .await?;
    assert_eq!(again, Applied::Unchanged);
    let ours = fixture.plane.entries_since(mark).await?;
    let ours: Vec<_> = ours
        .iter()
        .filter(|entry| entry.user_agent.contains("applier-equal"))
        .collect();
    assert!(ours.is_empty(), "{ours:?}");
    Ok(())
}

#[tokio::test]
async fn a_foreign_field_stays_and_an_undesired_field_goes() -> Result<()> {
    let fixture = fixture("applier-fields").await?;
    fixture.apply(json!({"a": "1", "b": "2"})).await?;
    fixture.edit("somebody", json!({"theirs": "x"})).await?;
    fixture.apply(json!({"a": "1"})).await?;
    assert_eq!(
        fixture.live().await?["data"],
        json!({"a": "1", "theirs": "x"})
    );
    Ok(())
}

#[tokio::test]
async fn a_conflict_names_the_other_field_manager() -> Result<()> {
    let fixture = fixture("applier-conflict").await?;
    fixture
        .edit("the-other-one", json!({"a": "theirs"}))
        .await?;
    let kind = Kind::of::<ConfigMap>();
    let live = fixture.live().await?;
    let error = fixture
        .applier
        .apply(&kind, fixture.map(json!({"a": "ours"})), Some(&live))
        .await
        .unwrap_err();
    assert_eq!(error.class(), Class::Conflict);
    assert!(
        error.to_string().contains("the-other-one") && error.to_string().contains(".data.a"),
        "{error}"
    );
    assert_eq!(fixture.live().await?["data"]["a"], "theirs");

    fixture
        .applier
        .adopt(&kind, fixture.map(json!({"a": "ours"})), Some(&live))
        .await?;
    assert_eq!(fixture.live().await?["data"]["a"], "ours");
    Ok(())
}

#[tokio::test]
async fn an_object_that_the_server_normalizes_is_applied_once() -> Result<()> {
    let fixture = fixture("applier-forms").await?;
    let kind = Kind::of::<Deployment>();
    let container = json!({"name": "c", "image": "i", "resources": {"limits": {"cpu": "1000m"}}});
    let desired = json!({"metadata": {"name": "d", "namespace": fixture.namespace}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}}});
    fixture
        .applier
        .read_and_apply(&kind, desired.clone())
        .await?;
    let live = fixture
        .applier
        .read(&kind, &ObjectKey::namespaced(&*fixture.namespace, "d"))
        .await?
        .unwrap();
    assert_eq!(
        live["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"],
        "1"
    );
    assert_eq!(
        fixture.applier.apply(&kind, desired, Some(&live)).await?,
        Applied::Unchanged
    );
    Ok(())
}

#[tokio::test]
async fn a_deletion_ignores_a_replaced_or_missing_object() -> Result<()> {
    let fixture = fixture("applier-delete").await?;
    fixture.apply(json!({})).await?;
    let (kind, key) = (
        Kind::of::<ConfigMap>(),
        ObjectKey::namespaced(&*fixture.namespace, "m"),
    );
    fixture.applier.delete(&kind, &key, "another-uid").await?;
    let live = fixture.live().await?;
    assert_eq!(live["metadata"]["name"], "m");
    let uid = live["metadata"]["uid"].as_str().unwrap();
    fixture.applier.delete(&kind, &key, uid).await?;
    fixture.applier.delete(&kind, &key, uid).await?;
    assert_eq!(fixture.live().await?, Value::Null);
    Ok(())
}

#[tokio::test]
async fn pruning_deletes_labelled_objects_that_are_not_retained() -> Result<()> {
    let fixture = fixture("applier-prune").await?;
    let kind = Kind::of::<ConfigMap>();
    for name in ["retained", "obsolete"] {
        let labels = json!({"set": "ours"});
        let map =
            json!({"metadata": {"name": name, "namespace": fixture.namespace, "labels": labels}});
        fixture.applier.read_and_apply(&kind, map).await?;
    }
    let foreign = json!({"metadata": {"name": "foreign", "namespace": fixture.namespace}});
    fixture.applier.read_and_apply(&kind, foreign).await?;
    let key = |name: &str| ObjectKey::of(Some(&fixture.namespace), name);
    let deleted = fixture
        .applier
        .prune(
            &kind,
            Some(&fixture.namespace),
            "set=ours",
            &BTreeSet::from([key("retained")]),
        )
        .await?;
    assert_eq!(deleted, [key("obsolete")]);
    assert!(
        fixture
            .applier
            .read(&kind, &key("foreign"))
            .await?
            .is_some()
    );
    Ok(())
}

#[tokio::test]
async fn a_dry_run_changes_nothing() -> Result<()> {
    let fixture = fixture("applier-dry").await?;
    let dry = fixture.applier.clone().dry_run();
    let applied = dry
        .read_and_apply(&Kind::of::<ConfigMap>(), fixture.map(json!({"a": "1"})))
        .await?;
    assert!(matches!(applied, Applied::Written(object) if object["data"]["a"] == "1"));
    assert_eq!(fixture.live().await?, Value::Null);
    Ok(())
}

#[tokio::test]
async fn a_replica_that_does_not_lead_writes_nothing() -> Result<()> {
    let fixture = fixture("applier-deposed").await?;
    fixture.guard.revoke();
    let mark = fixture.plane.mark();
    let error = fixture
        .applier
        .apply(&Kind::of::<ConfigMap>(), fixture.map(json!({})), None)
        .await
        .unwrap_err();
    assert_eq!(error.class(), Class::Deposed);
    let writes = fixture
        .plane
        .writes_since(mark, |entry| entry.user_agent.contains("applier-deposed"))
        .await?;
    assert!(writes.is_empty(), "{writes:?}");
    Ok(())
}

#[tokio::test]
async fn an_object_that_is_not_cached_yet_is_not_overwritten() -> Result<()> {
    let fixture = fixture("applier-create").await?;
    let kind = Kind::of::<ConfigMap>();
    let created = fixture
        .applier
        .apply(&kind, fixture.map(json!({"a": "1"})), None);
    assert!(matches!(created.await?, Applied::Written(_)));
    fixture.edit("somebody", json!({"theirs": "x"})).await?;
    for force in [false, true] {
        let desired = fixture.map(json!({"b": "2"}));
        let refused = if force {
            fixture.applier.adopt(&kind, desired, None).await
        } else {
            fixture.applier.apply(&kind, desired, None).await
        };
        assert_eq!(refused.unwrap_err().class(), Class::Stale);
    }
    let data = json!({"a": "1", "theirs": "x"});
    assert_eq!(fixture.live().await?["data"], data);
    Ok(())
}

#[tokio::test]
async fn a_replaced_object_is_not_overwritten() -> Result<()> {
    let fixture = fixture("applier-namesake").await?;
    let kind = Kind::of::<ConfigMap>();
    fixture.apply(json!({"a": "1"})).await?;
    let old = fixture.live().await?;
    let key = ObjectKey::namespaced(&*fixture.namespace, "m");
    let uid = old["metadata"]["uid"].as_str().unwrap();
    fixture.applier.delete(&kind, &key, uid).await?;

    let desired = fixture.map(json!({"a": "2"}));
    let refused = fixture
        .applier
        .apply(&kind, desired.clone(), Some(&old))
        .await;
    assert_eq!(refused.unwrap_err().class(), Class::Stale, "it is gone");
    fixture.edit("somebody", json!({"theirs": "x"})).await?;
    let refused = fixture.applier.apply(&kind, desired, Some(&old)).await;
    assert_eq!(refused.unwrap_err().class(), Class::Stale);
    assert_eq!(fixture.live().await?["data"], json!({"theirs": "x"}));
    Ok(())
}

#[tokio::test]
async fn lists_are_compared_by_their_type() -> Result<()> {
    let fixture = fixture("applier-lists").await?;
    let kind = Kind::of::<Deployment>();
    let container = json!({"name": "ours", "image": "i", "args": ["a", "b"]});
    let desired = json!({"metadata": {"name": "d", "namespace": fixture.namespace}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}}});
    fixture
        .applier
        .read_and_apply(&kind, desired.clone())
        .await?;
    let api = Api::<Deployment>::namespaced(fixture.plane.admin(), &fixture.namespace);
    let edit = async |containers: Value| {
        let edit = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        let by = PatchParams::default();
        api.patch("d", &by, &Patch::Strategic(edit)).await
    };

    // Another container belongs to others. Another argument changes our container.
    edit(json!([{"name": "theirs", "image": "i"}])).await?;
    let unchanged = fixture
        .applier
        .read_and_apply(&kind, desired.clone())
        .await?;
    assert_eq!(unchanged, Applied::Unchanged);
    edit(json!([{"name": "ours", "args": ["a", "b", "c"]}])).await?;
    let live = fixture
        .applier
        .read(&kind, &ObjectKey::namespaced(&*fixture.namespace, "d"))
        .await?;
    let applied = fixture.applier.adopt(&kind, desired, live.as_ref()).await?;
    let Applied::Written(corrected) = applied else {
        panic!("the argument stays");
    };
    let containers = corrected["spec"]["template"]["spec"]["containers"].as_array();
    let ours = containers.unwrap().iter().find(|one| one["name"] == "ours");
    assert_eq!(ours.unwrap()["args"], json!(["a", "b"]));
    Ok(())
}

#[tokio::test]
async fn pruning_without_labels_is_refused() -> Result<()> {
    let fixture = fixture("applier-prune-all").await?;
    fixture.apply(json!({})).await?;
    let kind = Kind::of::<ConfigMap>();
    let none = BTreeSet::new();
    for labels in ["", " "] {
        let refused = fixture
            .applier
            .prune(&kind, Some(&fixture.namespace), labels, &none);
        assert_eq!(refused.await.unwrap_err().class(), Class::Invalid);
    }
    assert_eq!(fixture.live().await?["metadata"]["name"], "m");
    Ok(())
}

#[tokio::test]
async fn a_deletion_may_be_bound_to_a_version() -> Result<()> {
    let fixture = fixture("applier-delete-version").await?;
    fixture.apply(json!({"a": "1"})).await?;
    let (kind, key) = (
        Kind::of::<ConfigMap>(),
        ObjectKey::namespaced(&*fixture.namespace, "m"),
    );
    let old = fixture.live().await?;
    fixture.edit("somebody", json!({"theirs": "x"})).await?;
    let version = |object: &Value| object["metadata"]["resourceVersion"].as_str()?.parse().ok();
    let deletion = Deletion {
        uid: old["metadata"]["uid"].as_str().unwrap(),
        version: version(&old),
        propagation: Propagation::Orphan,
        grace_seconds: Some(0),
    };
    let refused = fixture.applier.delete_with(&kind, &key, &deletion).await;
    assert_eq!(refused.unwrap_err().class(), Class::Stale);
    let deletion = Deletion {
        version: version(&fixture.live().await?),
        ..deletion
    };
    fixture.applier.delete_with(&kind, &key, &deletion).await?;
    // The garbage collector removes this finalizer, but does not run here.
    let finalizers = &fixture.live().await?["metadata"]["finalizers"];
    assert_eq!(*finalizers, json!(["orphan"]));
    Ok(())
}
