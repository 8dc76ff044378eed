//! The client that callers hold.

use std::fmt;
use std::sync::Arc;

use kernel::{Guard, SharedClock};
use parking_lot::RwLock;

use crate::call::Call;
use crate::connection::{Around, Connection};
use crate::session::{Fate, Token};
use crate::transport::Answer;
use crate::{Config, Error, Observer, SessionView};

/// What a client needs besides its configuration.
pub struct Parts {
    /// Real time, whatever the tests do: tokens and rates live in Vault's time.
    pub clock: SharedClock,
    /// All asked before each write.
    pub guards: Vec<Guard>,
    /// Told of each call.
    pub observer: Arc<dyn Observer>,
}

/// A connection to Vault. A clone is the same connection: one token, one limit, one breaker.
///
/// A call logs in when there is no token, keeps the token up when it is due, waits for its turn,
/// and answers. A 403 makes it look whether the token still lives; a dead one is replaced once and
/// the call repeated once.
///
/// # When not to use it
/// For two sets of credentials at once, such as a test login beside the one in use: make another.
#[derive(Clone)]
pub struct Client {
    around: Arc<Around>,
    current: Arc<RwLock<Arc<Connection>>>,
    /// Instead of the configured one.
    namespace: Option<Arc<str>>,
}

impl Client {
    /// A client; nothing is asked yet.
    ///
    /// # Errors
    /// [`Error::Settings`] when address or certificates cannot be used.
    pub fn new(config: Config, parts: Parts) -> Result<Self, Error> {
        let Parts {
            clock,
            guards,
            observer,
        } = parts;
        let around = Arc::new(Around {
            clock,
            guards,
            observer,
        });
        let connection = Connection::new(config, Arc::clone(&around))?;
        Ok(Self {
            around,
            current: Arc::new(RwLock::new(Arc::new(connection))),
            namespace: None,
        })
    }

    /// The same connection with calls in the namespace `path`, given from the root.
    ///
    /// Login and token stay where they are.
    #[must_use]
    pub fn in_namespace(&self, path: &str) -> Self {
        Self {
            namespace: Some(path.into()),
            ..self.clone()
        }
    }

    /// Takes a new configuration, for all clones, if its fingerprint differs; says whether it did.
    ///
    /// The next call logs in anew. A token of the old login is revoked; if that fails it is logged,
    /// and the token ends by itself.
    pub async fn configure(&self, config: Config) -> Result<bool, Error> {
        if self.connection().fingerprint == config.fingerprint {
            return Ok(false);
        }
        let fresh = Arc::new(Connection::new(config, Arc::clone(&self.around))?);
        let old = std::mem::replace(&mut *self.current.write(), fresh);
        if let Err(error) = old.close(Fate::Replaced).await {
            tracing::warn!(address = old.address(), %error, "the old token was not revoked");
        }
        Ok(true)
    }

    /// The fingerprint of the configuration in use.
    pub fn fingerprint(&self) -> String {
        self.connection().fingerprint.clone()
    }

    /// Logs in if there is no token, renews it if that is due, and tells about it.
    pub async fn login(&self) -> Result<SessionView, Error> {
        Ok(self.token().await?.1.view)
    }

    /// What may be told about the token in use; `None` before the first login.
    pub fn session(&self) -> Option<SessionView> {
        self.connection().view()
    }

    /// Ends the client and all its clones, and revokes the token of its login, within 5 s and also
    /// when the lease is lost. A static token is left alone.
    ///
    /// # Errors
    /// When the token could not be revoked; it ends by itself.
    pub async fn end(&self) -> Result<(), Error> {
        self.connection().close(Fate::Ended).await
    }

    /// One call with the token.
    pub(crate) async fn call(&self, call: &Call) -> Result<Answer, Error> {
        let mut again = false;
        loop {
            let connection = self.connection();
            let since = connection.attempts();
            // The token comes after the wait: by then the one of before may have been replaced.
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

    /// One call about the token; a dead one is replaced once.
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
            // None: replaced while we waited, and the new one is in place already.
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
    struct Seen(Mutex<Vec<(&'static str, &'static str)>>);

    impl Observer for Seen {
        fn called(&self, operation: &'static str, status: &'static str) {
            self.0.lock().push((operation, status));
        }

        fn logged_in(&self) {}
    }

    /// A client of a Vault that answers by `rules`, logged in with a token that lives for ever.
    async fn client(
        guard: Guard,
        rules: impl IntoIterator<Item = Rule>,
    ) -> (Client, Arc<Seen>, FaultProxy) {
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
        let seen = Arc::new(Seen::default());
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
    async fn a_denial_stands_though_the_look_up_after_it(#[case] lookup: Rule) {
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
    async fn a_call_that_we_refuse_ourselves_is_not_counted() {
        let (client, seen, vault) = client(Guard::held(), []).await;
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
