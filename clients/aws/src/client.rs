//! The entry point: accounts, roles and limits of the whole process.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use aws_config::BehaviorVersion;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::ProfileFileRegionProvider;
use aws_config::retry::RetryConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;
use aws_types::region::Region;
use kernel::{Guard, RealClock, SharedClock};
use parking_lot::Mutex;

use crate::account::{GLOBAL, Shared};
use crate::keyring::{Assumed, Chain, Keyring, sdk_credentials};
use crate::limiter::Limiters;
use crate::{Account, Observer, Role, Settings, connector};

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
/// Create one for the whole process: two of them would not share their limits.
#[derive(Clone)]
pub struct Aws {
    shared: Arc<Shared>,
    own: Account,
    roles: Arc<Mutex<HashMap<Arc<Role>, Account>>>,
}

/// The state of one limiter, for metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Gauge {
    /// Account number, twelve digits; `own` while that of our own account is unknown.
    pub account: Arc<str>,
    /// The service, and the part of it if the service has several limits: `route53/GetChange`.
    pub service: &'static str,
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
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(connect_timeout)
            .operation_timeout(timeout)
            .build();
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .region(region)
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts)
            .http_client(connector::http_client())
            // Every call has a time-out already.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
        if let Some(keys) = &keys {
            loader = loader.credentials_provider(sdk_credentials(keys));
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
            limiters: Limiters::new(Arc::clone(&clock)),
            clock,
            stopwatch: RealClock::new(),
            guards,
            timeout,
            observer,
            session_name,
        });
        Self {
            own: Account::own(Arc::clone(&shared), keyring),
            shared,
            roles: Arc::default(),
        }
    }

    /// The region of regional calls that name no other: from the settings, else the environment,
    /// else the profile, else us-east-1.
    pub fn region(&self) -> &str {
        let region = self.shared.sdk.region();
        region.expect("the last provider always has one").as_ref()
    }

    /// Our own account.
    pub fn own(&self) -> &Account {
        &self.own
    }

    /// The account of `role`, used as that role. Makes no call.
    pub fn role(&self, role: &Role) -> Account {
        let mut roles = self.roles.lock();
        if let Some(account) = roles.get(role) {
            return account.clone();
        }
        if roles.len() >= ROLES {
            roles.retain(|_, account| account.is_live());
        }
        let role = Arc::new(role.clone());
        let source = Assumed {
            own: self.own.clone(),
            role: Arc::clone(&role),
        };
        let keyring = Keyring::new(Box::new(source), Arc::clone(&self.shared.clock));
        let account = Account::of_role(Arc::clone(&self.shared), Arc::clone(&role), keyring);
        roles.insert(role, account.clone());
        account
    }

    /// Wakes the owners of [tickets](crate::Ticket) when a permit is ready, for as long as it is
    /// polled. Run it once, beside the controllers.
    ///
    /// # When not to use it
    /// Where nobody uses tickets: calls that block for a permit do not need it.
    pub async fn attend(&self) {
        self.shared.limiters.attend().await;
    }

    /// Removes the ticket of this name from every queue and returns its permits. Call it when the
    /// object of the ticket is gone.
    pub fn withdraw(&self, ticket: &str) {
        for (.., limiter) in self.shared.limiters.all() {
            limiter.withdraw(ticket);
        }
    }

    /// The state of every limiter that was used so far.
    pub fn gauges(&self) -> Vec<Gauge> {
        let all = self.shared.limiters.all().into_iter();
        all.map(|(account, service, limiter)| {
            let (rate, waiting) = limiter.gauge();
            Gauge {
                account,
                service,
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
