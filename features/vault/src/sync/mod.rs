//! One pass over a policy or a role: gather, validate, plan, apply, status.
//!
//! What differs between the kinds is in [`Declared`]; everything about places in Vault (whose they
//! are, what was written there, moves, deletion) is here, once.

mod announced;
mod apply;
mod error;
mod gather;
mod held;
mod looks;
mod moves;
mod namesakes;
mod neighbours;
mod outlook;
mod plan;
mod refusals;
mod removal;
mod status;

use std::sync::Arc;

use api::vault::{ConflictPolicy, DeletionPolicy, DriftMode, SyncStatus, VaultConnection, reasons};
use engine::{InNamespace, Note, Pass, Reconcile};
use kernel::{Conditions, ObjectKey, Progress, Reason};
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::Instrument;

pub(crate) use announced::Announcements;
pub(crate) use apply::Applied;
pub(crate) use error::{
    Error, Stop, THROTTLED, connection_not_ready, doubts_connection, is_away, or_outage, reason,
};
pub(crate) use gather::{Ground, Target, Unavailable, available};
pub(crate) use held::{STUCK, STUCK_WORDS};
pub(crate) use looks::Looks;
pub(crate) use neighbours::{Neighbour, Neighbours};
pub(crate) use outlook::{Ahead, Outlook, outlook, own_vault};
pub(crate) use plan::{Cause, Step};
pub(crate) use refusals::Refusals;
pub(crate) use removal::Remains;
pub(crate) use status::{STARTING, Told, dry_run_skipped};

use crate::ctx::Ctx;
use crate::links::Dependent;
use crate::place::Place;

/// What all four kinds say in the same words.
pub(crate) struct Terms<'a> {
    pub(crate) connection: &'a str,
    pub(crate) conflict: ConflictPolicy,
    pub(crate) deletion: DeletionPolicy,
    pub(crate) drift: Option<DriftMode>,
    pub(crate) external_name: Option<&'a str>,
    pub(crate) vault_namespace: Option<&'a str>,
}

/// A place that a status remembers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) place: Place,
    /// Which of the object's roles: none for the one at the base name.
    pub(crate) slot: Option<String>,
    /// SHA-256 of the canonical form last written; vault-access-operator recorded none.
    pub(crate) hash: Option<String>,
    /// SHA-256 of what was last sent.
    pub(crate) sent: Option<String>,
    pub(crate) owner: Option<String>,
    pub(crate) connection: Option<String>,
}

/// What an object wants, checked.
pub(crate) struct Desired<E> {
    pub(crate) targets: Vec<Target>,
    /// What keeps the object from being Ready though its targets are written.
    pub(crate) lacks: Option<Reason>,
    /// A neighbour is about to change what the object wants.
    pub(crate) expects: Option<Neighbour>,
    /// A role goes only because somebody consented; that consent is used up.
    pub(crate) spends_consent: bool,
    /// Something to tell whoever reads events, when it is written.
    pub(crate) note: Option<Note>,
    /// What the kind says beyond the shared status.
    pub(crate) extra: E,
}

/// A status with the part that all kinds have.
pub(crate) trait Kept {
    fn sync(&self) -> &SyncStatus;
    fn sync_mut(&mut self) -> &mut SyncStatus;
}

