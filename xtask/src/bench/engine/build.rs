//! The two release builds: what users get, for its size, and the one with the test kinds in it.

use std::path::{Path, PathBuf};

use super::bar::Bar;
use crate::cargo;
use crate::verdict::{Error, While};

pub(super) struct Builds {
    pub(super) plain: PathBuf,
    pub(super) chaos: PathBuf,
}

pub(super) fn builds() -> Result<Builds, Error> {
    Ok(Builds {
        chaos: release("bench-chaos", &["--features", "chaos"])?,
        plain: release("bench-plain", &[])?,
    })
}

/// Builds the operator and copies it to where the next build does not replace it.
fn release(name: &str, features: &[&str]) -> Result<PathBuf, Error> {
    let args: Vec<&str> = ["build", "--release", "--package", "pontoon"]
        .iter()
        .chain(features)
        .copied()
        .collect();
    let built = cargo::build(&args)?
        .into_iter()
        .filter(|artifact| artifact.target.name == "pontoon")
        .find_map(|artifact| artifact.executable);
    let built = built.ok_or_else(|| Error::new("cargo built no executable named pontoon"))?;
    let folder = cargo::metadata()?.target_directory.join("xtask").join(name);
    std::fs::create_dir_all(&folder).doing(format_args!("making {}", folder.display()))?;
    let kept = folder.join("pontoon");
    // Removed first: one that still runs keeps its file.
    let _ = std::fs::remove_file(&kept);
    std::fs::copy(&built, &kept).doing(format_args!("copying {}", built.display()))?;
    Ok(kept)
}

pub(super) fn size(plain: &Path) -> Result<Bar, Error> {
    let bytes = std::fs::metadata(plain)
        .doing(format_args!("looking at {}", plain.display()))?
        .len();
    let megabytes = f64::from(u32::try_from(bytes / 1000).unwrap_or(u32::MAX)) / 1000.0;
    Ok(Bar::at_most("release binary", megabytes, 60.0, " MB"))
}
