//! The writes, in the order of the plan; then what the object has left behind.

use std::time::Duration;

use api::vault::{
    Intent, IntentKind, Phase, PreviousName, SyncStatus, conditions, names as words, reasons,
};
use engine::{Note, Pass, Recorded};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::Reason;

use super::error::{is_outage, or_outage, passes_after};
use super::gather::{Ground, Target, in_own_namespace};
use super::moves;
use super::plan::{Cause, Step};
use super::{Declared, Desired, Error, Kept, Record, Stop};
use crate::cleanup::VaultLeftover;
use crate::ctx::Ctx;
use crate::owner::{self, Ownership};
use crate::place::{self, Found, Place, Wanted};
use crate::role::payload;

/// What has been done and found, as far as the pass came.
#[derive(Default)]
pub(crate) struct Applied {
    /// The places that hold what is wanted, or held it when last looked at.
    pub(crate) records: Vec<Record>,
    /// Something was written.
    pub(crate) wrote: bool,
    /// What the next pass writes. It is announced together with the record of this one.
    pub(crate) next: Option<Intent>,
    /// The paths at which no announced write of ours can be found later: it certainly did not happen,
    /// or what is there is somebody else's.
    pub(crate) refused: Vec<String>,
    /// Drift that is only reported.
    pub(crate) drift: Vec<String>,
    /// Drift that was corrected, on a consent that is spent.
    pub(crate) corrected: bool,
    /// The earlier places that are still kept; none before they have been looked at.
    pub(crate) previous: Option<Vec<PreviousName>>,
    /// Why an earlier place is kept longer than its grace.
    pub(crate) not_rebound: Vec<String>,
    /// When to look again, if before the next resync.
    pub(crate) recheck: Option<Duration>,
    pub(crate) notes: Vec<Note>,
}

/// Before anything is asked of Vault: the finalizer is there, and an inherited annotation that means
/// nothing any more is not.
pub(super) async fn prepare(ground: &Ground, pass: &mut Pass) -> Result<(), Stop> {
    if ground.dry_run {
        return Ok(());
    }
    let obsolete = words::RESTORE_MANAGED_MARKERS;
    if pass.object().annotation(obsolete).is_some() {
        pass.remove_annotation(obsolete)
            .await
            .map_err(Error::from)?;
        return Err(Stop::Again);
    }
    let finalizer = pass.ensure_finalizer(words::FINALIZER).await;
    match finalizer.map_err(Error::from)? {
        Recorded::Now => Err(Stop::Again),
        Recorded::Already => Ok(()),
    }
}

