//! Folders for one run: removed after success, kept with their logs after a failure.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    sync::{LazyLock, Once},
    time::Duration,
};

use anyhow::{Context, Result};
use nix::{sys::signal, unistd::Pid};

use crate::checkout::checkout;

/// A kept folder is not pruned before this age, so that the next test run does not remove it.
const KEPT_FOR: Duration = Duration::from_hours(24);
/// Marks a folder as kept.
const KEPT: &str = "KEPT";

static NEXT: AtomicU32 = AtomicU32::new(0);
static PRUNED: Once = Once::new();

/// `<target>/testkit`, the folder for all files of test runs.
pub static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| checkout().join("target"), PathBuf::from);
    target.join("testkit")
});

/// A temporary folder. It is removed when this value is dropped, unless the thread is panicking or
/// [`Scratch::preserve`] was called; then its path is printed.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    preserve: AtomicBool,
}

impl Scratch {
    /// Creates `<target>/testkit/<pid>-<n>-<name>`; the first call prunes folders of ended runs.
    pub fn new(name: &str) -> Result<Self> {
        PRUNED.call_once(|| prune(&ROOT));
        fs::create_dir_all(&*ROOT).with_context(|| format!("cannot make {}", ROOT.display()))?;
        loop {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = ROOT.join(format!("{}-{n}-{name}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => {
                    let (path, preserve) = (path.canonicalize()?, AtomicBool::new(false));
                    return Ok(Self { path, preserve });
                }
                // Kept by a run that had our process id before us.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot make {}", path.display()));
                }
            }
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the folder for a day, because a failure refers to it.
    pub fn preserve(&self) {
        self.preserve.store(true, Ordering::Relaxed);
    }

    /// Writes `content` to the file `name` in it.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.path.join(name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::thread::panicking() || self.preserve.load(Ordering::Relaxed) {
            let _ = fs::write(self.path.join(KEPT), "");
            eprintln!("logs are kept in {}", self.path.display());
        } else {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Removes the folders below `root` whose run has ended; kept ones when they are old.
fn prune(root: &Path) {
    let Ok(folders) = fs::read_dir(root) else {
        return;
    };
    for folder in folders.flatten() {
        let name = folder.file_name();
        let Some(pid) = name
            .to_str()
            .and_then(|name| name.split('-').next()?.parse().ok())
        else {
            continue;
        };
        let alive = signal::kill(Pid::from_raw(pid), None).is_ok();
        if !alive && !is_kept(&folder.path().join(KEPT)) {
            let _ = fs::remove_dir_all(folder.path());
        }
    }
}

fn is_kept(marker: &Path) -> bool {
    let age = fs::metadata(marker)
        .and_then(|meta| meta.modified())
        .map(|at| at.elapsed());
    matches!(age, Ok(Ok(age)) if age < KEPT_FOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No process has it: the kernel's limit on process ids is 2^22.
    const DEAD: i32 = 1 << 22 | 1;

    #[test]
    fn a_folder_is_removed_with_its_value_unless_preserved() {
        let gone = Scratch::new("gone").unwrap().path().to_owned();
        assert!(!gone.exists());

        let kept = Scratch::new("kept").unwrap();
        kept.preserve();
        let path = kept.path().to_owned();
        drop(kept);
        assert!(path.join(KEPT).exists());
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_kept_folder_of_the_same_name_is_not_touched() {
        let ahead: Vec<PathBuf> = (1000..1003)
            .map(|n| ROOT.join(format!("{}-{n}-reused", std::process::id())))
            .collect();
        for path in &ahead {
            fs::create_dir_all(path).unwrap();
        }
        NEXT.fetch_max(1000, Ordering::Relaxed);
        let fresh = Scratch::new("reused").unwrap();
        assert!(
            !ahead
                .iter()
                .any(|path| path.canonicalize().unwrap() == fresh.path())
        );
        for path in ahead {
            fs::remove_dir_all(path).unwrap();
        }
    }

    #[test]
    fn a_panic_keeps_the_folder() {
        let path = std::thread::spawn(|| {
            let scratch = Scratch::new("panic").unwrap();
            std::panic::panic_any(scratch.path().to_owned());
        });
        let path = *path.join().unwrap_err().downcast::<PathBuf>().unwrap();
        assert!(path.exists());
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn only_folders_of_dead_runs_are_pruned() {
        let root = tempfile::tempdir().unwrap();
        let make = |name: String| {
            let path = root.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let ours = make(format!("{}-0-x", std::process::id()));
        let dead = make(format!("{DEAD}-0-x"));
        let kept = make(format!("{DEAD}-1-x"));
        fs::write(kept.join(KEPT), "").unwrap();
        let other = make("ports".into());

        prune(root.path());
        assert_eq!(
            [ours, dead, kept, other].map(|path| path.exists()),
            [true, false, true, true]
        );
    }
}
