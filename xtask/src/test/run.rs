//! Runs test executables: each in its own process group, with a deadline, stopped with us.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::suite::{End, Ran, Suite};
use super::tier::Tier;
use super::usage::{SAMPLE, Usage};
use crate::progress::Progress;
use crate::verdict::{Error, While};

/// An executable that takes longer hangs: on two cores the whole run takes little longer.
pub(crate) const DEADLINE: Duration = Duration::from_mins(25);
/// How long a child that is ending may keep a pipe open after its executable ended.
const DRAIN: Duration = Duration::from_secs(5);

/// A test executable and its package.
#[derive(Debug, Clone)]
pub(crate) struct Executable {
    pub(crate) tier: Tier,
    /// `package::target`.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Its package's folder.
    pub(crate) folder: PathBuf,
}

/// Settings for running an executable.
#[derive(Debug)]
pub(crate) struct RunSettings<'a> {
    pub(crate) filter: Option<&'a str>,
    /// The operator, for tests that run it as a separate program.
    pub(crate) operator: &'a Path,
    pub(crate) deadline: Duration,
}

impl Executable {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    /// The names of its tests that `filter` selects.
    pub(crate) async fn list(&self, filter: Option<&str>) -> Result<Vec<String>, Error> {
        let mut command = self.command();
        command
            .args(["--list", "--format", "terse"])
            .args(self.filter(filter));
        let output = command
            .output()
            .await
            .doing(format_args!("listing {}", self.name))?;
        let listed = super::suite::listed(&String::from_utf8_lossy(&output.stdout));
        Ok(listed
            .into_iter()
            .map(|test| format!("{}::{test}", self.name))
            .collect())
    }

    /// A filter that names the executable selects all its tests; otherwise libtest applies it.
    fn filter<'a>(&self, filter: Option<&'a str>) -> Option<&'a str> {
        filter.filter(|filter| !self.name.contains(filter))
    }

    /// Runs its tests and returns the outcome of each. Dropping the future kills all that it started.
    pub(crate) async fn run(
        &self,
        settings: &RunSettings<'_>,
        progress: &Progress,
    ) -> Result<ExecutableRan, Error> {
        let start = Instant::now();
        let mut command = self.command();
        // Times per test are available only as JSON, which libtest prints on stable with this flag.
        command
            .env("RUSTC_BOOTSTRAP", "1")
            .args([
                "-Z",
                "unstable-options",
                "--format",
                "json",
                "--report-time",
            ])
            .args(self.filter(settings.filter))
            .env("PONTOON_BIN", settings.operator);
        let threads = "RUST_TEST_THREADS";
        if let Some(stories) = self.tier.threads()
            && std::env::var_os(threads).is_none()
        {
            command.env(threads, stories.to_string());
        }
        if self.tier == Tier::Start {
            // The build for users would compile everything again.
            command.env("PONTOON_TEST_OPERATOR", settings.operator);
        }
        let mut child = command
            .spawn()
            .doing(format_args!("starting {}", self.path.display()))?;
        let group = Group::of(&child);
        let mut suite = Suite::new(&self.name);
        let stderr = tokio::spawn(read_all(child.stderr.take().expect("stderr is piped")));
        let mut usage = Usage::default();
        let pid = child.id();
        let following = follow(&mut child, &mut suite, &self.name, progress);
        let followed = tokio::select! {
            followed = timeout(settings.deadline, following) => followed,
            () = sampled(&mut usage, pid) => unreachable!("sampling has no end"),
        };
        drop(group);
        let stderr = timeout(DRAIN, stderr).await;
        let stderr = stderr.ok().and_then(Result::ok).unwrap_or_default();
        let end = if let Ok(status) = followed {
            end(status?)
        } else {
            let minutes = settings.deadline.as_secs_f64() / 60.0;
            End::Broken(format!(
                "it was stopped: not done after {minutes:.1} minutes"
            ))
        };
        Ok(ExecutableRan {
            tier: self.tier,
            name: self.name.clone(),
            ran: suite.finish(&end, &stderr),
            started: start,
            seconds: start.elapsed().as_secs_f64(),
            usage,
        })
    }
}

/// The result of an executable.
#[derive(Debug)]
pub(crate) struct ExecutableRan {
    pub(crate) tier: Tier,
    pub(crate) name: String,
    pub(crate) ran: Vec<Ran>,
    pub(crate) started: Instant,
    pub(crate) seconds: f64,
    pub(crate) usage: Usage,
}

async fn sampled(usage: &mut Usage, pid: Option<u32>) {
    loop {
        if let Some(pid) = pid {
            usage.sample(pid);
        }
        tokio::time::sleep(SAMPLE).await;
    }
}

/// The process group of the executable and of all that it started; it is killed with this value.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(
            child
                .id()
                .and_then(|id| i32::try_from(id).ok())
                .map(Pid::from_raw),
        )
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            killpg(leader, Signal::SIGKILL).ok(); // an error means that no process is left
        }
    }
}