pub(super) async fn apply<K: Declared>(
    object: &K,
    plan: Vec<(&Target, Step)>,
    desired: &Desired<K::Extra>,
    ground: &Ground,
    ctx: &Ctx,
    pass: &mut Pass,
    applied: &mut Applied,
) -> Result<(), Stop> {
    note_abandoned(object, desired, ground, pass).await?;
    let status = object.status();
    let (records, elsewhere) = split(K::records(&status), ctx, ground);
    leave_first(object, desired, (&records, &elsewhere), ground, ctx, pass).await?;
    // What an open intent makes ours is on record before another intent takes its place.
    let is_recorded = |target: &Target| records.iter().any(|one| one.place.is(&target.place));
    let owes_record = plan
        .iter()
        .any(|(target, step)| is_found(step) && !is_recorded(target));
    let mut stop = None;
    for (target, step) in plan {
        let record = records.iter().find(|record| record.place.is(&target.place));
        match step {
            Step::Keep { text_hash } => {
                let record = written(target, ground);
                let sent = text_hash.or(record.sent);
                applied.records.push(Record { sent, ..record });
            }
            Step::Leave => applied.records.extend(record.cloned()),
            Step::Report { lost } => {
                applied.records.extend(record.cloned());
                applied.drift.push(lost);
            }
            Step::Block { lost } => {
                applied.records.extend(record.cloned());
                stop.get_or_insert_with(|| blocked(&target.place, &lost));
                applied.drift.push(lost);
            }
            Step::Conflict { owner } => {
                applied.refused.push(target.place.to_string());
                stop.get_or_insert_with(|| conflict(&target.place, owner.as_deref(), ground));
            }
            Step::Unsupported { fields } => {
                applied.records.extend(record.cloned());
                stop.get_or_insert_with(|| unsupported(&target.place, &fields));
            }
            Step::Write { cause, lost } => {
                let intent = intent(target, cause, ground);
                let is_announced = intent.is_some();
                if let Some(intent) = intent {
                    let to_record = applied.wrote || owes_record;
                    let open = announce::<K>(&status, intent, ground, to_record, ctx, pass).await?;
                    if let Announced::Later(intent) = open {
                        applied.next.get_or_insert(intent);
                        continue;
                    }
                }
                write(target, ground, is_announced, pass, applied).await?;
                applied.wrote = true;
                applied.corrected |= cause == Cause::Correct;
                applied.records.push(written(target, ground));
                verify(target, ground, pass).await?;
                note(cause, &lost, target, &K::kind(&()), ctx, pass, applied);
            }
        }
    }
    if applied.wrote {
        applied.notes.extend(desired.note.clone());
    }
    if applied.next.is_some() {
        return Ok(()); // the rest first; then what stops it is reported
    }
    if let Some(stop) = stop {
        return Err(stop);
    }
    // Last of all: its intent would take the place of that of a create.
    if let Some(intent) = drop_intent(desired, &records, ground) {
        let to_record = applied.wrote || owes_record;
        let open = announce::<K>(&status, intent, ground, to_record, ctx, pass).await?;
        if let Announced::Later(intent) = open {
            applied.next = Some(intent);
            return Ok(());
        }
    }
    leave_behind(
        object,
        desired,
        (&records, &elsewhere),
        ground,
        ctx,
        pass,
        applied,
    )
    .await?;
    if ground.consent
        && !desired.spends_consent
        && (applied.corrected || spent(ground.intent.as_ref()))
    {
        // One write a pass: the next one records what was done.
        let gone = pass.remove_annotation(words::ALLOW_DESTRUCTIVE).await;
        gone.map_err(Error::from)?;
        return Err(Stop::Again);
    }
    Ok(())
}

/// Tells what we remember of this Vault from what we remember of another.
fn split(records: Vec<Record>, ctx: &Ctx, ground: &Ground) -> (Vec<Record>, Vec<Record>) {
    let is_here = |record: &Record| ground.is_its_vault(record.connection.as_deref(), ctx);
    records.into_iter().partition(is_here)
}

/// Whether an intent is one of a correction.
fn spent(intent: Option<&Intent>) -> bool {
    let kind = intent.and_then(|intent| intent.kind);
    kind == Some(IntentKind::Correct)
}

/// Whether a step is about something of ours that is in Vault, though it may not be on record.
fn is_found(step: &Step) -> bool {
    match step {
        Step::Keep { .. }
        | Step::Write {
            cause: Cause::Edit, ..
        } => true,
        Step::Leave
        | Step::Write { .. }
        | Step::Report { .. }
        | Step::Block { .. }
        | Step::Conflict { .. }
        | Step::Unsupported { .. } => false,
    }
}

fn written(target: &Target, ground: &Ground) -> Record {
    Record {
        place: target.place.clone(),
        slot: target.slot.clone(),
        hash: Some(target.wanted.hash()),
        sent: Some(target.wanted.sent_hash()),
        owner: Some(owner::shown(&owner::marker(&ground.header))),
        connection: Some(ground.connection_name.clone()),
    }
}

enum Announced {
    /// Go on.
    Yes,
    /// Something else is not recorded yet: this is announced together with that.
    Later(Intent),
}

/// The intent of a write that could not be recognised after a crash, or that uses up a consent: the
/// first write of a role, and a correction.
fn intent(target: &Target, cause: Cause, ground: &Ground) -> Option<Intent> {
    let kind = match (cause, &target.wanted) {
        (Cause::Create, Wanted::Role(_)) => IntentKind::Create,
        (Cause::Correct, _) => IntentKind::Correct,
        (
            Cause::Create | Cause::Edit | Cause::Overwrite | Cause::Adopt | Cause::Transfer,
            Wanted::Policy { .. } | Wanted::Role(_),
        ) => return None,
    };
    Some(Intent {
        vault_path: Some(target.place.to_string()),
        kind: Some(kind),
        canonical_hash: Some(target.wanted.hash()),
        at: Some(Time(ground.now)),
    })
}

