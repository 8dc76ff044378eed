//! A cluster with simulated EBS disks and the real controllers.

use http::Method;
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use testkit::{
    Aws, ControlPlane, Result,
    disks::{DiskSimulators, SetPlan, SimulatorOptions, plane_options},
    eventually,
};
use tokio::sync::OnceCell;

/// A cluster with simulators, and EC2.
struct DiskWorld {
    simulators: DiskSimulators,
    plane: ControlPlane,
    aws: Aws,
}

static WORLD: OnceCell<DiskWorld> = OnceCell::const_new();

impl DiskWorld {
    /// The one that all tests share.
    async fn shared() -> Result<&'static Self> {
        WORLD.get_or_try_init(Self::start).await
    }

    async fn start() -> Result<Self> {
        let plane = ControlPlane::start(plane_options()).await?;
        let aws = Aws::start().await?;
        let control = |path: &str, body| {
            let done = aws.control(Method::PUT, path, body);
            done.unwrap_or_else(|error| panic!("{path}: {error:?}"));
        };
        control("oracle", json!({ "operators": ["pontoon"] }));
        control(
            "ec2/timing",
            json!({ "attachMs": 300, "detachMs": 300, "createMs": 100 }),
        );
        let mut options = SimulatorOptions::new("attacher-src");
        options.factor = 5.0;
        let simulators = DiskSimulators::start(&plane, &aws.url(), options).await?;
        Ok(Self {
            simulators,
            plane,
            aws,
        })
    }

    /// A disk as the emulator has it.
    fn disk(&self, id: &str) -> Value {
        let shown = self
            .aws
            .control(Method::GET, &format!("ec2/volumes/{id}"), json!({}));
        shown.unwrap_or_else(|error| panic!("{id}: {error:?}"))
    }

    fn events(&self, id: &str) -> Vec<String> {
        let disk = self.disk(id);
        let log = disk["log"].as_array().cloned().unwrap_or_default();
        let event = |entry: &Value| entry["event"].as_str().unwrap_or_default().to_owned();
        log.iter().map(event).collect()
    }

    async fn until_free(&self, id: &str) -> Result<()> {
        let what = format!(
            "{id} is free; last error: {:?}",
            self.simulators.last_error()
        );
        eventually(&what, async || {
            Ok((self.disk(id)["state"] == "available").then_some(()))
        })
        .await
    }

    fn assert_no_violation(&self) {
        let oracle = self.aws.control(Method::GET, "oracle", json!({}));
        let oracle = oracle.unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(oracle["violations"], json!([]));
    }
}

/// A set of two pods in a namespace of its own.
async fn set(world: &DiskWorld, namespace: &str) -> Result<(Client, SetPlan)> {
    world.plane.ensure_namespace(namespace).await?;
    let (client, plan) = (world.plane.admin(), SetPlan::new(namespace));
    world.simulators.seed(&client, &plan).await?;
    Ok((client, plan))
}

async fn scale(client: &Client, plan: &SetPlan, replicas: u32) -> Result<()> {
    let sets = Api::<StatefulSet>::namespaced(client.clone(), &plan.namespace);
    let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    sets.patch(&plan.name, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// Sets an annotation of a node; `null` removes it.
async fn annotate(nodes: &Api<Node>, node: &str, name: &str, value: Value) -> Result<()> {
    let annotations = json!({ format!("sim.pontoon.test/{name}"): value });
    let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    nodes.patch(node, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// A later pod of this name, once it is Ready.
async fn ready_pod(pods: &Api<Pod>, name: &str, after: Option<&str>) -> Result<Pod> {
    eventually(&format!("pod {name} is Ready"), async || {
        let pod = pods.get_opt(name).await?;
        let pod = pod.filter(|pod| pod.uid().as_deref() != after);
        Ok(pod.filter(is_ready))
    })
    .await
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|one| one.type_ == "Ready");
    ready.any(|one| one.status == "True")
}

fn node_of(pod: &Pod) -> String {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.node_name.clone())
        .unwrap_or_default()
}

#[tokio::test]
async fn a_deleted_pod_returns_on_its_disk() -> Result<()> {
    let world = DiskWorld::shared().await?;
    let (client, plan) = set(world, "replace").await?;
    let pods = Api::<Pod>::namespaced(client.clone(), &plan.namespace);
    let first = ready_pod(&pods, "web-0", None).await?;
    for ordinal in plan.ordinals() {
        let disk = world.disk(&plan.volume("data", ordinal));
        let pod = pods.get(&format!("web-{ordinal}")).await?;
        let attachment = &disk["attachments"][0];
        assert_eq!(attachment["state"], "attached");
        assert_eq!(
            attachment["instance"],
            world.simulators.instance(&node_of(&pod))
        );
        assert_eq!(disk["dirty"], true);
    }

    pods.delete("web-0", &DeleteParams::default()).await?;
    ready_pod(&pods, "web-0", first.uid().as_deref()).await?;

    let disk = plan.volume("data", 0);
    assert_eq!(world.events(&disk), ["start", "stop", "start"]);
    assert_eq!(world.events(&plan.volume("data", 1)), ["start"]);
    world.assert_no_violation();
    Ok(())
}

#[tokio::test]
async fn scaling_down_frees_the_disk() -> Result<()> {
    let world = DiskWorld::shared().await?;
    let (client, plan) = set(world, "scale").await?;
    scale(&client, &plan, 1).await?;
    let disk = plan.volume("data", 1);
    world.until_free(&disk).await?;
    assert_eq!(world.events(&disk), ["start", "stop"]);
    assert_eq!(world.disk(&disk)["dirty"], false);
    assert_eq!(world.disk(&plan.volume("data", 0))["state"], "in-use");
    world.assert_no_violation();
    Ok(())
}

#[tokio::test]
async fn a_new_claim_gets_an_empty_disk_that_ends_with_it() -> Result<()> {
    let world = DiskWorld::shared().await?;
    let (client, plan) = set(world, "provision").await?;
    scale(&client, &plan, 3).await?;
    let pods = Api::<Pod>::namespaced(client.clone(), &plan.namespace);
    ready_pod(&pods, "web-2", None).await?;
    let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), &plan.namespace);
    let claim = claims.get("data-web-2").await?;
    let volumes = Api::<PersistentVolume>::all(client.clone());
    let object = claim
        .spec
        .and_then(|spec| spec.volume_name)
        .unwrap_or_default();
    let volume = volumes.get(&object).await?;
    let finalizer = "external-provisioner.volume.kubernetes.io/finalizer";
    assert!(
        volume.finalizers().iter().any(|one| one == finalizer),
        "{volume:?}"
    );
    let disk = volume
        .spec
        .and_then(|spec| spec.csi)
        .map(|csi| csi.volume_handle);
    let disk = disk.unwrap_or_default();
    assert_eq!(world.events(&disk), ["start"]);

    scale(&client, &plan, 2).await?;
    world.until_free(&disk).await?;
    claims
        .delete("data-web-2", &DeleteParams::default())
        .await?;
    eventually("the PersistentVolume is gone", async || {
        Ok(volumes.get_opt(&object).await?.is_none().then_some(()))
    })
    .await?;
    let path = format!("ec2/volumes/{disk}");
    let shown = world.aws.control(Method::GET, &path, json!({}));
    assert!(shown.is_err() || world.disk(&disk)["state"] != "available");
    world.assert_no_violation();
    Ok(())
}

