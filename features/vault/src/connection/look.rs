//! The look at one Vault, from its Secrets to its reviewer token.

use std::collections::BTreeSet;
use std::time::Duration;

use api::vault::{AuthStatus, VaultConnection, VaultConnectionStatus, reasons};
use engine::{Note, Pass, kill_point};
use kernel::{Backoff, Conditions, ObjectKey, RealClock, Reason};
use vault_client::{Client, Config, Health, Login, Parts, Source, SourceError};

use super::bootstrap::{self, Advance, MountMarker, Site, Wish};
use super::config::{self, Problem};
use super::jwt::{Issued, OwnToken, ServiceAccountRef};
use super::reviewer::{self, Due, Issuer, Jwt};
use super::secrets::Secrets;
use super::{Memory, Refused, authority, interval, templates};
use crate::controllers::Part;
use crate::ctx::Ctx;
use crate::discovery;
use crate::names;
use crate::sync::{Error, Stop};

/// How often a Vault that is sealed or new is looked at.
const SEALED: Duration = Duration::from_secs(10);
/// The longest wait between two tries to log in, or to rotate.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// What a look has found so far.
pub(super) struct Look {
    pub(super) status: VaultConnectionStatus,
    pub(super) conditions: Conditions,
    pub(super) health: Option<Health>,
    pub(super) refused: Option<Refused>,
    /// Whether anything was asked of Vault, so that a failure is one more.
    pub(super) attempted: bool,
    /// When the token wants to be seen to, in real time.
    pub(super) upkeep: Option<Duration>,
    /// Bootstrap has taken a step that is to be recorded before the next.
    pub(super) stepped: bool,
    /// How often in a row the reviewer token could not be replaced, and when to try again.
    pub(super) review_failures: Option<(u32, Duration)>,
    /// How the last scan failed.
    pub(super) scan_failed: Option<discovery::Failure>,
    /// Names that templates would have and others hold.
    pub(super) taken: BTreeSet<ObjectKey>,
    memory: Memory,
}

impl Look {
    pub(super) fn new(connection: &VaultConnection, memory: Memory) -> Self {
        let status = connection.status.clone().unwrap_or_default();
        Self {
            conditions: Conditions::new(
                &status.conditions,
                connection.metadata.generation,
                jiff::Timestamp::UNIX_EPOCH,
            ),
            status,
            health: None,
            refused: memory.refused.clone(),
            attempted: false,
            upkeep: None,
            stepped: false,
            review_failures: memory.review_failures,
            scan_failed: memory.scan_failed.clone(),
            taken: memory.taken.clone(),
            memory,
        }
    }

    /// The whole look.
    pub(super) async fn around(
        &mut self,
        connection: &VaultConnection,
        ctx: &Ctx,
        pass: &mut Pass,
    ) -> Result<(), Stop> {
        let (client, fingerprint) = self.health(connection, ctx, pass).await?;
        if self.bootstrap(connection, &client, ctx, pass).await? {
            self.stepped = true;
            return Ok(());
        }
        self.login(&client, &fingerprint, connection, ctx, pass)
            .await?;
        self.review(connection, &client, ctx, pass).await;
        if templates::can_be_given(&ctx.settings.controllers) {
            let taken = templates::spread(connection, ctx).await;
            let taken = taken.map_err(Error::from)?;
            templates::tell_taken(&taken, &self.memory.taken, pass);
            self.taken = taken;
        } else if let Some(note) = templates::left_out(connection) {
            pass.event(note);
        }
        if !ctx.settings.controllers.has(Part::Discovery) {
            return Ok(());
        }
        let (status, conditions) = (&mut self.status, &mut self.conditions);
        let failed = &mut self.scan_failed;
        let scan = discovery::scan(connection, &client, status, conditions, failed, ctx, pass);
        Box::pin(scan).await;
        Ok(())
    }

