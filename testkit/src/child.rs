//! A child process that cannot outlive us, whatever ends us.

use std::{
    ffi::OsString,
    fs,
    io::{BufRead, BufReader, Read, Seek, SeekFrom},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use parking_lot::Mutex;

/// The guard: a shell in a process group of its own, whose standard input is a pipe that only we
/// hold. When we end, even by SIGKILL, the pipe closes and the group is killed.
///
/// `read` and not `cat`: a shell's builtin leaves no process behind when the subshell is killed.
const GUARD: &str = r#"
log=$1
shift
exec 3<&0
"$@" </dev/null >>"$log" 2>&1 3<&- &
real=$!
(read -r _ <&3; kill -KILL 0) >/dev/null 2>&1 &
watcher=$!
echo "$real"
exec >/dev/null
wait "$real"
code=$?
kill "$watcher"
exit "$code"
"#;

/// What to run.
#[derive(Debug, Clone, Default)]
pub struct Spec {
    /// Name of the log file, `<name>.log`, and of the child in errors.
    pub name: String,
    /// The program: a path, or a name found on `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Added to our own environment.
    pub env: Vec<(String, OsString)>,
    /// Where the log file goes. It is appended to, so a restarted child keeps its history.
    pub dir: PathBuf,
    /// Where the program runs; ours when `None`.
    pub workdir: Option<PathBuf>,
}

/// A running (or ended) child. Dropping it kills it and all processes that it started, and waits.
///
/// # When not to use it
/// For a command that ends by itself quickly: `std::process::Command` is enough.
#[derive(Debug)]
pub struct Child {
    name: String,
    log: PathBuf,
    pid: Pid,
    guard: Mutex<std::process::Child>,
}

impl Child {
    /// Starts `spec`; returns as soon as the program has a process id.
    pub fn start(spec: &Spec) -> Result<Self> {
        let log = spec.dir.join(format!("{}.log", spec.name));
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", GUARD, "guard"])
            .arg(&log)
            .arg(&spec.program)
            .args(&spec.args);
        command.envs(spec.env.iter().map(|(name, value)| (name, value)));
        if let Some(workdir) = &spec.workdir {
            command.current_dir(workdir);
        }
        command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut guard = command
            .spawn()
            .with_context(|| format!("cannot start /bin/sh to run {}", spec.name))?;

        let mut line = String::new();
        let stdout = guard.stdout.take().expect("stdout is a pipe");
        BufReader::new(stdout)
            .read_line(&mut line)
            .with_context(|| format!("cannot read the process id of {}", spec.name))?;
        let Ok(pid) = line.trim().parse() else {
            let _ = guard.kill();
            let _ = guard.wait();
            bail!(
                "{} did not start: its log {} must be writable",
                spec.name,
                log.display()
            );
        };
        let pid = Pid::from_raw(pid);
        Ok(Self {
            name: spec.name.clone(),
            log,
            pid,
            guard: Mutex::new(guard),
        })
    }

    /// Its name in errors and of its log.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process id of the program itself.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw().unsigned_abs()
    }

    /// Sends `signal` to the program.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        if let Some(status) = self.exit_status() {
            bail!(
                "{} has ended already ({status})\n{}",
                self.name,
                self.log_tail(20)
            );
        }
        signal::kill(self.pid, signal)
            .with_context(|| format!("cannot send {signal} to {} (pid {})", self.name, self.pid))
    }

    /// Stops the program (SIGSTOP) and waits until each of its threads has stopped: its sockets stay
    /// open and nothing answers.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::SIGSTOP)?;
        // SIGSTOP returns at once; a busy thread continues, and may answer, until it is scheduled.
        let started = Instant::now();
        while !self.is_frozen()? {
            if started.elapsed() > Duration::from_secs(5) {
                bail!("{} still runs 5 s after SIGSTOP", self.name);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Whether every thread of the program is stopped (state `T` in `/proc/<pid>/task/<id>/stat`).
    fn is_frozen(&self) -> Result<bool> {
        let tasks = format!("/proc/{}/task", self.pid);
        for task in fs::read_dir(&tasks).with_context(|| format!("cannot list {tasks}"))? {
            // A thread that has ended since it was listed no longer has a file.
            let stat = fs::read_to_string(task?.path().join("stat")).unwrap_or_default();
            // The state follows the name, which is in brackets and may contain spaces.
            let state = stat.rsplit_once(") ").map(|(_, after)| after);
            if state.is_some_and(|state| !state.starts_with('T')) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Continues a frozen program.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    /// Kills the program and all processes that it started, and waits until it is gone.
    pub fn kill(&self) {
        let mut guard = self.guard.lock();
        if matches!(guard.try_wait(), Ok(None)) {
            // The program first: once the guard has collected it, its ports are free. The guard
            // itself is our child, so until we collect it the group's id cannot be reused.
            let _ = signal::kill(self.pid, Signal::SIGKILL);
            let started = Instant::now();
            while signal::kill(self.pid, None).is_ok() && started.elapsed() < Duration::from_secs(5)
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            let group = Pid::from_raw(i32::try_from(guard.id()).expect("process ids fit in i32"));
            // Fails only when the group is gone, which is what we want.
            let _ = signal::killpg(group, Signal::SIGKILL);
        }
        let _ = guard.wait();
    }

    /// Asks the program to end (SIGTERM) and waits for it, at most for `deadline`.
    ///
    /// # Errors
    /// If it still runs then; it is left running, so that its state can be examined.
    pub async fn terminate(&self, deadline: Duration) -> Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        self.wait(deadline).await
    }

    /// Waits until the program has ended, at most for `deadline`.
    pub async fn wait(&self, deadline: Duration) -> Result<ExitStatus> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.exit_status() {
                return Ok(status);
            }
            if started.elapsed() > deadline {
                let tail = self.log_tail(20);
                bail!(
                    "{} still runs after {deadline:?}; its last lines:\n{tail}",
                    self.name
                );
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// How the program ended, or `None` while it runs.
    ///
    /// The guard passes the status on as a shell does: an exit code above 128 is read as a signal.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        let status = self.guard.lock().try_wait().ok().flatten()?;
        match status.code() {
            Some(code) if code > 128 => Some(ExitStatus::from_raw(code - 128)),
            _ => Some(status),
        }
    }

    /// The file with the output of the program.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// The last `lines` lines of the program's output.
    pub fn log_tail(&self, lines: usize) -> String {
        tail(&self.log, lines)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The last `lines` lines of the file at `path`; empty when it cannot be read.
pub fn tail(path: &Path, lines: usize) -> String {
    // Enough for every caller, and bounded whatever the file's size.
    const WINDOW: u64 = 256 * 1024;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(WINDOW)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
