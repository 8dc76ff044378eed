//! Child processes: `/bin/sh` and this test binary itself.
// Waits for real processes in real time.
#![allow(clippy::disallowed_methods)]

use std::{
    net::TcpListener,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use testkit::{
    Result,
    child::{Child, Spec},
    port::Port,
    scratch::Scratch,
};

/// Set to an address: this binary is a server there.
const SERVE: &str = "TESTKIT_SERVE";
/// Set to an address: this binary has a child that serves there.
const PARENT: &str = "TESTKIT_PARENT";

fn shell(scratch: &Scratch, script: &str) -> Result<Child> {
    Child::start(&Spec {
        name: "shell".into(),
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        dir: scratch.path().to_owned(),
        ..Spec::default()
    })
}

/// This binary again, as `role` at `address`.
fn role_spec(dir: &Path, role: &str, address: &str) -> Spec {
    Spec {
        name: role.to_lowercase(),
        program: std::env::current_exe().expect("a running program has a path"),
        args: ["--exact", "child::roles", "--nocapture"]
            .map(Into::into)
            .to_vec(),
        env: vec![(role.into(), address.into())],
        dir: dir.to_owned(),
        ..Spec::default()
    }
}

/// Not a test: what this binary does when it is a child of the tests below.
#[test]
fn roles() {
    if let Ok(address) = std::env::var(SERVE) {
        let _listener = TcpListener::bind(address).unwrap();
        std::thread::park();
    }
    if let Ok(address) = std::env::var(PARENT) {
        let scratch = std::env::temp_dir();
        let mut spec = role_spec(&scratch, SERVE, &address);
        spec.name = format!("testkit-{}", std::process::id());
        let _child = Child::start(&spec).unwrap();
        std::thread::park();
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "not within 10 s: {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_free(address: &str) -> bool {
    TcpListener::bind(address).is_ok()
}

fn is_alive(pid: u32) -> bool {
    signal::kill(Pid::from_raw(pid.cast_signed()), None).is_ok()
}

#[test]
fn a_child_ends_when_its_parent_is_killed() -> Result<()> {
    let scratch = Scratch::new("killed-parent")?;
    let port = Port::free()?;
    let address = port.address();
    let spec = role_spec(scratch.path(), PARENT, &address);
    let mut parent = Command::new(&spec.program)
        .args(&spec.args)
        .env(PARENT, &address)
        .env("TMPDIR", scratch.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    until("the grandchild listens", || !is_free(&address));

    parent.kill()?; // SIGKILL: the parent runs no more code
    parent.wait()?;
    until("the grandchild's port is free", || is_free(&address));
    Ok(())
}

#[test]
fn a_dropped_child_is_gone_and_its_port_free() -> Result<()> {
    let scratch = Scratch::new("dropped")?;
    let port = Port::free()?;
    let child = Child::start(&role_spec(scratch.path(), SERVE, &port.address()))?;
    until("it listens", || !is_free(&port.address()));
    let pid = child.pid();
    drop(child);
    assert!(is_free(&port.address()));
    assert!(!is_alive(pid));
    Ok(())
}

#[test]
fn killing_a_child_kills_what_it_started() -> Result<()> {
    let scratch = Scratch::new("grandchild")?;
    let child = shell(&scratch, "sleep 1000 & echo $!; wait")?;
    until("the grandchild runs", || {
        child.log_tail(1).parse::<u32>().is_ok_and(is_alive)
    });
    let grandchild = child.log_tail(1).parse()?;
    child.kill();
    until("the grandchild is gone", || !is_alive(grandchild));
    Ok(())
}

#[tokio::test]
async fn the_exit_status_is_the_programs_own() -> Result<()> {
    let scratch = Scratch::new("status")?;
    let soon = Duration::from_secs(10);
    assert_eq!(shell(&scratch, "exit 7")?.wait(soon).await?.code(), Some(7));
    assert_eq!(
        shell(&scratch, "kill -ABRT $$")?.wait(soon).await?.signal(),
        Some(6)
    );
    assert_eq!(
        shell(&scratch, "exec sleep 1000")?
            .terminate(soon)
            .await?
            .signal(),
        Some(15)
    );
    Ok(())
}

#[tokio::test]
async fn a_child_that_ignores_sigterm_is_reported_with_its_last_lines() -> Result<()> {
    let scratch = Scratch::new("stubborn")?;
    let child = shell(
        &scratch,
        "trap '' TERM; echo not yet; sleep 1000; sleep 1000",
    )?;
    until("the trap is set", || child.log_tail(1) == "not yet");
    let error = child
        .terminate(Duration::from_millis(100))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("still runs") && error.contains("not yet"),
        "{error}"
    );
    assert!(child.exit_status().is_none());
    Ok(())
}

#[test]
fn a_frozen_child_does_nothing_until_it_is_thawed() -> Result<()> {
    let scratch = Scratch::new("frozen")?;
    let child = shell(&scratch, "while :; do echo tick; sleep 0.01; done")?;
    let ticks = || {
        std::fs::read_to_string(child.log_path())
            .unwrap_or_default()
            .len()
    };
    until("it ticks", || ticks() > 0);

    child.freeze()?;
    assert_eq!(state(child.pid()), Some('T'));
    let frozen = ticks();
    std::thread::sleep(Duration::from_millis(200)); // the time of 20 ticks; none may come
    assert_eq!(ticks(), frozen);

    child.thaw()?;
    until("it ticks again", || ticks() > frozen);
    Ok(())
}

/// The process state as `/proc` prints it.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

#[test]
fn a_program_that_does_not_exist_says_so_in_the_log() -> Result<()> {
    let scratch = Scratch::new("absent")?;
    let child = Child::start(&Spec {
        name: "absent".into(),
        program: "/nowhere/absent".into(),
        dir: scratch.path().to_owned(),
        ..Spec::default()
    })?;
    until("it has ended", || child.exit_status().is_some());
    assert_eq!(
        child.exit_status().and_then(|status| status.code()),
        Some(127)
    );
    assert!(
        child.log_tail(1).contains("/nowhere/absent"),
        "{}",
        child.log_tail(1)
    );
    let error = child.signal(Signal::SIGTERM).unwrap_err().to_string();
    assert!(error.contains("has ended already"), "{error}");
    Ok(())
}
