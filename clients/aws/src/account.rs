//! Who we are in AWS, and calls made as that.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::identity::IdentityCache;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use aws_types::region::Region;
use kernel::{Clock as _, Guard, RealClock, SharedClock, write_timeout};
use parking_lot::Mutex;
use tokio::sync::Mutex as Alone;

use crate::acm::Acm;
use crate::call::Call;
use crate::cloudfront::CloudFront;
use crate::dynamodb::DynamoDb;
use crate::keyring::Keyring;
use crate::route53::Route53;
use crate::sts::{self, Sts};
use crate::turn::{Lanes, Turns};
use crate::{Asker, Error, Fault, Later, Observer, Operation, Role, Ticket, connector};

/// The one home of services that have no region.
pub(crate) const GLOBAL: Region = Region::from_static("us-east-1");
/// Our own account's name while STS does not tell its number.
const OWN: &str = "own";
/// STS is asked for it again after this long.
const AGAIN: Duration = Duration::from_mins(1);

/// What all accounts share.
pub(crate) struct Around {
    pub(crate) sdk: SdkConfig,
    pub(crate) clock: SharedClock,
    /// Calls are measured in real time, whatever the tests do.
    pub(crate) stopwatch: RealClock,
    pub(crate) guards: Vec<Guard>,
    /// How long a call may take.
    pub(crate) timeout: Duration,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) lanes: Lanes,
    pub(crate) session_name: String,
}

/// An identity in AWS: our own credentials, or a role assumed with them. A clone is the same one.
///
/// A call waits for its turn, fetches credentials when there are none or they are about to end,
/// and answers. Credentials that AWS does not accept are fetched once more, and the call is
/// repeated once.
///
/// # When not to use it
/// A role's credentials for anything but the zone or table the role was named for.
#[derive(Clone)]
pub struct Account(Arc<Inner>);

struct Inner {
    around: Arc<Around>,
    whose: Whose,
    keyring: Arc<Keyring>,
    sdk: SdkConfig,
    clients: Clients,
}

enum Whose {
    Own(Own),
    Role { role: Arc<Role>, number: Arc<str> },
}

/// The number of our own account, once it is known.
#[derive(Default)]
struct Own {
    number: OnceLock<Arc<str>>,
    /// When STS last did not tell. Its lock is the turn to ask.
    failed: Alone<Option<Duration>>,
}

/// The SDK's clients, each made when it is first needed.
#[derive(Default)]
struct Clients {
    cloudfront: OnceLock<aws_sdk_cloudfront::Client>,
    route53: OnceLock<aws_sdk_route53::Client>,
    acm: OnceLock<aws_sdk_acm::Client>,
    sts: OnceLock<aws_sdk_sts::Client>,
    dynamodb: Mutex<HashMap<String, aws_sdk_dynamodb::Client>>,
}

impl Account {
    pub(crate) fn own(around: Arc<Around>, keyring: Keyring) -> Self {
        Self::new(around, Whose::Own(Own::default()), keyring)
    }

    pub(crate) fn of_role(around: Arc<Around>, role: Arc<Role>, keyring: Keyring) -> Self {
        let number = role.account().into();
        Self::new(around, Whose::Role { role, number }, keyring)
    }

    fn new(around: Arc<Around>, whose: Whose, keyring: Keyring) -> Self {
        let keyring = Arc::new(keyring);
        let provider: Arc<dyn ProvideCredentials> = keyring.clone();
        // The keyring keeps the keys: a second cache would hold on to refused ones.
        let sdk = around
            .sdk
            .to_builder()
            .credentials_provider(SharedCredentialsProvider::from(provider))
            .identity_cache(IdentityCache::no_cache())
            .build();
        Self(Arc::new(Inner {
            around,
            whose,
            keyring,
            sdk,
            clients: Clients::default(),
        }))
    }

    /// CloudFront, asked by `asker`.
    pub fn cloudfront(&self, asker: &Asker) -> CloudFront {
        CloudFront::new(self.clone(), asker.clone())
    }

