//! What a table and the objects of the cluster have to do with each other.

use std::sync::Arc;

use api::tenants::{TenantSource, names};
use engine::{Cache, Stored};

use super::apply::STEPS;
use super::object::{Held, Origin};
use super::plan::{Answers, Plan, World, plan};
use super::polls::Memory;
use super::prune::Missing;
use super::rows::{Row, Tenants, tenants};
use crate::ctx::Ctx;

/// What was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) origin: Origin,
    pub(super) tenants: Tenants,
    pub(super) plan: Plan,
    /// Objects of the source in other namespaces than it names now.
    pub(super) abroad: usize,
}

/// Compares `rows` with the objects there are. Twenty thousand of them take a while, so this runs
/// where it holds up nobody.
pub(super) async fn compare(
    source: &TenantSource,
    rows: Vec<Row>,
    memory: &Memory,
    ctx: &Ctx,
) -> Found {
    let origin = Origin::new(source);
    let limit = if source.spec.dry_run {
        names::PENDING_CHANGES_CAP
    } else {
        STEPS
    };
    let (objects, answers) = (ctx.caches.tenants.clone(), memory.answers.clone());
    let after = memory.stopped_at.clone();
    let work = move || found(origin, &rows, (&answers, after.as_deref()), &objects, limit);
    ctx.deck.cpu.run(work).await
}

fn found(
    origin: Origin,
    rows: &[Row],
    (answers, after): (&Answers, Option<&str>),
    objects: &Cache,
    limit: usize,
) -> Found {
    let mut tenants = tenants(rows);
    let made = objects.store().by(super::BY_SOURCE, &origin.uid);
    let is_here = |one: &Arc<Stored>| one.key().namespace.as_deref() == Some(&*origin.target);
    let (here, abroad): (Vec<_>, Vec<_>) = made.into_iter().partition(is_here);
    let marked: Vec<Missing> = here
        .iter()
        .filter_map(|stored| Held::read(stored))
        .filter(|held| held.is_of(&origin) && !held.deleting)
        .map(|held| Missing {
            name: held.name,
            uid: held.uid,
            version: held.version,
        })
        .collect();
    let held = |name: &str| {
        let stored = objects.store().get(&origin.key(name))?;
        Held::read(&stored)
    };
    let world = World {
        origin: &origin,
        held: &held,
        marked: &marked,
        answers,
        after,
    };
    let plan = plan(&mut tenants, &world, limit);
    Found {
        plan,
        tenants,
        abroad: abroad.len(),
        origin,
    }
}
