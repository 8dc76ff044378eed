//! One configuration of a client: its server, its login, its limits.

use std::sync::Arc;
use std::time::Duration;

use kernel::{Guard, SharedClock};
use reqwest::Method;
use tokio::sync::SemaphorePermit;

use crate::breaker::Breaker;
use crate::call::Call;
use crate::limit::Limiter;
use crate::session::{Fate, Session, SessionState, SessionView, Token, Upkeep};
use crate::token::{Granted, TokenLookup, lookup_self, renew_self, revoke_self, says_dead};
use crate::transport::{Answer, Caller, Transport};
use crate::{Config, Error, Login, Observer, Renewal, Secret, Settings};

/// No caller waits longer than this for a revocation; an unrevoked token expires by itself.
const REVOKE_TIMEOUT: Duration = Duration::from_secs(5);

/// What all configurations of one client share.
pub(crate) struct Shared {
    pub(crate) clock: SharedClock,
    pub(crate) guards: Vec<Guard>,
    pub(crate) observer: Arc<dyn Observer>,
}

pub(crate) struct Connection {
    pub(crate) fingerprint: String,
    pub(crate) settings: Settings,
    shared: Arc<Shared>,
    login: Login,
    renewal: Renewal,
    transport: Transport,
    limiter: Limiter,
    breaker: Breaker,
    session: Session,
}

impl Connection {
    pub(crate) fn new(config: Config, shared: Arc<Shared>) -> Result<Self, Error> {
        let Config {
            fingerprint,
            settings,
            login,
            renewal,
        } = config;
        Ok(Self {
            fingerprint,
            transport: Transport::new(settings.clone(), &shared.guards)?,
            limiter: Limiter::new(settings.limits, shared.clock.clone()),
            breaker: Breaker::default(),
            session: Session::default(),
            settings,
            shared,
            login,
            renewal,
        })
    }

    pub(crate) fn view(&self) -> Option<SessionView> {
        self.session.view()
    }

    pub(crate) fn address(&self) -> &str {
        self.transport.address()
    }

