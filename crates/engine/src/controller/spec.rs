//! The settings of a controller, and the code of its passes.

use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kernel::{Backoff, Class, ObjectKey, Progress, spread};
use serde::de::DeserializeOwned;

use super::followed::FollowSpec;
use crate::hub::{Hub, WatchKey};
use crate::kind_core::{CorePasses, KindIo};
use crate::queue::PASS_INTERVAL;
use crate::stored::{Malformed, Stored};
use crate::{Classified, Kind, Pass};

/// The pass of a controller over an object of its kind.
pub trait Reconcile: Send + Sync + 'static {
    /// The kind as a Rust type; `serde_json::Value` for a kind that is known only at run time.
    type Object: DeserializeOwned + Send + Sync;
    /// The error of a failed pass.
    type Error: Classified;

    /// Runs one pass: brings the outside to the state of `object`, or reports on the object why not.
    fn reconcile(
        &self,
        object: &Self::Object,
        pass: &mut Pass,
    ) -> impl Future<Output = Result<Progress, Self::Error>> + Send;

    /// Called when an object is gone. Drops what was stored for it.
    fn gone(&self, key: &ObjectKey) {
        let _ = key;
    }
}

/// Why a pass did not end in a [`Progress`].
pub(crate) enum Failure {
    Malformed(Malformed),
    Failed {
        class: Class,
        message: String,
    },
    Panicked(String),
    Deadline(Duration),
    /// Too many consecutive passes ended with `Again` and wrote nothing.
    Idle,
}

pub(crate) trait Passes: Send + Sync + 'static {
    fn pass<'a>(&'a self, pass: &'a mut Pass) -> BoxFuture<'a, Result<Progress, Failure>>;
    fn gone(&self, key: &ObjectKey);

    /// A placeholder for an object that does not exist, if there is work for such keys.
    fn absent(&self, kind: &Kind, key: &ObjectKey) -> Option<Stored> {
        let _ = (kind, key);
        None
    }
}

struct Typed<R>(R);

impl<R: Reconcile> Passes for Typed<R> {
    fn pass<'a>(&'a self, pass: &'a mut Pass) -> BoxFuture<'a, Result<Progress, Failure>> {
        Box::pin(async move {
            let object: R::Object = pass.object.parse(&pass.kind).map_err(Failure::Malformed)?;
            let ended = self.0.reconcile(&object, pass).await;
            ended.map_err(|error| Failure::Failed {
                class: error.class(),
                message: crate::error::chain(&error),
            })
        })
    }

    fn gone(&self, key: &ObjectKey) {
        self.0.gone(key);
    }
}

/// After this time, a blocked object has passes at the later pace.
const LONG_BLOCKED: Duration = Duration::from_secs(60 * 60);
/// Passes over blocked objects are spread around their pace by this share.
const BLOCKED_SPREAD: f64 = 0.2;

/// The time within which the first passes over objects that are not urgent begin.
#[derive(Clone)]
pub(super) struct FirstWindow {
    window: Duration,
    is_urgent: Arc<dyn Fn(&Stored) -> bool + Send + Sync>,
}

/// The settings of a controller, and the code of its passes.
#[derive(Clone)]
pub struct ControllerSpec {
    pub(super) key: WatchKey,
    pub(super) passes: Arc<dyn Passes>,
    /// With the hub of another cluster; none for the controller's own.
    pub(super) follows: Vec<(Option<Hub>, FollowSpec)>,
    pub(super) needs: Vec<(Option<Hub>, WatchKey)>,
    pub(super) concurrency: Option<usize>,
    pub(super) resync: Duration,
    pub(super) blocked_pace: (Duration, Duration),
    pub(super) backoff: Backoff,
    pub(super) pass_interval: Duration,
    pub(super) first_window: Option<FirstWindow>,
    pub(super) deadline: Duration,
    pub(super) reconcile_now: Vec<String>,
    pub(super) paused: Vec<String>,
}

