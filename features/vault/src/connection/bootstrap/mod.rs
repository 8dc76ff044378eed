//! Bootstrap: an empty Vault gets the mount, policy and role that later logins need.
//!
//! ```text
//! mount ─▶ config ─▶ policy ─▶ role ─▶ test login ─▶ complete, on record ─▶ token revoked
//! ```
//! Each call of [`advance`] looks at Vault, makes at most one thing, and says what to
//! [`record`]; the caller persists that and comes again. So a crash or a lost answer costs one look,
//! and the bootstrap token is not revoked before the status says that it is no longer needed.
//!
//! # Promises
//! - A mount that serves another cluster is untouched unless the spec says to take it over.
//! - Policy and role are made if they are absent, and never changed.
//! - While the test login fails the bootstrap token lives, so that whoever mends the cause need
//!   not make another.

mod disable;
mod grants;
mod marker;
mod plan;

use api::vault::{AuthStatus, Bootstrap, conditions, reasons};
use engine::kill_point;
use jiff::Timestamp;
use kernel::{Class, Conditions, Reason};
use serde_json::{Map, Value, json};
use vault_client::{AuthMount, Client, Error};

pub(crate) use disable::{Owner, disable_mount};
pub(crate) use marker::MountMarker;
pub(crate) use plan::Wish;

use super::reviewer::{self, Issuer, Jwt};
use grants::{POLICY, Reach};
use plan::{
    KUBERNETES, Part, REVOKE_FAILED, REVOKED, Seen, SeenMount, Step, TEST_FAILED, is_recorded,
    serves_us,
};

/// How long a token of the operator's role lives, and for how long it can be renewed; in seconds.
const TOKEN_TTL: u64 = 3600;
const TOKEN_MAX_TTL: u64 = 24 * 3600;

/// Where bootstrap happens, and with what.
pub(crate) struct Site<'a, I> {
    pub(crate) wish: Wish<'a>,
    /// With the bootstrap token, in the Vault namespace of the login.
    pub(crate) vault: &'a Client,
    /// The connection's own client, which logs in by what bootstrap makes. What it gets in the
    /// test it goes on with.
    pub(crate) login: &'a Client,
    /// Makes the mount's reviewer token.
    pub(crate) issuer: &'a I,
    /// The operator's own ServiceAccount: its namespace and its name.
    pub(crate) account: (&'a str, &'a str),
    /// Where roles are written, if not at the login mount.
    pub(crate) role_mount: Option<&'a AuthMount>,
    /// The Vault namespace of policies and roles below that of the login; empty if it is the same.
    pub(crate) below: &'a str,
}

/// How far a call of [`advance`] came. All but `Refused` and `Done` change the record.
#[derive(Debug)]
pub(crate) enum Advance {
    /// This is there now. Come again.
    Made {
        part: Part,
        /// When the reviewer token that Vault was given ends.
        reviewer: Option<Timestamp>,
    },
    /// The login works. Come again when that is on record.
    Complete,
    /// The login does not work; the bootstrap token is kept. Come again with back-off.
    TestFailed(Error),
    /// The bootstrap token is dead.
    Revoked,
    /// The bootstrap token lives although it should not. The connection can be used all the same;
    /// come again with back-off.
    RevokeFailed(Error),
    /// The mount is not one to touch. Someone has to change something.
    Refused(Reason),
    /// Nothing is left to do.
    Done,
}

/// Whether anything is left to do; if not, neither Vault nor the bootstrap token is needed.
pub(crate) fn is_owed(bootstrap: &Bootstrap, status: &AuthStatus) -> bool {
    let complete = status.bootstrap_complete == Some(true);
    !complete || (bootstrap.auto_revoke && !is_recorded(status, REVOKED))
}

/// Whether the login mount is ours to look after: we enabled it, or took it over as told.
///
/// # When not to use it
/// To decide on its end: what was taken over goes on without us, see [`disable_mount`].
pub(crate) fn is_our_mount(bootstrap: Option<&Bootstrap>, status: &AuthStatus) -> bool {
    let adopts = bootstrap.is_some_and(|bootstrap| bootstrap.adopt_mount == Some(true));
    let recorded = |part: Part| is_recorded(status, part.name());
    recorded(Part::Mount) || (adopts && recorded(Part::Config))
}

