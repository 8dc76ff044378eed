//! The engine in this process, with two real control planes: its own cluster and another one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgMatches, Command};
use engine::{
    ApiError, ControllerSpec, Deck, Engine, Feature, FollowSpec, Kind, LeaseSettings, OtherCluster,
    OtherClusterOptions, Pass, Rbac, Reconcile, Settings, Usage, WatchKey,
};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kernel::{Guard, ObjectKey, Progress, RealClock};
use kube::Config;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use testkit::fault_proxy::{FaultProxy, Listen, Upstream};
use testkit::port::Port;
use testkit::{ControlPlane, Options, Result, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, OnceCell, mpsc, oneshot};

struct Planes {
    own: ControlPlane,
    other: ControlPlane,
}

/// Some stories stop a plane, so there is one story at a time.
static PLANES: OnceCell<Mutex<Planes>> = OnceCell::const_new();

async fn planes() -> Result<&'static Mutex<Planes>> {
    let start = async || -> Result<Mutex<Planes>> {
        let own = ControlPlane::start(Options::default()).await?;
        let other = ControlPlane::start(Options::default()).await?;
        Ok(Mutex::new(Planes { own, other }))
    };
    PLANES.get_or_try_init(start).await
}

/// A feature that gives its deck to the story.
struct Stage(mpsc::UnboundedSender<Deck>);

impl Feature for Stage {
    fn name(&self) -> &'static str {
        "stage"
    }
    fn about(&self) -> &'static str {
        "a story"
    }
    fn crds(&self) -> Vec<CustomResourceDefinition> {
        Vec::new()
    }
    fn rbac(&self) -> Rbac {
        Rbac::default()
    }
    fn start(&self, _: &ArgMatches, deck: &Deck) -> Result<(), Usage> {
        self.0.send(deck.clone()).expect("the story waits for it");
        Ok(())
    }
}

/// The running operator of a story.
struct Operator {
    deck: Deck,
    probes: Port,
}

impl Operator {
    async fn readyz(&self) -> Result<String> {
        let mut stream = TcpStream::connect(self.probes.address()).await?;
        let request = b"GET /readyz?verbose HTTP/1.0\r\n\r\n";
        stream.write_all(request).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }
}

/// Runs the operator in its own cluster while the story plays.
async fn with_operator(
    planes: &Planes,
    story: impl AsyncFnOnce(&Operator) -> Result<()>,
) -> Result<()> {
    let probes = Port::free()?;
    let settings = Settings {
        cluster: None,
        namespace: "default".into(),
        lease: Some(LeaseSettings {
            namespace: "default".into(),
            name: "pontoon".into(),
            identity: format!("me-{}", probes.number()),
            duration: Duration::from_secs(4),
            deadline: Duration::from_secs(3),
            retry: Duration::from_millis(500),
        }),
        api_calls: 16,
        concurrency: 4,
        drain: Duration::from_secs(5),
        probes: Some(probes.address().parse()?),
        metrics: None,
        metrics_certificate: None,
        clock: Arc::new(RealClock::new()),
    };
    let engine = Engine::new(settings, config(&planes.own.kubeconfig()).await?).await?;
    let (decks, mut deck) = mpsc::unbounded_channel();
    let features: Vec<Box<dyn Feature>> = vec![Box::new(Stage(decks))];
    let args = Command::new("operator").get_matches_from(["operator"]);
    let (stop, stopped) = oneshot::channel::<()>();
    let run = engine.run(&features, &args, async { drop(stopped.await) });
    let play = async {
        let deck = deck.recv().await.expect("the feature is started");
        let played = story(&Operator { deck, probes }).await;
        drop(stop);
        played
    };
    let (ran, played) = tokio::join!(run, play);
    played?;
    Ok(ran?)
}

async fn config(path: &Path) -> Result<Config> {
    let kubeconfig = Kubeconfig::read_from(path)?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

fn maps_in(namespace: &str) -> WatchKey {
    WatchKey {
        namespace: Some(namespace.to_owned()),
        ..WatchKey::all(Kind::of::<ConfigMap>())
    }
}

async fn write(client: kube::Client, namespace: &str, name: &str, text: &str) -> Result<()> {
    let api = Api::<ConfigMap>::namespaced(client, namespace);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"text": text}});
    let params = PatchParams::apply("story").force();
    api.patch(name, &params, &Patch::Apply(map)).await?;
    Ok(())
}

/// Waits until the cache of this cluster has the text.
async fn until_cached(cache: &engine::Cache, name: &str, text: &str) -> Result<()> {
    let namespace = cache.key().namespace.clone();
    let key = ObjectKey::of(namespace.as_deref(), name);
    let expected = format!("\"text\":\"{text}\"");
    eventually(&format!("{name} is cached with {text}"), async || {
        let cached = cache.store().get(&key);
        let is_there = cached.is_some_and(|object| object.json().contains(&expected));
        Ok(is_there.then_some(()))
    })
    .await
}

