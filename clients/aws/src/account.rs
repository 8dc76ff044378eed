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
use aws_smithy_runtime_api::client::http::SharedHttpConnector;
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
use crate::ec2::{self, Ec2};
use crate::keyring::Keyring;
use crate::limiter::{Limiter, Limiters};
use crate::operation::ServiceRow;
use crate::route53::Route53;
use crate::sts::{self, Sts};
use crate::wire::{self, Answer, Endpoint, Request, Scope, SignedRequest, Variants};
use crate::{Caller, Error, Fault, Keys, Later, Observer, Operation, Role, Ticket, connector};

/// The region of services that have only one.
pub(crate) const GLOBAL: Region = Region::from_static("us-east-1");
/// Name of our own account while STS has not returned its number.
const OWN: &str = "own";
/// The number is requested from STS again after this long.
const AGAIN: Duration = Duration::from_mins(1);

/// What all accounts and all views of them share.
pub(crate) struct Shared {
    pub(crate) sdk: SdkConfig,
    /// The connections of plain requests; the SDK uses them too.
    pub(crate) connector: SharedHttpConnector,
    pub(crate) clock: SharedClock,
    /// Calls are measured and signed in real time, also in tests with another clock.
    pub(crate) stopwatch: RealClock,
    /// How long a call may take.
    pub(crate) timeout: Duration,
    pub(crate) limiters: Limiters,
    pub(crate) session_name: String,
}

impl Shared {
    /// The region of the process.
    pub(crate) fn region(&self) -> &str {
        let region = self.sdk.region();
        region.expect("the last provider always has one").as_ref()
    }

    /// Where a service answers in this region, or in its usual one.
    pub(crate) fn endpoint(&self, service: &ServiceRow, region: Option<&str>) -> Endpoint {
        let region = region.or(service.region).unwrap_or_else(|| self.region());
        let variants = Variants {
            fips: self.sdk.use_fips().unwrap_or_default(),
            dual_stack: self.sdk.use_dual_stack().unwrap_or_default(),
        };
        let url = wire::configured(&self.sdk, service.id);
        Endpoint::of(service.hosts, region, variants).or_at(url)
    }
}

/// Under which guards one feature writes, and who measures its calls.
pub(crate) struct View {
    pub(crate) guards: Vec<Guard>,
    pub(crate) observer: Arc<dyn Observer>,
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
pub struct Account {
    principal: Arc<Principal>,
    view: Arc<View>,
}

/// Whose credentials an account uses; one for all views.
pub(crate) struct Principal {
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
    dynamodb: Mutex<HashMap<String, aws_sdk_dynamodb::Client>>,
}

impl Principal {
    pub(crate) fn own(shared: Arc<Shared>, keyring: Keyring) -> Arc<Self> {
        Self::new(shared, Whose::Own(Own::default()), keyring)
    }

    pub(crate) fn of_role(shared: Arc<Shared>, role: Arc<Role>, keyring: Keyring) -> Arc<Self> {
        let number = role.account().into();
        Self::new(shared, Whose::Role { role, number }, keyring)
    }

    fn new(shared: Arc<Shared>, whose: Whose, keyring: Keyring) -> Arc<Self> {
        let keyring = Arc::new(keyring);
        let provider: Arc<dyn ProvideCredentials> = keyring.clone();
        // The keyring caches the keys: a second cache would still return refused ones.
        let sdk = shared
            .sdk
            .to_builder()
            .credentials_provider(SharedCredentialsProvider::from(provider))
            .identity_cache(IdentityCache::no_cache())
            .build();
        Arc::new(Self {
            shared,
            whose,
            keyring,
            sdk,
            clients: Clients::default(),
        })
    }

    pub(crate) fn is_live(&self) -> bool {
        self.keyring.is_live()
    }
}

impl Account {
    pub(crate) fn new(principal: Arc<Principal>, view: Arc<View>) -> Self {
        Self { principal, view }
    }

    pub(crate) fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    pub(crate) fn view(&self) -> &Arc<View> {
        &self.view
    }

