//! What the object says of itself, from how its pass ended.

use api::vault::{
    Binding, DriftMode, Intent, IntentKind, Phase, SyncStatus, conditions, names as words, reasons,
};
use engine::{Classified, Note, Pass};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::{Class, Conditions, Progress, Reason, cap, find, is_true};

use super::apply::{Applied, announced, closed, rename_pending};
use super::{Declared, Desired, Error, Kept, Record, Stop, error};
use crate::ctx::Ctx;
use crate::place::Place;

/// Said by nobody: the connection's first pass is still to come.
pub(crate) const STARTING: &str = "ConnectionStarting";
/// Said by nobody: a neighbour is about to change.
pub(super) const NEIGHBOUR: &str = "NeighbourChanging";

/// How far a pass came.
pub(crate) struct Told<K: Declared> {
    pub(crate) desired: Option<Desired<K::Extra>>,
    /// The drift mode in force.
    pub(crate) mode: Option<DriftMode>,
    /// A consent stands on the object.
    pub(crate) consent: bool,
    pub(crate) plan: Option<String>,
    /// Vault itself was asked, and not the memory of the last look.
    pub(crate) looked: bool,
    pub(crate) applied: Applied,
}

impl<K: Declared> Default for Told<K> {
    fn default() -> Self {
        Self {
            desired: None,
            mode: None,
            consent: false,
            plan: None,
            looked: true,
            applied: Applied::default(),
        }
    }
}

pub(super) async fn write<K: Declared>(
    object: &K,
    ctx: &Ctx,
    pass: &mut Pass,
    told: Told<K>,
    ended: Result<(), Stop>,
) -> Result<Progress, Error> {
    let is_down = ended.as_ref().is_err_and(error::is_outage);
    let (connection, who) = (object.terms().connection, (K::DEPENDENT, pass.key()));
    if is_down {
        ctx.wait_for(connection, who);
    }
    for note in &told.applied.notes {
        pass.event(note.clone());
    }
    // Calls that failed together would all be reported at once. Who has an intent to close writes now
    // anyway, and reports with that.
    let ended = if is_down
        && !pass.is_urgent()
        && told.applied.refused.is_empty()
        && let Some(after) = ctx.links.turn_to_tell(connection, who)
    {
        let message = format!("many say that VaultConnection {connection} is not ready");
        Err(Stop::waiting(Reason::new(STARTING, message), after))
    } else {
        ended
    };
    let before = object.status();
    let now = ctx.now();
    if pass.has_written() || is_silent(&ended) {
        if let Some(after) = with_record::<K>(&before, &told.applied, now) {
            pass.write_status(&after).await?;
        }
        return ended.map_or_else(Stop::progress, |()| Ok(Progress::Again));
    }
    let mut after = before.clone();
    let failed = said::<K>(&mut after, object, &told, &ended, now, pass);
    tell_events::<K>(&before, &after, &told, pass);
    count::<K>(&before, &after, ctx, pass);
    if failed || after != before {
        if told.plan.is_some() {
            after.sync_mut().last_reconcile_id = Some(pass.id().to_owned());
        } else {
            stamp(after.sync_mut(), now, told.looked, pass);
        }
        pass.write_status(&after).await?;
    }
    let open = after.sync().intent.is_some();
    match ended {
        Ok(()) if open && told.plan.is_none() => Ok(Progress::Again),
        Ok(()) => Ok(told.desired.and_then(|desired| desired.lacks).map_or(
            Progress::Done {
                recheck: told.applied.recheck,
            },
            |reason| Progress::Blocked { reason },
        )),
        Err(stop) => stop.progress(),
    }
}

/// Nothing is said of what passes by itself: our own writes, limits, a lease that was lost.
pub(super) fn is_silent(ended: &Result<(), Stop>) -> bool {
    match ended {
        Ok(()) | Err(Stop::Blocked { .. }) => false,
        Err(Stop::Again) => true,
        Err(Stop::Waiting { reason, .. }) => {
            [STARTING, NEIGHBOUR, error::THROTTLED].contains(&&*reason.code)
        }
        Err(Stop::Failed(Error::Api(error))) => {
            matches!(error.class(), Class::Stale | Class::Deposed)
        }
        Err(Stop::Failed(Error::Vault(error))) => error::reason(error).is_none(),
    }
}

