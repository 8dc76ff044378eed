//! Specs: defaults, limits, and what is wrong with a stored one.

use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use super::{LEGACY, objects};

/// The smallest spec, changed.
fn spec(change: &Value) -> Value {
    let mut spec = json!({
        "migrationId": "m", "sourceCluster": {"kubeConfigSecret": "src"},
        "destCluster": {"kubeConfigSecret": "dst"}, "sourceNamespace": "a", "destNamespace": "b",
        "statefulSetName": "web",
    });
    let fields = change.as_object().expect("fields");
    for (name, value) in fields {
        spec[name] = value.clone();
    }
    spec
}

fn read(change: &Value) -> StatefulSetMigrationSpec {
    serde_json::from_value(spec(change)).expect("it is read")
}

#[test]
fn legacy_objects_break_no_rule() {
    for legacy in objects(LEGACY) {
        let stored: StoredMigration = serde_json::from_value(legacy).expect("it is read");
        assert_eq!(stored.spec.map(|spec| spec.check()), Ok(Ok(())));
    }
}

#[test]
fn what_is_left_out_has_the_defaults_of_the_contract() {
    let spec = read(&json!({}));
    assert_eq!(spec.source_cluster.key(), "kubeconfig");
    assert!(!spec.force && !spec.dry_run && !spec.paused);
    assert!(spec.storage_class_mapping.is_empty() && spec.acknowledge.is_empty());
    assert_eq!(
        (spec.strategy, spec.abort, spec.ordinal_limit),
        (None, None, None)
    );
    assert_eq!((spec.retry, spec.on_failure), (0, OnFailure::Pause));
    assert_eq!(spec.dormant_claims, DormantClaims::Move);
    assert_eq!(spec.snapshots.when, SnapshotTime::Never);
    assert_eq!(spec.fence_names(), None);
    assert_eq!(spec.source_cleanup.policy, CleanupPolicy::Delete);
    assert_eq!(spec.source_cleanup.soak.as_str(), "10m");
    assert_eq!(spec.dest_reclaim_policy, DestReclaimPolicy::Retain);
}

#[rstest]
#[case::namespace(json!({"sourceNamespace": "A"}), "spec.sourceNamespace must be a DNS label")]
#[case::long_namespace(json!({"destNamespace": "a".repeat(64)}), "spec.destNamespace must be a DNS label")]
#[case::namespace_with_dot(json!({"destNamespace": "a.b"}), "spec.destNamespace must be a DNS label")]
#[case::name(json!({"statefulSetName": "web-"}), "spec.statefulSetName must be a DNS subdomain")]
#[case::empty_label_in_name(json!({"statefulSetName": "a..b"}), "spec.statefulSetName must be a DNS subdomain")]
#[case::secret(json!({"sourceCluster": {"kubeConfigSecret": ""}}), "spec.sourceCluster.kubeConfigSecret must be a DNS subdomain")]
#[case::key(json!({"destCluster": {"kubeConfigSecret": "dst", "kubeConfigKey": "a/b"}}), "spec.destCluster.kubeConfigKey must be a key of a Secret")]
#[case::duration(json!({"podReadyTimeout": "-5m"}), "spec.podReadyTimeout must be a duration such as 5m")]
#[case::soak(json!({"sourceCleanup": {"soak": "soon"}}), "spec.sourceCleanup.soak must be a duration such as 5m")]
#[case::termination(json!({"podTerminationTimeout": "1d"}), "spec.podTerminationTimeout must be a duration such as 5m")]
#[case::mapping(json!({"storageClassMapping": (0..65).map(|n| (n.to_string(), json!("x"))).collect::<serde_json::Map<_, _>>()}), "spec.storageClassMapping must be at most 64 names of at most 253 characters")]
#[case::retry(json!({"retry": -1}), "spec.retry must be at least 0")]
#[case::ordinal_limit(json!({"ordinalLimit": -1}), "spec.ordinalLimit must be at least 0")]
#[case::acknowledged(json!({"acknowledge": ["Health/web-1"]}), "spec.acknowledge must be at most 64 texts of the form <id> or <id>/<ordinal>")]
#[case::nothing_acknowledged(json!({"acknowledge": ["Health/"]}), "spec.acknowledge must be at most 64 texts of the form <id> or <id>/<ordinal>")]
#[case::tag_of_aws(json!({"snapshots": {"tags": {"AWS:x": ""}}}), "spec.snapshots.tags must be at most 20 tags that EC2 takes and that are not reserved")]
#[case::tag_of_ours(json!({"snapshots": {"tags": {"migration.aqua.io/run": ""}}}), "spec.snapshots.tags must be at most 20 tags that EC2 takes and that are not reserved")]
#[case::half_a_fence(json!({"fence": {"sourceClusterName": "a"}}), "spec.fence must be both names of 1 to 100 characters, or neither")]
#[case::several(json!({"retry": -1, "attachTimeout": ""}), "spec.attachTimeout must be a duration such as 5m; spec.retry must be at least 0")]
fn a_stored_spec_that_breaks_a_rule_is_read(#[case] change: Value, #[case] message: &str) {
    let stored: StoredMigration = serde_json::from_value(json!({"spec": spec(&change)})).unwrap();
    assert_eq!(stored.spec.unwrap_err().to_string(), message);
}

