//! A thread with its own runtime, so that simulators may serve tests of several runtimes.

use std::thread::JoinHandle;

use anyhow::{Context, Result};
use tokio::{sync::oneshot, task::LocalSet};

/// Reports whether the work has begun.
type Ready = oneshot::Sender<Result<()>>;

/// The thread. Dropping it ends the work, and waits.
pub(super) struct SimulatorThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SimulatorThread {
    /// Returns when `work` reports that it has begun.
    pub(super) async fn start(work: impl AsyncFnOnce(Ready) + Send + 'static) -> Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (ready, begun) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("disk-simulators".to_owned())
            .spawn(move || run(work, ready, stopped))?;
        let own = Self {
            stop: Some(stop),
            thread: Some(thread),
        };
        begun
            .await
            .context("the simulators' thread ended early")??;
        Ok(own)
    }
}

fn run(work: impl AsyncFnOnce(Ready), ready: Ready, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => {
            let local = LocalSet::new();
            local.block_on(&runtime, async {
                tokio::select! {
                    () = work(ready) => {}
                    _ = stopped => {}
                }
            });
        }
        Err(error) => drop(ready.send(Err(error.into()))),
    }
}

impl Drop for SimulatorThread {
    fn drop(&mut self) {
        // Without a receiver the thread has ended already.
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the simulators' thread panicked; its message is above");
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[tokio::test]
    async fn dropping_the_thread_ends_its_work() -> Result<()> {
        let (alive, ended) = oneshot::channel::<()>();
        let thread = SimulatorThread::start(async move |ready: Ready| {
            let _alive = alive;
            let _ = ready.send(Ok(()));
            std::future::pending::<()>().await;
        });
        drop(thread.await?);
        assert!(ended.await.is_err(), "the work was dropped");
        Ok(())
    }

    #[tokio::test]
    async fn a_start_that_fails_is_an_error() {
        let thread = SimulatorThread::start(async |ready: Ready| {
            let _ = ready.send(Err(anyhow!("no cluster")));
        });
        let error = thread.await.err().expect("the start fails");
        assert_eq!(error.to_string(), "no cluster");
    }
}
