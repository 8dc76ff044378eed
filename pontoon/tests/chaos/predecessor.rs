//! The Lease of the controller that a feature replaces: we wait for it if the predecessor has it, and
//! take it at once from another replica of ours.

use std::time::Duration;

use crate::outside::{Outside, bury, holder, leases, probes, start_world, until_leading, writes};
use api::probe::Probe;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use testkit::{Result, World, eventually_within, is};

const FLAG: &str = "--probe-legacy-lease=old";
const FERRY: &str = "
apiVersion: probe.pontoon.io/v1alpha1
kind: Probe
metadata: {name: ferry}
spec: {text: moored, outside: {value: anchor}}
";
/// Longer than the time between two checks of that Lease by the leader.
const TWO_CHECKS: Duration = Duration::from_secs(60);

/// The readiness line about the predecessor's Lease.
async fn lease_readiness(world: &World) -> Result<String> {
    let (_, text) = world.operator().probe("/readyz?verbose").await?;
    let line = text
        .lines()
        .find(|line| line.contains("predecessor's lease"));
    Ok(line.unwrap_or_default().to_owned())
}

async fn until_readiness(world: &World, wanted: &str) -> Result<()> {
    eventually_within(TWO_CHECKS, &format!("readyz says {wanted:?}"), async || {
        Ok(lease_readiness(world).await?.contains(wanted).then_some(()))
    })
    .await
}

/// A predecessor holds its Lease, in the operator's namespace.
async fn predecessor_holds(world: &World) -> Result<()> {
    let spec = LeaseSpec {
        holder_identity: Some("predecessor-1".into()),
        lease_duration_seconds: Some(15),
        ..LeaseSpec::default()
    };
    let metadata = ObjectMeta {
        name: Some("old".into()),
        ..ObjectMeta::default()
    };
    let lease = Lease {
        metadata,
        spec: Some(spec),
    };
    leases(world).create(&PostParams::default(), &lease).await?;
    Ok(())
}

/// Another pod of the predecessor renews it.
async fn predecessor_renews(world: &World, pod: &str) -> Result<()> {
    let renewed = Patch::Merge(json!({"spec": {"holderIdentity": pod}}));
    leases(world)
        .patch("old", &PatchParams::default(), &renewed)
        .await?;
    Ok(())
}

#[tokio::test]
async fn the_feature_waits_until_the_predecessors_lease_expires() -> Result<()> {
    let outside = Outside::start().await?;
    let world = outside.world().start().await?;
    until_leading(world.operator()).await?;
    predecessor_holds(&world).await?;
    world.operator().kill();
    bury(&world).await?;
    world
        .operator()
        .restart(|options| options.args.push(FLAG.into()))
        .await?;
    let team = world.namespace("harbour").await?;
    let mark = world.mark();
    team.apply(FERRY).await?;

    // Two checks with a renewal between them: readiness names the holder each time.
    let home = world.operator_namespace().to_owned();
    until_readiness(&world, &format!("{home}/old held by predecessor-1")).await?;
    predecessor_renews(&world, "predecessor-2").await?;
    until_readiness(&world, &format!("{home}/old held by predecessor-2")).await?;
    assert!(lease_readiness(&world).await?.starts_with("[-]probe"));
    assert_eq!(writes(&world, mark).await?, Vec::<String>::new());
    assert_eq!(outside.calls("Get")?.len(), 0);
    assert_eq!(probes(&team).get("ferry").await?.status, None);

    // The predecessor renews no more.
    let team = team.within(TWO_CHECKS);
    team.until::<Probe>("ferry", is("Ready", "Succeeded"))
        .await?;
    assert!(
        holder(&world, "old")
            .await?
            .starts_with(&format!("pontoon/{home}/"))
    );
    until_readiness(&world, "[+]probe predecessor's lease").await?;
    Ok(())
}

#[tokio::test]
async fn the_predecessors_lease_is_taken_at_once_from_a_replica() -> Result<()> {
    let outside = Outside::start().await?;
    let plan = outside.world().arg(FLAG);
    let plan = plan
        .arg("--lease-duration=5s")
        .arg("--lease-renew-deadline=3s");
    let (world, team) = start_world(plan.arg("--lease-retry-period=500ms")).await?;
    team.apply(FERRY).await?;
    team.until::<Probe>("ferry", is("Ready", "Succeeded"))
        .await?;
    let first = holder(&world, "old").await?;
    assert!(
        first.starts_with(&format!("pontoon/{}/", world.operator_namespace())),
        "{first}"
    );

    let other = world.replica("other").await?;
    world.operator().kill();
    until_leading(&other).await?;
    // From the predecessor it would have taken a minute.
    let team = team.within(Duration::from_secs(40));
    team.apply(&FERRY.replace("anchor", "buoy")).await?;
    team.until::<Probe>("ferry", is("Ready", "Succeeded"))
        .await?;
    assert_ne!(holder(&world, "old").await?, first);
    assert_eq!(outside.things()?, [("buoy".to_owned(), 2)]);
    assert_eq!(outside.violations()?, Vec::<serde_json::Value>::new());
    Ok(())
}
