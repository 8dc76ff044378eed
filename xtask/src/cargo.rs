//! The workspace's folder, cargo's metadata of it, and builds with cargo.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::verdict::{Error, While};

/// The folder of the workspace in which xtask runs.
pub(crate) fn root() -> &'static Path {
    testkit::checkout()
}

/// The cargo that runs this, in the workspace's folder.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root()).stdin(Stdio::null());
    // Tests run with this setting, and a change would rebuild some crates and all their dependents.
    cargo.env_remove("RUSTC_BOOTSTRAP");
    cargo
}

/// The output of `cargo metadata`: the workspace and all its dependencies on this platform.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) target_directory: PathBuf,
}

/// A crate, ours or not.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    /// Its registry; none for our own packages.
    pub(crate) source: Option<String>,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
}

/// One line under `[dependencies]` or similar.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Dependency {
    /// `dev`, `build`, or none for a normal dependency.
    pub(crate) kind: Option<String>,
    /// Set for crates of this workspace.
    pub(crate) path: Option<PathBuf>,
}

/// Reads the workspace's metadata.
pub(crate) fn metadata() -> Result<Metadata, Error> {
    let version = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .arg("-vV")
        .current_dir(root())
        .output()
        .doing("asking rustc for its host")?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .ok_or_else(|| Error::new("rustc -vV names no host: is the toolchain complete?"))?;
    let output = cargo()
        .args([
            "metadata",
            "--format-version",
            "1",
            "--filter-platform",
            host,
        ])
        .stderr(Stdio::inherit())
        .output()
        .doing("running cargo metadata")?;
    if !output.status.success() {
        return Err(Error::new("cargo metadata failed; its reason is above"));
    }
    serde_json::from_slice(&output.stdout).doing("reading cargo metadata")
}

/// A built artifact: one line of `--message-format=json`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Artifact {
    pub(crate) manifest_path: PathBuf,
    pub(crate) target: Target,
    pub(crate) profile: Profile,
    pub(crate) executable: Option<PathBuf>,
}

/// The part of a package that was built.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Target {
    pub(crate) kind: Vec<String>,
    pub(crate) name: String,
}

/// How it was built.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Profile {
    pub(crate) test: bool,
}

#[derive(Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum Message {
    CompilerArtifact(Box<Artifact>),
    #[serde(rename = "compiler-message")]
    Compiler {
        message: Diagnostic,
    },
    #[serde(other)]
    Other,
}

/// A message of the compiler.
#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    rendered: String,
}

/// The result of a build.
#[derive(Debug, Default)]
pub(crate) struct Built {
    pub(crate) artifacts: Vec<Artifact>,
    /// Warnings about our own crates, including clippy's, as the compiler renders them.
    pub(crate) warnings: Vec<String>,
    errors: Vec<String>,
}

/// Runs `cargo <args>` with its progress on stderr, and returns the result.
pub(crate) fn build(args: &[&str]) -> Result<Built, Error> {
    let output = cargo()
        .args(args)
        .arg("--message-format=json")
        .stderr(Stdio::inherit())
        .output()
        .doing(format_args!("running cargo {}", args.join(" ")))?;
    let built = built(&String::from_utf8_lossy(&output.stdout));
    if !output.status.success() {
        built.errors.iter().for_each(|error| eprintln!("{error}"));
        let command = args.join(" ");
        return Err(Error::new(format!(
            "cargo {command} failed; the compiler's reasons are above"
        )));
    }
    Ok(built)
}

fn built(messages: &str) -> Built {
    let mut built = Built::default();
    let read = messages
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    for message in read {
        match message {
            Message::CompilerArtifact(artifact) => built.artifacts.push(*artifact),
            // Cargo shows only warnings of our own crates, also of those that were not rebuilt.
            Message::Compiler { message } => match message.level.as_str() {
                "warning" => built.warnings.push(message.rendered),
                _ => built.errors.push(message.rendered),
            },
            Message::Other => {}
        }
    }
    // A library is compiled twice, alone and with its unit tests.
    built.warnings.sort();
    built.warnings.dedup();
    built
}

/// A build of the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperatorBuild {
    /// The build for users.
    Plain,
    /// With kill points and the test feature; never for users.
    Chaos,
}

impl OperatorBuild {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Chaos => "chaos",
        }
    }
}

/// Builds the operator and returns a copy that later builds do not replace.
///
/// With `PONTOON_TEST_OPERATOR`, which `cargo xtask test` sets, that program is the operator, so that
/// a test does not compile the build for users.
pub(crate) fn operator(which: OperatorBuild) -> Result<PathBuf, Error> {
    if let Some(given) = std::env::var_os("PONTOON_TEST_OPERATOR") {
        return Ok(given.into());
    }
    // Together with xtask, so that both share third-party crates, compiled once.
    let both = ["build", "--package", "pontoon", "--package", "xtask"];
    let built = match which {
        OperatorBuild::Plain => build(&both)?,
        OperatorBuild::Chaos => build(&[&both[..], &["--features", "pontoon/chaos"]].concat())?,
    };
    kept(which, &built.artifacts)
}

/// A copy of the built operator that later builds do not replace.
pub(crate) fn kept(which: OperatorBuild, built: &[Artifact]) -> Result<PathBuf, Error> {
    let built = built
        .iter()
        .filter(|artifact| artifact.target.name == "pontoon" && !artifact.profile.test)
        .find_map(|artifact| artifact.executable.as_ref())
        .ok_or_else(|| Error::new("cargo built no executable named pontoon"))?;
    let target = metadata()?.target_directory;
    let folder = target.join("xtask").join(which.name());
    let kept = folder.join("pontoon");
    std::fs::create_dir_all(&folder).doing(format_args!("making {}", folder.display()))?;
    // Copied and renamed: a running operator keeps its file, and no reader sees an incomplete file.
    let aside = folder.join(format!("pontoon.{}", std::process::id()));
    std::fs::copy(built, &aside).doing(format_args!("copying {}", built.display()))?;
    std::fs::rename(&aside, &kept).doing(format_args!("placing {}", kept.display()))?;
    Ok(kept)
}

/// The names of our own packages by their folder.
pub(crate) fn package_names(metadata: &Metadata) -> BTreeMap<PathBuf, String> {
    let ours = metadata
        .packages
        .iter()
        .filter(|package| package.source.is_none());
    ours.filter_map(|package| {
        Some((
            package.manifest_path.parent()?.to_owned(),
            package.name.clone(),
        ))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::built;

    #[test]
    fn artifacts_are_read_from_among_other_messages() {
        let messages = concat!(
            r#"{"reason":"build-script-executed","package_id":"x"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"kind":["test"],"name":"unit_a"},"profile":{"test":true},"executable":"/t/unit_a-1"}"#,
            "\nnot json\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        let found = built(messages).artifacts;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].target.name, "unit_a");
        assert!(found[0].profile.test);
    }

    #[test]
    fn a_warning_is_reported_once() {
        let warning =
            r#"{"reason":"compiler-message","message":{"level":"warning","rendered":"unused"}}"#;
        let found = built(&format!("{warning}\n{warning}\n"));
        assert_eq!(found.warnings, ["unused"]);
        assert!(found.artifacts.is_empty());
    }
}
