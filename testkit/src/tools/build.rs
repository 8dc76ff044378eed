//! Builds a tool with Go, once per machine and pin.

use std::{
    fmt::Write,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use super::{
    Tool, find,
    pins::{Pin, files_below, pin},
};
use crate::child::{Child, Spec};

/// The user's own Go settings must not change our builds. The checksum database is not used, because
/// go.sum is part of the repository. Fewer garbage collections of the compiler shorten a build by a seventh.
const GO_SETTINGS: [(&str, &str); 8] = [
    ("CGO_ENABLED", "0"),
    ("GOGC", "400"),
    ("GOFLAGS", "-mod=readonly -buildvcs=false"),
    ("GOSUMDB", "off"),
    ("GOTOOLCHAIN", "local"),
    ("GOWORK", "off"),
    ("GOOS", ""),
    ("GOARCH", ""),
];

/// Finds `tool`, or builds it.
pub fn ensure(tool: Tool, progress: &dyn Fn(&str)) -> Result<PathBuf> {
    find(tool).or_else(|_| build(tool, progress))
}

/// Builds `tool` into the cache, unless it is there, and returns its path.
///
/// `progress` is called about once per second. Two processes never build the same tool at once: the
/// second waits and finds it. The result of an interrupted build is never used, and the next build
/// continues with what Go has already compiled.
///
/// # When not to use it
/// In a test: there a missing tool is an error with the command that builds it, see [`find`].
/// # Blocks
/// For minutes on a new machine. Call it from a thread that may block.
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
    let workdir = match pin(tool) {
        pin if pin.patches.is_empty() => pin.folder.clone(),
        pin => patched(tool, pin, folder, progress)?,
    };
    compile(tool, &go(tool, folder, workdir, &partial), progress)?;
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
            "{}: waiting for another build, {seconds} s",
            tool.name()
        ));
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn compile(tool: Tool, go: &Spec, progress: &dyn Fn(&str)) -> Result<()> {
    let log = go.dir.join("go.log");
    // The log contains one build only.
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

/// A Go module in `folder` that builds the tool from a patched copy of its sources.
///
/// Go replaces no file of its module cache, so the module is copied from there.
fn patched(tool: Tool, pin: &Pin, folder: &Path, progress: &dyn Fn(&str)) -> Result<PathBuf> {
    let workdir = folder.join("patched");
    progress(&format!("{}: fetching its sources", tool.name()));
    let output = Command::new("go")
        .args(["mod", "download", "-json", &pin.module])
        .envs(GO_SETTINGS)
        .current_dir(&pin.folder)
        .output()
        .context("cannot run go mod download")?;
    let downloaded: Downloaded = serde_json::from_slice(&output.stdout).with_context(|| {
        let complaint = String::from_utf8_lossy(&output.stderr);
        format!("go mod download of {}: {complaint}", pin.module)
    })?;

    if workdir.exists() {
        fs::remove_dir_all(&workdir)?;
    }
    copy_folder(&downloaded.dir, &workdir.join("source"))?;
    for (replaced, file) in &pin.patches {
        let target = workdir.join("source").join(replaced);
        fs::copy(file, &target).with_context(|| format!("cannot patch {}", target.display()))?;
    }
    let mut go_mod = fs::read_to_string(pin.folder.join("go.mod"))?;
    writeln!(go_mod, "\nreplace {} => ./source", pin.module)?;
    for (number, (module, stub)) in pin.stubs.iter().enumerate() {
        copy_folder(stub, &workdir.join(format!("stub-{number}")))?;
        writeln!(go_mod, "replace {module} => ./stub-{number}")?;
    }
    fs::write(workdir.join("go.mod"), go_mod)?;
    fs::copy(pin.folder.join("go.sum"), workdir.join("go.sum"))?;
    Ok(workdir)
}

/// What `go mod download -json` prints.
#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Downloaded {
    dir: PathBuf,
}

/// Copies only the contents of files, because those of Go's module cache are read-only.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    for file in files_below(from) {
        let target = to.join(file.strip_prefix(from)?);
        let folder = target.parent().expect("it lies below another");
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        fs::write(&target, fs::read(&file)?)?;
    }
    Ok(())
}

fn go(tool: Tool, folder: &Path, workdir: PathBuf, output: &Path) -> Spec {
    let pin = pin(tool);
    // The linker drops debug information (`-w`); not generating it shortens a build by a fifth.
    let no_debug_info = "-gcflags=all=-dwarf=false";
    let mut args = ["build", "-trimpath", no_debug_info, "-tags"]
        .map(Into::into)
        .to_vec();
    args.extend([
        (&pin.tags).into(),
        "-ldflags".into(),
        (&pin.ldflags).into(),
        "-o".into(),
        output.into(),
        (&pin.package).into(),
    ]);
    Spec {
        name: "go".into(),
        program: "go".into(),
        args,
        env: GO_SETTINGS
            .map(|(name, value)| (name.to_owned(), value.into()))
            .to_vec(),
        dir: folder.to_owned(),
        workdir: Some(workdir),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_go_settings_do_not_affect_the_build() {
        let spec = go(
            Tool::Etcd,
            Path::new("/x"),
            "/x".into(),
            Path::new("/x/etcd"),
        );
        let flags = spec.env.iter().find(|(name, _)| name == "GOFLAGS").unwrap();
        assert_eq!(flags.1, "-mod=readonly -buildvcs=false");
    }

    /// The error of `compile` with `program` and `script` instead of Go.
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
    fn without_go_the_error_says_where_to_get_it() {
        let text = complaint("/nowhere/go", "");
        assert!(
            text.contains("no `go` on the PATH; install it from https://go.dev"),
            "{text}"
        );
    }
}
