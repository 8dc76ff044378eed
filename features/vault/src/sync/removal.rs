//! The end of a policy or a role: what it has in Vault goes, then its finalizer.

use api::vault::{DeletionPolicy, IntentKind, names as words};
use engine::{Note, Pass};
use kernel::Progress;

use super::apply::foreign_left;
use super::gather::connected;
use super::held::{Held, hold};
use super::{Declared, Error, Kept, Stop, doubts_connection, or_outage};
use crate::cleanup::VaultLeftover;
use crate::ctx::Ctx;
use crate::language::text::Header;
use crate::owner::{self, Ownership};
use crate::place::{self, Found, Place};

/// A place that may hold something of ours.
#[derive(Debug, Clone)]
pub(crate) struct Remains {
    pub(crate) place: Place,
    pub(crate) connection: String,
    pub(crate) owner: Option<String>,
    pub(crate) hash: Option<String>,
    /// Recorded as ours; else only a marker, or an announced create, makes it so.
    pub(crate) recorded: bool,
}

pub(super) async fn reconcile<K: Declared>(
    object: &K,
    ctx: &Ctx,
    pass: &mut Pass,
) -> Result<Progress, Error> {
    let held = object.meta().finalizers.as_deref().unwrap_or_default();
    if !held.iter().any(|name| name == words::FINALIZER) {
        return Ok(Progress::done());
    }
    let terms = object.terms();
    let dry = pass.object().annotation(words::DRY_RUN).as_deref() == Some("true");
    if dry {
        pass.event(Note::normal(
            "DryRun",
            "deleted here; what it has in Vault stays, as dry-run is on",
        ));
    }
    let remains = match terms.deletion {
        DeletionPolicy::Delete if !dry => remains(object, ctx, pass),
        DeletionPolicy::Delete | DeletionPolicy::Retain => Vec::new(),
    };
    let mut left = remains;
    let ended = remove_all(object, &mut left, ctx, pass).await;
    let Err(stop) = ended else {
        return release(pass, dry || terms.deletion == DeletionPolicy::Retain).await;
    };
    let stop = or_outage(stop, terms.connection, K::DEPENDENT, ctx, pass).await;
    match hold(object, terms.connection, object.status(), stop, ctx, pass).await? {
        Held::Waits(progress) => Ok(progress),
        Held::IsOver => hand_over(object, &left, ctx, pass).await,
    }
}

async fn release(pass: &mut Pass, kept: bool) -> Result<Progress, Error> {
    let how = if kept {
        "kept in Vault"
    } else {
        "gone from Vault"
    };
    pass.event(Note::normal("Deleted", how));
    pass.drop_finalizer(words::FINALIZER).await?;
    Ok(Progress::done())
}

/// Every place that may hold something of the object's.
fn remains<K: Declared>(object: &K, ctx: &Ctx, pass: &Pass) -> Vec<Remains> {
    let status = object.status();
    let sync = status.sync();
    let own = object.terms().connection;
    let mut all: Vec<Remains> = K::records(&status)
        .into_iter()
        .map(|record| Remains {
            connection: record.connection.unwrap_or_else(|| own.to_owned()),
            place: record.place,
            owner: record.owner,
            hash: record.hash,
            recorded: true,
        })
        .collect();
    for entry in &sync.previous_names {
        let Some(place) = entry.vault_path.as_deref().and_then(Place::parse) else {
            continue;
        };
        all.push(Remains {
            place,
            connection: entry.connection.clone().unwrap_or_else(|| own.to_owned()),
            owner: entry.owner.clone(),
            hash: None,
            recorded: true,
        });
    }
    // Written, and not recorded before a crash.
    let announced = sync.intent.as_ref().and_then(|intent| {
        let created = intent.kind == Some(IntentKind::Create);
        let place = intent.vault_path.as_deref().filter(|_| created)?;
        Some((Place::parse(place)?, intent.canonical_hash.clone()))
    });
    let derived = ctx
        .connection(own)
        .and_then(|connection| object.unannounced(ctx, &connection, pass.key()));
    let possible = announced
        .into_iter()
        .chain(derived.map(|place| (place, None)));
    for (place, hash) in possible {
        if !all.iter().any(|known| known.place.is(&place)) {
            all.push(Remains {
                place,
                connection: own.to_owned(),
                owner: None,
                hash,
                recorded: false,
            });
        }
    }
    all
}