    /// As far as others need it to call Vault, and nothing is made.
    pub(super) async fn reach(
        &mut self,
        connection: &VaultConnection,
        ctx: &Ctx,
        pass: &mut Pass,
    ) -> Result<(), Stop> {
        let (client, fingerprint) = self.health(connection, ctx, pass).await?;
        self.login(&client, &fingerprint, connection, ctx, pass)
            .await
    }

    /// Whether Vault is there, asked by a client with what the connection's Secrets hold now.
    async fn health(
        &mut self,
        connection: &VaultConnection,
        ctx: &Ctx,
        pass: &mut Pass,
    ) -> Result<(Client, String), Stop> {
        self.conditions = Conditions::new(
            &self.status.conditions,
            connection.metadata.generation,
            ctx.now(),
        );
        let account = &ctx.settings.service_account;
        let prepared = config::prepare(connection, &ctx.deck.client, account, &ctx.aws).await;
        let prepared = prepared.map_err(|problem| unprepared(problem, connection))?;
        let fingerprint = prepared.fingerprint.clone();
        let client = client(prepared, &pass.key().name, ctx)
            .await
            .map_err(|error| stop(error, connection))?;
        self.attempted = true;
        let health = pass.outside(client.health()).await;
        let health = health.map_err(|error| stop(error, connection))?;
        self.status.vault_version =
            Some(health.version.clone()).filter(|version| !version.is_empty());
        let usable = health.usable(&connection.spec.address);
        usable.map_err(|error| stop(error, connection))?;
        takes_namespaces(connection, &health)?;
        self.health = Some(health);
        Ok((client, fingerprint))
    }

    /// Takes one step of bootstrap, if it owes one; answers whether it did.
    async fn bootstrap(
        &mut self,
        connection: &VaultConnection,
        client: &Client,
        ctx: &Ctx,
        pass: &mut Pass,
    ) -> Result<bool, Stop> {
        let auth = &connection.spec.auth;
        let (Some(spec), Some(kubernetes)) = (&auth.bootstrap, &auth.kubernetes) else {
            return Ok(false);
        };
        let mut status = self.status.auth_status.clone().unwrap_or_default();
        if !bootstrap::is_owed(spec, &status) {
            return Ok(false);
        }
        let complete = status.bootstrap_complete == Some(true);
        let site = bootstrap_client(connection, ctx).await;
        let vault = match site {
            Ok(vault) => vault,
            // All is made; that its token cannot be read any more is no reason not to log in.
            Err(_) if complete => return Ok(false),
            Err(stop) => return Err(stop),
        };
        let Some(ca_pem) = authority::ca_pem().await else {
            return Err(Stop::blocked(Reason::new(
                reasons::VALIDATION_FAILED,
                "bootstrap needs the API server's certificate authority, and none is configured here",
            )));
        };
        let marker = MountMarker {
            identity: ctx.identity(connection),
            connection: pass.key().name.to_string(),
        };
        let issuer = OwnIssuer::of(ctx);
        let role_mount = names::role_mount(connection.spec.defaults.as_ref(), auth).ok();
        let below = below(connection);
        let site = Site {
            wish: Wish {
                auth: kubernetes,
                bootstrap: spec,
                marker: &marker,
                ca_pem: &ca_pem,
                now: ctx.now(),
            },
            vault: &vault,
            login: client,
            issuer: &issuer,
            account: (&issuer.account.namespace, &issuer.account.name),
            role_mount: role_mount.as_ref().map(|at| &at.mount),
            below: &below,
        };
        let advance = pass.outside(bootstrap::advance(&site, &status)).await;
        let advance = advance.map_err(|error| stop(error, connection))?;
        let before = status.clone();
        bootstrap::record(&mut status, &advance, ctx.now());
        bootstrap::tell(&advance, &mut self.conditions);
        let changed = status != before;
        self.status.auth_status = Some(status);
        match advance {
            Advance::Made { .. } | Advance::Complete | Advance::Revoked => Ok(true),
            Advance::Done | Advance::RevokeFailed(_) => Ok(changed),
            Advance::TestFailed(error) => {
                let failures = self.status.consecutive_fails.unwrap_or_default() + 1;
                let failures = u32::try_from(failures).unwrap_or(u32::MAX);
                let after = backoff(ctx).delay(failures, 0.5);
                Err(match stop(error, connection) {
                    Stop::Waiting { reason, .. } => Stop::waiting(reason, after),
                    other => other,
                })
            }
            Advance::Refused(reason) => Err(Stop::blocked(reason)),
        }
    }

