//! The commands that only print: `crds`, `rbac`, `version`, `completions`.

use clap::ArgMatches;
use engine::cli::{Answer, Finding, Outcome};
use engine::{Feature, Rbac, Usage, engine_rbac};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::{cli, features};

type Verdict = Result<bool, Box<dyn std::error::Error>>;

/// `pontoon crds`: the CRDs of the chosen features.
pub(crate) fn crds(features: &[Box<dyn Feature>], args: &ArgMatches) -> Verdict {
    let mut rows = Vec::new();
    for feature in named(features, args)? {
        for crd in feature.crds() {
            let cells = vec![
                crd.name_any(),
                crd.spec.names.kind.clone(),
                feature.name().to_owned(),
            ];
            rows.push(Finding {
                name: crd.name_any(),
                cells,
                full: serde_json::to_value(&crd)?,
            });
        }
    }
    show(&["name", "kind", "feature"], rows, args)
}

/// `pontoon rbac`: roles and bindings for the engine and each chosen feature.
pub(crate) fn rbac(features: &[Box<dyn Feature>], args: &ArgMatches) -> Verdict {
    let value = |name: &str| args.get_one::<String>(name).cloned().unwrap_or_default();
    let (namespace, account) = (value("namespace"), value("service-account"));
    let run = cli::as_run(features, args)?;
    let mut rows = roles("engine", engine_rbac(), &namespace, &account);
    for feature in named(features, args)? {
        let rbac = feature.rbac_with(&run)?;
        rows.extend(roles(feature.name(), rbac, &namespace, &account));
    }
    show(&["kind", "name", "rules"], rows, args)
}

/// The features that `--feature` names; all without it.
pub(crate) fn named<'a>(
    all: &'a [Box<dyn Feature>],
    args: &ArgMatches,
) -> Result<Vec<&'a dyn Feature>, Usage> {
    let names: Vec<String> = args
        .get_many("feature")
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    features::check(all, &names)?;
    Ok(all
        .iter()
        .map(AsRef::as_ref)
        .filter(|f| names.is_empty() || names.iter().any(|name| name == f.name()))
        .collect())
}

fn roles(part: &str, rbac: Rbac, namespace: &str, account: &str) -> Vec<Finding> {
    let rbac = rbac.for_account(account);
    let name = format!("pontoon-{part}");
    let subjects = json!([{"kind": "ServiceAccount", "name": account, "namespace": namespace}]);
    let mut rows = Vec::new();
    for (prefix, rules) in [("Cluster", rbac.cluster), ("", rbac.own_namespace)] {
        if rules.is_empty() {
            continue;
        }
        let count = rules.len();
        let mut metadata = json!({"name": name});
        if prefix.is_empty() {
            metadata["namespace"] = json!(namespace);
        }
        let role = format!("{prefix}Role");
        let reference =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name});
        rows.push(row(
            &role,
            count,
            json!({"metadata": metadata, "rules": rules}),
        ));
        let binding = json!({"metadata": metadata, "roleRef": reference, "subjects": subjects});
        rows.push(row(&format!("{role}Binding"), count, binding));
    }
    rows
}

fn row(kind: &str, rules: usize, mut object: Value) -> Finding {
    object["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
    object["kind"] = json!(kind);
    let name = object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    Finding {
        name: format!("{}/{name}", kind.to_lowercase()),
        cells: vec![kind.to_owned(), name, rules.to_string()],
        full: object,
    }
}

/// `pontoon version`.
pub(crate) fn version(args: &ArgMatches) -> Verdict {
    let version = env!("CARGO_PKG_VERSION");
    let row = Finding {
        name: version.to_owned(),
        cells: vec![version.to_owned()],
        full: json!({"version": version}),
    };
    show(&["version"], vec![row], args)
}

/// `pontoon completions <shell>`.
#[allow(clippy::unnecessary_wraps)] // one signature for all commands
pub(crate) fn completions(features: &[Box<dyn Feature>], args: &ArgMatches) -> Verdict {
    if let Some(shell) = args.get_one::<clap_complete::Shell>("shell") {
        clap_complete::generate(
            *shell,
            &mut cli::command(features),
            "pontoon",
            &mut std::io::stdout(),
        );
    }
    Ok(true)
}

/// Prints rows that need no check.
fn show(columns: &'static [&'static str], rows: Vec<Finding>, args: &ArgMatches) -> Verdict {
    Answer::table(columns, rows, Outcome::Holds).print(args)?;
    Ok(true)
}
