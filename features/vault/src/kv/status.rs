//! Status, conditions and events of a seed, from the end of a pass.

use api::vault::{Binding, Intent, Phase, VaultKVSecretStatus, conditions, names, reasons};
use engine::{Ended, Note, Report, Stop, Truth};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::{Reason, cap, is_true};

use super::path::KvPath;
use super::plan::{self, Decision, SkippedDeletion};
use super::{SeedIntent, World, is_dry_run};
use crate::owner;
use crate::sync::{STUCK, STUCK_WORDS, dry_run_skipped};

/// | object  | ended             | record                              | Ready                          |
/// |---------|-------------------|-------------------------------------|--------------------------------|
/// | deleted |                   | [`deletion`]                        | [`deletion`]                   |
/// | dry run | decided           | unchanged                           | unchanged; of a new one: False |
/// | any     | announcing        | the intent                          | unchanged                      |
/// | any     | done              | [`Settled`]                         | True                           |
/// | any     | stopped, silently | a refused write ends its intent     | unchanged                      |
/// | any     | stopped           | a refused write ends its intent     | False, the reason              |
pub(super) fn status(world: &World, ended: &Ended<SeedIntent>) -> (VaultKVSecretStatus, Report) {
    let object = &world.object;
    let mut status = object.status.clone();
    let decision = is_dry_run(object).then(|| plan::decision(world));
    let report = match (ended, decision.flatten()) {
        _ if object.is_deleting() => deletion(world, ended, &mut status),
        (_, Some(decision)) => dry_run(world, &decision, &mut status),
        (Ended::Announcing(intents), None) => {
            announce(world, intents, &mut status);
            Report::default()
        }
        (Ended::Done { .. }, None) => succeeded(world, &mut status),
        (Ended::Stopped(stop), None) if plan::is_silent(stop) => {
            // With an open intent, a later pass would treat equal values of another writer as ours.
            if plan::is_refused(world) {
                status.sync.intent = None;
                status.sync.phase = Some(Phase::Pending);
            }
            Report::default()
        }
        (Ended::Stopped(stop), None) => stopped(world, stop, &mut status),
        (Ended::Previewed(_), None) => Report::default(),
    };
    (status, report)
}

/// Adds times and ids. The times of a comparison are set only if the seed is synced.
pub(super) fn stamp(status: &mut VaultKVSecretStatus, world: &World, ended: &Ended<SeedIntent>) {
    let object = &world.object;
    let is_synced = match ended {
        Ended::Announcing(_) => return,
        Ended::Stopped(stop) if !object.is_deleting() && plan::is_silent(stop) => return,
        Ended::Stopped(_) => false,
        Ended::Done { .. } if !is_dry_run(object) => true,
        Ended::Done { .. } | Ended::Previewed(_) => is_true(&object.conditions, conditions::SYNCED),
    };
    let time = Some(now(world));
    let sync = &mut status.sync;
    sync.last_attempt_at.clone_from(&time);
    sync.last_reconcile_id = Some(world.pass.id.clone());
    if is_synced {
        sync.last_synced_at.clone_from(&time);
        sync.last_drift_check_at.clone_from(&time);
        if let Some(binding) = &mut sync.binding {
            binding.last_verified_at = time;
        }
    }
}

/// Whether the tenancy denies the seed; none if the pass has not determined it.
pub(super) fn is_tenancy_denied(world: &World, ended: &Ended<SeedIntent>) -> Option<bool> {
    let is_denied = match ended {
        Ended::Announcing(_) => None,
        Ended::Stopped(stop) if plan::is_silent(stop) => None,
        Ended::Stopped(stop) => Some(stop.reason().code == reasons::TENANCY_DENIED),
        Ended::Done { .. } | Ended::Previewed(_) => Some(false),
    };
    is_denied.filter(|_| !world.object.is_deleting())
}

/// The current time in whole seconds, as in status.
fn now(world: &World) -> Time {
    let second = world.now.as_second();
    Time(Timestamp::from_second(second).expect("the second of a valid time is valid"))
}

