//! What the feature counts: the predecessor's series under their own names, and two of ours.
//!
//! # Promises
//! - A series ends with its object; one of a kind in a namespace ends with the last object there.
//! - Labels that could grow without end are names of objects that exist, and nothing else.

mod labels;

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use kernel::ObjectKey;
use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use vault_client::Observer;

use labels::{
    Call, Check, CleanupTry, OfConnection, OfKind, OfObject, OfResource, OfType, PassEnd, PassTime,
    Scan, Tally,
};

/// The predecessor's.
const PREFIX: &str = "vault_access_operator";
/// Bounds of passes in seconds: the usual ones, and on to where a pass is cut off.
const SECONDS: [f64; 13] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];
const POLICY: &str = "policy";
const ROLE: &str = "role";

/// Things in Vault, counted by what they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Things {
    pub(crate) policies: usize,
    pub(crate) roles: usize,
}

/// What is known of an object whose state is counted together with others'.
#[derive(Debug, Clone, Copy, Default)]
struct Marks {
    drifted: bool,
    denied: bool,
}

/// Every series of the feature.
#[derive(Debug)]
pub(crate) struct Metrics {
    healthy: Family<OfConnection, Gauge>,
    health_checks: Family<Check, Counter>,
    consecutive_fails: Family<OfConnection, Gauge>,
    logins: Family<OfConnection, Counter>,
    calls: Family<Call, Counter>,
    policy_passes: Family<Tally, Counter>,
    role_passes: Family<Tally, Counter>,
    passes: Family<PassEnd, Counter>,
    pass_seconds: Family<PassTime, Histogram>,
    adoptions: Family<Tally, Counter>,
    drifting: Family<OfObject, Gauge>,
    drifting_of_kind: Family<OfResource, Gauge>,
    drift_corrected: Family<OfKind, Counter>,
    destructive_blocked: Family<OfKind, Counter>,
    tenancy_denied: Family<OfKind, Gauge>,
    orphans: Family<OfType, Gauge>,
    unmanaged: Family<OfType, Gauge>,
    discovered: Family<OfType, Gauge>,
    scans: Family<Scan, Counter>,
    cleanup_records: Gauge,
    cleanup_tries: Family<CleanupTry, Counter>,
    objects: Mutex<HashMap<OfKind, HashMap<Arc<str>, Marks>>>,
}

impl Metrics {
    /// Registers every series. `_total` is added to counters by the encoder.
    pub(crate) fn new(engine: &engine::Metrics) -> Self {
        let mut metrics = None;
        engine.extend(|registry| {
            metrics = Some(Self::register(registry.sub_registry_with_prefix(PREFIX)));
        });
        metrics.expect("extend calls what it is given")
    }

    fn register(r: &mut Registry) -> Self {
        Self {
            healthy: family(
                r,
                "connection_healthy",
                "1 while the connection can be used",
            ),
            health_checks: family(r, "connection_health_checks", "Looks at a connection"),
            consecutive_fails: family(
                r,
                "connection_consecutive_fails",
                "Looks at a connection that failed in a row",
            ),
            logins: family(r, "connection_logins", "Logins to Vault"),
            calls: family(r, "vault_operations", "Calls to Vault by how they ended"),
            policy_passes: family(r, "policy_reconcile", "Passes over policies"),
            role_passes: family(r, "role_reconcile", "Passes over roles"),
            passes: family(r, "reconcile", "Passes by how they ended"),
            pass_seconds: seconds(r, "reconcile_duration_seconds", "Duration of a pass"),
            adoptions: family(r, "discovery_adoptions", "Things in Vault taken over"),
            drifting: family(
                r,
                "vault_drift_detected",
                "1 while Vault holds something else",
            ),
            drifting_of_kind: family(r, "drift_detected", "Objects that drift"),
            drift_corrected: family(r, "vault_drift_corrected", "Drift written over"),
            destructive_blocked: family(
                r,
                "safety_destructive_blocked",
                "Drift that waits for consent to be written over",
            ),
            tenancy_denied: family(r, "tenancy_denied", "Objects that tenancy forbids"),
            orphans: family(
                r,
                "vault_orphaned_resources",
                "Ours, but no object wants it",
            ),
            unmanaged: family(r, "discovery_unmanaged_resources", "Found, and nobody's"),
            discovered: family(r, "discovered_resources", "Found, and nobody's"),
            scans: family(r, "discovery_scans", "Scans by how they ended"),
            cleanup_records: one(r, "cleanup_queue_size", "Records of leftovers in Vault"),
            cleanup_tries: family(r, "cleanup_retries", "Tries to delete a leftover"),
            objects: Mutex::default(),
        }
    }

