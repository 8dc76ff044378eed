//! What is in Vault and no object declares: found, told, and turned into objects if that is wanted.
//!
//! ```text
//! LIST ──▶ candidates ──▶ GET each ──▶ report ──▶ status
//!              ▲                          └─────▶ objects, pending until a person confirms them
//!      names, patterns, claims
//! ```
//! # Promises
//! - A scan writes nothing to Vault, and touches no object that exists.
//! - A scan that fails changes nothing that an earlier one has found.
//! - Orphans, which are ours and wanted by no object, are only told.

mod candidates;
mod claims;
mod make;
mod object;
mod orphans;
mod report;
mod role;

use std::time::Duration;

use api::vault::{
    Discovery, DiscoveryStatus, VaultConnection, VaultConnectionStatus, conditions, names as words,
    reasons,
};
use engine::{Note, Pass};
use jiff::Timestamp;
use kernel::{Conditions, Reason};
use vault_client::Client;

pub(crate) use orphans::{Orphan, search_behind, start_orphans};

use crate::ctx::Ctx;
use crate::metrics::Things;
use crate::names;
use crate::place::{self, Found, Place};
use candidates::Listed;
use claims::Claims;

/// No Vault is scanned more often.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(300);
/// The connection's own pass waits for a scan, and ends after a minute: a scan has half of it, and
/// the making of objects a quarter. In real time, as that minute is.
const LONGEST_SCAN: Duration = Duration::from_secs(30);
const LONGEST_MAKING: Duration = Duration::from_secs(15);

/// The last scan of a connection failed.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    /// Nobody tries again before, on the clock's elapsed time.
    not_before: Duration,
}

/// Something in Vault that nobody has marked.
pub(super) struct Thing {
    pub(super) place: Place,
    pub(super) found: Found,
}

/// Looks for what no object declares, if that is asked for and its time has come.
///
/// `failed` is the failure of the scan before, if this process has seen it fail. Never an error of
/// the connection: who cannot list policies can still write them.
pub(crate) async fn scan(
    connection: &VaultConnection,
    client: &Client,
    status: &mut VaultConnectionStatus,
    conditions: &mut Conditions,
    failed: &mut Option<Failure>,
    ctx: &Ctx,
    pass: &mut Pass,
) {
    let asked = connection.spec.discovery.as_ref();
    let Some(discovery) = asked.filter(|discovery| discovery.enabled == Some(true)) else {
        *failed = None;
        return;
    };
    let floor = SHORTEST_INTERVAL.max(ctx.settings.min_scan_interval);
    let now = ctx.deck.clock.elapsed();
    let resting = failed
        .as_ref()
        .is_some_and(|failed| now < failed.not_before);
    let before = status.discovery_status.clone();
    let interval = discovery.interval.as_std().max(floor);
    if resting || !is_due(before.as_ref(), interval, ctx.now()) {
        return;
    }
    let name = pass.key().name.to_string();
    let own = own_places(connection, status);
    let look = pass.outside(look(connection, discovery, &own, client, ctx));
    let looked = tokio::time::timeout(LONGEST_SCAN, look).await;
    let problem = match looked {
        Ok(Ok(Some((things, claims)))) => {
            let places: Vec<&Place> = things.iter().map(|thing| &thing.place).collect();
            let mut found = report::report(&places, &claims, before.as_ref(), ctx.now());
            tell_truncated(places.len(), conditions);
            ctx.metrics.scanned(&name, Some(report::counted(&places)));
            if failed.take().is_some() || !report::is_same(before.as_ref(), &found) {
                pass.event(complete(report::counted(&places)));
            }
            if discovery.auto_create_crs == Some(true) {
                let site = make::Site::new(connection, discovery, &claims);
                let making = make::make(things, &site, &mut found, before.as_ref(), ctx, pass);
                // What is left over is made after the next scan.
                tokio::time::timeout(LONGEST_MAKING, making).await.ok();
            }
            status.discovery_status = Some(found);
            return;
        }
        // Objects are still being read; the next look knows.
        Ok(Ok(None)) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it takes too long; give policyPatterns and rolePatterns that match less".into(),
    };
    ctx.metrics.scanned(&name, None);
    let not_before = now + floor;
    if failed.replace(Failure { not_before }).is_none() {
        pass.event(Note::warning(
            "DiscoveryScanFailed",
            format!("what was found before is kept: {problem}"),
        ));
    }
}

/// Everything that is nobody's, and what objects claim; none until all objects have been read.
async fn look(
    connection: &VaultConnection,
    discovery: &Discovery,
    own: &[Place],
    client: &Client,
    ctx: &Ctx,
) -> Result<Option<(Vec<Thing>, Claims)>, vault_client::Error> {
    let spec = &connection.spec;
    let mount = names::role_mount(spec.defaults.as_ref(), &spec.auth);
    let listed = Listed::read(client, mount.ok().map(|at| at.mount)).await?;
    let Some(claims) = claims::gathered(connection, ctx) else {
        return Ok(None);
    };
    let mut things = Vec::new();
    for place in candidates::candidates(listed, discovery, &claims, own) {
        match place::read(client, &place).await? {
            Some(found) if found.marker().is_none() => things.push(Thing { place, found }),
            Some(_) | None => {}
        }
    }
    Ok(Some((things, claims)))
}

fn is_due(before: Option<&DiscoveryStatus>, interval: Duration, now: Timestamp) -> bool {
    let last = before.and_then(|before| before.last_scan_at.as_ref());
    last.is_none_or(|last| {
        let since = now.duration_since(last.0);
        // A last time that is yet to come is no time to wait for.
        Duration::try_from(since).map_or(true, |since| since >= interval)
    })
}

/// What bootstrap has made for the operator itself, as recorded.
fn own_places(connection: &VaultConnection, status: &VaultConnectionStatus) -> Vec<Place> {
    let auth = status.auth_status.as_ref();
    let is_done = |step| auth.is_some_and(|auth| auth.bootstrap_steps.contains_key(step));
    let mut own = Vec::new();
    if is_done("OperatorPolicyCreated") {
        let name = words::SENTINEL.to_owned();
        own.push(Place::Policy { name });
    }
    let kubernetes = connection.spec.auth.kubernetes.as_ref();
    let login = names::login_mount(&connection.spec.auth);
    if let (true, Some(kubernetes), Some(mount)) =
        (is_done("OperatorRoleCreated"), kubernetes, login)
    {
        let name = kubernetes.role.clone();
        own.push(Place::Role { mount, name });
    }
    own
}

fn tell_truncated(found: usize, conditions: &mut Conditions) {
    let kind = conditions::DISCOVERY_RESULTS_TRUNCATED;
    let cap = words::DISCOVERED_CAP;
    if found > cap {
        let said = format!("{found} were found and {cap} are listed; narrow the patterns");
        conditions.yes(kind, &Reason::new(reasons::CAPPED, said));
    } else {
        conditions.no(
            kind,
            &Reason::new(reasons::WITHIN_CAP, "all that was found is listed"),
        );
    }
}

fn complete(found: Things) -> Note {
    let Things { policies, roles } = found;
    let said = format!("in Vault and declared by no object: policies {policies}, roles {roles}");
    Note::normal("DiscoveryScanComplete", said)
}

#[cfg(test)]
mod tests;
