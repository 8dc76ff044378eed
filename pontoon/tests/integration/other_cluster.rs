//! An object of one cluster whose copy is in another: logins, identities, and clusters that are away.

use std::time::Duration;

use api::probe::{ACCEPT_CLUSTER, Mirror, Probe, SecretKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use testkit::fault_proxy::{AnyMethod, Rule};
use testkit::{Cluster, ClusterPlan, Result, Story, Team, World, WorldPlan, eventually, is};

use crate::probe_objects::probe;

/// The namespace of the copies in the other cluster.
const ABROAD: &str = "default";
/// The account in the other cluster.
const ACCOUNT: &str = "mirror";

/// A world of two clusters; the operator runs in `own`.
fn two_clusters() -> WorldPlan {
    World::new()
        .feature("probe")
        .arg("--probe-resync=36000")
        .time(20)
        .cluster("own", ClusterPlan::new())
        .cluster("other", ClusterPlan::new())
}

async fn start(plan: WorldPlan) -> Result<(World, Team)> {
    let world = plan.start().await?;
    let team = world.namespace("harbour").await?;
    grant(world.named_cluster("other")).await?;
    Ok((world, team))
}

/// Lets the account of Mirrors do its work in `cluster`.
async fn grant(cluster: &Cluster) -> Result<()> {
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"],
         "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
    ]);
    cluster.control_plane().grant(ABROAD, ACCOUNT, &rules).await
}

/// A kubeconfig for the account, through the proxy before the cluster.
async fn kubeconfig(cluster: &Cluster) -> Result<String> {
    let plane = cluster.control_plane();
    plane
        .kubeconfig_for(ABROAD, ACCOUNT, Some(cluster.proxy()))
        .await
}

async fn store(team: &Team, kubeconfig: &str) -> Result<()> {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "there"},
        "data": {"kubeconfig": STANDARD.encode(kubeconfig)},
    });
    team.apply(&secret.to_string()).await.map(drop)
}

fn mirror(name: &str, text: &str) -> String {
    let kubeconfig = SecretKey {
        name: "there".to_owned(),
        key: "kubeconfig".to_owned(),
    };
    let mirror = json!({
        "apiVersion": "probe.pontoon.io/v1alpha1", "kind": "Mirror",
        "metadata": {"name": name},
        "spec": {"kubeconfig": kubeconfig, "namespace": ABROAD, "text": text},
    });
    mirror.to_string()
}

fn has_text(text: &str) -> impl Fn(&ConfigMap) -> bool {
    let text = text.to_owned();
    move |copy| copy.data.as_ref().is_some_and(|data| data["text"] == text)
}