    /// A connection was looked at. Health, login and lookup must all have succeeded.
    pub(crate) fn health(&self, connection: &str, healthy: bool, consecutive_fails: i64) {
        let of = OfConnection::new(connection);
        self.healthy.get_or_create(&of).set(healthy.into());
        self.consecutive_fails
            .get_or_create(&of)
            .set(consecutive_fails);
        let check = Check::new(connection, result(healthy));
        self.health_checks.get_or_create(&check).inc();
    }

    /// Counts the calls and logins of one connection. Those that come after the connection was
    /// forgotten bring no series of it back.
    pub(crate) fn observer(&self, connection: &str) -> Arc<dyn Observer> {
        Arc::new(Observed {
            calls: self.calls.clone(),
            logins: self
                .logins
                .get_or_create_owned(&OfConnection::new(connection)),
        })
    }

    /// A pass over an object ended. Waiting and blocked are answers: what `success` means is the
    /// caller's to say.
    pub(crate) fn reconciled(&self, kind: &str, key: &ObjectKey, success: bool, took: Duration) {
        let result = result(success);
        let of = OfKind::new(kind, key);
        self.marked(&of, key, |_| {});
        let by_namespace = match kind {
            "VaultPolicy" | "VaultClusterPolicy" => Some(&self.policy_passes),
            "VaultRole" | "VaultClusterRole" => Some(&self.role_passes),
            _ => None,
        };
        if let Some(passes) = by_namespace {
            passes.get_or_create(&of.tally(result)).inc();
        }
        self.passes.get_or_create(&PassEnd::new(kind, result)).inc();
        self.pass_seconds
            .get_or_create(&PassTime::new(kind, result))
            .observe(took.as_secs_f64());
    }

    /// Something in Vault was taken over for an object, or could not be.
    pub(crate) fn adopted(&self, kind: &str, key: &ObjectKey, success: bool) {
        let of = OfKind::new(kind, key);
        self.marked(&of, key, |_| {});
        self.adoptions
            .get_or_create(&of.tally(result(success)))
            .inc();
    }

    /// What Vault holds was compared with what was last applied.
    pub(crate) fn drift(&self, kind: &str, key: &ObjectKey, detected: bool) {
        let before = self.marked(&OfKind::new(kind, key), key, |marks| {
            std::mem::replace(&mut marks.drifted, detected)
        });
        let of_kind = self.drifting_of_kind.get_or_create(&OfResource::new(kind));
        of_kind.inc_by(i64::from(detected) - i64::from(before));
        let of_object = OfObject::new(kind, key);
        self.drifting.get_or_create(&of_object).set(detected.into());
    }

    /// Drift was written over.
    pub(crate) fn drift_corrected(&self, kind: &str, key: &ObjectKey) {
        let of = OfKind::new(kind, key);
        self.marked(&of, key, |_| {});
        self.drift_corrected.get_or_create(&of).inc();
    }

    /// Drift was not written over for want of consent. Once per drift, not per pass.
    pub(crate) fn destructive_blocked(&self, kind: &str, key: &ObjectKey) {
        let of = OfKind::new(kind, key);
        self.marked(&of, key, |_| {});
        self.destructive_blocked.get_or_create(&of).inc();
    }

    /// The connection's tenancy was asked about an object.
    pub(crate) fn tenancy(&self, kind: &str, key: &ObjectKey, denied: bool) {
        let of = OfKind::new(kind, key);
        let before = self.marked(&of, key, |marks| {
            std::mem::replace(&mut marks.denied, denied)
        });
        let of_kind = self.tenancy_denied.get_or_create(&of);
        of_kind.inc_by(i64::from(denied) - i64::from(before));
    }

    /// A scan ended; `found` is what nobody declares, none if the scan failed. Errors keep results.
    pub(crate) fn scanned(&self, connection: &str, found: Option<Things>) {
        let scan = Scan::new(connection, result(found.is_some()));
        self.scans.get_or_create(&scan).inc();
        if let Some(found) = found {
            set(&self.unmanaged, connection, found);
            set(&self.discovered, connection, found);
        }
    }

    /// What is ours in Vault and wanted by no object.
    pub(crate) fn orphans(&self, connection: &str, found: Things) {
        set(&self.orphans, connection, found);
    }

