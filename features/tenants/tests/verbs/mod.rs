//! The verbs of the command line, as an administrator uses them.

use std::process::{Command, Output, Stdio};

use testkit::Result;

use crate::stories::Site;

/// Pontoon, for an administrator of the cluster with keys of the account.
pub(crate) fn pontoon(site: &Site) -> Result<Command> {
    let mut command = Command::new(testkit::binary(None)?);
    let kubeconfig = site.world.control_plane().kubeconfig();
    command
        .stdin(Stdio::null())
        .envs(site.aws.env())
        .env("KUBECONFIG", kubeconfig);
    Ok(command)
}

/// Runs a verb as the administrator.
pub(crate) fn ask(site: &Site, args: &[&str]) -> Result<Output> {
    Ok(pontoon(site)?.arg("tenants").args(args).output()?)
}

/// Checks the exit code; answers what was printed as a result.
pub(crate) fn ends(output: &Output, code: i32) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, besides) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{said}\n{besides}");
    said
}

/// Checks that these words are on one line.
pub(crate) fn has_line(said: &str, words: &[&str]) {
    let found = said
        .lines()
        .any(|line| words.iter().all(|word| line.contains(word)));
    assert!(found, "no line with {words:?}:\n{said}");
}
