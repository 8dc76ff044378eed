//! What all kinds of the feature stand on.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api::tenants::{
    ConnectionGroup, DistributionTenant, Invalidation, TenantPolicy, TenantPolicySpec, TenantSource,
};
use aws::{Account, Aws, Caller, Operation, Priority, Role, Ticket};
use engine::{Applier, Cache, Deck, Kind, Pass, Projection, Running, WatchKey};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kernel::ObjectKey;
use tokio::sync::OnceCell;

use crate::allowed::Group;
use crate::dns::zones::Zones;
use crate::group;
use crate::memory::Memories;
use crate::metrics::Metrics;
use crate::outside::Outside;
use crate::settings::Settings;
use crate::sweep::Lengths;

/// How long a pass that waits for its turn is left alone, at most: its ticket wakes it.
const TURN: Duration = Duration::from_secs(5 * 60);
/// How soon a pass comes again that needs a cache which is not read yet.
pub(crate) const UNSETTLED: Duration = Duration::from_secs(5);

/// The feature's ground. One for all controllers.
pub(crate) struct Ctx {
    pub(crate) deck: Deck,
    pub(crate) settings: Settings,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) applier: Applier,
    pub(crate) caches: Caches,
    pub(crate) outside: Outside,
    pub(crate) memory: Memories,
    pub(crate) zones: Zones,
    pub(crate) lengths: Lengths,
    loading: OnceCell<()>,
    aws: Arc<OnceLock<Aws>>,
    wakers: Arc<OnceLock<Wakers>>,
    /// The id of the account's default group, once somebody had to know. It stays the same.
    default_group: OnceLock<String>,
}

/// What is known of this cluster.
pub(crate) struct Caches {
    pub(crate) tenants: Cache,
    pub(crate) groups: Cache,
    pub(crate) invalidations: Cache,
    pub(crate) sources: Cache,
    pub(crate) policies: Cache,
    pub(crate) namespaces: Cache,
}

/// The controllers whose passes are asked for.
pub(crate) struct Wakers {
    pub(crate) tenants: Running,
    pub(crate) groups: Running,
    pub(crate) invalidations: Running,
}

/// A kind of the feature that lives in CloudFront.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Ours {
    Tenant,
    Group,
    Invalidation,
}

impl Ours {
    fn word(self) -> &'static str {
        match self {
            Self::Tenant => "DistributionTenant",
            Self::Group => "ConnectionGroup",
            Self::Invalidation => "Invalidation",
        }
    }
}

impl Wakers {
    fn of(&self, kind: Ours) -> &Running {
        match kind {
            Ours::Tenant => &self.tenants,
            Ours::Group => &self.groups,
            Ours::Invalidation => &self.invalidations,
        }
    }
}

/// It is not this object's turn to call AWS; it is woken when it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotYet {
    /// Look again then, if nobody woke it.
    pub(crate) after: Duration,
}

/// The watch of namespaces: labels and annotations are all that counts.
pub(crate) fn namespaces() -> WatchKey {
    WatchKey::all(Kind::of::<Namespace>()).with_projection(Projection::Metadata)
}

impl Ctx {
    /// The policies by name, and whether leave is needed: one that cannot be read is there, and
    /// allows nothing.
    pub(crate) fn policies(&self) -> (Vec<(String, TenantPolicySpec)>, bool) {
        let kind = Kind::of::<TenantPolicy>();
        let held = self.caches.policies.store().all();
        let required = !self.settings.open || !held.is_empty();
        let read = held.iter().filter_map(|held| {
            let policy: TenantPolicy = held.parse(&kind).ok()?;
            Some((held.key().name.to_string(), policy.spec))
        });
        (read.collect(), required)
    }

    /// The labels of a namespace; none if there is no such namespace.
    pub(crate) fn labels(&self, namespace: &str) -> BTreeMap<String, String> {
        let namespaces = self.caches.namespaces.store();
        let held = namespaces.get(&ObjectKey::cluster(namespace));
        let labels = held.and_then(|held| held.metadata().labels);
        labels.unwrap_or_default()
    }

    pub(crate) fn new(deck: &Deck, settings: Settings) -> Self {
        let hub = &deck.hub;
        let caches = Caches {
            tenants: hub.cache(WatchKey::all(Kind::of::<DistributionTenant>())),
            groups: hub.cache(WatchKey::all(Kind::of::<ConnectionGroup>())),
            invalidations: hub.cache(WatchKey::all(Kind::of::<Invalidation>())),
            sources: hub.cache(WatchKey::all(Kind::of::<TenantSource>())),
            policies: hub.cache(WatchKey::all(Kind::of::<TenantPolicy>())),
            namespaces: hub.cache(namespaces()),
        };
        let aws = Arc::<OnceLock<Aws>>::default();
        let (clock, tenants) = (deck.clock.clone(), caches.tenants.clone());
        Self {
            metrics: Arc::new(Metrics::new(
                &deck.metrics,
                tenants,
                clock,
                Arc::clone(&aws),
            )),
            applier: deck.applier("pontoon-tenants"),
            outside: Outside::new(&deck.clock),
            deck: deck.clone(),
            settings,
            caches,
            memory: Memories::default(),
            zones: Zones::new(deck),
            lengths: Lengths::default(),
            loading: OnceCell::new(),
            aws,
            wakers: Arc::default(),
            default_group: OnceLock::new(),
        }
    }