async fn follow(
    child: &mut Child,
    suite: &mut Suite,
    name: &str,
    progress: &Progress,
) -> Result<ExitStatus, Error> {
    let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
    let status = loop {
        tokio::select! {
            line = lines.next_line() => match line.doing(format_args!("reading from {name}"))? {
                Some(line) => {
                    suite.add_line(&line);
                    let running: Vec<_> = suite.running().collect();
                    progress.tick(&format!("{name} {}", running.join(" ")));
                }
                None => break child.wait().await,
            },
            status = child.wait() => break status,
        }
    };
    let rest = async {
        while let Ok(Some(line)) = lines.next_line().await {
            suite.add_line(&line);
        }
    };
    timeout(DRAIN, rest).await.ok(); // a child of a test may still have the pipe open
    status.doing(format_args!("waiting for {name}"))
}

async fn read_all(mut from: impl AsyncRead + Unpin) -> String {
    let mut text = Vec::new();
    from.read_to_end(&mut text).await.ok(); // show what came before an error
    String::from_utf8_lossy(&text).into_owned()
}

fn end(status: ExitStatus) -> End {
    match status.code() {
        Some(code) => End::Exited { success: code == 0 },
        None => End::Broken(format!("the executable was ended by {status}")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::{Executable, RunSettings};
    use crate::progress::Progress;
    use crate::test::suite::{Outcome, Ran};
    use crate::test::tier::Tier;

    async fn run(folder: &Path, script: &str, deadline: Duration) -> Vec<Ran> {
        let executable = executable(folder, script);
        let settings = RunSettings {
            filter: None,
            operator: Path::new("pontoon"),
            deadline,
        };
        let ran = executable.run(&settings, &Progress::new()).await;
        ran.unwrap().ran
    }

    fn executable(folder: &Path, script: &str) -> Executable {
        let path = folder.join("suite");
        // Written by a child: a child of a concurrent test could inherit our open descriptor, and
        // then the kernel would refuse to run the file (text file busy).
        let written = std::process::Command::new("sh")
            .args([
                "-c",
                "printf '%s' \"$1\" > \"$2\" && chmod +x \"$2\"",
                "write",
            ])
            .arg(format!("#!/bin/sh\n{script}\n"))
            .arg(&path)
            .status();
        assert!(written.unwrap().success());
        Executable {
            tier: Tier::Unit,
            name: "a::unit_a".into(),
            path,
            folder: folder.to_owned(),
        }
    }

    const ONE: &str = r#"echo '{"type":"suite","event":"started"}'
echo '{"type":"test","event":"started","name":"one"}'"#;
    const OK: &str = r#"echo '{"type":"test","event":"ok","name":"one","exec_time":0.1}'
echo '{"type":"suite","event":"ok"}'"#;

    #[tokio::test]
    async fn a_passing_executable_passes() {
        let folder = tempfile::tempdir().unwrap();
        let ran = run(
            folder.path(),
            &format!("{ONE}\n{OK}"),
            Duration::from_mins(1),
        )
        .await;
        assert_eq!(ran.len(), 1);
        assert_eq!(ran[0].outcome, Outcome::Passed);
    }

    #[tokio::test]
    async fn a_hanging_executable_is_stopped_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("{ONE}\nsleep 600 &\necho $! > child\nwait");
        let ran = run(folder.path(), &script, Duration::from_secs(1)).await;
        assert_eq!(ran[0].outcome, Outcome::Failed);
        assert!(
            ran[0].output.contains("it was stopped"),
            "{}",
            ran[0].output
        );
        its_child_is_gone(folder.path()).await;
    }

    #[tokio::test]
    async fn a_dropped_run_stops_the_executable_and_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let script = "sleep 600 &\necho $! > child.new\nmv child.new child\nwait";
        let child = folder.path().join("child");
        tokio::select! {
            ran = run(folder.path(), script, Duration::from_mins(1)) => panic!("it ended: {ran:?}"),
            () = is_there(&child) => {}
        }
        its_child_is_gone(folder.path()).await;
    }

    #[tokio::test]
    async fn a_signal_that_ends_the_executable_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let ran = run(
            folder.path(),
            &format!("{ONE}\nkill -ABRT $$"),
            Duration::from_mins(1),
        )
        .await;
        assert_eq!(ran[0].name, "a::unit_a::one");
        assert!(ran[0].output.contains("SIGABRT"), "{}", ran[0].output);
    }

    async fn is_there(path: &Path) {
        while !path.exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn its_child_is_gone(folder: &Path) {
        let child = std::fs::read_to_string(folder.join("child")).unwrap();
        let status = format!("/proc/{}/stat", child.trim());
        let gone = async {
            // A zombie does not run; its new parent reaps it.
            while std::fs::read_to_string(&status).is_ok_and(|stat| !stat.contains(") Z ")) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let gone = tokio::time::timeout(Duration::from_secs(10), gone).await;
        assert!(gone.is_ok(), "{child} lives");
    }
}