    /// Route 53, asked by `asker`.
    pub fn route53(&self, asker: &Asker) -> Route53 {
        Route53::new(self.clone(), asker.clone())
    }

    /// Certificate Manager in us-east-1, where CloudFront's certificates are, asked by `asker`.
    pub fn acm(&self, asker: &Asker) -> Acm {
        Acm::new(self.clone(), asker.clone())
    }

    /// STS, asked by `asker`.
    pub fn sts(&self, asker: &Asker) -> Sts {
        Sts::new(self.clone(), asker.clone())
    }

    /// DynamoDB in `region`, asked by `asker`.
    pub fn dynamodb(&self, asker: &Asker, region: &str) -> DynamoDb {
        DynamoDb::new(self.clone(), asker.clone(), region.to_owned())
    }

    /// Lets `asker` in if it is its turn to make calls of the limit `operation` falls under, without
    /// waiting for that: the asker it gives back holds the turn for its first call, and goes ahead
    /// with its later ones. One that is not used goes back.
    ///
    /// # Errors
    /// [`Later`] when it is not its turn: the ticket waits, and is woken when it is. Ask again then,
    /// within ten seconds, or the turn is the next one's. [`Aws::attend`](crate::Aws::attend) must
    /// be running.
    pub async fn admit(
        &self,
        operation: Operation,
        asker: &Asker,
        ticket: &Ticket,
    ) -> Result<Asker, Later> {
        let turns = self.turns(operation).await;
        let turn = turns.claim(asker, ticket)?;
        Ok(asker.admitted(turn))
    }

    /// One call: `send` makes the request, twice if its credentials are refused the first time.
    pub(crate) async fn call<T, E, F>(
        &self,
        call: &Call<'_>,
        asker: &Asker,
        send: impl Fn() -> F,
    ) -> Result<T, Error>
    where
        E: ProvideErrorMetadata + StdError + 'static,
        F: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    {
        let turns = self.turns(call.operation).await;
        self.tried(call, Some((&turns, asker)), send).await
    }

    /// One call that waits for no turn, if `queue` is `None`.
    async fn tried<T, E, F>(
        &self,
        call: &Call<'_>,
        queue: Option<(&Arc<Turns>, &Asker)>,
        send: impl Fn() -> F,
    ) -> Result<T, Error>
    where
        E: ProvideErrorMetadata + StdError + 'static,
        F: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    {
        let keyring = &self.0.keyring;
        let mut again = false;
        loop {
            let turn = match queue {
                Some((turns, asker)) => Some(turns.take(asker).await),
                None => None,
            };
            // After the wait: by then the keys of before may have been replaced.
            let keys = keyring.fresh().await?;
            let guards = self.guards(call);
            guards.iter().try_for_each(Guard::check)?;
            if let Some(turn) = turn {
                turn.spend();
            }
            let begun = self.0.around.stopwatch.elapsed();
            // Once more when the bytes leave, and no longer than we lead.
            let longest = write_timeout(self.0.around.timeout, guards);
            let sent = tokio::time::timeout(longest, connector::under(guards, send())).await;
            let took = self.0.around.stopwatch.elapsed().saturating_sub(begun);
            let error = match sent {
                Ok(Ok(answer)) => {
                    self.0.around.observer.called(call.operation, took, None);
                    return Ok(answer);
                }
                Ok(Err(error)) => call.failed(&error, Some(&keys)),
                Err(_) => call.silent(format!("timed out after {longest:?}")),
            };
            let class = Some(error.class());
            self.0.around.observer.called(call.operation, took, class);
            let fault = error.fault();
            if fault == Fault::Throttled
                && let Some((turns, _)) = queue
            {
                turns.throttled();
            }
            if fault != Fault::Credentials || again {
                return Err(error);
            }
            keyring.refuse(&keys);
            again = true;
        }
    }

    /// What must be open for `call` to be made.
    fn guards(&self, call: &Call<'_>) -> &[Guard] {
        if call.operation.writes() {
            &self.0.around.guards
        } else {
            &[]
        }
    }

    async fn turns(&self, operation: Operation) -> Arc<Turns> {
        let number = self.number().await;
        self.0.around.lanes.of(&number, operation.lane())
    }

