//! The folder and the account of a server that refuses to run as root.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use nix::{
    sys::signal,
    unistd::{Pid, geteuid},
};

/// Prefix of folders outside the scratch; the process id follows.
const PREFIX: &str = "pontoon-postgres-";
/// This user id exists on every system, whatever its name.
const NOBODY: u32 = 65_534;

/// An account other than root's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// A folder that belongs to the account of the server. It is removed with this value.
#[derive(Debug)]
pub(super) struct Home {
    path: PathBuf,
    account: Option<Account>,
}

impl Home {
    /// In `scratch`; under root in the folder for temporary files, because other accounts cannot
    /// access root's own.
    pub(super) fn new(scratch: &Path) -> Result<Self> {
        let account = geteuid().is_root().then(|| {
            let users = fs::read_to_string("/etc/passwd");
            nobody(&users.unwrap_or_default())
        });
        let path = if account.is_some() {
            let root = std::env::temp_dir();
            prune(&root);
            let ending = fastrand::u32(..);
            root.join(format!("{PREFIX}{}-{ending:08x}", std::process::id()))
        } else {
            scratch.join("home")
        };
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let home = Self { path, account };
        fs::set_permissions(&home.path, fs::Permissions::from_mode(0o700))?;
        if let Some(Account { uid, gid }) = account {
            chown(&home.path, Some(uid), Some(gid))?;
        }
        Ok(home)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn account(&self) -> Option<Account> {
        self.account
    }

    /// A command line that runs `program` as the account of the folder.
    pub(super) fn as_account(
        &self,
        program: &Path,
        args: Vec<OsString>,
    ) -> (PathBuf, Vec<OsString>) {
        let Some(Account { uid, gid }) = self.account else {
            return (program.to_owned(), args);
        };
        let mut all: Vec<OsString> = vec![
            format!("--reuid={uid}").into(),
            format!("--regid={gid}").into(),
            "--clear-groups".into(),
            program.into(),
        ];
        all.extend(args);
        ("setpriv".into(), all)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The account of the user `nobody`, from the list of users.
fn nobody(users: &str) -> Account {
    let of = |line: &str| {
        let mut fields = line.split(':').skip(2).map(str::parse);
        let (Some(Ok(uid)), Some(Ok(gid))) = (fields.next(), fields.next()) else {
            return None;
        };
        Some(Account { uid, gid })
    };
    let line = users.lines().find(|line| line.starts_with("nobody:"));
    line.and_then(of).unwrap_or(Account {
        uid: NOBODY,
        gid: NOBODY,
    })
}

/// Removes the folders below `root` whose run has ended without doing so.
fn prune(root: &Path) {
    let Ok(folders) = fs::read_dir(root) else {
        return;
    };
    for folder in folders.flatten() {
        let name = folder.file_name();
        let pid = name.to_str().and_then(|name| {
            let (pid, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
            pid.parse().ok()
        });
        if pid.is_some_and(|pid| signal::kill(Pid::from_raw(pid), None).is_err()) {
            let _ = fs::remove_dir_all(folder.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_found_or_has_the_usual_id() {
        let users = "root:x:0:0::/root:/bin/sh\nnobody:x:99:98:Nobody:/:/sbin/nologin\n";
        assert_eq!(nobody(users), Account { uid: 99, gid: 98 });
        let usual = Account {
            uid: NOBODY,
            gid: NOBODY,
        };
        assert_eq!(nobody(""), usual);
        assert_eq!(nobody("nobody:x:many"), usual);
    }

    #[test]
    fn only_folders_of_dead_runs_are_pruned() {
        let root = tempfile::tempdir().unwrap();
        let make = |name: String| {
            let path = root.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let ours = make(format!("{PREFIX}{}-1", std::process::id()));
        let dead = make(format!("{PREFIX}{}-1", 1 << 22 | 1)); // above the kernel's limit
        let other = make("pontoon-postgres".into());
        prune(root.path());
        assert_eq!(
            [ours, dead, other].map(|path| path.exists()),
            [true, false, true]
        );
    }
}