/// Puts how the pass ended into `status`; answers whether an attempt failed, which is always told.
fn said<K: Declared>(
    status: &mut K::Status,
    object: &K,
    told: &Told<K>,
    ended: &Result<(), Stop>,
    now: Timestamp,
    pass: &Pass,
) -> bool {
    let sync = status.sync().clone();
    let mut set = Conditions::new(&sync.conditions, object.meta().generation, now);
    if let Some(plan) = &told.plan {
        dry_run(status.sync_mut(), &mut set, plan);
        status.sync_mut().conditions = set.into_parts().0;
        return false;
    }
    if is_true(&sync.conditions, conditions::DRY_RUN) {
        set.no(
            conditions::DRY_RUN,
            &Reason::new(reasons::SUCCEEDED, "dry-run is over"),
        );
    }
    let failed = match (ended, &told.applied.next) {
        (Ok(()), Some(next)) => {
            go_on::<K>(status, &told.applied, next, now);
            false
        }
        (Ok(()), None) => {
            let desired = told.desired.as_ref().expect("what succeeded was desired");
            succeeded::<K>(status, desired, told, &mut set, now);
            false
        }
        (Err(stop), _) => {
            recorded::<K>(status, &told.applied, now);
            close_refused(status.sync_mut(), &told.applied);
            drifted(status.sync_mut(), told.mode, &told.applied, &mut set, now);
            stopped(status.sync_mut(), stop, &mut set, now, pass)
        }
    };
    status.sync_mut().conditions = set.into_parts().0;
    failed
}

fn dry_run(sync: &mut SyncStatus, set: &mut Conditions, plan: &str) {
    set.yes(
        conditions::DRY_RUN,
        &Reason::new(reasons::DRY_RUN_SKIPPED, plan),
    );
    if sync.phase.is_none() || sync.phase == Some(Phase::Pending) {
        sync.phase = Some(Phase::Pending);
        set.no(conditions::READY, &dry_run_skipped());
    }
}

/// Why an object that is new to us is not Ready in a dry run.
pub(crate) fn dry_run_skipped() -> Reason {
    Reason::new(
        reasons::DRY_RUN_SKIPPED,
        "nothing is written while the annotation vault.platform.io/dry-run is true",
    )
}

fn succeeded<K: Declared>(
    status: &mut K::Status,
    desired: &Desired<K::Extra>,
    told: &Told<K>,
    set: &mut Conditions,
    now: Timestamp,
) {
    let applied = &told.applied;
    recorded::<K>(status, applied, now);
    K::tell(status, desired, applied, set);
    let sync = status.sync_mut();
    drifted(sync, told.mode, applied, set, now);
    sync.retry_count = None;
    sync.next_retry_at = None;
    sync.managed = Some(true);
    let corrects = sync.intent.as_ref().and_then(|intent| intent.kind);
    let corrects = corrects == Some(IntentKind::Correct);
    if corrects && !told.consent {
        sync.drift_corrected_at = Some(Time(now));
    }
    if !(corrects && told.consent) {
        sync.intent = None; // else first the consent goes, so that it is not used twice
    }
    if let Some(previous) = &applied.previous {
        sync.previous_names.clone_from(previous);
    }
    match rename_pending(applied) {
        Some((kind, reason)) => set.yes(kind, &reason),
        None => set.drop(conditions::RENAME_PENDING),
    };
    let fine = Reason::new(reasons::SUCCEEDED, "Vault holds what the spec says");
    set.yes(conditions::SYNCED, &fine);
    let connected = Reason::new(reasons::DEPENDENCY_READY, "the connection is ready");
    set.yes(conditions::CONNECTION_READY, &connected);
    match &desired.lacks {
        None => {
            sync.phase = Some(Phase::Active);
            sync.message = None;
            set.yes(conditions::READY, &fine);
            set.yes(conditions::DEPENDENCY_READY, &connected);
        }
        Some(lacks) => {
            sync.phase = Some(Phase::Error);
            sync.message = Some(lacks.message.clone());
            set.no(conditions::READY, lacks);
            set.no(
                conditions::DEPENDENCY_READY,
                &Reason::new(reasons::DEPENDENCY_NOT_READY, lacks.message.clone()),
            );
        }
    }
}

/// Puts what was written on record, and announces what comes next: one write for both.
fn go_on<K: Declared>(status: &mut K::Status, applied: &Applied, next: &Intent, now: Timestamp) {
    recorded::<K>(status, applied, now);
    announced(status.sync_mut(), next.clone());
}

/// The status to write though a pass reports nothing: what it wrote in Vault is on record, and what was
/// refused is not announced any more. None if there is neither.
fn with_record<K: Declared>(
    before: &K::Status,
    applied: &Applied,
    now: Timestamp,
) -> Option<K::Status> {
    let mut after = before.clone();
    if applied.wrote {
        recorded::<K>(&mut after, applied, now);
    }
    close_refused(after.sync_mut(), applied);
    (after != *before).then_some(after)
}

