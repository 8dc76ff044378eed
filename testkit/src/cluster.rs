//! A cluster of a world: a control plane, a fault proxy before it, and perhaps an operator.

use std::sync::Arc;

use anyhow::Result;

use crate::{
    audit::{Entry, Mark},
    control_plane::{ControlPlane, Options},
    fault_proxy::{FaultControl, FaultProxy, Upstream},
    install::{ACCOUNT, install},
    operator::{Operator, OperatorOptions},
    scratch::Scratch,
    story::{Story, Team},
    world::unique,
};

/// A cluster that is not started yet.
#[derive(Debug, Clone, Default)]
#[must_use = "a cluster exists once its world is started"]
pub struct ClusterPlan {
    pub(crate) options: Options,
    pub(crate) authority_of: Option<String>,
    pub(crate) features: Option<Vec<String>>,
    pub(crate) args: Option<Vec<String>>,
}

impl From<Options> for ClusterPlan {
    fn from(options: Options) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }
}

impl ClusterPlan {
    /// A control plane of etcd and kube-apiserver.
    pub fn new() -> Self {
        Self::default()
    }

    /// The cluster has the certificate authority and the token key of this other one of its world.
    pub fn authority_of(mut self, cluster: &str) -> Self {
        self.authority_of = Some(cluster.to_owned());
        self
    }

    /// Installs the CRDs of these features, and a ServiceAccount with their RBAC for an operator.
    ///
    /// The cluster of the world's own operator has those of the world's features in any case.
    pub fn installed(mut self, features: &[&str]) -> Self {
        self.features = Some(features.iter().map(|one| (*one).to_owned()).collect());
        self
    }

    /// Runs one more operator here, with these features and flags; its program, time and
    /// environment are those of the world's own.
    pub fn operator(mut self, features: &[&str], args: &[&str]) -> Self {
        self.args = Some(args.iter().map(|one| (*one).to_owned()).collect());
        self.installed(features)
    }

    /// What an operator here has, if one is installed: features and flags differ from `own`'s.
    pub(crate) fn installation(&self, own: &OperatorOptions) -> Option<Installation> {
        let options = OperatorOptions {
            features: self.features.clone()?,
            args: self.args.clone().unwrap_or_default(),
            kill_point: None,
            ..own.clone()
        };
        Some(Installation {
            options,
            runs: self.args.is_some(),
        })
    }
}

/// An operator in a cluster.
pub(crate) struct Installation {
    pub(crate) options: OperatorOptions,
    /// Whether it is started; else only its account, RBAC and CRDs exist.
    pub(crate) runs: bool,
}

/// A control plane with what stories need in it. All ends with this value.
///
/// An operator in it runs as a ServiceAccount with exactly the RBAC that the binary prints for its
/// features. Its Lease is in a separate namespace. If the cluster has a name, it has a fault proxy,
/// through which the operator reaches it.
pub struct Cluster {
    // The order of these fields is the order in which they end.
    operator: Option<Operator>,
    proxied: Option<Proxied>,
    plane: Arc<ControlPlane>,
    options: OperatorOptions,
    name: String,
}

/// What stands before the API server.
struct Proxied {
    control: FaultControl,
    proxy: FaultProxy,
}

impl Cluster {
    /// A cluster without a name has no proxy. `upstreams` are all clusters of the world.
    pub(crate) async fn start(
        name: &str,
        plane: Arc<ControlPlane>,
        upstreams: &[(String, Upstream)],
        installation: Option<Installation>,
    ) -> Result<Self> {
        let proxied = if name.is_empty() {
            None
        } else {
            let proxy = plane.proxy().await?;
            let control = FaultControl::start(&[(name, &proxy)], upstreams.to_vec()).await?;
            Some(Proxied { control, proxy })
        };
        let mut cluster = Self {
            operator: None,
            proxied,
            plane,
            options: OperatorOptions::default(),
            name: name.to_owned(),
        };
        if let Some(Installation { options, runs }) = installation {
            cluster.install(options, runs).await?;
        }
        Ok(cluster)
    }

