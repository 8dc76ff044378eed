//! What a pass over a seed must know, read once.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use api::vault::{
    Intent, IntentKind, VaultConnection, VaultKVSecret, VaultKVSecretStatus, conditions,
    names as words, reasons,
};
use engine::Pass;
use jiff::Timestamp;
use kernel::{Reason, Redacted, is_true};
use serde_json::{Map, Value};
use vault_client::{Client, KvMetadata};

use super::path::KvPath;
use super::plan::{Live, Values, World};
use super::{KIND, marker};
use crate::ctx::Ctx;
use crate::language::text::Header;
use crate::links::Dependent;
use crate::owner::{self, Ownership, Recorded};
use crate::sync::{Error, Stop, connected, doubts_connection};
use crate::tenancy::{Guard, Namespace};

/// Until the connection's own pass has looked.
const LOOK: Duration = Duration::from_secs(10);

/// Where the calls go, and who makes them.
pub(super) struct Ground<'a> {
    ctx: &'a Ctx,
    connection_name: &'a str,
    connection: VaultConnection,
    pub(super) at: KvPath,
    pub(super) vault: Client,
    /// The server's version.
    version: String,
    pub(super) header: Header,
    pub(super) now: Timestamp,
}

impl Ground<'_> {
    /// All that the server's answer to the write of `seed` hangs on, as a number.
    pub(super) fn question(&self, seed: &VaultKVSecret) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.version.hash(&mut hasher);
        self.connection.metadata.generation.hash(&mut hasher);
        seed.metadata.generation.hash(&mut hasher);
        hasher.finish()
    }

    /// What Vault answers to a call.
    pub(super) async fn answer<T>(
        &self,
        call: impl Future<Output = Result<T, vault_client::Error>> + Send,
        pass: &mut Pass,
    ) -> Result<T, Stop> {
        let answer = pass.outside(Box::pin(call)).await;
        answer.map_err(|error| self.stop(error))
    }

    /// What an error of Vault's means. One that tells of the connection has its own pass look; the
    /// next pass of ours then finds it down and waits for it, or finds it well.
    pub(super) fn stop(&self, error: vault_client::Error) -> Stop {
        let doubted = doubts_connection(&error);
        let stop = Error::from(error).into();
        if !doubted {
            return stop;
        }
        self.ctx.doubt(self.connection_name);
        match stop {
            Stop::Blocked { reason } => Stop::waiting(reason, LOOK),
            Stop::Again | Stop::Waiting { .. } | Stop::Failed(_) => stop,
        }
    }
}

pub(super) fn ground<'a>(
    seed: &'a VaultKVSecret,
    ctx: &'a Ctx,
    pass: &Pass,
) -> Result<Ground<'a>, Stop> {
    let path = &seed.spec.path;
    let at = KvPath::parse(path).ok_or_else(|| {
        invalid(format!(
            "path {path:.200} is not <mount>/data/<path>; make another seed"
        ))
    })?;
    let connection_name = &*seed.spec.connection_ref;
    let (connection, vault, health) = connected(ctx, connection_name, Dependent::Seed, pass)?;
    Ok(Ground {
        ctx,
        connection_name,
        at,
        header: ctx.header(&connection, KIND, pass.key()),
        now: ctx.now(),
        vault,
        version: health.version,
        connection,
    })
}

/// Whether the connection lets this namespace seed this path.
pub(super) fn allowed(seed: &VaultKVSecret, ground: &Ground<'_>, pass: &Pass) -> Result<(), Stop> {
    let name = pass.key().namespace.as_deref().unwrap_or_default();
    let guard = Guard {
        tenancy: ground.connection.spec.tenancy.as_ref(),
        discovery: ground.connection.spec.discovery.as_ref(),
        namespace: Namespace {
            name,
            labels: &ground.ctx.labels(name),
        },
    };
    guard.seed(&seed.spec.path).map_err(|refusal| {
        let stays = match status(seed).seeded {
            Some(true) => format!("; {} stays in Vault as it is", ground.at),
            Some(false) | None => String::new(),
        };
        let message = format!("{refusal}{stays}");
        Stop::blocked(Reason::new(reasons::TENANCY_DENIED, message))
    })
}

pub(super) fn is_dry_run(pass: &Pass) -> bool {
    pass.object().annotation(words::DRY_RUN).as_deref() == Some("true")
}

pub(super) fn status(seed: &VaultKVSecret) -> VaultKVSecretStatus {
    seed.status.clone().unwrap_or_default()
}

/// What is to be written.
pub(super) fn values(seed: &VaultKVSecret) -> Redacted<Map<String, Value>> {
    let values = seed.spec.data.0.iter();
    let values = values.map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    Redacted::new(values.collect())
}

