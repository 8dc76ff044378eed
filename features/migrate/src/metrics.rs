//! What the feature counts, from the status before and after each pass. Labels are bounded: no names of objects.

mod observed;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::migrate::{HoldReason, Location, Phase, StallReason};
use aws::{Observer, Operation, Service};
use engine::{Ended, KindCore};
use kernel::{Class, ObjectKey};
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::migration::core::{Announced, MigrationCore, World};
use observed::{Counted, Remembered, Sample, observed};

const PREFIX: &str = "pontoon_migrate";
/// Bounds in seconds: a step takes from milliseconds to the longest of its limits, which people may set to hours.
const SECONDS: [f64; 14] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPhase {
    phase: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfState {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStep {
    step: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfSegment {
    segment: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfReason {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCheck {
    check: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfEc2Call {
    action: &'static str,
    class: &'static str,
}

/// Every series of the feature.
#[derive(Debug)]
pub(crate) struct Metrics {
    migrations: Family<OfPhase, Gauge>,
    ordinals: Family<OfState, Gauge>,
    step_seconds: Family<OfStep, Histogram>,
    downtime_seconds: Histogram,
    segment_seconds: Family<OfSegment, Histogram>,
    stalls: Family<OfReason, Counter>,
    holds: Family<OfReason, Counter>,
    preflight_failures: Family<OfCheck, Counter>,
    rollbacks: Counter,
    ec2_calls: Family<OfEc2Call, Counter>,
    last_progress: Gauge,
    objects: Mutex<HashMap<ObjectKey, Remembered>>,
}

impl Metrics {
    /// Registers every series. Those that alerts count begin at zero: Prometheus sees no increase in the first
    /// value of a series.
    pub(crate) fn new(engine: &engine::Metrics) -> Self {
        let metrics = Self {
            migrations: Family::default(),
            ordinals: Family::default(),
            step_seconds: Family::new_with_constructor(seconds),
            downtime_seconds: seconds(),
            segment_seconds: Family::new_with_constructor(seconds),
            stalls: Family::default(),
            holds: Family::default(),
            preflight_failures: Family::default(),
            rollbacks: Counter::default(),
            ec2_calls: Family::default(),
            last_progress: Gauge::default(),
            objects: Mutex::default(),
        };
        engine.extend(|registry| metrics.register(registry.sub_registry_with_prefix(PREFIX)));
        for phase in Phase::ALL {
            metrics.of_phase(*phase).set(0);
        }
        for location in Location::ALL {
            metrics.of_location(*location).set(0);
        }
        for reason in StallReason::ALL {
            drop(metrics.stalls.get_or_create(&of_reason(reason.as_str())));
        }
        for reason in HoldReason::ALL {
            drop(metrics.holds.get_or_create(&of_reason(reason.as_str())));
        }
        metrics
    }

    fn register(&self, r: &mut Registry) {
        let help = "Migrations by phase";
        r.register("migrations", help, self.migrations.clone());
        let help = "Ordinals of all migrations by where they are";
        r.register("ordinals", help, self.ordinals.clone());
        let help = "Duration of a step";
        r.register("step_duration_seconds", help, self.step_seconds.clone());
        let help = "How long an ordinal was down for its move";
        r.register("downtime_seconds", help, self.downtime_seconds.clone());
        let help = "How long the parts of a downtime took";
        let segments = self.segment_seconds.clone();
        r.register("downtime_segment_seconds", help, segments);
        let help = "Waits that became longer than their limit";
        r.register("stalls", help, self.stalls.clone());
        let help = "Times that a run stopped because of interference";
        r.register("holds", help, self.holds.clone());
        let help = "Blockers and warnings that preflights found";
        r.register("preflight_failures", help, self.preflight_failures.clone());
        let help = "Rollbacks that began";
        r.register("rollbacks", help, self.rollbacks.clone());
        let help = "Calls to EC2 by how they ended";
        r.register("ec2_calls", help, self.ec2_calls.clone());
        let help = "When a run last went on, in seconds since 1970";
        let progress = self.last_progress.clone();
        r.register("last_progress_timestamp_seconds", help, progress);
    }

    fn of_phase(&self, phase: Phase) -> Gauge {
        let phase = phase.as_str();
        self.migrations.get_or_create_owned(&OfPhase { phase })
    }

    fn of_location(&self, location: Location) -> Gauge {
        let state = location.as_str();
        self.ordinals.get_or_create_owned(&OfState { state })
    }

    /// Counts a pass that has ended.
    pub(crate) fn passed(&self, core: &MigrationCore, world: &World, ended: &Ended<Announced>) {
        let object = &world.object;
        let (status, report) = core.status(world, ended);
        let before = Counted::before(&object.status, &object.conditions);
        let after = Counted::after(&status, &report, &before);
        if self.last_progress.get() == 0 {
            self.last_progress.set(world.now.as_second()); // not known before this process
        }
        for sample in observed(&before, &after) {
            self.record(sample, world.now.as_second());
        }
        let mut objects = self.objects.lock();
        let remembered = objects.entry(object.key.clone()).or_default();
        let (next, step) = remembered.advanced(&after, world.elapsed);
        self.moved(remembered, &next);
        *remembered = next;
        if let Some((step, length)) = step {
            let step = step.as_str();
            let series = self.step_seconds.get_or_create(&OfStep { step });
            series.observe(length.as_secs_f64());
        }
    }

    /// An object is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        if let Some(remembered) = self.objects.lock().remove(key) {
            self.moved(&remembered, &Remembered::default());
        }
    }

    /// Counts the calls to EC2.
    pub(crate) fn observer(&self) -> Arc<dyn Observer> {
        Arc::new(Ec2Calls(self.ec2_calls.clone()))
    }

    fn moved(&self, before: &Remembered, after: &Remembered) {
        if let Some(phase) = before.phase {
            self.of_phase(phase).dec();
        }
        if let Some(phase) = after.phase {
            self.of_phase(phase).inc();
        }
        let counts = before.ordinals.into_iter().zip(after.ordinals);
        for (location, (before, after)) in Location::ALL.iter().zip(counts) {
            self.of_location(*location).inc_by(after - before);
        }
    }

    fn record(&self, sample: Sample, now: i64) {
        match sample {
            Sample::Downtime(seconds) => self.downtime_seconds.observe(seconds),
            Sample::Segment(segment, seconds) => {
                let series = self.segment_seconds.get_or_create(&OfSegment { segment });
                series.observe(seconds);
            }
            Sample::Stall(reason) => {
                self.stalls.get_or_create(&of_reason(reason.as_str())).inc();
            }
            Sample::Hold(reason) => {
                self.holds.get_or_create(&of_reason(reason.as_str())).inc();
            }
            Sample::FailedCheck(check) => {
                let check = check.as_str();
                self.preflight_failures
                    .get_or_create(&OfCheck { check })
                    .inc();
            }
            Sample::Rollback => {
                self.rollbacks.inc();
            }
            Sample::Progress => {
                self.last_progress.set(now);
            }
        }
    }
}

fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

fn of_reason(reason: &'static str) -> OfReason {
    OfReason { reason }
}

struct Ec2Calls(Family<OfEc2Call, Counter>);

impl Observer for Ec2Calls {
    fn called(&self, operation: Operation, _took: Duration, error: Option<Class>) {
        if operation.service() != Service::Ec2 {
            return; // a login
        }
        let call = OfEc2Call {
            action: operation.name(),
            class: error.map_or("ok", Class::as_str),
        };
        self.0.get_or_create(&call).inc();
    }
}

#[cfg(test)]
mod tests;
