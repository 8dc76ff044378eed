//! Where the stories of this feature happen: two clusters with simulated nodes and disks, and for each story
//! namespaces of its own in both.
//!
//! ```text
//! TwoClusters: clusters source and destination, EC2, the operator in destination   (one for all stories)
//!   └─ Shop: a namespace in each cluster, one for the migration with both kubeconfigs
//! ```
#![allow(dead_code)] // each file uses its part

use std::time::Duration;

use api::migrate::{
    CheckId, FailReason, Phase, Severity, StatefulSetMigration, StatefulSetMigrationStatus,
    conditions,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Service};
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use testkit::disks::{DRIVER, DiskSimulators, SetPlan, SimulatorOptions, plane_options};
use testkit::stories::WorldPool;
use testkit::{Cluster, ClusterPlan, Entry, Mark, Result, Story, Team, World, is};

/// Time runs so many times as fast in the operator and in the simulators.
const PACE: u32 = 5;
/// How long a whole run may take, in real time.
const PATIENCE: Duration = Duration::from_secs(120);
/// How many stories share the two clusters at once.
const STORIES: usize = 4;
/// The namespace of the accounts that the operator uses.
const ACCOUNTS: &str = "pontoon-migrate";
/// The name of the migration in each story.
pub(crate) const NAME: &str = "move";

/// The name of the source cluster, and of the Secret with its kubeconfig.
pub(crate) const SOURCE: &str = "source";
/// The same of the destination cluster.
pub(crate) const DESTINATION: &str = "destination";
const ROLES: [(&str, &str, &str); 2] = [
    (
        SOURCE,
        "pontoon-migrate-source",
        include_str!("../../../../docs/rbac/migrate-source.yaml"),
    ),
    (
        DESTINATION,
        "pontoon-migrate-destination",
        include_str!("../../../../docs/rbac/migrate-destination.yaml"),
    ),
];

/// Tells a story about three replicas with the template `data`.
pub(crate) fn run_story(story: impl AsyncFnOnce(&Shop) -> Result<()>) -> Result<()> {
    run_story_of(replicas(3), story)
}

/// A StatefulSet of so many replicas with the template `data`.
pub(crate) fn replicas(count: u32) -> SetPlan {
    SetPlan {
        replicas: count,
        ..SetPlan::new("")
    }
}

/// Tells a story in the two clusters that all stories share. The namespace of the set is the story's.
pub(crate) fn run_story_of(
    set: SetPlan,
    story: impl AsyncFnOnce(&Shop) -> Result<()>,
) -> Result<()> {
    static POOL: WorldPool<(), TwoClusters> = WorldPool::new(1, STORIES);
    POOL.run((), TwoClusters::start, async |site| {
        let shop = Shop::open(site, set).await?;
        story(&shop).await?;
        assert_eq!(shop.violations()?, Vec::<Value>::new());
        Ok(())
    })
}

/// Two clusters whose nodes attach disks of one EC2.
pub(crate) struct TwoClusters {
    pub(crate) world: World,
    pub(crate) source: DiskSimulators,
    pub(crate) destination: DiskSimulators,
}

impl AsRef<World> for TwoClusters {
    fn as_ref(&self) -> &World {
        &self.world
    }
}

impl TwoClusters {
    async fn start() -> Result<Self> {
        let world = World::new()
            .feature("migrate")
            .arg("--migrate-legacy-lease=none")
            .aws()
            .time(PACE)
            .cluster(SOURCE, ClusterPlan::from(plane_options()))
            .cluster(DESTINATION, ClusterPlan::from(plane_options()))
            .operator_in(DESTINATION)
            .start()
            .await?;
        let timing = json!({"attachMs": 200, "detachMs": 200, "createMs": 50, "deleteMs": 50});
        world.aws().control(Method::PUT, "ec2/timing", timing)?;
        // The operator calls with the emulator's usual key, the attachers with their own.
        world
            .aws()
            .control(Method::PUT, "oracle", json!({"operators": ["test"]}))?;
        let url = world.aws().url();
        let simulate = async |cluster: &str, role: &str| {
            let options = SimulatorOptions {
                factor: f64::from(PACE),
                ..SimulatorOptions::new(role)
            };
            let plane = world.named_cluster(cluster).control_plane();
            DiskSimulators::start(plane, &url, options).await
        };
        let source = simulate(SOURCE, "attacher-src").await?;
        let destination = simulate(DESTINATION, "attacher-dst").await?;
        Ok(Self {
            world,
            source,
            destination,
        })
    }
}

