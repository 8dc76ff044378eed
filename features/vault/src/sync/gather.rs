//! What a pass over a policy or a role must know, read once.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use api::vault::{
    ConflictPolicy, DriftMode, Intent, SyncStatus, VaultConnection, conditions, names as words,
    reasons,
};
use engine::Pass;
use jiff::Timestamp;
use kernel::{ObjectKey, Reason, find};
use vault_client::{Client, Health};

use super::status::STARTING;
use super::{Declared, Desired, Error, Kept, Stop};
use crate::ctx::Ctx;
use crate::language::text::Header;
use crate::links::{Dependent, TurnedAway};
use crate::place::{self, Found, Place, Wanted};
use crate::tenancy;

/// Nobody is woken later than this for a connection's first pass.
const RECHECK: Duration = Duration::from_secs(30);

/// Everything a decision needs besides the object and what Vault holds.
#[derive(Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and all combinations occur"
)]
pub(crate) struct Ground {
    pub(crate) key: ObjectKey,
    /// The labels of its namespace.
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) connection_name: String,
    pub(crate) connection: VaultConnection,
    /// Calls go to the object's own Vault namespace.
    pub(crate) vault: Client,
    /// The server's version.
    pub(crate) version: String,
    pub(crate) header: Header,
    pub(crate) identity: String,
    pub(crate) mode: DriftMode,
    pub(crate) dry_run: bool,
    /// Consent to one destructive write.
    pub(crate) consent: bool,
    /// What is unmarked may be taken over.
    pub(crate) adopt: bool,
    /// It was asked for, but the connection does not let this namespace take anything over.
    pub(crate) adoption_refused: Option<String>,
    /// What this owner has may be taken over.
    pub(crate) adopt_from: Option<String>,
    /// The spec was edited since somebody last wrote status for it.
    pub(crate) unobserved: bool,
    pub(crate) intent: Option<Intent>,
    pub(crate) now: Timestamp,
}

/// What is to be at one place.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) place: Place,
    /// Which of the object's roles: none for the one at the base name.
    pub(crate) slot: Option<String>,
    pub(crate) wanted: Wanted,
}

/// A connection that can be used, or why there is none.
pub(crate) fn connected(
    ctx: &Ctx,
    name: &str,
    who: Dependent,
    pass: &Pass,
) -> Result<(VaultConnection, Client, Health), Stop> {
    let Some(connection) = ctx.connection(name) else {
        // Turned away, too: who waits for a connection to be made is woken when it is up.
        ctx.links.vault(name, (who, pass.key())).ok();
        return Err(Stop::blocked(Reason::new(
            reasons::CONNECTION_NOT_READY,
            format!("there is no VaultConnection {name}; make it, or refer to another"),
        )));
    };
    match ctx.links.vault(name, (who, pass.key())) {
        Ok((vault, health)) => Ok((connection, vault, health)),
        Err(TurnedAway::TooEarly) => Err(Stop::waiting(
            Reason::new(
                STARTING,
                format!("VaultConnection {name} is being looked at"),
            ),
            RECHECK,
        )),
        Err(TurnedAway::Down(reason)) => {
            let wait = ctx.links.turn_to_tell(name, (who, pass.key()));
            if let Some(wait) = wait.filter(|_| !pass.is_asked_for()) {
                let message = format!("many say that VaultConnection {name} is not ready");
                return Err(Stop::waiting(Reason::new(STARTING, message), wait));
            }
            Err(Stop::blocked(Reason::new(
                reasons::CONNECTION_NOT_READY,
                format!(
                    "VaultConnection {name} is not ready ({}): {}",
                    reason.code, reason.message
                ),
            )))
        }
    }
}

