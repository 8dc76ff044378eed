//! One story: its namespaces in both clusters, its StatefulSet and its migration.

use std::time::Duration;

use api::migrate::StatefulSetMigration;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use testkit::disks::{DRIVER, SetPlan};
use testkit::{Cluster, Entry, Mark, Result, Team};

use super::{ACCOUNTS, DESTINATION, NAME, ROLES, SOURCE, TwoClusters, account};

/// How long a whole run may take, in real time.
const PATIENCE: Duration = Duration::from_secs(120);

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
    pub(super) async fn open(site: &'static TwoClusters, set: SetPlan) -> Result<Self> {
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
        let plane = self.cluster(name).control_plane();
        let kubeconfig = plane.kubeconfig_for(ACCOUNTS, account(name), None).await?;
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
        let migration = self.manifest(name, fields);
        self.ops.apply(&migration).await.map(drop)
    }

    /// The manifest of a migration, with these fields beside the usual ones.
    pub(crate) fn manifest(&self, name: &str, fields: &Value) -> String {
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
        migration.to_string()
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
}

/// A PersistentVolume with this disk that no run has made.
pub(crate) fn foreign_volume(name: &str, disk: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "foreign",
            "csi": {"driver": DRIVER, "volumeHandle": disk},
        },
    })
}
