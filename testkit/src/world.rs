//! A cluster with the operator, for stories.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use tokio::process::Command;

use crate::{
    audit::{Entry, Mark},
    aws::Aws,
    control_plane::{ControlPlane, Options},
    manifests,
    operator::{Operator, OperatorOptions, binary},
    story::{Story, Team, holds},
    vault::{Vault, VaultOptions},
};

/// The ServiceAccount that operators of a world run as.
const ACCOUNT: &str = "pontoon";
/// How long a command of the binary that only prints may take.
const PRINTS: Duration = Duration::from_secs(30);

/// A control plane, the operator, and optional servers. All end with this value.
///
/// The operator runs as a ServiceAccount with exactly the RBAC that the binary prints for its
/// features. Its Lease is in a separate namespace.
pub struct World {
    // The order of these fields is the order in which they end.
    operator: Operator,
    vault: Option<Vault>,
    aws: Option<Aws>,
    plane: Arc<ControlPlane>,
    /// Whether another world may use the control plane after this one.
    reuses_plane: bool,
    options: OperatorOptions,
}

/// A world that is not started yet.
#[derive(Default)]
#[must_use = "a world exists once it is started"]
pub struct WorldPlan {
    operator: OperatorOptions,
    plane: Option<Arc<ControlPlane>>,
    reuses_plane: bool,
    own: Options,
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

    /// The components of the world's own control plane.
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

    /// Starts all of it, and returns when the operator is ready.
    pub async fn start(self) -> Result<World> {
        let Self {
            operator: mut options,
            plane,
            reuses_plane,
            own,
            vault,
            aws,
        } = self;
        // First, because without the program nothing needs to be started.
        binary(options.binary.as_deref())?;
        let plane = match plane {
            Some(plane) => plane,
            None if reuses_plane => ControlPlane::reused().await?,
            None => Arc::new(ControlPlane::start(own).await?),
        };
        let vault = match vault {
            Some(how) => Some(Vault::start(how).await?),
            None => None,
        };
        let aws = if aws { Some(Aws::start().await?) } else { None };
        for (name, value) in aws.iter().flat_map(Aws::env) {
            options.env.push((name.to_owned(), value));
        }
        options.lease_namespace = unique("pontoon");
        options.kubeconfig = plane
            .as_service_account(&options.lease_namespace, ACCOUNT)
            .await?;
        install(&plane, &options)
            .await
            .inspect_err(|_| plane.scratch().preserve())?;
        let operator =
            Operator::start(&options.lease_namespace, plane.scratch(), options.clone()).await?;
        Ok(World {
            operator,
            vault,
            aws,
            plane,
            reuses_plane,
            options,
        })
    }
}

impl AsRef<World> for World {
    fn as_ref(&self) -> &World {
        self
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if self.reuses_plane && !std::thread::panicking() {
            self.operator.kill();
            self.plane.give_back();
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

    /// The operator.
    pub fn operator(&self) -> &Operator {
        &self.operator
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

    /// Ends all servers, as dropping it does. A reused control plane keeps running.
    pub fn end(&self) {
        self.operator.kill();
        if let Some(vault) = &self.vault {
            vault.kill();
        }
        if self.reuses_plane {
            self.plane.give_back();
        } else {
            self.plane.end();
        }
    }

    /// The options of the first operator.
    pub fn operator_options(&self) -> &OperatorOptions {
        &self.options
    }

    /// The namespace of the operator's ServiceAccount and Lease.
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
        let scratch = Arc::clone(self.plane.scratch());
        Story::new(
            self.plane.admin(),
            namespace,
            Some(self.operator.log_path()),
            scratch,
        )
    }
}

/// Applies the CRDs and the RBAC that the binary prints for the features, and waits until the
/// kinds are served.
async fn install(plane: &ControlPlane, options: &OperatorOptions) -> Result<()> {
    let client = plane.admin();
    let cluster = Story::new(client.clone(), None, None, Arc::clone(plane.scratch()));
    let namespace = options.lease_namespace.as_str();
    for feature in feature_flags(&options.features) {
        let crds = printed(options, "crds", &feature, &[]).await?;
        for crd in manifests::apply(&client, None, &crds).await? {
            let name = crd.name_any();
            cluster
                .until::<CustomResourceDefinition>(&name, holds("Established"))
                .await?;
        }
        let whose = ["--namespace", namespace, "--service-account", ACCOUNT];
        let rbac = printed(options, "rbac", &feature, &whose).await?;
        manifests::apply(&client, Some(namespace), &rbac).await?;
    }
    Ok(())
}

/// The flags of one call of the binary per feature; one call without flags means all features.
fn feature_flags(features: &[String]) -> Vec<Vec<&str>> {
    match features {
        [] => vec![vec![]],
        some => some
            .iter()
            .map(|name| vec!["--feature", name.as_str()])
            .collect(),
    }
}

/// The output of the binary for `verb`.
async fn printed(
    options: &OperatorOptions,
    verb: &str,
    feature: &[&str],
    args: &[&str],
) -> Result<String> {
    let program = binary(options.binary.as_deref())?;
    let mut command = Command::new(&program);
    command
        .arg(verb)
        .args(feature)
        .args(args)
        .kill_on_drop(true);
    let label = format!("{} {verb} {}", program.display(), feature.join(" "));
    let output = tokio::time::timeout(PRINTS, command.output())
        .await
        .with_context(|| format!("{label} does not end"))?
        .with_context(|| format!("cannot run {label}"))?;
    if !output.status.success() {
        bail!(
            "{label}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("{label} prints no text"))
}

/// `name` with an ending that no other run uses.
pub(crate) fn unique(name: &str) -> String {
    let ending: String = std::iter::repeat_with(fastrand::lowercase)
        .take(6)
        .collect();
    format!("{name}-{ending}")
}
