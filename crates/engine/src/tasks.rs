//! Background tasks that end with their owner.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use kernel::{Backoff, SharedClock};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A set of tasks that are stopped together and waited for together.
///
/// Only this type spawns tasks. A task that nothing waits for could write after its Lease has ended.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    stop: CancellationToken,
    kill: CancellationToken,
    tracker: TaskTracker,
    /// The trackers of all parents. They wait for these tasks too.
    parents: Vec<TaskTracker>,
}

impl Tasks {
    /// A separate set that also ends when this one ends. This set waits for its tasks too.
    #[must_use]
    pub fn child(&self) -> Self {
        Self {
            stop: self.stop.child_token(),
            kill: self.kill.child_token(),
            tracker: TaskTracker::new(),
            parents: self
                .parents
                .iter()
                .chain([&self.tracker])
                .cloned()
                .collect(),
        }
    }

    /// A separate set that is stopped with this one and may run longer: this set neither waits for its
    /// tasks nor drops them. Who makes one must wait for it.
    pub(crate) fn outliving(&self) -> Self {
        Self {
            stop: self.stop.child_token(),
            ..Self::default()
        }
    }

    /// Runs `work` until it ends or these tasks are stopped. A stop drops it at its current await.
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

    /// Runs `work` until it ends, also after a stop. Only [`Tasks::kill`] drops it.
    #[allow(clippy::disallowed_methods)] // all other code spawns through this method
    pub fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        let kill = self.kill.clone();
        let tokens: Vec<_> = self.parents.iter().map(TaskTracker::token).collect();
        self.tracker.spawn(async move {
            let _tokens = tokens; // the parents wait until these are dropped
            tokio::select! {
                biased;
                () = kill.cancelled() => {}
                () = work => {}
            }
        });
    }

    /// Resolves when these tasks are stopped.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// Whether these tasks are stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Stops the tasks without waiting.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Stops the tasks and waits until all have ended. Work started by [`Tasks::run`] runs to its end.
    pub async fn finish(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Drops all work at its current await, and waits until it is dropped.
    pub async fn kill(&self) {
        self.kill.cancel();
        self.finish().await;
    }
}

/// The delay before a task is restarted after a panic.
const RESTART: Backoff = Backoff {
    first: Duration::from_secs(1),
    cap: Duration::from_mins(5),
    jitter: 0.1,
};

/// Runs `work` until it returns. After each panic, calls `panicked` with the panic's message, and restarts
/// `work` after a back-off. A run longer than the longest back-off resets it.
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

/// The message of a panic.
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
    async fn running_work_ends_after_a_stop_and_is_dropped_by_a_kill() {
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
    async fn the_restart_delay_grows_with_each_panic() {
        let clock: SharedClock = Arc::new(RealClock::new());
        let (runs, messages) = (AtomicU32::new(0), Mutex::new(Vec::new()));
        let work = || async { assert!(runs.fetch_add(1, Ordering::SeqCst) == 3, "not yet") };
        let panicked = |message: &str| messages.lock().push(message.to_owned());
        let mut supervised = Box::pin(supervise(&clock, work, panicked));
        let early = tokio::time::timeout(Duration::from_secs(6), &mut supervised).await;
        assert!(early.is_err(), "the back-offs are 1 s, 2 s and 4 s");
        let done = tokio::time::timeout(Duration::from_secs(2), supervised).await;
        assert!(done.is_ok());
        assert_eq!(*messages.lock(), ["not yet"; 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_panics_before_its_first_await_is_restarted() {
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
