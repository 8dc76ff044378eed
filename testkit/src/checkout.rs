//! The checkout that tests and verbs work in.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::LazyLock,
};

/// The folder of the workspace.
///
/// Cargo and `cargo xtask test` name a package in it when they run a program. The folder in which
/// the program was compiled counts only without them: checkouts may share a target folder.
pub fn checkout() -> &'static Path {
    static CHECKOUT: LazyLock<PathBuf> =
        LazyLock::new(|| checkout_of(std::env::var_os("CARGO_MANIFEST_DIR")));
    &CHECKOUT
}

fn checkout_of(package: Option<OsString>) -> PathBuf {
    let compiled_in = Path::new(env!("CARGO_MANIFEST_DIR"));
    [package.map(PathBuf::from), Some(compiled_in.to_owned())]
        .iter()
        .flatten()
        .flat_map(|package| package.ancestors())
        .find(|folder| folder.join("testkit/tools/versions.toml").is_file())
        .unwrap_or(compiled_in)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_is_run_names_its_own_checkout() {
        let other = tempfile::tempdir().unwrap();
        let tools = other.path().join("testkit/tools");
        std::fs::create_dir_all(&tools).unwrap();
        std::fs::write(tools.join("versions.toml"), "").unwrap();
        let package = other.path().join("features/vault");
        assert_eq!(checkout_of(Some(package.into())), other.path());
    }

    #[test]
    fn without_cargo_the_checkout_of_the_build_is_used() {
        let compiled_in = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        assert_eq!(checkout_of(None), compiled_in);
        assert_eq!(checkout_of(Some("/elsewhere".into())), compiled_in);
    }
}
