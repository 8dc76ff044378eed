//! What the object says of itself, from how its pass ended.

use api::vault::{
    Binding, Phase, SyncStatus, VaultKVSecret, VaultKVSecretStatus, conditions, reasons,
};
use engine::{Note, Pass};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::{Conditions, Progress, Reason, find, is_true};

use super::apply::Settled;
use super::path::KvPath;
use super::{KIND, gather};
use crate::ctx::Ctx;
use crate::sync::{Error, Stop, dry_run, is_silent, stamp, stopped};

/// How far a pass came.
#[derive(Default)]
pub(super) struct Told {
    pub(super) plan: Option<String>,
    pub(super) settled: Option<Settled>,
    /// The write that was announced did not happen: there is nothing to find out about it.
    pub(super) refused: bool,
}

pub(super) async fn write(
    seed: &VaultKVSecret,
    ctx: &Ctx,
    pass: &mut Pass,
    told: &Told,
    ended: Result<(), Stop>,
) -> Result<Progress, Error> {
    let before = gather::status(seed);
    if pass.has_written() || is_silent(&ended) {
        if let Some(closed) = without_refused_intent(&before, told.refused) {
            pass.write_status(&closed).await?;
        }
        return ended.map_or_else(Stop::progress, |()| Ok(Progress::Again));
    }
    let now = ctx.now();
    let mut after = before.clone();
    let mut set = Conditions::new(&before.sync.conditions, seed.metadata.generation, now);
    if told.plan.is_none() && is_true(&before.sync.conditions, conditions::DRY_RUN) {
        let over = Reason::new(reasons::SUCCEEDED, "dry-run is over");
        set.no(conditions::DRY_RUN, &over);
    }
    let failed = match (&told.plan, &ended) {
        (Some(plan), _) => {
            dry_run(&mut after.sync, &mut set, plan);
            false
        }
        (None, Ok(())) => {
            let settled = told.settled.as_ref().expect("what succeeded is settled");
            succeeded(&mut after, seed, settled, &mut set, now);
            false
        }
        (None, Err(stop)) => {
            let failed = stopped(&mut after.sync, stop, &mut set, now, pass);
            not_synced(stop, told.refused, &mut after, &mut set);
            failed
        }
    };
    after.sync.conditions = set.into_parts().0;
    let wrote = matches!(told.settled, Some(Settled::Ours { owner: Some(_), .. }));
    tell(&before.sync, &after.sync, wrote, pass);
    let reason = find(&after.sync.conditions, conditions::READY).map(|ready| &*ready.reason);
    let denied = reason == Some(reasons::TENANCY_DENIED);
    ctx.metrics.tenancy(KIND, pass.key(), denied);
    if failed || after != before {
        stamp(&mut after.sync, now, true, pass);
        pass.write_status(&after).await?;
    }
    ended.map_or_else(Stop::progress, |()| Ok(Progress::done()))
}

/// The status to write even when a pass reports nothing else: an intent that stayed open would let a
/// later pass take equal values of somebody else for its own.
fn without_refused_intent(
    before: &VaultKVSecretStatus,
    refused: bool,
) -> Option<VaultKVSecretStatus> {
    let is_open = refused && before.sync.intent.is_some();
    is_open.then(|| {
        let mut closed = before.clone();
        closed.sync.intent = None;
        closed.sync.phase = Some(Phase::Pending);
        closed
    })
}