    fn shared(&self) -> &Shared {
        &self.principal.shared
    }

    /// The keys of this account, fetched if there are none or they expire soon. Concurrent callers
    /// and calls share one fetch.
    ///
    /// # Errors
    /// [`Error::Credentials`] if no source has any, or the error of STS.
    ///
    /// # When not to use it
    /// To call AWS: calls of this crate are signed with the same keys.
    pub async fn credentials(&self) -> Result<Keys, Error> {
        self.principal.keyring.fresh(&self.view).await
    }

    /// The same, but fetched for this call, whatever keys there are: for a service that may refuse
    /// keys that AWS still accepts. Concurrent callers share one fetch.
    ///
    /// # Errors
    /// Those of [`Account::credentials`]. Old keys never replace an error.
    ///
    /// # When not to use it
    /// More often than at a login: each call may be one to STS or to the instance.
    pub async fn fresh_credentials(&self) -> Result<Keys, Error> {
        self.principal.keyring.anew(&self.view).await
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

    /// EC2 in `region`, used by `caller`.
    pub fn ec2(&self, caller: &Caller, region: &str) -> Ec2 {
        Ec2::new(self.clone(), caller.clone(), region.to_owned())
    }

    /// Admits `caller` if a permit of the limit of `operation` is free, without waiting for one. For
    /// a regional service this is the limit in [`Aws::region`](crate::Aws::region). The
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
        let limiter = self.limiter(operation, None).await;
        let permit = limiter.claim(caller, ticket)?;
        Ok(caller.admitted(permit))
    }

    /// Sends a plain request for `caller`; see [`wire`](crate::wire). It is about `resource`, and in
    /// the usual region of the service if it names no other.
    ///
    /// # When not to use it
    /// For an operation whose service module has a function of its own.
    pub async fn send(
        &self,
        operation: Operation,
        resource: &str,
        region: Option<&str>,
        caller: &Caller,
        request: &Request,
    ) -> Result<Answer, Error> {
        let call = Call {
            region,
            ..Call::new(operation, resource)
        };
        self.plain(&call, Some(caller), request).await
    }

    /// One plain call; it needs no permit without a caller.
    pub(crate) async fn plain(
        &self,
        call: &Call<'_>,
        caller: Option<&Caller>,
        request: &Request,
    ) -> Result<Answer, Error> {
        let shared = self.shared();
        let service = call.operation.service().0;
        let endpoint = shared.endpoint(service, call.region);
        let send = |keys: &Keys| {
            let scope = Scope {
                region: &endpoint.region,
                service: service.signing,
                time: shared.stopwatch.now(),
            };
            let signed = wire::sign(request, &endpoint.url, keys, scope);
            let signed = signed.and_then(SignedRequest::http);
            async move {
                match signed {
                    Ok(signed) => wire::exchange(&shared.connector, signed).await,
                    Err(wrong) => Err(SdkError::construction_failure(wrong)),
                }
            }
        };
        let limiter = match caller {
            Some(_) => Some(self.limiter(call.operation, call.region).await),
            None => None,
        };
        let queue = limiter.as_ref().zip(caller);
        let response = self.tried(call, queue, send).await?;
        Ok(Answer::new(call, response))
    }

    /// One call by the SDK: `send` makes the request, twice if AWS refuses its credentials the first
    /// time.
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
        let limiter = self.limiter(call.operation, call.region).await;
        // The SDK takes the keys from the keyring.
        let send = |_: &Keys| send();
        self.tried(call, Some((&limiter, caller)), send).await
    }

