//! A cluster and a Vault that trusts it, with connections through proxies that count calls.

use std::path::Path;
use std::time::Duration;

use http::Method;
use serde_json::json;
use testkit::fault_proxy::{FaultProxy, Listen, Upstream};
use testkit::{Entry, Mark, Result, World, eventually_within};
use tokio::time::sleep;

use super::super::cluster::{APPLY, Cluster, PATIENCE, send};
use super::calls::Calls;
use super::pairs::{Kind, Pairs, is_ready};
use crate::verdict::Error;

/// The operator is idle after this long without calls about policies and roles.
const QUIET: Duration = Duration::from_secs(5);
/// How many unexpected writes are shown.
pub(super) const SHOWN: usize = 5;
/// The Secret with the token for the operator's first login.
const BOOTSTRAP: &str = "bootstrap";

pub(super) struct VaultSetup {
    pub(super) cluster: Cluster,
    /// The proxies in front of Vault, one per connection, in the order of creation.
    proxies: Vec<FaultProxy>,
}

/// A point in the logs of the API server and of a proxy.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) kubernetes: Mark,
    vault: u64,
}

impl VaultSetup {
    /// A setup with connections and namespaces for these pairs, in which the operator does not run.
    pub(super) async fn start(operator: &Path, all: &[Pairs]) -> Result<Self> {
        let plan = World::new().vault().feature("vault").binary(operator);
        let mut setup = Self {
            cluster: Cluster::start(plan).await?,
            proxies: Vec::new(),
        };
        setup.give_token().await?;
        // A separate run of the operator for bootstrap, so that its calls are not measured.
        setup.cluster.run(&[]).await?;
        for pairs in all {
            setup.connect(pairs).await?;
            for home in pairs.homes() {
                setup.cluster.plane.ensure_namespace(&home).await?;
            }
        }
        setup.cluster.stop().await?;
        Ok(setup)
    }

    /// Gives the operator Vault's root token to create its own mount and role.
    async fn give_token(&self) -> Result<()> {
        let namespace = self.cluster.world.operator_namespace();
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": BOOTSTRAP},
            "stringData": {"token": self.cluster.world.vault().root_token()},
        });
        let path = format!("/api/v1/namespaces/{namespace}/secrets");
        self.cluster.create([(path, secret)]).await
    }

    /// Creates a connection through its own proxy, and waits until it is ready.
    async fn connect(&mut self, pairs: &Pairs) -> Result<()> {
        let name = pairs.connection;
        let upstream = Upstream {
            url: self.cluster.world.vault().address(),
            ca_pem: None,
        };
        let proxy = FaultProxy::start(upstream, Listen::Http).await?;
        let namespace = self.cluster.world.operator_namespace();
        let secret = json!({"name": BOOTSTRAP, "namespace": namespace, "key": "token"});
        let host = self.cluster.plane.url();
        // Omitted, not null: the API server refuses null for a number.
        let rate = pairs.requests_per_second;
        let rate_limit = rate.map_or_else(|| json!({}), |rate| json!({"requestsPerSecond": rate}));
        let connection = json!({
            "apiVersion": "vault.platform.io/v1alpha1",
            "kind": "VaultConnection",
            "metadata": {"name": name},
            "spec": {
                "address": proxy.url(),
                "rateLimit": rate_limit,
                "auth": {
                    "bootstrap": {"secretRef": secret, "autoRevoke": false, "adoptMount": true},
                    "kubernetes": {"role": "pontoon", "kubernetesHost": host},
                },
            },
        });
        self.proxies.push(proxy);
        let path = format!("/apis/vault.platform.io/v1alpha1/vaultconnections/{name}");
        let apply = format!("{path}?fieldManager=bench");
        let client = &self.cluster.admin;
        send(client, Method::PATCH, &apply, APPLY, &connection).await?;
        let attempt = async || Ok(is_ready(&self.cluster.read(&path).await?).then_some(()));
        eventually_within(PATIENCE, &format!("connection {name} is ready"), attempt).await
    }

    /// The proxy of the connection of this index.
    pub(super) fn proxy(&self, number: usize) -> &FaultProxy {
        &self.proxies[number]
    }

    /// The current point in the logs, for the first connection.
    pub(super) fn now(&self) -> Moment {
        let last = self.proxy(0).requests().last().map(|call| call.seq);
        Moment {
            kubernetes: self.cluster.plane.mark(),
            vault: last.unwrap_or_default(),
        }
    }

    /// The calls of Vault through the first connection since then.
    pub(super) fn calls(&self, since: Moment) -> Calls {
        Calls::since(self.proxy(0).requests(), since.vault)
    }

    /// The operator's writes to the cluster since then, without Leases.
    pub(super) async fn writes(&self, since: Moment) -> Result<Vec<Entry>> {
        self.cluster.world.writes_since(since.kubernetes).await
    }

    /// Waits until there were no calls about policies and roles for a while.
    pub(super) async fn until_quiet(&self, deadline: Duration) -> Result<()> {
        let begin = self.now();
        let mut before = None;
        let attempt = async || {
            sleep(QUIET).await;
            let now = self.calls(begin).about_objects();
            let rests = before == Some(now);
            before = Some(now);
            Ok(rests.then_some(()))
        };
        eventually_within(deadline, "the operator becomes idle", attempt).await
    }

    /// How many of the pairs' objects are ready.
    pub(super) async fn ready(&self, pairs: Pairs) -> Result<usize> {
        let mut ready = 0;
        for kind in Kind::BOTH {
            for namespace in 0..pairs.namespaces {
                let list = self.cluster.read(&pairs.list_path(kind, namespace)).await?;
                let items = list["items"].as_array();
                ready += items.map_or(0, |items| items.iter().filter(|one| is_ready(one)).count());
            }
        }
        Ok(ready)
    }

    /// Waits until all of them are ready.
    pub(super) async fn until_ready(&self, pairs: Pairs, deadline: Duration) -> Result<()> {
        let what = format!(
            "all {} objects of {} are ready",
            pairs.objects(),
            pairs.connection
        );
        let attempt = async || {
            let all = self.ready(pairs).await? == pairs.objects();
            if !all {
                sleep(Duration::from_secs(1)).await;
            }
            Ok(all.then_some(()))
        };
        eventually_within(deadline, &what, attempt).await
    }
}

/// An unexpected write, as text.
pub(super) fn shown(write: &Entry) -> String {
    format!("  {} {} {}", write.verb, write.code, write.request_uri)
}

/// A count as a measurement.
pub(super) fn number(count: usize) -> Result<f64> {
    let small = u32::try_from(count).map_err(|_| Error::new("a count beyond all reason"))?;
    Ok(f64::from(small))
}
