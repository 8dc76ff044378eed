//! The verbs that only print: `crds`, `rbac`, `version`, `completions`.

use clap::ArgMatches;
use engine::{Feature, Rbac, Usage, engine_rbac};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::output::{Format, Listing, Row};
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
            rows.push(Row {
                name: crd.name_any(),
                cells,
                full: serde_json::to_value(&crd)?,
            });
        }
    }
    Listing {
        columns: &["name", "kind", "feature"],
        rows,
    }
    .print(format(args))?;
    Ok(true)
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
    Listing {
        columns: &["kind", "name", "rules"],
        rows,
    }
    .print(format(args))?;
    Ok(true)
}

/// The features `--feature` names; all without it.
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

fn roles(part: &str, rbac: Rbac, namespace: &str, account: &str) -> Vec<Row> {
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

fn row(kind: &str, rules: usize, mut object: Value) -> Row {
    object["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
    object["kind"] = json!(kind);
    let name = object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    Row {
        name: format!("{}/{name}", kind.to_lowercase()),
        cells: vec![kind.to_owned(), name, rules.to_string()],
        full: object,
    }
}

/// `pontoon version`.
pub(crate) fn version(args: &ArgMatches) -> Verdict {
    let version = env!("CARGO_PKG_VERSION");
    let row = Row {
        name: version.to_owned(),
        cells: vec![version.to_owned()],
        full: json!({"version": version}),
    };
    Listing {
        columns: &["version"],
        rows: vec![row],
    }
    .print(format(args))?;
    Ok(true)
}

/// `pontoon completions <shell>`.
#[allow(clippy::unnecessary_wraps)] // one signature for all verbs
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

/// `-o`.
pub(crate) fn format(args: &ArgMatches) -> Format {
    args.get_one::<Format>("output")
        .copied()
        .unwrap_or(Format::Table)
}