    /// The account's number, for the sake of limits: a role's is in its ARN, our own is asked of
    /// STS once. While STS does not tell, calls go on under a name of their own.
    fn number(&self) -> Pin<Box<dyn Future<Output = Arc<str>> + Send + '_>> {
        Box::pin(async move {
            let own = match &self.0.whose {
                Whose::Role { number, .. } => return Arc::clone(number),
                Whose::Own(own) => own,
            };
            if let Some(number) = own.number.get() {
                return Arc::clone(number);
            }
            let mut failed = own.failed.lock().await;
            if let Some(number) = own.number.get() {
                return Arc::clone(number);
            }
            let now = self.0.around.clock.elapsed();
            if failed.is_some_and(|failed| now.saturating_sub(failed) < AGAIN) {
                return OWN.into();
            }
            let call = Call::new(Operation::GetCallerIdentity, "");
            let send = || self.sts_client().get_caller_identity().send();
            let told = self.tried(&call, None, send).await;
            match told.and_then(|answer| sts::identity(&call, answer)) {
                Ok(identity) => {
                    let number = Arc::<str>::from(identity.account);
                    Arc::clone(own.number.get_or_init(|| number))
                }
                Err(error) => {
                    tracing::warn!(%error, "our AWS account's number is not known");
                    *failed = Some(now);
                    OWN.into()
                }
            }
        })
    }

    pub(crate) fn is_live(&self) -> bool {
        self.0.keyring.is_live()
    }

    pub(crate) fn session_name(&self) -> &str {
        &self.0.around.session_name
    }

    pub(crate) fn cloudfront_client(&self) -> &aws_sdk_cloudfront::Client {
        self.0.clients.cloudfront.get_or_init(|| {
            let config = aws_sdk_cloudfront::config::Builder::from(&self.0.sdk).region(GLOBAL);
            aws_sdk_cloudfront::Client::from_conf(config.build())
        })
    }

    pub(crate) fn route53_client(&self) -> &aws_sdk_route53::Client {
        self.0.clients.route53.get_or_init(|| {
            let config = aws_sdk_route53::config::Builder::from(&self.0.sdk).region(GLOBAL);
            aws_sdk_route53::Client::from_conf(config.build())
        })
    }

    pub(crate) fn acm_client(&self) -> &aws_sdk_acm::Client {
        self.0.clients.acm.get_or_init(|| {
            let config = aws_sdk_acm::config::Builder::from(&self.0.sdk).region(GLOBAL);
            aws_sdk_acm::Client::from_conf(config.build())
        })
    }

    pub(crate) fn sts_client(&self) -> &aws_sdk_sts::Client {
        let clients = &self.0.clients;
        clients
            .sts
            .get_or_init(|| aws_sdk_sts::Client::new(&self.0.sdk))
    }

    pub(crate) fn dynamodb_client(&self, region: &str) -> aws_sdk_dynamodb::Client {
        let mut clients = self.0.clients.dynamodb.lock();
        let made = || {
            let home = Region::new(region.to_owned());
            let config = aws_sdk_dynamodb::config::Builder::from(&self.0.sdk).region(home);
            aws_sdk_dynamodb::Client::from_conf(config.build())
        };
        let client = clients.entry(region.to_owned()).or_insert_with(made);
        client.clone()
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Account");
        match &self.0.whose {
            Whose::Own(own) => shown.field("own", &own.number.get()),
            Whose::Role { role, .. } => shown.field("role", &role.arn()),
        };
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloudfront::TenantBody;

    #[test]
    fn a_call_can_be_made_on_any_thread() {
        fn moves<T: Send>(_call: fn(&'static CloudFront, &'static TenantBody) -> T) {}
        fn admits<T: Send>(_call: fn(&'static Account, &'static Asker, &'static Ticket) -> T) {}
        moves(|cloudfront, body| cloudfront.update_tenant("id", "etag", body));
        moves(|cloudfront, _| cloudfront.tags("arn"));
        admits(|account, asker, ticket| account.admit(Operation::Scan, asker, ticket));
    }
}
