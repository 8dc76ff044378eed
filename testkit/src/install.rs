//! What an operator needs in a cluster: CRDs, an account and its RBAC, as its binary prints them.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use tokio::process::Command;

use crate::{
    control_plane::ControlPlane,
    manifests,
    operator::{OperatorOptions, binary},
    story::{Story, holds},
};

/// The ServiceAccount that operators of a world run as.
pub(crate) const ACCOUNT: &str = "pontoon";
/// How long a command of the binary that only prints may take.
const PRINTS: Duration = Duration::from_secs(30);

/// Applies the CRDs and the RBAC that the binary prints for the features, and waits until the
/// kinds are served.
pub(crate) async fn install(plane: &ControlPlane, options: &OperatorOptions) -> Result<()> {
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
