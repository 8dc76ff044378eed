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
use std::sync::atomic::AtomicBool;
use std::sync::{LazyLock, Mutex};

use api::vault::{
    VaultClusterPolicy, VaultClusterRole, VaultConnection, VaultKVSecret, VaultPolicy, VaultRole,
};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::fault_proxy::{FaultProxy, Listen, Upstream};
use testkit::{Entry, Lanes, Mark, Result, Story, World, eventually, is};
use tokio::runtime::Runtime;

/// The operator's ServiceAccount, as the world calls it, and its role at every mount.
const OPERATOR: &str = "pontoon";

/// What the world of a file is like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Plan {
    /// Time runs this many times as fast inside the operator.
    pub(crate) pace: u32,
    /// Flags of the operator.
    pub(crate) args: &'static [&'static str],
}

/// Tells a story in a world that the stories of its file share, and those of other files that the
/// executable puts into the same `group`, if their plan is the same.
///
/// All stories run on one runtime: the connections of the worlds' clients belong to it.
#[track_caller]
pub(crate) fn tell(plan: Plan, story: impl AsyncFnOnce(&'static Site) -> Result<()>) -> Result<()> {
    static RUNTIME: LazyLock<Runtime> =
        LazyLock::new(|| Runtime::new().expect("a runtime can be had"));
    static LANES: Lanes<(Plan, &str), Leaked> = Lanes::new(WORLDS, crate::STORIES_A_WORLD);
    let group = crate::group(Location::caller().file());
    RUNTIME.block_on(async {
        let start = async || Leaked::start(plan).await;
        let site = LANES.borrow((plan, group), start).await?;
        let told = story(site.0).await;
        // Where the operator dies, its writes are counted: there, stories clear up themselves.
        if crate::STORIES_A_WORLD > 1
            && let Err(error) = site.0.pause_left_crews().await
        {
            eprintln!("objects of stories that have ended are still looked at: {error:#}");
        }
        told
    })
}

/// How many worlds an executable has at once.
const WORLDS: usize = 4;

/// A site for stories and what they leave running. Its servers end with this.
struct Leaked(&'static Site);

impl Leaked {
    async fn start(plan: Plan) -> Result<Self> {
        Ok(Self(Box::leak(Box::new(Site::start(plan).await?))))
    }
}

impl Drop for Leaked {
    fn drop(&mut self) {
        self.0.world.end();
    }
}

/// A world and its stories.
pub(crate) struct Site {
    pub(crate) world: World,
    /// Whether a story has put an operator in place that is to die, or has died.
    pub(crate) has_doomed_operator: AtomicBool,
    /// The namespaces of crews whose stories have ended.
    left: Mutex<Vec<String>>,
}

impl Site {
    async fn start(plan: Plan) -> Result<Self> {
        let world = World::new().on_reused_plane().vault();
        let mut world = world.feature("vault").time(plan.pace);
        for arg in plan.args {
            world = world.arg(*arg);
        }
        let world = world.start().await?;
        let site = Self {
            world,
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
            pause_all::<VaultPolicy>(&team, &crew).await?;
            pause_all::<VaultRole>(&team, &crew).await?;
            pause_all::<VaultKVSecret>(&team, &crew).await?;
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

    /// A proxy before Vault. It stays to the end, as the connections through it do: another proxy
    /// at its port would count their calls.
    pub(crate) async fn proxy(&self) -> Result<&'static FaultProxy> {
        let upstream = Upstream {
            url: self.world.vault().address(),
            ca_pem: None,
        };
        let proxy = FaultProxy::start(upstream, Listen::Http).await?;
        Ok(Box::leak(Box::new(proxy)))
    }

    /// A namespace that is there already.
    pub(crate) fn in_namespace(&self, name: &str) -> Story {
        let (client, log) = (
            self.world.cluster().client(),
            self.world.operator().log_path(),
        );
        let scratch = self.world.control_plane().scratch().clone();
        Story::new(client, Some(name.to_owned()), Some(log), scratch)
    }

    /// The operator's own namespace.
    pub(crate) fn home(&self) -> Story {
        self.in_namespace(self.world.operator_namespace())
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
        let client = self.world.cluster().client();
        let accounts = Api::<ServiceAccount>::namespaced(client, namespace);
        if accounts.get_opt(account).await?.is_none() {
            let made = serde_json::from_value(json!({"metadata": {"name": account}}))?;
            accounts.create(&PostParams::default(), &made).await?;
        }
        let audiences: Vec<_> = audience.into_iter().collect();
        let request: TokenRequest = serde_json::from_value(json!({
            "metadata": {},
            "spec": {"audiences": audiences, "expirationSeconds": 24 * 3600},
        }))?;
        let answer = accounts
            .create_token_request(account, &PostParams::default(), &request)
            .await?;
        Ok(answer.status.expect("a token was asked for").token)
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
        writes.retain(|one| one.namespace == self.name() || one.name.starts_with(self.name()));
        Ok(writes)
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

/// Sets or removes an annotation.
pub(crate) async fn annotate<K>(
    story: &Story,
    name: &str,
    annotation: &str,
    value: Option<&str>,
) -> Result<()>
where
    K: Resource<DynamicType = ()>,
{
    let change = json!({"metadata": {"annotations": {annotation: value}}});
    change_object::<K>(story, name, &change).await
}

/// Changes an object by a merge patch.
pub(crate) async fn change_object<K>(story: &Story, name: &str, change: &Value) -> Result<()>
where
    K: Resource<DynamicType = ()>,
{
    let how = PatchParams::default();
    let api = objects::<K>(story);
    api.patch(name, &how, &Patch::Merge(change)).await?;
    Ok(())
}

/// The objects of a kind that a story is about.
fn objects<K: Resource<DynamicType = ()>>(story: &Story) -> Api<DynamicObject> {
    let kind = ApiResource::erase::<K>(&());
    match story.name() {
        "" => Api::all_with(story.client(), &kind),
        namespace => Api::namespaced_with(story.client(), namespace, &kind),
    }
}

/// Pauses all objects of a kind in the crew's namespace, or those of the cluster named after it.
async fn pause_all<K: Resource<DynamicType = ()>>(story: &Story, crew: &str) -> Result<()> {
    let api = objects::<K>(story);
    let how = PatchParams::default();
    let pause = Patch::Merge(json!({"metadata": {"annotations": {kernel::PAUSED: "true"}}}));
    for object in api.list_metadata(&ListParams::default()).await? {
        let name = object.name_any();
        if !story.name().is_empty() || name.starts_with(crew) {
            match api.patch_metadata(&name, &how, &pause).await {
                Err(kube::Error::Api(refused)) if refused.code == 404 => {} // it has just gone
                answer => drop(answer?),
            }
        }
    }
    Ok(())
}

/// Sets or removes a label of the story's namespace.
pub(crate) async fn label(story: &Story, label: &str, value: Option<&str>) -> Result<()> {
    let namespaces = Api::<Namespace>::all(story.client());
    let change = json!({"metadata": {"labels": {label: value}}});
    let how = PatchParams::default();
    namespaces
        .patch(story.name(), &how, &Patch::Merge(change))
        .await?;
    Ok(())
}

/// The events about the object `name`.
pub(crate) async fn events(story: &Story, name: &str) -> Result<Vec<Event>> {
    // Events about cluster-scoped objects lie in `default`.
    let namespace = match story.name() {
        "" => "default",
        name => name,
    };
    let api = Api::<Event>::namespaced(story.client(), namespace);
    let all = api.list(&ListParams::default()).await?.items;
    let about = |event: &Event| {
        let about = event.regarding.as_ref();
        about.and_then(|about| about.name.as_deref()) == Some(name)
    };
    Ok(all.into_iter().filter(about).collect())
}

/// Waits for an event of this reason about the object `name`.
pub(crate) async fn event(story: &Story, name: &str, reason: &str) -> Result<Event> {
    eventually(&format!("event {reason} about {name}"), async || {
        let mut events = events(story, name).await?.into_iter();
        Ok(events.find(|event| event.reason.as_deref() == Some(reason)))
    })
    .await
}

/// What is said there, whatever the reason.
pub(crate) fn note(event: &Event) -> &str {
    event.note.as_deref().unwrap_or_default()
}

/// The message of a condition.
pub(crate) fn said(
    conditions: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition],
    type_: &str,
) -> String {
    let one = conditions.iter().find(|one| one.type_ == type_);
    one.map(|one| one.message.clone()).unwrap_or_default()
}

/// Whether an object has an annotation.
pub(crate) fn is_annotated(object: &impl ResourceExt, annotation: &str) -> bool {
    object.annotations().contains_key(annotation)
}

fn manifest<K: Resource<DynamicType = ()>>(name: &str, spec: &Value) -> String {
    let object = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": {"name": name},
        "spec": spec,
    });
    format!("---\n{object}\n")
}

/// As RFC 7386 says.
fn merge(target: &mut Value, change: &Value) {
    let (Value::Object(target), Value::Object(change)) = (&mut *target, change) else {
        *target = change.clone();
        return;
    };
    for (key, value) in change {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}
