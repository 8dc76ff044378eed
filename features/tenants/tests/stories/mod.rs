//! Where the stories of this feature happen: clusters that stories use in turn, and AWS made anew for
//! each story.
//!
//! ```text
//! World: control plane, operator                                           (a few)
//!   └─ Site: AWS as below, an operator that was just started, a namespace  (one a story)
//!
//! AWS: distribution E1, for tenants only, certificate *.example.com
//!      connection group cg0, the default one, endpoint d0
//!      hosted zone Z1, example.com
//! ```
//! The operator sees one AWS, and the oracle watches all of it: a cluster is used by one story at a
//! time. At the end of each, nothing may be broken and nothing left over.
#![allow(dead_code)] // each file uses its part

pub(crate) mod calls;
pub(crate) mod cloud;
pub(crate) mod objects;
pub(crate) mod zone;

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use api::tenants::{ConnectionGroup, DistributionTenant};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
pub(crate) use testkit::stories::Plan;
use testkit::stories::WorldPool;
use testkit::{
    Aws, Entry, Operator, OperatorOptions, Result, Story, World, remove_custom_resources,
};

use calls::Call;

/// A minute passes in a second, and tenants are compared with AWS twice a minute.
pub(crate) const USUAL: Plan = Plan {
    pace: 60,
    args: &["--tenants-sweep-interval=30s"],
};

/// How many worlds an executable has at once.
const WORLDS: usize = 4;

/// Tells a story in a world that no other story uses meanwhile. Time in AWS runs at the plan's pace.
pub(crate) fn tell(plan: Plan, story: impl AsyncFnOnce(&Site) -> Result<()>) -> Result<()> {
    // Any world serves any plan: each story starts the operator anew.
    static POOL: WorldPool<(), World> = WorldPool::new(WORLDS, 1);
    POOL.run(
        (),
        || plan.world("tenants").start(),
        async |world| {
            let site = Site::open(world, plan).await?;
            story(&site).await?;
            site.close().await
        },
    )
}

/// Where a story happens. What a [`Story`] can do in its namespace, it can.
pub(crate) struct Site {
    pub(crate) world: &'static World,
    pub(crate) aws: Aws,
    team: Story,
    plan: Plan,
    /// The cluster's id, as markers name it.
    pub(crate) cluster: String,
    /// The version of the cluster when the story began.
    began: String,
    /// What is meant to stay in AWS without an object.
    retained: RefCell<Vec<String>>,
    /// AWS's log, as far as it was read.
    log: RefCell<Vec<Call>>,
    /// Whether the story came to its end.
    ended: Cell<bool>,
}

impl Deref for Site {
    type Target = Story;

    fn deref(&self) -> &Story {
        &self.team
    }
}

impl Site {
    async fn open(world: &'static World, plan: Plan) -> Result<Self> {
        world.operator().kill();
        let client = world.control_plane().admin();
        clear(&client).await?;
        let aws = Aws::start().await?;
        cloud::furnish(&aws)?;
        let namespaces = Api::<Namespace>::all(client.clone());
        let system = namespaces.get("kube-system").await?;
        let team = world.namespace("web").await?;
        let tenants = Api::<DistributionTenant>::namespaced(client, team.name());
        let none = tenants.list(&ListParams::default()).await?;
        let site = Self {
            world,
            aws,
            team,
            plan,
            cluster: system.uid().expect("what is stored has a UID"),
            began: none.metadata.resource_version.unwrap_or_default(),
            retained: RefCell::default(),
            log: RefCell::default(),
            ended: Cell::new(false),
        };
        site.start().await?;
        Ok(site)
    }

    /// Nothing was done that may never be done, and nothing is left that nobody declares.
    async fn close(&self) -> Result<()> {
        let broken = self.violations()?;
        assert!(broken.is_empty(), "the oracle saw: {broken:#?}");
        let leaks = self.leaks().await?;
        assert!(leaks.is_empty(), "left over in AWS: {leaks:#?}");
        self.ended.set(true);
        Ok(())
    }

    /// Starts the operator anew, dead or alive, as the plan has it.
    pub(crate) async fn start(&self) -> Result<()> {
        self.start_with(|_| ()).await
    }

    /// The same with `change`d options.
    pub(crate) async fn start_with(&self, change: impl FnOnce(&mut OperatorOptions)) -> Result<()> {
        self.world.operator().kill();
        // One that knows nothing of what was sent before may send it again.
        self.oracle(json!({"clusters": [self.cluster]}))?;
        self.runs_at(self.plan.pace)?;
        let usual = self.options();
        let started = self.world.restart_operator(|options| {
            *options = usual;
            change(options);
        });
        started.await
    }