/// The intent to delete the role at the base name, if it goes only because somebody consented.
fn drop_intent<E>(desired: &Desired<E>, records: &[Record], ground: &Ground) -> Option<Intent> {
    let base = records.iter().find(|record| record.slot.is_none());
    let base = base.filter(|_| desired.spends_consent)?;
    Some(Intent {
        vault_path: Some(base.place.to_string()),
        kind: Some(IntentKind::Correct),
        canonical_hash: None,
        at: Some(Time(ground.now)),
    })
}

/// Records `intent` before its effect, unless it is on record.
async fn announce<K: Declared>(
    status: &K::Status,
    intent: Intent,
    ground: &Ground,
    to_record: bool,
    ctx: &Ctx,
    pass: &mut Pass,
) -> Result<Announced, Stop> {
    let is_open = ground.intent.as_ref().is_some_and(|open| {
        (&open.vault_path, open.kind, &open.canonical_hash)
            == (&intent.vault_path, intent.kind, &intent.canonical_hash)
    });
    if is_open {
        return Ok(Announced::Yes);
    }
    if to_record {
        ctx.announcements.saved(K::DEPENDENT, pass, &intent);
        return Ok(Announced::Later(intent));
    }
    let mut status = status.clone();
    announced(status.sync_mut(), intent.clone());
    match pass.write_intent(&status).await.map_err(Error::from)? {
        Recorded::Now => {
            ctx.announcements.saved(K::DEPENDENT, pass, &intent);
            Err(Stop::Again)
        }
        Recorded::Already => Ok(Announced::Yes),
    }
}

/// Puts an intent into a status.
pub(super) fn announced(sync: &mut SyncStatus, intent: Intent) {
    sync.phase = Some(Phase::Syncing);
    sync.intent = Some(intent);
}

/// Takes the intent out of a status. Phase Syncing goes with an open intent.
pub(super) fn closed(sync: &mut SyncStatus) {
    sync.intent = None;
    if sync.phase == Some(Phase::Syncing) {
        sync.phase = Some(Phase::Pending);
    }
}

/// Notes as an earlier place what a create made whose answer was lost, where the object does not want
/// it any more. Without its intent, which ends in this pass, nobody would know of it.
async fn note_abandoned<K: Declared>(
    object: &K,
    desired: &Desired<K::Extra>,
    ground: &Ground,
    pass: &mut Pass,
) -> Result<(), Stop> {
    let mut status = object.status();
    let records = K::records(&status);
    let Some((path, hash)) = moves::abandoned(status.sync(), &records, &desired.targets) else {
        return Ok(());
    };
    let found = match pass.outside(place::read(&ground.vault, &path)).await {
        // The whole mount may be gone.
        Err(vault_client::Error::NotFound { .. }) => None,
        found => found.map_err(Error::from)?,
    };
    let Some(entry) = found.and_then(|found| created(&path, &hash, &found, ground)) else {
        return Ok(());
    };
    let sync = status.sync_mut();
    sync.previous_names.push(entry);
    closed(sync);
    match pass.write_intent(&status).await.map_err(Error::from)? {
        Recorded::Now => Err(Stop::Again),
        Recorded::Already => Ok(()),
    }
}

/// What to remember of `found`, at the path of an announced create; none if it is not ours. Nobody was
/// given that name, so its grace is over.
fn created(at: &Place, announced: &str, found: &Found, ground: &Ground) -> Option<PreviousName> {
    let marker = found.marker();
    let is_as_announced = found.hash().as_deref() == Some(announced);
    let recorded = owner::Recorded {
        owner: None,
        name: is_as_announced.then(|| at.name()),
    };
    let is_ours = owner::judge(marker.as_ref(), &ground.header, recorded) == Ownership::Ours;
    is_ours.then(|| PreviousName {
        vault_path: Some(at.to_string()),
        connection: Some(ground.connection_name.clone()),
        owner: marker.as_ref().map(owner::shown),
        until: Some(Time(ground.now)),
    })
}

