//! The wire format checked with another client: boto3 calls every operation, and `boto3_check.py`
//! compares the parsed answers.
//!
//! boto3 is in a virtual environment in the cache, created once per version.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use aws_emulator::Emulator;

const REQUIREMENTS: &str = include_str!("../boto3_requirements.txt");

#[tokio::test]
async fn boto3_finds_every_operation_as_aws_has_it() {
    let python = boto3().unwrap_or_else(|wrong| panic!("{wrong}"));
    let emulator = Emulator::builder().every_service().start().await;
    let emulator = emulator.expect("the emulator starts");

    let script = tests().join("boto3_check.py");
    let mut check = Command::new(python);
    check.arg(script).arg(emulator.url());
    // The user's own AWS settings and proxies are not used here.
    for name in ["AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_ENDPOINT_URL"] {
        check.env_remove(name);
    }
    check
        .env("AWS_CONFIG_FILE", "")
        .env("AWS_SHARED_CREDENTIALS_FILE", "")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("NO_PROXY", "*");
    let output = check.output().expect("python runs");
    assert!(output.status.success(), "{}", text(&output));
}

/// The folder of these tests in the tested checkout. Cargo and `cargo xtask test` name the package;
/// without them the folder of the build is used, because checkouts may share a target folder.
fn tests() -> PathBuf {
    let named = std::env::var_os("CARGO_MANIFEST_DIR");
    let package = named.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).join("tests")
}

/// The Python with boto3 at its pinned version; installed if it is missing.
///
/// Two processes never install at once, and an interrupted installation is never used.
fn boto3() -> Result<PathBuf, String> {
    let version = REQUIREMENTS
        .lines()
        .find_map(|line| line.strip_prefix("boto3=="))
        .expect("the requirements pin boto3");
    let folder = cache().join("tools").join(format!("boto3-{version}"));
    let failed = |wrong: std::io::Error| format!("cannot use {}: {wrong}", folder.display());
    fs::create_dir_all(&folder).map_err(failed)?;
    let lock = File::create(folder.join("lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;

    let (venv, ready) = (folder.join("venv"), folder.join("ready"));
    let python = venv.join("bin").join("python");
    if ready.is_file() {
        return Ok(python);
    }
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&venv);
    run(
        make,
        "install Python 3.9 or later with its venv module, so that `python3 -m venv` works",
    )?;
    let requirements = tests().join("boto3_requirements.txt");
    let mut install = Command::new(&python);
    install
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ])
        .arg("-r")
        .arg(&requirements);
    let remedy = format!(
        "boto3 {version} is fetched once; when a package index can be reached, run: cargo test -p aws-emulator --test contract_boto3"
    );
    run(install, &remedy)?;
    fs::write(ready, version).map_err(failed)?;
    Ok(python)
}

fn run(mut command: Command, remedy: &str) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|wrong| format!("{command:?} cannot be run: {wrong}; {remedy}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?} failed; {remedy}\n{}", text(&output)))
}

fn text(output: &Output) -> String {
    let [out, error] = [&output.stdout, &output.stderr].map(|part| String::from_utf8_lossy(part));
    format!("{}\n{out}{error}", output.status)
}

/// The cache folder: `$PONTOON_CACHE`, `$XDG_CACHE_HOME/pontoon` or `$HOME/.cache/pontoon`.
fn cache() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(own) = set("PONTOON_CACHE") {
        return own.into();
    }
    let home = || PathBuf::from(set("HOME").unwrap_or_else(|| "/tmp".into())).join(".cache");
    let base = set("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
    base.join("pontoon")
}
