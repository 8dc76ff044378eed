//! What all kinds of the feature stand on.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api::vault::{
    PolicyKind, PolicyReference, VaultClusterPolicy, VaultClusterRole, VaultConnection,
    VaultConnectionSpec, VaultKVSecret, VaultPolicy, VaultRole,
};
use engine::leftovers::LeftoverStore;
use engine::{Applier, Cache, Deck, Index, Kind, Projection, Running, Stored, WatchKey};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kernel::ObjectKey;
use serde_json::Value;

use crate::cleanup::VaultLeftover;
use crate::connection::ProcessAws;
use crate::language::text::Header;
use crate::links::{Dependent, Links, Standing};
use crate::metrics::Metrics;
use crate::names::{self, Naming};
use crate::realm::Realm;
use crate::settings::Settings;
use crate::sync::{Announcements, Looks, Neighbours, Refusals};

/// Dependents by the connection they name.
const BY_CONNECTION: &str = "vault.connectionRef";
/// Roles by the policies they refer to, as [`named`].
const BY_POLICY: &str = "vault.policies";

/// The feature's ground. One for all controllers.
pub(crate) struct Ctx {
    pub(crate) deck: Deck,
    pub(crate) settings: Settings,
    pub(crate) links: Arc<Links>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) applier: Applier,
    pub(crate) leftovers: LeftoverStore<VaultLeftover>,
    pub(crate) caches: Caches,
    pub(crate) refusals: Refusals,
    pub(crate) looks: Looks,
    pub(crate) announcements: Announcements,
    pub(crate) neighbours: Neighbours,
    pub(crate) aws: ProcessAws,
    wakers: OnceLock<Wakers>,
}

/// What is known of this cluster.
pub(crate) struct Caches {
    pub(crate) connections: Cache,
    pub(crate) policies: Cache,
    pub(crate) cluster_policies: Cache,
    pub(crate) roles: Cache,
    pub(crate) cluster_roles: Cache,
    pub(crate) seeds: Cache,
    pub(crate) namespaces: Cache,
}

/// The controllers, to ask for passes.
pub(crate) struct Wakers {
    pub(crate) connections: Running,
    /// None for a controller that was left out at start; so for those below.
    pub(crate) policies: Option<Running>,
    pub(crate) cluster_policies: Option<Running>,
    pub(crate) roles: Option<Running>,
    pub(crate) cluster_roles: Option<Running>,
    pub(crate) seeds: Option<Running>,
}

impl Wakers {
    fn of(&self, kind: Dependent) -> Option<&Running> {
        let running = match kind {
            Dependent::Policy => &self.policies,
            Dependent::ClusterPolicy => &self.cluster_policies,
            Dependent::Role => &self.roles,
            Dependent::ClusterRole => &self.cluster_roles,
            Dependent::Seed => &self.seeds,
        };
        running.as_ref()
    }
}

/// The field manager of objects that templates make.
const TEMPLATE_MANAGER: &str = "pontoon-vault";

/// The watch of a kind that templates make. It shows which fields we applied, so that a template compares
/// with the cache and reads no object.
fn with_template_fields(kind: Kind) -> WatchKey {
    WatchKey::all(kind).with_projection(Projection::ManagedBy(TEMPLATE_MANAGER.to_owned()))
}

/// The watch of namespaces: their labels are all that counts.
pub(crate) fn namespaces() -> WatchKey {
    WatchKey::all(Kind::of::<Namespace>()).with_projection(Projection::Metadata)
}