fn announce(world: &World, intents: &[SeedIntent], status: &mut VaultKVSecretStatus) {
    let Some(SeedIntent { path, kind }) = intents.first() else {
        return; // only metadata is written
    };
    status.sync.phase = Some(Phase::Syncing);
    status.sync.intent = Some(Intent {
        vault_path: Some(path.clone()),
        kind: Some(*kind),
        canonical_hash: None,
        at: Some(now(world)),
    });
}

fn dry_run(world: &World, decision: &Decision, status: &mut VaultKVSecretStatus) -> Report {
    let plan = format!("{}: {decision}", world.object.resource.spec.path);
    let plan = Reason::new(reasons::DRY_RUN_SKIPPED, plan);
    let report = Report::default().condition(conditions::DRY_RUN, true, plan);
    match status.sync.phase {
        None | Some(Phase::Pending) => {
            status.sync.phase = Some(Phase::Pending);
            report.condition(conditions::READY, false, dry_run_skipped())
        }
        Some(Phase::Syncing | Phase::Active | Phase::Conflict | Phase::Error | Phase::Deleting) => {
            report
        }
    }
}

/// The empty report of a pass that is not a dry run. It ends the condition of an earlier dry run.
fn after_dry_run(world: &World) -> Report {
    let report = Report::default();
    if is_true(&world.object.conditions, conditions::DRY_RUN) {
        let over = Reason::new(reasons::SUCCEEDED, "dry-run is over");
        return report.condition(conditions::DRY_RUN, false, over);
    }
    report
}

/// What Vault has at the path when a pass is done.
enum Settled {
    /// We wrote this version. The owner is that of its marker, if status does not have it yet.
    Ours { version: u64, owner: Option<String> },
    /// It existed already, and belongs to this owner if its marker names one.
    Theirs { owner: Option<String> },
    /// Whether we wrote it cannot be determined.
    Unconfirmed,
}

/// | written | decision                     | settled                              |
/// |---------|------------------------------|--------------------------------------|
/// | yes     |                              | ours, with the current marker        |
/// | no      | claim                        | ours, with the current marker        |
/// | no      | untouched, seeded, announced | ours, with the current marker        |
/// | no      | untouched, seeded            | ours, as recorded                    |
/// | no      | untouched                    | theirs                               |
/// | no      | unconfirmed                  | unconfirmed                          |
/// | no      | any other                    | – (such a pass is not done)          |
fn settled(world: &World) -> Option<Settled> {
    let header = &world.facts.connection.as_ref().ok()?.header;
    let current_owner = || Some(owner::shown(&owner::marker(header)));
    let situation = plan::situation_of(world)?;
    match (world.observed.written, situation.decision()) {
        (Some(version), _) | (None, Decision::Claim { version }) => Some(Settled::Ours {
            version,
            owner: current_owner(),
        }),
        (
            None,
            Decision::Untouched {
                seeded: Some(version),
                ..
            },
        ) => Some(Settled::Ours {
            version,
            owner: situation.announced.and_then(|_| current_owner()),
        }),
        (
            None,
            Decision::Untouched {
                seeded: None,
                owner,
            },
        ) => Some(Settled::Theirs { owner }),
        (None, Decision::Unconfirmed) => Some(Settled::Unconfirmed),
        (
            None,
            Decision::Refuse { .. }
            | Decision::Write { .. }
            | Decision::Unreadable { .. }
            | Decision::Absent
            | Decision::Delete
            | Decision::Left(_),
        ) => None,
    }
}

