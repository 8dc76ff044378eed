//! A cluster and an AWS emulator with a distribution, its certificate, a connection group and a zone.

use std::path::PathBuf;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use testkit::{Entry, Mark, Result, World, eventually_within};
use tokio::time::sleep;

use super::super::cluster::{Cluster, PATIENCE, until_ready};
use super::calls::{Call, Calls};
use super::crowd::{Crowd, DISTRIBUTION, DOMAIN, ZONE, is_ready};
use crate::verdict::Error;

const CERTIFICATE: &str = "arn:aws:acm:us-east-1:000000000000:certificate/base";
/// The interval of progress checks: each check is work for the same cores.
const POLL: Duration = Duration::from_secs(2);

/// Release builds of the operator.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    /// The build for users.
    pub(super) plain: PathBuf,
    /// The build with the test kinds, whose time can run faster.
    pub(super) scaled: PathBuf,
}

/// How fast time runs, for the operator and for AWS.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pace {
    Real,
    Times(u32),
}

pub(super) struct TenantsSetup {
    pub(super) cluster: Cluster,
    programs: Programs,
}

/// A point in the logs of the API server and of AWS.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) kubernetes: Mark,
    aws: u64,
}

impl TenantsSetup {
    /// A setup with namespaces for these tenants, in which the operator does not run.
    pub(super) async fn start(programs: &Programs, crowds: &[Crowd]) -> Result<Self> {
        let plan = World::new().aws().feature("tenants");
        let setup = Self {
            cluster: Cluster::start(plan.binary(&programs.plain)).await?,
            programs: programs.clone(),
        };
        setup.furnish()?;
        for home in crowds.iter().flat_map(|crowd| crowd.homes()) {
            setup.cluster.plane.ensure_namespace(&home).await?;
        }
        Ok(setup)
    }

    fn furnish(&self) -> Result<()> {
        let names = [format!("*.{DOMAIN}")];
        let endpoint = "d0.cloudfront.net";
        self.console(
            "acm",
            json!({"certificate": {"arn": CERTIFICATE, "names": names}}),
        )?;
        let group = json!({"name": "cg0", "id": "cg0", "endpoint": endpoint, "default": true});
        self.console("cloudfront", json!({"group": group}))?;
        let distribution = json!({"id": DISTRIBUTION, "certificate": CERTIFICATE});
        self.console("cloudfront", json!({"distribution": distribution}))?;
        self.console("route53", json!({"zone": {"id": ZONE, "name": DOMAIN}}))?;
        Ok(())
    }

    /// Starts the operator and returns when it leads and has the predecessor's Lease.
    pub(super) async fn run(&self, pace: Pace) -> Result<()> {
        let (program, factor) = match pace {
            Pace::Real => (&self.programs.plain, None),
            Pace::Times(factor) => (&self.programs.scaled, Some(factor)),
        };
        let clock = json!({"factor": factor.unwrap_or(1)});
        self.control(Method::POST, "clock", clock)?;
        let operator = self.cluster.operator();
        let changed = operator.restart(|options| {
            options.binary = Some(program.clone());
            options.time_factor = factor;
        });
        changed.await?;
        until_ready(operator, true).await?;
        // The operator takes the predecessor's Lease after its own, and does nothing before.
        let attempt = async || {
            let (_, text) = operator.probe("/readyz?verbose").await?;
            let is_held = |line: &str| line.starts_with("[+]") && line.contains("predecessor");
            Ok(text.lines().any(is_held).then_some(()))
        };
        eventually_within(PATIENCE, "the predecessor's lease is held", attempt).await
    }

    pub(super) fn control(&self, method: Method, path: &str, body: Value) -> Result<Value> {
        Ok(self.cluster.world.aws().control(method, path, body)?)
    }

    /// Changes a resource as a person in the AWS console does.
    pub(super) fn console(&self, service: &str, mut change: Value) -> Result<Value> {
        change["service"] = json!(service);
        self.control(Method::POST, "mutate", change)
    }

    /// Sets switches of services.
    pub(super) fn switch(&self, switches: Value) -> Result<()> {
        self.control(Method::PUT, "switches", switches).map(drop)
    }

    /// The time in AWS.
    pub(super) fn time(&self) -> Result<Timestamp> {
        let mut clock = self.control(Method::GET, "clock", Value::Null)?;
        Ok(serde_json::from_value(clock["now"].take())?)
    }

    /// The current point in the logs.
    pub(super) fn now(&self) -> Result<Moment> {
        let path = format!("log?since={}", u64::MAX);
        let log = self.control(Method::GET, &path, Value::Null)?;
        Ok(Moment {
            kubernetes: self.cluster.plane.mark(),
            aws: log["last"].as_u64().unwrap_or_default(),
        })
    }

    /// The calls of AWS since then.
    pub(super) fn calls(&self, since: Moment) -> Result<Calls> {
        let path = format!("log?since={}", since.aws);
        let mut log = self.control(Method::GET, &path, Value::Null)?;
        let calls: Vec<Call> = serde_json::from_value(log["entries"].take())?;
        if calls.first().is_some_and(|first| first.seq > since.aws + 1) {
            return Err(Error::new("the emulator's log has lost calls that count").into());
        }
        Ok(Calls::new(calls))
    }

    /// The operator's writes to the cluster since then, without Leases.
    pub(super) async fn writes(&self, since: Moment) -> Result<Vec<Entry>> {
        self.cluster.world.writes_since(since.kubernetes).await
    }

    /// Waits until all tenants of a crowd are ready, and `ready` tenants in total.
    pub(super) async fn until_ready(
        &self,
        crowd: Crowd,
        ready: usize,
        deadline: Duration,
    ) -> Result<()> {
        let what = format!("all {} tenants of {} are ready", crowd.count, crowd.name);
        let wanted = f64::from(u32::try_from(ready)?);
        let attempt = async || {
            sleep(POLL).await;
            let name = "cloudfront_tenant_operator_tenants_total";
            let operator = self.cluster.operator();
            let counted = operator.metric(name, &[("status", "Ready")]).await?;
            Ok((counted >= wanted).then_some(()))
        };
        eventually_within(deadline, &what, attempt).await?;
        let seen = self.ready(crowd).await?;
        if seen != crowd.count {
            let message = format!("the operator counts all as ready, but {seen} say so: {what}");
            return Err(Error::new(message).into());
        }
        Ok(())
    }

    async fn ready(&self, crowd: Crowd) -> Result<usize> {
        let mut ready = 0;
        for home in crowd.homes() {
            let list = self.cluster.read(&Crowd::list_path(&home)).await?;
            let items = list["items"].as_array();
            ready += items.map_or(0, |items| items.iter().filter(|one| is_ready(one)).count());
        }
        Ok(ready)
    }

    /// Waits until an operator that was just started has compared all tenants with AWS.
    pub(super) async fn until_swept(&self, deadline: Duration) -> Result<()> {
        let attempt = async || {
            sleep(POLL).await;
            let metrics = self.cluster.operator().metrics().await?;
            let swept = metrics.contains("cloudfront_tenant_operator_sweep_age_seconds{");
            Ok(swept.then_some(()))
        };
        eventually_within(deadline, "all tenants are compared with AWS", attempt).await
    }
}
