//! The operator's own answers: which features it has, and what each needs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cargo;
use crate::verdict::{Error, While};

/// A built `pontoon`, asked on the command line.
#[derive(Debug)]
pub(crate) struct Operator {
    path: PathBuf,
}

impl Operator {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The features in this build: folders under `features/` that it knows by name.
    pub(crate) fn features(&self) -> Result<Vec<String>, Error> {
        let folder = cargo::root().join("features");
        let entries = std::fs::read_dir(&folder).doing("listing features/")?;
        let names = entries
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()));
        let mut names: Vec<String> = names.collect();
        names.sort();
        let mut known = Vec::new();
        for name in names {
            if self.knows(&name)? {
                known.push(name);
            }
        }
        Ok(known)
    }

    /// Whether this build has the feature; a feature for tests is in the chaos build alone.
    pub(crate) fn knows(&self, feature: &str) -> Result<bool, Error> {
        let output = self.output(&["crds", "--feature", feature])?;
        match output.status.code() {
            Some(0) => Ok(true),
            Some(2) => Ok(false),
            _ => Err(failed(&["crds", "--feature", feature], &output)),
        }
    }

    /// What the operator prints on stdout when it succeeds.
    pub(crate) fn print(&self, args: &[&str]) -> Result<String, Error> {
        let output = self.output(args)?;
        if !output.status.success() {
            return Err(failed(args, &output));
        }
        String::from_utf8(output.stdout).doing(format_args!("reading pontoon {}", args.join(" ")))
    }

    fn output(&self, args: &[&str]) -> Result<std::process::Output, Error> {
        let mut command = Command::new(&self.path);
        // Settings of the caller must not change what is generated: help prints them.
        command
            .args(args)
            .stdin(Stdio::null())
            .env_clear()
            .env("NO_COLOR", "1");
        command
            .output()
            .doing(format_args!("running {}", self.path.display()))
    }
}

fn failed(args: &[&str], output: &std::process::Output) -> Error {
    let stderr = String::from_utf8_lossy(&output.stderr);
    Error::new(format!(
        "pontoon {} ended with {}: {}",
        args.join(" "),
        output.status,
        stderr.trim()
    ))
}
