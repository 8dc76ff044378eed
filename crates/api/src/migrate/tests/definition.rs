//! What the definition of the kind says.

use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use super::{WHOLE, objects};
use crate::schema::unused;

#[test]
fn the_whole_object_has_every_field_and_breaks_no_rule() {
    let whole = objects(WHOLE).remove(0);
    let schema = schema();
    for part in ["spec", "status"] {
        let unused = unused(&schema["properties"][part], vec![&whole[part]]);
        assert_eq!(unused, [""; 0], "{part}");
    }
    let spec: StatefulSetMigrationSpec = serde_json::from_value(whole["spec"].clone()).unwrap();
    assert_eq!(spec.check(), Ok(()));
}

fn crd() -> CustomResourceDefinition {
    crds().remove(0)
}

fn schema() -> Value {
    let schema = serde_json::to_value(&crd().spec.versions[0].schema).expect("JSON");
    schema["openAPIV3Schema"].clone()
}

/// The schema of a field of the spec.
fn field(path: &str) -> Value {
    let steps = path.split('.');
    steps.fold(schema()["properties"]["spec"].clone(), |schema, name| {
        schema["properties"][name].clone()
    })
}

#[rstest]
#[case::key("sourceCluster.kubeConfigKey", json!("kubeconfig"))]
#[case::force("force", json!(false))]
#[case::detach("volumeDetachTimeout", json!("5m"))]
#[case::ready("podReadyTimeout", json!("10m"))]
#[case::attach("attachTimeout", json!("5m"))]
#[case::dry_run("dryRun", json!(false))]
#[case::paused("paused", json!(false))]
#[case::retry("retry", json!(0))]
#[case::on_failure("onFailure", json!("Pause"))]
#[case::dormant_claims("dormantClaims", json!("Move"))]
#[case::snapshots("snapshots", json!({}))]
#[case::snapshot_time("snapshots.when", json!("Never"))]
#[case::cleanup("sourceCleanup", json!({}))]
#[case::cleanup_policy("sourceCleanup.policy", json!("Delete"))]
#[case::soak("sourceCleanup.soak", json!("10m"))]
#[case::reclaim_policy("destReclaimPolicy", json!("Retain"))]
#[case::strategy("strategy", Value::Null)]
#[case::abort("abort", Value::Null)]
#[case::ordinal_limit("ordinalLimit", Value::Null)]
#[case::pod_termination("podTerminationTimeout", Value::Null)]
#[case::fence("fence", Value::Null)]
#[case::migration_id("migrationId", Value::Null)]
fn the_api_server_fills_in(#[case] path: &str, #[case] default: Value) {
    assert_eq!(field(path)["default"], default);
}

#[rstest]
#[case::mapping("storageClassMapping", "maxProperties", json!(64))]
#[case::mapped_class("storageClassMapping", "additionalProperties", json!({"type": "string", "maxLength": 253}))]
#[case::acknowledged("acknowledge", "maxItems", json!(64))]
#[case::tags("snapshots.tags", "maxProperties", json!(20))]
#[case::tag("snapshots.tags", "additionalProperties", json!({"type": "string", "maxLength": 256}))]
#[case::retry("retry", "minimum", json!(0.0))]
#[case::ordinal_limit("ordinalLimit", "minimum", json!(0.0))]
#[case::highest_ordinal_limit("ordinalLimit", "maximum", json!(2_147_483_647.0))]
#[case::source_namespace("sourceNamespace", "maxLength", json!(63))]
#[case::dest_namespace("destNamespace", "maxLength", json!(63))]
#[case::stateful_set("statefulSetName", "maxLength", json!(253))]
#[case::strategy("strategy", "enum", json!(["Window", "OrphanAdopt"]))]
#[case::abort("abort", "enum", json!(["Rollback", "Leave"]))]
#[case::on_failure("onFailure", "enum", json!(["Pause", "Rollback"]))]
#[case::dormant_claims("dormantClaims", "enum", json!(["Move", "Leave", "Refuse"]))]
#[case::snapshots("snapshots.when", "enum", json!(["Never", "AfterDetach"]))]
#[case::cleanup("sourceCleanup.policy", "enum", json!(["Delete", "Keep"]))]
#[case::reclaim("destReclaimPolicy", "enum", json!(["Retain", "Restore"]))]
#[case::any_migration_id("migrationId", "maxLength", Value::Null)]
fn bounds_are_in_the_schema(#[case] path: &str, #[case] bound: &str, #[case] expected: Value) {
    assert_eq!(field(path)[bound], expected);
}

#[rstest]
fn every_duration_has_the_pattern_of_the_contract(
    #[values(
        "volumeDetachTimeout",
        "podReadyTimeout",
        "podTerminationTimeout",
        "attachTimeout",
        "sourceCleanup.soak"
    )]
    path: &str,
) {
    let pattern = "^(0|([0-9]+(\\.[0-9]+)?(ns|us|\u{b5}s|ms|s|m|h))+)$";
    assert_eq!(field(path)["pattern"], pattern);
}

