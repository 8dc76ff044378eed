//! The end of a seed: what it wrote goes if nobody has changed it, then its finalizer.

use std::time::Duration;

use api::vault::{
    DeletionPolicy, Phase, SyncStatus, VaultKVSecret, conditions, names as words, reasons,
};
use engine::{Classified, Note, Pass, kill_point};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::{Class, Conditions, Progress, Reason, cap, find};

use super::gather;
use super::path::KvPath;
use super::plan::{self, End};
use crate::cleanup::{self, Leftover};
use crate::ctx::Ctx;
use crate::settings::Deadline;
use crate::sync::{Error, STARTING, Stop, failure, stamp};

/// After this long somebody should look why it does not end.
const STUCK: Duration = Duration::from_secs(300);
const STUCK_WORDS: &str = "this takes longer than it should";

pub(super) async fn reconcile(
    seed: &VaultKVSecret,
    ctx: &Ctx,
    pass: &mut Pass,
) -> Result<Progress, Error> {
    let held = seed.metadata.finalizers.as_deref().unwrap_or_default();
    if !held.iter().any(|name| name == words::FINALIZER) {
        return Ok(Progress::done());
    }
    if gather::is_dry_run(pass) {
        return release(pass, kept("dry-run is on")).await;
    }
    match seed.spec.deletion_policy {
        DeletionPolicy::Delete => {}
        DeletionPolicy::Retain => return release(pass, kept("deletionPolicy says so")).await,
    }
    let status = gather::status(seed);
    if status.seeded != Some(true) && status.sync.intent.is_none() {
        let end = End::Leave("it was not written by us".to_owned());
        let stands = status.sync.binding.is_some();
        return release(pass, if stands { told(seed, &end) } else { nothing() }).await;
    }
    match remove(seed, ctx, pass).await {
        Ok(end) => release(pass, told(seed, &end)).await,
        Err(stop) => not_yet(seed, stop, ctx, pass).await,
    }
}

/// Deletes what is as we wrote it.
async fn remove(seed: &VaultKVSecret, ctx: &Ctx, pass: &mut Pass) -> Result<End, Stop> {
    let ground = gather::ground(seed, ctx, pass)?;
    let world = gather::found(seed, &ground, pass).await?;
    let end = plan::end(&world);
    if end == End::Delete {
        let KvPath { mount, path } = &ground.at;
        kill_point("kv-before-delete");
        let call = ground.vault.delete_metadata(mount, path);
        ground.answer(call, pass).await?;
        kill_point("kv-after-delete");
    }
    Ok(end)
}

fn kept(why: &str) -> Note {
    Note::normal("Deleted", format!("what it has in Vault stays, as {why}"))
}

fn nothing() -> Note {
    Note::normal("Deleted", "it had nothing in Vault")
}

fn told(seed: &VaultKVSecret, end: &End) -> Note {
    match end {
        End::Gone | End::Delete => Note::normal("Deleted", "gone from Vault"),
        End::Leave(why) => Note::warning(
            "ForeignSecretNotDeleted",
            format!("{} was left in Vault: {why}", seed.spec.path),
        ),
    }
}

async fn release(pass: &mut Pass, note: Note) -> Result<Progress, Error> {
    pass.drop_finalizer(words::FINALIZER).await?;
    pass.event(note);
    Ok(Progress::done())
}

/// Vault does not let us: the object waits, or leaves a record when its time is over.
async fn not_yet(
    seed: &VaultKVSecret,
    stop: Stop,
    ctx: &Ctx,
    pass: &mut Pass,
) -> Result<Progress, Error> {
    if matches!(&stop, Stop::Failed(error) if error.class() == Class::Deposed) {
        return stop.progress();
    }
    let now = ctx.now();
    let asked = seed.metadata.deletion_timestamp.as_ref();
    let age = now.duration_since(asked.map_or(now, |time| time.0));
    let age = Duration::try_from(age).unwrap_or_default();
    match ctx.settings.deletion_deadline {
        Deadline::After(limit) if age >= limit => hand_over(seed, ctx, pass).await,
        Deadline::After(limit) => {
            let left = limit.saturating_sub(age);
            wait(seed, &stop, age, Some(left), ctx, pass).await
        }
        Deadline::Never => wait(seed, &stop, age, None, ctx, pass).await,
    }
}

/// The deadline has passed: what is left is recorded and worked off later, and the object goes.
async fn hand_over(seed: &VaultKVSecret, ctx: &Ctx, pass: &mut Pass) -> Result<Progress, Error> {
    let leftover = Leftover::of_seed(seed, ctx);
    cleanup::keep(ctx, &leftover).await?;
    let message = format!(
        "may be left in Vault for now and is removed when that can be done: {}",
        seed.spec.path
    );
    release(pass, Note::warning("DeleteRetryEnqueued", message)).await
}

/// The object waits and says for what; `left` of its time, if it has a deadline.
async fn wait(
    seed: &VaultKVSecret,
    stop: &Stop,
    age: Duration,
    left: Option<Duration>,
    ctx: &Ctx,
    pass: &mut Pass,
) -> Result<Progress, Error> {
    let reason = match stop {
        Stop::Again => return Ok(Progress::Again),
        Stop::Waiting { reason, after } if reason.code == STARTING => {
            let (reason, after) = (reason.clone(), *after);
            return Ok(Progress::Waiting { reason, after });
        }
        Stop::Waiting { reason, .. } | Stop::Blocked { reason } => reason.clone(),
        Stop::Failed(error) => failure(error),
    };
    let now = ctx.now();
    let before = gather::status(seed);
    let mut after = before.clone();
    let mut set = Conditions::new(&before.sync.conditions, seed.metadata.generation, now);
    for note in waits(&mut after.sync, &mut set, &reason, age, now) {
        pass.event(note);
    }
    after.sync.conditions = set.into_parts().0;
    if after != before {
        stamp(&mut after.sync, now, pass);
        pass.write_status(&after).await?;
    }
    let retry = pass.retry_in().min(ctx.settings.error_interval);
    let after = left.map_or(retry, |left| left.min(retry));
    Ok(Progress::Waiting {
        reason,
        after: after.max(Duration::from_secs(1)),
    })
}

/// Says that the object waits, and answers what to tell of it.
fn waits(
    sync: &mut SyncStatus,
    set: &mut Conditions,
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
    let deleting = Reason::new(reasons::DELETION_IN_PROGRESS, message.clone());
    set.yes(conditions::DELETING, &deleting);
    set.no(conditions::READY, reason);
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