/// Ends the intent of a write that is not in Vault. While it was open, the equal role of somebody else
/// would pass for ours.
fn close_refused(sync: &mut SyncStatus, applied: &Applied) {
    let intent = sync.intent.as_ref();
    let path = intent.and_then(|intent| intent.vault_path.as_ref());
    if path.is_some_and(|path| applied.refused.contains(path)) {
        closed(sync);
    }
}

/// Remembers where in Vault the object is and what was written there.
fn recorded<K: Declared>(status: &mut K::Status, applied: &Applied, now: Timestamp) {
    K::remember(status, &applied.records);
    let Some(main) = applied.records.iter().find(|record| record.slot.is_none()) else {
        return;
    };
    let sync = status.sync_mut();
    let before = sync.binding.take().unwrap_or_default();
    let path = main.place.to_string();
    let same = before.vault_path.as_ref() == Some(&path);
    sync.binding = Some(Binding {
        bound_at: if same {
            before.bound_at
        } else {
            Some(Time(now))
        },
        vault_path: Some(path),
        vault_resource_name: Some(main.place.name().to_owned()),
        auth_mount: main.place.mount().map(ToString::to_string),
        binding_verified: Some(applied.drift.is_empty()),
        last_verified_at: before.last_verified_at,
        connection: main.connection.clone(),
        owner: main.owner.clone(),
    });
    if applied.wrote || is_edited(sync, main) || sync.last_applied_hash.is_none() {
        sync.last_applied_hash.clone_from(&main.sent);
    }
    sync.last_applied_canonical_hash.clone_from(&main.hash);
}

/// Whether what is found is not what the status says was sent last: the answer to an edit was lost.
fn is_edited(sync: &SyncStatus, found: &Record) -> bool {
    match &sync.last_applied_canonical_hash {
        Some(before) => found.hash.as_ref() != Some(before),
        // Another release recorded only what it sent. Of a policy, the text that is found tells.
        None => match found.place {
            Place::Policy { .. } => true,
            Place::Role { .. } => false,
        },
    }
}

/// Says whether others have changed it. The mode that judges that goes with it: what is stored is the
/// one in which the drift on record was judged.
fn drifted(
    sync: &mut SyncStatus,
    mode: Option<DriftMode>,
    applied: &Applied,
    set: &mut Conditions,
    now: Timestamp,
) {
    if applied.records.is_empty() {
        return; // nobody came so far as to look
    }
    sync.effective_drift_mode = mode.or(sync.effective_drift_mode);
    let summary = applied.drift.join("\n");
    if summary.is_empty() {
        sync.drift_detected = sync.drift_detected.map(|_| false);
        sync.drift_summary = None;
        set.no(
            conditions::DRIFTED,
            &Reason::new(reasons::NO_DRIFT, "nobody has changed it in Vault"),
        );
    } else {
        let lines: Vec<_> = summary.lines().take(words::DRIFT_SUMMARY_LINES).collect();
        let summary = lines.join("\n");
        if sync.drift_detected != Some(true) {
            sync.last_drift_check_at = Some(Time(now));
        }
        sync.drift_detected = Some(true);
        set.yes(
            conditions::DRIFTED,
            &Reason::new(
                reasons::DRIFT_DETECTED,
                format!("Vault does not hold what was last written:\n{summary}"),
            ),
        );
        sync.drift_summary = Some(summary);
    }
}

/// Says why the pass stopped; answers whether it was a failed attempt.
fn stopped(
    sync: &mut SyncStatus,
    stop: &Stop,
    set: &mut Conditions,
    now: Timestamp,
    pass: &Pass,
) -> bool {
    let (reason, failed) = match stop {
        Stop::Again => return false,
        Stop::Waiting { reason, .. } | Stop::Blocked { reason } => (reason.clone(), false),
        Stop::Failed(error) => (failure(error), true),
    };
    let sync_failed = Reason::new(reasons::FAILED, reason.message.clone());
    sync.phase = Some(match &*reason.code {
        reasons::CONFLICT | reasons::DRIFT_BLOCKED => Phase::Conflict,
        reasons::DISCOVERY_PENDING => Phase::Pending,
        _ => Phase::Error,
    });
    sync.message = Some(cap(&reason.message, words::MESSAGE_BYTES));
    set.no(conditions::READY, &reason);
    // What vault-access-operator recorded is told from an edit by what this one has observed.
    let legacy = sync.binding.is_some() && sync.last_applied_canonical_hash.is_none();
    if !legacy {
        set.no(conditions::SYNCED, &sync_failed);
    }
    let connection_lacks = reason.code == reasons::CONNECTION_NOT_READY;
    if connection_lacks {
        let lacks = Reason::new(reasons::DEPENDENCY_NOT_READY, reason.message.clone());
        set.no(conditions::DEPENDENCY_READY, &lacks);
        set.no(conditions::CONNECTION_READY, &lacks);
    }
    if failed {
        sync.retry_count = Some(sync.retry_count.unwrap_or_default() + 1);
        sync.next_retry_at = Some(Time(now + pass.retry_in()));
    } else {
        sync.retry_count = None;
        sync.next_retry_at = None;
    }
    failed
}

