//! Worlds of Probes, and their external service: the emulator's `probe`, its log and its oracle.
#![allow(dead_code, reason = "each file of stories uses its part")]

use std::ops::Range;
use std::time::Duration;

use api::probe::{Outside as Wish, Probe, ProbeSpec, READY};
use futures::future::try_join_all;
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use testkit::{Aws, Entry, Mark, Operator, Result, Team, World, WorldPlan, eventually_within};

/// How long a story waits for many objects, or for the next leader.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A world whose operator runs the feature `probe`, in a cluster that earlier stories have used.
pub(crate) fn probe_world() -> WorldPlan {
    World::new().on_reused_plane().feature("probe")
}

/// Starts a world, and creates a namespace for the story.
pub(crate) async fn start_world(plan: WorldPlan) -> Result<(World, Team)> {
    let world = plan.start().await?;
    let team = world.namespace("harbour").await?;
    Ok((world, team))
}

/// An emulator that contains only what the operator under test creates.
pub(crate) struct Outside(Aws);

impl Outside {
    pub(crate) async fn start() -> Result<Self> {
        Ok(Self(Aws::start().await?))
    }

    /// The operator's flag with the address of this emulator.
    pub(crate) fn flag(&self) -> String {
        format!("--probe-outside={}", self.0.url())
    }

    /// A world whose operator uses this emulator.
    pub(crate) fn world(&self) -> WorldPlan {
        probe_world().arg(self.flag())
    }

    /// Adds a fault with this `effect` for `times` calls.
    pub(crate) fn spoil(&self, operation: &str, effect: Value, times: Option<u64>) -> Result<()> {
        let mut rule = json!({"service": "probe", "operation": operation, "effect": effect});
        if let Some(times) = times {
            rule["times"] = json!(times);
        }
        self.0.control(Method::POST, "faults", rule)?;
        Ok(())
    }

    /// Ends all faults.
    pub(crate) fn heal(&self) -> Result<()> {
        self.0.control(Method::DELETE, "faults", Value::Null)?;
        Ok(())
    }

    /// The current things: value and number of changes of each, sorted.
    pub(crate) fn things(&self) -> Result<Vec<(String, u64)>> {
        let state = self.0.control(Method::GET, "state", Value::Null)?;
        let accounts = state["probe"].as_object().into_iter().flatten();
        let things = accounts.flat_map(|(_, things)| things.as_array().into_iter().flatten());
        let summary = |thing: &Value| {
            let value = thing["value"].as_str().unwrap_or_default().to_owned();
            (value, thing["version"].as_u64().unwrap_or_default())
        };
        let mut all: Vec<_> = things.map(summary).collect();
        all.sort();
        Ok(all)
    }

    /// Deletes all things without the operator.
    pub(crate) fn delete_things(&self) -> Result<()> {
        let path = "probe/things/000000000000";
        let there = self.0.control(Method::GET, path, Value::Null)?;
        for thing in there["things"].as_array().into_iter().flatten() {
            let change = json!({"service": "probe", "delete": thing["name"]});
            self.0.control(Method::POST, "mutate", change)?;
        }
        Ok(())
    }

    /// The calls of `operation` so far, from the log.
    pub(crate) fn calls(&self, operation: &str) -> Result<Vec<Value>> {
        let log = self.0.control(Method::GET, "log", Value::Null)?;
        let entries = log["entries"].as_array().cloned().unwrap_or_default();
        Ok(entries
            .into_iter()
            .filter(|call| call["operation"] == operation)
            .collect())
    }

    /// The violations that its oracle found.
    pub(crate) fn violations(&self) -> Result<Vec<Value>> {
        let answer = self.0.control(Method::GET, "violations", Value::Null)?;
        Ok(answer["violations"].as_array().cloned().unwrap_or_default())
    }
}

/// The namespace's Probes.
pub(crate) fn probes(team: &Team) -> Api<Probe> {
    Api::namespaced(team.client(), team.name())
}