/// Takes one step and says what came of it.
///
/// # Errors
/// When Vault did not do it, or did not say so: the next call looks first.
pub(crate) async fn advance<I: Issuer>(
    site: &Site<'_, I>,
    status: &AuthStatus,
) -> Result<Advance, Error> {
    let mut seen = None;
    let mut step = plan::next(&site.wish, status, None);
    if step == Step::Look {
        seen = Some(look(site).await?);
        step = plan::next(&site.wish, status, seen.as_ref());
    }
    match step {
        Step::Look => unreachable!("what was looked at decides"),
        Step::Refuse(refusal) => Ok(Advance::Refused(refusal.reason(&site.wish))),
        Step::Make(part) => {
            kill_point("vault-before-bootstrap");
            let reviewer = make(site, part, seen).await?;
            kill_point("vault-after-bootstrap");
            Ok(Advance::Made { part, reviewer })
        }
        Step::Note(part) => Ok(Advance::Made {
            part,
            reviewer: None,
        }),
        Step::Test => test(site.login).await,
        Step::Revoke => {
            kill_point("vault-before-bootstrap");
            let revoked = revoke(site.vault).await;
            kill_point("vault-after-bootstrap");
            revoked
        }
        Step::Done => Ok(Advance::Done),
    }
}

/// Notes how far it came.
pub(crate) fn record(status: &mut AuthStatus, advance: &Advance, now: Timestamp) {
    let at = reviewer::seconds(now);
    let time = Value::from(at.0.to_string());
    let steps = &mut status.bootstrap_steps;
    match advance {
        Advance::Made { part, reviewer } => {
            steps.insert(part.name().to_owned(), time);
            if let Some(expires) = reviewer {
                reviewer::record(status, *expires, now);
            }
        }
        Advance::Complete => {
            steps.remove(TEST_FAILED);
            status.bootstrap_complete = Some(true);
            status.bootstrap_completed_at = Some(at);
        }
        // The first failure counts: repeating it is no news.
        Advance::TestFailed(_) => {
            steps.entry(TEST_FAILED.to_owned()).or_insert(time);
        }
        Advance::Revoked => {
            steps.remove(REVOKE_FAILED);
            steps.insert(REVOKED.to_owned(), time);
        }
        Advance::RevokeFailed(_) => {
            steps.entry(REVOKE_FAILED.to_owned()).or_insert(time);
        }
        Advance::Refused(_) | Advance::Done => {}
    }
}

/// Says in the conditions how far it came; on the way there is nothing to say.
pub(crate) fn tell(advance: &Advance, set: &mut Conditions) {
    let done = |message: String| Reason::new(reasons::SUCCEEDED, message);
    match advance {
        Advance::Made { .. } => {}
        Advance::Complete | Advance::Revoked | Advance::Done => {
            let reason = done("this cluster logs in by the mount".to_owned());
            set.yes(conditions::BOOTSTRAPPED, &reason);
        }
        Advance::RevokeFailed(error) => {
            let message = format!("the bootstrap token is not revoked yet: {error}");
            set.yes(conditions::BOOTSTRAPPED, &done(message));
        }
        Advance::TestFailed(error) => {
            let message = format!("all is made and the bootstrap token kept, but {error}");
            let reason = Reason::new(reasons::K8S_AUTH_TEST_FAILED, message);
            set.no(conditions::BOOTSTRAPPED, &reason);
        }
        Advance::Refused(reason) => {
            set.no(conditions::BOOTSTRAPPED, reason);
        }
    }
}

async fn look<I>(site: &Site<'_, I>) -> Result<Seen, Error> {
    let mount = site.wish.mount();
    let found = site.vault.auth_mounts().await?.remove(&mount);
    let fits = found.as_ref().is_some_and(|found| found.kind == KUBERNETES);
    // Other types have other configurations, or none; and where nothing is mounted, nothing is.
    let (config, role) = if fits {
        let config = site.vault.read_auth_config(&mount).await?;
        let role = site.vault.read_role(&mount, &site.wish.auth.role).await?;
        (config, role.is_some())
    } else {
        (None, false)
    };
    Ok(Seen {
        mount: found.map(|found| SeenMount {
            kind: found.kind,
            description: found.description,
            config,
        }),
        policy: site.vault.read_policy(POLICY).await?.is_some(),
        role,
    })
}

