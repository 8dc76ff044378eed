//! An identity in AWS, and the calls made with it.

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
use tokio::sync::Mutex as AsyncMutex;

use crate::acm::Acm;
use crate::call::Call;
use crate::cloudfront::CloudFront;
use crate::dynamodb::DynamoDb;
use crate::keyring::Keyring;
use crate::limiter::{Limiter, Limiters};
use crate::route53::Route53;
use crate::sts::{self, Sts};
use crate::{Caller, Error, Fault, Later, Observer, Operation, Role, Ticket, connector};

/// The region of services that have only one.
pub(crate) const GLOBAL: Region = Region::from_static("us-east-1");
/// Name of our own account while STS has not returned its number.
const OWN: &str = "own";
/// The number is requested from STS again after this long.
const AGAIN: Duration = Duration::from_mins(1);

/// What all accounts share.
pub(crate) struct Shared {
    pub(crate) sdk: SdkConfig,
    pub(crate) clock: SharedClock,
    /// Calls are measured in real time, also in tests with another clock.
    pub(crate) stopwatch: RealClock,
    pub(crate) guards: Vec<Guard>,
    /// How long a call may take.
    pub(crate) timeout: Duration,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) limiters: Limiters,
    pub(crate) session_name: String,
}

/// An identity in AWS: our own credentials, or a role assumed with them. A clone is the same one.
///
/// A call waits for a permit, fetches credentials if there are none or they expire soon, and
/// sends the request. Credentials that AWS does not accept are fetched once more, and the call is
/// repeated once.
///
/// # When not to use it
/// A role's credentials for anything but the zone or table that names the role.
#[derive(Clone)]
pub struct Account(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    whose: Whose,
    keyring: Arc<Keyring>,
    sdk: SdkConfig,
    clients: Clients,
}

enum Whose {
    Own(Own),
    Role { role: Arc<Role>, number: Arc<str> },
}

/// The number of our own account, once STS has returned it.
#[derive(Default)]
struct Own {
    number: OnceLock<Arc<str>>,
    /// When the request to STS last failed. Only the owner of the lock may send the next one.
    failed: AsyncMutex<Option<Duration>>,
}

/// The SDK's clients, each created on first use.
#[derive(Default)]
struct Clients {
    cloudfront: OnceLock<aws_sdk_cloudfront::Client>,
    route53: OnceLock<aws_sdk_route53::Client>,
    acm: OnceLock<aws_sdk_acm::Client>,
    sts: OnceLock<aws_sdk_sts::Client>,
    dynamodb: Mutex<HashMap<String, aws_sdk_dynamodb::Client>>,
}

impl Account {
    pub(crate) fn own(shared: Arc<Shared>, keyring: Keyring) -> Self {
        Self::new(shared, Whose::Own(Own::default()), keyring)
    }

    pub(crate) fn of_role(shared: Arc<Shared>, role: Arc<Role>, keyring: Keyring) -> Self {
        let number = role.account().into();
        Self::new(shared, Whose::Role { role, number }, keyring)
    }

    fn new(shared: Arc<Shared>, whose: Whose, keyring: Keyring) -> Self {
        let keyring = Arc::new(keyring);
        let provider: Arc<dyn ProvideCredentials> = keyring.clone();
        // The keyring caches the keys: a second cache would still return refused ones.
        let sdk = shared
            .sdk
            .to_builder()
            .credentials_provider(SharedCredentialsProvider::from(provider))
            .identity_cache(IdentityCache::no_cache())
            .build();
        Self(Arc::new(Inner {
            shared,
            whose,
            keyring,
            sdk,
            clients: Clients::default(),
        }))
    }

    /// CloudFront, used by `caller`.
    pub fn cloudfront(&self, caller: &Caller) -> CloudFront {
        CloudFront::new(self.clone(), caller.clone())
    }

    /// Route 53, used by `caller`.
    pub fn route53(&self, caller: &Caller) -> Route53 {
        Route53::new(self.clone(), caller.clone())
    }

    /// Certificate Manager in us-east-1, where CloudFront's certificates are, used by `caller`.
    pub fn acm(&self, caller: &Caller) -> Acm {
        Acm::new(self.clone(), caller.clone())
    }

    /// STS, used by `caller`.
    pub fn sts(&self, caller: &Caller) -> Sts {
        Sts::new(self.clone(), caller.clone())
    }

    /// DynamoDB in `region`, used by `caller`.
    pub fn dynamodb(&self, caller: &Caller, region: &str) -> DynamoDb {
        DynamoDb::new(self.clone(), caller.clone(), region.to_owned())
    }

