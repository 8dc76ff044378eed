//! Metrics of the engine. Labels are bounded: feature, kind, class; never a name or a message.

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Labels of a controller.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfController {
    /// own or other.
    pub cluster: &'static str,
    /// The feature's name.
    pub feature: String,
    /// The API group of the kind.
    pub group: String,
    /// The kind it reconciles.
    pub kind: String,
}

/// Labels of an ended pass.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Outcome {
    /// own or other.
    pub cluster: &'static str,
    /// The feature's name.
    pub feature: String,
    /// The API group of the kind.
    pub group: String,
    /// The kind it reconciles.
    pub kind: String,
    /// done, again, waiting, blocked, an error class, panic, deadline, idle or malformed.
    pub outcome: &'static str,
}

/// Labels of a task that runs beside controllers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfTask {
    /// The feature's name.
    pub feature: String,
    /// The task's name.
    pub task: &'static str,
}

/// Labels of one priority of one queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Depth {
    /// own or other.
    pub cluster: &'static str,
    /// The feature's name.
    pub feature: String,
    /// The API group of the kind.
    pub group: String,
    /// The kind it reconciles.
    pub kind: String,
    /// user, followed or resync.
    pub priority: &'static str,
}

/// The label `cluster` for the operator's own cluster.
pub(crate) const OWN_CLUSTER: &str = "own";
/// The label `cluster` for all other clusters together: their number and names have no bound.
pub(crate) const OTHER_CLUSTER: &str = "other";

/// Labels of a call to the Kubernetes API.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ApiCall {
    /// own or other.
    pub cluster: &'static str,
    /// The feature that made the call.
    pub feature: String,
    /// get (lists too), watch, create, update, patch or delete.
    pub verb: &'static str,
    /// 2xx, 404, 409, …, timeout or unreachable.
    pub result: String,
}

/// Labels of a watched kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfKind {
    /// own or other.
    pub cluster: &'static str,
    /// Name, group and version of the kind.
    pub kind: String,
}

/// The label of controller-runtime's metrics.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ByController {
    /// The kind in lower case.
    pub controller: String,
}

/// The labels of controller-runtime's pass count.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ByResult {
    /// The kind in lower case.
    pub controller: String,
    /// success, requeue (at once), requeue_after or error.
    pub result: &'static str,
}

impl ByResult {
    /// Every value of the result label.
    pub const RESULTS: [&str; 4] = ["success", "requeue", "requeue_after", "error"];
}