impl ControllerSpec {
    /// A controller of the objects of `key`.
    pub fn new(key: WatchKey, reconcile: impl Reconcile) -> Self {
        Self::with_passes(key, Arc::new(Typed(reconcile)))
    }

    /// A controller of the objects of `key`, whose passes run a pure core.
    pub fn of_core(key: WatchKey, io: impl KindIo) -> Self {
        Self::with_passes(key, Arc::new(CorePasses::new(io)))
    }

    fn with_passes(key: WatchKey, passes: Arc<dyn Passes>) -> Self {
        Self {
            key,
            passes,
            follows: Vec::new(),
            needs: Vec::new(),
            concurrency: None,
            resync: Duration::from_secs(300),
            blocked_pace: (Duration::from_secs(300), Duration::from_secs(1800)),
            backoff: Backoff::default(),
            pass_interval: PASS_INTERVAL,
            first_window: None,
            deadline: Duration::from_secs(60),
            reconcile_now: vec![kernel::RECONCILE_NOW.to_owned()],
            paused: vec![kernel::PAUSED.to_owned()],
        }
    }

    /// Runs no pass before all objects of `key` have been read, without a time limit. Use it for objects
    /// that passes must never take for absent.
    ///
    /// # When not to use it
    /// For objects that passes do not need: [`ControllerSpec::follow`] waits 30 s at most.
    #[must_use]
    pub fn needs(mut self, key: WatchKey) -> Self {
        self.needs.push((None, key));
        self
    }

    /// Like [`needs`](Self::needs), for objects of another cluster. If that cluster is closed, no more
    /// passes begin after the next change of the leader.
    #[must_use]
    pub fn needs_on(mut self, hub: &Hub, key: WatchKey) -> Self {
        self.needs.push((Some(hub.clone()), key));
        self
    }

    /// Runs a pass over the objects that `map` names when an object of `key` changes or is deleted.
    /// Passes begin when all objects of `key` have been read, or after 30 s.
    #[must_use]
    pub fn follow(
        mut self,
        key: WatchKey,
        map: impl Fn(&Stored) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        self.follows.push((None, FollowSpec::new(key, map)));
        self
    }

    /// Follows objects of another cluster, as long as it is not closed. Passes begin when all of them
    /// have been read, or after 30 s.
    #[must_use]
    pub fn follow_on(mut self, hub: &Hub, follow: FollowSpec) -> Self {
        self.follows.push((Some(hub.clone()), follow));
        self
    }

    /// Like [`follow`](Self::follow), but a change counts only if it changes the value of `relevant`.
    #[must_use]
    pub fn follow_when<T: Hash>(
        mut self,
        key: WatchKey,
        relevant: impl Fn(&Stored) -> T + Send + Sync + 'static,
        map: impl Fn(&Stored) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        let follow = FollowSpec::new(key, map).when_changed(relevant);
        self.follows.push((None, follow));
        self
    }

    /// Like [`follow`](Self::follow), for objects that refer to ours. When a reference changes, the old
    /// and the new object of the reference both have a pass.
    #[must_use]
    pub fn follow_refs(
        mut self,
        key: WatchKey,
        references: impl Fn(&Stored) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        let follow = FollowSpec::new(key, references).with_references();
        self.follows.push((None, follow));
        self
    }

    /// Runs a pass over the owner when an object that it controls changes or is deleted.
    #[must_use]
    pub fn owns(self, key: WatchKey) -> Self {
        let owner = self.key.kind.clone();
        self.follow(key, move |child| {
            let owners = child.metadata().owner_references.unwrap_or_default();
            owners
                .into_iter()
                .filter(|by| {
                    let group = by
                        .api_version
                        .rsplit_once('/')
                        .map_or("", |(group, _)| group);
                    by.kind == owner.kind && group == owner.group && by.controller == Some(true)
                })
                .map(|by| {
                    ObjectKey::of(
                        child
                            .key()
                            .namespace
                            .as_deref()
                            .filter(|_| owner.namespaced),
                        &by.name,
                    )
                })
                .collect()
        })
    }

