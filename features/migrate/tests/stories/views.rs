//! A cluster as one story sees it alone: through a proxy of its own.

use http::Method;
use serde_json::Value;
use testkit::Result;
use testkit::fault_proxy::{AnyMethod, FaultProxy, Rule};

use super::verbs::VerbOutput;
use super::{ACCOUNTS, DESTINATION, SOURCE, Shop, account};

impl Shop {
    /// The source as an older API server shows it: its StatefulSets have no `spec.ordinals`. The migration uses it
    /// as long as the proxy lives.
    pub(crate) async fn use_older_source(&self) -> Result<FaultProxy> {
        let proxy = self.cluster(SOURCE).control_plane().proxy().await?;
        let sets = Rule::on(AnyMethod::any(), "/apis/apps/v1/*statefulsets*");
        proxy.rule(sets.strip("spec.ordinals")?);
        self.use_proxy(SOURCE, &proxy).await?;
        Ok(proxy)
    }

    /// A cluster as if no other story used it: lists of PersistentVolumes have those of this story alone.
    pub(crate) async fn own_view(&self, cluster: &str) -> Result<FaultProxy> {
        let proxy = self.cluster(cluster).control_plane().proxy().await?;
        let own = self.source.name().to_owned();
        // A watch has no end, so its body cannot be rewritten.
        let watches = "/api/v1/persistentvolumes?*watch=true*";
        proxy.rule(Rule::on(Method::GET, watches));
        let lists = Rule::on(Method::GET, "/api/v1/persistentvolumes");
        proxy.rule(
            lists.rewrite_body(move |body| match with_names_of(&own, &body) {
                Some(list) => list.into(),
                None => body,
            }),
        );
        Ok(proxy)
    }

    /// Runs `pontoon migrate audit` as if no other story used the clusters, with kubeconfigs of the operator's
    /// accounts.
    pub(crate) async fn audit(&self, flags: &[&str]) -> Result<VerbOutput> {
        let (source, destination) = (
            self.own_view(SOURCE).await?,
            self.own_view(DESTINATION).await?,
        );
        let of_source = self.kubeconfig_file(SOURCE, &source).await?;
        let of_destination = self.kubeconfig_file(DESTINATION, &destination).await?;
        let args = [
            format!("--source-kubeconfig={of_source}"),
            format!("--dest-kubeconfig={of_destination}"),
            format!("--statefulset={}/{}", self.source.name(), self.set.name),
            format!("--dest-namespace={}", self.destination.name()),
        ];
        let args = args.iter().map(String::as_str);
        let args: Vec<&str> = ["audit"].into_iter().chain(args).collect();
        self.verb(&[&args[..], flags].concat())
    }

    /// A file with a kubeconfig of the operator's account in a cluster, through this proxy.
    pub(crate) async fn kubeconfig_file(
        &self,
        cluster: &str,
        proxy: &FaultProxy,
    ) -> Result<String> {
        let kubeconfig = self.kubeconfig_via(cluster, proxy).await?;
        let file = self.file(cluster, &kubeconfig.to_string())?;
        Ok(file.to_string_lossy().into_owned())
    }

    /// The migration reaches a cluster through this proxy.
    pub(crate) async fn use_proxy(&self, cluster: &str, proxy: &FaultProxy) -> Result<()> {
        let kubeconfig = self.kubeconfig_via(cluster, proxy).await?;
        self.store(cluster, &kubeconfig).await
    }

    /// A kubeconfig of the operator's account in a cluster, through this proxy.
    pub(crate) async fn kubeconfig_via(&self, cluster: &str, proxy: &FaultProxy) -> Result<Value> {
        let plane = self.cluster(cluster).control_plane();
        let kubeconfig = plane.kubeconfig_for(ACCOUNTS, account(cluster), Some(proxy));
        Ok(serde_json::from_str(&kubeconfig.await?)?)
    }
}

/// The list without objects whose names begin in another way. Names of the story's volumes begin with its
/// namespace in the source.
fn with_names_of(own: &str, body: &[u8]) -> Option<String> {
    let mut list: Value = serde_json::from_slice(body).ok()?;
    list["items"].as_array_mut()?.retain(|one| {
        let name = one["metadata"]["name"].as_str();
        name.is_some_and(|name| name.starts_with(own))
    });
    Some(list.to_string())
}