#[test]
fn exactly_these_fields_of_a_spec_are_required() {
    let required = schema()["properties"]["spec"]["required"].clone();
    let mut required: Vec<String> = serde_json::from_value(required).unwrap();
    required.sort();
    let expected = [
        "destCluster",
        "destNamespace",
        "migrationId",
        "sourceCluster",
        "sourceNamespace",
        "statefulSetName",
    ];
    assert_eq!(required, expected);
    assert_eq!(
        field("sourceCluster")["required"],
        json!(["kubeConfigSecret"])
    );
    assert_eq!(schema()["properties"]["status"]["required"], Value::Null);
}

/// The rules at the root: path of the field, and message.
fn root_rules() -> Vec<(String, String)> {
    let rules = schema()["x-kubernetes-validations"].clone();
    let rules = rules.as_array().expect("rules").clone();
    let text = |rule: &Value, key: &str| rule[key].as_str().expect("a text").to_owned();
    rules
        .iter()
        .map(|rule| (text(rule, "fieldPath"), text(rule, "message")))
        .collect()
}

#[test]
fn the_fields_that_a_start_freezes_are_all_but_the_listed_ones() {
    let free = [
        "force",
        "paused",
        "abort",
        "retry",
        "ordinalLimit",
        "acknowledge",
        "onFailure",
        "volumeDetachTimeout",
        "podReadyTimeout",
        "podTerminationTimeout",
        "attachTimeout",
        "sourceCleanup",
    ];
    let fields = schema()["properties"]["spec"]["properties"].clone();
    let fields = fields.as_object().expect("fields").clone();
    let mut expected: Vec<_> = fields
        .keys()
        .filter(|name| !free.contains(&name.as_str()))
        .collect();
    expected.sort();
    let frozen = root_rules().into_iter();
    let frozen = frozen.filter(|(_, message)| message.ends_with("after the migration has started"));
    let mut frozen: Vec<_> = frozen.map(|(path, _)| path.replace(".spec.", "")).collect();
    frozen.sort();
    assert_eq!(frozen.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn every_rule_names_its_field() {
    for (path, message) in root_rules() {
        assert!(message.starts_with(&path[1..]), "{path}: {message}");
    }
    for (path, message) in [
        (
            "fence",
            "spec.fence needs both sourceClusterName and destClusterName, or neither",
        ),
        (
            "snapshots.tags",
            "keys of spec.snapshots.tags have 1 to 128 characters and do not begin with aws:, pontoon.io/ or migration.aqua.io/",
        ),
    ] {
        assert_eq!(
            field(path)["x-kubernetes-validations"][0]["message"],
            message
        );
    }
}

#[test]
fn no_field_accepts_null_or_has_an_unknown_format() {
    for part in ["spec", "status"] {
        let text = schema()["properties"][part]["properties"].to_string();
        for term in ["nullable", "anyOf", "oneOf", "\"uint", "uniqueItems"] {
            assert!(!text.contains(term), "{term} in the {part}");
        }
    }
}

#[test]
fn conditions_are_a_map_by_type() {
    let conditions = schema()["properties"]["status"]["properties"]["conditions"].clone();
    assert_eq!(conditions["x-kubernetes-list-type"], "map");
    assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
}

#[test]
fn the_kind_is_served_under_its_inherited_names() {
    let CustomResourceDefinition { metadata, spec, .. } = crd();
    assert_eq!(
        metadata.name.as_deref(),
        Some("statefulsetmigrations.migration.aqua.io")
    );
    assert_eq!((&*spec.group, &*spec.scope), (names::GROUP, "Namespaced"));
    assert_eq!(
        spec.names.short_names.unwrap_or_default(),
        ["stsm", "stsmigration"]
    );
    let [version] = &*spec.versions else {
        panic!("one version")
    };
    assert_eq!(
        (&*version.name, version.served, version.storage),
        ("v1alpha1", true, true)
    );
    let subresources = version.subresources.as_ref().expect("subresources");
    assert!(subresources.status.is_some());
}

#[test]
fn inherited_columns_come_first_and_others_are_wide() {
    let columns = crd().spec.versions.remove(0).additional_printer_columns;
    let columns = columns.expect("columns");
    let of = |priority| {
        let shown = columns
            .iter()
            .filter(|one| one.priority.unwrap_or(0) == priority);
        shown.map(|one| &*one.name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(of(0), "Phase Progress Total Age");
    assert_eq!(of(1), "Reason Step Ordinal Strategy StatefulSet");
    let path = |name: &str| {
        columns
            .iter()
            .find(|one| one.name == name)
            .map(|one| &*one.json_path)
    };
    assert_eq!(path("Progress"), Some(".status.currentIndex"));
    assert_eq!(path("Total"), Some(".status.totalReplicas"));
}
