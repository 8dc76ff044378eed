//! Metrics and logs of a controller's passes.

use std::time::Duration;

use kernel::{Class, Progress};
use prometheus_client::metrics::gauge::Gauge;

use super::Controller;
use super::spec::Failure;
use crate::events::Note;
use crate::metrics::{ByController, ByResult, Depth, OfController, Outcome};
use crate::pass::Pass;
use crate::queue::Cause;

impl Controller {
    /// Counts and logs how a pass ended, and emits an event about an object that cannot be read.
    pub(super) fn record_outcome(
        &self,
        pass: &Pass,
        ended: &Result<Progress, Failure>,
        took: Duration,
    ) {
        let outcome = match ended {
            Ok(Progress::Done { .. }) => "done",
            Ok(Progress::Again) => "again",
            Ok(Progress::Waiting { .. }) => "waiting",
            Ok(Progress::Blocked { .. }) => "blocked",
            Err(Failure::Malformed(_)) => "malformed",
            Err(Failure::Failed { class, .. }) => class.as_str(),
            Err(Failure::Panicked(_)) => "panic",
            Err(Failure::Deadline(_)) => "deadline",
            Err(Failure::Idle) => "idle",
        };
        self.count_outcome(outcome, ended, took);
        match ended {
            Ok(progress) if pass.has_written() => tracing::info!(outcome, ?progress, "pass"),
            Ok(progress) => tracing::debug!(outcome, ?progress, "pass"),
            Err(Failure::Failed {
                class: Class::Deposed | Class::Stale,
                message,
            }) => tracing::debug!(message, "pass dropped"),
            Err(Failure::Failed { class, message }) => {
                tracing::warn!(class = class.as_str(), error = message, "pass failed");
            }
            Err(Failure::Malformed(error)) => {
                tracing::warn!(%error, "object cannot be read");
                pass.event(Note::warning("Malformed", error.to_string()));
            }
            Err(Failure::Panicked(message)) => tracing::error!(panic = message, "pass panicked"),
            Err(Failure::Deadline(limit)) => {
                tracing::error!(seconds = limit.as_secs(), "pass exceeded its deadline");
            }
            Err(Failure::Idle) => {
                tracing::error!("passes end with `Again` repeatedly and write nothing");
            }
        }
    }

    fn count_outcome(
        &self,
        outcome: &'static str,
        ended: &Result<Progress, Failure>,
        took: Duration,
    ) {
        let metrics = &self.context.metrics;
        if outcome == "panic" {
            metrics.panics.get_or_create(&self.label).inc();
        }
        self.outcomes.lock().insert(outcome);
        metrics.passes.get_or_create(&self.outcome(outcome)).inc();
        metrics
            .pass_seconds
            .get_or_create(&self.label)
            .observe(took.as_secs_f64());
        let result = match ended {
            Ok(Progress::Done { recheck: None } | Progress::Blocked { .. }) => "success",
            Ok(Progress::Again) => "requeue",
            Ok(Progress::Done { .. } | Progress::Waiting { .. }) => "requeue_after",
            Err(_) => {
                metrics.cr_errors.get_or_create(&self.by_controller()).inc();
                "error"
            }
        };
        metrics
            .cr_total
            .get_or_create(&self.by_result(result))
            .inc();
        metrics
            .cr_seconds
            .get_or_create(&self.by_controller())
            .observe(took.as_secs_f64());
    }

    fn outcome(&self, outcome: &'static str) -> Outcome {
        let OfController {
            cluster,
            feature,
            group,
            kind,
        } = self.label.clone();
        Outcome {
            cluster,
            feature,
            group,
            kind,
            outcome,
        }
    }

    fn depth(&self, cause: Cause) -> Depth {
        let OfController {
            cluster,
            feature,
            group,
            kind,
        } = self.label.clone();
        Depth {
            cluster,
            feature,
            group,
            kind,
            priority: cause.as_str(),
        }
    }

    fn by_controller(&self) -> ByController {
        ByController {
            controller: self.label.kind.to_lowercase(),
        }
    }

    fn by_result(&self, result: &'static str) -> ByResult {
        ByResult {
            controller: self.label.kind.to_lowercase(),
            result,
        }
    }

    /// Creates the series that dashboards of controller-runtime expect from the start.
    pub(super) fn create_series(&self) {
        let metrics = &self.context.metrics;
        for result in ByResult::RESULTS {
            drop(metrics.cr_total.get_or_create(&self.by_result(result)));
        }
        drop(metrics.cr_errors.get_or_create(&self.by_controller()));
        drop(metrics.cr_workers.get_or_create(&self.by_controller()));
    }

    /// Removes the series of a controller that has ended. The series of controller-runtime have no
    /// group label, so a kind of the same name may still need them.
    pub(crate) fn remove_series(&self, is_name_shared: bool) {
        let metrics = &self.context.metrics;
        for cause in Cause::ALL {
            metrics.queue_depth.remove(&self.depth(cause));
        }
        for outcome in std::mem::take(&mut *self.outcomes.lock()) {
            metrics.passes.remove(&self.outcome(outcome));
        }
        metrics.pass_seconds.remove(&self.label);
        metrics.queue_oldest_ms.remove(&self.label);
        metrics.passes_in_flight.remove(&self.label);
        metrics.backing_off.remove(&self.label);
        metrics.panics.remove(&self.label);
        if is_name_shared {
            return;
        }
        for result in ByResult::RESULTS {
            metrics.cr_total.remove(&self.by_result(result));
        }
        metrics.cr_errors.remove(&self.by_controller());
        metrics.cr_seconds.remove(&self.by_controller());
        metrics.cr_workers.remove(&self.by_controller());
    }

    /// Counts a running pass until the returned value is dropped.
    pub(super) fn count_in_flight(&self) -> InFlightGauges {
        let metrics = &self.context.metrics;
        let gauges = [
            metrics.passes_in_flight.get_or_create(&self.label).clone(),
            metrics
                .cr_workers
                .get_or_create(&self.by_controller())
                .clone(),
        ];
        for gauge in &gauges {
            gauge.inc();
        }
        InFlightGauges(gauges)
    }

    pub(super) fn update_gauges(&self) {
        let state = self.state.lock();
        let metrics = &self.context.metrics;
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        for cause in Cause::ALL {
            metrics
                .queue_depth
                .get_or_create(&self.depth(cause))
                .set(number(state.queue.depth(cause)));
        }
        let oldest = state.queue.oldest(self.now()).as_millis();
        metrics
            .queue_oldest_ms
            .get_or_create(&self.label)
            .set(i64::try_from(oldest).unwrap_or(i64::MAX));
        metrics
            .backing_off
            .get_or_create(&self.label)
            .set(number(state.queue.failing()));
    }
}

/// The gauges that count a running pass.
pub(super) struct InFlightGauges([Gauge; 2]);

impl Drop for InFlightGauges {
    fn drop(&mut self) {
        for gauge in &self.0 {
            gauge.dec();
        }
    }
}
