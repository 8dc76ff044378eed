//! What the feature counts: the predecessor's series under their own names, and some of ours.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api::tenants::DistributionTenantStatus;
use aws::{Aws, Observer, Operation, Priority};
use engine::Cache;
use kernel::{Class, ObjectKey, SharedClock};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use serde::Deserialize;

/// The predecessor's.
const PREFIX: &str = "cloudfront_tenant_operator";
/// Bounds of calls in seconds, up to where a call is cut off.
const SECONDS: [f64; 12] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];
/// Bounds of a batch: Route 53 takes a thousand.
const RECORDS: [f64; 9] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 500.0, 1000.0];

/// Every series of the feature.
pub(crate) struct Metrics {
    errors: Family<OfError, Counter>,
    drifts: Counter,
    call_seconds: Family<OfOperation, Histogram>,
    batch_records: Histogram,
    source_polls: Family<OfSource, Gauge>,
    sweeps: Arc<Sweeps>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfError {
    error_type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfOperation {
    operation: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfSource {
    namespace: String,
    name: String,
}

impl OfSource {
    fn new(key: &ObjectKey) -> Self {
        Self {
            namespace: key.namespace.as_deref().unwrap_or_default().to_owned(),
            name: key.name.to_string(),
        }
    }
}

/// When each distribution was last swept, by the feature's clock.
#[derive(Debug, Default)]
struct Sweeps(Mutex<BTreeMap<String, Duration>>);

/// What is looked up when somebody asks, and is never stale.
struct AtScrape {
    tenants: Cache,
    clock: SharedClock,
    aws: Arc<OnceLock<Aws>>,
    sweeps: Arc<Sweeps>,
}

impl Metrics {
    /// Registers every series. `_total` is added to counters by the encoder.
    pub(crate) fn new(
        engine: &engine::Metrics,
        tenants: Cache,
        clock: SharedClock,
        aws: Arc<OnceLock<Aws>>,
    ) -> Self {
        let metrics = Self {
            errors: Family::default(),
            drifts: Counter::default(),
            call_seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            batch_records: Histogram::new(RECORDS),
            source_polls: Family::default(),
            sweeps: Arc::default(),
        };
        let at_scrape = AtScrape {
            tenants,
            clock,
            aws,
            sweeps: Arc::clone(&metrics.sweeps),
        };
        engine.extend(|registry| {
            let registry = registry.sub_registry_with_prefix(PREFIX);
            metrics.register(registry);
            registry.register_collector(Box::new(at_scrape));
        });
        metrics
    }

    fn register(&self, registry: &mut Registry) {
        registry.register(
            "reconcile_errors",
            "Error answers of AWS by what they mean",
            self.errors.clone(),
        );
        registry.register(
            "drift_detected",
            "Times that a tenant was found changed by others",
            self.drifts.clone(),
        );
        registry.register_with_unit(
            "aws_api_call_duration",
            "Duration of a call to AWS, without the wait for its turn",
            Unit::Seconds,
            self.call_seconds.clone(),
        );
        registry.register(
            "dns_batch_records",
            "Records in a batch for Route 53",
            self.batch_records.clone(),
        );
        registry.register(
            "source_last_poll_timestamp_seconds",
            "When a source was last read, in seconds since 1970",
            self.source_polls.clone(),
        );
    }

    /// AWS answered with an error of this type.
    pub(crate) fn failed(&self, error_type: &'static str) {
        self.errors.get_or_create(&OfError { error_type }).inc();
    }

    /// Somebody changed a tenant. Once per distinct drift.
    pub(crate) fn drifted(&self) {
        self.drifts.inc();
    }

    /// A batch of so many records was sent.
    pub(crate) fn batched(&self, records: usize) {
        let records = u32::try_from(records).unwrap_or(u32::MAX);
        self.batch_records.observe(f64::from(records));
    }

    /// A source was read.
    pub(crate) fn polled(&self, source: &ObjectKey, at: i64) {
        self.source_polls
            .get_or_create(&OfSource::new(source))
            .set(at);
    }

    /// A source is gone, and its series with it.
    pub(crate) fn forget_source(&self, source: &ObjectKey) {
        self.source_polls.remove(&OfSource::new(source));
    }

    /// All tenants of a distribution were compared.
    pub(crate) fn swept(&self, distribution: &str, now: Duration) {
        let mut sweeps = self.sweeps.0.lock();
        sweeps.insert(distribution.to_owned(), now);
    }

    /// These distributions are in use, and no others.
    pub(crate) fn keep_swept(&self, in_use: impl Fn(&str) -> bool) {
        self.sweeps.0.lock().retain(|one, _| in_use(one));
    }

    /// Who is told of calls to AWS.
    pub(crate) fn observer(&self) -> Arc<dyn Observer> {
        Arc::new(Observed(self.call_seconds.clone()))
    }
}

struct Observed(Family<OfOperation, Histogram>);

impl Observer for Observed {
    fn called(&self, operation: Operation, took: Duration, _error: Option<Class>) {
        let of = OfOperation {
            operation: operation.label(),
        };
        self.0.get_or_create(&of).observe(took.as_secs_f64());
    }
}

/// As much of a tenant as is counted.
#[derive(Deserialize)]
struct Counted {
    #[serde(default)]
    status: Option<DistributionTenantStatus>,
}

impl AtScrape {
    /// How many tenants are Ready, and how many are not, in each namespace.
    fn tenants(&self) -> BTreeMap<(String, &'static str), i64> {
        let mut counts = BTreeMap::new();
        for tenant in self.tenants.store().all() {
            let namespace = tenant.key().namespace.as_deref().unwrap_or_default();
            for status in ["Ready", "NotReady"] {
                counts.entry((namespace.to_owned(), status)).or_insert(0);
            }
            let counted: Option<Counted> = serde_json::from_str(tenant.json()).ok();
            let conditions = counted.and_then(|one| one.status).unwrap_or_default();
            let status = if kernel::is_true(&conditions.conditions, "Ready") {
                "Ready"
            } else {
                "NotReady"
            };
            *counts.entry((namespace.to_owned(), status)).or_insert(0) += 1;
        }
        counts
    }
}

impl std::fmt::Debug for AtScrape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AtScrape").finish_non_exhaustive()
    }
}

impl Collector for AtScrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let counts = self.tenants();
        let of = |((namespace, status), count)| {
            let labels = vec![("namespace", namespace), ("status", String::from(status))];
            (labels, count)
        };
        let help = "Tenants by whether they are Ready";
        gauges(
            &mut encoder,
            "tenants_total",
            help,
            counts.into_iter().map(of),
        )?;