/// An object with several places that moves notes all of them as earlier ones before it writes the
/// first new one: its status has room for one mount only.
async fn leave_first<K: Declared>(
    object: &K,
    desired: &Desired<K::Extra>,
    (records, elsewhere): (&[Record], &[Record]),
    ground: &Ground,
    ctx: &Ctx,
    pass: &mut Pass,
) -> Result<(), Stop> {
    let targets: Vec<&Target> = desired.targets.iter().collect();
    let left = moves::left(records, elsewhere, &targets);
    if records.len() < 2 || left.moved.is_empty() {
        return Ok(());
    }
    let mut status = object.status();
    let until = ground.now + grace(object, ground, ctx);
    let previous = &status.sync().previous_names;
    // Places that it moves back to stay recorded until they are its current ones again.
    let is_here = |name: Option<&str>| ground.is_its_vault(name, ctx);
    let connection = &ground.connection_name;
    let kept = moves::kept(previous, records, &[], connection, is_here, until);
    K::forget_places(&mut status);
    status.sync_mut().previous_names = kept;
    match pass.write_intent(&status).await.map_err(Error::from)? {
        Recorded::Now => Err(Stop::Again),
        Recorded::Already => Ok(()),
    }
}

async fn write(
    target: &Target,
    ground: &Ground,
    is_announced: bool,
    pass: &mut Pass,
    applied: &mut Applied,
) -> Result<(), Stop> {
    let write = place::write(&ground.vault, &target.place, &target.wanted);
    let written = pass.outside(write).await;
    // The refusal of another write says nothing of the announced one.
    if let Err(error) = &written
        && is_announced
        && !error.may_have_happened()
    {
        applied.refused.push(target.place.to_string());
    }
    Ok(written.map_err(Error::from)?)
}

/// For a role, one look whether the server took all of it.
async fn verify(target: &Target, ground: &Ground, pass: &mut Pass) -> Result<(), Stop> {
    let (Wanted::Role(sent), Place::Role { mount, name }) = (&target.wanted, &target.place) else {
        return Ok(());
    };
    let read = pass.outside(ground.vault.read_role(mount, name));
    let fields = read.await.map_err(Error::from)?.unwrap_or_default();
    match payload::not_echoed(sent, &fields) {
        missing if missing.is_empty() => Ok(()),
        missing => Err(unsupported(&target.place, &missing)),
    }
}

fn blocked(place: &Place, lost: &str) -> Stop {
    Stop::blocked(Reason::new(
        reasons::DRIFT_BLOCKED,
        format!(
            "{place} was changed in Vault; annotate vault.platform.io/allow-destructive=true to \
             write it back once, or edit the spec:\n{lost}"
        ),
    ))
}

fn conflict(place: &Place, owner: Option<&str>, ground: &Ground) -> Stop {
    let message = match owner {
        Some(owner) if ground.adoption_refused.is_some() => {
            let refused = ground.adoption_refused.as_deref().unwrap_or_default();
            format!("{place} belongs to {owner}; {refused}")
        }
        Some(owner) => format!(
            "{place} belongs to {owner}; use another name, or annotate \
             vault.platform.io/adopt-from={owner:?} to take it over"
        ),
        None => {
            if let Some(refused) = &ground.adoption_refused {
                return Stop::blocked(Reason::new(reasons::TENANCY_DENIED, refused.clone()));
            }
            format!(
                "{place} is in Vault already and nobody's marker is on it; annotate \
                 vault.platform.io/adopt=true to take it over, or use another name"
            )
        }
    };
    Stop::blocked(Reason::new(reasons::CONFLICT, message))
}

fn unsupported(place: &Place, fields: &[String]) -> Stop {
    Stop::blocked(Reason::new(
        reasons::UNSUPPORTED_BY_SERVER,
        format!(
            "{place}: this server does not keep {}; remove the field, or use a server that has it",
            fields.join(", ")
        ),
    ))
}

fn note(
    cause: Cause,
    lost: &str,
    target: &Target,
    kind: &str,
    ctx: &Ctx,
    pass: &Pass,
    applied: &mut Applied,
) {
    let place = &target.place;
    let note = match cause {
        Cause::Create | Cause::Edit => return,
        Cause::Overwrite => Note::warning(
            "DriftOverwritten",
            format!("{place}: the edited spec replaced what others had changed:\n{lost}"),
        ),
        Cause::Correct => {
            ctx.metrics.drift_corrected(kind, pass.key());
            Note::normal(
                "DriftCorrected",
                format!("{place} is as declared again:\n{lost}"),
            )
        }
        Cause::Adopt | Cause::Transfer => {
            ctx.metrics.adopted(kind, pass.key(), true);
            Note::normal("Adopted", format!("{place} is ours now:\n{lost}"))
        }
    };
    applied.notes.push(note);
}