/// Removes one after another; what is left in `remains` when it stops is still to do.
async fn remove_all<K: Declared>(
    object: &K,
    remains: &mut Vec<Remains>,
    ctx: &Ctx,
    pass: &mut Pass,
) -> Result<(), Stop> {
    while let Some(next) = remains.first() {
        let next = next.clone();
        if !next.recorded && ctx.connection(&next.connection).is_none() {
            remains.remove(0); // nothing was ever written over a connection that never was
            continue;
        }
        remove(object, &next, ctx, pass).await?;
        remains.remove(0);
    }
    Ok(())
}

async fn remove<K: Declared>(
    object: &K,
    remains: &Remains,
    ctx: &Ctx,
    pass: &mut Pass,
) -> Result<(), Stop> {
    let (connection, vault, _) = connected(ctx, &remains.connection, K::DEPENDENT, pass)?;
    let vault =
        super::gather::in_own_namespace(&vault, &connection, object.terms().vault_namespace);
    let header = ctx.header(&connection, &K::kind(&()), pass.key());
    let told = |error: vault_client::Error| {
        if doubts_connection(&error) {
            ctx.doubt(&remains.connection);
        }
        Stop::from(Error::from(error))
    };
    let found = pass.outside(place::read(&vault, &remains.place)).await;
    let Some(found) = found.map_err(told)? else {
        return Ok(());
    };
    let recorded = owner::Recorded {
        owner: remains.owner.as_deref(),
        name: remains.recorded.then(|| remains.place.name()),
    };
    let marker = found.marker();
    // An earlier place may carry the marker of the object's own connection, if a crash kept that
    // from being recorded.
    let own = ctx.connection(object.terms().connection);
    let own = own.map(|own| ctx.header(&own, &K::kind(&()), pass.key()));
    let is_own = |own: &Header| owner::judge(marker.as_ref(), own, recorded) == Ownership::Ours;
    let ours = match owner::judge(marker.as_ref(), &header, recorded) {
        Ownership::Ours => true,
        Ownership::Foreign(_) if own.as_ref().is_some_and(is_own) => true,
        Ownership::Unmarked if is_announced(remains, &found) => true,
        Ownership::Unmarked => {
            pass.event(foreign_left(&remains.place, "nobody we know"));
            false
        }
        Ownership::Foreign(owner) => {
            pass.event(foreign_left(&remains.place, &owner));
            false
        }
    };
    if ours {
        let gone = pass.outside(place::delete(&vault, &remains.place)).await;
        gone.map_err(told)?;
    }
    Ok(())
}

/// What we announced to create, and is as announced, is ours.
fn is_announced(remains: &Remains, found: &Found) -> bool {
    remains.hash.is_some() && found.hash() == remains.hash
}

/// The deadline has passed: what is left is recorded and worked off later, and the object goes.
async fn hand_over<K: Declared>(
    object: &K,
    left: &[Remains],
    ctx: &Ctx,
    pass: &mut Pass,
) -> Result<Progress, Error> {
    for remains in left {
        let leftover = VaultLeftover::of_remains(object, remains, ctx);
        ctx.leftovers.record(&leftover).await?;
    }
    let places: Vec<_> = left
        .iter()
        .map(|remains| remains.place.to_string())
        .collect();
    pass.event(Note::warning(
        "DeleteRetryEnqueued",
        format!(
            "may be left in Vault for now and is removed when that can be done: {}",
            places.join(", ")
        ),
    ));
    pass.drop_finalizer(words::FINALIZER).await?;
    Ok(Progress::done())
}