        let now = self.clock.elapsed();
        let sweeps = self.sweeps.0.lock().clone().into_iter();
        let of = |(distribution, at): (String, Duration)| {
            let age = now.saturating_sub(at).as_secs_f64();
            (vec![("distribution", distribution)], age)
        };
        let help = "Time since all tenants of a distribution were compared";
        gauges(&mut encoder, "sweep_age_seconds", help, sweeps.map(of))?;

        let limits = self.aws.get().map(Aws::gauges).unwrap_or_default();
        let rates = limits.iter().map(|limit| {
            let mut labels = vec![
                ("account", limit.account.to_string()),
                ("service", limit.service.to_owned()),
            ];
            let region = limit.region.iter();
            labels.extend(region.map(|region| ("region", region.to_string())));
            (labels, limit.rate)
        });
        gauges(&mut encoder, "aws_bucket_rate", "Calls a second", rates)?;

        let mut waiting = BTreeMap::<_, i64>::new();
        for limit in &limits {
            for (class, count) in Priority::ALL.into_iter().zip(limit.waiting) {
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                *waiting.entry((limit.service, class.as_str())).or_default() += count;
            }
        }
        let of = |((service, class), count): ((&str, &str), i64)| {
            let labels = vec![("service", service.to_owned()), ("class", class.to_owned())];
            (labels, count)
        };
        let help = "Calls that wait for their turn";
        gauges(
            &mut encoder,
            "aws_queue_depth",
            help,
            waiting.into_iter().map(of),
        )
    }
}

fn gauges<N>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: impl Iterator<Item = (Vec<(&'static str, String)>, N)>,
) -> Result<(), std::fmt::Error>
where
    ConstGauge<N>: EncodeMetric,
{
    let mut series = series.peekable();
    let Some((_, _)) = series.peek() else {
        return Ok(());
    };
    let kind = prometheus_client::metrics::MetricType::Gauge;
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for (labels, value) in series {
        let gauge = ConstGauge::new(value);
        gauge.encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