/// A kind that stands for policies or roles in Vault.
pub(crate) trait Declared:
    Resource<DynamicType = (), Scope: InNamespace> + DeserializeOwned + Send + Sync + 'static
{
    type Status: Kept + Serialize + DeserializeOwned + Clone + PartialEq + Send + Sync;
    type Extra: Send + Sync;
    const DEPENDENT: Dependent;

    fn terms(&self) -> Terms<'_>;
    fn status(&self) -> Self::Status;

    /// The places that its status remembers, but for earlier ones that are only kept.
    fn records(status: &Self::Status) -> Vec<Record>;

    /// What it wants, or why it may not have it. Pure but for what `ctx` caches.
    fn desired(&self, ctx: &Ctx, ground: &Ground) -> Result<Desired<Self::Extra>, Stop>;

    /// Puts into the status what the kind says beyond the shared part, once its targets are true.
    fn tell(
        status: &mut Self::Status,
        desired: &Desired<Self::Extra>,
        applied: &Applied,
        conditions: &mut Conditions,
    );

    /// Where it may have written something that no status tells of, since a crash came between.
    fn unannounced(
        &self,
        ctx: &Ctx,
        connection: &VaultConnection,
        key: &ObjectKey,
    ) -> Option<Place> {
        let _ = (ctx, connection, key);
        None
    }

    /// Puts down places beyond the one that all kinds have.
    fn remember(_status: &mut Self::Status, _records: &[Record]) {}

    /// Takes all places out of the status: they are noted as earlier ones.
    fn forget_places(_status: &mut Self::Status) {}

    /// Tells of what changed in the part of the status that is the kind's own.
    fn events(_before: &Self::Status, _after: &Self::Status, _pass: &Pass) {}

    /// Whether something here still needs `place`, which the object has left.
    fn is_needed(ctx: &Ctx, place: &Place) -> Vec<String> {
        let _ = (ctx, place);
        Vec::new()
    }

    /// How long an earlier place is kept, if the connection does not say.
    fn grace(&self, ctx: &Ctx) -> std::time::Duration;
}

/// The controller of one such kind.
pub(crate) struct Synced<K> {
    ctx: Arc<Ctx>,
    kind: std::marker::PhantomData<fn() -> K>,
}

impl<K: Declared> Synced<K> {
    pub(crate) fn new(ctx: Arc<Ctx>) -> Self {
        let kind = std::marker::PhantomData;
        Self { ctx, kind }
    }
}

impl<K: Declared> Reconcile for Synced<K> {
    type Object = K;
    type Error = Error;

    async fn reconcile(&self, object: &K, pass: &mut Pass) -> Result<Progress, Error> {
        let ctx = &*self.ctx;
        if !ctx.settings.watches(pass.key().namespace.as_deref()) {
            return Ok(Progress::done());
        }
        let began = ctx.deck.clock.elapsed();
        let span = ctx.log_span(object.terms().connection);
        pass.describe(&span);
        let progress = if object.meta().deletion_timestamp.is_some() {
            removal::reconcile(object, ctx, pass).instrument(span).await
        } else {
            reconcile(object, ctx, pass).instrument(span).await
        };
        let took = ctx.deck.clock.elapsed().saturating_sub(began);
        let well = matches!(progress, Ok(Progress::Done { .. } | Progress::Again));
        ctx.metrics
            .reconciled(&K::kind(&()), pass.key(), well, took);
        progress
    }

    fn gone(&self, key: &ObjectKey) {
        self.ctx.links.leave((K::DEPENDENT, key));
        self.ctx.refusals.forget(K::DEPENDENT, key);
        self.ctx.looks.forget(K::DEPENDENT, key);
        self.ctx.announcements.forget(K::DEPENDENT, key);
        self.ctx.neighbours.forget(K::DEPENDENT, key);
        self.ctx.metrics.forget_object(&K::kind(&()), key);
    }
}

/// Makes Vault hold what `object` says, or makes the object say why it does not.
async fn reconcile<K: Declared>(object: &K, ctx: &Ctx, pass: &mut Pass) -> Result<Progress, Error> {
    let mut told = Told::default();
    let mut ended = attempt(object, ctx, pass, &mut told).await;
    if let Err(stop) = ended {
        let connection = object.terms().connection;
        ended = Err(or_outage(stop, connection, K::DEPENDENT, ctx, pass).await);
    }
    // Every way out of `attempt` meets here: one status patch, sent only if it differs.
    status::write(object, ctx, pass, told, ended).await
}

/// A denial says what of before stays in Vault.
fn denied(stop: Stop, records: &[Record]) -> Stop {
    match stop {
        Stop::Blocked { reason } if reason.code == reasons::TENANCY_DENIED => {
            let places: Vec<_> = records.iter().map(|one| one.place.to_string()).collect();
            let message = if places.is_empty() {
                reason.message
            } else {
                format!("{}; {} stays as it was", reason.message, places.join(", "))
            };
            Stop::blocked(Reason::new(reasons::TENANCY_DENIED, message))
        }
        other => other,
    }
}

