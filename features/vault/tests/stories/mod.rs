//! Where the stories of this feature happen: worlds that several share, and a crew for each story.
//!
//! ```text
//! Site: cluster, operator, Vault whose mounts trust the cluster's tokens
//!   └─ Crew: a namespace, a proxy before Vault, a connection through it
//! ```
//! The operator sees all namespaces, so what is not in one is named after the crew's.
#![allow(dead_code)] // each file uses its part

pub(crate) mod vault;

use std::ops::Deref;
use std::panic::Location;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use api::vault::{
    VaultClusterPolicy, VaultClusterRole, VaultConnection, VaultKVSecret, VaultPolicy, VaultRole,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Resource;
use kube::api::Api;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::fault_proxy::FaultProxy;
use testkit::stories::{WorldPool, annotate_all, lasting_proxy, manifest, merge};
use testkit::{Entry, Mark, Result, Story, World, eventually, is};

#[allow(unused_imports, reason = "each file uses its part")]
pub(crate) use testkit::stories::{
    Plan, annotate, change_object, condition_message as said, event, events, is_annotated,
    label_namespace as label, note,
};

/// The operator's ServiceAccount, as the world calls it, and its role at every mount.
const OPERATOR: &str = "pontoon";

/// How many worlds an executable has at once.
const WORLDS: usize = 4;

/// Tells a story in a world that the stories of its file share, and those of other files that the
/// executable puts into the same `group`, if their plan is the same.
#[track_caller]
pub(crate) fn tell(plan: Plan, story: impl AsyncFnOnce(&'static Site) -> Result<()>) -> Result<()> {
    static POOL: WorldPool<(Plan, &str), Site> = WorldPool::new(WORLDS, crate::STORIES_A_WORLD);
    let group = crate::group(Location::caller().file());
    POOL.run(
        (plan, group),
        || Site::start(plan),
        async |site| {
            let told = story(site).await;
            // Where the operator dies, its writes are counted: there, stories clear up themselves.
            if crate::STORIES_A_WORLD > 1
                && let Err(error) = site.pause_left_crews().await
            {
                eprintln!("objects of stories that have ended are still looked at: {error:#}");
            }
            told
        },
    )
}

/// A world and its stories. What a [`World`] can do, it can.
pub(crate) struct Site {
    pub(crate) world: World,
    /// Whether a story has put an operator in place that is to die, or has died.
    pub(crate) has_doomed_operator: AtomicBool,
    /// The namespaces of crews whose stories have ended.
    left: Mutex<Vec<String>>,
}

impl Deref for Site {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl AsRef<World> for Site {
    fn as_ref(&self) -> &World {
        &self.world
    }
}

impl Site {
    async fn start(plan: Plan) -> Result<Self> {
        let world = plan.world("vault").on_reused_plane().vault();
        let site = Self {
            world: world.start().await?,
            has_doomed_operator: AtomicBool::new(false),
            left: Mutex::default(),
        };
        site.furnish().await?;
        Ok(site)
    }

    /// Stops the operator's work for crews whose stories have ended. It would look at their Vault and
    /// their objects until the world ends.
    async fn pause_left_crews(&self) -> Result<()> {
        let left = std::mem::take(&mut *self.left.lock().expect("no holder panics"));
        let cluster = self.world.cluster();
        for crew in left {
            let team = self.in_namespace(&crew);
            pause_all::<VaultPolicy>(&team, "").await?;
            pause_all::<VaultRole>(&team, "").await?;
            pause_all::<VaultKVSecret>(&team, "").await?;
            pause_all::<VaultClusterPolicy>(&cluster, &crew).await?;
            pause_all::<VaultClusterRole>(&cluster, &crew).await?;
            pause_all::<VaultConnection>(&cluster, &crew).await?;
        }
        Ok(())
    }

    /// A crew whose connection is ready.
    pub(crate) async fn crew(&'static self) -> Result<Crew> {
        self.crew_with(json!({})).await
    }

    /// The same, the spec of its connection changed by the merge patch `change`.
    pub(crate) async fn crew_with(&'static self, change: Value) -> Result<Crew> {
        let team = self.world.namespace("team-a").await?;
        let crew = Crew {
            connection: format!("{}-c", team.name()),
            proxy: self.proxy().await?,
            site: self,
            team,
        };
        crew.connect(&crew.connection, change).await?;
        let ready = is("Ready", "Succeeded");
        let cluster = self.world.cluster();
        cluster
            .until::<VaultConnection>(&crew.connection, ready)
            .await?;
        Ok(crew)
    }

    /// A proxy before Vault, which stays to the end.
    pub(crate) async fn proxy(&self) -> Result<&'static FaultProxy> {
        lasting_proxy(self.world.vault().address(), None).await
    }

    /// The ConfigMaps in the operator's own namespace.
    pub(crate) fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(
            self.world.cluster().client(),
            self.world.operator_namespace(),
        )
    }

    /// A token of a ServiceAccount, which is made if it is missing; without an audience, it is for
    /// the API server itself.
    pub(crate) async fn jwt(
        &self,
        namespace: &str,
        account: &str,
        audience: Option<&str>,
    ) -> Result<String> {
        let plane = self.world.control_plane();
        plane
            .service_account_token(namespace, account, audience)
            .await
    }

    /// The operator's count of something of the predecessor's; 0 when there is none.
    pub(crate) async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> Result<f64> {
        let name = format!("vault_access_operator_{name}");
        self.world.operator().metric(&name, labels).await
    }
}

/// Who a story is about: a namespace with a connection of its own. What a [`Story`] can do, it can.
pub(crate) struct Crew {
    pub(crate) site: &'static Site,
    team: Story,
    pub(crate) proxy: &'static FaultProxy,
    /// The connection's name.
    pub(crate) connection: String,
}

impl Drop for Crew {
    fn drop(&mut self) {
        let mut left = self.site.left.lock().expect("no holder panics");
        left.push(self.team.name().to_owned());
    }
}

impl Deref for Crew {
    type Target = Story;

    fn deref(&self) -> &Story {
        &self.team
    }
}

impl Crew {
    /// A name for what is not in a namespace.
    pub(crate) fn own(&self, name: &str) -> String {
        format!("{}-{name}", self.name())
    }

    /// The name in Vault of what `name` declares.
    pub(crate) fn vault_name(&self, name: &str) -> String {
        format!("vao.kubernetes.{}.{name}", self.name())
    }

    /// What is not in a namespace.
    pub(crate) fn cluster(&self) -> Story {
        self.site.world.cluster()
    }

    /// Declares a connection through the crew's proxy, logged in at `kubernetes` unless the merge
    /// patch `change` says otherwise.
    pub(crate) async fn connect(&self, name: &str, change: Value) -> Result<()> {
        let mut spec = json!({
            "address": self.proxy.url(),
            "auth": {"kubernetes": {"role": OPERATOR}},
        });
        merge(&mut spec, &change);
        self.apply(&manifest::<VaultConnection>(name, &spec))
            .await
            .map(drop)
    }

    /// Declares an object through the crew's connection, or another that `spec` names. Declared
    /// again, it is edited to just this.
    pub(crate) async fn declare<K>(&self, name: &str, spec: Value) -> Result<()>
    where
        K: Resource<DynamicType = ()>,
    {
        self.apply(&self.manifest::<K>(name, spec)).await.map(drop)
    }

    /// The manifest of such an object.
    pub(crate) fn manifest<K>(&self, name: &str, spec: Value) -> String
    where
        K: Resource<DynamicType = ()>,
    {
        let mut whole = json!({"connectionRef": self.connection});
        merge(&mut whole, &spec);
        manifest::<K>(name, &whole)
    }

    /// How many calls for `path`, below `/v1/`, came from the operator.
    pub(crate) fn calls(&self, method: Method, path: &str) -> usize {
        self.proxy.count(method, &format!("/v1/{path}"))
    }

    /// Waits until orphans were looked for behind the crew's connection, at first and once an hour:
    /// that reads what nobody claims yet.
    pub(crate) async fn searched(&self) -> Result<()> {
        let list = Method::from_bytes(b"LIST")?;
        eventually("orphans were looked for", async || {
            Ok((self.calls(list.clone(), "*") >= 2).then_some(()))
        })
        .await
    }

    /// How many calls of the operator changed policies or roles in Vault, or tried to.
    pub(crate) fn writes(&self) -> usize {
        let methods = [Method::PUT, Method::POST, Method::PATCH, Method::DELETE];
        let count = |path: &str| -> usize {
            let each = methods.iter().cloned();
            each.map(|method| self.calls(method, path)).sum()
        };
        count("sys/policies/*") + count("auth/*/role/*")
    }

    /// Waits until `path` has been read `times` more by the operator.
    pub(crate) async fn rereads(&self, path: &str, times: usize) -> Result<()> {
        let before = self.calls(Method::GET, path);
        eventually(&format!("{path} is read again"), async || {
            let now = self.calls(Method::GET, path);
            Ok((now >= before + times).then_some(()))
        })
        .await
    }

    /// What the operator wrote in the crew's namespace since `mark`, and about its connection.
    pub(crate) async fn kubernetes_writes(&self, mark: Mark) -> Result<Vec<Entry>> {
        let mut writes = self.site.world.writes_since(mark).await?;
        writes.retain(|write| self.is_about(write));
        Ok(writes)
    }

    /// Whether a write is such a one.
    pub(crate) fn is_about(&self, write: &Entry) -> bool {
        write.namespace == self.name() || write.name.starts_with(self.name())
    }
}

/// A rule of a policy.
pub(crate) fn rule(path: &str, capabilities: &[&str]) -> Value {
    json!({"path": path, "capabilities": capabilities})
}

/// The spec of a policy that lets one read its namespace's secrets.
pub(crate) fn reader() -> Value {
    json!({"rules": [rule("secret/data/{{namespace}}/*", &["read"])]})
}

/// The spec of a role by which `accounts` get the policy `app` of the same namespace.
pub(crate) fn admits(accounts: &[&str]) -> Value {
    json!({"serviceAccounts": accounts, "policies": [{"kind": "VaultPolicy", "name": "app"}]})
}

/// Pauses all objects of a kind whose name begins with `prefix`.
async fn pause_all<K: Resource<DynamicType = ()>>(story: &Story, prefix: &str) -> Result<()> {
    annotate_all::<K>(story, prefix, kernel::PAUSED, "true").await
}
