//! For unit tests: a context in a cluster that has connections and nothing else, before a Vault that
//! answers by rules. The cluster takes no writes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, Command};
use engine::{Cache, Clients, Deck, Hub, Metrics, Pass, Stored, Tasks};
use http::{Method, Request, Response, StatusCode};
use kernel::{ClusterId, RealClock};
use kube::client::Body;
use serde_json::{Value, json};
use testkit::fault_proxy::{FaultProxy, Listen, Rule, Upstream};
use vault_client::{
    Client, Config, Health, Login, Parts, Renewal, Secret, ServerState, Settings, Source,
    Unobserved,
};

use crate::ctx::Ctx;
use crate::links::Standing;
use crate::settings;

/// Nobody listens there.
const NOWHERE: &str = "http://127.0.0.1:9";

/// The connections `c` and `alias` lead to the Vault; the server behind `far` is gone. All are held
/// to be up.
pub(crate) struct Fixture {
    pub(crate) ctx: Ctx,
    pub(crate) vault: FaultProxy,
    _tasks: Tasks,
}

impl Fixture {
    pub(crate) async fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        testkit::install_crypto();
        let upstream = Upstream {
            url: NOWHERE.to_owned(),
            ca_pem: None,
        };
        let vault = FaultProxy::start(upstream, Listen::Http).await.unwrap();
        let lookup = Rule::on(Method::GET, "/v1/auth/token/lookup-self");
        vault.rule(lookup.status(StatusCode::OK, r#"{"data": {"ttl": 0}}"#));
        for rule in rules {
            vault.rule(rule);
        }
        let alias = vault.url().replace("127.0.0.1", "localhost");
        let connections = [("c", vault.url()), ("alias", &*alias), ("far", NOWHERE)];
        let tasks = Tasks::default();
        let ctx = ctx(&connections, &tasks);
        while !ctx.caches.connections.is_settled() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for (name, address) in connections {
            ctx.links.set_client(name, client(address));
            drop(ctx.links.found(name, up(name)));
        }
        Self {
            ctx,
            vault,
            _tasks: tasks,
        }
    }

    /// A pass over `object`.
    pub(crate) async fn pass(&self, cache: &Cache, object: &Value) -> Pass {
        let key = cache.key();
        let stored = Stored::read(&key.kind, &object.to_string(), &key.projection).unwrap();
        self.ctx.deck.reading_pass(cache, Arc::new(stored)).await
    }
}

/// What the pass of a connection finds.
pub(crate) fn up(connection: &str) -> Standing {
    let cluster = if connection == "far" { "far" } else { "near" };
    Standing::Up(Health {
        state: ServerState::Active,
        version: "1.21.1".to_owned(),
        enterprise: Some(false),
        cluster_id: Some(cluster.to_owned()),
    })
}

fn ctx(connections: &[(&str, &str)], tasks: &Tasks) -> Ctx {
    let metrics = Metrics::default();
    let nowhere = kube::Config::new(NOWHERE.parse().unwrap());
    let clients = Clients::new(nowhere, 1, metrics.clone()).unwrap();
    let cluster = ClusterId::new("u").unwrap();
    let home = "pontoon-system".to_owned();
    let mut deck = Deck::for_reading("vault", &clients, metrics.clone(), cluster, home, tasks);
    deck.hub = Hub::new(api_server(connections), tasks.child(), metrics);
    let namespace = Arg::new("namespace").long("namespace").default_value("n");
    let command = Command::new("run").no_binary_name(true);
    let command = command.args(settings::args()).arg(namespace);
    let settings = settings::read(&command.get_matches_from(Vec::<String>::new()));
    Ctx::new(&deck, settings.unwrap())
}

/// An API server that lists connections, and on whose watches nothing happens.
fn api_server(connections: &[(&str, &str)]) -> kube::Client {
    let added = |(name, address): &(&str, &str)| {
        let object = json!({
            "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
            "spec": {"address": address, "auth": {"kubernetes": {"role": "r"}}},
        });
        format!("{}\n", json!({"type": "ADDED", "object": object}))
    };
    let connections: String = connections.iter().map(added).collect();
    let service = tower::service_fn(move |request: Request<Body>| {
        let connections = connections.clone();
        async move {
            let query = request.uri().query().unwrap_or_default();
            if query.contains("resourceVersion=") {
                std::future::pending::<()>().await;
            }
            let is_theirs = request.uri().path().ends_with("/vaultconnections");
            let objects = if is_theirs { &*connections } else { "" };
            let end = json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "2",
                "annotations": {"k8s.io/initial-events-end": "true"}}}});
            let lines = format!("{objects}{end}\n");
            Ok::<_, Infallible>(Response::new(Body::from(lines.into_bytes())))
        }
    });
    kube::Client::new(service, "default")
}

/// A client with a token that lives for ever.
fn client(address: &str) -> Client {
    let config = Config {
        fingerprint: String::new(),
        settings: Settings::new(address),
        login: Login::Token {
            token: Source::given(Secret::new("t".to_owned())),
        },
        renewal: Renewal::Renew,
    };
    let parts = Parts {
        clock: Arc::new(RealClock::new()),
        guards: Vec::new(),
        observer: Arc::new(Unobserved),
    };
    Client::new(config, parts).unwrap()
}
