//! One configuration of a client: its server, its login, its limits.

use std::sync::Arc;
use std::time::Duration;

use kernel::{Guard, SharedClock};
use reqwest::Method;
use tokio::sync::SemaphorePermit;

use crate::breaker::Breaker;
use crate::call::Call;
use crate::limit::Limiter;
use crate::session::{Fate, Held, Session, SessionView, Token, Upkeep};
use crate::token::{Granted, TokenLookup, lookup_self, renew_self, revoke_self, says_dead};
use crate::transport::{Answer, Caller, Transport};
use crate::{Config, Error, Login, Observer, Renewal, Secret, Settings};

/// A revocation is a courtesy: nobody waits longer for it.
const REVOKE_TIMEOUT: Duration = Duration::from_secs(5);

/// What all configurations of one client share.
pub(crate) struct Around {
    pub(crate) clock: SharedClock,
    pub(crate) guards: Vec<Guard>,
    pub(crate) observer: Arc<dyn Observer>,
}

pub(crate) struct Connection {
    pub(crate) fingerprint: String,
    pub(crate) settings: Settings,
    around: Arc<Around>,
    login: Login,
    renewal: Renewal,
    transport: Transport,
    limiter: Limiter,
    breaker: Breaker,
    session: Session,
}

impl Connection {
    pub(crate) fn new(config: Config, around: Arc<Around>) -> Result<Self, Error> {
        let Config {
            fingerprint,
            settings,
            login,
            renewal,
        } = config;
        Ok(Self {
            fingerprint,
            transport: Transport::new(settings.clone(), &around.guards)?,
            limiter: Limiter::new(settings.limits, around.clock.clone()),
            breaker: Breaker::default(),
            session: Session::default(),
            settings,
            around,
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

    /// Waits for the turn and a slot for `call`.
    pub(crate) async fn enter(&self, call: &Call) -> Result<SemaphorePermit<'_>, Error> {
        let worth = || {
            let hopes = self.breaker.hopes(self.around.clock.elapsed());
            hopes.map_err(|reason| self.away(reason))
        };
        let closed = |left| Error::Throttled {
            call: call.name(),
            retry_after: Some(left),
        };
        self.limiter.enter(worth, closed).await
    }

    /// Makes a call for which there is a slot.
    pub(crate) async fn made(
        &self,
        call: &Call,
        token: &Token,
        namespace: Option<&str>,
    ) -> Result<Answer, Error> {
        self.ready()?;
        let guards = if call.writes() {
            self.around.guards.as_slice()
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

    /// A call about the token itself: neither limited nor guarded, for all others hang on it.
    async fn own(&self, call: &Call, token: Option<&Secret>) -> Result<Answer, Error> {
        self.ready()?;
        let caller = Caller {
            token: token.map(|token| token.expose().as_str()),
            namespace: self.settings.login_namespace(),
            guards: &[],
        };
        self.exchanged(call, caller).await
    }

    /// A call that is made whatever happened before, without token and namespace. Any status counts
    /// as an answer; the caller reports what it was.
    pub(crate) async fn bare(&self, call: &Call) -> Result<Answer, Error> {
        let sent = self.transport.send(call, Caller::default()).await;
        self.heard(&sent);
        sent
    }

    /// The call itself, with everyone told who counts on its outcome.
    async fn exchanged(&self, call: &Call, caller: Caller<'_>) -> Result<Answer, Error> {
        let began = self.around.clock.elapsed();
        let sent = self.transport.send(call, caller).await;
        let took = self.around.clock.elapsed().saturating_sub(began);
        self.heard(&sent);
        let token = caller.token.unwrap_or_default();
        let judged = sent.and_then(|answer| call.judged(answer, self.address(), token));
        match &judged {
            Ok(_) | Err(Error::NotFound { .. }) => {
                self.limiter.answered(self.around.clock.real(took));
            }
            Err(Error::Throttled { retry_after, .. }) => self.limiter.throttled(*retry_after),
            Err(Error::Failed { status: 500.., .. } | Error::NoAnswer { .. }) => {
                self.limiter.strained();
            }
            Err(_) => {}
        }
        self.report(call, judged.as_ref().err());
        judged
    }

    fn heard(&self, sent: &Result<Answer, Error>) {
        if matches!(sent, Err(Error::Deposed(_))) {
            return; // nothing was sent
        }
        match sent.as_ref().err().and_then(Error::silence) {
            Some(reason) => self.breaker.silent(self.around.clock.elapsed(), reason),
            None => self.breaker.answered(),
        }
    }

    fn ready(&self) -> Result<(), Error> {
        let now = self.around.clock.elapsed();
        self.breaker.check(now).map_err(|reason| self.away(reason))
    }

    fn away(&self, reason: String) -> Error {
        Error::Unreachable {
            address: self.address().to_owned(),
            reason,
        }
    }

    /// Counts a call that was made.
    pub(crate) fn report(&self, call: &Call, error: Option<&Error>) {
        let status = match error {
            None => "success",
            Some(Error::Deposed(_)) => return, // nothing was sent
            // That nothing is there answers a read and a deletion.
            Some(Error::NotFound { .. }) if !call.writes() || call.method == Method::DELETE => {
                "success"
            }
            Some(_) => "failure",
        };
        self.around.observer.called(call.operation, status);
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

    /// The token to call with, after whatever upkeep is due; `None` when this configuration has
    /// been replaced.
    ///
    /// `since` is the count of attempts when the caller came: if a later one has failed, its
    /// failure is the caller's, too.
    pub(crate) async fn token(&self, since: u64) -> Result<Option<Token>, Error> {
        let mut held = self.session.turn().await;
        if !self.is_current()? {
            return Ok(None);
        }
        let now = self.around.clock.elapsed();
        let token = match held.token.clone() {
            Some(token) => match token.upkeep(now, self.renewal) {
                Upkeep::Reuse => return Ok(Some(token)),
                Upkeep::Renew => Some(token),
                Upkeep::Login => None,
            },
            None if self.session.attempts() > since
                && let Some(error) = &held.failed =>
            {
                return Err(error.clone());
            }
            None => None,
        };
        let outcome = match token {
            Some(token) => self.renewed_or_new(token, &mut held).await,
            None => self.logged_in(&mut held).await,
        };
        self.session.ended(&mut held, outcome.clone());
        let token = outcome?;
        // Whoever ended the session meanwhile may not have seen this token.
        if self.session.fate() != Fate::Open {
            self.session.drop_token(&mut held);
            self.given_back(&token).await.ok();
        }
        Ok(self.is_current()?.then_some(token))
    }

    async fn renewed_or_new(&self, token: Token, held: &mut Held) -> Result<Token, Error> {
        match self.renewed(token.clone()).await {
            Ok(renewed) if token.is_static || !renewed.is_short(renewed.at) => Ok(renewed),
            // It lives on, but not for long: at the end of its longest life.
            Ok(_) => self.logged_in(held).await,
            Err(_) if !token.is_static => self.logged_in(held).await,
            Err(error) if error.class().heals_by_itself() => Err(error),
            Err(_) => {
                let mut token = token;
                token.view.renewable = false;
                Ok(token)
            }
        }
    }

    async fn renewed(&self, token: Token) -> Result<Token, Error> {
        let (at, now) = (self.around.clock.elapsed(), self.around.clock.now());
        let call = renew_self()?;
        let answer = self.own(&call, Some(&token.secret)).await?;
        let granted = Granted::from_auth(&call.name(), &answer)?;
        Ok(token.renewed(&granted, at, now))
    }

    async fn logged_in(&self, held: &mut Held) -> Result<Token, Error> {
        match &self.login {
            Login::Token { token } => {
                let secret = token.fetch(&self.login).await?;
                let secret = Secret::new(secret.expose().trim().to_owned());
                self.known(secret, held).await
            }
            Login::AppRole { mount, .. }
            | Login::Kubernetes { mount, .. }
            | Login::Jwt { mount, .. }
            | Login::Aws { mount, .. }
            | Login::GcpIam { mount, .. }
            | Login::Gce { mount, .. } => {
                let token = match self.log_in(mount.as_str()).await {
                    // A lost answer: the token it held is lost, and ends by itself.
                    Err(Error::NoAnswer { .. }) => self.log_in(mount.as_str()).await?,
                    outcome => outcome?,
                };
                self.around.observer.logged_in();
                Ok(token)
            }
        }
    }

    /// A static token is looked up to learn its life.
    async fn known(&self, secret: Secret, held: &mut Held) -> Result<Token, Error> {
        let refused = || Error::AuthFailed {
            login: self.login.name(),
            message: "Vault does not know it, or not any more".to_owned(),
        };
        if held.dead.as_ref() == Some(&secret) {
            return Err(refused());
        }
        let (at, now) = (self.around.clock.elapsed(), self.around.clock.now());
        let call = lookup_self()?;
        let lookup = match self.own(&call, Some(&secret)).await {
            Ok(answer) => answer.data::<TokenLookup>(&call.name())?,
            Err(error) if says_dead(&error) => {
                held.dead = Some(secret);
                return Err(refused());
            }
            // It lives, but without the policy `default` it may not ask about itself.
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
        let (at, now) = (self.around.clock.elapsed(), self.around.clock.now());
        let proof = self.login.proof(now).await?;
        let proof = proof.expect("only a static token has nothing to prove");
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

    /// Whether Vault has forgotten `token`, which it just refused. A look-up that fails tells nothing
    /// of the token: the refusal stands.
    pub(crate) async fn is_dead(&self, token: &Token) -> bool {
        let Ok(lookup) = lookup_self() else {
            return false;
        };
        match self.own(&lookup, Some(&token.secret)).await {
            Ok(_) => false,
            Err(error) if says_dead(&error) => true,
            Err(Error::Denied { .. }) => token.is_over(self.around.clock.elapsed()),
            Err(_) => false,
        }
    }

    /// Drops `token`, found dead, unless another has taken its place already.
    pub(crate) async fn forget(&self, token: &Token) {
        let mut held = self.session.turn().await;
        let same = |held: &Token| held.secret == token.secret;
        if held.token.as_ref().is_some_and(same) {
            self.session.drop_token(&mut held);
            if token.is_static {
                held.dead = Some(token.secret.clone());
            }
        }
    }

    /// A call about the token, with the token.
    pub(crate) async fn about_itself(&self, call: &Call, token: &Token) -> Result<Answer, Error> {
        self.own(call, Some(&token.secret)).await
    }

    /// Renews the token in use, due or not.
    pub(crate) async fn renew_now(&self) -> Result<(), Error> {
        let mut held = self.session.turn().await;
        let Some(token) = held.token.clone() else {
            return Ok(()); // whoever calls next gets a fresh one
        };
        let renewed = self.renewed(token).await?;
        self.session.hold(&mut held, renewed);
        Ok(())
    }

    /// Revokes the token in use, whosever it is.
    pub(crate) async fn revoke_now(&self) -> Result<(), Error> {
        let mut held = self.session.turn().await;
        let Some(token) = held.token.clone() else {
            return Ok(());
        };
        self.own(&revoke_self()?, Some(&token.secret)).await?;
        self.session.drop_token(&mut held);
        if token.is_static {
            held.dead = Some(token.secret);
        }
        Ok(())
    }

    /// Ends the session: takes no new token, and revokes a login's within a few seconds. A login
    /// that is under way for longer gives its token back itself.
    pub(crate) async fn close(&self, fate: Fate) -> Result<(), Error> {
        self.session.doom(fate);
        let closed = async {
            let token = {
                let mut held = self.session.turn().await;
                self.session.drop_token(&mut held)
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

    /// Revokes a login's token. A static one is not ours; a batch token, which has no accessor,
    /// cannot be revoked.
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
