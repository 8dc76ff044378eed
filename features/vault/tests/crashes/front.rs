//! A proxy before the API server: it knows by object and not by count what the operator writes.

use kube::Resource;
use reqwest::Method;
use testkit::Result;
use testkit::fault_proxy::{FaultProxy, Rule};
pub(crate) use testkit::stories::When;

use crate::stories::Site;

/// The path of an object at the API server; its status is at `<path>/status`.
pub(crate) fn path<K: Resource<DynamicType = ()>>(namespace: &str, name: &str) -> String {
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    format!("{}/{name}", K::url_path(&(), namespace))
}

impl Site {
    /// Starts the operator anew with `proxy` before the API server. It is to die by a story's hand.
    pub(crate) async fn start_behind(&self, proxy: &FaultProxy) -> Result<()> {
        let behind = self.world.kubeconfig_behind(proxy)?;
        self.begin(Some("by hand"), behind).await
    }

    /// Puts an operator in place of the running one that dies at its `nth` patch of what is at
    /// `path`.
    pub(crate) async fn doom_at(&'static self, when: When, path: &str, nth: u64) -> Result<()> {
        let patch = Rule::on(Method::PATCH, path).after(nth - 1);
        self.doom_by(when, patch).await
    }

    /// The same at a request that `rule` is about.
    pub(crate) async fn doom_by(&'static self, when: When, rule: Rule) -> Result<()> {
        let proxy = self.world.front().await?;
        proxy.rule(when.kill(&self.world, rule));
        self.start_behind(proxy).await
    }
}