/// Makes a part; for the configuration, says when the reviewer token in it ends.
async fn make<I: Issuer>(
    site: &Site<'_, I>,
    part: Part,
    seen: Option<Seen>,
) -> Result<Option<Timestamp>, Error> {
    let Site { wish, vault, .. } = site;
    let mount = wish.mount();
    match part {
        Part::Mount => {
            let marker = wish.marker.to_string();
            let enabled = vault.enable_auth(&mount, KUBERNETES, &marker).await;
            enabled.map_err(behind)?;
        }
        Part::Config => {
            let jwt = site.issuer.reviewer().await;
            let jwt = jwt.map_err(|source| Error::Credentials {
                login: format!("the reviewer token of auth/{mount}"),
                source,
            })?;
            let config = config(wish, seen, &jwt);
            vault.write_auth_config(&mount, config).await?;
            return Ok(Some(jwt.expires));
        }
        Part::Policy => {
            let reach = Reach {
                login: &mount,
                roles: site.role_mount,
                below: site.below,
            };
            vault.write_policy(POLICY, &grants::text(reach)).await?;
        }
        Part::Role => {
            let role = role(site.account, wish.auth.audience());
            vault.write_role(&mount, &wish.auth.role, role).await?;
        }
    }
    Ok(None)
}

/// The list that was read did not have the mount, and the path is taken: the list was old.
fn behind(error: Error) -> Error {
    match error {
        Error::AlreadyExists { call, message } => Error::Stale { call, message },
        other => other,
    }
}

/// What Vault needs to ask our API server. What people have set beside it stays, unless they did so
/// for another cluster.
fn config(wish: &Wish<'_>, seen: Option<Seen>, jwt: &Jwt) -> Map<String, Value> {
    let found = seen.and_then(|seen| seen.mount?.config);
    let ours = found.filter(|config| serves_us(config, wish));
    let mut config = ours.unwrap_or_default();
    config.insert("kubernetes_host".to_owned(), wish.host().into());
    config.insert("kubernetes_ca_cert".to_owned(), wish.ca_pem.into());
    // Vault's own pod, if it runs in one, may belong to another cluster.
    config.insert("disable_local_ca_jwt".to_owned(), true.into());
    reviewer::with_reviewer(config, &jwt.secret)
}

/// The role by which the operator, and nobody else, logs in.
fn role(account: (&str, &str), audience: &str) -> Map<String, Value> {
    let (namespace, name) = account;
    let fields = json!({
        "bound_service_account_names": [name],
        "bound_service_account_namespaces": [namespace],
        "audience": audience,
        "token_policies": [POLICY],
        "token_ttl": TOKEN_TTL,
        "token_max_ttl": TOKEN_MAX_TTL,
    });
    let Value::Object(fields) = fields else {
        unreachable!("written as an object above")
    };
    fields
}

/// Logs in. A token that the client still has from before is asked for, too: it may be dead.
async fn test(login: &Client) -> Result<Advance, Error> {
    match login.lookup_self().await {
        // Denied: the login worked, and its token may just not ask about itself.
        Ok(_) | Err(Error::Denied { .. }) => Ok(Advance::Complete),
        Err(error) => match error.class() {
            // Vault was not there to ask: nothing is known of the login.
            Class::Unreachable | Class::Sealed | Class::Throttled | Class::Deposed => Err(error),
            Class::Transient
            | Class::Stale
            | Class::NotFound
            | Class::AlreadyExists
            | Class::Conflict
            | Class::Denied
            | Class::Invalid
            | Class::LimitExceeded => Ok(Advance::TestFailed(error)),
        },
    }
}

/// Revokes the token; a dead one is what was wanted.
async fn revoke(vault: &Client) -> Result<Advance, Error> {
    // Only a token that is in use can be revoked.
    let outcome = match vault.login().await {
        Ok(_) => vault.revoke_self().await,
        Err(error) => Err(error),
    };
    let outcome = match outcome {
        // Because it is dead since, or because it may not: the lookup tells.
        Err(denied @ Error::Denied { .. }) => match vault.lookup_self().await {
            Ok(_) => Err(denied),
            Err(error) => Err(error),
        },
        // Vault may have revoked it. If that cannot be seen now, the next pass revokes again: the
        // login works without this token, so the connection stays usable.
        Err(lost @ (Error::NoAnswer { .. } | Error::Failed { .. })) => {
            return match vault.lookup_self().await {
                Err(Error::AuthFailed { .. }) => Ok(Advance::Revoked),
                Err(deposed @ Error::Deposed(_)) => Err(deposed),
                Ok(_) | Err(_) => Ok(Advance::RevokeFailed(lost)),
            };
        }
        outcome => outcome,
    };
    match outcome {
        Ok(()) | Err(Error::AuthFailed { .. }) => Ok(Advance::Revoked),
        Err(error) if error.class().heals_by_itself() => Err(error),
        Err(error) => Ok(Advance::RevokeFailed(error)),
    }
}

#[cfg(test)]
mod tests;
