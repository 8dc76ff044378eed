//! Where the stories of this feature happen: two clusters with simulated nodes and disks, and for each story
//! namespaces of its own in both.
//!
//! ```text
//! Site: clusters source and destination, EC2, the operator in destination   (one for all stories)
//!   └─ Shop: a namespace in each cluster, one for the migration with both kubeconfigs
//! ```
#![allow(dead_code)] // each file uses its part

use std::time::Duration;

use api::migrate::{Phase, StatefulSetMigration, StatefulSetMigrationStatus};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Service};
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use testkit::disks::{DRIVER, DiskSimulators, SetPlan, SimulatorOptions, plane_options};
use testkit::stories::WorldPool;
use testkit::{Cluster, ClusterPlan, Result, Story, Team, World};

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

const SOURCE: &str = "source";
const DESTINATION: &str = "destination";
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

/// Tells a story in the two clusters that all stories share.
pub(crate) fn tell(story: impl AsyncFnOnce(&Shop) -> Result<()>) -> Result<()> {
    static POOL: WorldPool<(), Site> = WorldPool::new(1, STORIES);
    POOL.run((), Site::start, async |site| {
        let shop = Shop::open(site).await?;
        story(&shop).await?;
        assert_eq!(shop.violations()?, Vec::<Value>::new());
        Ok(())
    })
}

/// Two clusters whose nodes attach disks of one EC2.
pub(crate) struct Site {
    pub(crate) world: World,
    pub(crate) source: DiskSimulators,
    pub(crate) destination: DiskSimulators,
}

impl AsRef<World> for Site {
    fn as_ref(&self) -> &World {
        &self.world
    }
}

impl Site {
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
    pub(crate) site: &'static Site,
    /// The namespace of the migration, in the destination.
    pub(crate) ops: Team,
    /// The namespace in the source.
    pub(crate) source: Team,
    /// The namespace in the destination.
    pub(crate) destination: Team,
    /// The StatefulSet: three replicas, template `data`.
    pub(crate) set: SetPlan,
}

impl Shop {
    async fn open(site: &'static Site) -> Result<Self> {
        let (source, destination) = (
            site.world.named_cluster(SOURCE),
            site.world.named_cluster(DESTINATION),
        );
        let shop = Self {
            site,
            ops: destination.namespace("ops").await?.within(PATIENCE),
            source: source.namespace("shop").await?.within(PATIENCE),
            destination: destination.namespace("shop-new").await?.within(PATIENCE),
            set: SetPlan {
                replicas: 3,
                ..SetPlan::new("")
            },
        };
        let set = SetPlan {
            namespace: shop.source.name().to_owned(),
            ..shop.set.clone()
        };
        let shop = Self { set, ..shop };
        for (name, account, roles) in ROLES {
            shop.grant(name, account, roles).await?;
        }
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"clusterIP": "None", "selector": {"app": "web"}, "ports": [{"port": 80}]},
        });
        shop.destination.apply(&service.to_string()).await?;
        let class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "gp2"},
            "provisioner": DRIVER, "parameters": {"type": "gp2"},
        });
        destination.cluster().apply(&class.to_string()).await?;
        Ok(shop)
    }

    /// Lets the operator's account work in the story's namespace of a cluster, and stores its kubeconfig.
    async fn grant(&self, name: &str, account: &str, roles: &str) -> Result<()> {
        let cluster = self.site.world.named_cluster(name);
        let namespace = self.namespace(name).name().to_owned();
        let own = format!("namespace: {namespace}");
        cluster
            .cluster()
            .apply(&roles.replace("namespace: shop", &own))
            .await?;
        let plane = cluster.control_plane();
        let kubeconfig = plane
            .kubeconfig_for(ACCOUNTS, account, Some(cluster.proxy()))
            .await?;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "data": {"kubeconfig": STANDARD.encode(kubeconfig)},
        });
        self.ops.apply(&secret.to_string()).await.map(drop)
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

    /// Creates the migration, with these fields beside the usual ones.
    pub(crate) async fn migrate(&self, fields: &Value) -> Result<()> {
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
            "metadata": {"name": NAME}, "spec": spec,
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
        let is_ready = |pod: &Pod| {
            let status = pod.status.as_ref();
            let mut conditions = status
                .and_then(|status| status.conditions.as_ref())
                .into_iter()
                .flatten();
            conditions.any(|one| one.type_ == "Ready" && one.status == "True")
        };
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
