//! What to do about a bucket. Pure.

use std::time::Duration;

use engine::{Next, Stop};
use kernel::{AdoptionRequest, Ownership, Reason, Touch, find, may_touch};
use simulator::{DEADLINE, LAG};

use super::cloud::{Bucket, marker};
use super::{BucketSpec, CLAIM_WITHIN, ClaimIntent, DriftPolicy, Read, Status, Step, World};

/// A comparison without differences serves this long for passes that bring no edit.
const COMPARED: Duration = Duration::from_secs(30);
/// The bucket is listed this often.
const RECHECK: Duration = Duration::from_secs(300);
/// The smallest difference between two times of the cloud.
const SECOND: Duration = Duration::from_secs(1);

/// Whose a bucket is, by its marker.
pub(crate) fn ownership(bucket: &Bucket, object_name: &str) -> Ownership {
    match &bucket.owner {
        None => Ownership::Unmarked,
        Some(owner) if *owner == marker(object_name) => Ownership::Ours,
        Some(owner) => Ownership::Foreign(owner.clone()),
    }
}

/// Whether a bucket is ours, by its marker or by our record.
pub(crate) fn is_ours(world: &World, bucket: &Bucket) -> bool {
    touch(world, bucket) == Touch::Ours
}

fn touch(world: &World, bucket: &Bucket) -> Touch {
    let object = &world.object;
    let record = object.status.bucket.as_ref();
    let on_record = record.is_some_and(|record| record.id == bucket.id);
    let adopting = desired(world).filter(|spec| spec.adopt);
    let adoption = adopting.map(|_| AdoptionRequest::default());
    let ownership = ownership(bucket, &object.key.name);
    may_touch(ownership, on_record, adoption.as_ref())
}

/// The bucket that decides, of those of our name: ours, else one to adopt, else one to leave alone.
fn chosen<'a>(world: &World, buckets: &'a [Bucket]) -> Option<(&'a Bucket, Touch)> {
    let touched = buckets.iter().map(|bucket| (bucket, touch(world, bucket)));
    touched.min_by_key(|(_, touch)| match touch {
        Touch::Ours => 0,
        Touch::Adopt { .. } => 1,
        Touch::Refuse(_) => 2,
    })
}

/// What the spec wants outside; none when the object is being deleted.
fn desired(world: &World) -> Option<&BucketSpec> {
    let object = &world.object;
    (!object.is_deleting()).then_some(&object.resource.spec)
}

/// | listed                        | desired | next                                          |
/// |-------------------------------|---------|-----------------------------------------------|
/// | not read yet                  | any     | read; if compared lately and not edited: done |
/// | ours                          | a spec  | [`toward`] the spec                           |
/// | ours                          | nothing | disable, then delete; retained: done          |
/// | unmarked, adoption requested  | a spec  | mark, then as ours                            |
/// | foreign or unmarked           | a spec  | blocked, names the owner                      |
/// | foreign or unmarked           | nothing | as absent: it is left alone                   |
/// | absent                        | any     | [`absent`]                                    |
pub(crate) fn next(world: &World) -> Result<Next<Read, Step>, Stop> {
    let World {
        object, observed, ..
    } = world;
    if let Some(error) = &observed.error {
        return Err(Stop::from_call(error, "CallFailed"));
    }
    let desired = desired(world);
    let Some(buckets) = &observed.buckets else {
        if desired.is_some() && is_compared_lately(world) {
            let recheck = Some(COMPARED);
            return Ok(Next::Done { recheck });
        }
        let name = object.key.name.to_string();
        return Ok(Next::read(Read::List { name }));
    };
    match (chosen(world, buckets), desired) {
        (Some((bucket, Touch::Ours)), Some(spec)) => toward(spec, bucket, &object.status),
        (Some((_, Touch::Ours)), None) if object.resource.spec.retain => Ok(Next::done()),
        (Some((bucket, Touch::Ours)), None) => Ok(removal(bucket)),
        (Some((bucket, Touch::Adopt { .. })), _) => {
            let (id, version, intent) = (bucket.id, bucket.version, claim(world)?);
            Ok(Next::step(Step::Mark {
                id,
                version,
                intent,
            }))
        }
        (Some((bucket, Touch::Refuse(_))), Some(_)) => Err(Stop::blocked(not_owned(bucket))),
        (Some((_, Touch::Refuse(_))), None) | (None, _) => absent(world),
    }
}

fn is_compared_lately(world: &World) -> bool {
    let object = &world.object;
    let generation = object.generation();
    let is_ready = find(&object.conditions, "Ready").is_some_and(|ready| {
        ready.status == "True" && ready.observed_generation == Some(generation)
    });
    let is_recent = |(compared, at): (i64, Duration)| {
        compared == generation && world.elapsed < at.saturating_add(COMPARED)
    };
    is_ready && world.memory.compared.is_some_and(is_recent)
}