/// Records what stands at the path, and says whose it is.
fn succeeded(
    status: &mut VaultKVSecretStatus,
    seed: &VaultKVSecret,
    settled: &Settled,
    set: &mut Conditions,
    now: Timestamp,
) {
    let path = &seed.spec.path;
    let before = status.sync.binding.take().unwrap_or_default();
    let same = before.vault_path.as_ref() == Some(path);
    let mut binding = Binding {
        vault_path: Some(path.clone()),
        vault_resource_name: KvPath::parse(path).map(|at| at.path),
        bound_at: before.bound_at.filter(|_| same).or(Some(Time(now))),
        binding_verified: Some(true),
        connection: Some(seed.spec.connection_ref.clone()),
        ..before
    };
    status.vault_path = Some(path.clone());
    let seeded = seeded(path, settled);
    let fine = match settled {
        Settled::Ours { version, owner } => {
            status.seeded = Some(true);
            status.seeded_version = i64::try_from(*version).ok();
            binding.owner = owner.clone().or(binding.owner);
            status.sync.intent = None;
            set.yes(conditions::SEEDED, &seeded);
            Reason::new(reasons::SUCCEEDED, format!("{path} is in Vault"))
        }
        Settled::Theirs { .. } => {
            status.seeded = Some(false);
            status.seeded_version = None;
            binding.owner = None;
            status.sync.intent = None;
            set.no(conditions::SEEDED, &seeded);
            seeded
        }
        Settled::Doubtful => {
            set.unknown(conditions::SEEDED, &seeded); // the intent stays open until it is known
            Reason::new(reasons::SUCCEEDED, seeded.message)
        }
    };
    let sync = &mut status.sync;
    sync.binding = Some(binding);
    sync.managed = Some(status.seeded == Some(true));
    sync.phase = Some(Phase::Active);
    sync.message = Some(fine.message.clone());
    sync.retry_count = None;
    sync.next_retry_at = None;
    let connected = Reason::new(reasons::DEPENDENCY_READY, "the connection is ready");
    set.yes(conditions::READY, &fine)
        .yes(conditions::SYNCED, &fine)
        .yes(conditions::DEPENDENCY_READY, &connected)
        .yes(conditions::CONNECTION_READY, &connected);
}

/// Whether the seed is ours, for people.
fn seeded(path: &str, settled: &Settled) -> Reason {
    match settled {
        Settled::Ours { version, .. } => Reason::new(
            reasons::SUCCEEDED,
            format!(
                "version {version} of {path} was written by us; later edits of data change nothing"
            ),
        ),
        Settled::Theirs { owner: None } => Reason::new(
            reasons::SUCCEEDED,
            format!("{path} was there already; it is left untouched"),
        ),
        Settled::Theirs { owner: Some(owner) } => Reason::new(
            reasons::SUCCEEDED,
            format!("{path} was there already and belongs to {owner}; it is left untouched"),
        ),
        Settled::Doubtful => Reason::new(
            reasons::SEED_UNCONFIRMED,
            format!(
                "{path} is there, and whether we wrote it before a crash cannot be told; it is \
                 left untouched; let our token read it to find out"
            ),
        ),
    }
}

/// What `stopped` leaves open: it tells what others recorded by a hash, and seeds have none.
fn not_synced(stop: &Stop, refused: bool, status: &mut VaultKVSecretStatus, set: &mut Conditions) {
    if refused {
        status.sync.intent = None;
    }
    let message = status.sync.message.clone().unwrap_or_default();
    set.no(conditions::SYNCED, &Reason::new(reasons::FAILED, message));
    if let Stop::Blocked { reason } = stop
        && reason.code == reasons::SEED_TARGET_DELETED
    {
        set.no(conditions::SEEDED, reason);
    }
}

/// Events tell of transitions, and of what was written.
fn tell(before: &SyncStatus, after: &SyncStatus, wrote: bool, pass: &Pass) {
    let ready = |sync: &SyncStatus| find(&sync.conditions, conditions::READY).cloned();
    let Some(is) = ready(after) else { return };
    let same = ready(before)
        .is_some_and(|was| (was.status, was.reason) == (is.status.clone(), is.reason.clone()));
    if same && !(wrote && is.status == "True") {
        return;
    }
    pass.event(match &*is.reason {
        _ if is.status == "True" => Note::normal("Synced", is.message),
        reasons::DRY_RUN_SKIPPED => return, // told by its condition
        reasons::CONNECTION_NOT_READY => Note::warning("WaitingForDependency", is.message),
        _ => Note::warning("SyncFailed", is.message),
    });
}

#[cfg(test)]
mod tests;
