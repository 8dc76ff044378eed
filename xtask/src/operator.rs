//! The output of the operator's commands: its features, and what each needs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::cargo;
use crate::verdict::{Error, While};

/// A variable that makes the test build behave like the build for users.
const HIDE_TEST_FEATURES: (&str, &str) = ("PONTOON_TEST_HIDE_TEST_FEATURES", "1");

/// A built `pontoon`, called on the command line.
#[derive(Debug)]
pub(crate) struct Operator {
    path: PathBuf,
    has_test_features: bool,
}

impl Operator {
    /// With the features for users only, also if `path` is the test build.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self {
            path,
            has_test_features: false,
        }
    }

    /// With the features for tests, if the build has any.
    pub(crate) fn with_test_features(path: PathBuf) -> Self {
        Self {
            path,
            has_test_features: true,
        }
    }

    /// The variable to set when it is started.
    pub(crate) fn env(&self) -> Option<(&'static str, &'static str)> {
        (!self.has_test_features).then_some(HIDE_TEST_FEATURES)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The features in this build: the folders under `features/` that it accepts as names.
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

    /// The operator's stdout if it succeeds.
    pub(crate) fn print(&self, args: &[&str]) -> Result<String, Error> {
        printed(args, self.output(args)?)
    }

    /// The same for a verb that uses the cluster of a kubeconfig.
    pub(crate) fn print_in(&self, kubeconfig: &Path, args: &[&str]) -> Result<String, Error> {
        let mut command = self.command(args);
        command.env("KUBECONFIG", kubeconfig);
        printed(args, self.run(command)?)
    }

    fn output(&self, args: &[&str]) -> Result<Output, Error> {
        self.run(self.command(args))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        // The user's settings must not change generated files: help prints them.
        command
            .args(args)
            .stdin(Stdio::null())
            .env_clear()
            .envs(self.env())
            .env("NO_COLOR", "1");
        command
    }

    fn run(&self, mut command: Command) -> Result<Output, Error> {
        command
            .output()
            .doing(format_args!("running {}", self.path.display()))
    }
}

fn printed(args: &[&str], output: Output) -> Result<String, Error> {
    if !output.status.success() {
        return Err(failed(args, &output));
    }
    String::from_utf8(output.stdout).doing(format_args!("reading pontoon {}", args.join(" ")))
}

fn failed(args: &[&str], output: &Output) -> Error {
    let stderr = String::from_utf8_lossy(&output.stderr);
    Error::new(format!(
        "pontoon {} ended with {}: {}",
        args.join(" "),
        output.status,
        stderr.trim()
    ))
}