/// Creates `count` Probes, each with an external thing whose value is the Probe's name.
pub(crate) async fn launch(team: &Team, count: usize) -> Result<Vec<String>> {
    launch_numbers(team, 0..count).await
}

/// The same for Probes with these numbers.
pub(crate) async fn launch_numbers(team: &Team, numbers: Range<usize>) -> Result<Vec<String>> {
    let api = probes(team);
    let names: Vec<_> = numbers.map(|n| format!("ship-{n:03}")).collect();
    for some in names.chunks(20) {
        try_join_all(some.iter().map(async |name| {
            let outside = Some(Wish {
                value: Some(name.clone()),
                secret: None,
            });
            let spec = ProbeSpec {
                text: name.clone(),
                outside,
                deletion_policy: api::probe::DeletionPolicy::default(),
                behaviour: api::probe::Behaviour::default(),
            };
            api.create(&PostParams::default(), &Probe::new(name, spec))
                .await
        }))
        .await?;
    }
    Ok(names)
}

/// Whether the Probe is ready with its latest spec.
pub(crate) fn is_ready(probe: &Probe) -> bool {
    let conditions = probe.status.iter().flat_map(|status| &status.conditions);
    let mut ready = conditions.filter(|condition| condition.type_ == READY);
    ready.any(|ready| {
        ready.status == "True" && ready.observed_generation == probe.metadata.generation
    })
}

/// Waits until at least `count` Probes are ready.
pub(crate) async fn until_ready(team: &Team, count: usize) -> Result<()> {
    let api = probes(team);
    eventually_within(PATIENCE, &format!("{count} Probes ready"), async || {
        let all = api.list(&ListParams::default()).await?;
        let ready = all.iter().filter(|probe| is_ready(probe)).count();
        Ok((ready >= count).then_some(()))
    })
    .await
}

/// Waits until this process of `operator` has ended `count` passes over Probes with success.
pub(crate) async fn until_passed(operator: &Operator, count: u32) -> Result<()> {
    let labels = [("kind", "Probe"), ("outcome", "done")];
    eventually_within(PATIENCE, &format!("{count} passes done"), async || {
        let done = operator.metric("pontoon_reconcile_total", &labels).await?;
        Ok((done >= f64::from(count)).then_some(()))
    })
    .await
}

/// Waits until `operator` leads.
pub(crate) async fn until_leading(operator: &Operator) -> Result<()> {
    eventually_within(PATIENCE, "the operator leads", async || {
        let leads = operator.metric("pontoon_leader", &[]).await?;
        Ok((leads > 0.0).then_some(()))
    })
    .await
}

/// The Leases in the operator's own namespace.
pub(crate) fn leases(world: &World) -> Api<Lease> {
    Api::namespaced(world.control_plane().admin(), world.operator_namespace())
}

/// The holder of a Lease in the operator's namespace; empty if there is none.
pub(crate) async fn holder(world: &World, lease: &str) -> Result<String> {
    let spec = leases(world).get(lease).await?.spec;
    Ok(spec
        .and_then(|spec| spec.holder_identity)
        .unwrap_or_default())
}

/// Ends a dead operator's leadership at once, so that a story need not wait for its expiry.
pub(crate) async fn bury(world: &World) -> Result<()> {
    leases(world)
        .delete("pontoon", &DeleteParams::default())
        .await?;
    Ok(())
}

/// The operators' writes since `mark` without Leases and events, as `patch probes/status`.
pub(crate) async fn writes(world: &World, mark: Mark) -> Result<Vec<String>> {
    let all = world.writes_since(mark).await?;
    let kept = all.iter().filter(|write| write.resource != "events");
    Ok(kept.map(label).collect())
}

fn label(write: &Entry) -> String {
    let Entry {
        verb,
        resource,
        subresource,
        ..
    } = write;
    match subresource.as_str() {
        "" => format!("{verb} {resource}"),
        part => format!("{verb} {resource}/{part}"),
    }
}