#[rstest]
#[case::unknown_choice(json!({"spec": spec(&json!({"strategy": "Cutover"}))}), "\"Cutover\" is no Strategy")]
#[case::wrong_type(json!({"spec": spec(&json!({"force": "yes"}))}), "spec cannot be read")]
#[case::missing_field(json!({"spec": {"migrationId": "m"}}), "missing field")]
#[case::no_object(json!({"spec": 7}), "spec cannot be read")]
#[case::no_spec(json!({}), "spec is missing")]
fn a_stored_object_is_read_even_if_its_spec_is_not(#[case] object: Value, #[case] reason: &str) {
    let stored: StoredMigration = serde_json::from_value(object).unwrap();
    let message = stored.spec.unwrap_err().to_string();
    assert!(message.contains(reason), "{message}");
}

#[rstest]
#[case::as_given("90s", 90)]
#[case::zero_is_the_default("0", 300)]
#[case::zero_seconds_is_the_default("0s", 300)]
fn the_detach_limit_is(#[case] given: &str, #[case] seconds: u64) {
    let spec = read(&json!({"volumeDetachTimeout": given, "attachTimeout": given}));
    assert_eq!(spec.detach_limit(), Duration::from_secs(seconds));
    assert_eq!(spec.attach_limit(), Duration::from_secs(seconds));
}

#[test]
fn the_ready_limit_of_zero_is_the_default() {
    let limit = |given| read(&json!({"podReadyTimeout": given})).ready_limit();
    assert_eq!(
        (limit("0s"), limit("30m")),
        (Duration::from_mins(10), Duration::from_mins(30))
    );
}

#[rstest]
#[case::unset(json!({}), 360)]
#[case::zero(json!({"podTerminationTimeout": "0s"}), 360)]
#[case::given(json!({"podTerminationTimeout": "2m"}), 120)]
fn the_termination_limit_of_a_grace_of_300_s_is(#[case] change: Value, #[case] seconds: u64) {
    let limit = read(&change).termination_limit(Duration::from_mins(5));
    assert_eq!(limit, Duration::from_secs(seconds));
}

#[test]
fn a_soak_of_zero_is_none() {
    let spec = read(&json!({"sourceCleanup": {"soak": "0s"}}));
    assert_eq!(spec.source_cleanup.soak.length(), Duration::ZERO);
}

#[rstest]
#[case::of_every_ordinal("Health", Some(1), true)]
#[case::of_the_whole_set("Health", None, true)]
#[case::of_one_ordinal("UncleanDetach", Some(1), true)]
#[case::of_another_ordinal("UncleanDetach", Some(2), false)]
#[case::of_one_ordinal_only("UncleanDetach", None, false)]
#[case::another_id("Heal", Some(1), false)]
#[case::no_number("Owner", None, false)]
#[case::number_too_big("Autoscaler", None, false)]
fn acknowledged_is(#[case] id: &str, #[case] ordinal: Option<i32>, #[case] expected: bool) {
    let accepted = [
        "Health",
        "UncleanDetach/1",
        "Owner/x",
        "Autoscaler/99999999999",
    ];
    let spec = read(&json!({"acknowledge": accepted}));
    assert_eq!(spec.acknowledges(id, ordinal), expected);
}
