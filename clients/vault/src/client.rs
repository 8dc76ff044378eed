//! The client.

use std::fmt;
use std::sync::Arc;

use kernel::{Guard, SharedClock};
use parking_lot::RwLock;

use crate::call::Call;
use crate::connection::{Connection, Shared};
use crate::session::{Fate, Token};
use crate::transport::Answer;
use crate::{Config, Error, Observer, SessionView};

/// What a client needs besides its configuration.
pub struct Parts {
    /// Real time, also in tests: tokens and rates follow Vault's time.
    pub clock: SharedClock,
    /// All are checked before each write.
    pub guards: Vec<Guard>,
    /// Notified of each call.
    pub observer: Arc<dyn Observer>,
}

/// A connection to Vault. A clone is the same connection: one token, one limit, one breaker.
///
/// A call logs in if there is no token, renews the token if that is due, waits for a permit, and
/// sends the request. After a 403 it checks whether the token is still valid; an invalid one is
/// replaced once and the call is repeated once.
///
/// # When not to use it
/// For two sets of credentials at once, such as a test login beside the one in use: create another.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    current: Arc<RwLock<Arc<Connection>>>,
    /// Used instead of the configured one.
    namespace: Option<Arc<str>>,
}

impl Client {
    /// A client; makes no call yet.
    ///
    /// # Errors
    /// [`Error::Settings`] if the address or the certificates cannot be used.
    pub fn new(config: Config, parts: Parts) -> Result<Self, Error> {
        let Parts {
            clock,
            guards,
            observer,
        } = parts;
        let shared = Arc::new(Shared {
            clock,
            guards,
            observer,
        });
        let connection = Connection::new(config, Arc::clone(&shared))?;
        Ok(Self {
            shared,
            current: Arc::new(RwLock::new(Arc::new(connection))),
            namespace: None,
        })
    }

    /// The same connection with calls in the namespace `path`, given from the root.
    ///
    /// Login and token stay in their own namespace.
    #[must_use]
    pub fn in_namespace(&self, path: &str) -> Self {
        Self {
            namespace: Some(path.into()),
            ..self.clone()
        }
    }

    /// Uses a new configuration in all clones if its fingerprint differs; returns whether it did.
    ///
    /// The next call logs in again. A token of the old login is revoked; if that fails, it is logged
    /// and the token expires.
    pub async fn configure(&self, config: Config) -> Result<bool, Error> {
        if self.connection().fingerprint == config.fingerprint {
            return Ok(false);
        }
        let fresh = Arc::new(Connection::new(config, Arc::clone(&self.shared))?);
        let old = std::mem::replace(&mut *self.current.write(), fresh);
        if let Err(error) = old.close(Fate::Replaced).await {
            tracing::warn!(address = old.address(), %error, "cannot revoke the old token; it expires by itself");
        }
        Ok(true)
    }

    /// The fingerprint of the configuration in use.
    pub fn fingerprint(&self) -> String {
        self.connection().fingerprint.clone()
    }

    /// Logs in if there is no token, renews it if that is due, and returns its description.
    pub async fn login(&self) -> Result<SessionView, Error> {
        Ok(self.token().await?.1.view)
    }

    /// A description of the token in use; `None` before the first login.
    pub fn session(&self) -> Option<SessionView> {
        self.connection().view()
    }

    /// Ends the client and all its clones, and revokes the token of its login within 5 s, also
    /// without the lease. A static token is not revoked.
    ///
    /// # Errors
    /// If the token could not be revoked; it expires by itself.
    pub async fn end(&self) -> Result<(), Error> {
        self.connection().close(Fate::Ended).await
    }

    /// One call with the token.
    pub(crate) async fn call(&self, call: &Call) -> Result<Answer, Error> {
        let mut again = false;
        loop {
            let connection = self.connection();
            let since = connection.attempts();
            // Get the token after the wait, because it may have been replaced meanwhile.
            let _slot = connection.enter(call).await?;
            let Some(token) = connection.token(since).await? else {
                continue;
            };
            let namespace = self
                .namespace
                .as_deref()
                .or(connection.settings.vault_namespace.as_deref());
            match connection.made(call, &token, namespace).await {
                Err(Error::Denied { .. }) if !again && connection.is_dead(&token).await => {
                    connection.forget(&token).await;
                    again = true;
                }
                answer => return answer,
            }
        }
    }

    /// One call about the token; an invalid token is replaced once.
    pub(crate) async fn own_call(&self, call: &Call) -> Result<Answer, Error> {
        let mut again = false;
        loop {
            let (connection, token) = self.token().await?;
            match connection.about_itself(call, &token).await {
                Err(error) if !again && crate::token::says_dead(&error) => {
                    connection.forget(&token).await;
                    again = true;
                }
                answer => return answer,
            }
        }
    }

    pub(crate) async fn renew_now(&self) -> Result<(), Error> {
        self.connection().renew_now().await
    }

    pub(crate) async fn revoke_now(&self) -> Result<(), Error> {
        self.connection().revoke_now().await
    }

    pub(crate) fn connection(&self) -> Arc<Connection> {
        Arc::clone(&self.current.read())
    }

