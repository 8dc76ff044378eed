//! What a Probe asks for, once there is no doubt about it.

use api::probe::{DeletionPolicy, Probe, reasons};
use kernel::Reason;

use super::Stop;
use super::gather::World;

/// What is to be true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Desired {
    /// The object goes; with what is outside or without.
    Gone { keep_outside: bool },
    /// This text here, this value outside.
    There {
        text: String,
        outside: Option<String>,
    },
}

pub(super) fn validate(probe: &Probe, world: &World) -> Result<Desired, Stop> {
    let ours = |thing: &crate::outside::Thing| thing.marker.as_deref() == Some(&*world.marker);
    if world.deleting {
        let foreign = world.thing.as_ref().is_some_and(|thing| !ours(thing));
        let keep_outside = foreign || probe.spec.deletion_policy == DeletionPolicy::Retain;
        return Ok(Desired::Gone { keep_outside });
    }
    if let Some(thing) = world.thing.as_ref().filter(|thing| !ours(thing)) {
        let owner = thing.marker.as_deref().unwrap_or("nobody");
        let message = format!(
            "{} exists outside and belongs to {owner}; rename the Probe, or remove it there",
            thing.name
        );
        return Err(Stop::blocked(Reason::new(reasons::CONFLICT, message)));
    }
    if let Some(map) = &world.config_map
        && map["metadata"]["ownerReferences"][0]["uid"] != *world.uid
    {
        let message = format!(
            "ConfigMap {} exists and is not this Probe's; rename the Probe, or remove it",
            world.key
        );
        return Err(Stop::blocked(Reason::new(reasons::NAME_TAKEN, message)));
    }
    let outside = probe
        .spec
        .outside
        .as_ref()
        .map(|outside| match &world.secret {
            Some(secret) => secret.expose().clone(),
            None => outside.value.clone().unwrap_or_default(),
        });
    Ok(Desired::There {
        text: probe.spec.text.clone(),
        outside,
    })
}
