//! `cargo xtask up`, as a newcomer runs it.
// Waits for real programs in real time.
#![allow(clippy::disallowed_methods)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A running `up`. It ends with the test, also after a failure.
struct Up(Child);

impl Drop for Up {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl Up {
    /// Starts it, and returns when it shows its table.
    fn showing() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command
            .arg("up")
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut up = Self(command.spawn().expect("xtask starts"));
        let stdout = up.0.stdout.take().expect("stdout is piped");
        let mut lines = BufReader::new(stdout).lines();
        assert!(lines.next().is_some(), "up ended before it showed anything");
        // Read on: `up` would end if its stdout were closed.
        std::thread::spawn(move || lines.for_each(drop));
        up
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id()).expect("a process id fits");
        kill(Pid::from_raw(pid), signal).expect("up runs");
    }
}

/// All descendants of `root`, from /proc.
fn descendants(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut at = 0;
    let all: Vec<(u32, u32)> = processes().collect();
    while let Some(parent) = found.get(at).copied() {
        found.extend(
            all.iter()
                .filter(|(_, of)| *of == parent)
                .map(|(pid, _)| *pid),
        );
        at += 1;
    }
    found.split_off(1)
}

/// Process ids with their parents, without zombies.
fn processes() -> impl Iterator<Item = (u32, u32)> {
    let entries = fs::read_dir("/proc").expect("there is a /proc").flatten();
    entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let state = fields.next()?;
        (state != "Z").then_some((pid, fields.next()?.parse().ok()?))
    })
}

fn all_end(pids: &[u32]) {
    let start = Instant::now();
    loop {
        let left: Vec<u32> = processes()
            .map(|(pid, _)| pid)
            .filter(|pid| pids.contains(pid))
            .collect();
        if left.is_empty() {
            return;
        }
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "still running: {left:?}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn up_once_ends_with_zero_when_every_example_is_ready() {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["up", "--once"])
        .output();
    let output = output.expect("xtask starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("SecretRead"), "no app got in: {table}");
    let rows = |kind: &str, reason: &str| {
        let rows = table.lines().filter(|row| row.starts_with(kind));
        rows.filter(|row| row.contains(reason)).count()
    };
    let returned = rows("StatefulSetMigration", "RolledBack");
    assert_eq!(returned, 1, "the set moves there and back: {table}");
    assert_eq!(
        rows("(set)", "InOldCluster"),
        1,
        "its pods are Ready: {table}"
    );
}

#[test]
fn ctrl_c_in_up_leaves_no_child() {
    let mut up = Up::showing();
    let children = descendants(up.0.id());
    assert!(
        children.len() > 5,
        "a control plane, Vault and Pontoon run: {children:?}"
    );
    up.signal(Signal::SIGINT);
    assert!(up.0.wait().expect("up ends").success());
    all_end(&children);
}

#[test]
fn a_killed_up_leaves_no_child() {
    let mut up = Up::showing();
    let children = descendants(up.0.id());
    up.signal(Signal::SIGKILL);
    up.0.wait().expect("up ends");
    all_end(&children);
}
