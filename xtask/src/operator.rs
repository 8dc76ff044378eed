//! The operator's own answers: which features it has, and what each needs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cargo;
use crate::verdict::{Error, While};

/// A variable that makes the build for tests look like the one for users.
const HIDE_TEST_FEATURES: (&str, &str) = ("PONTOON_TEST_HIDE_TEST_FEATURES", "1");

/// A built `pontoon`, asked on the command line.
#[derive(Debug)]
pub(crate) struct Operator {
    path: PathBuf,
    has_test_features: bool,
}

impl Operator {
    /// As users see it, also when `path` is the build for tests.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self {
            path,
            has_test_features: false,
        }
    }

    /// With the features for tests that the build has.
    pub(crate) fn with_test_features(path: PathBuf) -> Self {
        Self {
            path,
            has_test_features: true,
        }
    }

    /// Variables that whoever starts it must set.
    pub(crate) fn env(&self) -> Option<(&'static str, &'static str)> {
        (!self.has_test_features).then_some(HIDE_TEST_FEATURES)
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

    /// Whether users have the feature.
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
            .envs(self.env())
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