/// Records what Vault has at the path, and reports the owner.
fn succeeded(world: &World, status: &mut VaultKVSecretStatus) -> Report {
    let Some(settled) = settled(world) else {
        return Report::default();
    };
    let spec = &world.object.resource.spec;
    let path = &spec.path;
    let before = status.sync.binding.take().unwrap_or_default();
    let is_same = before.vault_path.as_ref() == Some(path);
    let mut binding = Binding {
        vault_path: Some(path.clone()),
        vault_resource_name: KvPath::parse(path).map(|at| at.path),
        bound_at: before.bound_at.filter(|_| is_same).or(Some(now(world))),
        binding_verified: Some(true),
        connection: Some(spec.connection_ref.clone()),
        ..before
    };
    status.vault_path = Some(path.clone());
    let (is_seeded, seeded) = seeded(path, &settled);
    let has_written = matches!(settled, Settled::Ours { owner: Some(_), .. });
    let ready = match settled {
        Settled::Ours { version, owner } => {
            status.seeded = Some(true);
            status.seeded_version = i64::try_from(version).ok();
            binding.owner = owner.or(binding.owner);
            status.sync.intent = None;
            Reason::new(reasons::SUCCEEDED, format!("{path} is in Vault"))
        }
        Settled::Theirs { .. } => {
            status.seeded = Some(false);
            status.seeded_version = None;
            binding.owner = None;
            status.sync.intent = None;
            seeded.clone()
        }
        // The intent stays open until it can be determined.
        Settled::Unconfirmed => Reason::new(reasons::SUCCEEDED, seeded.message.clone()),
    };
    let sync = &mut status.sync;
    sync.binding = Some(binding);
    sync.managed = Some(status.seeded == Some(true));
    sync.phase = Some(Phase::Active);
    sync.message = Some(ready.message.clone());
    sync.retry_count = None;
    sync.next_retry_at = None;
    let connected = Reason::new(reasons::DEPENDENCY_READY, "the connection is ready");
    let note = Note::normal("Synced", ready.message.clone());
    let report = after_dry_run(world)
        .condition(conditions::SEEDED, is_seeded, seeded)
        .condition(conditions::READY, true, ready.clone())
        .condition(conditions::SYNCED, true, ready)
        .condition(conditions::DEPENDENCY_READY, true, connected.clone())
        .condition(conditions::CONNECTION_READY, true, connected);
    if has_written {
        report.event(note)
    } else {
        report.event_on_new_reason(conditions::READY, note)
    }
}

/// The Seeded condition: whether the seed is ours, and why.
fn seeded(path: &str, settled: &Settled) -> (Truth, Reason) {
    match settled {
        Settled::Ours { version, .. } => {
            let message = format!(
                "version {version} of {path} was written by us; later edits of data change nothing"
            );
            (Truth::True, Reason::new(reasons::SUCCEEDED, message))
        }
        Settled::Theirs { owner } => {
            let owner = owner
                .as_ref()
                .map(|owner| format!(" and belongs to {owner}"));
            let owner = owner.unwrap_or_default();
            let message = format!("{path} existed already{owner}; the operator does not change it");
            (Truth::False, Reason::new(reasons::SUCCEEDED, message))
        }
        Settled::Unconfirmed => {
            let message = format!(
                "{path} exists, but whether we wrote it before a crash cannot be determined; the \
                 operator does not change it; allow our token to read it"
            );
            (
                Truth::Unknown,
                Reason::new(reasons::SEED_UNCONFIRMED, message),
            )
        }
    }
}

/// Reports why the pass stopped.
fn stopped(world: &World, stop: &Stop, status: &mut VaultKVSecretStatus) -> Report {
    let reason = stop.reason();
    let message = cap(&reason.message, names::MESSAGE_BYTES);
    let lacks_connection = reason.code == reasons::CONNECTION_NOT_READY;
    let sync = &mut status.sync;
    sync.phase = Some(Phase::Error);
    sync.message = Some(message.clone());
    match stop {
        Stop::Failed { .. } => {
            sync.retry_count = Some(sync.retry_count.unwrap_or_default() + 1);
            sync.next_retry_at = Some(Time(now(world).0 + world.pass.retry_in));
        }
        Stop::Waiting { .. } | Stop::Blocked { .. } => {
            sync.retry_count = None;
            sync.next_retry_at = None;
        }
    }
    if plan::is_refused(world) {
        sync.intent = None; // after a refusal, the write has surely not happened
    }
    let event = if lacks_connection {
        "WaitingForDependency"
    } else {
        "SyncFailed"
    };
    let mut report = after_dry_run(world)
        .condition(conditions::READY, false, reason.clone())
        .condition(
            conditions::SYNCED,
            false,
            Reason::new(reasons::FAILED, message),
        )
        .event_on_new_reason(
            conditions::READY,
            Note::warning(event, reason.message.clone()),
        );
    if lacks_connection {
        let lacks = Reason::new(reasons::DEPENDENCY_NOT_READY, reason.message.clone());
        report = report
            .condition(conditions::DEPENDENCY_READY, false, lacks.clone())
            .condition(conditions::CONNECTION_READY, false, lacks);
    }
    if reason.code == reasons::SEED_TARGET_DELETED {
        report = report.condition(conditions::SEEDED, false, reason.clone());
    }
    report
}