/// Stops a pass whose result would be written anew in a moment.
fn wait_for_neighbour<K: Declared>(
    expects: Option<Neighbour>,
    ground: &Ground,
    ctx: &Ctx,
    pass: &Pass,
) -> Result<(), Stop> {
    let expects = expects.filter(|_| !ground.dry_run);
    let now = pass.clock().elapsed();
    match ctx.neighbours.wait(K::DEPENDENT, pass.key(), expects, now) {
        Some(wait) => {
            let reason = Reason::new(
                status::NEIGHBOUR,
                "a policy it refers to is about to change",
            );
            Err(Stop::waiting(reason, wait))
        }
        None => Ok(()),
    }
}

async fn attempt<K: Declared>(
    object: &K,
    ctx: &Ctx,
    pass: &mut Pass,
    told: &mut Told<K>,
) -> Result<(), Stop> {
    // Reads: cache and connection. Nothing is asked of Vault for what waits for a person.
    let ground = gather::ground(object, ctx, pass)?;

    // Pure. What comes out needs no further doubt; a refusal carries its reason.
    told.mode = Some(ground.mode);
    told.consent = ground.consent;
    let desired = object.desired(ctx, &ground);
    let desired = desired.map_err(|stop| denied(stop, &K::records(&object.status())))?;
    let desired = told.desired.insert(desired);
    namesakes::refuse_reserved(object, &desired.targets, &ground)?;

    // What the server found wrong, it would find wrong again.
    let asked = ground.question(&desired.targets);
    ctx.refusals.check(K::DEPENDENT, pass, asked)?;

    // Nor does what was in order just now need another look, if only its neighbours changed.
    let resync = ctx.settings.resync;
    let is_settled = desired.lacks.is_none() && looks::is_settled(object.status().sync(), &ground);
    let serves = ctx.looks.serves(K::DEPENDENT, pass, asked, resync);
    let serves = serves.filter(|_| is_settled);
    told.applied.recheck = serves;
    told.looked = serves.is_none();

    let carried_out = async {
        apply::prepare(&ground, pass).await?;
        wait_for_neighbour::<K>(desired.expects, &ground, ctx, pass)?;

        // Reads Vault, once a place.
        let recorded = ground.recorded(object, ctx);
        let intent = ground.intent.as_ref();
        let missing = ctx.announcements.take(K::DEPENDENT, pass, intent);
        let writes = !ground.dry_run;
        let status = object.status();
        let is_being_made =
            || writes && gather::is_being_made(&desired.targets, &recorded, status.sync());
        let skip = gather::Skip {
            is_fresh: serves.is_some() || is_being_made(),
            missing: missing.as_deref(),
            writes,
        };
        let found = gather::found(desired, &recorded, &ground, skip, pass).await?;
        let second = namesakes::refuse_second(object, &desired.targets, &found, ctx, &ground);
        if second.is_err() {
            let base = desired.targets.iter().filter(|one| one.slot.is_none());
            let base = base.map(|target| target.place.to_string());
            told.applied.refused.extend(base);
        }
        second?;

        // Pure.
        let plan = plan::plan(desired, &found, &ground, &recorded);
        if ground.dry_run {
            told.plan = Some(plan::words(&plan));
            return Ok(());
        }

        // Writes, in that order, and notes in `told` how far they came.
        apply::apply(object, plan, desired, &ground, ctx, pass, &mut told.applied).await
    };
    let ended = carried_out.await;
    ctx.refusals.note(K::DEPENDENT, pass.key(), asked, &ended);
    if serves.is_none() {
        let is_done = ended.is_ok() && !ground.dry_run;
        let applied = is_done.then_some(&told.applied);
        ctx.looks.note(K::DEPENDENT, pass, asked, applied);
    }
    ended
}
