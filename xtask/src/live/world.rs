//! `cargo xtask world <feature>`: a feature's test world that keeps running, for manual work.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use tokio::time::sleep;

use super::surroundings::{Surroundings, Wanted, ensure_tools};
use crate::cargo::{self, OperatorBuild};
use crate::interrupt::Interrupt;
use crate::operator::Operator;
use crate::progress::Progress;
use crate::verdict::{Error, Verdict, While};

/// Starts the world of `feature` and runs until stopped.
pub(crate) async fn world(feature: &str) -> Result<Verdict, Error> {
    let progress = Progress::new();
    let operator =
        Operator::with_test_features(progress.aside("building pontoon for chaos", || {
            cargo::operator(OperatorBuild::Chaos)
        })?);
    if !operator.knows(feature)? {
        let features = operator.features()?.join(", ");
        return Err(Error::new(format!(
            "no feature is named {feature}; the features are {features}"
        )));
    }
    let wanted = Wanted {
        kubeconfig: None,
        feature: Some(feature.to_owned()),
    };
    ensure_tools(&wanted, &progress)?;
    // From here on we stop the children ourselves; before, Ctrl-C also reached cargo and go.
    let mut interrupt = Interrupt::listen()?;
    let file = cargo::root().join("target/world/env");
    let run = async {
        let world = Surroundings::start(&wanted, &operator, &progress).await?;
        drop(progress);
        write(&file, &text(&settings(&world)))?;
        println!("{}", file.display());
        eprintln!(
            "In another shell: source {}. Ctrl-C stops everything.",
            file.display()
        );
        loop {
            if let Some(broken) = world.broken() {
                return Err(broken);
            }
            sleep(Duration::from_secs(1)).await;
        }
    };
    let ended = tokio::select! {
        ended = run => ended,
        () = interrupt.wait() => Ok(Verdict::Holds),
    };
    fs::remove_file(&file).ok(); // it may not have been written yet
    ended
}

fn settings(world: &Surroundings) -> Vec<(&'static str, String)> {
    let mut settings = world.settings();
    settings.extend([
        ("PONTOON_PID", world.pontoon.pid().to_string()),
        (
            "PONTOON_LOG",
            world.pontoon.log_path().display().to_string(),
        ),
        (
            "PONTOON_PROBES",
            format!("http://{}", world.probes.address()),
        ),
        (
            "PONTOON_METRICS",
            format!("http://{}/metrics", world.metrics.address()),
        ),
    ]);
    settings
}

fn text(settings: &[(&str, String)]) -> String {
    let lines = settings
        .iter()
        .map(|(name, value)| format!("export {name}={}\n", quoted(value)));
    lines.collect::<Vec<_>>().concat()
}

/// A value quoted as one word for a shell.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', "'\\''"))
}

/// Readable only by its owner, because it contains tokens.
fn write(file: &Path, text: &str) -> Result<(), Error> {
    let folder = file.parent().expect("the file is in a folder");
    fs::create_dir_all(folder).doing(format_args!("making {}", folder.display()))?;
    let open = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(file);
    let written = open.and_then(|mut open| open.write_all(text.as_bytes()));
    written.doing(format_args!("writing {}", file.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::{text, write};

    #[test]
    fn a_shell_reads_the_values_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("world/env");
        let value = "it's $HOME \"and\" `more`";
        write(&file, &text(&[("A", value.to_owned())])).unwrap();
        let script = format!(". {}; printf %s \"$A\"", file.display());
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), value);
        assert_eq!(
            std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}
