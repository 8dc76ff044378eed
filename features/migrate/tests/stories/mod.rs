//! Where the stories of this feature happen: two clusters with simulated nodes and disks, and for each story
//! namespaces of its own in both.
//!
//! ```text
//! TwoClusters: clusters source and destination, EC2, the operator in destination   (one for all stories)
//!   └─ Shop: a namespace in each cluster, one for the migration with both kubeconfigs
//! ```
#![allow(dead_code)] // each file uses its part

mod faults;
mod observed;
mod shop;
mod state;
mod verbs;
mod views;

use http::Method;
use serde_json::{Value, json};
use testkit::disks::{DiskSimulators, NodePlan, SetPlan, SimulatorOptions, plane_options};
use testkit::stories::WorldPool;
use testkit::{ClusterPlan, Result, World};

pub(crate) use faults::{ATTACH, READ};
pub(crate) use observed::{first_ordinal, has_condition, ids, is_ready, message, replicas_of};
pub(crate) use shop::{Shop, foreign_volume};
pub(crate) use verbs::VerbOutput;

/// Time runs so many times as fast in the operator and in the simulators.
pub(crate) const PACE: u32 = 10;
/// How many stories share the two clusters at once.
const STORIES: usize = 8;
/// How many disks a node takes. Stories leave theirs attached.
const DISKS_PER_NODE: u32 = 100;
/// Zones with one node in each cluster, for stories that change their nodes: see [`in_zone`].
/// Each is named by one story alone.
const OWN_ZONES: [&str; 6] = [
    "us-east-1c",
    "us-east-1d",
    "us-east-1e",
    "us-east-1f",
    "us-east-1g",
    "us-east-1h",
];
/// The namespace of the accounts that the operator uses.
pub(crate) const ACCOUNTS: &str = "pontoon-migrate";
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

/// The same, with all disks in one zone.
pub(crate) fn in_zone(zone: &str, count: u32) -> SetPlan {
    SetPlan {
        zones: vec![zone.to_owned()],
        ..replicas(count)
    }
}

/// The only node of a zone that belongs to one story.
pub(crate) fn node_in(zone: &str) -> String {
    format!("node-{zone}")
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
        let timing = json!({"attachMs": 100, "detachMs": 100, "createMs": 50, "deleteMs": 50});
        world.aws().control(Method::PUT, "ec2/timing", timing)?;
        // The operator calls with the emulator's usual key, the attachers with their own.
        world
            .aws()
            .control(Method::PUT, "oracle", json!({"operators": ["test"]}))?;
        let url = world.aws().url();
        let simulate = async |cluster: &str, role: &str| {
            let mut options = SimulatorOptions {
                factor: f64::from(PACE),
                disks_per_node: DISKS_PER_NODE,
                ..SimulatorOptions::new(role)
            };
            let own = OWN_ZONES
                .iter()
                .map(|zone| NodePlan::new(&node_in(zone), zone));
            options.nodes.extend(own);
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

/// The operator's account in a cluster.
pub(crate) fn account(cluster: &str) -> &'static str {
    let mut all = ROLES.iter();
    let found = all.find(|(name, _, _)| *name == cluster);
    found.map_or("", |(_, account, _)| *account)
}
