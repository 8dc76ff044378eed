//! The end of a seed: what it wrote goes if nobody has changed it, then its finalizer.

use api::vault::{DeletionPolicy, VaultKVSecret, names as words};
use engine::{Note, Pass, kill_point};
use kernel::Progress;

use super::gather;
use super::path::KvPath;
use super::plan::{self, End};
use crate::cleanup::{self, Leftover};
use crate::ctx::Ctx;
use crate::links::Dependent;
use crate::sync::{Error, Held, Stop, hold, or_outage};

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
        Err(stop) => {
            let connection = &seed.spec.connection_ref;
            let stop = or_outage(stop, connection, Dependent::Seed, ctx, pass).await;
            match hold(seed, connection, status, stop, ctx, pass).await? {
                Held::Waits(progress) => Ok(progress),
                Held::IsOver => hand_over(seed, ctx, pass).await,
            }
        }
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
