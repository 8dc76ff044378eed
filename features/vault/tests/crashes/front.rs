//! A proxy before the API server: it knows by object and not by count what the operator writes.

use kube::Resource;
use reqwest::Method;
use testkit::Result;
use testkit::fault_proxy::{FaultProxy, Listen, Rule, Upstream};

use crate::stories::Site;

/// When the operator dies, seen from one of its writes to the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// The API server never hears of it.
    Before,
    /// The operator never hears that it is done.
    After,
}

/// The path of an object at the API server; its status is at `<path>/status`.
pub(crate) fn path<K: Resource<DynamicType = ()>>(namespace: &str, name: &str) -> String {
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    format!("{}/{name}", K::url_path(&(), namespace))
}

impl Site {
    /// A proxy before the API server. It stays to the end, as the watches through it do.
    pub(crate) async fn front(&self) -> Result<&'static FaultProxy> {
        let plane = self.world.control_plane();
        let upstream = Upstream {
            url: plane.url(),
            ca_pem: Some(plane.ca_pem().to_owned()),
        };
        let proxy = FaultProxy::start(upstream, Listen::Http).await?;
        Ok(Box::leak(Box::new(proxy)))
    }

    /// Starts the operator anew with `proxy` before the API server. It is to die by a story's hand.
    pub(crate) async fn start_behind(&self, proxy: &FaultProxy) -> Result<()> {
        let plane = self.world.control_plane();
        let direct = std::fs::read_to_string(self.kubeconfig())?;
        let text = direct.replace(&plane.url(), proxy.url());
        let behind = plane.scratch().write("behind.kubeconfig", text)?;
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
        let proxy = self.front().await?;
        let kill = || self.world.operator().kill();
        let rule = rule.times(1);
        proxy.rule(match when {
            // What arrives is empty, and refused.
            When::Before => rule.rewrite_request(move |body| {
                kill();
                body.slice(..0)
            }),
            When::After => rule.rewrite_body(move |answer| {
                kill();
                answer
            }),
        });
        self.start_behind(proxy).await
    }
}