    /// The number of concurrent passes, if the operator's flag does not fit this kind.
    #[must_use]
    pub fn concurrency(self, concurrency: usize) -> Self {
        Self {
            concurrency: Some(concurrency),
            ..self
        }
    }

    /// The time between two passes over an unchanged object, ±10 %.
    #[must_use]
    pub fn resync(self, resync: Duration) -> Self {
        Self { resync, ..self }
    }

    /// The time between two passes over a blocked object, ±20 %: in its first hour, and later. The
    /// defaults are 5 and 30 minutes.
    #[must_use]
    pub fn blocked_pace(self, first_hour: Duration, later: Duration) -> Self {
        Self {
            blocked_pace: (first_hour, later),
            ..self
        }
    }

    /// The delay of the next pass over an object that has been blocked for this long. `random` from 0 to
    /// 1 chooses the delay within the spread.
    pub(super) fn blocked_delay(&self, blocked_for: Duration, random: f64) -> Duration {
        let (first_hour, later) = self.blocked_pace;
        let pace = if blocked_for < LONG_BLOCKED {
            first_hour
        } else {
            later
        };
        spread(pace, BLOCKED_SPREAD, random)
    }

    /// The back-off after failed passes.
    #[must_use]
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    /// The least time between the starts of two passes over one object, 100 ms by default. Many edits
    /// within it cause one pass. A pass that ends with [`Progress::Again`] does not wait for it.
    ///
    /// # When not to use it
    /// For a longer delay between checks: a user's change would wait for it too.
    #[must_use]
    pub fn pass_interval(self, pass_interval: Duration) -> Self {
        Self {
            pass_interval,
            ..self
        }
    }

    /// Spreads the first passes over the objects that exist at a start evenly over `window`, because each
    /// calls an external system. Objects that are urgent have theirs at once, 8,000 a second at most. A
    /// change of an object does not wait for its first pass.
    #[must_use]
    pub fn first_window(
        self,
        window: Duration,
        is_urgent: impl Fn(&Stored) -> bool + Send + Sync + 'static,
    ) -> Self {
        let is_urgent = Arc::new(is_urgent);
        Self {
            first_window: Some(FirstWindow { window, is_urgent }),
            ..self
        }
    }

    /// The delay of the first pass over `object` within the controller's own window; none if the default
    /// order applies. `random` from 0 to 1 chooses it.
    pub(super) fn first_delay(&self, object: &Stored, random: f64) -> Option<Duration> {
        let FirstWindow { window, is_urgent } = self.first_window.as_ref()?;
        // A panic of `is_urgent` concerns one object and must not end the controller.
        let is_urgent = catch_unwind(AssertUnwindSafe(|| is_urgent(object))).unwrap_or(true);
        (!is_urgent).then(|| window.mul_f64(random))
    }

    /// The longest time that one pass may take.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Adds an inherited annotation that means the same as `pontoon.io/reconcile-now`.
    #[must_use]
    pub fn also_reconcile_now(mut self, annotation: impl Into<String>) -> Self {
        self.reconcile_now.push(annotation.into());
        self
    }

    /// Adds an inherited annotation that means the same as `pontoon.io/paused` if it is `true`.
    #[must_use]
    pub fn also_paused(mut self, annotation: impl Into<String>) -> Self {
        self.paused.push(annotation.into());
        self
    }

    /// Lets passes run over paused objects: the kind obeys the annotation `pontoon.io/paused` itself, and sets
    /// its own condition `Paused`. For work that may stop only between certain steps.
    ///
    /// # When not to use it
    /// If a pass may stop anywhere: without this, the engine pauses objects and says so in their status.
    #[must_use]
    pub fn pauses_by_itself(self) -> Self {
        Self {
            paused: Vec::new(),
            ..self
        }
    }

    /// The kind of its objects.
    pub fn kind(&self) -> &Kind {
        &self.key.kind
    }
}