type PassLog = Arc<parking_lot::Mutex<Vec<(String, bool)>>>;

/// Logs each pass: the name of its object, and whether a user's change caused it.
struct Logger(PassLog);

impl Reconcile for Logger {
    type Object = Value;
    type Error = ApiError;

    async fn reconcile(&self, _: &Value, pass: &mut Pass) -> Result<Progress, ApiError> {
        let name = pass.key().name.to_string();
        self.0.lock().push((name, pass.is_urgent()));
        Ok(Progress::done())
    }
}

async fn until_passes(log: &PassLog, name: &str, count: usize) -> Result<()> {
    eventually(&format!("{count} passes over {name}"), async || {
        let passes = log.lock().iter().filter(|(one, _)| one == name).count();
        Ok((passes >= count).then_some(()))
    })
    .await
}

fn connect(operator: &Operator, config: Config) -> Result<OtherCluster> {
    let options = OtherClusterOptions::default();
    Ok(operator.deck.other_cluster("there", config, options)?)
}

/// A ServiceAccount of the other cluster that may do everything, and a login with its token.
async fn login(plane: &ControlPlane, name: &str) -> Result<AuthInfo> {
    let token = plane.service_account_token("login", name, None).await?;
    let api = Api::<ClusterRoleBinding>::all(plane.admin());
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "login", "name": name}]});
    let params = PatchParams::apply("story").force();
    api.patch(name, &params, &Patch::Apply(binding)).await?;
    Ok(serde_json::from_value(json!({"token": token}))?)
}

#[tokio::test]
async fn a_login_that_changes_causes_no_list() -> Result<()> {
    let planes = planes().await?.lock().await;
    let there = &planes.other;
    let (first, second) = (login(there, "first").await?, login(there, "second").await?);
    let (url, ca_pem) = (there.url(), there.ca_pem().to_owned());
    let upstream = Upstream {
        url,
        ca_pem: Some(ca_pem),
    };
    let proxy = FaultProxy::start(upstream, Listen::Http).await?;
    let story = async |operator: &Operator| -> Result<()> {
        let mut config = Config::new(proxy.url().parse()?);
        config.auth_info = first;
        let other = connect(operator, config)?;
        let cache = other.hub().cache(maps_in("login"));
        write(there.admin(), "login", "m", "before").await?;
        until_cached(&cache, "m", "before").await?;
        let mark = there.mark();

        other.relogin(second)?;
        let accounts = Api::<ServiceAccount>::namespaced(there.admin(), "login");
        accounts.delete("first", &DeleteParams::default()).await?;
        write(there.admin(), "login", "m", "watch of the old login").await?;
        until_cached(&cache, "m", "watch of the old login").await?;
        eventually("a write with the new login", async || {
            let client = other.deck().client.clone();
            Ok(write(client, "login", "n", "written").await.ok())
        })
        .await?;
        proxy.cut_all();
        write(there.admin(), "login", "m", "watch of the new login").await?;
        until_cached(&cache, "m", "watch of the new login").await?;
        other.close().await;

        // The audit log has a watch when it has ended.
        let by_operator = eventually("the watch of the new login has ended", async || {
            let mut entries = there.entries_since(mark).await?;
            entries.retain(|one| one.user_agent.starts_with("pontoon/"));
            let has_watch = entries.iter().any(|one| one.verb == "watch");
            Ok(has_watch.then_some(entries))
        })
        .await?;
        for one in &by_operator {
            assert!(one.user.ends_with(":second"), "{one:?}");
            let is_list = one.verb == "list" || one.request_uri.contains("sendInitialEvents");
            assert!(!is_list, "{one:?}");
        }
        Ok(())
    };
    Box::pin(with_operator(&planes, story)).await
}

