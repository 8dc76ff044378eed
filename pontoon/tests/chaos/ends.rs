//! Shutdown: the operator on SIGTERM under load, and all processes of a killed test.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::outside::{Outside, holder, launch, launch_numbers, probes, start_world, until_ready};
use api::probe::{Probe, READY};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};
use testkit::{Result, World, eventually_within};

/// The operator gives passes 20 s to end; a pod has 30 s.
const DEADLINE: Duration = Duration::from_secs(25);
const FLEET: usize = 200;
/// So many of them exist before the signal.
const FIRST: usize = 50;

/// Whether the status is empty, only an intent, or a complete report about a generation.
fn is_whole(probe: &Probe) -> bool {
    let Some(status) = &probe.status else {
        return true;
    };
    let verdict = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == READY);
    match verdict {
        Some(verdict) => {
            verdict.observed_generation.is_some() && status.last_reconcile_id.is_some()
        }
        None => status.conditions.is_empty() && status.outside_name.is_some(),
    }
}

#[tokio::test]
async fn on_sigterm_under_load_the_operator_ends_cleanly() -> Result<()> {
    let outside = Outside::start().await?;
    let (world, team) = start_world(outside.world()).await?;
    // Slow enough that passes are running when the signal comes, while further objects arrive.
    outside.spoil("Put", json!({"delay": "1s"}), None)?;
    launch(&team, FIRST).await?;
    until_ready(&team, 10).await?;

    let (later, status) = tokio::join!(
        launch_numbers(&team, FIRST..FLEET),
        world.operator().terminate(DEADLINE),
    );
    later?;
    let status = status?;
    assert_eq!(status.code(), Some(0), "{status}");
    assert_eq!(holder(&world, "pontoon").await?, "");
    let left: Vec<_> = probes(&team).list(&ListParams::default()).await?.items;
    let half: Vec<_> = left
        .iter()
        .filter(|probe| !is_whole(probe))
        .map(ResourceExt::name_any)
        .collect();
    assert_eq!(half, Vec::<String>::new());
    let done = left
        .iter()
        .filter(|probe| crate::outside::is_ready(probe))
        .count();
    assert!(done < FLEET, "the signal came under load");
    // Running passes ended normally: status names all external resources.
    assert_eq!(outside.things()?.len(), done);

    outside.heal()?;
    world.operator().restart(|_| {}).await?;
    until_ready(&team, FLEET).await?;
    let names: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
    let there: Vec<_> = outside
        .things()?
        .into_iter()
        .map(|(value, _)| value)
        .collect();
    assert_eq!(there, names);
    assert_eq!(outside.violations()?, Vec::<Value>::new());
    Ok(())
}

/// If set, this binary is a test that will be killed.
const DOOMED: &str = "PONTOON_TEST_DOOMED";

/// Not a test: what this binary does when the test below starts it.
#[tokio::test]
async fn doomed() -> Result<()> {
    if std::env::var_os(DOOMED).is_none() {
        return Ok(());
    }
    let world = World::new().feature("probe").start().await?;
    let folder = world.control_plane().scratch().path().to_owned();
    println!("\nfolder={}", folder.display());
    println!("namespace={}", world.operator_namespace());
    std::future::pending().await
}

/// The processes with one of `markers` in their command line.
fn running(markers: &[String]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        // A process that has ended meanwhile has no command line to read.
        let line = std::fs::read(entry?.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if markers.iter().any(|marker| line.contains(marker.as_str())) {
            found.push(line);
        }
    }
    Ok(found)
}

#[tokio::test]
async fn a_killed_test_leaves_no_process_behind() -> Result<()> {
    let mut test = Command::new(std::env::current_exe()?)
        .args(["--exact", "ends::doomed", "--nocapture"])
        .env(DOOMED, "yes")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let lines = BufReader::new(test.stdout.take().expect("stdout is a pipe")).lines();
    let printed = lines.map_while(std::io::Result::ok).filter_map(|line| {
        let marker = line
            .strip_prefix("folder=")
            .or(line.strip_prefix("namespace="));
        marker.map(str::to_owned)
    });
    let markers: Vec<_> = printed.take(2).collect();
    let before = running(&markers);

    test.kill()?; // SIGKILL: the test runs no more code
    test.wait()?;
    let before = before?;
    for program in ["etcd", "kube-apiserver", "--health-probe-bind-address"] {
        assert!(
            before.iter().any(|line| line.contains(program)),
            "{program} among {before:#?}"
        );
    }
    eventually_within(
        Duration::from_secs(30),
        "all its processes are gone",
        async || Ok(running(&markers)?.is_empty().then_some(())),
    )
    .await
}