impl Ctx {
    pub(crate) fn new(deck: &Deck, settings: Settings) -> Self {
        let hub = &deck.hub;
        let caches = Caches {
            connections: hub.cache(WatchKey::all(Kind::of::<VaultConnection>())),
            policies: hub.cache(with_template_fields(Kind::of::<VaultPolicy>())),
            cluster_policies: hub.cache(WatchKey::all(Kind::of::<VaultClusterPolicy>())),
            roles: hub.cache(with_template_fields(Kind::of::<VaultRole>())),
            cluster_roles: hub.cache(WatchKey::all(Kind::of::<VaultClusterRole>())),
            seeds: hub.cache(WatchKey::all(Kind::of::<VaultKVSecret>())),
            namespaces: hub.cache(namespaces()),
        };
        for kind in Dependent::ALL {
            caches
                .of(kind)
                .store()
                .index(Index::by(BY_CONNECTION, connection_of));
        }
        for roles in [&caches.roles, &caches.cluster_roles] {
            roles.store().index(Index::by(BY_POLICY, policies_of));
        }
        Self {
            links: Links::new(deck.clock.clone()),
            metrics: Arc::new(Metrics::new(&deck.metrics)),
            applier: deck.applier(TEMPLATE_MANAGER),
            leftovers: LeftoverStore::new(deck),
            aws: ProcessAws::new(
                deck.shared(),
                settings.aws_region.clone(),
                deck.clock.clone(),
                deck.guards.clone(),
            ),
            deck: deck.clone(),
            settings,
            caches,
            refusals: Refusals::default(),
            looks: Looks::default(),
            announcements: Announcements::default(),
            neighbours: Neighbours::default(),
            wakers: OnceLock::new(),
        }
    }

    /// The time, to the second: as statuses keep it.
    pub(crate) fn now(&self) -> Timestamp {
        let now = self.deck.clock.now();
        Timestamp::from_second(now.as_second()).expect("the second of a valid time is valid")
    }

    /// A span of real time, as our clock counts it: tokens live in Vault's time.
    pub(crate) fn in_our_time(&self, real: Duration) -> Duration {
        let second = self.deck.clock.real(Duration::from_secs(1)).as_secs_f64();
        real.div_f64(second.max(f64::MIN_POSITIVE))
    }

    /// Takes in the controllers, once all have been started.
    pub(crate) fn started(&self, wakers: Wakers) {
        self.wakers.set(wakers).ok();
    }

    /// Asks for a pass over a connection: somebody found it otherwise than it says.
    pub(crate) fn doubt(&self, connection: &str) {
        if let Some(wakers) = self.wakers.get() {
            wakers.connections.wake(&ObjectKey::cluster(connection));
        }
    }

    /// `who` found the connection away: it is woken when the connection is up, and the connection
    /// looks again at once if it does not know yet.
    pub(crate) fn wait_for(&self, connection: &str, who: (Dependent, &ObjectKey)) {
        if self.links.wait(connection, who) {
            self.doubt(connection);
        }
    }

    /// Asks for passes over all that goes through a connection: it was edited.
    pub(crate) fn wake_dependents(&self, connection: &str) {
        for (kind, object) in self.dependents(connection) {
            self.wake(kind, object.key(), Duration::ZERO);
        }
    }

    pub(crate) fn wake(&self, kind: Dependent, key: &ObjectKey, delay: Duration) {
        let running = self.wakers.get().and_then(|wakers| wakers.of(kind));
        if let Some(running) = running {
            running.wake_in(key, delay);
        }
    }

    /// What a connection's pass has found; those who waited for it go on.
    pub(crate) fn found(&self, connection: &str, standing: Standing) {
        for (kind, key, delay) in self.links.found(connection, standing) {
            self.wake(kind, &key, delay);
        }
    }

    /// A connection as last seen.
    pub(crate) fn connection(&self, name: &str) -> Option<VaultConnection> {
        let held = self
            .caches
            .connections
            .store()
            .get(&ObjectKey::cluster(name))?;
        held.parse(&Kind::of::<VaultConnection>()).ok()
    }

    /// Where an object with this namespace of its own gets over `connection`.
    pub(crate) fn realm(&self, connection: &VaultConnection, own: Option<&str>) -> Realm {
        let name = connection.metadata.name.as_deref().unwrap_or_default();
        Realm::new(connection, self.links.last_health(name), own)
    }

    /// All objects that go through a connection.
    pub(crate) fn dependents(&self, connection: &str) -> Vec<(Dependent, Arc<Stored>)> {
        let of = |kind: Dependent| {
            let found = self.caches.of(kind).store().by(BY_CONNECTION, connection);
            found.into_iter().map(move |object| (kind, object))
        };
        Dependent::ALL.into_iter().flat_map(of).collect()
    }

