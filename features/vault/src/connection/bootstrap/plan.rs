//! Which step of bootstrap comes next. Pure: what Vault holds and what is on record decide.

use api::vault::{AuthStatus, Bootstrap, KubernetesAuth, reasons};
use jiff::Timestamp;
use kernel::Reason;
use serde_json::{Map, Value};
use vault_client::AuthMount;

use super::marker::MountMarker;

/// The type of mount that bootstrap makes.
pub(crate) const KUBERNETES: &str = "kubernetes";
/// The API server as Vault sees it from within the cluster.
const IN_CLUSTER: &str = "https://kubernetes.default.svc";

/// On record while the login fails that all was made for.
pub(crate) const TEST_FAILED: &str = "K8sAuthTestFailed";
/// On record when the bootstrap token is dead.
pub(crate) const REVOKED: &str = "BootstrapTokenRevoked";
/// On record while it lives although it should not.
pub(crate) const REVOKE_FAILED: &str = "BootstrapTokenRevokeFailed";

/// What bootstrap is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish<'a> {
    pub(crate) auth: &'a KubernetesAuth,
    pub(crate) bootstrap: &'a Bootstrap,
    /// What a mount of ours is marked with.
    pub(crate) marker: &'a MountMarker,
    /// Whom Vault trusts to be our API server.
    pub(crate) ca_pem: &'a str,
    pub(crate) now: Timestamp,
}

impl Wish<'_> {
    pub(crate) fn mount(&self) -> AuthMount {
        AuthMount::new(&self.auth.auth_path)
    }

    /// Our API server as Vault sees it.
    pub(crate) fn host(&self) -> &str {
        self.auth.kubernetes_host.as_deref().unwrap_or(IN_CLUSTER)
    }
}

/// What Vault holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    /// What is mounted where we log in.
    pub(crate) mount: Option<SeenMount>,
    /// Whether the operator's policy is there.
    pub(crate) policy: bool,
    /// Whether the operator's role is there.
    pub(crate) role: bool,
}

/// An auth method, and how it is configured if it is one of ours to look at.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SeenMount {
    pub(crate) kind: String,
    pub(crate) description: String,
    pub(crate) config: Option<Map<String, Value>>,
}

/// What bootstrap makes, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Mount,
    Config,
    Policy,
    Role,
}

impl Part {
    const ALL: [Self; 4] = [Self::Mount, Self::Config, Self::Policy, Self::Role];

    /// Its name in `bootstrapSteps`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mount => "AuthMountEnabled",
            Self::Config => "AuthMountConfigured",
            Self::Policy => "OperatorPolicyCreated",
            Self::Role => "OperatorRoleCreated",
        }
    }
}

/// One step of bootstrap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// See what Vault holds; nothing can be decided before.
    Look,
    /// Leave the mount alone.
    Refuse(Refusal),
    /// Make it: Vault does not have it.
    Make(Part),
    /// Record it: Vault has it, from before a crash or a lost answer.
    Note(Part),
    /// Log in by all that.
    Test,
    /// Revoke the bootstrap token: a login is proven and on record.
    Revoke,
    /// Nothing is left to do.
    Done,
}

/// Why a mount is left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is of this type.
    OtherType(String),
    /// It serves the API server at this address.
    NotOurs(String),
}

impl Refusal {
    /// For people: what is in the way, and what they can do.
    pub(crate) fn reason(&self, wish: &Wish<'_>) -> Reason {
        let mount = wish.mount();
        match self {
            Self::OtherType(kind) => Reason::new(
                reasons::MOUNT_TYPE_MISMATCH,
                format!(
                    "auth/{mount} is of type {kind} and bootstrap needs {KUBERNETES}; choose \
                     another auth.kubernetes.authPath, or disable what is there"
                ),
            ),
            Self::NotOurs(host) => Reason::new(
                reasons::MOUNT_NOT_OURS,
                format!(
                    "auth/{mount} serves the cluster at {host}, not the one at {}, and \
                     VaultConnection {} did not enable it; choose another \
                     auth.kubernetes.authPath, or set auth.bootstrap.adoptMount to take it over",
                    wish.host(),
                    wish.marker.connection
                ),
            ),
        }
    }
}

/// Whose the login mount is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Nothing is mounted there.
    Absent,
    /// We enabled it.
    Ours,
    /// Others enabled it, and we were told to take it over.
    Adopted,
    /// Others enabled it and nobody configured it.
    Vacant,
    /// Others enabled it and configured it for our cluster: it is used as it is.
    Shared,
}

/// How Vault stands to a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Missing,
    There,
    /// There, and not by us: nothing to record.
    Theirs,
}

