//! Wrong input gets a message that says what to do, and exit 2.

use std::process::{Command, Output};

fn xtask(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(args)
        .output()
        .expect("xtask starts")
}

/// Exit 2, nothing on stdout, and each of `words` on stderr.
fn refuses(args: &[&str], words: &[&str]) {
    let output = xtask(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{args:?}");
    for word in words {
        assert!(
            stderr.contains(word),
            "{args:?} does not say {word:?}: {stderr}"
        );
    }
}

#[test]
fn an_unknown_verb_is_refused() {
    refuses(&["nope"], &["nope", "--help"]);
}

#[test]
fn an_unknown_tier_is_answered_with_the_tiers() {
    refuses(
        &["test", "fast"],
        &[
            "unit, contract, integration, chaos, start",
            "cargo xtask test all fast",
        ],
    );
}

#[test]
fn an_unknown_tool_is_answered_with_the_tools() {
    refuses(&["tools", "kubelet"], &["kubelet", "etcd", "vault"]);
}

#[test]
fn an_unknown_bench_is_answered_with_the_benches() {
    refuses(
        &["bench", "nope"],
        &["no bench is named nope", "the benches are"],
    );
}

#[test]
fn a_missing_kubeconfig_is_refused_before_anything_starts() {
    refuses(
        &["up", "--kubeconfig", "nowhere/config"],
        &["--kubeconfig nowhere/config cannot be used"],
    );
}

#[test]
fn a_world_without_a_feature_is_refused() {
    refuses(&["world"], &["FEATURE"]);
}

#[test]
fn tools_are_listed_on_stdout() {
    let output = xtask(&["tools", "--list"]);
    assert!(output.status.success());
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.starts_with("NAME"), "{stdout}");
    assert!(
        stdout
            .lines()
            .any(|line| line.starts_with("kube-apiserver ")),
        "{stdout}"
    );
}
