//! An emulator with a distribution and a zone, and a client of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aws::cloudfront::{CloudFront, Customizations, Tags, TenantBody};
use aws::route53::Route53;
use aws::{Aws, Caller, Gauge, Keys, Observer, Operation, Parts, Priority, Secret, Settings};
use aws_emulator::Emulator;
use http::Method;
use kernel::{Class, Guard, TestClock};
use parking_lot::Mutex;
use serde_json::{Value, json};

pub(crate) type Result<T = (), E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// The account of the key `test`.
pub(crate) const OWN: &str = "000000000000";
/// The account of the role.
pub(crate) const OTHER: &str = "222222222222";
pub(crate) const ROLE: &str = "arn:aws:iam::222222222222:role/dns";
/// Covers `*.example.com`.
pub(crate) const CERTIFICATE: &str = "arn:aws:acm:us-east-1:000000000000:certificate/wild";

/// The calls that a client reported to its observer.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    calls: Mutex<Vec<(Operation, Duration, Option<Class>)>>,
}

impl Seen {
    /// How calls of this operation ended, and how long each took.
    pub(crate) fn of(&self, operation: Operation) -> Vec<(Duration, Option<Class>)> {
        let calls = self.calls.lock();
        let same = calls.iter().filter(|(one, ..)| *one == operation);
        same.map(|(_, took, error)| (*took, *error)).collect()
    }
}

impl Observer for Seen {
    fn called(&self, operation: Operation, took: Duration, error: Option<Class>) {
        self.calls.lock().push((operation, took, error));
    }
}

pub(crate) struct World {
    pub(crate) emulator: Emulator,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) seen: Arc<Seen>,
    pub(crate) aws: Aws,
}

impl World {
    /// A world in which no call waits long for a permit: its clock runs 100 times as fast.
    pub(crate) async fn start() -> Result<Self> {
        let world = Self::still().await?;
        world.clock.set_factor(100);
        Ok(world)
    }

    /// A world whose clock stands still.
    pub(crate) async fn still() -> Result<Self> {
        Self::with(|_| {}).await
    }

    /// The same with other settings.
    pub(crate) async fn with(change: impl FnOnce(&mut Settings)) -> Result<Self> {
        let emulator = Emulator::builder().every_service().start().await?;
        let clock = Arc::new(TestClock::new());
        let seen = Arc::<Seen>::default();
        let mut settings = Settings {
            // Not us-east-1: CloudFront and Route 53 must be signed for us-east-1 nevertheless.
            region: Some("eu-west-1".to_owned()),
            keys: Some(keys("test")),
            endpoint: Some(emulator.url()),
            ..Settings::default()
        };
        change(&mut settings);
        let aws = Aws::load(settings, parts(clock.clone(), seen.clone())).await;
        let world = Self {
            emulator,
            clock,
            seen,
            aws,
        };
        world.seed();
        Ok(world)
    }

    fn seed(&self) {
        let certificate = json!({ "arn": CERTIFICATE, "names": ["*.example.com"] });
        self.mutate("acm", json!({ "certificate": certificate }));
        let endpoint = "d0.cloudfront.net";
        let group =
            json!({ "name": "default", "id": "cg0", "endpoint": endpoint, "default": true });
        self.mutate("cloudfront", json!({ "group": group }));
        let distribution = json!({ "id": "E1", "certificate": CERTIFICATE, "parameters": [
            { "name": "colour", "required": true }, { "name": "shape", "default": "round" },
        ] });
        self.mutate("cloudfront", json!({ "distribution": distribution }));
        let zone = json!({ "id": "Z1", "name": "example.com" });
        self.mutate("route53", json!({ "zone": zone }));
    }

    pub(crate) fn control(&self, method: Method, path: &str, body: Value) -> Value {
        let answer = self.emulator.control(method, path, body);
        answer.unwrap_or_else(|error| panic!("{path}: {error:?}"))
    }

    pub(crate) fn mutate(&self, service: &str, mut change: Value) -> Value {
        change["service"] = json!(service);
        self.control(Method::POST, "mutate", change)
    }

