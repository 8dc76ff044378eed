//! Worlds of several clusters: a plan per feature, and their settings for a shell.

use std::path::Path;

use testkit::tools::Tool;
use testkit::{Cluster, ClusterPlan, Options, World, WorldPlan};

/// What every plan here runs.
pub(crate) const TOOLS: [Tool; 3] = [Tool::Etcd, Tool::KubeApiserver, Tool::KubeControllerManager];

/// The clusters of a feature's world; `None` if it has one cluster, with Vault and AWS.
pub(crate) fn plan(feature: &str) -> Option<WorldPlan> {
    let cluster = || {
        ClusterPlan::from(Options {
            controller_manager: true,
            ..Options::default()
        })
    };
    match feature {
        // An operator in each, as two cells of a platform.
        "probe" => Some(
            World::new()
                .feature("probe")
                .cluster("A", cluster())
                .cluster("B", cluster().operator(&["probe"], &[])),
        ),
        _ => None,
    }
}

/// The variables for a shell, those of each cluster behind its name; `pids` is the file of
/// [`pid_lines`].
pub(crate) fn settings(world: &World, pids: &Path) -> Vec<(String, String)> {
    let clusters = world.clusters().iter();
    let mut all: Vec<(String, String)> = clusters
        .flat_map(|cluster| prefixed(cluster.name(), of_cluster(cluster)))
        .collect();
    all.push(("PIDS".to_owned(), pids.display().to_string()));
    all
}

fn of_cluster(cluster: &Cluster) -> Vec<(&'static str, String)> {
    let plane = cluster.control_plane();
    let mut settings = vec![
        ("", plane.kubeconfig().display().to_string()),
        ("PROXY", cluster.proxy().url().to_owned()),
        ("FAULTS", cluster.faults().url().to_owned()),
        ("AUDIT", plane.audit_log().display().to_string()),
    ];
    if !cluster.operator_namespace().is_empty() {
        let kubeconfig = cluster.operator_options().kubeconfig.display();
        settings.push(("OPERATOR", kubeconfig.to_string()));
    }
    if let Some(operator) = cluster.any_operator() {
        settings.extend([
            ("PID", operator.pid().to_string()),
            ("LOG", operator.log_path().display().to_string()),
            ("PROBES", operator.probes_url()),
            ("METRICS", operator.metrics_url()),
        ]);
    }
    settings
}

/// `X` and `X_<setting>` for the cluster `x`.
fn prefixed(cluster: &str, settings: Vec<(&str, String)>) -> Vec<(String, String)> {
    let name: String = cluster
        .chars()
        .map(|one| match one.to_ascii_uppercase() {
            letter if letter.is_ascii_alphanumeric() => letter,
            _ => '_',
        })
        .collect();
    let named = |setting: &str| match setting {
        "" => name.clone(),
        setting => format!("{name}_{setting}"),
    };
    let all = settings.into_iter();
    all.map(|(setting, value)| (named(setting), value))
        .collect()
}

/// `<cluster>-<program> <pid>` for each program of the world.
pub(crate) fn pid_lines(world: &World) -> String {
    let of_cluster = |cluster: &Cluster| {
        let operator = cluster.any_operator();
        let mut pids = cluster.control_plane().pids();
        pids.extend(operator.map(|operator| ("pontoon".to_owned(), operator.pid())));
        let name = cluster.name();
        let lines = pids
            .iter()
            .map(|(program, pid)| format!("{name}-{program} {pid}\n"));
        lines.collect::<String>()
    };
    world.clusters().iter().map(of_cluster).collect()
}

#[cfg(test)]
mod tests {
    use super::prefixed;

    #[test]
    fn settings_begin_with_the_name_of_their_cluster() {
        let settings = vec![("", "file".to_owned()), ("PROXY", "url".to_owned())];
        let pairs = [("DST_2", "file"), ("DST_2_PROXY", "url")];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(prefixed("dst-2", settings), pairs);
    }
}
