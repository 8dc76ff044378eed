//! Background work that ends with its owner.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use kernel::{Backoff, SharedClock};
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

/// How long a task that panicked waits before it is started again.
const RESTART: Backoff = Backoff {
    first: Duration::from_secs(1),
    cap: Duration::from_mins(5),
    jitter: 0.1,
};

/// Runs `work` until it returns. After each panic `panicked` is called with the panic's message, and
/// `work` starts again after a back-off. A run longer than the longest back-off clears it.
pub(crate) async fn supervise<F: Future<Output = ()>>(
    clock: &SharedClock,
    work: impl Fn() -> F,
    panicked: impl Fn(&str),
) {
    let mut failures = 0;
    loop {
        let began = clock.elapsed();
        let run = AssertUnwindSafe(async { work().await }).catch_unwind();
        let Err(panic) = run.await else {
            return;
        };
        if clock.elapsed().saturating_sub(began) > RESTART.cap {
            failures = 0;
        }
        failures += 1;
        panicked(&panic_message(&*panic));
        let delay = RESTART.delay(failures, fastrand::f64());
        tokio::time::sleep(clock.real(delay)).await;
    }
}

/// The text a panic was raised with.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::RealClock;
    use parking_lot::Mutex;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

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

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_starts_again_later_each_time() {
        let clock: SharedClock = Arc::new(RealClock::new());
        let (runs, messages) = (AtomicU32::new(0), Mutex::new(Vec::new()));
        let work = || async { assert!(runs.fetch_add(1, Ordering::SeqCst) == 3, "not yet") };
        let panicked = |message: &str| messages.lock().push(message.to_owned());
        let mut supervised = Box::pin(supervise(&clock, work, panicked));
        let early = tokio::time::timeout(Duration::from_secs(6), &mut supervised).await;
        assert!(early.is_err(), "it waits 1 + 2 + 4 s");
        let done = tokio::time::timeout(Duration::from_secs(2), supervised).await;
        assert!(done.is_ok());
        assert_eq!(*messages.lock(), ["not yet"; 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_panics_before_it_awaits_starts_again_too() {
        let clock: SharedClock = Arc::new(RealClock::new());
        let runs = AtomicU32::new(0);
        let work = || {
            assert!(runs.fetch_add(1, Ordering::SeqCst) > 0);
            std::future::ready(())
        };
        supervise(&clock, work, |_| {}).await;
        assert_eq!(runs.load(Ordering::SeqCst), 2);
    }
}
