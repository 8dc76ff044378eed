//! What all kinds of the feature stand on.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api::vault::{
    PolicyKind, PolicyReference, VaultClusterPolicy, VaultClusterRole, VaultConnection,
    VaultKVSecret, VaultPolicy, VaultRole,
};
use engine::{Applier, Cache, Deck, Index, Kind, Projection, Running, Stored, WatchKey};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kernel::ObjectKey;
use serde_json::Value;

use crate::language::text::Header;
use crate::links::{Dependent, Links, Standing};
use crate::metrics::Metrics;
use crate::names;
use crate::settings::Settings;
use crate::sync::{Looks, Refusals};

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
    pub(crate) caches: Caches,
    pub(crate) refusals: Refusals,
    pub(crate) looks: Looks,
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
    pub(crate) policies: Running,
    pub(crate) cluster_policies: Running,
    pub(crate) roles: Running,
    pub(crate) cluster_roles: Running,
    pub(crate) seeds: Running,
}

impl Wakers {
    fn of(&self, kind: Dependent) -> &Running {
        match kind {
            Dependent::Policy => &self.policies,
            Dependent::ClusterPolicy => &self.cluster_policies,
            Dependent::Role => &self.roles,
            Dependent::ClusterRole => &self.cluster_roles,
            Dependent::Seed => &self.seeds,
        }
    }
}

/// The watch of namespaces: their labels are all that counts.
pub(crate) fn namespaces() -> WatchKey {
    WatchKey::all(Kind::of::<Namespace>()).keep(Projection::Metadata)
}

impl Ctx {
    pub(crate) fn new(deck: &Deck, settings: Settings) -> Self {
        let hub = &deck.hub;
        let caches = Caches {
            connections: hub.cache(WatchKey::all(Kind::of::<VaultConnection>())),
            policies: hub.cache(WatchKey::all(Kind::of::<VaultPolicy>())),
            cluster_policies: hub.cache(WatchKey::all(Kind::of::<VaultClusterPolicy>())),
            roles: hub.cache(WatchKey::all(Kind::of::<VaultRole>())),
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
            applier: deck.applier("pontoon-vault"),
            deck: deck.clone(),
            settings,
            caches,
            refusals: Refusals::default(),
            looks: Looks::default(),
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
        if let Some(wakers) = self.wakers.get() {
            wakers.of(kind).wake_in(key, delay);
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