#[tokio::test]
async fn an_unmount_that_hangs_keeps_the_disk_attached() -> Result<()> {
    let world = DiskWorld::shared().await?;
    let (client, plan) = set(world, "unmount").await?;
    let pods = Api::<Pod>::namespaced(client.clone(), &plan.namespace);
    let nodes = Api::<Node>::all(client.clone());
    let node = node_of(&pods.get("web-1").await?);
    let disk = plan.volume("data", 1);
    annotate(&nodes, &node, "hold-unmount", json!(disk)).await?;
    scale(&client, &plan, 1).await?;
    eventually("web-1 is gone", async || {
        Ok(pods.get_opt("web-1").await?.is_none().then_some(()))
    })
    .await?;
    assert_eq!(world.events(&disk), ["start", "stop"]);
    assert_eq!(world.disk(&disk)["dirty"], true);
    let status = nodes.get(&node).await?.status.unwrap_or_default();
    let in_use = status.volumes_in_use.unwrap_or_default();
    assert!(
        in_use.iter().any(|name| name.ends_with(&disk)),
        "{in_use:?}"
    );

    annotate(&nodes, &node, "hold-unmount", Value::Null).await?;
    world.until_free(&disk).await?;
    world.assert_no_violation();
    Ok(())
}

#[tokio::test]
async fn a_refused_attach_is_repeated() -> Result<()> {
    let world = DiskWorld::shared().await?;
    world.plane.ensure_namespace("refused").await?;
    let (client, plan) = (world.plane.admin(), SetPlan::new("refused"));
    let disk = plan.volume("data", 0);
    world.simulators.seed_claims(&client, &plan).await?;
    let fault = json!({
        "action": "AttachVolume", "volumeId": disk, "caller": "attacher-src", "effect": "deny",
        "times": 1,
    });
    world.aws.control(Method::POST, "faults", fault)?;
    world.simulators.seed(&client, &plan).await?;

    let log = world.aws.control(Method::GET, "log", json!({}))?;
    let entries = log["entries"].as_array().into_iter().flatten();
    let attaches =
        entries.filter(|entry| entry["operation"] == "AttachVolume" && entry["resource"] == disk);
    let answers: Vec<_> = attaches.map(|entry| &entry["status"]).collect();
    assert_eq!(answers, [403, 200]);
    world.assert_no_violation();
    Ok(())
}

#[tokio::test]
async fn annotations_decide_what_pods_and_nodes_report() -> Result<()> {
    let world = DiskWorld::shared().await?;
    world.plane.ensure_namespace("reports").await?;
    let client = world.plane.admin();
    let mut plan = SetPlan::new("reports");
    "quiet".clone_into(&mut plan.name);
    world.simulators.seed(&client, &plan).await?;
    let pods = Api::<Pod>::namespaced(client.clone(), &plan.namespace);
    let nodes = Api::<Node>::all(client.clone());
    let node = node_of(&pods.get("quiet-0").await?);

    annotate(&nodes, &node, "never-ready", json!("quiet-0")).await?;
    eventually("quiet-0 is not Ready", async || {
        let pod = pods.get("quiet-0").await?;
        Ok((!is_ready(&pod)).then_some(()))
    })
    .await?;
    annotate(&nodes, &node, "never-ready", Value::Null).await?;
    ready_pod(&pods, "quiet-0", None).await?;

    annotate(&nodes, &node, "not-ready", json!("true")).await?;
    annotate(&nodes, &node, "boot-id", json!("second")).await?;
    eventually("the node is not ready after another boot", async || {
        let status = nodes.get(&node).await?.status.unwrap_or_default();
        let mut conditions = status.conditions.iter().flatten();
        let not_ready = conditions.any(|one| one.type_ == "Ready" && one.status == "False");
        let boot = status
            .node_info
            .is_some_and(|node| node.boot_id == "second");
        Ok((not_ready && boot).then_some(()))
    })
    .await?;
    annotate(&nodes, &node, "not-ready", Value::Null).await?;
    Ok(())
}
