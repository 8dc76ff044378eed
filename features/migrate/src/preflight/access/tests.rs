//! The shipped roles and policies grant exactly what a run needs.

use std::collections::BTreeSet;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const SOURCE_ROLE: &str = include_str!("../../../../../docs/rbac/migrate-source.yaml");
const DESTINATION_ROLE: &str = include_str!("../../../../../docs/rbac/migrate-destination.yaml");
const BASE: &str = include_str!("../../../../../docs/iam/migrate.json");
const SNAPSHOTS: &str = include_str!("../../../../../docs/iam/migrate-snapshots.json");
const FENCE: &str = include_str!("../../../../../docs/iam/migrate-fence.json");
const OPTIONAL: &str = include_str!("../../../../../docs/iam/migrate-optional.json");

fn spec(fields: &Value) -> StatefulSetMigrationSpec {
    let mut spec = json!({
        "migrationId": "m",
        "sourceCluster": {"kubeConfigSecret": "a"},
        "destCluster": {"kubeConfigSecret": "b"},
        "sourceNamespace": "shop",
        "destNamespace": "shop",
        "statefulSetName": "web",
    });
    for (field, value) in fields.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    serde_json::from_value(spec).expect("it is a spec")
}

/// A verb on a resource: group, resource, verb, namespace.
type Right = (String, String, String, Option<String>);

fn texts(value: &Value) -> Vec<String> {
    let many = value.as_array().cloned();
    let many = many.unwrap_or_else(|| vec![value.clone()]);
    let texts = many.iter().map(|one| one.as_str().expect("it is a text"));
    texts.map(str::to_owned).collect()
}

/// What the bindings of a manifest grant to its only ServiceAccount.
fn granted(manifest: &str) -> BTreeSet<Right> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(manifest).expect("it is YAML");
    let of_kind = |kind: &'static str| objects.iter().filter(move |one| one["kind"] == kind);
    let account = of_kind("ServiceAccount").next().expect("it has one");
    let bindings = of_kind("ClusterRoleBinding").chain(of_kind("RoleBinding"));
    let mut rights = BTreeSet::new();
    for binding in bindings {
        let subject = &binding["subjects"][0];
        assert_eq!(subject["name"], account["metadata"]["name"]);
        assert_eq!(subject["namespace"], account["metadata"]["namespace"]);
        let namespace = binding["metadata"]["namespace"].as_str().map(str::to_owned);
        let name = &binding["roleRef"]["name"];
        let role = of_kind("ClusterRole").find(|role| role["metadata"]["name"] == *name);
        let rules = role.expect("the role is there")["rules"]
            .as_array()
            .cloned();
        for rule in rules.expect("it has rules") {
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    let verbs = texts(&rule["verbs"]).into_iter();
                    rights
                        .extend(verbs.map(|verb| {
                            (group.clone(), resource.clone(), verb, namespace.clone())
                        }));
                }
            }
        }
    }
    rights
}

#[rstest]
#[case::source(Side::Source, SOURCE_ROLE)]
#[case::destination(Side::Destination, DESTINATION_ROLE)]
fn the_shipped_role_is_what_a_run_needs(#[case] side: Side, #[case] manifest: &str) {
    let needed: BTreeSet<Right> = needed(side, "shop")
        .into_iter()
        .map(|access| {
            let text = str::to_owned;
            let Access {
                group,
                resource,
                verb,
                namespace,
            } = access;
            (text(group), text(resource), text(verb), namespace)
        })
        .collect();
    let granted = granted(manifest);
    let missing: Vec<_> = needed.difference(&granted).collect();
    let surplus: Vec<_> = granted.difference(&needed).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "missing {missing:?}, surplus {surplus:?}"
    );
}

fn actions(policy: &str) -> BTreeSet<String> {
    let policy: Value = serde_json::from_str(policy).expect("it is JSON");
    let statements = policy["Statement"].as_array().expect("it has statements");
    let all = statements.iter().flat_map(|one| texts(&one["Action"]));
    all.collect()
}

#[rstest]
#[case::base(json!({}), &[BASE])]
#[case::snapshots(json!({"snapshots": {"when": "AfterDetach"}}), &[BASE, SNAPSHOTS])]
#[case::fence(
    json!({"fence": {"sourceClusterName": "a", "destClusterName": "b"}}),
    &[BASE, FENCE]
)]
fn the_shipped_policies_are_what_a_run_needs(#[case] fields: Value, #[case] policies: &[&str]) {
    let needed = needed_calls(&spec(&fields));
    let needed: BTreeSet<String> = needed.iter().map(|call| call.as_str().to_owned()).collect();
    let allowed: BTreeSet<String> = policies.iter().flat_map(|policy| actions(policy)).collect();
    assert_eq!(allowed, needed);
}

#[test]
fn modifications_are_read_if_that_is_allowed() {
    let expected = BTreeSet::from(["ec2:DescribeVolumesModifications".to_owned()]);
    assert_eq!(actions(OPTIONAL), expected);
}
