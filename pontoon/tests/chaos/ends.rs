//! How things end: the operator under load when told to stop, everything when a test is killed.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::outside::{Outside, holder, launch, probes, start_world, until_ready};
use api::probe::{Probe, READY};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};
use testkit::{Result, World, eventually_within};

/// The operator's own limit for passes to end is 20 s, of a pod's 30.
const DEADLINE: Duration = Duration::from_secs(25);
const FLEET: usize = 200;

/// Nothing yet, an intent alone, or a verdict about a generation: each is one whole write.
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
async fn told_to_stop_under_load_the_operator_ends_in_good_order() -> Result<()> {
    let outside = Outside::start().await?;
    let (world, team) = start_world(outside.world()).await?;
    // Slow enough that passes are under way whenever the signal comes.
    outside.spoil("Put", json!({"delay": "1s"}), None)?;
    launch(&team, FLEET).await?;
    until_ready(&team, 10).await?;

    let status = world.operator().terminate(DEADLINE).await?;
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
    // Passes under way came to their end: whatever was made outside is told of here.
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

/// Set: this binary is a test that will be killed.
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

/// The processes with one of `words` in their command line.
fn running(words: &[String]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        // A process that has ended meanwhile has no command line to read.
        let line = std::fs::read(entry?.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if words.iter().any(|word| line.contains(word.as_str())) {
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
    let lines = BufReader::new(test.stdout.take().expect("stdout was asked for as a pipe")).lines();
    let told = lines.map_while(std::io::Result::ok).filter_map(|line| {
        let word = line
            .strip_prefix("folder=")
            .or(line.strip_prefix("namespace="));
        word.map(str::to_owned)
    });
    let words: Vec<_> = told.take(2).collect();
    let before = running(&words);

    test.kill()?; // SIGKILL: nothing in it runs any more
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
        async || Ok(running(&words)?.is_empty().then_some(())),
    )
    .await
}
