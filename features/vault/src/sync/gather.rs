//! What a pass over a policy or a role must know, read once.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use api::vault::{
    ConflictPolicy, DriftMode, Intent, IntentKind, SyncStatus, VaultConnection, conditions,
    names as words, reasons,
};
use engine::Pass;
use jiff::Timestamp;
use kernel::{ObjectKey, Reason, find};
use vault_client::{Client, Health};

use super::moves::Recorded;
use super::status::STARTING;
use super::{Declared, Desired, Error, Kept, Stop, connection_not_ready};
use crate::ctx::Ctx;
use crate::language::text::Header;
use crate::links::{Dependent, TurnedAway};
use crate::names::Naming;
use crate::place::{self, Found, Place, Wanted};
use crate::realm::namespace;
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
    pub(crate) naming: Naming,
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

/// Why a connection cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unavailable {
    /// There is none of this name.
    Missing,
    /// Its first pass is still to come.
    Starting,
    /// It is down. Others behind it report that first, for this long.
    Down { others_first: Option<Duration> },
}

impl Unavailable {
    /// What a dependent reports, and when it tries again; without a time it is woken. Nobody goes first if
    /// a person waits.
    pub(crate) fn meaning(&self, connection: &str, is_urgent: bool) -> (Reason, Option<Duration>) {
        match self {
            Self::Missing => {
                let message = format!(
                    "there is no VaultConnection {connection}; make it, or refer to another"
                );
                (Reason::new(reasons::CONNECTION_NOT_READY, message), None)
            }
            Self::Starting => {
                let message = format!("VaultConnection {connection} is being looked at");
                (Reason::new(STARTING, message), Some(RECHECK))
            }
            Self::Down {
                others_first: Some(wait),
            } if !is_urgent => {
                let message = format!("many say that VaultConnection {connection} is not ready");
                (Reason::new(STARTING, message), Some(*wait))
            }
            Self::Down { .. } => (connection_not_ready(), None),
        }
    }
}

/// A connection that `who` can use, or why there is none; then `who` is woken when there is.
pub(crate) fn available(
    ctx: &Ctx,
    name: &str,
    who: (Dependent, &ObjectKey),
) -> Result<(VaultConnection, Client, Health), Unavailable> {
    let Some(connection) = ctx.connection(name) else {
        // Turned away, too: who waits for a connection to be made is woken when it is up.
        ctx.links.vault(name, who).ok();
        return Err(Unavailable::Missing);
    };
    match ctx.links.vault(name, who) {
        Ok((vault, health)) => Ok((connection, vault, health)),
        Err(TurnedAway::TooEarly) => Err(Unavailable::Starting),
        Err(TurnedAway::Down) => Err(Unavailable::Down {
            others_first: ctx.links.turn_to_tell(name, who),
        }),
    }
}

/// A connection that can be used, or what its lack means to the pass.
pub(super) fn connected(
    ctx: &Ctx,
    name: &str,
    who: Dependent,
    pass: &Pass,
) -> Result<(VaultConnection, Client, Health), Stop> {
    available(ctx, name, (who, pass.key())).map_err(|unavailable| {
        match unavailable.meaning(name, pass.is_urgent()) {
            (reason, Some(after)) => Stop::waiting(reason, after),
            (reason, None) => Stop::blocked(reason),
        }
    })
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
        naming: ctx.naming(&connection),
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
    /// Whether what was recorded with the connection `recorded` is in the Vault at hand.
    pub(super) fn is_its_vault(&self, recorded: Option<&str>, ctx: &Ctx) -> bool {
        let Some(name) = recorded.filter(|name| *name != self.connection_name) else {
            return true;
        };
        // The object's own namespace cannot change.
        let here = ctx.realm(&self.connection, None);
        let recorded = ctx.connection(name);
        recorded.is_some_and(|recorded| ctx.realm(&recorded, None).is(&here))
    }

    /// What the object's status remembers of the Vault at hand.
    pub(super) fn recorded<K: Declared>(&self, object: &K, ctx: &Ctx) -> Recorded {
        let status = object.status();
        let mut records = K::records(&status);
        records.retain(|record| self.is_its_vault(record.connection.as_deref(), ctx));
        let mut previous = status.sync().previous_names.clone();
        previous.retain(|entry| self.is_its_vault(entry.connection.as_deref(), ctx));
        Recorded { records, previous }
    }

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
        Some(own) => {
            let whole = namespace(connection.spec.vault_namespace.as_deref(), Some(own));
            vault.in_namespace(&whole.unwrap_or_default())
        }
    }
}

/// Whether the spec is newer than what was last written for it.
fn is_unobserved(sync: &SyncStatus, generation: Option<i64>) -> bool {
    let seen = find(&sync.conditions, conditions::SYNCED).and_then(|one| one.observed_generation);
    seen != generation
}