    /// Logs in if need be, and asks whether the token lives.
    async fn login(
        &mut self,
        client: &Client,
        fingerprint: &str,
        connection: &VaultConnection,
        ctx: &Ctx,
        pass: &mut Pass,
    ) -> Result<(), Stop> {
        let now = ctx.deck.clock.elapsed();
        let generation = connection.metadata.generation;
        let same = |refused: &&Refused| {
            refused.fingerprint == fingerprint && refused.generation == generation
        };
        let before = self.memory.refused.as_ref().filter(same);
        if let Some(refused) = before.filter(|refused| now < refused.not_before) {
            self.attempted = false;
            return Err(Stop::waiting(refused.reason.clone(), interval(connection)));
        }
        kill_point("vault-before-login");
        let alive = pass.outside(async {
            client.login().await?;
            match client.lookup_self().await {
                // A token without the policy `default` may not ask about itself.
                Ok(_) | Err(vault_client::Error::Denied { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        });
        let alive = alive.await;
        kill_point("vault-after-login");
        if let Err(error) = alive {
            let stop = stop(error, connection);
            if let Stop::Waiting { reason, .. } = &stop
                && reason.code == reasons::AUTH_FAILED
            {
                let failures = before.map_or(0, |refused| refused.failures) + 1;
                self.refused = Some(Refused {
                    fingerprint: fingerprint.to_owned(),
                    generation,
                    failures,
                    not_before: now + backoff(ctx).delay(failures, 0.5),
                    reason: reason.clone(),
                });
            }
            return Err(stop);
        }
        self.refused = None;
        self.session(client, connection);
        Ok(())
    }

    /// Puts down what may be told of the token.
    #[allow(clippy::disallowed_methods)] // tokens live in Vault's time, whatever clock the passes see
    fn session(&mut self, client: &Client, connection: &VaultConnection) {
        let Some(session) = client.session() else {
            return;
        };
        let auth = self
            .status
            .auth_status
            .get_or_insert_with(AuthStatus::default);
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        auth.auth_method = Some(method(connection).to_owned());
        auth.token_accessor = some(session.accessor);
        auth.token_expiration = session.expires.map(reviewer::seconds);
        auth.token_last_renewed = session.renewed.map(reviewer::seconds);
        auth.token_renewal_count = Some(i64::from(session.renewals));
        let since = session.renewed.unwrap_or(session.since);
        self.upkeep = session.expires.and_then(|expires| {
            let life = Duration::try_from(expires.duration_since(since)).ok()?;
            let left = expires.duration_since(jiff::Timestamp::now());
            let left = Duration::try_from(left).unwrap_or_default();
            Some(left.saturating_sub(life / 4))
        });
    }

    /// Sees to the token by which Vault reviews others. A failure keeps the one it has.
    async fn review(
        &mut self,
        connection: &VaultConnection,
        client: &Client,
        ctx: &Ctx,
        pass: &mut Pass,
    ) {
        let auth = &connection.spec.auth;
        let Some(kubernetes) = &auth.kubernetes else {
            return;
        };
        let mut status = self.status.auth_status.clone().unwrap_or_default();
        let ours = bootstrap::is_our_mount(auth.bootstrap.as_ref(), &status);
        let due = reviewer::due(kubernetes.token_reviewer_rotation, ours, &status, ctx.now());
        let now = ctx.deck.clock.elapsed();
        let tried = self.memory.review_failures;
        if tried.is_some_and(|(_, not_before)| now < not_before) {
            return;
        }
        let client = &at_login(client, connection);
        let failed = match due {
            Due::Yes { .. } => {
                let issuer = OwnIssuer::of(ctx);
                let mount = vault_client::AuthMount::new(&kubernetes.auth_path);
                let rotate = async {
                    let jwt = issuer.reviewer().await;
                    let jwt = jwt.map_err(|source| vault_client::Error::Credentials {
                        login: format!("the reviewer token of auth/{mount}"),
                        source,
                    })?;
                    reviewer::rotate(client, &mount, &jwt).await?;
                    Ok(jwt.expires)
                };
                match pass.outside(rotate).await {
                    Ok(expires) => {
                        reviewer::record(&mut status, expires, ctx.now());
                        None
                    }
                    Err(error) => Some(error),
                }
            }
            Due::Never | Due::NotOurMount | Due::No { .. } => None,
        };
        reviewer::tell(due, failed.as_ref(), &mut self.conditions);
        self.review_failures = failed.as_ref().map(|_| {
            let failures = tried.map_or(0, |(failures, _)| failures) + 1;
            (failures, now + backoff(ctx).delay(failures, 0.5))
        });
        if let (Some(error), Due::Yes { short: true }) = (failed, due) {
            pass.event(Note::warning(
                "TokenReviewerNotRotated",
                format!("the reviewer token ends soon and could not be replaced: {error}"),
            ));
        }
        self.status.auth_status = Some(status);
    }
}

/// How what failed at Vault is tried again.
fn backoff(ctx: &Ctx) -> Backoff {
    Backoff {
        first: ctx.settings.error_interval,
        cap: LONGEST_WAIT,
        jitter: 0.1,
    }
}

/// The same Vault, in the namespace that the login is in.
pub(super) fn at_login(client: &Client, connection: &VaultConnection) -> Client {
    match connection.spec.auth.vault_namespace.as_deref() {
        Some(namespace) => client.in_namespace(namespace),
        None => client.clone(),
    }
}

/// The client of a connection, with what its Secrets hold now.
async fn client(config: Config, name: &str, ctx: &Ctx) -> Result<Client, vault_client::Error> {
    if let Some(client) = ctx.links.client(name) {
        client.configure(config).await?;
        return Ok(client);
    }
    let client = Client::new(config, parts(name, ctx))?;
    ctx.links.set_client(name, client.clone());
    Ok(client)
}

fn parts(name: &str, ctx: &Ctx) -> Parts {
    Parts {
        clock: std::sync::Arc::new(RealClock::new()),
        guards: ctx.deck.guards.clone(),
        observer: ctx.metrics.observer(name),
    }
}

/// A client with the bootstrap token, in the namespace of the login.
async fn bootstrap_client(connection: &VaultConnection, ctx: &Ctx) -> Result<Client, Stop> {
    let account = &ctx.settings.service_account;
    let spec = connection.spec.auth.bootstrap.as_ref();
    let spec = spec.expect("asked only where there is one");
    let unprepared = |problem: Problem| unprepared(problem, connection);
    let config = config::prepare(connection, &ctx.deck.client, account, &ctx.aws).await;
    let mut config = config.map_err(unprepared)?;
    let mut secrets = Secrets::new(ctx.deck.client.clone());
    let token = secrets.value(&spec.secret_ref).await.map_err(unprepared)?;
    config.login = Login::Token {
        token: Source::given(token),
    };
    config.settings.vault_namespace = connection
        .spec
        .auth
        .vault_namespace
        .clone()
        .or(connection.spec.vault_namespace.clone());
    let name = connection.metadata.name.as_deref().unwrap_or_default();
    Client::new(config, parts(name, ctx)).map_err(|error| stop(error, connection))
}

/// The namespace of policies and roles as seen from that of the login.
fn below(connection: &VaultConnection) -> String {
    let spec = &connection.spec;
    let whole = spec.vault_namespace.as_deref().unwrap_or_default();
    match spec.auth.vault_namespace.as_deref() {
        None => String::new(),
        Some(login) => {
            let rest = whole.trim_matches('/');
            let rest = rest.strip_prefix(login.trim_matches('/')).unwrap_or(rest);
            rest.trim_matches('/').to_owned()
        }
    }
}

/// The word for the method in use.
fn method(connection: &VaultConnection) -> &'static str {
    let auth = &connection.spec.auth;
    let methods = [
        (auth.kubernetes.is_some(), "kubernetes"),
        (auth.token.is_some(), "token"),
        (auth.app_role.is_some(), "appRole"),
        (auth.jwt.is_some(), "jwt"),
        (auth.oidc.is_some(), "oidc"),
        (auth.aws.is_some(), "aws"),
        (auth.gcp.is_some(), "gcp"),
    ];
    let used = methods.into_iter().find(|(used, _)| *used);
    used.map_or("none", |(_, method)| method)
}

/// Makes tokens of our own service account.
struct OwnIssuer {
    kube: kube::Client,
    account: ServiceAccountRef,
}

impl OwnIssuer {
    fn of(ctx: &Ctx) -> Self {
        Self {
            kube: ctx.deck.client.clone(),
            account: ctx.settings.service_account.clone(),
        }
    }
}

impl Issuer for OwnIssuer {
    async fn reviewer(&self) -> Result<Jwt, SourceError> {
        let own = OwnToken {
            kube: self.kube.clone(),
            account: self.account.clone(),
            audiences: Vec::new(),
            life: reviewer::ASKED,
        };
        let Issued { token, expires } = own.issue().await.map_err(SourceError::new)?;
        Ok(Jwt {
            secret: token,
            expires,
        })
    }
}

/// Namespaces that the server does not have would silently be the root.
fn takes_namespaces(connection: &VaultConnection, health: &Health) -> Result<(), Stop> {
    let spec = &connection.spec;
    let asked = [&spec.vault_namespace, &spec.auth.vault_namespace];
    for namespace in asked.into_iter().flatten() {
        health.takes_namespace(namespace).map_err(|missing| {
            let reason = Reason::new(reasons::UNSUPPORTED_BY_SERVER, missing.to_string());
            Stop::waiting(reason, interval(connection))
        })?;
    }
    Ok(())
}

/// What it means that there is nothing to call Vault with: looked at again at the next interval,
/// for Secrets are read and not watched.
fn unprepared(problem: Problem, connection: &VaultConnection) -> Stop {
    if let Problem::Api(error) = problem {
        return Stop::Failed(error.into());
    }
    let reason = Reason::new(problem.reason(), problem.to_string());
    Stop::waiting(reason, interval(connection))
}

/// The reason of a login for which there were no credentials.
fn credentials_reason(source: &SourceError) -> &'static str {
    source
        .downcast_ref::<Problem>()
        .map_or(reasons::AUTH_FAILED, Problem::reason)
}

/// What an error of Vault means to the connection itself.
pub(super) fn stop(error: vault_client::Error, connection: &VaultConnection) -> Stop {
    use vault_client::Error as E;
    let said = error.to_string();
    let wait = |code: &'static str, after| Stop::waiting(Reason::new(code, said.clone()), after);
    let soon = interval(connection);
    match &error {
        E::Unreachable { .. } => wait(reasons::NETWORK_ERROR, soon),
        E::Sealed { .. } => wait(reasons::VAULT_SEALED, SEALED),
        E::Uninitialised { .. } => wait(reasons::VAULT_NOT_INITIALIZED, SEALED),
        E::AuthFailed { .. } => wait(reasons::AUTH_FAILED, soon),
        E::Credentials { source, .. } => wait(credentials_reason(source), soon),
        E::Settings { .. } => wait(reasons::VALIDATION_FAILED, soon),
        E::Denied { .. } => wait(reasons::VAULT_PERMISSION_DENIED, soon),
        E::NoAnswer { .. } | E::Failed { .. } | E::Stale { .. } => wait(reasons::FAILED, soon),
        E::NotFound { .. }
        | E::AlreadyExists { .. }
        | E::Throttled { .. }
        | E::CheckAndSet { .. }
        | E::Invalid { .. }
        | E::Redirect { .. }
        | E::Deposed(_)
        | E::Ended { .. } => Stop::Failed(Error::from(error)),
    }
}
