//! One token for all callers: when it is used on, renewed or replaced.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::RwLock;
use tokio::sync::{Mutex, MutexGuard};

use crate::token::Granted;
use crate::{Error, Renewal, Secret};

/// What may be told about the token in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionView {
    /// The login method.
    pub method: &'static str,
    /// Names the token without being it; empty for batch tokens.
    pub accessor: String,
    /// When the token ends; never, if `None`.
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

/// A token and what we know of it.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) secret: Secret,
    pub(crate) is_static: bool,
    /// The life it was first given; `None` is for ever.
    pub(crate) life: Option<Duration>,
    /// The life it was last given.
    pub(crate) left: Option<Duration>,
    /// The clock when that was asked for.
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
    /// A token just granted; asked for when the clock showed `at` and the wall `now`.
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

    /// The same token with the life that a renewal gave it.
    pub(crate) fn renewed(mut self, granted: &Granted, at: Duration, now: Timestamp) -> Self {
        self.left = granted.life();
        self.at = at;
        self.view.expires = ends(now, self.left);
        self.view.renewed = Some(now);
        self.view.renewals += 1;
        // A static token at the end of its days would be renewed at every call.
        self.view.renewable = granted.renewable && !(self.is_static && self.is_short(at));
        self
    }

    /// Whether its life is over by our clock.
    pub(crate) fn is_over(&self, now: Duration) -> bool {
        self.remaining(now).is_some_and(|left| left.is_zero())
    }

    /// Whether a quarter of its first life is left, or less.
    pub(crate) fn is_short(&self, now: Duration) -> bool {
        match (self.remaining(now), self.life) {
            (Some(left), Some(life)) => left <= life / 4,
            _ => false,
        }
    }

    /// | left        | renewable | renewal | so                                         |
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

/// Whether a session goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Fate {
    /// It does.
    #[default]
    Open,
    /// Another took its place.
    Replaced,
    /// The client was ended.
    Ended,
}

/// The token of one connection, and the turn to change it.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Beside the turn: who ends a session does not wait for a login under way.
    fate: RwLock<Fate>,
    held: Mutex<Held>,
    /// Logins and renewals that ended, well or not.
    attempts: AtomicU64,
    view: RwLock<Option<SessionView>>,
}

/// What only one caller at a time may look at and change.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) token: Option<Token>,
    /// How the last attempt failed.
    pub(crate) failed: Option<Error>,
    /// A static token that Vault no longer takes: only another one helps.
    pub(crate) dead: Option<Secret>,
}

impl Session {
    /// Takes the turn.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, Held> {
        self.held.lock().await
    }

    /// How many logins and renewals have ended by now, well or not.
    pub(crate) fn attempts(&self) -> u64 {
        self.attempts.load(Ordering::Acquire)
    }

    pub(crate) fn fate(&self) -> Fate {
        *self.fate.read()
    }

    pub(crate) fn doom(&self, fate: Fate) {
        *self.fate.write() = fate;
    }

    /// Notes how an attempt ended.
    pub(crate) fn ended(&self, held: &mut Held, outcome: Result<Token, Error>) {
        match outcome {
            Ok(token) => self.hold(held, token),
            Err(error) => {
                held.failed = Some(error);
                self.drop_token(held);
            }
        }
        self.attempts.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn hold(&self, held: &mut Held, token: Token) {
        *self.view.write() = Some(token.view.clone());
        held.token = Some(token);
        held.failed = None;
    }

    pub(crate) fn drop_token(&self, held: &mut Held) -> Option<Token> {
        *self.view.write() = None;
        held.token.take()
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
    fn a_token_without_an_end_is_never_kept_up() {
        let root = token("token", 0, false);
        assert_eq!(root.upkeep(Duration::MAX, Renewal::Renew), Upkeep::Reuse);
        assert_eq!(root.view.expires, None);
    }

    #[test]
    fn a_renewal_counts_and_is_measured_by_the_first_life() {
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