/// What a pass need not read.
#[derive(Default, Clone, Copy)]
pub(super) struct Skip<'a> {
    /// What is on record was read or written a short while ago.
    pub(super) is_fresh: bool,
    /// The path at which nothing was found right before its create was announced.
    pub(super) missing: Option<&'a str>,
    /// The pass writes. It announces one create at most: what is to be created after that is read by
    /// later passes.
    pub(super) writes: bool,
}

/// Whether the announced create of a role is one of several: those on record were made just before.
pub(super) fn is_being_made(targets: &[Target], recorded: &Recorded, sync: &SyncStatus) -> bool {
    let create = sync.intent.as_ref();
    let create = create.filter(|intent| intent.kind == Some(IntentKind::Create));
    let path = create.and_then(|intent| intent.vault_path.as_deref());
    let is_it = |target: &Target| {
        path == Some(&*target.place.to_string()) && recorded.current(&target.place).is_none()
    };
    // Drift that is reported is looked at in every pass, or the report would end.
    sync.drift_detected != Some(true) && targets.iter().any(is_it)
}

/// What Vault holds at each target, in their order. What needs no look has none: in mode `ignore`,
/// or when the last look is fresh, what was written last is taken to be there.
///
/// A role of n parts is made in n + 1 passes. Each reads one part that is not announced yet, and none
/// that is on record.
pub(super) async fn found<E>(
    desired: &Desired<E>,
    recorded: &Recorded,
    ground: &Ground,
    skip: Skip<'_>,
    pass: &mut Pass,
) -> Result<Vec<Seen>, Stop> {
    let open = ground.intent.as_ref();
    let open = open.and_then(|intent| intent.vault_path.as_deref());
    let mut found = Vec::new();
    let mut has_create = false;
    for target in &desired.targets {
        let record = recorded.current(&target.place);
        let hash = record.and_then(|record| record.hash.as_ref());
        let path = target.place.to_string();
        if record.is_none() && skip.missing == Some(&*path) {
            found.push(Seen::Asked(None));
            continue;
        }
        let needs_no_look = skip.is_fresh || ground.mode == DriftMode::Ignore;
        let is_as_written = needs_no_look && hash == Some(&target.wanted.hash());
        // What is announced may have been created: only a look tells.
        let is_later = has_create && record.is_none() && open != Some(&*path);
        if is_as_written || is_later {
            found.push(Seen::Unasked);
            continue;
        }
        let read = pass
            .outside(place::read(&ground.vault, &target.place))
            .await;
        let read = read.map_err(Error::from)?;
        // What is announced is created in this pass, and then the next one is announced.
        let is_new = record.is_none() && read.is_none() && open != Some(&*path);
        has_create |= is_new && skip.writes;
        found.push(Seen::Asked(read));
    }
    Ok(found)
}

/// What was seen at a place.
pub(crate) enum Seen {
    /// Nobody looked: what was written last is taken to be there, and what was not written yet is left
    /// to a later pass.
    Unasked,
    /// This, or nothing.
    Asked(Option<Found>),
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::language::policy::Policy;
    use crate::sync::Record;

    const PATH: &str = "auth/kubernetes/role/r";

    fn target(path: &str) -> Target {
        Target {
            place: Place::parse(path).unwrap(),
            slot: None,
            wanted: Wanted::Policy {
                text: String::new(),
                canonical: Policy::default(),
            },
        }
    }

    #[rstest]
    #[case::its_create_is_announced(IntentKind::Create, PATH, false, false, true)]
    #[case::it_is_on_record(IntentKind::Create, PATH, true, false, false)]
    #[case::a_correction(IntentKind::Correct, PATH, false, false, false)]
    #[case::another_was_announced(
        IntentKind::Create,
        "auth/kubernetes/role/s",
        false,
        false,
        false
    )]
    #[case::drift_is_reported(IntentKind::Create, PATH, false, true, false)]
    fn a_role_is_being_made_until_all_is_on_record(
        #[case] kind: IntentKind,
        #[case] path: &str,
        #[case] on_record: bool,
        #[case] drift: bool,
        #[case] expected: bool,
    ) {
        let record = on_record.then(|| Record {
            place: Place::parse(PATH).unwrap(),
            slot: None,
            hash: None,
            sent: None,
            owner: None,
            connection: None,
        });
        let recorded = Recorded {
            records: record.into_iter().collect(),
            previous: Vec::new(),
        };
        let sync = SyncStatus {
            intent: Some(Intent {
                kind: Some(kind),
                vault_path: Some(path.to_owned()),
                ..Intent::default()
            }),
            drift_detected: Some(drift),
            ..SyncStatus::default()
        };
        assert_eq!(is_being_made(&[target(PATH)], &recorded, &sync), expected);
    }
}