    /// One call, by the SDK or without it: permit, keys, guards, time-out, and one repetition with
    /// other keys. It needs no permit if `queue` is `None`.
    async fn tried<T, E, F>(
        &self,
        call: &Call<'_>,
        queue: Option<(&Arc<Limiter>, &Caller)>,
        send: impl Fn(&Keys) -> F,
    ) -> Result<T, Error>
    where
        E: ProvideErrorMetadata + StdError + 'static,
        F: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    {
        let keyring = &self.principal.keyring;
        let mut again = false;
        loop {
            let permit = match queue {
                Some((limiter, caller)) => Some(limiter.take(caller).await),
                None => None,
            };
            // After the wait, because the keys may have been replaced meanwhile.
            let keys = keyring.fresh(&self.view).await?;
            let guards = self.guards(call);
            guards.iter().try_for_each(Guard::check)?;
            if let Some(permit) = permit {
                permit.spend();
            }
            let begun = self.shared().stopwatch.elapsed();
            // The guards are checked again when the bytes leave; the call ends before the lease does.
            let longest = write_timeout(call.longest(self.shared().timeout), guards);
            let sent = tokio::time::timeout(longest, connector::under(guards, send(&keys))).await;
            let took = self.shared().stopwatch.elapsed().saturating_sub(begun);
            let error = match sent {
                Ok(Ok(answer)) => {
                    self.view.observer.called(call.operation, took, None);
                    return Ok(answer);
                }
                Ok(Err(error)) => call.failed(&error, Some(&keys)),
                Err(_) => call.silent(format!("timed out after {longest:?}")),
            };
            let class = (!ec2::is_dry_run_success(&error)).then(|| error.class());
            self.view.observer.called(call.operation, took, class);
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
        if call.is_guarded() {
            &self.view.guards
        } else {
            &[]
        }
    }

    async fn limiter(&self, operation: Operation, region: Option<&str>) -> Arc<Limiter> {
        let number = self.number().await;
        let (limiters, home) = (&self.shared().limiters, self.shared().region());
        let usual = operation.service().0.region.unwrap_or(home);
        let region = region.filter(|&region| region != usual);
        limiters.of(&number, region, operation.limit())
    }

    /// The account's number, which selects the limiter. A role's is in its ARN; our own is read from
    /// STS once. Until STS returns it, calls use the limiter of the name `own`.
    fn number(&self) -> Pin<Box<dyn Future<Output = Arc<str>> + Send + '_>> {
        Box::pin(async move {
            let own = match &self.principal.whose {
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
            let now = self.shared().clock.elapsed();
            if failed.is_some_and(|failed| now.saturating_sub(failed) < AGAIN) {
                return OWN.into();
            }
            match sts::identity(self, None).await {
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

    pub(crate) fn session_name(&self) -> &str {
        &self.shared().session_name
    }

    pub(crate) fn cloudfront_client(&self) -> &aws_sdk_cloudfront::Client {
        self.principal.clients.cloudfront.get_or_init(|| {
            let config =
                aws_sdk_cloudfront::config::Builder::from(&self.principal.sdk).region(GLOBAL);
            aws_sdk_cloudfront::Client::from_conf(config.build())
        })
    }

    pub(crate) fn route53_client(&self) -> &aws_sdk_route53::Client {
        self.principal.clients.route53.get_or_init(|| {
            let config = aws_sdk_route53::config::Builder::from(&self.principal.sdk).region(GLOBAL);
            aws_sdk_route53::Client::from_conf(config.build())
        })
    }

    pub(crate) fn acm_client(&self) -> &aws_sdk_acm::Client {
        self.principal.clients.acm.get_or_init(|| {
            let config = aws_sdk_acm::config::Builder::from(&self.principal.sdk).region(GLOBAL);
            aws_sdk_acm::Client::from_conf(config.build())
        })
    }

    pub(crate) fn dynamodb_client(&self, region: &str) -> aws_sdk_dynamodb::Client {
        let mut clients = self.principal.clients.dynamodb.lock();
        let made = || {
            let home = Region::new(region.to_owned());
            let config = aws_sdk_dynamodb::config::Builder::from(&self.principal.sdk).region(home);
            aws_sdk_dynamodb::Client::from_conf(config.build())
        };
        let client = clients.entry(region.to_owned()).or_insert_with(made);
        client.clone()
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Account");
        match &self.principal.whose {
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