async fn edit(client: Client, name: &str, change: Value) -> Result<()> {
    let maps = Api::<ConfigMap>::namespaced(client, ABROAD);
    let patch = Patch::Merge(change);
    maps.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

fn message(mirror: &Mirror) -> String {
    let status = mirror.status.as_ref();
    let ready = status.and_then(|status| status.conditions.iter().find(|one| one.type_ == "Ready"));
    ready.map(|ready| ready.message.clone()).unwrap_or_default()
}

async fn identity(cluster: &Cluster) -> Result<String> {
    let namespaces = Api::<Namespace>::all(cluster.cluster().client());
    Ok(namespaces
        .get("kube-system")
        .await?
        .uid()
        .unwrap_or_default())
}

/// Waits until the line of the other cluster in `/readyz?verbose` fits; none if there is no such line.
async fn until_readyz(
    world: &World,
    what: &str,
    fits: impl Fn(Option<&str>) -> bool,
) -> Result<()> {
    eventually(&format!("readyz: {what}"), async || {
        let (status, lines) = world.operator().probe("/readyz?verbose").await?;
        assert_eq!(status, 200, "a probe does not fail for another cluster");
        // The name of a cluster is the Secret and its key.
        let is_other = |line: &&str| {
            line.contains("cluster probe/") && line.contains("/there (kubeconfig) at ")
        };
        let line = lines.lines().find(is_other);
        Ok(fits(line).then_some(()))
    })
    .await
}

/// How many watches and lists of ConfigMaps the other cluster has received.
fn watches_and_lists(cluster: &Cluster) -> (usize, usize) {
    let proxy = cluster.proxy();
    let watches = proxy.count(http::Method::GET, "/api/v1/configmaps?*watch=true*");
    let all = proxy.count(http::Method::GET, "/api/v1/configmaps");
    (watches, all - watches)
}

#[tokio::test]
async fn a_copy_in_another_cluster_follows_its_object() -> Result<()> {
    let (world, team) = start(two_clusters()).await?;
    let other = world.named_cluster("other");
    let abroad: Story = other.in_namespace(ABROAD);
    store(&team, &kubeconfig(other).await?).await?;
    team.apply(&mirror("ferry", "first")).await?;
    let ready = team
        .until::<Mirror>("ferry", is("Ready", "Succeeded"))
        .await?;
    abroad
        .until::<ConfigMap>("ferry", has_text("first"))
        .await?;
    let pinned = ready.status.and_then(|status| status.cluster);
    assert_eq!(pinned, Some(identity(other).await?));

    // A change there wakes the object here: the next resync is half an hour away.
    edit(
        abroad.client(),
        "ferry",
        json!({"data": {"text": "edited"}}),
    )
    .await?;
    abroad
        .until::<ConfigMap>("ferry", has_text("first"))
        .await?;

    // A new login under the open watch: no list, no new watch, and changes still arrive.
    let before = watches_and_lists(other);
    assert!(before.0 >= 1, "there is a watch: {before:?}");
    store(&team, &kubeconfig(other).await?).await?;
    team.apply(&mirror("ferry", "second")).await?;
    abroad
        .until::<ConfigMap>("ferry", has_text("second"))
        .await?;
    edit(
        abroad.client(),
        "ferry",
        json!({"data": {"text": "edited"}}),
    )
    .await?;
    abroad
        .until::<ConfigMap>("ferry", has_text("second"))
        .await?;
    assert_eq!(watches_and_lists(other), before);

    until_readyz(&world, "the cluster is listed", |line| line.is_some()).await?;
    team.delete::<Mirror>("ferry").await?;
    team.gone::<Mirror>("ferry").await?;
    abroad.gone::<ConfigMap>("ferry").await?;
    until_readyz(&world, "the cluster is not listed", |line| line.is_none()).await
}

#[tokio::test]
async fn a_cluster_that_is_away_affects_no_other() -> Result<()> {
    let (world, team) = start(two_clusters()).await?;
    let other = world.named_cluster("other");
    store(&team, &kubeconfig(other).await?).await?;
    team.apply(&mirror("ferry", "first")).await?;
    team.until::<Mirror>("ferry", is("Ready", "Succeeded"))
        .await?;

    other.control_plane().freeze()?;
    team.apply(&mirror("ferry", "second")).await?;
    for n in 0..20 {
        team.apply(&probe(&format!("p{n}"), "text: here")).await?;
    }
    // First: these do not wait for the calls to the other cluster.
    let team = team.within(Duration::from_secs(30));
    for n in 0..20 {
        team.until::<Probe>(&format!("p{n}"), is("Ready", "Succeeded"))
            .await?;
    }
    let team = team.within(Duration::from_secs(120));
    team.until::<Mirror>("ferry", is("Ready", "Failed")).await?;
    // Sooner than by silence: the watch must connect again.
    other.proxy().cut_all();
    let is_interrupted = |line: Option<&str>| line.is_some_and(|it| it.contains("interrupted"));
    until_readyz(&world, "the cluster is interrupted", is_interrupted).await?;

    other.control_plane().thaw()?;
    let abroad = other.in_namespace(ABROAD);
    abroad
        .until::<ConfigMap>("ferry", has_text("second"))
        .await?;
    team.until::<Mirror>("ferry", is("Ready", "Succeeded"))
        .await?;
    Ok(())
}

#[tokio::test]
async fn nothing_is_written_to_a_cluster_of_another_identity() -> Result<()> {
    let clone = ClusterPlan::new().authority_of("other");
    let (world, team) = start(two_clusters().cluster("clone", clone)).await?;
    let (other, clone) = (world.named_cluster("other"), world.named_cluster("clone"));
    let (from, to) = (other.control_plane(), clone.control_plane());
    to.copy_service_account(from, ABROAD, ACCOUNT).await?;
    grant(clone).await?;
    store(&team, &kubeconfig(other).await?).await?;
    team.apply(&mirror("ferry", "first")).await?;
    team.until::<Mirror>("ferry", is("Ready", "Succeeded"))
        .await?;

    // A pass that has read the identity may still write within the validity: wait until none runs.
    let denied = Rule::on(http::Method::GET, "/api/v1/namespaces/kube-system")
        .status(http::StatusCode::FORBIDDEN, "");
    let denied = other.proxy().rule(denied);
    team.apply(&mirror("ferry", "second")).await?;
    team.until::<Mirror>("ferry", is("Ready", "Failed")).await?;

    // The same address and authority, and the login is valid: only the identity differs.
    let mark = to.mark();
    let moved = Rule::on_regex(AnyMethod::any(), ".*")?.redirect(&to.upstream())?;
    let moved = other.proxy().rule(moved);
    other.proxy().remove(denied);
    other.proxy().cut_all();
    team.apply(&mirror("ferry", "third")).await?;
    let refused = team
        .until::<Mirror>("ferry", is("Ready", "IdentityChanged"))
        .await?;
    let (was, now) = (identity(other).await?, identity(clone).await?);
    let text = message(&refused);
    assert!(text.contains(&was) && text.contains(&now), "{text}");
    team.apply(&mirror("new", "second")).await?;
    team.until::<Mirror>("new", is("Ready", "IdentityChanged"))
        .await?;
    let ours = |entry: &testkit::Entry| entry.is_write() && entry.user.ends_with(":mirror");
    let written = to.entries_since(mark).await?;
    let written: Vec<_> = written.into_iter().filter(ours).collect();
    assert!(written.is_empty(), "{written:?}");

    // Back at the right cluster, a person says so, and work goes on.
    other.proxy().remove(moved);
    other.proxy().cut_all();
    let mirrors = Api::<Mirror>::namespaced(team.client(), team.name());
    let accept = json!({"metadata": {"annotations": {ACCEPT_CLUSTER: was}}});
    mirrors
        .patch("ferry", &PatchParams::default(), &Patch::Merge(accept))
        .await?;
    let abroad = other.in_namespace(ABROAD).within(Duration::from_secs(60));
    abroad
        .until::<ConfigMap>("ferry", has_text("third"))
        .await?;
    team.until::<Mirror>("ferry", is("Ready", "Succeeded"))
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_kubeconfig_that_runs_a_program_is_refused_by_field() -> Result<()> {
    let (world, team) = crate::outside::start_world(crate::outside::probe_world()).await?;
    let folder = tempfile::tempdir()?;
    let created = folder.path().join("executed");
    let mut config: Value = serde_json::from_str(
        &world
            .control_plane()
            .kubeconfig_for(ABROAD, ACCOUNT, None)
            .await?,
    )?;
    config["users"][0]["user"] = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "touch", "args": [created], "interactiveMode": "Never",
    }});
    store(&team, &config.to_string()).await?;
    team.apply(&mirror("ferry", "first")).await?;
    let refused = team
        .until::<Mirror>("ferry", is("Ready", "KubeconfigRefused"))
        .await?;
    assert!(message(&refused).contains("users[0].user.exec"));
    assert!(!created.exists(), "the program was executed");
    Ok(())
}
