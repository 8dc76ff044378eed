//! Builds of tools.

use std::{
    cell::Cell,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use testkit::tools::{self, Tool};

/// Kubeconform, because it is small.
const SMALL: Tool = Tool::Kubeconform;
/// If set, this binary builds a tool and prints whether Go had to run, and the path.
const BUILD: &str = "TESTKIT_BUILD";

/// Not a test: what this binary does when it is a child of the test below.
#[test]
fn builder() {
    if std::env::var_os(BUILD).is_some() {
        let ran = Cell::new(false);
        let path = tools::build(SMALL, &|progress| {
            ran.set(ran.get() || progress.contains("go build"));
        });
        println!("\nbuilt {} {}", ran.get(), path.unwrap().display());
    }
}

/// Starts [`builder`] with an empty cache, and with Go settings of a user that would break the build.
fn start_builder(cache: &std::path::Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tools::builder", "--nocapture"])
        .envs([(BUILD, "1"), ("GOFLAGS", "-mod=vendor"), ("GOOS", "plan9")])
        .env("PONTOON_CACHE", cache)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Whether the builder ran Go, and the path of the tool.
fn built(builder: Child) -> (bool, PathBuf) {
    let output = builder.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("built "))
        .expect(&text);
    let (ran, path) = line.split_once(' ').unwrap();
    (ran.parse().unwrap(), path.into())
}

#[test]
fn concurrent_builders_build_a_tool_once_at_its_pin() {
    let cache = tempfile::tempdir().unwrap();
    let builders = [start_builder(cache.path()), start_builder(cache.path())];
    let [first, second] = builders.map(built);
    assert_eq!(first.1, second.1);
    assert!(first.1.starts_with(cache.path()));
    assert_ne!(first.0, second.0, "one of them runs Go, the other waits");

    let output = Command::new(&first.1).arg("-v").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.trim(), format!("v{}", SMALL.version()));

    // An existing tool is not built again.
    assert!(!built(start_builder(cache.path())).0);
}