    /// The time, to the second: as statuses keep it.
    pub(crate) fn now(&self) -> Timestamp {
        let now = self.deck.clock.now();
        Timestamp::from_second(now.as_second()).expect("the second of a valid time is valid")
    }

    /// The AWS of the process as this feature uses it, once its settings have been read from the
    /// environment.
    pub(crate) async fn aws(&self) -> &Aws {
        let load = async || {
            let (region, clock) = (self.settings.region.clone(), self.deck.clock.clone());
            let shared = self.deck.shared::<Aws>();
            let shared = shared.get_or_init(|| Aws::for_process(region, clock));
            let (guards, observer) = (self.deck.guards.clone(), self.metrics.observer());
            let view = shared.await.for_feature(guards, observer);
            self.aws.set(view).ok();
        };
        self.loading.get_or_init(load).await;
        self.aws.get().expect("loading sets it")
    }

    /// Our own account.
    pub(crate) async fn own(&self) -> &Account {
        self.aws().await.own()
    }

    /// The account that `role` belongs to, used as it; our own without one.
    pub(crate) async fn account(&self, role: Option<&Role>) -> Account {
        let aws = self.aws().await;
        role.map_or_else(|| aws.own().clone(), |role| aws.role(role))
    }

    /// A group as policies judge it: by its id, and none is the default one.
    pub(crate) fn group<'a>(&self, id: Option<&'a str>) -> Group<'a> {
        let known = self.default_group.get();
        let is_default =
            |id: &str| known.is_some_and(|known| known == id) || group::is_default(self, id);
        Group {
            id,
            default: id.is_none_or(is_default),
        }
    }

    /// Finds out which group is the default one, for an object of `namespace`.
    pub(crate) async fn learn_default_group(&self, namespace: &str) -> Result<(), aws::Error> {
        let asker = Caller::new(Priority::Edit, namespace);
        let found = self.outside.default_group(self.own().await, &asker).await?;
        if let Some(group) = found {
            self.default_group.set(group.id).ok(); // set at most once: it stays the same
        }
        Ok(())
    }

    /// Lets the pass make calls to CloudFront, if it is its turn; else it should end, and is woken
    /// when it is. Holds no worker meanwhile, however many wait.
    pub(crate) async fn admit(
        &self,
        kind: Ours,
        pass: &Pass,
        priority: Priority,
    ) -> Result<Caller, NotYet> {
        // Any call: all of CloudFront's but one share a limit.
        let any = Operation::GetDistributionTenant;
        self.admit_to(any, kind, pass, priority).await
    }

    /// The same for calls of an operation that has a limit of its own.
    pub(crate) async fn admit_to(
        &self,
        operation: Operation,
        kind: Ours,
        pass: &Pass,
        priority: Priority,
    ) -> Result<Caller, NotYet> {
        self.admit_key(operation, kind, pass.key(), priority).await
    }

    /// The same for the object of this key.
    pub(crate) async fn admit_key(
        &self,
        operation: Operation,
        kind: Ours,
        key: &ObjectKey,
        priority: Priority,
    ) -> Result<Caller, NotYet> {
        let key = key.clone();
        let asker = Caller::new(priority, key.namespace.clone().unwrap_or_default());
        let wakers = Arc::clone(&self.wakers);
        let ticket = Ticket::new(format!("{}/{key}", kind.word()), move || {
            if let Some(wakers) = wakers.get() {
                wakers.of(kind).resume(&key);
            }
        });
        let own = self.own().await;
        let admitted = own.admit(operation, &asker, &ticket);
        admitted.await.map_err(|_| NotYet { after: TURN })
    }

    /// Gives up the place of an object that waits for its turn: it is gone.
    pub(crate) fn withdraw(&self, kind: Ours, key: &ObjectKey) {
        if let Some(aws) = self.aws.get() {
            aws.withdraw(&format!("{}/{key}", kind.word()));
        }
    }

    /// Takes in the controllers, once all have been started.
    pub(crate) fn started(&self, wakers: Wakers) {
        self.wakers.set(wakers).ok();
    }

    /// Asks for a pass over an object after `delay`.
    pub(crate) fn wake_in(&self, kind: Ours, key: &ObjectKey, delay: Duration) {
        if let Some(wakers) = self.wakers.get() {
            wakers.of(kind).wake_in(key, delay);
        }
    }
}