    /// A token, and the configuration it belongs to.
    async fn token(&self) -> Result<(Arc<Connection>, Token), Error> {
        loop {
            let connection = self.connection();
            let since = connection.attempts();
            // None: the configuration was replaced while we waited; use the new one.
            if let Some(token) = connection.token(since).await? {
                return Ok((connection, token));
            }
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("address", &self.connection().address())
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::{Method, StatusCode};
    use kernel::{Class, RealClock};
    use parking_lot::Mutex;
    use rstest::rstest;
    use testkit::fault_proxy::{FaultProxy, Listen, Rule, Upstream};

    use super::*;
    use crate::{Login, Renewal, Secret, Settings, Source};

    const LOOKUP: &str = "/v1/auth/token/lookup-self";
    const POLICY: &str = "/v1/sys/policies/acl/p";

    /// How each call ended, as the client reports it.
    #[derive(Default)]
    struct ReportedCalls(Mutex<Vec<(&'static str, &'static str)>>);

    impl Observer for ReportedCalls {
        fn called(&self, operation: &'static str, status: &'static str) {
            self.0.lock().push((operation, status));
        }

        fn logged_in(&self) {}
    }

    /// A client of a Vault that answers by `rules`, logged in with a token that does not expire.
    async fn client(
        guard: Guard,
        rules: impl IntoIterator<Item = Rule>,
    ) -> (Client, Arc<ReportedCalls>, FaultProxy) {
        testkit::install_crypto();
        let nobody = Upstream {
            url: "http://127.0.0.1:9".to_owned(),
            ca_pem: None,
        };
        let vault = FaultProxy::start(nobody, Listen::Http).await.unwrap();
        let alive = r#"{"data": {"ttl": 0}}"#;
        vault.rule(
            Rule::on(Method::GET, LOOKUP)
                .times(1)
                .status(StatusCode::OK, alive),
        );
        for rule in rules {
            vault.rule(rule);
        }
        let config = Config {
            fingerprint: String::new(),
            settings: Settings::new(vault.url()),
            login: Login::Token {
                token: Source::given(Secret::new("t".to_owned())),
            },
            renewal: Renewal::Renew,
        };
        let seen = Arc::new(ReportedCalls::default());
        let parts = Parts {
            clock: Arc::new(RealClock::new()),
            guards: vec![guard],
            observer: seen.clone(),
        };
        let client = Client::new(config, parts).unwrap();
        client.login().await.unwrap();
        seen.0.lock().clear();
        (client, seen, vault)
    }

    #[rstest]
    #[case::is_reset(Rule::on(Method::GET, LOOKUP).reset())]
    #[case::fails(Rule::on(Method::GET, LOOKUP).status(StatusCode::BAD_GATEWAY, ""))]
    #[tokio::test]
    async fn a_denial_is_returned_though_the_lookup_fails(#[case] lookup: Rule) {
        let denied = Rule::on(Method::PUT, POLICY).status(StatusCode::FORBIDDEN, "");
        let (client, _, _vault) = client(Guard::always(), [lookup, denied]).await;
        let error = client.write_policy("p", "").await.unwrap_err();
        assert_eq!(error.class(), Class::Denied, "{error}");
    }

    #[rstest]
    #[case::an_answer(Method::GET, StatusCode::OK, "success")]
    #[case::nothing_is_there(Method::GET, StatusCode::NOT_FOUND, "success")]
    #[case::nothing_is_left_to_delete(Method::DELETE, StatusCode::NOT_FOUND, "success")]
    #[case::nothing_to_write_into(Method::PUT, StatusCode::NOT_FOUND, "failure")]
    #[case::wrong(Method::PUT, StatusCode::BAD_REQUEST, "failure")]
    #[case::broken(Method::GET, StatusCode::BAD_GATEWAY, "failure")]
    #[tokio::test]
    async fn a_call_is_a_success_or_a_failure(
        #[case] method: Method,
        #[case] status: StatusCode,
        #[case] expected: &str,
    ) {
        let body = r#"{"data": {"policy": ""}}"#;
        let rule = Rule::on(method.clone(), POLICY).status(status, body);
        let (client, seen, _vault) = client(Guard::always(), [rule]).await;
        match method {
            Method::GET => drop(client.read_policy("p").await),
            Method::PUT => drop(client.write_policy("p", "").await),
            _ => drop(client.delete_policy("p").await),
        }
        let seen: Vec<_> = seen.0.lock().iter().map(|(_, status)| *status).collect();
        assert_eq!(seen, [expected]);
    }

    #[tokio::test]
    async fn a_call_that_a_guard_refuses_is_not_counted() {
        let (client, seen, vault) = client(Guard::closed(), []).await;
        let error = client.write_policy("p", "").await.unwrap_err();
        assert_eq!(error.class(), Class::Deposed);
        assert_eq!(vault.count(Method::PUT, POLICY), 0);
        assert!(seen.0.lock().is_empty());
    }

    #[test]
    fn a_call_can_be_made_on_any_thread() {
        fn moves<T: Send>(_call: fn(&'static Client) -> T) {}
        moves(|client| client.read_policy("p"));
        moves(Client::health);
        moves(Client::login);
        moves(Client::end);
    }
}
