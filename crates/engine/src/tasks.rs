//! Background work that ends with its owner.

use std::future::Future;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A set of tasks with one end: told to stop together, waited for together.
///
/// The only place that spawns: work that nobody waits for outlives its lease and writes as a ghost.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    stop: CancellationToken,
    kill: CancellationToken,
    tracker: TaskTracker,
    /// Those who wait for us too.
    above: Vec<TaskTracker>,
}

impl Tasks {
    /// Tasks of their own that also end when these end, and are waited for with them.
    #[must_use]
    pub fn child(&self) -> Self {
        Self {
            stop: self.stop.child_token(),
            kill: self.kill.child_token(),
            tracker: TaskTracker::new(),
            above: self.above.iter().chain([&self.tracker]).cloned().collect(),
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

    /// Runs `work` to its own end, also after a stop; only [`Tasks::kill`] drops it.
    #[allow(clippy::disallowed_methods)] // the one home of spawn
    pub fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        let kill = self.kill.clone();
        let held: Vec<_> = self.above.iter().map(TaskTracker::token).collect();
        self.tracker.spawn(async move {
            let _held = held;
            tokio::select! {
                biased;
                () = kill.cancelled() => {}
                () = work => {}
            }
        });
    }

    /// Resolves when these tasks are told to stop.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// Tells them to stop; does not wait.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Tells them to stop and waits until all have; work under way comes to its end.
    pub async fn finish(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Drops all work where it awaits, and waits until it is gone.
    pub async fn kill(&self) {
        self.kill.cancel();
        self.finish().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    fn slow(done: &Arc<AtomicBool>) -> impl Future<Output = ()> + Send + 'static {
        let done = done.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            done.store(true, Ordering::SeqCst);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn work_under_way_comes_to_its_end_at_a_stop_and_is_dropped_by_a_kill() {
        for (kill, expected) in [(false, true), (true, false)] {
            let (tasks, done) = (Tasks::default(), Arc::new(AtomicBool::new(false)));
            tasks.child().child().run(slow(&done));
            tokio::task::yield_now().await;
            if kill {
                tasks.kill().await;
            } else {
                tasks.finish().await;
            }
            assert_eq!(done.load(Ordering::SeqCst), expected);
        }
    }
}