    /// What an operator of the plan is started with.
    fn options(&self) -> OperatorOptions {
        let Plan { pace, args } = self.plan;
        let env = self.aws.env();
        OperatorOptions {
            time_factor: Some(pace),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: env.map(|(name, value)| (name.to_owned(), value)).into(),
            ..self.world.operator_options().clone()
        }
    }

    /// One more replica of the operator.
    pub(crate) async fn replica(&self, name: &str) -> Result<Operator> {
        self.replica_with(name, |_| ()).await
    }

    /// The same with `change`d options.
    pub(crate) async fn replica_with(
        &self,
        name: &str,
        change: impl FnOnce(&mut OperatorOptions),
    ) -> Result<Operator> {
        let usual = self.options();
        let started = self.world.replica_with(name, |options| {
            *options = usual;
            change(options);
        });
        started.await
    }

    /// Lets the operator end as a pod does.
    pub(crate) async fn stop(&self) -> Result<()> {
        let ended = self.world.operator().terminate(Duration::from_secs(30));
        ended.await.map(drop)
    }

    /// Writes a file under a name that no other story uses; its path.
    pub(crate) fn writes_file(&self, name: &str, text: impl AsRef<[u8]>) -> Result<PathBuf> {
        let name = format!("{}-{name}", self.name());
        self.world.control_plane().scratch().write(&name, text)
    }

    /// One more namespace.
    pub(crate) async fn namespace(&self, name: &str) -> Result<Story> {
        self.world.namespace(name).await
    }

    /// What is not in a namespace.
    pub(crate) fn cluster_wide(&self) -> Story {
        self.world.cluster()
    }

    /// This is meant to stay in AWS without an object: ids, names, names of records.
    pub(crate) fn retains(&self, names: &[&str]) {
        let names = names.iter().map(|name| (*name).to_owned());
        self.retained.borrow_mut().extend(names);
    }

    /// The operator's count of something of the predecessor's; 0 when there is none.
    pub(crate) async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> Result<u64> {
        let name = format!("cloudfront_tenant_operator_{name}");
        let value = self.world.operator().metric(&name, labels).await?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count is a whole number"
        )]
        Ok(value.round() as u64)
    }

    /// How often AWS's errors of this type were counted.
    pub(crate) async fn errors(&self, error_type: &str) -> Result<u64> {
        self.metric("reconcile_errors_total", &[("error_type", error_type)])
            .await
    }

    /// Nothing is written, in AWS or here, while all tenants are compared with AWS this often.
    pub(crate) async fn stays_quiet(&self, sweeps: usize) -> Result<()> {
        // What the last write asked for is over after one more look; on a slow machine, after a few.
        let look = async || {
            self.sweeps(1).await?;
            self.oracle(json!({"steady": true}))
        };
        let mark = self.world.settle(6, look, |_| true).await?;
        self.sweeps(sweeps).await?;
        self.oracle(json!({"steady": false}))?;
        let writes = self.world.writes_since(mark).await?;
        assert_eq!(writes, Vec::<Entry>::new());
        Ok(())
    }

    async fn leaks(&self) -> Result<Vec<Value>> {
        let client = self.client();
        let tenants = Api::<DistributionTenant>::all(client.clone());
        let tenants = tenants.list(&ListParams::default()).await?;
        let key = |one: &DistributionTenant| {
            let namespace = one.namespace().unwrap_or_default();
            format!("{namespace}/{}", one.name_any())
        };
        let groups = Api::<ConnectionGroup>::all(client);
        let groups = groups.list(&ListParams::default()).await?;
        self.left(&json!({
            "objects": tenants.iter().map(key).collect::<Vec<_>>(),
            "groups": groups.iter().map(ResourceExt::name_any).collect::<Vec<_>>(),
            "retained": *self.retained.borrow(),
        }))
    }
}

/// A story that went wrong shows what was asked of AWS.
impl Drop for Site {
    fn drop(&mut self) {
        if !self.ended.get() {
            eprintln!("--- what AWS was asked ---\n{}", self.told());
        }
    }
}

/// Takes the objects of the story before out of the cluster, while no operator runs.
async fn clear(client: &Client) -> Result<()> {
    remove_custom_resources(client).await?;
    // Events about cluster-scoped objects lie in `default`.
    let events = Api::<Event>::namespaced(client.clone(), "default");
    let (how, all) = (DeleteParams::default(), ListParams::default());
    events.delete_collection(&how, &all).await?;
    Ok(())
}
