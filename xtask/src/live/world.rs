//! `cargo xtask world <feature>`: a feature's test world that keeps running, for manual work.

use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use testkit::WorldPlan;
use tokio::time::sleep;

use super::clusters;
use super::migrate::{self, MigrateFlags, MigrateWorld};
use super::surroundings::{Surroundings, Wanted, deep, ensure_tools};
use crate::cargo::{self, OperatorBuild};
use crate::interrupt::Interrupt;
use crate::operator::Operator;
use crate::progress::Progress;
use crate::tools;
use crate::verdict::{Error, Verdict, While};

/// The files of a running world, in `target/world`.
const ENV: &str = "env";
const PIDS: &str = "pids";

/// Starts the world of `feature` and runs until stopped.
pub(crate) async fn world(feature: &str, flags: &MigrateFlags) -> Result<Verdict, Error> {
    flags.fit(feature)?;
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
    let folder = cargo::root().join("target/world");
    let ended = match (feature, clusters::plan(feature)) {
        ("migrate", _) => Box::pin(run_migrate(flags, &operator, progress, &folder)).await,
        (_, Some(plan)) => Box::pin(run_clusters(plan, &operator, progress, &folder)).await,
        (_, None) => Box::pin(run_one(feature, &operator, progress, &folder)).await,
    };
    for name in [ENV, PIDS] {
        fs::remove_file(folder.join(name)).ok(); // it may not have been written
    }
    ended
}

/// One cluster, Vault and AWS.
async fn run_one(
    feature: &str,
    operator: &Operator,
    progress: Progress,
    folder: &Path,
) -> Result<Verdict, Error> {
    let wanted = Wanted {
        kubeconfig: None,
        feature: Some(feature.to_owned()),
    };
    ensure_tools(&wanted, &progress)?;
    let run = async {
        let world = Surroundings::start(&wanted, operator, &progress).await?;
        drop(progress);
        announce(&folder.join(ENV), &text(&settings(&world)))?;
        loop {
            if let Some(broken) = world.broken() {
                return Err(broken);
            }
            sleep(Duration::from_secs(1)).await;
        }
    };
    until_interrupted(Box::pin(run)).await
}

/// Several clusters. It runs on if an operator ends: killing them is what such a world is for.
async fn run_clusters(
    plan: WorldPlan,
    operator: &Operator,
    progress: Progress,
    folder: &Path,
) -> Result<Verdict, Error> {
    tools::ensure(&clusters::TOOLS, &progress)?;
    let run = async {
        progress.step("starting the clusters");
        let world = plan.binary(operator.path()).start().await.map_err(deep)?;
        drop(progress);
        let pids = folder.join(PIDS);
        write(&pids, &clusters::pid_lines(&world))?;
        let settings = clusters::settings(&world, &pids);
        announce(&folder.join(ENV), &text(&settings))?;
        std::future::pending().await
    };
    until_interrupted(Box::pin(run)).await
}

/// The clusters, disks and StatefulSet of `migrate`. Pontoon is started again whenever it ends.
async fn run_migrate(
    flags: &MigrateFlags,
    operator: &Operator,
    progress: Progress,
    folder: &Path,
) -> Result<Verdict, Error> {
    tools::ensure(&migrate::TOOLS, &progress)?;
    let run = async {
        let world = Box::pin(MigrateWorld::start(flags, operator.path(), &progress)).await?;
        drop(progress);
        let pids = folder.join(PIDS);
        write(&pids, &world.pid_lines())?;
        announce(&folder.join(ENV), &text(&world.settings(&pids)?))?;
        Err(world.follow(&pids).await)
    };
    until_interrupted(Box::pin(run)).await
}

/// Runs until Ctrl-C, which from here on leaves it to us to stop the children; before, it also reached
/// cargo and go.
async fn until_interrupted(
    run: impl Future<Output = Result<Verdict, Error>>,
) -> Result<Verdict, Error> {
    let mut interrupt = Interrupt::listen()?;
    tokio::select! {
        ended = run => ended,
        () = interrupt.wait() => Ok(Verdict::Holds),
    }
}

/// Writes the settings, and prints where they are.
fn announce(file: &Path, text: &str) -> Result<(), Error> {
    write(file, text)?;
    println!("{}", file.display());
    eprintln!(
        "In another shell: source {}. Ctrl-C stops everything.",
        file.display()
    );
    Ok(())
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

fn text(settings: &[(impl Display, String)]) -> String {
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
pub(super) fn write(file: &Path, text: &str) -> Result<(), Error> {
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
