//! Release builds of the operator: the one for users, and the one with the test kinds.

use std::path::PathBuf;

use crate::cargo::{self, OperatorBuild};
use crate::verdict::{Error, While};

/// Builds the operator and copies it to a path that the next build does not replace.
pub(super) fn release(which: OperatorBuild) -> Result<PathBuf, Error> {
    let (name, features): (&str, &[&str]) = match which {
        OperatorBuild::Plain => ("bench-plain", &[]),
        OperatorBuild::Chaos => ("bench-chaos", &["--features", "chaos"]),
    };
    let args: Vec<&str> = ["build", "--release", "--package", "pontoon"]
        .iter()
        .chain(features)
        .copied()
        .collect();
    let built = cargo::build(&args)?
        .artifacts
        .into_iter()
        .filter(|artifact| artifact.target.name == "pontoon")
        .find_map(|artifact| artifact.executable);
    let built = built.ok_or_else(|| Error::new("cargo built no executable named pontoon"))?;
    let folder = cargo::metadata()?.target_directory.join("xtask").join(name);
    std::fs::create_dir_all(&folder).doing(format_args!("making {}", folder.display()))?;
    let kept = folder.join("pontoon");
    // Removed first, because a running program keeps its file.
    let _ = std::fs::remove_file(&kept);
    std::fs::copy(&built, &kept).doing(format_args!("copying {}", built.display()))?;
    Ok(kept)
}
