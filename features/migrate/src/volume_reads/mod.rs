//! Volumes in EC2, read by one poller for all runs.
//!
//! ```text
//! pass ──▶ wait, want ──▶ VolumeWatch ──▶ poller ──▶ DescribeVolumes
//!   └◀── readings, wake ◀─────┘◀────────────┘
//! ```

mod poller;
mod reading;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aws::ec2::volume_watch::VolumeWatch;
use kernel::{CallError, Class, ObjectKey, SharedClock};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::controller::MigrationController;
use crate::migration::observation::DiskRead;
use reading::disk_read;

pub(crate) use poller::poll;

/// A pass waits this long for an answer. EC2 has 5 s for a call, which may begin a second later.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The volumes that runs wait for, and what was last read of them.
pub(crate) struct VolumeReads {
    clock: SharedClock,
    controller: Arc<MigrationController>,
    state: Mutex<State>,
    /// A run waits for other volumes, or wants a read.
    requested: Notify,
    /// A batch was answered.
    answered: Notify,
}

#[derive(Default)]
struct State {
    watch: VolumeWatch<ObjectKey>,
    runs: BTreeMap<ObjectKey, WaitingRun>,
}

/// What one run has asked for and seen.
#[derive(Default)]
struct WaitingRun {
    /// What it waits for between passes.
    waits_for: BTreeSet<String>,
    /// What its pass has read.
    reads: BTreeSet<String>,
    /// Whether its pass awaits an answer now.
    is_awaiting: bool,
    /// The latest readings, also of volumes that it no longer waits for.
    readings: BTreeMap<String, DiskRead>,
}

impl VolumeReads {
    pub(crate) fn new(clock: SharedClock, controller: Arc<MigrationController>) -> Self {
        Self {
            clock,
            controller,
            state: Mutex::default(),
            requested: Notify::new(),
            answered: Notify::new(),
        }
    }

    /// The latest readings of a run. Each has the time at which it began.
    pub(crate) fn latest(&self, migration: &ObjectKey) -> BTreeMap<String, DiskRead> {
        let state = self.state.lock();
        let run = state.runs.get(migration);
        run.map(|run| run.readings.clone()).unwrap_or_default()
    }

    /// From now on the run waits for these volumes: they are read every second, and a change wakes it. A
    /// read that begins at `due` or later wakes it too.
    pub(crate) fn wait(&self, migration: &ObjectKey, ids: BTreeSet<String>, due: Option<Duration>) {
        let mut state = self.state.lock();
        if ids.is_empty() && !state.runs.contains_key(migration) {
            return;
        }
        let run = state.runs.entry(migration.clone()).or_default();
        run.reads.clear();
        run.is_awaiting = false;
        run.waits_for.clone_from(&ids);
        state.watch.wait(migration, ids.iter().cloned());
        if let Some(due) = due {
            for id in &ids {
                state.watch.want(id, due);
            }
        }
        drop(state);
        self.requested.notify_one();
    }

    /// The run is gone.
    pub(crate) fn forget(&self, migration: &ObjectKey) {
        let mut state = self.state.lock();
        state.watch.leave(migration);
        state.runs.remove(migration);
    }

    /// Reads volumes, in a call that begins at `not_before` or later. The answer has other volumes of the
    /// run too.
    ///
    /// # Errors
    /// That of EC2, or `Transient` if there is no answer within ten seconds.
    pub(crate) async fn read(
        &self,
        migration: &ObjectKey,
        ids: &[String],
        not_before: Duration,
    ) -> Result<BTreeMap<String, DiskRead>, CallError> {
        self.want(migration, ids, not_before);
        let answer = async {
            loop {
                let mut answered = std::pin::pin!(self.answered.notified());
                answered.as_mut().enable(); // before the check, so that no answer is missed
                if let Some(answer) = self.answer(migration, ids, not_before) {
                    return answer;
                }
                answered.await;
            }
        };
        let limit = self.clock.real(LONGEST_WAIT);
        let answer = tokio::time::timeout(limit, answer).await;
        if let Some(run) = self.state.lock().runs.get_mut(migration) {
            run.is_awaiting = false;
        }
        answer.unwrap_or_else(|_| {
            let seconds = LONGEST_WAIT.as_secs();
            let message = format!(
                "describe volumes: no answer from EC2 within {seconds} s; it is read again"
            );
            Err(CallError::new(Class::Transient, message))
        })
    }

    fn want(&self, migration: &ObjectKey, ids: &[String], not_before: Duration) {
        let mut state = self.state.lock();
        let run = state.runs.entry(migration.clone()).or_default();
        run.reads.extend(ids.iter().cloned());
        run.is_awaiting = true;
        let all: Vec<String> = run.reads.union(&run.waits_for).cloned().collect();
        state.watch.wait(migration, all);
        state.store(); // another run may have read them
        for id in ids {
            state.watch.want(id, not_before);
        }
        drop(state);
        self.requested.notify_one();
    }

    /// | volumes                                     | answer                        |
    /// |---------------------------------------------|-------------------------------|
    /// | all were read at `not_before` or later      | the latest readings           |
    /// | a read that began then has failed           | its error                     |
    /// | any other                                   | none yet                      |
    fn answer(
        &self,
        migration: &ObjectKey,
        ids: &[String],
        not_before: Duration,
    ) -> Option<Result<BTreeMap<String, DiskRead>, CallError>> {
        let state = self.state.lock();
        let is_read = |id: &String| state.watch.reading_since(id, not_before).is_some();
        if ids.iter().all(is_read) {
            let run = state.runs.get(migration);
            return Some(Ok(run.map(|run| run.readings.clone()).unwrap_or_default()));
        }
        let mut failures = ids.iter().filter_map(|id| state.watch.failure(id));
        let failure = failures.find(|failure| failure.begun >= not_before)?;
        Some(Err(CallError::from(&failure.error)))
    }
}

impl State {
    /// Stores what the watch has read for these runs.
    fn store(&mut self) {
        for run in self.runs.values_mut() {
            for id in run.waits_for.union(&run.reads) {
                if let Some(reading) = self.watch.reading(id) {
                    run.readings.insert(id.clone(), disk_read(reading));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
