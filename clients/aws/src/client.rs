//! AWS as all callers hold it.

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

use crate::account::{Around, GLOBAL};
use crate::keyring::{Assumed, Chain, Keyring, sdk_credentials};
use crate::turn::Lanes;
use crate::{Account, Observer, Role, Settings, connector};

/// Roles remembered before those that are no longer used are forgotten.
const ROLES: usize = 256;

/// What AWS needs besides its settings.
pub struct Parts {
    /// Rates and the lives of credentials follow it. Time-outs of calls are in real time.
    pub clock: SharedClock,
    /// All asked before each write.
    pub guards: Vec<Guard>,
    /// Told of each call.
    pub observer: Arc<dyn Observer>,
}

/// AWS: our own account, and the roles we may assume. A clone is the same one.
///
/// Make one for the whole process: two of them would not know of each other's calls.
#[derive(Clone)]
pub struct Aws {
    around: Arc<Around>,
    own: Account,
    roles: Arc<Mutex<HashMap<Arc<Role>, Account>>>,
}

/// How one limit stands, for metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Gauge {
    /// Account, twelve digits; `own` while ours is not known.
    pub account: Arc<str>,
    /// The service, and what of it if it has several limits: `route53/GetChange`.
    pub service: &'static str,
    /// Calls a second.
    pub rate: f64,
    /// How many calls wait, in the order of [`Priority::ALL`](crate::Priority::ALL).
    pub waiting: [usize; 4],
}

impl Aws {
    /// Reads environment and profile as far as the settings leave things to them. No network: the
    /// first call tells whether there are credentials.
    #[allow(
        clippy::disallowed_methods,
        reason = "this is the home of AWS's configuration: everyone else is handed an account"
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
        let of_environment = |name| named(std::env::var(name).ok()); // the SDK takes an empty one
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
            // Every call has an end already.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
        if let Some(keys) = &keys {
            loader = loader.credentials_provider(sdk_credentials(keys));
        }
        if let Some(endpoint) = endpoint {
            loader = loader.endpoint_url(endpoint);
        }
        let sdk = loader.load().await;
        let provider = sdk.credentials_provider();
        let provider = provider.expect("the loader takes those given, or the default chain");
        let chain = Chain { provider, timeout };
        let keyring = Keyring::new(Box::new(chain), Arc::clone(&clock));
        let around = Arc::new(Around {
            sdk,
            lanes: Lanes::new(Arc::clone(&clock)),
            clock,
            stopwatch: RealClock::new(),
            guards,
            timeout,
            observer,
            session_name,
        });
        Self {
            own: Account::own(Arc::clone(&around), keyring),
            around,
            roles: Arc::default(),
        }
    }

    /// The region of calls that have one and are not told another: the settings', else the
    /// environment's, else the profile's, else us-east-1.
    pub fn region(&self) -> &str {
        let region = self.around.sdk.region();
        region.expect("the last of the providers has one").as_ref()
    }

    /// Our own account.
    pub fn own(&self) -> &Account {
        &self.own
    }

    /// The account of `role`, used as that role. Nothing is asked yet.
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
        let keyring = Keyring::new(Box::new(source), Arc::clone(&self.around.clock));
        let account = Account::of_role(Arc::clone(&self.around), Arc::clone(&role), keyring);
        roles.insert(role, account.clone());
        account
    }

    /// Wakes those whose [ticket](crate::Ticket) has its turn, for as long as it is polled: let it
    /// run beside the controllers, once.
    ///
    /// # When not to use it
    /// Where nobody uses tickets: calls that wait for their turn need nobody.
    pub async fn attend(&self) {
        self.around.lanes.attend().await;
    }

    /// Gives up every place and every turn of the ticket of this name: what it waited for is not
    /// needed any more.
    pub fn withdraw(&self, ticket: &str) {
        for (.., turns) in self.around.lanes.all() {
            turns.withdraw(ticket);
        }
    }

    /// How every limit stands that was used so far.
    pub fn gauges(&self) -> Vec<Gauge> {
        let all = self.around.lanes.all().into_iter();
        all.map(|(account, service, turns)| {
            let (rate, waiting) = turns.gauge();
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