    /// Waits for a permit and a slot for `call`.
    pub(crate) async fn enter(&self, call: &Call) -> Result<SemaphorePermit<'_>, Error> {
        let worth = || {
            let allows = self.breaker.allows(self.shared.clock.elapsed());
            allows.map_err(|reason| self.unreachable(reason))
        };
        let closed = |left| Error::Throttled {
            call: call.name(),
            retry_after: Some(left),
        };
        self.limiter.enter(worth, closed).await
    }

    /// Sends a call that has a slot.
    pub(crate) async fn made(
        &self,
        call: &Call,
        token: &Token,
        namespace: Option<&str>,
    ) -> Result<Answer, Error> {
        self.ready()?;
        let guards = if call.writes() {
            self.shared.guards.as_slice()
        } else {
            &[]
        };
        guards.iter().try_for_each(Guard::check)?;
        let caller = Caller {
            token: Some(token.secret.expose()),
            namespace,
            guards,
        };
        self.exchanged(call, caller).await
    }

    /// A call about the token itself: neither limited nor guarded, because all other calls need it.
    async fn own(&self, call: &Call, token: Option<&Secret>) -> Result<Answer, Error> {
        self.ready()?;
        let caller = Caller {
            token: token.map(|token| token.expose().as_str()),
            namespace: self.settings.login_namespace(),
            guards: &[],
        };
        self.exchanged(call, caller).await
    }

    /// A call that the breaker does not stop, without token and namespace. Any status counts as an
    /// answer; the caller reports the result.
    pub(crate) async fn bare(&self, call: &Call) -> Result<Answer, Error> {
        let sent = self.transport.send(call, Caller::default()).await;
        self.note_answer(&sent);
        sent
    }

    /// Sends the call and reports its result to limiter, breaker and observer.
    async fn exchanged(&self, call: &Call, caller: Caller<'_>) -> Result<Answer, Error> {
        let began = self.shared.clock.elapsed();
        let sent = self.transport.send(call, caller).await;
        let took = self.shared.clock.elapsed().saturating_sub(began);
        self.note_answer(&sent);
        let token = caller.token.unwrap_or_default();
        let classified = sent.and_then(|answer| call.classified(answer, self.address(), token));
        match &classified {
            Ok(_) | Err(Error::NotFound { .. }) => {
                self.limiter.answered(self.shared.clock.real(took));
            }
            Err(Error::Throttled { retry_after, .. }) => self.limiter.throttled(*retry_after),
            Err(Error::Failed { status: 500.., .. } | Error::NoAnswer { .. }) => {
                self.limiter.strained();
            }
            Err(_) => {}
        }
        self.report(call, classified.as_ref().err());
        classified
    }

    fn note_answer(&self, sent: &Result<Answer, Error>) {
        if matches!(sent, Err(Error::Deposed(_))) {
            return; // nothing was sent
        }
        match sent.as_ref().err().and_then(Error::silence) {
            Some(reason) => self.breaker.silent(self.shared.clock.elapsed(), reason),
            None => self.breaker.answered(),
        }
    }

    fn ready(&self) -> Result<(), Error> {
        let now = self.shared.clock.elapsed();
        self.breaker
            .check(now)
            .map_err(|reason| self.unreachable(reason))
    }

    fn unreachable(&self, reason: String) -> Error {
        Error::Unreachable {
            address: self.address().to_owned(),
            reason,
        }
    }

    /// Counts a call that was sent.
    pub(crate) fn report(&self, call: &Call, error: Option<&Error>) {
        let status = match error {
            None => "success",
            Some(Error::Deposed(_)) => return, // nothing was sent
            // For a read or a deletion "not found" is a success.
            Some(Error::NotFound { .. }) if !call.writes() || call.method == Method::DELETE => {
                "success"
            }
            Some(_) => "failure",
        };
        self.shared.observer.called(call.operation, status);
    }

    /// How many logins and renewals have ended by now; see [`Connection::token`].
    pub(crate) fn attempts(&self) -> u64 {
        self.session.attempts()
    }

    /// Whether this configuration is still the one in use.
    fn is_current(&self) -> Result<bool, Error> {
        match self.session.fate() {
            Fate::Open => Ok(true),
            Fate::Replaced => Ok(false),
            Fate::Ended => Err(Error::Ended {
                address: self.address().to_owned(),
            }),
        }
    }

    /// A valid token, after the renewal or login that is due; `None` if this configuration has been
    /// replaced.
    ///
    /// `since` is the count of attempts when the caller arrived. If a later attempt has failed, the
    /// caller gets its error.
    pub(crate) async fn token(&self, since: u64) -> Result<Option<Token>, Error> {
        let mut state = self.session.lock().await;
        if !self.is_current()? {
            return Ok(None);
        }
        let now = self.shared.clock.elapsed();
        let token = match state.token.clone() {
            Some(token) => match token.upkeep(now, self.renewal) {
                Upkeep::Reuse => return Ok(Some(token)),
                Upkeep::Renew => Some(token),
                Upkeep::Login => None,
            },
            None if self.session.attempts() > since
                && let Some(error) = &state.failed =>
            {
                return Err(error.clone());
            }
            None => None,
        };
        let outcome = match token {
            Some(token) => self.renewed_or_new(token, &mut state).await,
            None => self.logged_in(&mut state).await,
        };
        self.session.ended(&mut state, outcome.clone());
        let token = outcome?;
        // If the session was ended meanwhile, this token has not been revoked yet.
        if self.session.fate() != Fate::Open {
            self.session.drop_token(&mut state);
            self.given_back(&token).await.ok();
        }
        Ok(self.is_current()?.then_some(token))
    }

    async fn renewed_or_new(&self, token: Token, state: &mut SessionState) -> Result<Token, Error> {
        match self.renewed(token.clone()).await {
            Ok(renewed) if token.is_static || !renewed.is_short(renewed.at) => Ok(renewed),
            // The renewal gave little time: the token is near its maximum TTL.
            Ok(_) => self.logged_in(state).await,
            Err(_) if !token.is_static => self.logged_in(state).await,
            Err(error) if error.class().heals_by_itself() => Err(error),
            Err(_) => {
                let mut token = token;
                token.view.renewable = false;
                Ok(token)
            }
        }
    }

    async fn renewed(&self, token: Token) -> Result<Token, Error> {
        let (at, now) = (self.shared.clock.elapsed(), self.shared.clock.now());
        let call = renew_self()?;
        let answer = self.own(&call, Some(&token.secret)).await?;
        let granted = Granted::from_auth(&call.name(), &answer)?;
        Ok(token.renewed(&granted, at, now))
    }

    async fn logged_in(&self, state: &mut SessionState) -> Result<Token, Error> {
        match &self.login {
            Login::Token { token } => {
                let secret = token.fetch(&self.login).await?;
                let secret = Secret::new(secret.expose().trim().to_owned());
                self.static_token(secret, state).await
            }
            Login::AppRole { mount, .. }
            | Login::Kubernetes { mount, .. }
            | Login::Jwt { mount, .. }
            | Login::Aws { mount, .. }
            | Login::GcpIam { mount, .. }
            | Login::Gce { mount, .. } => {
                let token = match self.log_in(mount.as_str()).await {
                    // The answer is lost, and the token in it expires by itself.
                    Err(Error::NoAnswer { .. }) => self.log_in(mount.as_str()).await?,
                    outcome => outcome?,
                };
                self.shared.observer.logged_in();
                Ok(token)
            }
        }
    }

    /// A static token, with the TTL that Vault returns for it.
    async fn static_token(&self, secret: Secret, state: &mut SessionState) -> Result<Token, Error> {
        let refused = || Error::AuthFailed {
            login: self.login.name(),
            message: "Vault does not know it, or no longer".to_owned(),
        };
        if state.dead.as_ref() == Some(&secret) {
            return Err(refused());
        }
        let (at, now) = (self.shared.clock.elapsed(), self.shared.clock.now());
        let call = lookup_self()?;
        let lookup = match self.own(&call, Some(&secret)).await {
            Ok(answer) => answer.payload::<TokenLookup>(&call.name())?,
            Err(error) if says_dead(&error) => {
                state.dead = Some(secret);
                return Err(refused());
            }
            // The token is valid, but without the policy `default` it may not look itself up.
            Err(Error::Denied { .. }) => TokenLookup {
                accessor: String::new(),
                ttl: 0,
                renewable: false,
                policies: Vec::new(),
            },
            Err(error) => return Err(error),
        };
        let granted = Granted {
            secret,
            accessor: lookup.accessor,
            seconds: lookup.ttl,
            renewable: lookup.renewable,
        };
        Ok(Token::new(granted, self.login.method(), at, now))
    }

    async fn log_in(&self, mount: &str) -> Result<Token, Error> {
        let (at, now) = (self.shared.clock.elapsed(), self.shared.clock.now());
        let proof = self.login.proof(now).await?;
        let proof = proof.expect("only a static token needs no login");
        let call = Call::post("login", &["auth", mount, "login"])?
            .body(proof.body)
            .hiding(proof.secrets);
        let answer = self.own(&call, None).await.map_err(|error| match error {
            Error::Denied { message, .. }
            | Error::Invalid { message, .. }
            | Error::NotFound { message, .. } => Error::AuthFailed {
                login: self.login.name(),
                message,
            },
            other => other,
        })?;
        let granted = Granted::from_auth(&call.name(), &answer)?;
        Ok(Token::new(granted, self.login.method(), at, now))
    }

    /// Whether `token`, which Vault just refused, is no longer valid. If the lookup fails, this is
    /// unknown, and the refusal is returned to the caller.
    pub(crate) async fn is_dead(&self, token: &Token) -> bool {
        let Ok(lookup) = lookup_self() else {
            return false;
        };
        match self.own(&lookup, Some(&token.secret)).await {
            Ok(_) => false,
            Err(error) if says_dead(&error) => true,
            Err(Error::Denied { .. }) => token.is_over(self.shared.clock.elapsed()),
            Err(_) => false,
        }
    }

    /// Drops the invalid `token`, unless another one has replaced it already.
    pub(crate) async fn forget(&self, token: &Token) {
        let mut state = self.session.lock().await;
        let same = |current: &Token| current.secret == token.secret;
        if state.token.as_ref().is_some_and(same) {
            self.session.drop_token(&mut state);
            if token.is_static {
                state.dead = Some(token.secret.clone());
            }
        }
    }

    /// A call about the token, with the token.
    pub(crate) async fn about_itself(&self, call: &Call, token: &Token) -> Result<Answer, Error> {
        self.own(call, Some(&token.secret)).await
    }

    /// Renews the token in use, due or not.
    pub(crate) async fn renew_now(&self) -> Result<(), Error> {
        let mut state = self.session.lock().await;
        let Some(token) = state.token.clone() else {
            return Ok(()); // the next call gets a new one
        };
        let renewed = self.renewed(token).await?;
        self.session.store_token(&mut state, renewed);
        Ok(())
    }

    /// Revokes the token in use, also a static one.
    pub(crate) async fn revoke_now(&self) -> Result<(), Error> {
        let mut state = self.session.lock().await;
        let Some(token) = state.token.clone() else {
            return Ok(());
        };
        self.own(&revoke_self()?, Some(&token.secret)).await?;
        self.session.drop_token(&mut state);
        if token.is_static {
            state.dead = Some(token.secret);
        }
        Ok(())
    }

    /// Ends the session: it gets no new token, and the token of a login is revoked within
    /// [`REVOKE_TIMEOUT`]. A login that takes longer revokes its token itself.
    pub(crate) async fn close(&self, fate: Fate) -> Result<(), Error> {
        self.session.set_fate(fate);
        let closed = async {
            let token = {
                let mut state = self.session.lock().await;
                self.session.drop_token(&mut state)
            };
            match token {
                Some(token) => self.given_back(&token).await,
                None => Ok(()),
            }
        };
        let closed = tokio::time::timeout(REVOKE_TIMEOUT, closed).await;
        closed.unwrap_or_else(|_| {
            Err(Error::NoAnswer {
                call: revoke_self()?.name(),
                address: self.address().to_owned(),
                reason: format!("not within {} s", REVOKE_TIMEOUT.as_secs()),
            })
        })
    }

    /// Revokes the token of a login. A static token is not ours; a batch token, which has no
    /// accessor, cannot be revoked.
    async fn given_back(&self, token: &Token) -> Result<(), Error> {
        if token.is_static || token.view.accessor.is_empty() {
            return Ok(());
        }
        match self.own(&revoke_self()?, Some(&token.secret)).await {
            Err(error) if says_dead(&error) => Ok(()),
            outcome => outcome.map(drop),
        }
    }
}