/// The namespaces of one story.
pub(crate) struct Shop {
    pub(crate) site: &'static TwoClusters,
    /// The namespace of the migration, in the destination.
    pub(crate) ops: Team,
    /// The namespace in the source.
    pub(crate) source: Team,
    /// The namespace in the destination.
    pub(crate) destination: Team,
    /// The StatefulSet in the source.
    pub(crate) set: SetPlan,
}

impl Shop {
    async fn open(site: &'static TwoClusters, set: SetPlan) -> Result<Self> {
        let (source, destination) = (
            site.world.named_cluster(SOURCE),
            site.world.named_cluster(DESTINATION),
        );
        let namespace = source.namespace("shop").await?.within(PATIENCE);
        let shop = Self {
            site,
            ops: destination.namespace("ops").await?.within(PATIENCE),
            destination: destination.namespace("shop-new").await?.within(PATIENCE),
            set: SetPlan {
                namespace: namespace.name().to_owned(),
                ..set
            },
            source: namespace,
        };
        for (name, _, roles) in ROLES {
            shop.grant(name, roles).await?;
            shop.store(name, &shop.kubeconfig(name).await?).await?;
        }
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": shop.set.name},
            "spec": {
                "clusterIP": "None", "selector": {"app": shop.set.name}, "ports": [{"port": 80}],
            },
        });
        shop.destination.apply(&service.to_string()).await?;
        shop.add_class("gp2").await?;
        Ok(shop)
    }

    /// Makes a StorageClass of a type of disks in the destination.
    pub(crate) async fn add_class(&self, name: &str) -> Result<()> {
        let class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": DRIVER, "parameters": {"type": name},
        });
        let cluster = self.cluster(DESTINATION).cluster();
        cluster.apply(&class.to_string()).await.map(drop)
    }

    /// Lets the operator's account work in the story's namespace of a cluster.
    async fn grant(&self, name: &str, roles: &str) -> Result<()> {
        let own = format!("namespace: {}", self.namespace(name).name());
        let roles = roles.replace("namespace: shop", &own);
        self.cluster(name).cluster().apply(&roles).await.map(drop)
    }

    /// A kubeconfig of the operator's account in a cluster, with a new token.
    pub(crate) async fn kubeconfig(&self, name: &str) -> Result<Value> {
        let (cluster, account) = (self.cluster(name), account(name));
        let plane = cluster.control_plane();
        let kubeconfig = plane
            .kubeconfig_for(ACCOUNTS, account, Some(cluster.proxy()))
            .await?;
        Ok(serde_json::from_str(&kubeconfig)?)
    }

    /// Stores a kubeconfig in a Secret beside the migration.
    pub(crate) async fn store(&self, secret: &str, kubeconfig: &Value) -> Result<()> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret},
            "data": {"kubeconfig": STANDARD.encode(kubeconfig.to_string())},
        });
        self.ops.apply(&secret.to_string()).await.map(drop)
    }

    /// What the operator has written to this story's objects in a cluster, dry runs left out.
    pub(crate) async fn writes_since(&self, name: &str, mark: Mark) -> Result<Vec<Entry>> {
        let own = self.namespace(name).name();
        let user = format!("system:serviceaccount:{ACCOUNTS}:{}", account(name));
        let is_of_story = |entry: &Entry| {
            let is_own = entry.namespace == own || entry.name.starts_with(own);
            is_own && entry.user == user && !entry.request_uri.contains("dryRun=All")
        };
        let plane = self.cluster(name).control_plane();
        plane.writes_since(mark, is_of_story).await
    }

    fn namespace(&self, cluster: &str) -> &Team {
        if cluster == SOURCE {
            &self.source
        } else {
            &self.destination
        }
    }

    /// One of the clusters.
    pub(crate) fn cluster(&self, name: &str) -> &Cluster {
        self.site.world.named_cluster(name)
    }

    /// Makes the StatefulSet with its disks in the source, and waits until its pods are Ready.
    pub(crate) async fn open_shop(&self) -> Result<()> {
        self.site
            .source
            .seed(&self.source.client(), &self.set)
            .await
    }

    /// The same with fields of the StatefulSet beside the usual ones.
    pub(crate) async fn open_shop_with(&self, fields: &Value) -> Result<()> {
        let client = self.source.client();
        self.site.source.seed_claims(&client, &self.set).await?;
        self.declare_set(&self.set, fields).await
    }

    /// Makes a StatefulSet in the source, and waits until all of its pods are Ready. Its claims exist.
    pub(crate) async fn declare_set(&self, set: &SetPlan, fields: &Value) -> Result<()> {
        let mut object = set.stateful_set();
        testkit::stories::merge(&mut object, fields);
        self.source.apply(&object.to_string()).await?;
        let replicas = i32::try_from(set.replicas)?;
        let is_up = move |live: &StatefulSet| {
            let status = live.status.as_ref();
            status.is_some_and(|status| {
                status.observed_generation == live.metadata.generation
                    && status.ready_replicas.unwrap_or_default() == replicas
            })
        };
        let live = self.source.until::<StatefulSet>(&set.name, is_up);
        live.await.map(drop)
    }

    /// Creates the migration, with these fields beside the usual ones.
    pub(crate) async fn migrate(&self, fields: &Value) -> Result<()> {
        self.migrate_as(NAME, fields).await
    }

    /// The same under another name.
    pub(crate) async fn migrate_as(&self, name: &str, fields: &Value) -> Result<()> {
        let mut spec = json!({
            "migrationId": "story",
            "sourceCluster": {"kubeConfigSecret": SOURCE},
            "destCluster": {"kubeConfigSecret": DESTINATION},
            "sourceNamespace": self.source.name(),
            "destNamespace": self.destination.name(),
            "statefulSetName": self.set.name,
            "sourceCleanup": {"soak": "0s"},
        });
        testkit::stories::merge(&mut spec, fields);
        let migration = json!({
            "apiVersion": "migration.aqua.io/v1alpha1", "kind": "StatefulSetMigration",
            "metadata": {"name": name}, "spec": spec,
        });
        self.ops.apply(&migration.to_string()).await.map(drop)
    }

    /// Edits the spec of the migration.
    pub(crate) async fn edit(&self, fields: &Value) -> Result<()> {
        let migrations =
            Api::<StatefulSetMigration>::namespaced(self.ops.client(), self.ops.name());
        let patch = Patch::Merge(json!({"spec": fields}));
        let parameters = PatchParams::default();
        migrations.patch(NAME, &parameters, &patch).await?;
        Ok(())
    }

    /// Edits the spec of the migration, and returns why the API server refuses it.
    pub(crate) async fn refusal(&self, fields: &Value) -> String {
        let edited = self.edit(fields).await;
        let refused = edited.expect_err("the API server refuses this edit");
        format!("{refused:#}")
    }

    /// Waits until the run is paused for a reason, and the last edit was seen.
    pub(crate) async fn until_paused(&self, reason: &str) -> Result<StatefulSetMigrationStatus> {
        let paused = is(conditions::PAUSED, reason);
        self.ops
            .until_status::<StatefulSetMigration>(NAME, paused)
            .await
    }

    /// Waits until the checks stop a migration, and returns what they found, without mere information.
    pub(crate) async fn until_blocked(&self, name: &str) -> Result<Vec<(CheckId, String)>> {
        let blocked = is(conditions::READY, FailReason::PreflightBlocked.as_str());
        let status = self
            .ops
            .until_status::<StatefulSetMigration>(name, blocked)
            .await?;
        let checks = status.preflight.map(|preflight| preflight.checks);
        let findings = checks.unwrap_or_default().into_iter();
        let stopping = findings.filter(|finding| finding.severity != Severity::Info);
        Ok(stopping
            .map(|finding| (finding.id, finding.message))
            .collect())
    }

    /// Waits until the run is in a phase.
    pub(crate) async fn until_phase(&self, phase: Phase) -> Result<StatefulSetMigrationStatus> {
        let is_there = move |migration: &StatefulSetMigration| {
            let status = migration.status.as_ref();
            status.and_then(|status| status.phase) == Some(phase)
        };
        self.ops
            .until_status::<StatefulSetMigration>(NAME, is_there)
            .await
    }

    /// The disks of the set's claims in a namespace, by claim.
    pub(crate) async fn disks(&self, team: &Story) -> Result<Vec<(String, String)>> {
        let claims = Api::<PersistentVolumeClaim>::namespaced(team.client(), team.name());
        let volumes = Api::<PersistentVolume>::all(team.client());
        let mut disks = Vec::new();
        for claim in claims.list(&ListParams::default()).await? {
            let volume = claim.spec.and_then(|spec| spec.volume_name);
            let volume = volumes.get(&volume.unwrap_or_default()).await?;
            let csi = volume.spec.and_then(|spec| spec.csi);
            let disk = csi.map(|csi| csi.volume_handle).unwrap_or_default();
            disks.push((claim.metadata.name.unwrap_or_default(), disk));
        }
        disks.sort();
        Ok(disks)
    }

    /// The disks of the set before the migration, by claim.
    pub(crate) fn own_disks(&self) -> Vec<(String, String)> {
        let ordinals = self.set.ordinals();
        let disks = ordinals.flat_map(|ordinal| {
            let templates = self.set.templates.iter();
            templates.map(move |template| {
                let claim = self.set.claim(template, ordinal);
                (claim, self.set.volume(template, ordinal))
            })
        });
        let mut disks: Vec<_> = disks.collect();
        disks.sort();
        disks
    }

    /// The pods of the set in a namespace that are Ready, by name.
    pub(crate) async fn ready_pods(&self, team: &Story) -> Result<Vec<String>> {
        let pods = Api::<Pod>::namespaced(team.client(), team.name());
        let pods = pods.list(&ListParams::default()).await?;
        let is_ready = |pod: &Pod| has_condition(pod, "Ready", "True");
        let ready = pods.into_iter().filter(is_ready);
        let mut names: Vec<_> = ready.filter_map(|pod| pod.metadata.name).collect();
        names.sort();
        Ok(names)
    }

    /// The StatefulSet in a namespace.
    pub(crate) async fn stateful_set(&self, team: &Story) -> Result<Option<StatefulSet>> {
        let sets = Api::<StatefulSet>::namespaced(team.client(), team.name());
        Ok(sets.get_opt(&self.set.name).await?)
    }

    /// Whether the Service exists in a namespace.
    pub(crate) async fn has_service(&self, team: &Story) -> Result<bool> {
        let services = Api::<Service>::namespaced(team.client(), team.name());
        Ok(services.get_opt(&self.set.name).await?.is_some())
    }

    /// What EC2's oracle has to say against this story's disks.
    pub(crate) fn violations(&self) -> Result<Vec<Value>> {
        let oracle = self
            .site
            .world
            .aws()
            .control(Method::GET, "oracle", Value::Null)?;
        let violations = oracle["violations"].as_array().cloned().unwrap_or_default();
        let own = self.own_disks();
        let is_own = |violation: &Value| {
            let text = violation.to_string();
            own.iter().any(|(_, disk)| text.contains(disk.as_str()))
        };
        Ok(violations.into_iter().filter(is_own).collect())
    }
}

/// The ids of findings.
pub(crate) fn ids(findings: &[(CheckId, String)]) -> Vec<CheckId> {
    findings.iter().map(|(id, _)| *id).collect()
}

/// The message of the finding of a check; empty if it has none.
pub(crate) fn message(findings: &[(CheckId, String)], id: CheckId) -> &str {
    let finding = findings.iter().find(|(of, _)| *of == id);
    finding.map_or("", |(_, message)| message)
}

/// Whether a pod has a condition with this status.
pub(crate) fn has_condition(pod: &Pod, kind: &str, status: &str) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one.type_ == kind && one.status == status)
}

/// The first ordinal of a StatefulSet.
pub(crate) fn first_ordinal(set: &StatefulSet) -> i32 {
    let ordinals = set.spec.as_ref().and_then(|spec| spec.ordinals.as_ref());
    ordinals
        .and_then(|ordinals| ordinals.start)
        .unwrap_or_default()
}

/// The operator's account in a cluster.
fn account(cluster: &str) -> &'static str {
    let mut all = ROLES.iter();
    let found = all.find(|(name, _, _)| *name == cluster);
    found.map_or("", |(_, account, _)| *account)
}
