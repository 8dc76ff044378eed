//! Clusters with the operator, for stories.

use std::{ops::Deref, path::PathBuf, sync::Arc};

use anyhow::{Context, Result, ensure};

use crate::{
    aws::Aws,
    certs::Authority,
    cluster::{Cluster, ClusterPlan, Installation},
    control_plane::{ControlPlane, Options},
    fault_proxy::Upstream,
    operator::{OperatorOptions, binary},
    vault::{Vault, VaultOptions},
};

/// Control planes, the operator in one of them, and optional servers. All end with this value.
///
/// As a [`Cluster`], it is the one of the operator; [`World::named_cluster`] is any.
pub struct World {
    // The order of these fields is the order in which they end.
    clusters: Vec<Cluster>,
    vault: Option<Vault>,
    aws: Option<Aws>,
    /// The position of the operator's cluster.
    main: usize,
    /// Whether another world may use the control plane after this one.
    reuses_plane: bool,
}

/// A world that is not started yet.
#[derive(Default)]
#[must_use = "a world exists once it is started"]
pub struct WorldPlan {
    operator: OperatorOptions,
    plane: Option<Arc<ControlPlane>>,
    reuses_plane: bool,
    own: Options,
    clusters: Vec<(String, ClusterPlan)>,
    main: Option<String>,
    vault: Option<VaultOptions>,
    aws: bool,
}

impl WorldPlan {
    /// Turns on a feature; without any, all are on.
    pub fn feature(mut self, name: &str) -> Self {
        self.operator.features.push(name.to_owned());
        self
    }

    /// Lets time run `factor` times as fast inside the operator.
    pub fn time(mut self, factor: u32) -> Self {
        self.operator.time_factor = Some(factor);
        self
    }

    /// The operator aborts at the point `name`.
    pub fn kill_point(mut self, name: &str) -> Self {
        self.operator.kill_point = Some(name.to_owned());
        self
    }

    /// Adds a flag for the operator.
    pub fn arg(mut self, flag: impl Into<String>) -> Self {
        self.operator.args.push(flag.into());
        self
    }

    /// Adds a variable to the operator's environment.
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.operator.env.push((name.to_owned(), value.into()));
        self
    }

    /// Another program than `$PONTOON_BIN` names.
    pub fn binary(mut self, program: impl Into<PathBuf>) -> Self {
        self.operator.binary = Some(program.into());
        self
    }

    /// Adds a Vault that stores its data in files and can be sealed and restarted.
    pub fn vault(mut self) -> Self {
        self.vault = Some(VaultOptions::file());
        self
    }

    /// Adds AWS, with its usual variables in the operator's environment.
    pub fn aws(mut self) -> Self {
        self.aws = true;
        self
    }

    /// The components of the world's own control plane, if no cluster has a name.
    pub fn own_control_plane(mut self, options: Options) -> Self {
        self.own = options;
        self
    }

    /// Uses an existing control plane, for example for a second operator beside a first.
    ///
    /// # When not to use it
    /// With the shared one: the operator sees all namespaces, so worlds would disturb each other.
    pub fn on(mut self, plane: Arc<ControlPlane>) -> Self {
        self.plane = Some(plane);
        self
    }

    /// Uses a control plane that earlier worlds of this process have used, one after another. Saves
    /// the time of a start.
    ///
    /// # When not to use it
    /// If the story stops or freezes servers, or changes CRDs: the next world would be affected.
    pub fn on_reused_plane(mut self) -> Self {
        self.reuses_plane = true;
        self
    }

    /// Adds a cluster with this name. The first one is the operator's, unless
    /// [`Self::operator_in`] chooses another.
    pub fn cluster(mut self, name: &str, plan: impl Into<ClusterPlan>) -> Self {
        self.clusters.push((name.to_owned(), plan.into()));
        self
    }

    /// Runs the world's operator in this cluster.
    pub fn operator_in(mut self, cluster: &str) -> Self {
        self.main = Some(cluster.to_owned());
        self
    }

    /// Starts all of it, and returns when every operator is ready.
    pub async fn start(self) -> Result<World> {
        // First, because without the program nothing needs to be started.
        binary(self.operator.binary.as_deref())?;
        let main = self.main_cluster()?;
        let planes = self.planes().await?;
        let Self {
            mut operator,
            reuses_plane,
            mut clusters,
            vault,
            aws,
            ..
        } = self;
        if clusters.is_empty() {
            clusters.push((String::new(), ClusterPlan::new()));
        }
        let vault = match vault {
            Some(how) => Some(Vault::start(how).await?),
            None => None,
        };
        let aws = if aws { Some(Aws::start().await?) } else { None };
        for (name, value) in aws.iter().flat_map(Aws::env) {
            operator.env.push((name.to_owned(), value));
        }
        let names = clusters.iter().map(|(name, _)| name.clone());
        let upstreams: Vec<(String, Upstream)> = names
            .zip(planes.iter().map(|plane| plane.upstream()))
            .collect();
        let mut started = Vec::new();
        for (at, ((name, plan), plane)) in clusters.iter().zip(planes).enumerate() {
            let installation = if at == main {
                Some(Installation {
                    options: operator.clone(),
                    runs: true,
                })
            } else {
                plan.installation(&operator)
            };
            started.push(Cluster::start(name, plane, &upstreams, installation).await?);
        }
        Ok(World {
            clusters: started,
            vault,
            aws,
            main,
            reuses_plane,
        })
    }

    /// The position of the operator's cluster.
    fn main_cluster(&self) -> Result<usize> {
        let named = |name: &str| self.clusters.iter().position(|(own, _)| own == name);
        let main = match &self.main {
            None => 0,
            Some(name) => named(name).with_context(|| format!("no cluster is named {name}"))?,
        };
        for (at, (name, plan)) in self.clusters.iter().enumerate() {
            ensure!(!name.is_empty(), "a cluster needs a name");
            ensure!(named(name) == Some(at), "two clusters are named {name}");
            ensure!(
                at != main || plan.features.is_none(),
                "{name} is the cluster of the world's operator: choose its features by \
                 WorldPlan::feature"
            );
        }
        Ok(main)
    }

    /// The control planes of its clusters; one if none is named.
    async fn planes(&self) -> Result<Vec<Arc<ControlPlane>>> {
        if self.clusters.is_empty() {
            let plane = match &self.plane {
                Some(plane) => Arc::clone(plane),
                None if self.reuses_plane => ControlPlane::reused().await?,
                None => Arc::new(ControlPlane::start(self.own.clone()).await?),
            };
            return Ok(vec![plane]);
        }
        ensure!(
            self.plane.is_none() && !self.reuses_plane,
            "named clusters have control planes of their own"
        );
        let planes = ControlPlane::start_together(self.cluster_options()?).await?;
        Ok(planes.into_iter().map(Arc::new).collect())
    }

    /// The options of the clusters' control planes, each with an authority.
    fn cluster_options(&self) -> Result<Vec<Options>> {
        let mut authorities = Vec::new();
        for (_, plan) in &self.clusters {
            authorities.push(match &plan.options.authority {
                Some(given) => given.clone(),
                None => Authority::new()?,
            });
        }
        let all = self.clusters.iter().zip(&authorities);
        all.map(|((_, plan), own)| {
            let authority = match &plan.authority_of {
                None => own,
                Some(other) => {
                    let at = self.clusters.iter().position(|(name, _)| name == other);
                    let at = at.with_context(|| format!("no cluster is named {other}"))?;
                    &authorities[at]
                }
            };
            Ok(Options {
                authority: Some(authority.clone()),
                ..plan.options.clone()
            })
        })
        .collect()
    }
}