/// Works on the places the object has left: those with a successor are kept for a while, those
/// without are removed.
async fn leave_behind<K: Declared>(
    object: &K,
    desired: &Desired<K::Extra>,
    (records, elsewhere): (&[Record], &[Record]),
    ground: &Ground,
    ctx: &Ctx,
    pass: &mut Pass,
    applied: &mut Applied,
) -> Result<(), Stop> {
    let status = object.status();
    let previous = &status.sync().previous_names;
    let targets: Vec<&Target> = desired.targets.iter().collect();
    let left = moves::left(records, elsewhere, &targets);
    for record in &left.dropped {
        let owner = record.owner.as_deref();
        remove(&record.place, owner, ground, pass, applied).await?;
    }
    let until = ground.now + grace(object, ground, ctx);
    let kept = moves::kept(
        previous,
        &left.moved,
        &targets,
        &ground.connection_name,
        |name| ground.is_its_vault(name, ctx),
        until,
    );
    let mut still = Vec::new();
    for mut entry in kept {
        let kept = keep_up(object, &mut entry, &targets, ground, ctx, pass, applied);
        if Box::pin(kept).await? {
            still.push(entry);
        }
    }
    let next = moves::next_end(&still, ground.now);
    applied.recheck = applied.recheck.into_iter().chain(next).min();
    applied.previous = Some(still);
    Ok(())
}

fn grace<K: Declared>(object: &K, ground: &Ground, ctx: &Ctx) -> Duration {
    let told = ground.connection.spec.defaults.as_ref();
    let told = told.and_then(|defaults| defaults.rename_grace.as_ref());
    told.map_or_else(|| object.grace(ctx), api::vault::Duration::as_std)
}

/// Looks after one earlier place, over the connection it was written over. Answers whether it stays.
async fn keep_up<K: Declared>(
    object: &K,
    entry: &mut PreviousName,
    targets: &[&Target],
    ground: &Ground,
    ctx: &Ctx,
    pass: &mut Pass,
    applied: &mut Applied,
) -> Result<bool, Stop> {
    let Some(place) = entry.vault_path.as_deref().and_then(Place::parse) else {
        return Ok(false);
    };
    let name = entry.connection.as_ref();
    let name = name.unwrap_or(&ground.connection_name).clone();
    if name == ground.connection_name {
        return update_or_remove::<K>(entry, &place, targets, ground, ctx, pass, applied).await;
    }
    let Some(connection) = ctx.connection(&name) else {
        let leftover = VaultLeftover::of(object, entry, &place, &name);
        let recorded = ctx.leftovers.record(&leftover).await;
        recorded.map_err(Error::from)?;
        applied.notes.push(Note::warning(
            "StaleVaultNameQueued",
            format!("{place} is removed when VaultConnection {name} is there again"),
        ));
        return Ok(false);
    };
    let Ok((vault, _)) = ctx.links.vault(&name, (K::DEPENDENT, pass.key())) else {
        return Ok(true); // woken when it is up
    };
    // It has answered, so it is certain now whether it leads to the Vault at hand.
    if moves::is_current(entry, targets, |name| ground.is_its_vault(name, ctx)) {
        return Ok(false);
    }
    let there = Ground {
        vault: in_own_namespace(&vault, &connection, object.terms().vault_namespace),
        ..ground.clone()
    };
    let ended = update_or_remove::<K>(entry, &place, targets, &there, ctx, pass, applied).await;
    let Err(stop) = ended else {
        return ended;
    };
    // What passes by itself at another connection does not concern the object's own state.
    let stop = or_outage(stop, &name, K::DEPENDENT, ctx, pass).await;
    if is_outage(&stop) {
        ctx.wait_for(&name, (K::DEPENDENT, pass.key()));
        return Ok(true);
    }
    match passes_after(&stop, ctx.settings.error_interval) {
        Some(after) => {
            applied.recheck = applied.recheck.into_iter().chain([after]).min();
            Ok(true)
        }
        None => Err(stop),
    }
}