/// The reason of a surprise.
pub(crate) fn failure(error: &Error) -> Reason {
    let code = match error {
        Error::Vault(error) => error::reason(error).unwrap_or(reasons::FAILED),
        Error::Api(_) => reasons::FAILED,
    };
    Reason::new(code, error.to_string())
}

/// Times and IDs go only with something else; those of a look only where Vault was looked at.
pub(super) fn stamp(sync: &mut SyncStatus, now: Timestamp, looked: bool, pass: &Pass) {
    let time = Some(Time(now));
    sync.last_attempt_at.clone_from(&time);
    sync.last_reconcile_id = Some(pass.id().to_owned());
    if looked && is_true(&sync.conditions, conditions::SYNCED) {
        sync.last_synced_at.clone_from(&time);
        sync.last_drift_check_at.clone_from(&time);
        if let Some(binding) = &mut sync.binding {
            binding.last_verified_at = time;
        }
    }
}

/// Events tell of transitions, and of what was written.
fn tell_events<K: Declared>(before: &K::Status, after: &K::Status, told: &Told<K>, pass: &Pass) {
    K::events(before, after, pass);
    let ready = |status: &K::Status| {
        let one = find(&status.sync().conditions, conditions::READY).cloned();
        one.map(|one| (one.status, one.reason, one.message))
    };
    let (was, is) = (ready(before), ready(after));
    let drifted = |status: &K::Status| is_true(&status.sync().conditions, conditions::DRIFTED);
    if drifted(after) && !drifted(before) {
        let summary = after.sync().drift_summary.clone().unwrap_or_default();
        pass.event(Note::warning("DriftDetected", summary));
    }
    let Some((status, reason, message)) = is else {
        return;
    };
    let same = was
        .as_ref()
        .is_some_and(|was| (&was.0, &was.1) == (&status, &reason));
    if status == "True" && (!same || told.applied.wrote) {
        pass.event(Note::normal("Synced", message));
    } else if status != "True" && !same {
        match &*reason {
            // Told by the condition alone, or by an event of their own.
            reasons::DISCOVERY_PENDING
            | reasons::DRY_RUN_SKIPPED
            | reasons::DRIFT_BLOCKED
            | reasons::POLICY_NOT_IN_VAULT => {}
            reasons::CONNECTION_NOT_READY => {
                pass.event(Note::warning("WaitingForDependency", message));
            }
            _ => pass.event(Note::warning("SyncFailed", message)),
        }
    }
}

fn count<K: Declared>(before: &K::Status, after: &K::Status, ctx: &Ctx, pass: &Pass) {
    let kind = K::kind(&());
    let drifted = is_true(&after.sync().conditions, conditions::DRIFTED);
    ctx.metrics.drift(&kind, pass.key(), drifted);
    if is_newly_blocked(before.sync(), after.sync()) {
        ctx.metrics.destructive_blocked(&kind, pass.key());
    }
    let is_denied = is_ready_reason(after.sync(), reasons::TENANCY_DENIED);
    ctx.metrics.tenancy(&kind, pass.key(), is_denied);
}

fn is_ready_reason(sync: &SyncStatus, code: &str) -> bool {
    find(&sync.conditions, conditions::READY).is_some_and(|one| one.reason == code)
}

/// Whether drift is blocked that was not blocked before. An outage in between replaces the Ready
/// reason, but neither the drift on record nor the mode that blocks it.
fn is_newly_blocked(before: &SyncStatus, after: &SyncStatus) -> bool {
    let was_blocked = before.drift_detected == Some(true)
        && before.effective_drift_mode == Some(DriftMode::Correct);
    is_ready_reason(after, reasons::DRIFT_BLOCKED) && !was_blocked
}

#[cfg(test)]
mod tests;
