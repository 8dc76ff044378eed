//! The commands that only print: `crds`, `rbac`, `version`, `completions`.

use clap::ArgMatches;
use engine::cli::{Answer, Finding, Outcome};
use engine::{AggregatedRole, Feature, Rbac, Usage, engine_rbac};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::listed::ListedByUser;
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
    let listed = ListedByUser::read(features, args)?;
    let mut rows = roles("engine", engine_rbac(), &namespace, &account);
    for feature in named(features, args)? {
        let rbac = listed.added_to(feature.rbac_with(&run)?);
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

/// What a part of the operator needs, as objects.
fn roles(part: &str, rbac: Rbac, namespace: &str, account: &str) -> Vec<Finding> {
    let rbac = rbac.for_account(account);
    let subjects = json!([{"kind": "ServiceAccount", "name": account, "namespace": namespace}]);
    let subjects = &subjects;
    let own = format!("pontoon-{part}");
    let mut rows = Vec::new();
    if !rbac.cluster.is_empty() {
        let role = json!({"metadata": {"name": own}, "rules": rbac.cluster});
        rows.extend(bound("ClusterRole", role, subjects));
    }
    if !rbac.own_namespace.is_empty() {
        let metadata = json!({"name": own, "namespace": namespace});
        let role = json!({"metadata": metadata, "rules": rbac.own_namespace});
        rows.extend(bound("Role", role, subjects));
    }
    for list in rbac.listed_namespaces {
        let name = format!("{own}-{}", list.purpose);
        for listed in &list.namespaces {
            let metadata = json!({"name": name, "namespace": listed});
            let role = json!({"metadata": metadata, "rules": list.rules});
            rows.extend(bound("Role", role, subjects));
        }
        // A value of the chart has a dot, and may be empty.
        let may_be_empty = list.namespaces.iter().all(|listed| listed.contains('.'));
        if list.everywhere_if_empty && may_be_empty {
            let role = json!({"metadata": {"name": name}, "rules": list.rules});
            rows.extend(bound("ClusterRole", role, subjects));
        }
    }
    for role in rbac.cluster_roles {
        let is_bound = role.is_bound;
        let rows_of_role = bound("ClusterRole", aggregated(&own, role), subjects);
        rows.extend(rows_of_role.into_iter().take(if is_bound { 2 } else { 1 }));
    }
    rows.extend(rbac.objects.into_iter().map(row));
    rows
}

/// A ClusterRole that is part of others, or that has the rules of others.
fn aggregated(own: &str, role: AggregatedRole) -> Value {
    let mut metadata = json!({"name": format!("{own}-{}", role.purpose)});
    if !role.labels.is_empty() {
        metadata["labels"] = json!(role.labels);
    }
    let mut object = json!({"metadata": metadata});
    if !role.rules.is_empty() {
        object["rules"] = json!(role.rules);
    }
    if !role.aggregates.is_empty() {
        let selectors = role.aggregates.into_iter();
        let selectors: Vec<_> = selectors
            .map(|labels| json!({"matchLabels": labels}))
            .collect();
        object["aggregationRule"] = json!({"clusterRoleSelectors": selectors});
    }
    object
}

/// A role of this kind, and its binding to the operator's account.
fn bound(kind: &str, mut role: Value, subjects: &Value) -> [Finding; 2] {
    let api = "rbac.authorization.k8s.io";
    let (name, namespace) = (&role["metadata"]["name"], &role["metadata"]["namespace"]);
    let mut binding = json!({
        "apiVersion": format!("{api}/v1"),
        "kind": format!("{kind}Binding"),
        "metadata": {"name": name},
        "roleRef": {"apiGroup": api, "kind": kind, "name": name},
        "subjects": subjects,
    });
    if !namespace.is_null() {
        binding["metadata"]["namespace"] = namespace.clone();
    }
    role["apiVersion"] = json!(format!("{api}/v1"));
    role["kind"] = json!(kind);
    let mut binding = row(binding);
    let role = row(role);
    binding.cells[2].clone_from(&role.cells[2]);
    [role, binding]
}

fn row(object: Value) -> Finding {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
    let rules = object["rules"].as_array();
    Finding {
        name: format!("{}/{name}", kind.to_lowercase()),
        cells: vec![kind, name, rules.map_or(0, Vec::len).to_string()],
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use engine::{ListedNamespaces, OWN_ACCOUNT, rule};
    use rstest::rstest;

    use super::*;

    /// A feature with every kind of permission. The chart's test renders what is printed for it.
    fn made_up() -> Rbac {
        let labels = |name: &str| BTreeMap::from([(name.to_owned(), "true".to_owned())]);
        let get = |resource| rule("harbour.example", &[resource], &["get"]);
        let mut token = rule("", &["serviceaccounts/token"], &["create"]);
        token.resource_names = Some(vec![OWN_ACCOUNT.to_owned()]);
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "pontoon-harbour-guard"},
            "spec": {
                "matchConstraints": {"resourceRules": [
                    {"apiGroups": ["harbour.example"], "apiVersions": ["*"], "operations": ["DELETE"], "resources": ["ships"]},
                ]},
                "validations": [{"expression": "oldObject.spec.empty"}],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "pontoon-harbour-guard"},
            "spec": {"policyName": "pontoon-harbour-guard", "validationActions": ["Deny"]},
        });
        Rbac {
            cluster: vec![get("ships")],
            own_namespace: vec![token.clone()],
            listed_namespaces: vec![ListedNamespaces {
                value: "harbour.pilotNamespaces",
                purpose: "pilots",
                namespaces: vec!["harbour.pilotNamespaces".into()],
                rules: vec![get("pilots"), token],
                everywhere_if_empty: true,
            }],
            cluster_roles: vec![
                AggregatedRole {
                    purpose: "cargo",
                    aggregates: vec![labels("harbour.example/aggregate-to-cargo")],
                    is_bound: true,
                    ..AggregatedRole::default()
                },
                AggregatedRole {
                    purpose: "view",
                    labels: labels("rbac.authorization.k8s.io/aggregate-to-view"),
                    rules: vec![get("ships")],
                    ..AggregatedRole::default()
                },
            ],
            objects: vec![policy, binding],
        }
    }

    #[test]
    fn every_kind_of_permission_is_printed() {
        let rows = roles(
            "harbour",
            made_up(),
            "release-namespace",
            "release-service-account",
        );
        let yaml = |row: &Finding| serde_saphyr::to_string(&row.full).unwrap();
        let documents = rows
            .iter()
            .map(|row| format!("---\n{}\n", yaml(row).trim_end()));
        let text: String = documents.collect();
        assert_eq!(text, include_str!("print/made_up.yaml"), "{text}");
    }

    #[test]
    fn a_role_is_printed_for_each_listed_namespace() {
        let mut rbac = made_up();
        rbac.listed_namespaces[0].namespaces = vec!["east".into(), "west".into()];
        let rows = roles("harbour", rbac, "own", "account");
        let named = |row: &&Finding| row.full["metadata"]["name"] == "pontoon-harbour-pilots";
        let cells = rows.iter().filter(named).map(|row| {
            let namespace = row.full["metadata"]["namespace"].as_str();
            (row.cells[0].as_str(), namespace.unwrap_or_default())
        });
        let expected = [
            ("Role", "east"),
            ("RoleBinding", "east"),
            ("Role", "west"),
            ("RoleBinding", "west"),
        ];
        assert_eq!(cells.collect::<Vec<_>>(), expected);
    }

    #[rstest]
    #[case::everywhere(true, &["ClusterRole", "ClusterRoleBinding"])]
    #[case::nowhere(false, &[])]
    fn without_a_listed_namespace_a_role_is_printed(
        #[case] everywhere_if_empty: bool,
        #[case] expected: &[&str],
    ) {
        let mut rbac = made_up();
        rbac.listed_namespaces[0].namespaces.clear();
        rbac.listed_namespaces[0].everywhere_if_empty = everywhere_if_empty;
        let rows = roles("harbour", rbac, "own", "account");
        let named = |row: &&Finding| row.cells[1] == "pontoon-harbour-pilots";
        let kinds: Vec<_> = rows
            .iter()
            .filter(named)
            .map(|row| &*row.cells[0])
            .collect();
        assert_eq!(kinds, expected);
    }

    #[test]
    fn an_aggregated_role_is_bound_only_if_the_operator_has_it() {
        let rows = roles("harbour", made_up(), "own", "account");
        let bindings = rows
            .iter()
            .filter(|row| row.cells[0] == "ClusterRoleBinding");
        let names: Vec<_> = bindings.map(|row| row.cells[1].as_str()).collect();
        let expected = [
            "pontoon-harbour",
            "pontoon-harbour-pilots",
            "pontoon-harbour-cargo",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn no_two_objects_of_the_features_have_one_name() {
        let lists = ["a", "b"].map(str::to_owned);
        let mut names = std::collections::BTreeSet::new();
        for feature in features::all() {
            let mut rbac = feature.rbac();
            for list in &mut rbac.listed_namespaces {
                list.namespaces = lists.to_vec();
            }
            for row in roles(feature.name(), rbac, "own", "account") {
                let namespace = row.full["metadata"]["namespace"].to_string();
                assert!(names.insert((row.name.clone(), namespace)), "{}", row.name);
                let own = format!("pontoon-{}", feature.name());
                let name = row.cells[1]
                    .strip_prefix(&own)
                    .expect("its name is the feature's");
                assert!(name.is_empty() || name.starts_with('-'), "{}", row.name);
            }
        }
    }
}