pub(super) async fn world(
    seed: &VaultKVSecret,
    ground: &Ground<'_>,
    pass: &mut Pass,
) -> Result<World, Stop> {
    let status = status(seed);
    // Asked before the first look and again before a write; in between metadata alone will do.
    let known = status.vault_path.as_ref() == Some(&seed.spec.path)
        && is_true(&status.sync.conditions, conditions::SYNCED);
    let other = if known {
        None
    } else {
        other_engine(ground, pass).await?
    };
    if let Some(other) = other {
        return Ok(judged(
            seed,
            ground,
            Live::OtherEngine(other),
            &BTreeMap::new(),
        ));
    }
    let mut world = found(seed, ground, pass).await?;
    if known
        && world.live == Live::Absent
        && let Some(other) = other_engine(ground, pass).await?
    {
        world.live = Live::OtherEngine(other);
    }
    Ok(world)
}

/// What metadata tell, and values where they are in doubt.
pub(super) async fn found(
    seed: &VaultKVSecret,
    ground: &Ground<'_>,
    pass: &mut Pass,
) -> Result<World, Stop> {
    let metadata = metadata(ground, pass).await?;
    let custom = metadata
        .as_ref()
        .map(|metadata| metadata.custom_metadata.clone());
    let live = live(metadata.as_ref(), ground.now);
    let mut world = judged(seed, ground, live, &custom.unwrap_or_default());
    if world.is_doubtful() {
        world.values = compared(seed, &world.live, ground, pass).await?;
    }
    Ok(world)
}

fn judged(
    seed: &VaultKVSecret,
    ground: &Ground<'_>,
    live: Live,
    custom: &BTreeMap<String, String>,
) -> World {
    let status = status(seed);
    World {
        live,
        owner: owner(seed, ground, custom),
        announced: announced(status.sync.intent.as_ref(), &ground.at),
        recorded: recorded_version(&status),
        values: Values::Unasked,
        reseed: seed.spec.reseed_deleted == Some(true),
    }
}

/// Whose it is by its marker.
pub(super) fn owner(
    seed: &VaultKVSecret,
    ground: &Ground<'_>,
    custom: &BTreeMap<String, String>,
) -> Ownership {
    let status = status(seed);
    let binding = status.sync.binding.as_ref();
    // A record is no marker: what lost its marker is not ours any more.
    let recorded = Recorded {
        owner: binding.and_then(|binding| binding.owner.as_deref()),
        name: None,
    };
    owner::judge(marker::found(custom).as_ref(), &ground.header, recorded)
}

/// The version on record as ours.
fn recorded_version(status: &VaultKVSecretStatus) -> Option<u64> {
    let version = status
        .seeded_version
        .filter(|_| status.seeded == Some(true))?;
    u64::try_from(version).ok()
}

/// The write that is announced for this very path.
fn announced(intent: Option<&Intent>, at: &KvPath) -> Option<IntentKind> {
    let intent = intent.filter(|intent| intent.vault_path.as_ref() == Some(&at.to_string()))?;
    intent.kind
}

/// What the mount is, if it is no KV engine of version 2.
async fn other_engine(ground: &Ground<'_>, pass: &mut Pass) -> Result<Option<String>, Stop> {
    let asked = ground.vault.secret_engine(&ground.at.mount);
    let engine = ground.answer(asked, pass).await?;
    if engine.is_kv2() {
        return Ok(None);
    }
    Ok(Some(match (&*engine.kind, engine.version) {
        ("kv" | "generic", version) => format!("KV of version {}", version.unwrap_or(1)),
        (kind, _) => format!("of type {kind}"),
    }))
}

pub(super) async fn metadata(
    ground: &Ground<'_>,
    pass: &mut Pass,
) -> Result<Option<KvMetadata>, Stop> {
    let KvPath { mount, path } = &ground.at;
    ground
        .answer(ground.vault.read_metadata(mount, path), pass)
        .await
}

pub(super) fn live(metadata: Option<&KvMetadata>, now: Timestamp) -> Live {
    let Some(metadata) = metadata else {
        return Live::Absent;
    };
    let version = metadata.current_version;
    if metadata.has_current(now) {
        Live::Current { version }
    } else {
        Live::Deleted { version }
    }
}

async fn compared(
    seed: &VaultKVSecret,
    live: &Live,
    ground: &Ground<'_>,
    pass: &mut Pass,
) -> Result<Values, Stop> {
    let KvPath { mount, path } = &ground.at;
    let call = ground.vault.read_secret(mount, path);
    let there = match pass.outside(Box::pin(call)).await {
        Ok(Some(there)) => there,
        Ok(None) | Err(vault_client::Error::Denied { .. }) => return Ok(Values::Unreadable),
        Err(error) => return Err(ground.stop(error)),
    };
    let version = there.version;
    let same = *live == Live::Current { version } && there.values == values(seed);
    Ok(if same {
        Values::Equal
    } else {
        Values::Different
    })
}

pub(super) fn invalid(message: String) -> Stop {
    Stop::blocked(Reason::new(reasons::VALIDATION_FAILED, message))
}
