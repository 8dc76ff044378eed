//! The Python with boto3, a client of AWS that is not ours, for tests that compare with it.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Output};

const REQUIREMENTS: &str = include_str!("../tests/boto3_requirements.txt");

/// The Python with boto3 and botocore at their pinned versions, in a virtual environment in the
/// cache; installed if it is missing. Two processes never install at once, and an interrupted
/// installation is never used.
///
/// # Errors
/// What failed, and what to do.
pub fn python() -> Result<PathBuf, String> {
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
    let mut install = Command::new(&python);
    install
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ])
        .args(REQUIREMENTS.lines());
    let remedy = format!(
        "boto3 {version} is fetched once; when a package index can be reached, run: cargo xtask test contract boto3"
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