pub(super) fn ground<K: Declared>(object: &K, ctx: &Ctx, pass: &Pass) -> Result<Ground, Stop> {
    let says = |name| pass.object().annotation(name).as_deref() == Some("true");
    if says(words::DISCOVERY_PENDING) || pass.object().json().contains(words::DISCOVERY_PLACEHOLDER)
    {
        return Err(Stop::blocked(Reason::new(
            reasons::DISCOVERY_PENDING,
            "found by discovery: complete the spec, then remove the annotation \
             vault.platform.io/discovery-pending",
        )));
    }
    let terms = object.terms();
    let (connection, vault, health) = connected(ctx, terms.connection, K::DEPENDENT, pass)?;
    if let Some(namespace) = terms.vault_namespace {
        health.takes_namespace(namespace).map_err(|missing| {
            Stop::blocked(Reason::new(
                reasons::UNSUPPORTED_BY_SERVER,
                missing.to_string(),
            ))
        })?;
    }
    let vault = in_own_namespace(&vault, &connection, terms.vault_namespace);
    let asked = terms.conflict == ConflictPolicy::Adopt || says(words::ADOPT);
    let status = object.status();
    let sync = status.sync();
    let defaults = connection.spec.defaults.as_ref();
    let namespace = pass.key().namespace.as_deref();
    let mut ground = Ground {
        key: pass.key().clone(),
        labels: namespace.map(|name| ctx.labels(name)).unwrap_or_default(),
        connection_name: terms.connection.to_owned(),
        vault,
        version: health.version,
        header: ctx.header(&connection, &K::kind(&()), pass.key()),
        identity: ctx.identity(&connection),
        mode: terms
            .drift
            .or_else(|| defaults.map(|defaults| defaults.drift_mode))
            .unwrap_or_default(),
        dry_run: says(words::DRY_RUN),
        consent: says(words::ALLOW_DESTRUCTIVE),
        adopt: asked,
        adoption_refused: None,
        adopt_from: pass.object().annotation(words::ADOPT_FROM),
        unobserved: is_unobserved(sync, object.meta().generation),
        intent: sync.intent.clone(),
        now: ctx.now(),
        connection,
    };
    if let Some(Err(refusal)) = ground.guard().map(|guard| guard.adoption()) {
        let asked = asked || ground.adopt_from.take().is_some();
        ground.adopt = false;
        ground.adoption_refused = asked.then(|| refusal.to_string());
    }
    Ok(ground)
}

impl Ground {
    /// All that the server's answer to `targets` hangs on, as a number.
    pub(super) fn question(&self, targets: &[Target]) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.version.hash(&mut hasher);
        self.connection.metadata.generation.hash(&mut hasher);
        for target in targets {
            target.place.hash(&mut hasher);
            target.wanted.sent_hash().hash(&mut hasher);
        }
        hasher.finish()
    }

    /// What the object's namespace may do; cluster-wide objects are not guarded.
    pub(crate) fn guard(&self) -> Option<tenancy::Guard<'_>> {
        let name = self.key.namespace.as_deref()?;
        Some(tenancy::Guard {
            tenancy: self.connection.spec.tenancy.as_ref(),
            discovery: self.connection.spec.discovery.as_ref(),
            namespace: tenancy::Namespace {
                name,
                labels: &self.labels,
            },
        })
    }
}

/// The same Vault, but calls go to the object's own Vault namespace, if it has one.
pub(super) fn in_own_namespace(
    vault: &Client,
    connection: &VaultConnection,
    own: Option<&str>,
) -> Client {
    match own {
        None => vault.clone(),
        Some(own) => vault.in_namespace(&child(connection.spec.vault_namespace.as_deref(), own)),
    }
}

/// The namespace `below` a parent, from the root.
fn child(parent: Option<&str>, below: &str) -> String {
    let below = below.trim_matches('/');
    match parent.map(|parent| parent.trim_matches('/')) {
        None | Some("") => below.to_owned(),
        Some(parent) => format!("{parent}/{below}"),
    }
}

/// Whether the spec is newer than what was last written for it.
fn is_unobserved(sync: &SyncStatus, generation: Option<i64>) -> bool {
    let seen = find(&sync.conditions, conditions::SYNCED).and_then(|one| one.observed_generation);
    seen != generation
}

/// What Vault holds at each target, in their order. What needs no look has none: in mode `ignore`,
/// or when the last look `is_fresh`, what was written last is taken to be there.
pub(super) async fn found<K: Declared>(
    object: &K,
    desired: &Desired<K::Extra>,
    ground: &Ground,
    is_fresh: bool,
    pass: &mut Pass,
) -> Result<Vec<Seen>, Stop> {
    let records = K::records(&object.status());
    let mut found = Vec::new();
    for target in &desired.targets {
        let record = records.iter().find(|record| record.place.is(&target.place));
        let hash = record.and_then(|record| record.hash.as_ref());
        let needs_no_look = is_fresh || ground.mode == DriftMode::Ignore;
        if needs_no_look && hash == Some(&target.wanted.hash()) {
            found.push(Seen::Unasked);
            continue;
        }
        let read = pass
            .outside(place::read(&ground.vault, &target.place))
            .await;
        found.push(Seen::Asked(read.map_err(Error::from)?));
    }
    Ok(found)
}

/// What was seen at a place.
pub(crate) enum Seen {
    /// Nobody looked: what was written last is taken to be there.
    Unasked,
    /// This, or nothing.
    Asked(Option<Found>),
}
