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

use super::status::{failure, is_silent, stamp};
use super::{Error, Kept, Stop};
use crate::ctx::Ctx;
use crate::settings::Deadline;

/// After this long somebody should look why it does not end.
pub(crate) const STUCK: Duration = Duration::from_secs(300);
pub(crate) const STUCK_WORDS: &str = "this takes longer than it should";

/// What becomes of an object whose removal stopped.
pub(super) enum Held {
    /// It stays, and is looked at again.
    Waits(Progress),
    /// Its time is over: what is left is to be recorded, and the object goes.
    IsOver,
}

/// Lets `object`, whose removal through `connection` ended in `stop`, wait for as long as it may.
pub(super) async fn hold<K, S>(
    object: &K,
    connection: &str,
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
    let retry = pass.retry_in().min(ctx.settings.error_interval);
    let Some(Wait {
        reason,
        after: wait,
        is_silent,
    }) = wait(stop, retry)
    else {
        return Ok(Held::Waits(Progress::Again));
    };
    if !is_silent {
        let mut after = before.clone();
        let generation = object.meta().generation;
        for note in say(after.sync_mut(), connection, generation, &reason, age, now) {
            pass.event(note);
        }
        if after != before {
            stamp(after.sync_mut(), now, false, pass);
            pass.write_status(&after).await?;
        }
    }
    let after = left.map_or(wait, |left| left.min(wait));
    Ok(Held::Waits(Progress::Waiting { reason, after }))
}

/// What a removal waits for, and how long.
#[derive(Debug, PartialEq, Eq)]
struct Wait {
    reason: Reason,
    after: Duration,
    /// Nobody is told: it passes by itself.
    is_silent: bool,
}

/// How a removal that ended in `stop` waits; none if the next pass runs at once. What does not say
/// when to come back is tried again after `retry`.
fn wait(stop: Stop, retry: Duration) -> Option<Wait> {
    let ended = Err(stop);
    let is_silent = is_silent(&ended);
    let (reason, after) = match ended {
        Ok(()) | Err(Stop::Again) => return None,
        Err(Stop::Waiting { reason, after }) if is_silent => (reason, after),
        Err(Stop::Waiting { reason, .. } | Stop::Blocked { reason }) => (reason, retry),
        Err(Stop::Failed(error)) => (failure(&error), retry),
    };
    Some(Wait {
        reason,
        after,
        is_silent,
    })
}

/// Says that the object waits, and answers what to tell of it.
fn say(
    sync: &mut SyncStatus,
    connection: &str,
    generation: Option<i64>,
    reason: &Reason,
    age: Duration,
    now: Timestamp,
) -> Vec<Note> {
    let is_new = sync.phase != Some(Phase::Deleting);
    let was_stuck = find(&sync.conditions, conditions::DELETING)
        .is_some_and(|one| one.message.contains(STUCK_WORDS));
    let mut message = format!(
        "waits to be removed from Vault through VaultConnection {connection}: {}",
        reason.message
    );
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

#[cfg(test)]
mod tests {
    use api::vault::reasons;
    use rstest::rstest;
    use vault_client::Error as E;

    use super::*;

    const RETRY: Duration = Duration::from_secs(30);
    const LATER: Duration = Duration::from_secs(7);

    fn throttled(retry_after: Option<Duration>) -> E {
        E::Throttled {
            call: "DELETE x".to_owned(),
            retry_after,
        }
    }

    fn denied() -> E {
        E::Denied {
            call: "DELETE x".to_owned(),
            message: String::new(),
        }
    }

    fn sealed() -> E {
        E::Sealed {
            address: "https://vault".to_owned(),
        }
    }

    #[rstest]
    #[case::throttled(throttled(Some(LATER)), true, LATER)]
    #[case::throttled_for_who_knows_how_long(throttled(None), true, RETRY)]
    #[case::denied(denied(), false, RETRY)]
    #[case::sealed(sealed(), false, RETRY)]
    fn a_removal_says_what_it_waits_for_but_for_limits(
        #[case] error: E,
        #[case] is_silent: bool,
        #[case] after: Duration,
    ) {
        let waits = wait(Error::from(error).into(), RETRY).unwrap();
        assert_eq!((waits.is_silent, waits.after), (is_silent, after));
    }

    #[test]
    fn a_removal_that_has_written_goes_on_at_once() {
        assert_eq!(wait(Stop::Again, RETRY), None);
        let reason = Reason::new(reasons::CONFLICT, "x");
        assert!(wait(Stop::blocked(reason), RETRY).is_some());
    }
}