    /// The roles that refer to a policy.
    pub(crate) fn roles_of(
        &self,
        kind: PolicyKind,
        policy: &ObjectKey,
    ) -> Vec<(Dependent, Arc<Stored>)> {
        let named = named(kind, policy.namespace.as_deref(), &policy.name);
        let of = |kind: Dependent| {
            let found = self.caches.of(kind).store().by(BY_POLICY, &named);
            found.into_iter().map(move |object| (kind, object))
        };
        of(Dependent::Role)
            .chain(of(Dependent::ClusterRole))
            .collect()
    }

    /// The labels of a namespace; none if it is gone.
    pub(crate) fn labels(&self, namespace: &str) -> BTreeMap<String, String> {
        let held = self
            .caches
            .namespaces
            .store()
            .get(&ObjectKey::cluster(namespace));
        held.and_then(|namespace| namespace.metadata().labels)
            .unwrap_or_default()
    }

    /// The marker on what an object has in Vault.
    pub(crate) fn header(
        &self,
        connection: &VaultConnection,
        kind: &str,
        object: &ObjectKey,
    ) -> Header {
        let auth = &connection.spec.auth;
        let uid = || {
            auth.kubernetes
                .is_none()
                .then(|| format!("uid:{}", self.deck.cluster))
        };
        Header {
            auth_mount: names::login_mount(auth).map(|mount| mount.to_string()),
            cluster: self.settings.cluster_name.clone().or_else(uid),
            resource: object.to_string(),
            kind: kind.to_owned(),
        }
    }

    /// How names in Vault are derived from the objects of a connection.
    pub(crate) fn naming(&self, connection: &VaultConnection) -> Naming {
        Naming::new(connection, self.identity(connection))
    }

    /// The log fields of a pass over what goes through `connection`; none while that is unknown.
    pub(crate) fn log_span(&self, connection: &str) -> tracing::Span {
        let Some(found) = self.connection(connection) else {
            return tracing::Span::none();
        };
        let name = self.settings.cluster_name.as_deref();
        log_span(
            connection,
            &log_fields(&found.spec, name, &self.deck.cluster),
        )
    }

    /// How this cluster is called in the names it derives for a connection.
    pub(crate) fn identity(&self, connection: &VaultConnection) -> String {
        let mount = names::login_mount(&connection.spec.auth);
        names::identity(self.settings.cluster_name.as_deref(), mount.as_ref())
    }
}

impl Caches {
    pub(crate) fn of(&self, kind: Dependent) -> &Cache {
        match kind {
            Dependent::Policy => &self.policies,
            Dependent::ClusterPolicy => &self.cluster_policies,
            Dependent::Role => &self.roles,
            Dependent::ClusterRole => &self.cluster_roles,
            Dependent::Seed => &self.seeds,
        }
    }
}

/// What log lines say of a connection besides its name.
#[derive(Debug, PartialEq, Eq)]
struct LogFields {
    /// The mount at which we log in, else the one that roles go to; empty without either.
    auth_path: String,
    /// This cluster's name, else the UID that stands for it.
    cluster: String,
}

fn log_fields(
    spec: &VaultConnectionSpec,
    cluster_name: Option<&str>,
    uid: &impl Display,
) -> LogFields {
    let role_mount = || names::role_mount(spec.defaults.as_ref(), &spec.auth).ok();
    let mount = names::login_mount(&spec.auth).or_else(|| Some(role_mount()?.mount));
    LogFields {
        auth_path: mount.map(|mount| mount.to_string()).unwrap_or_default(),
        cluster: cluster_name.map_or_else(|| format!("uid:{uid}"), str::to_owned),
    }
}

/// At the level of errors, so that --log-level=warn and error leave the fields in their lines.
fn log_span(connection: &str, fields: &LogFields) -> tracing::Span {
    let LogFields { auth_path, cluster } = fields;
    tracing::error_span!(
        "connection",
        vaultConnection = connection,
        authPath = auth_path,
        cluster
    )
}