/// The next step.
///
/// | complete | Vault shows, first of mount, config, policy, role | so                     |
/// |----------|----------------------------------------------------|------------------------|
/// | yes      | not looked at                                      | revoke if owed, or done |
/// | no       | a mount that is another's                          | refuse                 |
/// | no       | one that is missing                                | make it                |
/// | no       | one that is there and not on record                | note it                |
/// | no       | all of them                                        | test                   |
pub(crate) fn next(wish: &Wish<'_>, status: &AuthStatus, seen: Option<&Seen>) -> Step {
    if status.bootstrap_complete == Some(true) {
        let owed = wish.bootstrap.auto_revoke && !is_recorded(status, REVOKED);
        return if owed { Step::Revoke } else { Step::Done };
    }
    let Some(seen) = seen else {
        return Step::Look;
    };
    let standing = match standing(wish, status, seen) {
        Ok(standing) => standing,
        Err(refusal) => return Step::Refuse(refusal),
    };
    for part in Part::ALL {
        match shown(part, standing, wish, status, seen) {
            Shown::Missing => return Step::Make(part),
            Shown::There if !is_recorded(status, part.name()) => return Step::Note(part),
            Shown::There | Shown::Theirs => {}
        }
    }
    Step::Test
}

/// Whether a step is on record. Vault-access-operator writes a time or `true`.
pub(crate) fn is_recorded(status: &AuthStatus, step: &str) -> bool {
    let value = status.bootstrap_steps.get(step);
    value.is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)))
}

fn standing(wish: &Wish<'_>, status: &AuthStatus, seen: &Seen) -> Result<Standing, Refusal> {
    let Some(mount) = &seen.mount else {
        return Ok(Standing::Absent);
    };
    if mount.kind != KUBERNETES {
        return Err(Refusal::OtherType(mount.kind.clone()));
    }
    if is_recorded(status, Part::Mount.name()) || wish.marker.is_on(&mount.description) {
        return Ok(Standing::Ours);
    }
    if wish.bootstrap.adopt_mount == Some(true) {
        return Ok(Standing::Adopted);
    }
    match &mount.config {
        None => Ok(Standing::Vacant),
        Some(config) if serves_us(config, wish) => Ok(Standing::Shared),
        Some(config) => Err(Refusal::NotOurs(field(config, "kubernetes_host").into())),
    }
}

fn shown(
    part: Part,
    standing: Standing,
    wish: &Wish<'_>,
    status: &AuthStatus,
    seen: &Seen,
) -> Shown {
    let there = |there| if there { Shown::There } else { Shown::Missing };
    match (part, standing) {
        (Part::Mount, Standing::Absent) => Shown::Missing,
        (Part::Mount, Standing::Ours) => Shown::There,
        (Part::Mount, Standing::Adopted | Standing::Vacant | Standing::Shared) => Shown::Theirs,
        // The reviewer token cannot be seen: only a record says that it is in place.
        (Part::Config, Standing::Ours | Standing::Adopted) => there(
            is_configured(wish, seen)
                && is_recorded(status, part.name())
                && !is_over(status, wish.now),
        ),
        (Part::Config, Standing::Absent | Standing::Vacant) => Shown::Missing,
        // Others log in by it, and nobody would replace a reviewer token of ours before it ends.
        (Part::Config, Standing::Shared) => Shown::Theirs,
        (Part::Policy, _) => there(seen.policy),
        (Part::Role, _) => there(seen.role),
    }
}

/// Whether the reviewer token we gave the mount has ended.
fn is_over(status: &AuthStatus, now: Timestamp) -> bool {
    let end = status.token_reviewer_expiration.as_ref();
    end.is_some_and(|end| end.0 <= now)
}

/// Whether the configuration is the one we would write.
fn is_configured(wish: &Wish<'_>, seen: &Seen) -> bool {
    let config = seen.mount.as_ref().and_then(|mount| mount.config.as_ref());
    config.is_some_and(|config| {
        same_host(field(config, "kubernetes_host"), wish.host())
            && same_pem(field(config, "kubernetes_ca_cert"), wish.ca_pem)
    })
}

/// Whether a configuration is for our cluster. Every cluster knows itself as
/// `kubernetes.default.svc`, so the CA has a say where both sides have one.
pub(crate) fn serves_us(config: &Map<String, Value>, wish: &Wish<'_>) -> bool {
    let ca = field(config, "kubernetes_ca_cert");
    let open = ca.trim().is_empty() || wish.ca_pem.trim().is_empty();
    same_host(field(config, "kubernetes_host"), wish.host()) && (open || same_pem(ca, wish.ca_pem))
}

fn field<'a>(config: &'a Map<String, Value>, name: &str) -> &'a str {
    config.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// `https://Host:443/` and `https://host` are the same API server.
fn same_host(one: &str, other: &str) -> bool {
    let plain = |host: &str| {
        let host = host.trim().trim_end_matches('/').to_ascii_lowercase();
        match host.strip_prefix("https://") {
            Some(bare) => format!("https://{}", bare.strip_suffix(":443").unwrap_or(bare)),
            None => host,
        }
    };
    plain(one) == plain(other)
}

/// The same certificates in the same order; how lines end does not count.
fn same_pem(one: &str, other: &str) -> bool {
    let lines = |pem: &str| -> Vec<String> {
        let lines = pem.lines().map(|line| line.trim().to_owned());
        lines.filter(|line| !line.is_empty()).collect()
    };
    lines(one) == lines(other)
}

#[cfg(test)]
mod tests;
