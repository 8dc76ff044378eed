//! Two replicas: one acts, and when it dies, ends or stalls, the other continues.

use std::cell::Cell;
use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use crate::outside::{
    Outside, PATIENCE, holder, is_ready, launch, probes, until_leading, until_passed, until_ready,
    writes,
};
use api::probe::Probe;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding, Subject};
use kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testkit::{Entry, Operator, OperatorOptions, Result, World, WorldPlan, eventually_within};

/// Leases that expire within a test, and are renewed in time on a busy machine.
const SHORT_LEASE: [&str; 3] = [
    "--lease-duration=5s",
    "--lease-renew-deadline=3s",
    "--lease-retry-period=500ms",
];
/// Leases that do not expire within a test.
const LONG_LEASE: [&str; 3] = [
    "--lease-duration=600s",
    "--lease-renew-deadline=500s",
    "--lease-retry-period=500ms",
];

/// The pause between two edits, so that the replicas can keep up.
const PAUSE: Duration = Duration::from_millis(20);

fn plan(outside: &Outside, lease: [&str; 3]) -> WorldPlan {
    lease.into_iter().fold(outside.world(), WorldPlan::arg)
}

#[tokio::test]
async fn after_the_leaders_death_the_other_writes_only_what_is_needed() -> Result<()> {
    let outside = Outside::start().await?;
    let world = plan(&outside, SHORT_LEASE).start().await?;
    let other = world.replica("other").await?;
    let team = world.namespace("harbour").await?;
    launch(&team, 20).await?;
    until_ready(&team, 20).await?;

    let mark = world.mark();
    world.operator().kill();
    until_leading(&other).await?;
    until_passed(&other, 20).await?;
    assert_eq!(writes(&world, mark).await?, Vec::<String>::new());

    let edit = Patch::Merge(json!({"spec": {"outside": {"value": "new cargo"}}}));
    probes(&team)
        .patch("ship-007", &PatchParams::default(), &edit)
        .await?;
    team.until::<Probe>("ship-007", is_ready).await?;
    let things = outside.things()?;
    assert_eq!(
        (things.len(), &things[0]),
        (20, &("new cargo".to_owned(), 2))
    );
    assert_eq!(outside.violations()?, Vec::<Value>::new());
    Ok(())
}

#[tokio::test]
async fn a_leader_that_ends_releases_its_lease_to_the_other() -> Result<()> {
    let outside = Outside::start().await?;
    let world = plan(&outside, LONG_LEASE).start().await?;
    until_leading(world.operator()).await?;
    let other = world.replica("other").await?;
    let team = world.namespace("harbour").await?;
    launch(&team, 5).await?;
    until_ready(&team, 5).await?;
    let first = holder(&world, "pontoon").await?;

    let mark = world.mark();
    let status = world.operator().terminate(Duration::from_secs(25)).await?;
    assert_eq!(status.code(), Some(0), "{status}");
    // The lease would have lasted for minutes.
    until_leading(&other).await?;
    until_passed(&other, 5).await?;
    assert_ne!(holder(&world, "pontoon").await?, first);
    assert_eq!(writes(&world, mark).await?, Vec::<String>::new());
    Ok(())
}

/// A kubeconfig for another ServiceAccount with the operator's permissions, so that the audit log
/// distinguishes the replicas.
async fn second_account(world: &World) -> Result<PathBuf> {
    let (plane, home) = (world.control_plane(), world.operator_namespace());
    let name = "second";
    let kubeconfig = plane.as_service_account(home, name).await?;
    let subject = |all: &mut Option<Vec<Subject>>| {
        let mut ours = all
            .iter_mut()
            .flatten()
            .filter(|one| one.namespace.as_deref() == Some(home));
        ours.next()
            .map(|one| name.clone_into(&mut one.name))
            .is_some()
    };
    let renamed = |before: &ObjectMeta| ObjectMeta {
        name: before
            .name
            .as_ref()
            .map(|before| format!("{before}-{name}")),
        ..ObjectMeta::default()
    };
    let everywhere = Api::<ClusterRoleBinding>::all(plane.admin());
    for mut binding in everywhere.list(&ListParams::default()).await? {
        if subject(&mut binding.subjects) {
            binding.metadata = renamed(&binding.metadata);
            everywhere.create(&PostParams::default(), &binding).await?;
        }
    }
    let here = Api::<RoleBinding>::namespaced(plane.admin(), home);
    for mut binding in here.list(&ListParams::default()).await? {
        if subject(&mut binding.subjects) {
            binding.metadata = renamed(&binding.metadata);
            here.create(&PostParams::default(), &binding).await?;
        }
    }
    Ok(kubeconfig)
}

