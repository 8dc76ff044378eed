//! What must be done, as data.

use api::probe::{Behaviour, DeletionPolicy, Probe, reasons};
use engine::{Next, Stop};
use kernel::{Marker, Ownership, Reason, label};
use kube::Resource;

use super::{Cached, Child, ConfigMap, Digest, ProbeCore, Read, Seen, Source, Step, Thing, World};

/// A Secret that is missing is looked for again after this time.
const SECRET_PAUSE: std::time::Duration = std::time::Duration::from_secs(30);
/// How long a Probe waits that is asked to.
const ASKED_PAUSE: std::time::Duration = std::time::Duration::from_secs(3600);

/// The name of the thing outside: the one on record, or one made of cluster and object.
pub(super) fn name(core: &ProbeCore, world: &World) -> String {
    let object = &world.object;
    let namespace = object.key.namespace.as_deref().unwrap_or_default();
    let derived = || label(&[core.cluster.as_str(), namespace, &object.key.name]);
    object.status.outside_name.clone().unwrap_or_else(derived)
}

pub(super) fn marker(core: &ProbeCore, world: &World) -> String {
    let marker = Marker::new(&core.cluster, &world.object.key);
    format!("{}|{}", marker.cluster, marker.object)
}

/// Whose a thing is.
pub(super) fn ownership(thing: &Thing, marker: &str) -> Ownership {
    match &thing.marker {
        Some(held) if held == marker => Ownership::Ours,
        Some(other) => Ownership::Foreign(other.clone()),
        None => Ownership::Unmarked,
    }
}

/// The first row that fits:
///
/// | world                                    | next                                      |
/// |------------------------------------------|-------------------------------------------|
/// | a call failed                            | failed, with its error                    |
/// | deleted, and what is outside stays       | done                                      |
/// | deleted                                  | [`outside`] with nothing desired          |
/// | behaviour Quiet                          | [`config_map`] alone                      |
/// | behaviour Panic or Hang                  | the read that does so                     |
/// | behaviour Wait                           | wait                                      |
/// | the value is in a Secret that is missing | wait                                      |
/// | any other                                | [`outside`], then [`config_map`]          |
pub(super) fn next(core: &ProbeCore, world: &World) -> Result<Next<Read, Step>, Stop> {
    let probe = &world.object.resource;
    if let Some(error) = &world.observed.error {
        let reason = Reason::new(reasons::FAILED, error.message.clone());
        let class = error.class;
        return Err(Stop::Failed { reason, class });
    }
    if world.object.is_deleting() {
        return match probe.spec.deletion_policy {
            DeletionPolicy::Retain => Ok(Next::done()),
            DeletionPolicy::Delete => Ok(outside(core, world, None)?.unwrap_or(Next::done())),
        };
    }
    match probe.spec.behaviour {
        Behaviour::Quiet => return config_map(world),
        Behaviour::Panic | Behaviour::Hang => {
            return Ok(Next::read(Read::Misbehave(probe.spec.behaviour)));
        }
        Behaviour::Wait => {
            let reason = Reason::new(reasons::ASKED_TO_WAIT, "the spec asks to wait");
            return Err(Stop::waiting(reason, ASKED_PAUSE));
        }
        Behaviour::Well => {}
    }
    let reads = unread(core, world);
    if !reads.is_empty() {
        return Ok(Next::reads(reads));
    }
    let desired = desired(world)?;
    if let Seen::Present(map) = &world.observed.config_map {
        is_its_own(world, map)?;
    }
    match outside(core, world, desired)? {
        Some(next) => Ok(next),
        None => config_map(world),
    }
}

/// Whether something outside may be this Probe's, or shall be.
fn concerns_outside(world: &World) -> bool {
    world.object.resource.spec.outside.is_some() || world.object.status.outside_name.is_some()
}

/// What must be read before anything is decided.
fn unread(core: &ProbeCore, world: &World) -> Vec<Read> {
    let (probe, observed) = (&world.object.resource, &world.observed);
    let mut reads = Vec::new();
    if concerns_outside(world) && observed.thing == Seen::Unread {
        reads.push(Read::Thing(name(core, world)));
    }
    if observed.config_map == Seen::Unread {
        reads.push(Read::ConfigMap(child(probe)));
    }
    if let Some(outside) = &probe.spec.outside
        && let Some(key) = &outside.secret
        && observed.secret == Seen::Unread
    {
        reads.push(Read::Secret(key.clone()));
    }
    reads
}