/// | ended             | status                                | event                                   |
/// |-------------------|---------------------------------------|-----------------------------------------|
/// | done              | unchanged, as the object goes         | the result: [`released`]                |
/// | waiting           | since when, and for what; Ready=False | when it begins, and when it is stuck    |
/// | waiting, silently | unchanged                             | –                                       |
/// | any other         | unchanged                             | –                                       |
fn deletion(world: &World, ended: &Ended<SeedIntent>, status: &mut VaultKVSecretStatus) -> Report {
    let reason = match ended {
        Ended::Done { .. } => return Report::default().event(released(world)),
        Ended::Stopped(stop @ Stop::Waiting { reason, .. }) if !plan::is_silent(stop) => reason,
        Ended::Stopped(_) | Ended::Announcing(_) | Ended::Previewed(_) => {
            return Report::default();
        }
    };
    let sync = &mut status.sync;
    let is_new = sync.phase != Some(Phase::Deleting);
    let is_stuck = plan::deleting_for(world) >= STUCK;
    let connection = &world.object.resource.spec.connection_ref;
    let mut message = format!(
        "waits to be removed from Vault through VaultConnection {connection}: {}",
        reason.message
    );
    if is_stuck {
        message = format!("{message}; {STUCK_WORDS}");
    }
    sync.phase = Some(Phase::Deleting);
    sync.deletion_started_at.get_or_insert(now(world));
    sync.message = Some(cap(&message, names::MESSAGE_BYTES));
    let deleting = Reason::new(reasons::DELETION_IN_PROGRESS, message.clone());
    let mut report = Report::default()
        .condition(conditions::DELETING, true, deleting)
        .condition(conditions::READY, false, reason.clone());
    if is_new {
        let begins = "what it has in Vault is being removed";
        report = report
            .event(Note::normal("Deleting", begins))
            .event(Note::warning("DeleteFailed", message.clone()));
    }
    if is_stuck {
        let stuck = Note::warning("DeletionStuck", message);
        report = report.event_on_new_message(conditions::DELETING, stuck);
    }
    report
}

/// The event about the seed in Vault when the object goes.
fn released(world: &World) -> Note {
    let object = &world.object;
    let path = &object.resource.spec.path;
    let retained = |why: &str| {
        let message = format!("what it has in Vault stays, as {why}");
        Note::normal("Deleted", message)
    };
    let left = |why: &str| {
        let message = format!("{path} was left in Vault: {why}");
        Note::warning("ForeignSecretNotDeleted", message)
    };
    if world.observed.hand_over.is_some() {
        let message =
            format!("may be left in Vault for now and is removed when that can be done: {path}");
        return Note::warning("DeleteRetryEnqueued", message);
    }
    match (plan::skipped_deletion(world), plan::decision(world)) {
        (Some(SkippedDeletion::DryRun), _) => retained("dry-run is on"),
        (Some(SkippedDeletion::Retained), _) => retained("deletionPolicy is Retain"),
        (Some(SkippedDeletion::NeverWritten), _) if object.status.sync.binding.is_some() => {
            left("it was not written by us")
        }
        (Some(SkippedDeletion::NeverWritten), _) => {
            Note::normal("Deleted", "it had nothing in Vault")
        }
        (None, Some(Decision::Left(why))) => left(&why),
        (None, Some(_) | None) => Note::normal("Deleted", "gone from Vault"),
    }
}