/// One more replica, with its own account and external service. Once it leads, its lease is long
/// enough for a busy machine: otherwise a thawed leader could lead again.
async fn second(world: &World, kubeconfig: PathBuf, outside: &Outside) -> Result<Operator> {
    let args = LONG_LEASE.map(str::to_owned).into_iter();
    let options = OperatorOptions {
        kubeconfig,
        features: vec!["probe".into()],
        lease_namespace: world.operator_namespace().to_owned(),
        args: args.chain([outside.flag()]).collect(),
        ..OperatorOptions::default()
    };
    Operator::start("second", world.control_plane().scratch(), options).await
}

/// Repeatedly gives each Probe a new text and a new value; `edits` counts.
async fn edit_without_end(
    api: &Api<Probe>,
    names: &[String],
    edits: &Cell<u64>,
) -> Result<Infallible> {
    loop {
        for name in names {
            let text = format!("{name} {:06}", edits.get());
            let edit = Patch::Merge(json!({"spec": {"text": text, "outside": {"value": text}}}));
            api.patch(name, &PatchParams::default(), &edit).await?;
            edits.set(edits.get() + 1);
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Waits until `count` more edits were made.
async fn more(edits: &Cell<u64>, count: u64) -> Result<()> {
    let goal = edits.get() + count;
    eventually_within(PATIENCE, "more edits", async || {
        Ok((edits.get() >= goal).then_some(()))
    })
    .await
}

/// The external writes of this replica, which has its own external service.
fn written_outside(outside: &Outside) -> Result<usize> {
    Ok(outside.calls("Put")?.len() + outside.calls("Delete")?.len())
}

#[tokio::test]
async fn a_frozen_leader_writes_nothing_after_its_successor_began() -> Result<()> {
    // Each replica has its own external service, so that the log shows which replica wrote.
    let (stalled, fresh) = (Outside::start().await?, Outside::start().await?);
    let world = plan(&stalled, SHORT_LEASE).start().await?;
    until_leading(world.operator()).await?;
    let account = second_account(&world).await?;
    let team = world.namespace("harbour").await?;
    let names = launch(&team, 50).await?;
    until_ready(&team, 50).await?;

    let (api, edits) = (probes(&team), Cell::new(0));
    let user = |name: &str| {
        format!(
            "system:serviceaccount:{}:{name}",
            world.operator_namespace()
        )
    };
    let mark = world.mark();
    let story = async {
        eventually_within(PATIENCE, "the leader writes under load", async || {
            Ok((written_outside(&stalled)? > 100).then_some(()))
        })
        .await?;
        world.operator().freeze()?;
        let successor = second(&world, account, &fresh).await?;
        until_leading(&successor).await?;
        until_passed(&successor, 50).await?;
        let before = written_outside(&stalled)?;
        world.operator().thaw()?;
        eventually_within(PATIENCE, "the thawed leader stands by", async || {
            let answer = world.operator().probe("/readyz?verbose").await;
            Ok(answer
                .is_ok_and(|(_, text)| text.contains("lease standby"))
                .then_some(()))
        })
        .await?;
        more(&edits, 200).await?;
        assert_eq!(written_outside(&stalled)?, before);
        Result::<Operator>::Ok(successor)
    };
    let _successor = tokio::select! {
        ended = edit_without_end(&api, &names, &edits) => ended.map(|never| match never {})?,
        successor = story => successor?,
    };
    until_ready(&team, 50).await?;

    let plane = world.control_plane();
    let writes = plane.writes_since(mark, |write| !write.is_lease()).await?;
    let by = |name: &str| {
        writes
            .iter()
            .filter(|write| write.user == user(name))
            .collect::<Vec<&Entry>>()
    };
    let begun = by("second")[0].time;
    let (ours, theirs) = (by("pontoon"), by("second"));
    assert!(
        ours.len() > 50 && theirs.len() > 50,
        "both have led under load"
    );
    let late: Vec<_> = ours
        .into_iter()
        .filter(|write| write.time >= begun)
        .collect();
    assert_eq!(late, Vec::<&Entry>::new());

    let wanted: Vec<_> = api
        .list(&ListParams::default())
        .await?
        .into_iter()
        .map(|probe| probe.spec.text)
        .collect();
    let there: Vec<_> = fresh
        .things()?
        .into_iter()
        .map(|(value, _)| value)
        .collect();
    assert_eq!(there, wanted);
    assert_eq!(
        (stalled.violations()?, fresh.violations()?),
        (vec![], vec![])
    );
    Ok(())
}