fn not_owned(bucket: &Bucket) -> Reason {
    let id = bucket.id;
    let message = match &bucket.owner {
        Some(owner) => format!("bucket {id} belongs to {owner}; rename the object"),
        None => format!("bucket {id} carries no marker; set spec.adopt, or rename the object"),
    };
    Reason::new("NotOwned", message)
}

/// | read                  | last applied | live | desired | next                         |
/// |-----------------------|--------------|------|---------|------------------------------|
/// | older than the record | any          | any  | any     | wait: the read is stale      |
/// | current               | any          | a    | a       | done                         |
/// | current               | not b        | x    | b       | update: spec edited          |
/// | current               | a            | x    | a       | drift: correct it, or report |
fn toward(spec: &BucketSpec, live: &Bucket, status: &Status) -> Result<Next<Read, Step>, Stop> {
    let record = status.bucket.as_ref().filter(|record| record.id == live.id);
    if record.is_some_and(|record| live.version < record.version) {
        let message = "the cloud returned an older version than recorded";
        return Err(Stop::waiting(Reason::new("StaleRead", message), LAG));
    }
    let last_applied = record.and_then(|record| record.last_applied.as_ref());
    let is_drift = last_applied == Some(&spec.config);
    if live.config == spec.config || (is_drift && spec.drift == DriftPolicy::Report) {
        let recheck = Some(RECHECK);
        return Ok(Next::Done { recheck });
    }
    Ok(Next::step(Step::Update {
        id: live.id,
        version: live.version,
        config: spec.config.clone(),
    }))
}

fn removal(bucket: &Bucket) -> Next<Read, Step> {
    let (id, version) = (bucket.id, bucket.version);
    Next::step(if bucket.is_enabled {
        Step::Disable { id, version }
    } else {
        Step::Delete { id, version }
    })
}

/// | desired | on record                            | next                     |
/// |---------|--------------------------------------|--------------------------|
/// | any     | [`is_certain`] says wait             | wait                     |
/// | a spec  | a bucket, and drift is only reported | blocked: deleted outside |
/// | a spec  | any other                            | create                   |
/// | nothing | any                                  | done                     |
fn absent(world: &World) -> Result<Next<Read, Step>, Stop> {
    let object = &world.object;
    let Some(spec) = desired(world) else {
        is_certain(world)?;
        return Ok(Next::done());
    };
    let intent = claim(world)?;
    if object.status.bucket.is_some() && spec.drift == DriftPolicy::Report {
        let message = "the bucket was deleted outside; set drift to Correct to create it again";
        return Err(Stop::blocked(Reason::new("ExternallyDeleted", message)));
    }
    Ok(Next::step(Step::Create {
        name: object.key.name.to_string(),
        config: spec.config.clone(),
        intent,
    }))
}

/// The intent under which a bucket may become ours.
///
/// | saved intent                            | so                                     |
/// |-----------------------------------------|----------------------------------------|
/// | saved by this process, not used, recent | it: nothing can have happened under it |
/// | any other, its effect may still show up | wait until every list would show it    |
/// | none, or without effect                 | a new one                              |
fn claim(world: &World) -> Result<ClaimIntent, Stop> {
    let World {
        object,
        now,
        fresh_intents,
        ..
    } = world;
    let fresh = object.status.intent.as_ref();
    let fresh = fresh.filter(|intent| fresh_intents.contains(*intent));
    if let Some(intent) = fresh.filter(|intent| *now < intent.at + CLAIM_WITHIN) {
        return Ok(intent.clone());
    }
    is_certain(world)?;
    Ok(ClaimIntent { at: *now })
}

/// Waits until a list would surely show a bucket that an intent or an earlier read has left.
fn is_certain(world: &World) -> Result<(), Stop> {
    let World {
        object,
        observed,
        now,
        ..
    } = world;
    let certain_at = match &object.status {
        Status {
            intent: Some(intent),
            ..
        } => intent.at + CLAIM_WITHIN + DEADLINE + LAG + SECOND,
        Status {
            intent: None,
            bucket: Some(record),
        } => record.since + LAG + SECOND,
        Status {
            intent: None,
            bucket: None,
        } => return Ok(()),
    };
    let read_at = observed.read_at;
    if read_at.is_some_and(|read_at| read_at >= certain_at) {
        return Ok(());
    }
    let after = Duration::try_from(certain_at.duration_since(*now)).unwrap_or_default();
    let reason = Reason::new("Unconfirmed", "a list does not show the bucket yet");
    Err(Stop::waiting(reason, after.max(SECOND)))
}