    pub(crate) fn switch(&self, service: &str, settings: Value) {
        self.control(Method::PUT, "switches", json!({ service: settings }));
    }

    pub(crate) fn fault(&self, rule: Value) {
        self.control(Method::POST, "faults", rule);
    }

    /// Answers calls of `operation` with this error, this many times or always.
    pub(crate) fn fail(&self, operation: &str, status: u16, code: &str, times: Option<u64>) {
        let error = json!({ "status": status, "code": code, "message": "as the test says" });
        let effect = json!({ "error": error });
        self.fault(json!({ "operation": operation, "times": times, "effect": effect }));
    }

    pub(crate) fn heal(&self) {
        self.control(Method::DELETE, "faults", Value::Null);
    }

    /// Moves the emulator's clock.
    pub(crate) fn later(&self, seconds: u64) {
        self.control(Method::POST, "clock", json!({ "advance": seconds }));
    }

    pub(crate) fn log(&self) -> Vec<Value> {
        let answer = self.control(Method::GET, "log", Value::Null);
        answer["entries"].as_array().expect("a list").clone()
    }

    /// The log's entries of an operation.
    pub(crate) fn sent(&self, operation: &str) -> Vec<Value> {
        let mut log = self.log();
        log.retain(|entry| entry["operation"] == operation);
        log
    }

    pub(crate) fn gauge(&self, account: &str, service: &str) -> Option<Gauge> {
        let mut gauges = self.aws.gauges().into_iter();
        gauges.find(|gauge| &*gauge.account == account && gauge.service == service)
    }

    pub(crate) fn rate(&self, account: &str, service: &str) -> f64 {
        let gauge = self.gauge(account, service);
        gauge.expect("it was used").rate
    }

    /// How many calls to CloudFront wait for a permit, after the free permits were given out.
    pub(crate) fn waiting(&self) -> usize {
        let gauge = self.gauge(OWN, "cloudfront");
        gauge.map_or(0, |gauge| gauge.waiting.iter().sum())
    }

    /// Spends the permits that CloudFront's bucket holds at first.
    pub(crate) async fn drained(&self) -> Result {
        for _ in 0..5 {
            self.cloudfront().distribution("E1").await?;
        }
        Ok(())
    }

    /// The tenants that were read, in the order of the calls.
    pub(crate) fn tenants_read(&self) -> Vec<String> {
        let sent = self.sent("GetDistributionTenant").into_iter();
        let resource = |entry: Value| entry["resource"].as_str().map(str::to_owned);
        sent.filter_map(resource).collect()
    }

    pub(crate) fn cloudfront(&self) -> CloudFront {
        self.aws.own().cloudfront(&caller())
    }

    pub(crate) fn route53(&self) -> Route53 {
        self.aws.own().route53(&caller())
    }
}

pub(crate) fn parts(clock: Arc<TestClock>, observer: Arc<dyn Observer>) -> Parts {
    Parts {
        clock,
        guards: vec![Guard::always()],
        observer,
    }
}

pub(crate) fn keys(id: &str) -> Keys {
    Keys {
        access_key_id: id.to_owned(),
        secret_access_key: Secret::new("s3cret-of-the-test".to_owned()),
        session_token: None,
    }
}

pub(crate) fn caller() -> Caller {
    Caller::new(Priority::Edit, "web")
}

/// A tenant of E1 with nothing special.
pub(crate) fn body(domains: &[&str]) -> TenantBody {
    TenantBody {
        distribution_id: "E1".to_owned(),
        domains: domains.iter().map(|&domain| domain.to_owned()).collect(),
        enabled: true,
        connection_group_id: None,
        parameters: BTreeMap::from([("colour".to_owned(), "red".to_owned())]),
        customizations: Customizations::default(),
        certificate_request: None,
    }
}

/// The marker of web/acme.
pub(crate) fn marker() -> Tags {
    Tags::from([
        ("pontoon.io/cluster".to_owned(), "c1".to_owned()),
        ("pontoon.io/object".to_owned(), "web/acme".to_owned()),
    ])
}

pub(crate) fn same(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-9
}
