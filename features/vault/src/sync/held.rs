//! A removal that Vault does not let happen yet: the object waits and says for what, until its
//! deadline has passed.

use std::time::Duration;

use api::vault::{Phase, SyncStatus, conditions, names as words, reasons};
use engine::{Classified, Note, Pass};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::{Class, Conditions, Progress, Reason, cap, find};
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::status::{STARTING, failure, stamp};
use super::{Error, Kept, Stop};
use crate::ctx::Ctx;
use crate::settings::Deadline;

/// After this long somebody should look why it does not end.
const STUCK: Duration = Duration::from_secs(300);
const STUCK_WORDS: &str = "this takes longer than it should";

/// What becomes of an object whose removal stopped.
pub(crate) enum Held {
    /// It stays, and is looked at again.
    Waits(Progress),
    /// Its time is over: what is left is to be recorded, and the object goes.
    IsOver,
}

/// Lets `object`, whose removal ended in `stop`, wait for as long as it may.
pub(crate) async fn hold<K, S>(
    object: &K,
    before: S,
    stop: Stop,
    ctx: &Ctx,
    pass: &mut Pass,
) -> Result<Held, Error>
where
    K: Resource<DynamicType = ()>,
    S: Kept + Serialize + DeserializeOwned + Clone + PartialEq,
{
    if matches!(&stop, Stop::Failed(error) if error.class() == Class::Deposed) {
        return stop.progress().map(Held::Waits);
    }
    let now = ctx.now();
    let asked = object.meta().deletion_timestamp.as_ref();
    let age = now.duration_since(asked.map_or(now, |time| time.0));
    let age = Duration::try_from(age).unwrap_or_default();
    let left = match ctx.settings.deletion_deadline {
        Deadline::After(limit) if age >= limit => return Ok(Held::IsOver),
        Deadline::After(limit) => Some(limit.saturating_sub(age)),
        Deadline::Never => None,
    };
    let reason = match stop {
        Stop::Again => return Ok(Held::Waits(Progress::Again)),
        Stop::Waiting { reason, after } if reason.code == STARTING => {
            return Ok(Held::Waits(Progress::Waiting { reason, after }));
        }
        Stop::Waiting { reason, .. } | Stop::Blocked { reason } => reason,
        Stop::Failed(error) => failure(&error),
    };
    let mut after = before.clone();
    let generation = object.meta().generation;
    for note in say(after.sync_mut(), generation, &reason, age, now) {
        pass.event(note);
    }
    if after != before {
        stamp(after.sync_mut(), now, false, pass);
        pass.write_status(&after).await?;
    }
    let retry = pass.retry_in().min(ctx.settings.error_interval);
    let after = left.map_or(retry, |left| left.min(retry));
    Ok(Held::Waits(Progress::Waiting {
        reason,
        after: after.max(Duration::from_secs(1)),
    }))
}

/// Says that the object waits, and answers what to tell of it.
fn say(
    sync: &mut SyncStatus,
    generation: Option<i64>,
    reason: &Reason,
    age: Duration,
    now: Timestamp,
) -> Vec<Note> {
    let is_new = sync.phase != Some(Phase::Deleting);
    let was_stuck = find(&sync.conditions, conditions::DELETING)
        .is_some_and(|one| one.message.contains(STUCK_WORDS));
    let mut message = format!("waits to be removed from Vault: {}", reason.message);
    if age >= STUCK {
        message = format!("{message}; {STUCK_WORDS}");
    }
    sync.phase = Some(Phase::Deleting);
    sync.deletion_started_at.get_or_insert(Time(now));
    sync.message = Some(cap(&message, words::MESSAGE_BYTES));
    let mut set = Conditions::new(&sync.conditions, generation, now);
    let deleting = Reason::new(reasons::DELETION_IN_PROGRESS, message.clone());
    set.yes(conditions::DELETING, &deleting);
    set.no(conditions::READY, reason);
    sync.conditions = set.into_parts().0;
    let mut notes = Vec::new();
    if is_new {
        let begins = "what it has in Vault is being removed";
        notes.push(Note::normal("Deleting", begins));
        notes.push(Note::warning("DeleteFailed", message.clone()));
    }
    if age >= STUCK && !was_stuck {
        notes.push(Note::warning("DeletionStuck", message));
    }
    notes
}
