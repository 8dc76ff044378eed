//! The writes, in the order of the plan.

use api::probe::{FINALIZER, OWNED_LABEL, Probe, ProbeStatus};
use engine::{Cache, Classified, Kind, Pass, Recorded, kill_point};
use k8s_openapi::api::core::v1::ConfigMap;
use kernel::{Class, Progress};
use kube::Resource;
use serde_json::json;

use super::plan::Step;
use super::{Error, Stop};
use crate::Ctx;

/// Proof that the plan was carried out.
pub(super) struct Applied {
    pub(super) outside_name: Option<String>,
}

impl From<Applied> for Progress {
    fn from(_: Applied) -> Self {
        Self::done()
    }
}

pub(super) async fn apply(
    probe: &Probe,
    steps: Vec<Step>,
    ctx: &Ctx,
    owned: &Cache,
    pass: &mut Pass,
) -> Result<Applied, Stop> {
    let mut outside_name = probe
        .status
        .as_ref()
        .and_then(|status| status.outside_name.clone());
    for step in steps {
        match step {
            Step::Record(name) => record(probe, &name, pass).await?,
            Step::Put(thing) => {
                ctx.outside
                    .as_ref()
                    .ok_or(Error::NoOutside)?
                    .put(&thing)
                    .await
                    .map_err(Error::from)?;
                outside_name = Some(thing.name);
            }
            Step::Remove { name, marker } => {
                ctx.outside
                    .as_ref()
                    .ok_or(Error::NoOutside)?
                    .delete(&name, &marker)
                    .await
                    .map_err(Error::from)?;
                outside_name = None;
            }
            Step::Write(text) => write(probe, &text, ctx, owned, pass).await?,
            Step::Release => {
                kill_point("before-release");
                pass.drop_finalizer(FINALIZER).await.map_err(Error::from)?;
            }
        }
    }
    Ok(Applied { outside_name })
}

/// A finalizer, then the name: each by a pass of its own, both before the first call outside.
async fn record(probe: &Probe, name: &str, pass: &mut Pass) -> Result<(), Stop> {
    if pass
        .ensure_finalizer(FINALIZER)
        .await
        .map_err(Error::from)?
        == Recorded::Now
    {
        return Err(Stop::Again);
    }
    let status = ProbeStatus {
        outside_name: Some(name.to_owned()),
        ..probe.status.clone().unwrap_or_default()
    };
    match pass.write_intent(&status).await.map_err(Error::from)? {
        Recorded::Now => Err(Stop::Again),
        Recorded::Already => Ok(()),
    }
}

/// Makes the ConfigMap hold `text`.
pub(super) async fn write(
    probe: &Probe,
    text: &str,
    ctx: &Ctx,
    owned: &Cache,
    pass: &Pass,
) -> Result<(), Stop> {
    let metadata = json!({
        "name": probe.metadata.name,
        "namespace": probe.metadata.namespace,
        "labels": {OWNED_LABEL: "true"},
        "ownerReferences": [probe.controller_owner_ref(&())],
    });
    let kind = Kind::of::<ConfigMap>();
    let desired = json!({"metadata": metadata, "data": {"text": text}});
    // Followed as metadata, so a known one is read before it is compared; and one that may only
    // not have been listed yet, so that the first pass of a process repeats no write.
    let maybe = owned.store().get(pass.key()).is_some() || !owned.store().is_synced();
    let live = if maybe {
        ctx.applier
            .read(&kind, pass.key())
            .await
            .map_err(Error::from)?
    } else {
        None
    };
    // It is ours (`validate` looked), so a hand that edited it does not keep what it took.
    match ctx
        .applier
        .adopt(&kind, desired.clone(), live.as_ref())
        .await
    {
        // It is there, but the cache does not show it: its label was removed.
        Err(error) if live.is_none() && error.class() == Class::Stale => {
            let live = ctx.applier.read(&kind, pass.key()).await;
            let live = live.map_err(Error::from)?;
            let adopted = ctx.applier.adopt(&kind, desired, live.as_ref()).await;
            adopted.map_err(Error::from)?;
        }
        other => drop(other.map_err(Error::from)?),
    }
    Ok(())
}
