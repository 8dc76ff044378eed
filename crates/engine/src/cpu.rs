//! A bounded pool for CPU-bound work that would block the runtime, such as large diffs.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// Runs CPU-bound work on separate threads, one piece of work per core at the same time.
#[derive(Debug, Clone)]
pub struct CpuPool(Arc<Semaphore>);

impl Default for CpuPool {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self(Arc::new(Semaphore::new(cores)))
    }
}

impl CpuPool {
    /// Runs `work` when a core is free. Resumes a panic of `work` in the caller.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let core = self.0.clone().acquire_owned().await;
        let work = move || {
            let _core = core; // the work owns the permit, also if its caller was dropped
            work()
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(value) => value,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn no_more_work_runs_than_the_pool_has_cores() {
        let pool = CpuPool(Arc::new(Semaphore::new(2)));
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let pair = Arc::new(Barrier::new(2)); // each piece of work waits for a second one
        let all = (0..40).map(|_| {
            let (running, most, pair) = (running.clone(), most.clone(), pair.clone());
            pool.run(move || {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                pair.wait();
                running.fetch_sub(1, Ordering::SeqCst);
            })
        });
        futures::future::join_all(all).await;
        assert_eq!(most.load(Ordering::SeqCst), 2);
    }
}
