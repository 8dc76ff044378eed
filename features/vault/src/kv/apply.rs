//! The writes, in an order that any crash may cut: announce, values, marker. The record comes last,
//! with the status.

use api::vault::{Intent, IntentKind, Phase, VaultKVSecret, names as words, reasons};
use engine::{Pass, Recorded, kill_point};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::Reason;

use super::gather::{self, Ground};
use super::marker;
use super::path::KvPath;
use super::plan::{self, Step, World};
use crate::owner::{self, Ownership};
use crate::sync::{Error, Stop};

/// What stands at the path when all is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Settled {
    /// We wrote this version. The owner is as its marker says now, if that is not on record yet.
    Ours { version: u64, owner: Option<String> },
    /// It was there already, and is this owner's if it names one.
    Theirs { owner: Option<String> },
    /// Nobody can tell whether we wrote it.
    Doubtful,
}

/// Carries out `step`. Notes in `refused` that an announced write certainly did not happen: that
/// closes the intent, however the pass ends.
pub(super) async fn apply(
    seed: &VaultKVSecret,
    step: Step,
    world: &World,
    ground: &Ground<'_>,
    pass: &mut Pass,
    refused: &mut bool,
) -> Result<Settled, Stop> {
    let asked = pass.object().annotation(words::RESTORE_MANAGED_MARKERS);
    if asked.is_some() {
        let gone = pass.drop_annotation(words::RESTORE_MANAGED_MARKERS).await;
        gone.map_err(Error::from)?;
        return Err(Stop::Again);
    }
    let at = &ground.at;
    held(pass).await?;
    match step {
        Step::Refuse { engine } => Err(gather::invalid(format!(
            "{at}: mount {} is {engine}; seeds need KV version 2",
            at.mount
        ))),
        Step::Gone { owner } => Err(Stop::blocked(Reason::new(
            reasons::SEED_TARGET_DELETED,
            gone(at, owner.as_deref()),
        ))),
        Step::Keep {
            seeded: Some(version),
            owner: _,
        } => {
            let owner = world.announced.map(|_| today(ground));
            Ok(Settled::Ours { version, owner })
        }
        Step::Keep {
            seeded: None,
            owner,
        } => Ok(Settled::Theirs { owner }),
        Step::Doubt => Ok(Settled::Doubtful),
        Step::Claim { version } => {
            mark(world, ground, pass).await?;
            let owner = Some(today(ground));
            Ok(Settled::Ours { version, owner })
        }
        Step::Write { cas, kind } => {
            announce(seed, kind, world, ground, pass).await?;
            match write(seed, cas, ground, pass).await {
                Ok(version) => {
                    mark(world, ground, pass).await?;
                    let owner = Some(today(ground));
                    Ok(Settled::Ours { version, owner })
                }
                Err(error) => {
                    *refused = !error.may_have_happened();
                    if may_be_second(&error) {
                        after_refusal(seed, error, kind, world, ground, pass).await
                    } else {
                        Err(ground.stop(error))
                    }
                }
            }
        }
    }
}

fn today(ground: &Ground<'_>) -> String {
    owner::shown(&owner::marker(&ground.header))
}

fn gone(at: &KvPath, owner: Option<&str>) -> String {
    match owner {
        Some(owner) => format!(
            "{at}: nobody can read it, as its newest version was deleted; it belongs to {owner}, \
             so it is left to them"
        ),
        None => format!(
            "{at}: nobody can read it, as its newest version was deleted; undelete it, or set \
             reseedDeleted to have it written again"
        ),
    }
}

/// Whatever stands there is judged when the object goes, and left or deleted; so the object is held.
async fn held(pass: &mut Pass) -> Result<(), Stop> {
    let finalizer = pass.ensure_finalizer(words::FINALIZER).await;
    match finalizer.map_err(Error::from)? {
        Recorded::Already => Ok(()),
        Recorded::Now => Err(Stop::Again),
    }
}

/// Records what will be written, and where, before it is.
async fn announce(
    seed: &VaultKVSecret,
    kind: IntentKind,
    world: &World,
    ground: &Ground<'_>,
    pass: &mut Pass,
) -> Result<(), Stop> {
    if world.announced == Some(kind) {
        return Ok(());
    }
    let mut status = gather::status(seed);
    status.sync.phase = Some(Phase::Syncing);
    status.sync.intent = Some(Intent {
        vault_path: Some(ground.at.to_string()),
        kind: Some(kind),
        canonical_hash: None,
        at: Some(Time(ground.now)),
    });
    match pass.write_intent(&status).await.map_err(Error::from)? {
        Recorded::Now => Err(Stop::Again),
        Recorded::Already => Ok(()),
    }
}

/// Writes the values if nobody was faster; answers their version.
async fn write(
    seed: &VaultKVSecret,
    cas: u64,
    ground: &Ground<'_>,
    pass: &mut Pass,
) -> Result<u64, vault_client::Error> {
    let KvPath { mount, path } = &ground.at;
    let values = gather::values(seed);
    kill_point("kv-before-write");
    let call = ground.vault.write_secret(mount, path, &values, cas);
    let written = pass.outside(Box::pin(call)).await;
    kill_point("kv-after-write");
    written
}

/// Whether a write may have been refused because somebody was faster. Who may create but not update
/// is denied then.
fn may_be_second(error: &vault_client::Error) -> bool {
    use vault_client::Error as E;
    matches!(
        error,
        E::Denied { .. } | E::CheckAndSet { .. } | E::Invalid { .. }
    )
}

/// Reads who was faster. If nobody was, the refusal is the error.
async fn after_refusal(
    seed: &VaultKVSecret,
    error: vault_client::Error,
    kind: IntentKind,
    world: &World,
    ground: &Ground<'_>,
    pass: &mut Pass,
) -> Result<Settled, Stop> {
    let metadata = gather::metadata(ground, pass).await?;
    let live = gather::live(metadata.as_ref(), ground.now);
    let custom = metadata.map(|metadata| metadata.custom_metadata);
    let owner = gather::owner(seed, ground, &custom.unwrap_or_default());
    match plan::plan(&world.after_refusal(kind, live, owner)) {
        Step::Keep {
            seeded: Some(version),
            owner: _,
        } => Ok(Settled::Ours {
            version,
            owner: None,
        }),
        Step::Keep {
            seeded: None,
            owner,
        } => Ok(Settled::Theirs { owner }),
        Step::Refuse { .. }
        | Step::Write { .. }
        | Step::Claim { .. }
        | Step::Doubt
        | Step::Gone { .. } => Err(ground.stop(error)),
    }
}

/// Puts our marker on what we wrote.
async fn mark(world: &World, ground: &Ground<'_>, pass: &mut Pass) -> Result<(), Stop> {
    let KvPath { mount, path } = &ground.at;
    let first = world.owner != Ownership::Ours;
    let keys = marker::keys(&ground.header, first, ground.now);
    kill_point("kv-before-mark");
    let call = ground.vault.patch_metadata(mount, path, &keys);
    ground.answer(call, pass).await?;
    kill_point("kv-after-mark");
    Ok(())
}
