//! Background work that ends with its owner.

use std::future::Future;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A set of tasks with one end: told to stop together, waited for together.
///
/// The only place that spawns: work that nobody waits for outlives its lease and writes as a ghost.
#[derive(Debug, Clone)]
pub struct Tasks {
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl Default for Tasks {
    fn default() -> Self {
        Self {
            stop: CancellationToken::new(),
            tracker: TaskTracker::new(),
        }
    }
}

impl Tasks {
    /// Tasks of their own that also end when these end.
    #[must_use]
    pub fn child(&self) -> Self {
        Self {
            stop: self.stop.child_token(),
            tracker: TaskTracker::new(),
        }
    }

    /// Runs `work` until it ends or these tasks are stopped; then it is dropped where it awaits.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.run(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = work => {}
            }
        });
    }

    /// Runs `work` to its end: it watches [`Tasks::stopped`] by itself.
    #[allow(clippy::disallowed_methods)] // the one home of spawn
    pub fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn(work);
    }

    /// Resolves when these tasks are told to stop.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// Whether they were told to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Tells them to stop; does not wait.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Tells them to stop and waits until all have.
    pub async fn finish(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}