/// What is written goes to an earlier place, too; when its time is over and nobody needs it, it goes.
/// Answers whether it stays.
async fn update_or_remove<K: Declared>(
    entry: &mut PreviousName,
    place: &Place,
    targets: &[&Target],
    there: &Ground,
    ctx: &Ctx,
    pass: &mut Pass,
    applied: &mut Applied,
) -> Result<bool, Stop> {
    let until = entry.until.as_ref();
    let over = until.is_none_or(|until| until.0 <= there.now);
    let needed = K::is_needed(ctx, place);
    if over && needed.is_empty() {
        remove(place, entry.owner.as_deref(), there, pass, applied).await?;
        return Ok(false);
    }
    if over {
        applied.not_rebound.extend(needed);
    }
    let slot = slot_of(place);
    let Some(target) = targets.iter().find(|target| slot_of(&target.place) == slot) else {
        return Ok(true);
    };
    let found = pass.outside(place::read(&there.vault, place)).await;
    let Some(found) = found.map_err(Error::from)? else {
        return Ok(true);
    };
    let recorded = owner::Recorded {
        owner: entry.owner.as_deref(),
        name: Some(place.name()),
    };
    let ours = owner::judge(found.marker().as_ref(), &there.header, recorded) == Ownership::Ours;
    let mut marker = found.marker();
    if ours && found.hash() != Some(target.wanted.hash()) {
        let write = pass.outside(place::write(&there.vault, place, &target.wanted));
        write.await.map_err(Error::from)?;
        applied.wrote = true;
        marker = Some(owner::marker(&there.header));
    }
    // It carries today's marker now, which another connection would not know for ours.
    if let Some(marker) = marker.filter(|_| ours) {
        entry.owner = Some(owner::shown(&marker));
    }
    Ok(true)
}

/// The namespace in `<base>__<namespace>`.
fn slot_of(place: &Place) -> Option<&str> {
    place
        .name()
        .rsplit_once("__")
        .map(|(_, namespace)| namespace)
}

/// Deletes what is at `place` if it is ours; says so if it is not.
async fn remove(
    place: &Place,
    owner: Option<&str>,
    ground: &Ground,
    pass: &mut Pass,
    applied: &mut Applied,
) -> Result<(), Stop> {
    let found = pass.outside(place::read(&ground.vault, place)).await;
    let Some(found) = found.map_err(Error::from)? else {
        return Ok(());
    };
    let recorded = owner::Recorded {
        owner,
        name: Some(place.name()),
    };
    match owner::judge(found.marker().as_ref(), &ground.header, recorded) {
        Ownership::Ours => {
            let gone = pass.outside(place::delete(&ground.vault, place)).await;
            gone.map_err(Error::from)?;
            applied.wrote = true;
        }
        Ownership::Foreign(owner) => applied.notes.push(foreign_left(place, &owner)),
        Ownership::Unmarked => applied.notes.push(foreign_left(place, "nobody we know")),
    }
    Ok(())
}

/// What is not ours survives our deletion.
pub(super) fn foreign_left(place: &Place, owner: &str) -> Note {
    let reason = match place {
        Place::Policy { .. } => "ForeignPolicyNotDeleted",
        Place::Role { .. } => "ForeignRoleNotDeleted",
    };
    Note::warning(
        reason,
        format!("{place} was left in Vault: it belongs to {owner}"),
    )
}

/// The reason and message of the condition about earlier places.
pub(super) fn rename_pending(applied: &Applied) -> Option<(&'static str, Reason)> {
    let previous = applied.previous.as_ref().filter(|kept| !kept.is_empty())?;
    let reason = if applied.not_rebound.is_empty() {
        let places: Vec<_> = previous
            .iter()
            .filter_map(|entry| entry.vault_path.as_deref())
            .collect();
        Reason::new(
            reasons::IN_GRACE,
            format!("kept for tokens issued under it: {}", places.join(", ")),
        )
    } else {
        Reason::new(
            reasons::ROLES_NOT_REBOUND,
            format!("still bound by {}", applied.not_rebound.join(", ")),
        )
    };
    Some((conditions::RENAME_PENDING, reason))
}

#[cfg(test)]
mod tests;
