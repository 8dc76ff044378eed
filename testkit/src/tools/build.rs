//! Builds a tool with Go, once per machine and pin.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use super::{Tool, find, pins::pin};
use crate::child::{Child, Spec};

/// Finds `tool`, or builds it.
pub fn ensure(tool: Tool, progress: &dyn Fn(&str)) -> Result<PathBuf> {
    find(tool).or_else(|_| build(tool, progress))
}

/// Builds `tool` into the cache, unless it is there, and returns its path.
///
/// `progress` is told about once a second what goes on. Two processes never build the same tool at
/// once: the second waits and finds it. A build that was stopped leaves nothing that looks ready,
/// and the next one goes on from what Go has compiled already.
///
/// # When not to use it
/// In a test: a missing tool there is an error with the command that builds it, see [`find`].
/// # Blocks
/// For minutes on a fresh machine. Call it from a thread that may wait.
pub fn build(tool: Tool, progress: &dyn Fn(&str)) -> Result<PathBuf> {
    let ready = tool.cached();
    let folder = ready.parent().expect("a cached tool lies in a folder");
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;

    let lock = File::create(folder.join("lock"))?;
    wait_for(&lock, tool, progress)?;
    if ready.is_file() {
        return Ok(ready);
    }

    let partial = folder.join(format!("{}.partial", tool.name()));
    compile(tool, &go(tool, folder, &partial), progress)?;
    fs::rename(&partial, &ready).with_context(|| format!("cannot make {}", ready.display()))?;
    Ok(ready)
}

fn wait_for(lock: &File, tool: Tool, progress: &dyn Fn(&str)) -> Result<()> {
    let started = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(fs::TryLockError::WouldBlock) => {}
            Err(fs::TryLockError::Error(error)) => {
                return Err(error).context("cannot lock the folder of the tool in the cache");
            }
        }
        let seconds = started.elapsed().as_secs();
        progress(&format!(
            "{}: another build is under way, {seconds} s",
            tool.name()
        ));
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn compile(tool: Tool, go: &Spec, progress: &dyn Fn(&str)) -> Result<()> {
    let log = go.dir.join("go.log");
    // The log holds one build.
    fs::write(&log, "").with_context(|| format!("cannot write {}", log.display()))?;
    let started = Instant::now();
    let go = Child::start(go)?;
    let status = loop {
        if let Some(status) = go.exit_status() {
            break status;
        }
        let seconds = started.elapsed().as_secs();
        progress(&format!(
            "{} {}: go build, {seconds} s",
            tool.name(),
            tool.version()
        ));
        let next = Instant::now() + Duration::from_secs(1);
        while go.exit_status().is_none() && Instant::now() < next {
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    match status.code() {
        Some(0) => Ok(()),
        Some(127) => bail!(
            "{} is built with Go, and there is no `go` on the PATH; install it from https://go.dev/dl",
            tool.name()
        ),
        _ => bail!(
            "go build of {} {} failed ({status}); its last lines (all: {}):\n{}",
            tool.name(),
            tool.version(),
            log.display(),
            go.log_tail(20)
        ),
    }
}

fn go(tool: Tool, folder: &Path, output: &Path) -> Spec {
    let pin = pin(tool);
    let mut args = ["build", "-trimpath", "-ldflags"].map(Into::into).to_vec();
    args.extend([
        (&pin.ldflags).into(),
        "-o".into(),
        output.into(),
        (&pin.package).into(),
    ]);
    // Whatever the user has set for their own Go work must not change what we build; the
    // checksum database is not asked, because go.sum is part of the repository.
    let env = [
        ("CGO_ENABLED", "0"),
        ("GOFLAGS", "-mod=readonly -buildvcs=false"),
        ("GOSUMDB", "off"),
        ("GOTOOLCHAIN", "local"),
        ("GOWORK", "off"),
        ("GOOS", ""),
        ("GOARCH", ""),
    ];
    Spec {
        name: "go".into(),
        program: "go".into(),
        args,
        env: env
            .map(|(name, value)| (name.to_owned(), value.into()))
            .to_vec(),
        dir: folder.to_owned(),
        workdir: Some(pin.folder.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_go_settings_do_not_reach_the_build() {
        let spec = go(Tool::Etcd, Path::new("/x"), Path::new("/x/etcd"));
        let flags = spec.env.iter().find(|(name, _)| name == "GOFLAGS").unwrap();
        assert_eq!(flags.1, "-mod=readonly -buildvcs=false");
    }

    /// What `compile` says when the program in Go's place is `program`, with `script`.
    fn complaint(program: &str, script: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let spec = Spec {
            name: "go".into(),
            program: program.into(),
            args: vec!["-c".into(), script.into()],
            dir: folder.path().to_owned(),
            ..Spec::default()
        };
        compile(Tool::Etcd, &spec, &|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn a_failed_build_shows_the_last_lines() {
        let text = complaint("/bin/sh", "echo cannot find module >&2; exit 1");
        assert!(text.contains("etcd 3.6.16 failed"), "{text}");
        assert!(text.contains("cannot find module"), "{text}");
    }

    #[test]
    fn without_go_it_says_where_to_get_it() {
        let text = complaint("/nowhere/go", "");
        assert!(
            text.contains("no `go` on the PATH; install it from https://go.dev"),
            "{text}"
        );
    }
}