    /// How many records of leftovers there are.
    pub(crate) fn cleanup_records(&self, count: usize) {
        self.cleanup_records.set(number(count));
    }

    /// A leftover was to be deleted: `policy`, `role`, …
    pub(crate) fn cleanup_tried(&self, resource_type: &'static str, success: bool) {
        let tried = CleanupTry {
            resource_type,
            result: result(success),
        };
        self.cleanup_tries.get_or_create(&tried).inc();
    }

    /// An object is gone, and its series with it.
    pub(crate) fn forget_object(&self, kind: &str, key: &ObjectKey) {
        let of = OfKind::new(kind, key);
        let mut objects = self.objects.lock();
        let Some(left) = objects.get_mut(&of) else {
            return;
        };
        let Marks { drifted, denied } = left.remove(&key.name).unwrap_or_default();
        self.drifting.remove(&OfObject::new(kind, key));
        if drifted {
            let of_kind = OfResource::new(kind);
            self.drifting_of_kind.get_or_create(&of_kind).dec();
        }
        if denied {
            self.tenancy_denied.get_or_create(&of).dec();
        }
        if left.is_empty() {
            objects.remove(&of);
            self.forget_kind(&of);
        }
    }

    /// The last object of a kind in a namespace is gone.
    fn forget_kind(&self, of: &OfKind) {
        for result in [true, false].map(result) {
            let tally = of.tally(result);
            self.policy_passes.remove(&tally);
            self.role_passes.remove(&tally);
            self.adoptions.remove(&tally);
        }
        self.drift_corrected.remove(of);
        self.destructive_blocked.remove(of);
        self.tenancy_denied.remove(of);
    }

    /// A connection is gone, and its series with it; what is counted of it as an object, see
    /// [`Metrics::forget_object`].
    pub(crate) fn forget_connection(&self, connection: &str) {
        let of = OfConnection::new(connection);
        self.healthy.remove(&of);
        self.consecutive_fails.remove(&of);
        self.logins.remove(&of);
        for result in [true, false].map(result) {
            self.health_checks.remove(&Check::new(connection, result));
            self.scans.remove(&Scan::new(connection, result));
        }
        for gauge in [&self.orphans, &self.unmanaged, &self.discovered] {
            gauge.remove(&OfType::new(connection, POLICY));
            gauge.remove(&OfType::new(connection, ROLE));
        }
    }

    /// Remembers that the object exists, and what `note` says of it.
    fn marked<T>(&self, of: &OfKind, key: &ObjectKey, note: impl FnOnce(&mut Marks) -> T) -> T {
        let mut objects = self.objects.lock();
        if !objects.contains_key(of) {
            objects.insert(of.clone(), HashMap::new());
        }
        let names = objects.get_mut(of).expect("it was put there just now");
        note(names.entry(key.name.clone()).or_default())
    }
}

/// What one connection's client tells.
struct Observed {
    calls: Family<Call, Counter>,
    logins: Counter,
}

impl Observer for Observed {
    fn called(&self, operation: &'static str, status: &'static str) {
        let call = Call { operation, status };
        self.calls.get_or_create(&call).inc();
    }

    fn logged_in(&self) {
        self.logins.inc();
    }
}

fn family<S, M>(registry: &mut Registry, name: &str, help: &str) -> Family<S, M>
where
    S: EncodeLabelSet + Clone + Hash + Eq + Debug + Send + Sync + 'static,
    M: EncodeMetric + TypedMetric + Default + Debug + Send + Sync + 'static,
{
    let family = Family::default();
    registry.register(name, help, family.clone());
    family
}

fn seconds(registry: &mut Registry, name: &str, help: &str) -> Family<PassTime, Histogram> {
    let family = Family::new_with_constructor((|| Histogram::new(SECONDS)) as fn() -> Histogram);
    registry.register(name, help, family.clone());
    family
}

fn one(registry: &mut Registry, name: &str, help: &str) -> Gauge {
    let gauge = Gauge::default();
    registry.register(name, help, gauge.clone());
    gauge
}

fn set(gauge: &Family<OfType, Gauge>, connection: &str, found: Things) {
    let Things { policies, roles } = found;
    for (what, count) in [(POLICY, policies), (ROLE, roles)] {
        let of = OfType::new(connection, what);
        gauge.get_or_create(&of).set(number(count));
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn result(success: bool) -> &'static str {
    if success { "success" } else { "failure" }
}

#[cfg(test)]
mod tests;