    /// Admits `caller` if a permit of the limit of `operation` is free, without waiting for one. The
    /// returned caller holds the permit for its first call, and its later calls go ahead of callers
    /// that were not admitted. An unused permit is returned.
    ///
    /// # Errors
    /// [`Later`] if no permit is free: the ticket waits in the queue and is woken when a permit is
    /// ready. Call again within ten seconds, or the next caller gets the permit.
    /// [`Aws::attend`](crate::Aws::attend) must be running.
    pub async fn admit(
        &self,
        operation: Operation,
        caller: &Caller,
        ticket: &Ticket,
    ) -> Result<Caller, Later> {
        let limiter = self.limiter(operation).await;
        let permit = limiter.claim(caller, ticket)?;
        Ok(caller.admitted(permit))
    }

    /// One call: `send` makes the request, twice if AWS refuses its credentials the first time.
    pub(crate) async fn call<T, E, F>(
        &self,
        call: &Call<'_>,
        caller: &Caller,
        send: impl Fn() -> F,
    ) -> Result<T, Error>
    where
        E: ProvideErrorMetadata + StdError + 'static,
        F: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    {
        let limiter = self.limiter(call.operation).await;
        self.tried(call, Some((&limiter, caller)), send).await
    }

    /// One call; it needs no permit if `queue` is `None`.
    async fn tried<T, E, F>(
        &self,
        call: &Call<'_>,
        queue: Option<(&Arc<Limiter>, &Caller)>,
        send: impl Fn() -> F,
    ) -> Result<T, Error>
    where
        E: ProvideErrorMetadata + StdError + 'static,
        F: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    {
        let keyring = &self.0.keyring;
        let mut again = false;
        loop {
            let permit = match queue {
                Some((limiter, caller)) => Some(limiter.take(caller).await),
                None => None,
            };
            // After the wait, because the keys may have been replaced meanwhile.
            let keys = keyring.fresh().await?;
            let guards = self.guards(call);
            guards.iter().try_for_each(Guard::check)?;
            if let Some(permit) = permit {
                permit.spend();
            }
            let begun = self.0.shared.stopwatch.elapsed();
            // The guards are checked again when the bytes leave; the call ends before the lease does.
            let longest = write_timeout(self.0.shared.timeout, guards);
            let sent = tokio::time::timeout(longest, connector::under(guards, send())).await;
            let took = self.0.shared.stopwatch.elapsed().saturating_sub(begun);
            let error = match sent {
                Ok(Ok(answer)) => {
                    self.0.shared.observer.called(call.operation, took, None);
                    return Ok(answer);
                }
                Ok(Err(error)) => call.failed(&error, Some(&keys)),
                Err(_) => call.silent(format!("timed out after {longest:?}")),
            };
            let class = Some(error.class());
            self.0.shared.observer.called(call.operation, took, class);
            let fault = error.fault();
            if fault == Fault::Throttled
                && let Some((limiter, _)) = queue
            {
                limiter.throttled();
            }
            if fault != Fault::Credentials || again {
                return Err(error);
            }
            keyring.refuse(&keys);
            again = true;
        }
    }

    /// The guards that must be open for `call`.
    fn guards(&self, call: &Call<'_>) -> &[Guard] {
        if call.operation.writes() {
            &self.0.shared.guards
        } else {
            &[]
        }
    }

    async fn limiter(&self, operation: Operation) -> Arc<Limiter> {
        let number = self.number().await;
        self.0.shared.limiters.of(&number, operation.limit())
    }

    /// The account's number, which selects the limiter. A role's is in its ARN; our own is read from
    /// STS once. Until STS returns it, calls use the limiter of the name `own`.
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
            let now = self.0.shared.clock.elapsed();
            if failed.is_some_and(|failed| now.saturating_sub(failed) < AGAIN) {
                return OWN.into();
            }
            let call = Call::new(Operation::GetCallerIdentity, "");
            let send = || self.sts_client().get_caller_identity().send();
            let answer = self.tried(&call, None, send).await;
            match answer.and_then(|answer| sts::identity(&call, answer)) {
                Ok(identity) => {
                    let number = Arc::<str>::from(identity.account);
                    Arc::clone(own.number.get_or_init(|| number))
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot read the number of our AWS account from STS");
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
        &self.0.shared.session_name
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
        fn admits<T: Send>(_call: fn(&'static Account, &'static Caller, &'static Ticket) -> T) {}
        moves(|cloudfront, body| cloudfront.update_tenant("id", "etag", body));
        moves(|cloudfront, _| cloudfront.tags("arn"));
        admits(|account, caller, ticket| account.admit(Operation::Scan, caller, ticket));
    }
}
