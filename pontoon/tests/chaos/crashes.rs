//! The operator dies, or an answer is lost, at the worst time: nothing is created twice, and nothing
//! is left over.

use std::os::unix::process::ExitStatusExt;

use crate::outside::{Outside, PATIENCE, probes, start_world, until_passed, writes};
use api::probe::{FINALIZER, Probe};
use jiff::Timestamp;
use rstest::rstest;
use serde_json::json;
use testkit::{Result, Team, World, is};

const FERRY: &str = "
apiVersion: probe.pontoon.io/v1alpha1
kind: Probe
metadata: {name: ferry}
spec: {text: moored, outside: {value: anchor}}
";

/// All writes for a Probe from its creation to its deletion: finalizer, name, ConfigMap, status; at
/// the end the finalizer again.
const LIFE: [&str; 5] = [
    "patch probes",
    "patch probes/status",
    "patch configmaps",
    "patch probes/status",
    "patch probes",
];

/// When the operator dies, relative to the lifecycle of the Probe.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dies {
    Coming,
    Going,
}

/// Waits until the operator has aborted, and starts it again without a kill point.
async fn revive(world: &World) -> Result<()> {
    let status = world.operator().ended(PATIENCE).await?;
    assert_eq!(status.signal(), Some(6), "{status}");
    world
        .restart_operator(|options| options.kill_point = None)
        .await
}

#[rstest]
#[case::before_the_finalizer("before-write#1", Dies::Coming)]
#[case::after_the_finalizer("after-write#1", Dies::Coming)]
#[case::before_the_name("before-write#2", Dies::Coming)]
#[case::after_the_name("after-write#2", Dies::Coming)]
#[case::before_the_put("probe.put.before", Dies::Coming)]
#[case::after_the_put("probe.put.after", Dies::Coming)]
#[case::before_the_config_map("before-write#3", Dies::Coming)]
#[case::after_the_config_map("after-write#3", Dies::Coming)]
#[case::before_the_status("before-write#4", Dies::Coming)]
#[case::after_the_status("after-write#4", Dies::Coming)]
#[case::before_the_delete("probe.remove.before", Dies::Going)]
#[case::after_the_delete("probe.remove.after", Dies::Going)]
#[case::before_the_release("probe.metadata.before#2", Dies::Going)]
#[case::before_the_finalizer_goes("before-write#5", Dies::Going)]
#[case::after_the_finalizer_went("after-write#5", Dies::Going)]
#[tokio::test]
async fn a_crash_repeats_nothing_and_leaves_nothing_over(
    #[case] point: &str,
    #[case] dies: Dies,
) -> Result<()> {
    let outside = Outside::start().await?;
    let (world, team) = start_world(outside.world().kill_point(point)).await?;
    let mark = world.mark();

    team.apply(FERRY).await?;
    if dies == Dies::Coming {
        revive(&world).await?;
    }
    team.until::<Probe>("ferry", is("Ready", "Succeeded"))
        .await?;
    until_passed(world.operator(), 1).await?;
    assert_eq!(outside.things()?, [("anchor".to_owned(), 1)]);

    team.delete::<Probe>("ferry").await?;
    if dies == Dies::Going {
        revive(&world).await?;
    }
    team.gone::<Probe>("ferry").await?;

    assert_eq!(outside.things()?, []);
    assert_eq!(outside.calls("Put")?.len(), 1);
    assert_eq!(outside.calls("Delete")?.len(), 1);
    assert_eq!(outside.violations()?, Vec::<serde_json::Value>::new());
    assert_eq!(writes(&world, mark).await?, LIFE);
    Ok(())
}