impl AsRef<World> for World {
    fn as_ref(&self) -> &World {
        self
    }
}

impl Deref for World {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.clusters[self.main]
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for cluster in &self.clusters {
            cluster.kill_operator();
        }
        if self.reuses_plane && !std::thread::panicking() {
            self.plane().give_back();
        }
    }
}

impl World {
    /// A plan to complete and start.
    #[expect(
        clippy::new_ret_no_self,
        reason = "a story begins with the world, not with its plan"
    )]
    pub fn new() -> WorldPlan {
        WorldPlan::default()
    }

    /// The cluster of this name.
    ///
    /// # Panics
    /// When the plan has none of this name.
    pub fn named_cluster(&self, name: &str) -> &Cluster {
        let mut clusters = self.clusters.iter();
        clusters
            .find(|cluster| cluster.name() == name)
            .unwrap_or_else(|| panic!("the plan has no cluster {name}"))
    }

    /// All clusters, in the order of the plan.
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// Vault.
    ///
    /// # Panics
    /// When the plan did not ask for one.
    pub fn vault(&self) -> &Vault {
        self.vault
            .as_ref()
            .expect("the plan asks for Vault: World::new().vault()")
    }

    /// AWS.
    ///
    /// # Panics
    /// When the plan did not ask for it.
    pub fn aws(&self) -> &Aws {
        self.aws
            .as_ref()
            .expect("the plan asks for AWS: World::new().aws()")
    }

    /// Ends all servers, as dropping it does; proxies stay until then. A reused control plane keeps
    /// running.
    pub fn end(&self) {
        for cluster in &self.clusters {
            cluster.kill_operator();
        }
        if let Some(vault) = &self.vault {
            vault.kill();
        }
        if self.reuses_plane {
            self.plane().give_back();
            return;
        }
        for cluster in &self.clusters {
            cluster.control_plane().end();
        }
    }
}

/// `name` with an ending that no other run uses.
pub(crate) fn unique(name: &str) -> String {
    let ending: String = std::iter::repeat_with(fastrand::lowercase)
        .take(6)
        .collect();
    format!("{name}-{ending}")
}