#[tokio::test]
async fn a_cluster_that_is_away_delays_no_other() -> Result<()> {
    let planes = planes().await?.lock().await;
    let (here, there) = (&planes.own, &planes.other);
    here.ensure_namespace("away").await?;
    there.ensure_namespace("away").await?;
    with_operator(&planes, async |operator| {
        let other = connect(operator, config(&there.kubeconfig()).await?)?;
        let (log, other_log) = (PassLog::default(), PassLog::default());
        let spec = ControllerSpec::new(maps_in("away"), Logger(log.clone()));
        let spec = spec.follow_on(
            other.hub(),
            FollowSpec::new(maps_in("away"), |one| vec![one.key().clone()]),
        );
        let _controller = operator.deck.control(spec);
        let there_spec = ControllerSpec::new(maps_in("away"), Logger(other_log.clone()));
        let _other_controller = other.deck().control(there_spec);
        let cache = other.hub().cache(maps_in("away"));
        write(here.admin(), "away", "m", "1").await?;
        write(there.admin(), "away", "m", "1").await?;
        until_passes(&log, "m", 1).await?;
        until_cached(&cache, "m", "1").await?;
        let readyz = operator.readyz().await?;
        assert!(readyz.contains("[+]cluster stage/there "), "{readyz}");

        there.kill();
        eventually("readyz names the cluster that is away", async || {
            let readyz = operator.readyz().await?;
            let is_named = readyz.contains("[-]cluster stage/there ");
            let status = readyz.lines().next().unwrap_or_default();
            assert!(status.contains(" 200 "), "{readyz}");
            Ok(is_named.then_some(()))
        })
        .await?;
        for n in 1..=5 {
            let name = format!("n{n}");
            write(here.admin(), "away", &name, "1").await?;
            until_passes(&log, &name, 1).await?;
        }
        there.start_api_server().await?;
        let before = log.lock().iter().filter(|(one, _)| one == "m").count();
        write(there.admin(), "away", "m", "2").await?;
        until_cached(&cache, "m", "2").await?;
        until_passes(&log, "m", before + 1).await?;
        until_passes(&other_log, "m", 2).await?;
        eventually("readyz says that it is back", async || {
            let readyz = operator.readyz().await?;
            Ok(readyz.contains("[+]cluster stage/there ").then_some(()))
        })
        .await?;
        other.close().await;
        assert!(!operator.readyz().await?.contains("stage/there"));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_follower_added_at_run_time_wakes_until_its_end() -> Result<()> {
    let planes = planes().await?.lock().await;
    let (here, there) = (&planes.own, &planes.other);
    here.ensure_namespace("follow").await?;
    there.ensure_namespace("follow").await?;
    with_operator(&planes, async |operator| {
        let other = connect(operator, config(&there.kubeconfig()).await?)?;
        let log = PassLog::default();
        let spec = ControllerSpec::new(maps_in("follow"), Logger(log.clone()));
        let controller = operator.deck.control(spec);
        let cache = other.hub().cache(maps_in("follow"));
        write(here.admin(), "follow", "m", "1").await?;
        until_passes(&log, "m", 1).await?;

        let follow = FollowSpec::new(maps_in("follow"), |one| {
            let namespace = one.key().namespace.as_deref();
            vec![ObjectKey::of(namespace, "m")]
        });
        let following = controller.follow(other.hub(), follow);
        write(there.admin(), "follow", "source", "1").await?;
        until_passes(&log, "m", 2).await?;
        write(there.admin(), "follow", "source", "2").await?;
        until_passes(&log, "m", 3).await?;
        drop(following);
        until_cached(&cache, "source", "2").await?;
        log.lock().clear();
        write(there.admin(), "follow", "source", "3").await?;
        until_cached(&cache, "source", "3").await?;
        write(here.admin(), "follow", "m", "2").await?;
        until_passes(&log, "m", 1).await?;
        controller.stop().await;
        assert_eq!(*log.lock(), [("m".to_owned(), true)]);
        other.close().await;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn writes_to_another_cluster_stop_with_either_guard() -> Result<()> {
    let planes = planes().await?.lock().await;
    let (here, there) = (&planes.own, &planes.other);
    there.ensure_namespace("guarded").await?;
    with_operator(&planes, async |operator| {
        let pin = Guard::closed();
        let options = OtherClusterOptions {
            guards: vec![pin.clone()],
            ..OtherClusterOptions::default()
        };
        let config = config(&there.kubeconfig()).await?;
        let other = operator.deck.other_cluster("there", config, options)?;
        let api = Api::<ConfigMap>::namespaced(other.deck().client.clone(), "guarded");
        let write = async || {
            let patch = Patch::Merge(json!({"metadata": {"labels": {"n": null}}}));
            let written = api.patch("absent", &PatchParams::default(), &patch).await;
            match ApiError::classify("write", written.expect_err("there is no such object")) {
                ApiError::Deposed { .. } => false,
                ApiError::Answer { code: 404, .. } => true,
                other => panic!("{other}"),
            }
        };
        let until = async |is_sent: bool| {
            let what = format!("writes are sent: {is_sent}");
            eventually(&what, async || Ok((write().await == is_sent).then_some(()))).await
        };
        let leads = async || Ok(operator.readyz().await?.contains("leading").then_some(()));
        eventually("the operator leads", leads).await?;

        let mark = there.mark();
        assert!(!write().await, "the identity is not verified yet");
        pin.allow_until(Duration::MAX);
        until(true).await?;
        pin.revoke();
        assert!(!write().await, "the identity is in doubt");
        pin.allow_until(Duration::MAX);
        assert!(write().await);
        let is_ours = |one: &testkit::Entry| one.namespace == "guarded" && one.verb == "patch";
        assert_eq!(there.writes_since(mark, is_ours).await?.len(), 2);

        here.kill();
        until(false).await?;
        let mark = there.mark();
        for _ in 0..10 {
            assert!(!write().await, "the lead is lost");
        }
        assert_eq!(there.writes_since(mark, is_ours).await?, []);
        here.start_api_server().await?;
        until(true).await?;
        other.close().await;
        Ok(())
    })
    .await
}