/// The value that is desired outside.
fn desired(world: &World) -> Result<Option<(Source, Digest)>, Stop> {
    let Some(outside) = &world.object.resource.spec.outside else {
        return Ok(None);
    };
    let Some(key) = &outside.secret else {
        let value = outside.value.clone().unwrap_or_default();
        let digest = Digest::of(&value);
        return Ok(Some((Source::Spec(value), digest)));
    };
    match world.observed.secret {
        Seen::Present(digest) => Ok(Some((Source::Secret, digest))),
        Seen::Absent | Seen::Unread => {
            let namespace = world.object.key.namespace.as_deref().unwrap_or_default();
            let message = format!(
                "Secret {namespace}/{} has no readable key {}; create it and the Probe goes on",
                key.name, key.key
            );
            let reason = Reason::new(reasons::SECRET_NOT_READABLE, message);
            Err(Stop::waiting(reason, SECRET_PAUSE))
        }
    }
}

/// | outside             | on record | desired | next                   |
/// |---------------------|-----------|---------|------------------------|
/// | not read            | no        | nothing | none: nothing concerns |
/// | not read            | any       | any     | read                   |
/// | foreign or unmarked | any       | a       | blocked, names owner   |
/// | foreign or unmarked | any       | nothing | none: it is left alone |
/// | ours, a             | yes       | a       | none                   |
/// | ours, a             | no        | a       | put, which records it  |
/// | ours, b, or absent  | any       | a       | put                    |
/// | ours                | any       | nothing | remove                 |
/// | absent              | any       | nothing | none                   |
fn outside(
    core: &ProbeCore,
    world: &World,
    desired: Option<(Source, Digest)>,
) -> Result<Option<Next<Read, Step>>, Stop> {
    let (name, marker) = (name(core, world), marker(core, world));
    let found = match &world.observed.thing {
        Seen::Unread if !concerns_outside(world) => return Ok(None),
        Seen::Unread => return Ok(Some(Next::read(Read::Thing(name)))),
        Seen::Absent => None,
        Seen::Present(thing) => Some((thing, ownership(thing, &marker))),
    };
    let is_on_record = world.object.status.outside_name.is_some();
    let step = match (found, desired) {
        (Some((_, Ownership::Ours)), None) => Step::Remove { name, marker },
        (Some((_, Ownership::Foreign(_) | Ownership::Unmarked)) | None, None) => return Ok(None),
        (Some((_, Ownership::Foreign(owner))), Some(_)) => return Err(conflict(&name, &owner)),
        (Some((_, Ownership::Unmarked)), Some(_)) => return Err(conflict(&name, "nobody")),
        (Some((thing, Ownership::Ours)), Some((_, value)))
            if thing.value == value && is_on_record =>
        {
            return Ok(None);
        }
        (Some((_, Ownership::Ours)) | None, Some((source, value))) => Step::Put {
            name,
            marker,
            source,
            value,
        },
    };
    Ok(Some(Next::step(step)))
}

fn conflict(name: &str, owner: &str) -> Stop {
    let message = format!(
        "{name} exists outside and belongs to {owner}; rename the Probe, or remove it there"
    );
    Stop::blocked(Reason::new(reasons::CONFLICT, message))
}

/// | cache            | read         | next                           |
/// |------------------|--------------|--------------------------------|
/// | absent           | not read     | write, if there is still none  |
/// | any other        | not read     | read                           |
/// | any              | another's    | blocked                        |
/// | any              | as desired   | done                           |
/// | any              | differs      | write over what was read       |
/// | any              | absent       | write, if there is still none  |
fn config_map(world: &World) -> Result<Next<Read, Step>, Stop> {
    let child = child(&world.object.resource);
    let observed = &world.observed;
    let may_be_there = observed.must_read_config_map || world.facts.config_map != Cached::Absent;
    let over = match &observed.config_map {
        Seen::Unread if may_be_there => return Ok(Next::read(Read::ConfigMap(child))),
        Seen::Unread | Seen::Absent => None,
        Seen::Present(map) => {
            is_its_own(world, map)?;
            if map.is_current {
                return Ok(Next::done());
            }
            Some(map.live.clone())
        }
    };
    Ok(Next::step(Step::Write { child, over }))
}

fn is_its_own(world: &World, map: &ConfigMap) -> Result<(), Stop> {
    if map.owner == world.object.metadata.uid {
        return Ok(());
    }
    let message = format!(
        "ConfigMap {} exists and is not this Probe's; rename the Probe, or remove it",
        world.object.key
    );
    Err(Stop::blocked(Reason::new(reasons::NAME_TAKEN, message)))
}

pub(super) fn child(probe: &Probe) -> Child {
    Child {
        owner: probe.controller_owner_ref(&()).unwrap_or_default(),
        text: probe.spec.text.clone(),
    }
}