    async fn install(&mut self, options: OperatorOptions, runs: bool) -> Result<()> {
        self.options = options;
        let namespace = unique("pontoon");
        let via = self.proxied.as_ref().map(|proxied| &proxied.proxy);
        let config = self.plane.kubeconfig_for(&namespace, ACCOUNT, via).await?;
        let file = format!("{namespace}-{ACCOUNT}.kubeconfig");
        self.options.kubeconfig = self.plane.scratch().write(&file, config)?;
        self.options.lease_namespace = namespace;
        install(&self.plane, &self.options)
            .await
            .inspect_err(|_| self.plane.scratch().preserve())?;
        if runs {
            let (name, scratch) = (&self.options.lease_namespace, self.plane.scratch());
            self.operator = Some(Operator::start(name, scratch, self.options.clone()).await?);
        }
        Ok(())
    }

    /// Its name in the plan; empty for the only cluster of a world whose plan names none.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The operator.
    ///
    /// # Panics
    /// When none runs in this cluster.
    pub fn operator(&self) -> &Operator {
        let operator = self.operator.as_ref();
        operator.expect("the plan runs an operator here: ClusterPlan::operator")
    }

    /// The operator, if one runs in this cluster.
    pub fn any_operator(&self) -> Option<&Operator> {
        self.operator.as_ref()
    }

    /// One more replica of the operator, with the same ServiceAccount and the same Lease.
    pub async fn replica(&self, name: &str) -> Result<Operator> {
        self.replica_with(name, |_| {}).await
    }

    /// The same with `change`d options.
    pub async fn replica_with(
        &self,
        name: &str,
        change: impl FnOnce(&mut OperatorOptions),
    ) -> Result<Operator> {
        let name = format!("{}-{name}", self.options.lease_namespace);
        let mut options = self.options.clone();
        change(&mut options);
        Operator::start(&name, self.plane.scratch(), options).await
    }

    /// The control plane.
    pub fn control_plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// The proxy before the API server, with a certificate of the cluster's authority. It ends with
    /// the cluster.
    ///
    /// # Panics
    /// When the plan does not name this cluster.
    pub fn proxy(&self) -> &FaultProxy {
        &self.proxied().proxy
    }

    /// The control address of [`Self::proxy`], for other programs.
    ///
    /// # Panics
    /// When the plan does not name this cluster.
    pub fn faults(&self) -> &FaultControl {
        &self.proxied().control
    }

    fn proxied(&self) -> &Proxied {
        let proxied = self.proxied.as_ref();
        proxied.expect("the plan names this cluster: World::new().cluster(name, …)")
    }

    /// The options of the operator; those of an installation that is not started, too.
    pub fn operator_options(&self) -> &OperatorOptions {
        &self.options
    }

    /// The namespace of the operator's ServiceAccount and Lease; empty without an installation.
    pub fn operator_namespace(&self) -> &str {
        &self.options.lease_namespace
    }

    /// A new namespace whose name begins with `name`.
    pub async fn namespace(&self, name: &str) -> Result<Team> {
        let name = unique(name);
        self.plane.ensure_namespace(&name).await?;
        Ok(self.story(Some(name)))
    }

    /// An existing namespace.
    pub fn in_namespace(&self, name: &str) -> Story {
        self.story(Some(name.to_owned()))
    }

    /// The operator's own namespace.
    pub fn home(&self) -> Story {
        self.in_namespace(self.operator_namespace())
    }

    /// Cluster-scoped objects.
    pub fn cluster(&self) -> Story {
        self.story(None)
    }

    /// The current point in the API server's audit log.
    pub fn mark(&self) -> Mark {
        self.plane.mark()
    }

    /// The operator's writes since `mark`, without Leases; refused attempts count.
    pub async fn writes_since(&self, mark: Mark) -> Result<Vec<Entry>> {
        let user = format!(
            "system:serviceaccount:{}:{ACCOUNT}",
            self.options.lease_namespace
        );
        self.plane
            .writes_since(mark, |entry| entry.user == user && !entry.is_lease())
            .await
    }

    fn story(&self, namespace: Option<String>) -> Story {
        let scratch: Arc<Scratch> = Arc::clone(self.plane.scratch());
        let log = self.operator.as_ref().map(Operator::log_path);
        Story::new(self.plane.admin(), namespace, log, scratch)
    }

    pub(crate) fn kill_operator(&self) {
        if let Some(operator) = &self.operator {
            operator.kill();
        }
    }

    pub(crate) fn plane(&self) -> &Arc<ControlPlane> {
        &self.plane
    }
}
