//! One token for all callers: when it is reused, renewed or replaced.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::RwLock;
use tokio::sync::{Mutex, MutexGuard};

use crate::token::Granted;
use crate::{Error, Renewal, Secret};

/// A description of the token in use, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionView {
    /// The login method.
    pub method: &'static str,
    /// The token's accessor, which is no secret; empty for batch tokens.
    pub accessor: String,
    /// When the token expires; never, if `None`.
    pub expires: Option<Timestamp>,
    /// When we logged in with it, or first used it if it is static.
    pub since: Timestamp,
    /// When it was last renewed.
    pub renewed: Option<Timestamp>,
    /// How often it was renewed.
    pub renewals: u32,
    /// Whether it can be renewed.
    pub renewable: bool,
}

/// A token and its TTL.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) secret: Secret,
    pub(crate) is_static: bool,
    /// The TTL it was first given; `None` is unlimited.
    pub(crate) life: Option<Duration>,
    /// The TTL it was last given.
    pub(crate) left: Option<Duration>,
    /// The clock when that was requested.
    pub(crate) at: Duration,
    pub(crate) view: SessionView,
}

/// What to do before the next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Upkeep {
    /// Use it.
    Reuse,
    /// Renew it, then use it.
    Renew,
    /// Get another.
    Login,
}

impl Token {
    /// A new token; requested at clock time `at` and wall time `now`.
    pub(crate) fn new(
        granted: Granted,
        method: &'static str,
        at: Duration,
        now: Timestamp,
    ) -> Self {
        let life = granted.life();
        Self {
            is_static: method == "token",
            life,
            left: life,
            at,
            view: SessionView {
                method,
                accessor: granted.accessor,
                expires: ends(now, life),
                since: now,
                renewed: None,
                renewals: 0,
                renewable: granted.renewable,
            },
            secret: granted.secret,
        }
    }

    /// The same token with the TTL of a renewal.
    pub(crate) fn renewed(mut self, granted: &Granted, at: Duration, now: Timestamp) -> Self {
        self.left = granted.life();
        self.at = at;
        self.view.expires = ends(now, self.left);
        self.view.renewed = Some(now);
        self.view.renewals += 1;
        // Otherwise a static token near its maximum TTL would be renewed at every call.
        self.view.renewable = granted.renewable && !(self.is_static && self.is_short(at));
        self
    }

    /// Whether it has expired by our clock.
    pub(crate) fn is_over(&self, now: Duration) -> bool {
        self.remaining(now).is_some_and(|left| left.is_zero())
    }

    /// Whether at most a quarter of its first TTL is left.
    pub(crate) fn is_short(&self, now: Duration) -> bool {
        match (self.remaining(now), self.life) {
            (Some(left), Some(life)) => left <= life / 4,
            _ => false,
        }
    }

    /// | left        | renewable | renewal | upkeep                                     |
    /// |-------------|-----------|---------|--------------------------------------------|
    /// | over 25 %   | any       | any     | reuse                                      |
    /// | none        | any       | any     | log in                                     |
    /// | up to 25 %  | yes       | renew   | renew                                      |
    /// | up to 25 %  | no        | any     | log in; a static token is used to its end  |
    /// | up to 25 %  | yes       | reauth  | log in; a static token is renewed          |
    pub(crate) fn upkeep(&self, now: Duration, renewal: Renewal) -> Upkeep {
        if !self.is_short(now) {
            return Upkeep::Reuse;
        }
        if self.is_over(now) {
            return Upkeep::Login;
        }
        match (self.view.renewable, renewal, self.is_static) {
            (true, Renewal::Renew, _) | (true, Renewal::Reauth, true) => Upkeep::Renew,
            (false, _, true) => Upkeep::Reuse,
            (false, _, false) | (true, Renewal::Reauth, false) => Upkeep::Login,
        }
    }

    fn remaining(&self, now: Duration) -> Option<Duration> {
        let passed = now.saturating_sub(self.at);
        self.left.map(|left| left.saturating_sub(passed))
    }
}

fn ends(now: Timestamp, life: Option<Duration>) -> Option<Timestamp> {
    life.map(|life| now.checked_add(life).unwrap_or(Timestamp::MAX))
}

/// Whether a session is still in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Fate {
    /// It is in use.
    #[default]
    Open,
    /// Another session replaced it.
    Replaced,
    /// The client was ended.
    Ended,
}

/// The token of one connection, and the lock for changing it.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Outside the lock: ending a session does not wait for a login in flight.
    fate: RwLock<Fate>,
    state: Mutex<SessionState>,
    /// Finished logins and renewals, successful or not.
    attempts: AtomicU64,
    view: RwLock<Option<SessionView>>,
}

