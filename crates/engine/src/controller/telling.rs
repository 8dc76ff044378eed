//! What is counted, logged and told of passes.

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
    /// Counts, logs and tells of how a pass ended.
    pub(super) fn tell(&self, pass: &Pass, ended: &Result<Progress, Failure>, took: Duration) {
        let outcome = match ended {
            Ok(Progress::Done { .. }) => "done",
            Ok(Progress::Again) => "again",
            Ok(Progress::Waiting { .. }) => "waiting",
            Ok(Progress::Blocked { .. }) => "blocked",
            Err(Failure::Malformed(_)) => "malformed",
            Err(Failure::Failed { class, .. }) => class.as_str(),
            Err(Failure::Panicked(_)) => "panic",
            Err(Failure::Deadline(_)) => "deadline",
        };
        self.measure(outcome, ended, took);
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
                tracing::error!(seconds = limit.as_secs(), "pass ran out of time");
            }
        }
    }

    fn measure(&self, outcome: &str, ended: &Result<Progress, Failure>, took: Duration) {
        let OfController { feature, kind } = self.label.clone();
        let metrics = &self.around.metrics;
        let controller = kind.to_lowercase();
        if outcome == "panic" {
            metrics.panics.get_or_create(&self.label).inc();
        }
        metrics
            .passes
            .get_or_create(&Outcome {
                feature,
                kind,
                outcome: outcome.to_owned(),
            })
            .inc();
        metrics
            .pass_seconds
            .get_or_create(&self.label)
            .observe(took.as_secs_f64());
        let result = match ended {
            Ok(Progress::Done { recheck: None } | Progress::Blocked { .. }) => "success",
            Ok(Progress::Done { .. } | Progress::Again | Progress::Waiting { .. }) => {
                "requeue_after"
            }
            Err(_) => {
                metrics
                    .cr_errors
                    .get_or_create(&ByController {
                        controller: controller.clone(),
                    })
                    .inc();
                "error"
            }
        };
        metrics
            .cr_total
            .get_or_create(&ByResult {
                controller: controller.clone(),
                result,
            })
            .inc();
        metrics
            .cr_seconds
            .get_or_create(&ByController { controller })
            .observe(took.as_secs_f64());
    }

    /// Counts a pass under way for as long as the value lives, however it ends.
    pub(super) fn working(&self) -> Working {
        let controller = self.label.kind.to_lowercase();
        let metrics = &self.around.metrics;
        let gauges = [
            metrics.passes_in_flight.get_or_create(&self.label).clone(),
            metrics
                .cr_workers
                .get_or_create(&ByController { controller })
                .clone(),
        ];
        for gauge in &gauges {
            gauge.inc();
        }
        Working(gauges)
    }

    /// The controller ends, and its gauges with it.
    pub(super) fn uncount(&self) {
        let metrics = &self.around.metrics;
        for cause in Cause::ALL {
            let OfController { feature, kind } = self.label.clone();
            let priority = cause.as_str();
            metrics.queue_depth.remove(&Depth {
                feature,
                kind,
                priority,
            });
        }
        metrics.queue_oldest_ms.remove(&self.label);
        metrics.backing_off.remove(&self.label);
    }

    pub(super) fn count(&self) {
        let state = self.state.lock();
        let metrics = &self.around.metrics;
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        for cause in Cause::ALL {
            let OfController { feature, kind } = self.label.clone();
            let depth = Depth {
                feature,
                kind,
                priority: cause.as_str(),
            };
            metrics
                .queue_depth
                .get_or_create(&depth)
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

/// A pass that is counted as under way.
pub(super) struct Working([Gauge; 2]);

impl Drop for Working {
    fn drop(&mut self) {
        for gauge in &self.0 {
            gauge.dec();
        }
    }
}