/// The series of the engine, and the registry for those of features.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    /// Locked while watches are counted: hubs of several clusters share series.
    watch_series: Arc<Mutex<()>>,
    /// Passes by outcome.
    pub passes: Family<Outcome, Counter>,
    /// Duration of passes.
    pub pass_seconds: Family<OfController, Histogram, fn() -> Histogram>,
    /// Objects that wait for a pass.
    pub queue_depth: Family<Depth, Gauge>,
    /// The longest wait of a waiting object, in milliseconds.
    pub queue_oldest_ms: Family<OfController, Gauge>,
    /// Running passes.
    pub passes_in_flight: Family<OfController, Gauge>,
    /// Objects that failed and wait for a retry.
    pub backing_off: Family<OfController, Gauge>,
    /// Passes that panicked.
    pub panics: Family<OfController, Counter>,
    /// Restarts of tasks after a panic.
    pub task_restarts: Family<OfTask, Counter>,
    /// Calls to the Kubernetes API by verb and result.
    pub api_calls: Family<ApiCall, Counter>,
    /// Calls in flight.
    pub api_in_flight: Gauge,
    /// Running watches.
    pub watches: Family<OfKind, Gauge>,
    /// How often a reader fell behind and had to read all objects again.
    pub watch_lag: Family<OfKind, Counter>,
    /// How often a watch was reconnected.
    pub watch_restarts: Family<OfKind, Counter>,
    /// Objects that could not be read.
    pub malformed: Family<OfKind, Counter>,
    /// Bytes of cached objects.
    pub cache_bytes: Family<OfKind, Gauge>,
    /// Events that were dropped because too many waited.
    pub events_dropped: Counter,
    /// 1 while this process leads.
    pub leader: Gauge,
    /// controller-runtime's pass count.
    pub cr_total: Family<ByResult, Counter>,
    /// controller-runtime's error count.
    pub cr_errors: Family<ByController, Counter>,
    /// controller-runtime's pass duration.
    pub cr_seconds: Family<ByController, Histogram, fn() -> Histogram>,
    /// controller-runtime's running passes.
    pub cr_workers: Family<ByController, Gauge>,
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 17)) // 1 ms to 65 s: a pass ends at 60 s
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Arc::default(),
            watch_series: Arc::default(),
            passes: Family::default(),
            pass_seconds: Family::new_with_constructor(seconds),
            queue_depth: Family::default(),
            queue_oldest_ms: Family::default(),
            passes_in_flight: Family::default(),
            backing_off: Family::default(),
            panics: Family::default(),
            task_restarts: Family::default(),
            api_calls: Family::default(),
            api_in_flight: Gauge::default(),
            watches: Family::default(),
            watch_lag: Family::default(),
            watch_restarts: Family::default(),
            malformed: Family::default(),
            cache_bytes: Family::default(),
            events_dropped: Counter::default(),
            leader: Gauge::default(),
            cr_total: Family::default(),
            cr_errors: Family::default(),
            cr_seconds: Family::new_with_constructor(seconds),
            cr_workers: Family::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    /// Registers all series. The encoder adds `_total` to the names of counters.
    fn register(&self) {
        let mut r = self.registry.lock();
        r.register(
            "pontoon_reconcile",
            "Passes by how they ended",
            self.passes.clone(),
        );
        r.register(
            "pontoon_reconcile_seconds",
            "Duration of a pass",
            self.pass_seconds.clone(),
        );
        r.register(
            "pontoon_queue_depth",
            "Objects waiting for a pass",
            self.queue_depth.clone(),
        );
        r.register(
            "pontoon_queue_oldest_milliseconds",
            "Age of the oldest waiting object",
            self.queue_oldest_ms.clone(),
        );
        r.register(
            "pontoon_passes_in_flight",
            "Passes under way",
            self.passes_in_flight.clone(),
        );
        r.register(
            "pontoon_backing_off_objects",
            "Objects that failed and wait",
            self.backing_off.clone(),
        );
        r.register(
            "pontoon_panics",
            "Passes that panicked",
            self.panics.clone(),
        );
        r.register(
            "pontoon_task_restarts",
            "Tasks that panicked and were started again",
            self.task_restarts.clone(),
        );
        r.register(
            "pontoon_api_calls",
            "Kubernetes API calls by verb and result",
            self.api_calls.clone(),
        );
        r.register(
            "pontoon_api_calls_in_flight",
            "Kubernetes API calls under way",
            self.api_in_flight.clone(),
        );
        r.register("pontoon_watches", "Watches held", self.watches.clone());
        r.register(
            "pontoon_watch_lag",
            "Readers that fell behind",
            self.watch_lag.clone(),
        );
        r.register(
            "pontoon_watch_restarts",
            "Watches started anew",
            self.watch_restarts.clone(),
        );
        r.register(
            "pontoon_malformed_objects",
            "Objects that could not be read",
            self.malformed.clone(),
        );
        r.register(
            "pontoon_cache_bytes",
            "Bytes of cached objects",
            self.cache_bytes.clone(),
        );
        r.register(
            "pontoon_events_dropped",
            "Events dropped for want of room",
            self.events_dropped.clone(),
        );
        r.register(
            "pontoon_leader",
            "1 while this process leads",
            self.leader.clone(),
        );
        self.register_controller_runtime(&mut r);
    }

    fn register_controller_runtime(&self, r: &mut Registry) {
        r.register(
            "controller_runtime_reconcile",
            "Passes by result",
            self.cr_total.clone(),
        );
        r.register(
            "controller_runtime_reconcile_errors",
            "Passes that failed",
            self.cr_errors.clone(),
        );
        r.register(
            "controller_runtime_reconcile_time_seconds",
            "Duration of a pass",
            self.cr_seconds.clone(),
        );
        r.register(
            "controller_runtime_active_workers",
            "Passes under way",
            self.cr_workers.clone(),
        );
    }

    /// Lets a feature register its own series. Inherited names stay unchanged.
    pub fn extend(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.registry.lock());
    }

    /// Counts a watch that starts.
    pub(crate) fn watch_started(&self, label: &OfKind) {
        let _series = self.watch_series.lock();
        self.watches.get_or_create(label).inc();
    }

    /// Counts a watch that has ended. The last one of its kind removes the kind's series.
    pub(crate) fn watch_ended(&self, label: &OfKind) {
        let _series = self.watch_series.lock();
        if self.watches.get_or_create(label).dec() == 1 {
            self.watches.remove(label);
            self.watch_lag.remove(label);
            self.watch_restarts.remove(label);
            self.malformed.remove(label);
            self.cache_bytes.remove(label);
        }
    }

    /// The text that `/metrics` serves.
    pub fn text(&self) -> String {
        let mut out = String::new();
        encode(&mut out, &self.registry.lock()).expect("writing to a string never fails");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hubs_that_end_and_start_watches_leave_no_series() {
        let metrics = Metrics::default();
        let label = OfKind {
            cluster: OTHER_CLUSTER,
            kind: "ConfigMap.v1".to_owned(),
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        metrics.watch_started(&label);
                        metrics.watch_ended(&label);
                    }
                });
            }
        });
        let text = metrics.text();
        assert!(!text.contains("ConfigMap.v1"), "{text}");
    }
}