/// What only one caller at a time may read and change.
#[derive(Debug, Default)]
pub(crate) struct SessionState {
    pub(crate) token: Option<Token>,
    /// The error of the last attempt.
    pub(crate) failed: Option<Error>,
    /// A static token that Vault no longer accepts: the user must provide another one.
    pub(crate) dead: Option<Secret>,
}

impl Session {
    /// Waits for the lock.
    pub(crate) async fn lock(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().await
    }

    /// How many logins and renewals have ended so far, successfully or not.
    pub(crate) fn attempts(&self) -> u64 {
        self.attempts.load(Ordering::Acquire)
    }

    pub(crate) fn fate(&self) -> Fate {
        *self.fate.read()
    }

    pub(crate) fn set_fate(&self, fate: Fate) {
        *self.fate.write() = fate;
    }

    /// Stores the result of an attempt.
    pub(crate) fn ended(&self, state: &mut SessionState, outcome: Result<Token, Error>) {
        match outcome {
            Ok(token) => self.store_token(state, token),
            Err(error) => {
                state.failed = Some(error);
                self.drop_token(state);
            }
        }
        self.attempts.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn store_token(&self, state: &mut SessionState, token: Token) {
        *self.view.write() = Some(token.view.clone());
        state.token = Some(token);
        state.failed = None;
    }

    pub(crate) fn drop_token(&self, state: &mut SessionState) -> Option<Token> {
        *self.view.write() = None;
        state.token.take()
    }

    pub(crate) fn view(&self) -> Option<SessionView> {
        self.view.read().clone()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const LIFE: Duration = Duration::from_secs(100);

    fn granted(seconds: u64, renewable: bool) -> Granted {
        Granted {
            secret: Secret::from("hvs.x".to_owned()),
            accessor: "a".to_owned(),
            seconds,
            renewable,
        }
    }

    fn token(method: &'static str, seconds: u64, renewable: bool) -> Token {
        Token::new(
            granted(seconds, renewable),
            method,
            Duration::ZERO,
            Timestamp::UNIX_EPOCH,
        )
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[rstest] //             method        passed renewable renewal          so
    #[case::young("kubernetes", 74, true, Renewal::Renew, Upkeep::Reuse)]
    #[case::a_quarter_left("kubernetes", 75, true, Renewal::Renew, Upkeep::Renew)]
    #[case::young_reauth("kubernetes", 74, true, Renewal::Reauth, Upkeep::Reuse)]
    #[case::reauth("kubernetes", 75, true, Renewal::Reauth, Upkeep::Login)]
    #[case::not_renewable("kubernetes", 75, false, Renewal::Renew, Upkeep::Login)]
    #[case::over("kubernetes", 100, true, Renewal::Renew, Upkeep::Login)]
    #[case::static_renewable("token", 75, true, Renewal::Renew, Upkeep::Renew)]
    #[case::static_is_used_to_its_end("token", 99, false, Renewal::Renew, Upkeep::Reuse)]
    #[case::static_over("token", 100, false, Renewal::Renew, Upkeep::Login)]
    fn upkeep(
        #[case] method: &'static str,
        #[case] passed: u64,
        #[case] renewable: bool,
        #[case] renewal: Renewal,
        #[case] so: Upkeep,
    ) {
        let token = token(method, LIFE.as_secs(), renewable);
        assert_eq!(token.upkeep(at(passed), renewal), so);
    }

    #[test]
    fn a_token_without_a_ttl_is_never_renewed() {
        let root = token("token", 0, false);
        assert_eq!(root.upkeep(Duration::MAX, Renewal::Renew), Upkeep::Reuse);
        assert_eq!(root.view.expires, None);
    }

    #[test]
    fn a_renewal_is_counted_and_compared_with_the_first_ttl() {
        let token = token("kubernetes", 100, true);
        let token = token.renewed(&granted(24, true), at(80), Timestamp::UNIX_EPOCH);
        assert_eq!(token.view.renewals, 1);
        assert!(token.is_short(at(80)));
        let token = token.renewed(&granted(26, true), at(80), Timestamp::UNIX_EPOCH);
        assert!(!token.is_short(at(80)));
        assert!(token.is_short(at(81)));
    }

    #[test]
    fn a_static_token_at_its_limit_is_not_renewed_at_every_call() {
        let token = token("token", 100, true);
        let token = token.renewed(&granted(10, true), at(80), Timestamp::UNIX_EPOCH);
        assert_eq!(token.upkeep(at(80), Renewal::Renew), Upkeep::Reuse);
        assert_eq!(token.upkeep(at(90), Renewal::Renew), Upkeep::Login);
    }
}
