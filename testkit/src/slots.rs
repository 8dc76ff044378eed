//! Permits to run control planes on this machine.

use std::{
    fs::{self, File},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

/// How many control planes run at once; more would only slow each other down.
const AT_ONCE: usize = 10;
/// How long to wait until others have ended.
pub(crate) const SLOT_WAIT: Duration = Duration::from_mins(10);

/// A permit to run one control plane: a lock on a file.
pub(crate) type Slot = File;

/// Permits for `count` control planes; waits until as many are free, and has none meanwhile, so that
/// worlds of several clusters do not wait for each other. Stories that each have one plane and wait for
/// another could, so the wait is bounded.
pub(crate) async fn free_slots(folder: &Path, count: usize, wait: Duration) -> Result<Vec<Slot>> {
    ensure!(
        count <= AT_ONCE,
        "{count} control planes do not fit: at most {AT_ONCE} run at once"
    );
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let started = Instant::now();
    loop {
        let mut slots = Vec::new();
        for number in 0..AT_ONCE {
            let lock = File::create(folder.join(number.to_string()))?;
            if slots.len() < count && lock.try_lock().is_ok() {
                slots.push(lock);
            }
        }
        if slots.len() == count {
            return Ok(slots);
        }
        drop(slots);
        if started.elapsed() > wait {
            bail!(
                "{AT_ONCE} control planes run at once, and {count} more found no room within \
                 {wait:?}; end another test run"
            );
        }
        // Not all at the same time: two that each find half of what they need would go on so.
        tokio::time::sleep(Duration::from_millis(fastrand::u64(50..150))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child process of another test may hold a dropped lock until it runs its program.
    const UNTIL_DROPPED: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn at_most_ten_control_planes_run_at_once() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let slots = async |count| free_slots(folder.path(), count, UNTIL_DROPPED).await;
        let mut first = slots(7).await?;
        let second = slots(3).await?;
        let full = free_slots(folder.path(), 1, Duration::ZERO).await;
        let error = full.unwrap_err().to_string();
        assert!(error.contains("10 control planes run at once"), "{error}");
        drop(first.pop());
        drop(slots(1).await?);
        drop((first, second));
        assert!(slots(11).await.is_err());
        slots(10).await?;
        Ok(())
    }

    #[tokio::test]
    async fn a_world_that_finds_no_room_has_no_slots() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let _eight = free_slots(folder.path(), 8, UNTIL_DROPPED).await?;
        let too_many = free_slots(folder.path(), 3, Duration::ZERO).await;
        assert!(too_many.is_err());
        free_slots(folder.path(), 2, UNTIL_DROPPED).await?;
        Ok(())
    }
}
