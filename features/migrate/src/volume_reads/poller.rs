//! Makes the reads that are due.

use std::collections::BTreeSet;
use std::time::Duration;

use aws::ec2::Volume;
use aws::ec2::volume_watch::Batch;
use aws::{Error, Operation};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use kernel::ObjectKey;

use super::VolumeReads;

/// How long the poller sleeps at most. A request wakes it.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// Reads volumes as long as runs wait for them. `call` reads those of one batch.
pub(crate) async fn poll<F>(reads: &VolumeReads, call: impl Fn(Vec<String>) -> F)
where
    F: Future<Output = Result<Vec<Volume>, Error>>,
{
    let mut calls = FuturesUnordered::new();
    loop {
        for batch in reads.due() {
            let answer = call(batch.ids().to_vec());
            let pending = Pending {
                reads,
                batch: Some(batch),
            };
            calls.push(async move {
                let answer = answer.await;
                pending.finish(answer);
            });
        }
        let pause = reads.next_due().unwrap_or(LONGEST_SLEEP);
        tokio::select! {
            () = reads.requested.notified() => {}
            Some(()) = calls.next(), if !calls.is_empty() => {}
            () = tokio::time::sleep(reads.clock.real(pause)) => {}
        }
    }
}

/// A batch that is not answered. If its call is dropped, it counts as failed: otherwise its volumes would
/// never be read again.
struct Pending<'a> {
    reads: &'a VolumeReads,
    batch: Option<Batch>,
}

impl Pending<'_> {
    fn finish(mut self, answer: Result<Vec<Volume>, Error>) {
        if let Some(batch) = self.batch.take() {
            self.reads.finish(batch, answer);
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Some(batch) = self.batch.take() {
            let interrupted = Error::NoAnswer {
                operation: Operation::DescribeVolumes,
                resource: String::new(),
                reason: "the call was interrupted".to_owned(),
            };
            self.reads.finish(batch, Err(interrupted));
        }
    }
}

impl VolumeReads {
    /// The batches that are due now.
    pub(super) fn due(&self) -> Vec<Batch> {
        let mut state = self.state.lock();
        let now = self.clock.elapsed();
        std::iter::from_fn(|| state.watch.begin(now, fastrand::f64())).collect()
    }

    /// How long nothing is due; none if nothing is until a run waits.
    fn next_due(&self) -> Option<Duration> {
        let next = self.state.lock().watch.next_read()?;
        Some(next.saturating_sub(self.clock.elapsed()))
    }

    /// Stores an answer, and wakes the runs that it concerns.
    fn finish(&self, batch: Batch, answer: Result<Vec<Volume>, Error>) {
        let concerned = self.store(batch, answer);
        self.answered.notify_waiters();
        for migration in &concerned {
            self.controller.wake(migration);
        }
    }

    /// Returns the runs to wake. A run whose pass awaits the answer needs no other pass for it.
    pub(super) fn store(
        &self,
        batch: Batch,
        answer: Result<Vec<Volume>, Error>,
    ) -> BTreeSet<ObjectKey> {
        let mut state = self.state.lock();
        let mut concerned = state.watch.finish(batch, answer);
        state.store();
        concerned.retain(|key| {
            let run = state.runs.get(key);
            run.is_some_and(|run| !run.is_awaiting)
        });
        concerned
    }
}