#[tokio::test]
async fn kill_points_are_chosen_while_the_operator_runs() -> Result<()> {
    let outside = Outside::start().await?;
    let (world, team) = start_world(outside.world()).await?;
    let (operator, points) = (world.operator(), world.operator().kill_file());

    points.pause("probe.put.before")?;
    team.apply(FERRY).await?;
    operator.logs("kill point probe.put.before held").await?;
    assert_eq!(outside.things()?, []);
    points.release("probe.put.before")?;
    team.until::<Probe>("ferry", is("Ready", "Succeeded"))
        .await?;

    points.abort("probe.remove.before#1")?;
    team.delete::<Probe>("ferry").await?;
    operator.died().await?;
    assert_eq!(points.fired()?, ["probe.remove.before#1"]);
    world.restart_operator(|_| {}).await?;
    team.gone::<Probe>("ferry").await?;
    assert_eq!(outside.calls("Put")?.len(), 1);
    assert_eq!(outside.calls("Delete")?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn finalizer_and_name_are_written_before_the_first_put() -> Result<()> {
    let outside = Outside::start().await?;
    let (world, team) = start_world(outside.world()).await?;
    let mark = world.mark();
    team.apply(FERRY).await?;
    team.until::<Probe>("ferry", is("Ready", "Succeeded"))
        .await?;

    let puts = outside.calls("Put")?;
    let put: Timestamp = puts[0]["time"].as_str().unwrap_or_default().parse()?;
    let audit = world.writes_since(mark).await?;
    let ours = audit.iter().filter(|write| write.resource == "probes");
    let before = ours.filter(|write| write.time < put && write.code == 200);
    let before: Vec<_> = before.map(|write| write.subresource.as_str()).collect();
    assert_eq!(before, ["", "status"]);
    Ok(())
}

#[tokio::test]
async fn at_the_first_put_the_object_has_finalizer_and_name() -> Result<()> {
    let outside = Outside::start().await?;
    let plan = outside.world().kill_point("probe.put.before");
    let (world, team) = start_world(plan).await?;
    team.apply(FERRY).await?;
    world.operator().ended(PATIENCE).await?;

    let ferry = probes(&team).get("ferry").await?;
    assert_eq!(ferry.metadata.finalizers, Some(vec![FINALIZER.to_owned()]));
    assert!(
        ferry
            .status
            .is_some_and(|status| status.outside_name.is_some())
    );
    assert_eq!(outside.things()?, []);
    Ok(())
}

/// Sets the external value of the ferry, and waits until the Probe is ready with it.
async fn load(team: &Team, value: &str) -> Result<()> {
    team.apply(&FERRY.replace("anchor", value)).await?;
    team.until::<Probe>("ferry", is("Ready", "Succeeded"))
        .await?;
    Ok(())
}

#[rstest]
#[case::puts_that_never_arrive("Put", "cutBefore", [4, 5, 6], 1)]
#[case::puts_whose_answer_is_lost("Put", "cutAfter", [1, 2, 3], 1)]
#[case::deletes_that_never_arrive("Delete", "cutBefore", [1, 2, 3], 4)]
#[case::deletes_whose_answer_is_lost("Delete", "cutAfter", [1, 2, 3], 1)]
#[tokio::test]
async fn calls_without_an_answer_take_effect_once(
    #[case] operation: &str,
    #[case] effect: &str,
    #[case] puts: [usize; 3],
    #[case] deletes: usize,
) -> Result<()> {
    let outside = Outside::start().await?;
    // Time runs 60 times as fast, so that back-off is short.
    let (_world, team) = start_world(outside.world().time(60)).await?;
    outside.spoil(operation, json!(effect), Some(3))?;

    let mut version = 0;
    for (value, calls) in ["oars", "sails", "coal"].iter().zip(puts) {
        version += 1;
        load(&team, value).await?;
        assert_eq!(outside.things()?, [((*value).to_owned(), version)]);
        assert_eq!(outside.calls("Put")?.len(), calls);
    }

    team.delete::<Probe>("ferry").await?;
    team.gone::<Probe>("ferry").await?;
    assert_eq!(outside.things()?, []);
    assert_eq!(outside.calls("Delete")?.len(), deletes);
    assert_eq!(outside.violations()?, Vec::<serde_json::Value>::new());
    Ok(())
}