fn connection_of(object: &Stored) -> Vec<String> {
    let spec = spec(object);
    let named = spec["connectionRef"].as_str().map(str::to_owned);
    named.into_iter().collect()
}

fn policies_of(role: &Stored) -> Vec<String> {
    let Ok(references) =
        serde_json::from_value::<Vec<PolicyReference>>(spec(role)["policies"].take())
    else {
        return Vec::new();
    };
    let own = role.key().namespace.as_deref();
    let name = |one: &PolicyReference| named(one.kind, one.namespace.as_deref().or(own), &one.name);
    references.iter().map(name).collect()
}

fn spec(object: &Stored) -> Value {
    let mut whole: Value = serde_json::from_str(object.json()).unwrap_or_default();
    whole["spec"].take()
}

/// A policy as references and statuses name it: `VaultPolicy/ns/name` or `VaultClusterPolicy/name`.
pub(crate) fn named(kind: PolicyKind, namespace: Option<&str>, name: &str) -> String {
    match (kind, namespace) {
        (PolicyKind::VaultPolicy, Some(namespace)) => format!("VaultPolicy/{namespace}/{name}"),
        (PolicyKind::VaultPolicy, None) => format!("VaultPolicy/{name}"),
        (PolicyKind::VaultClusterPolicy, _) => format!("VaultClusterPolicy/{name}"),
        (PolicyKind::External, _) => format!("External/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_cached_object_shows_that_its_template_is_applied() {
        let kind = Kind::of::<VaultPolicy>();
        let spec = json!({"connectionRef": "c"});
        let entry = |manager: &str| {
            json!({"manager": manager, "operation": "Apply", "apiVersion": kind.api_version(),
                "fieldsV1": {"f:spec": {"f:connectionRef": {}}}})
        };
        let live = json!({"spec": spec, "metadata": {"name": "p", "namespace": "n", "uid": "u",
            "managedFields": [entry("others"), entry(TEMPLATE_MANAGER)]}});
        let projection = with_template_fields(kind.clone()).projection;
        let cached = Stored::read(&kind, &live.to_string(), &projection).unwrap();
        let cached: Value = serde_json::from_str(cached.json()).unwrap();
        let entries = &cached["metadata"]["managedFields"];
        assert_eq!(
            *entries,
            json!([entry(TEMPLATE_MANAGER)]),
            "others need no memory"
        );

        let no_server =
            |_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Body::empty())) };
        let client = Client::new(tower::service_fn(no_server), "n");
        let desired = json!({"spec": spec, "metadata": {"name": "p", "namespace": "n"}});
        assert!(Applier::new(client, TEMPLATE_MANAGER).is_applied(&kind, desired, &cached));
    }

    #[rstest]
    #[case::login(json!({"kubernetes": {"role": "r"}}), Value::Null, Some("prod"), "kubernetes", "prod")]
    #[case::roles(json!({"token": {"secretRef": {"name": "s", "namespace": "n", "key": "k"}}}), json!({"authPath": "kubernetes-x"}), None, "kubernetes-x", "uid:42")]
    #[case::neither(json!({"token": {"secretRef": {"name": "s", "namespace": "n", "key": "k"}}}), Value::Null, None, "", "uid:42")]
    fn log_lines_name_the_mount_and_the_cluster(
        #[case] auth: Value,
        #[case] defaults: Value,
        #[case] cluster_name: Option<&str>,
        #[case] auth_path: &str,
        #[case] cluster: &str,
    ) {
        let spec = json!({"address": "https://vault:8200", "auth": auth, "defaults": defaults});
        let spec: VaultConnectionSpec = serde_json::from_value(spec).unwrap();
        let fields = LogFields {
            auth_path: auth_path.to_owned(),
            cluster: cluster.to_owned(),
        };
        assert_eq!(log_fields(&spec, cluster_name, &42), fields);
        // A line of this level has the fields whatever is filtered out.
        let span = log_span("c", &fields);
        assert_eq!(span.metadata().unwrap().level(), &tracing::Level::ERROR);
    }
}
