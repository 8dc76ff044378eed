//! The entry point: accounts, roles and limits of the whole process.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use aws_config::BehaviorVersion;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::ProfileFileRegionProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::retry::RetryConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;
use aws_types::region::Region;
use kernel::{Guard, RealClock, SharedClock};
use parking_lot::Mutex;

use crate::account::{GLOBAL, Principal, Shared, View};
use crate::keyring::{Assumed, Chain, Keyring, sdk_credentials};
use crate::limiter::Limiters;
use crate::{Account, Observer, Role, Settings, connector, web_identity};

/// Above this number, roles without valid credentials are dropped.
const ROLES: usize = 256;

/// What AWS needs besides its settings.
pub struct Parts {
    /// Clock of rates and of the expiry of credentials. Time-outs of calls are in real time.
    pub clock: SharedClock,
    /// All are checked before each write.
    pub guards: Vec<Guard>,
    /// Notified of each call.
    pub observer: Arc<dyn Observer>,
}

/// AWS: our own account, and the roles we may assume. A clone is the same one.
///
/// Create one for the whole process: two of them would not share their limits. Each feature gets a
/// [view](Self::for_feature) of it.
#[derive(Clone)]
pub struct Aws {
    shared: Arc<Shared>,
    own: Account,
    roles: Arc<Mutex<HashMap<Arc<Role>, Arc<Principal>>>>,
}

/// The state of one limiter, for metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Gauge {
    /// Account number, twelve digits; `own` while that of our own account is unknown.
    pub account: Arc<str>,
    /// The service, and the part of it if the service has several limits: `route53/GetChange`.
    pub service: &'static str,
    /// The region, if it is not the usual one of the service: us-east-1 for CloudFront, Route 53 and
    /// ACM, else [`Aws::region`].
    pub region: Option<Arc<str>>,
    /// Calls per second.
    pub rate: f64,
    /// How many calls wait, in the order of [`Priority::ALL`](crate::Priority::ALL).
    pub waiting: [usize; 4],
}

impl Aws {
    /// Reads from environment and profile what the settings do not set. Uses no network: missing
    /// credentials show at the first call.
    #[allow(
        clippy::disallowed_methods,
        reason = "the only place that reads AWS's configuration: all other code is given an account"
    )]
    pub async fn load(settings: Settings, parts: Parts) -> Self {
        let Settings {
            region,
            keys,
            endpoint,
            session_name,
            timeout,
            connect_timeout,
        } = settings;
        let Parts {
            clock,
            guards,
            observer,
        } = parts;
        let named = |region: Option<String>| region.filter(|one| !one.is_empty()).map(Region::new);
        let of_environment = |name| named(std::env::var(name).ok()); // the SDK accepts an empty one
        let region = RegionProviderChain::first_try(named(region))
            .or_else(of_environment("AWS_REGION"))
            .or_else(of_environment("AWS_DEFAULT_REGION"))
            .or_else(ProfileFileRegionProvider::new())
            .or_else(GLOBAL);
        let region = region.region().await;
        let region = region.expect("the last provider always has one");
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(connect_timeout)
            .operation_timeout(timeout)
            .build();
        let (connector, http_client) = connector::connections(connect_timeout);
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .region(region.clone())
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts.clone())
            .http_client(http_client.clone())
            // Every call has a time-out already.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
        if let Some(keys) = &keys {
            loader = loader.credentials_provider(sdk_credentials(keys));
        } else if let Some(identity) = web_identity::unnamed(&session_name) {
            let providers = ProviderConfig::default()
                .with_region(Some(region))
                .with_retry_config(RetryConfig::disabled())
                .with_timeout_config(timeouts)
                .with_http_client(http_client);
            loader = loader.credentials_provider(web_identity::chain(identity, providers).await);
        }
        if let Some(endpoint) = endpoint {
            loader = loader.endpoint_url(endpoint);
        }
        let sdk = loader.load().await;
        let provider = sdk.credentials_provider();
        let provider = provider.expect("the loader uses the given keys or the default chain");
        let chain = Chain { provider, timeout };
        let keyring = Keyring::new(Box::new(chain), Arc::clone(&clock));
        let shared = Arc::new(Shared {
            sdk,
            connector,
            limiters: Limiters::new(Arc::clone(&clock)),
            clock,
            stopwatch: RealClock::new(),
            timeout,
            session_name,
        });
        let principal = Principal::own(Arc::clone(&shared), keyring);
        Self {
            own: Account::new(principal, Arc::new(View { guards, observer })),
            shared,
            roles: Arc::default(),
        }
    }

    /// The region of regional calls that name no other: from the settings, else the environment,
    /// else the profile, else us-east-1.
    pub fn region(&self) -> &str {
        self.shared.region()
    }

    /// The same accounts, credentials, limits and connections for one feature: its writes are made
    /// under these guards, and its calls are reported to this observer. The guards and the observer
    /// of `self` do not apply to it.
    #[must_use]
    pub fn for_feature(&self, guards: Vec<Guard>, observer: Arc<dyn Observer>) -> Self {
        let principal = Arc::clone(self.own.principal());
        Self {
            own: Account::new(principal, Arc::new(View { guards, observer })),
            ..self.clone()
        }
    }

    /// Our own account.
    pub fn own(&self) -> &Account {
        &self.own
    }

    /// The account of `role`, used as that role. Makes no call.
    pub fn role(&self, role: &Role) -> Account {
        Account::new(self.assumed(role), Arc::clone(self.own.view()))
    }

    fn assumed(&self, role: &Role) -> Arc<Principal> {
        let mut roles = self.roles.lock();
        if let Some(principal) = roles.get(role) {
            return Arc::clone(principal);
        }
        if roles.len() >= ROLES {
            roles.retain(|_, principal| principal.is_live());
        }
        let role = Arc::new(role.clone());
        let source = Assumed {
            own: Arc::clone(self.own.principal()),
            role: Arc::clone(&role),
        };
        let keyring = Keyring::new(Box::new(source), Arc::clone(&self.shared.clock));
        let principal = Principal::of_role(Arc::clone(&self.shared), Arc::clone(&role), keyring);
        roles.insert(role, Arc::clone(&principal));
        principal
    }

    /// Wakes the owners of [tickets](crate::Ticket) when a permit is ready, for as long as it is
    /// polled. Run it once for all views, beside the controllers.
    ///
    /// # When not to use it
    /// Where nobody uses tickets: calls that block for a permit do not need it.
    pub async fn attend(&self) {
        self.shared.limiters.attend().await;
    }

    /// Removes the ticket of this name from every queue and returns its permits. Call it when the
    /// object of the ticket is gone.
    pub fn withdraw(&self, ticket: &str) {
        for (_, limiter) in self.shared.limiters.all() {
            limiter.withdraw(ticket);
        }
    }

    /// The state of every limiter that was used so far, by any view.
    pub fn gauges(&self) -> Vec<Gauge> {
        let all = self.shared.limiters.all().into_iter();
        all.map(|(key, limiter)| {
            let (rate, waiting) = limiter.gauge();
            Gauge {
                account: key.account,
                service: key.label,
                region: key.region,
                rate,
                waiting,
            }
        })
        .collect()
    }
}

impl fmt::Debug for Aws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aws")
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}
