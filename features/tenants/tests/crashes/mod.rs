//! The operator dies where a story says, and lives again.
#![allow(dead_code)] // each file uses its part

use api::tenants::DistributionTenant;
use http::Method;
use kube::Resource;
use testkit::Result;
use testkit::fault_proxy::Rule;
pub(crate) use testkit::stories::When;

use crate::stories::Site;

/// Where the operator dies.
#[derive(Debug, Clone, Copy)]
pub(crate) enum At {
    /// At a kill point, the n-th time it comes there: `name#n`.
    Point(&'static str),
    /// At its first write of the tenant acme itself, that is of its finalizer.
    Object(When),
    /// At this write of its status, from 1.
    Status(When, u64),
}

impl Site {
    /// Puts an operator in place of the running one that dies there.
    pub(crate) async fn doom(&self, at: At) -> Result<()> {
        match at {
            At::Point(point) => {
                let point = Some(point.to_owned());
                self.start_with(|options| options.kill_point = point).await
            }
            At::Object(when) => self.doom_by(when, "acme", 1).await,
            At::Status(when, nth) => self.doom_by(when, "acme/status", nth).await,
        }
    }

    /// Waits until it has died.
    pub(crate) async fn died(&self) -> Result<()> {
        self.world.operator().died().await
    }

    /// Waits until it has died, and starts it again as one that lives.
    pub(crate) async fn revive(&self) -> Result<()> {
        self.died().await?;
        self.start().await
    }

    /// The same at its `nth` write of this below the story's tenants: a proxy before the API server
    /// knows what the operator writes.
    async fn doom_by(&self, when: When, what: &str, nth: u64) -> Result<()> {
        let proxy = self.world.front().await?;
        let path = DistributionTenant::url_path(&(), Some(self.name()));
        let rule = Rule::on(Method::PATCH, &format!("{path}/{what}"));
        proxy.rule(when.kill(self.world, rule.after(nth - 1)));
        let behind = self.world.kubeconfig_behind(proxy)?;
        self.start_with(|options| {
            options.kubeconfig = behind;
            // Dying before it is ready is no failure then.
            options.kill_point = Some("by hand".to_owned());
        })
        .await
    }
}
