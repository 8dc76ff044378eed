//! A bounded pool for work that would hold up the runtime: compiling, large diffs.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// Runs heavy work off the runtime's threads, as many pieces at once as there are cores.
#[derive(Debug, Clone)]
pub struct CpuPool(Arc<Semaphore>);

impl Default for CpuPool {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self(Arc::new(Semaphore::new(cores)))
    }
}

impl CpuPool {
    /// Runs `work` when a core is free. A panic in it is the caller's panic.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let core = self.0.clone().acquire_owned().await;
        let work = move || {
            let _core = core; // held by the work, also when nobody waits for it any more
            work()
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(value) => value,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}
