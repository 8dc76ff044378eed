use rstest::rstest;

use super::*;

const KIND: &str = "VaultPolicy";

fn metrics() -> (engine::Metrics, Metrics) {
    let engine = engine::Metrics::default();
    let metrics = Metrics::new(&engine);
    (engine, metrics)
}

/// The samples of the feature, without those of the engine and without help texts.
fn samples(engine: &engine::Metrics) -> Vec<String> {
    let text = engine.text();
    let ours = text.lines().filter_map(|line| line.strip_prefix(PREFIX));
    let mut samples: Vec<_> = ours.map(|line| line[1..].to_owned()).collect();
    samples.sort();
    samples
}

fn app() -> ObjectKey {
    ObjectKey::namespaced("team-a", "app")
}

fn everything_happens_to(metrics: &Metrics, key: &ObjectKey) {
    for kind in [KIND, "VaultRole", "VaultConnection"] {
        metrics.reconciled(kind, key, true, Duration::from_millis(20));
        metrics.reconciled(kind, key, false, Duration::from_secs(3));
    }
    metrics.adopted(KIND, key, true);
    metrics.drift(KIND, key, true);
    metrics.drift_corrected(KIND, key);
    metrics.destructive_blocked(KIND, key);
    metrics.tenancy(KIND, key, true);
}

fn everything_happens_to_connection(metrics: &Metrics, connection: &str) {
    metrics.health(connection, false, 3);
    metrics.health(connection, true, 0);
    let found = Things {
        policies: 4,
        roles: 2,
    };
    metrics.scanned(connection, Some(found));
    metrics.scanned(connection, None);
    metrics.orphans(connection, found);
    let observer = metrics.observer(connection);
    observer.logged_in();
    observer.called("login", "success");
    observer.called("policy_read", "failure");
}

#[rstest]
#[case(r#"connection_healthy{connection="c"} 1"#)]
#[case(r#"connection_health_checks_total{connection="c",result="success"} 1"#)]
#[case(r#"connection_health_checks_total{connection="c",result="failure"} 1"#)]
#[case(r#"connection_consecutive_fails{connection="c"} 0"#)]
#[case(r#"policy_reconcile_total{kind="VaultPolicy",namespace="team-a",result="success"} 1"#)]
#[case(r#"role_reconcile_total{kind="VaultRole",namespace="team-a",result="failure"} 1"#)]
#[case(r#"discovery_adoptions_total{kind="VaultPolicy",namespace="team-a",result="success"} 1"#)]
#[case(r#"vault_orphaned_resources{connection="c",type="policy"} 4"#)]
#[case(r#"discovery_unmanaged_resources{connection="c",type="role"} 2"#)]
#[case(r#"discovered_resources{connection="c",type="policy"} 4"#)]
#[case(r#"vault_drift_detected{kind="VaultPolicy",namespace="team-a",name="app"} 1"#)]
#[case(r#"drift_detected{resource="VaultPolicy"} 1"#)]
#[case(r#"vault_drift_corrected_total{kind="VaultPolicy",namespace="team-a"} 1"#)]
#[case(r#"safety_destructive_blocked_total{kind="VaultPolicy",namespace="team-a"} 1"#)]
#[case("cleanup_queue_size 7")]
#[case(r#"cleanup_retries_total{resource_type="role",result="failure"} 1"#)]
#[case(r#"reconcile_total{resource="VaultRole",status="success"} 1"#)]
#[case(r#"reconcile_total{resource="VaultConnection",status="failure"} 1"#)]
#[case(r#"reconcile_duration_seconds_count{kind="VaultConnection",result="success",resource="VaultConnection"} 1"#)]
#[case(r#"vault_operations_total{operation="policy_read",status="failure"} 1"#)]
#[case(r#"reconcile_duration_seconds_count{kind="VaultPolicy",result="success",resource="VaultPolicy"} 1"#)]
#[case(r#"discovery_scans_total{connection="c",result="failure",status="failure"} 1"#)]
#[case(r#"connection_logins_total{connection="c"} 1"#)]
#[case(r#"tenancy_denied{kind="VaultPolicy",namespace="team-a"} 1"#)]
fn a_series_has_its_inherited_name_and_labels(#[case] sample: &str) {
    let (engine, metrics) = metrics();
    everything_happens_to_connection(&metrics, "c");
    everything_happens_to(&metrics, &app());
    metrics.cleanup_records(7);
    metrics.cleanup_tried("role", false);

    let samples = samples(&engine);
    assert!(
        samples.iter().any(|line| line == sample),
        "{sample} is not among {samples:#?}"
    );
}

#[test]
fn an_object_takes_its_series_along() {
    let (engine, metrics) = metrics();
    everything_happens_to(&metrics, &app());
    metrics.forget_object(KIND, &app());
    metrics.forget_object("VaultRole", &app());
    metrics.forget_object("VaultConnection", &app());

    let samples = samples(&engine);
    let left: Vec<_> = samples
        .iter()
        .filter(|line| line.contains("team-a"))
        .collect();
    assert_eq!(left, Vec::<&String>::new());
    let drifting = r#"drift_detected{resource="VaultPolicy"} 0"#.to_owned();
    assert!(samples.contains(&drifting), "{samples:#?}");
}

#[test]
fn what_others_of_its_kind_have_counted_stays() {
    let (engine, metrics) = metrics();
    let other = ObjectKey::namespaced("team-a", "other");
    everything_happens_to(&metrics, &app());
    everything_happens_to(&metrics, &other);
    metrics.forget_object(KIND, &app());

    let samples = samples(&engine);
    for expected in [
        r#"policy_reconcile_total{kind="VaultPolicy",namespace="team-a",result="success"} 2"#,
        r#"vault_drift_detected{kind="VaultPolicy",namespace="team-a",name="other"} 1"#,
        r#"drift_detected{resource="VaultPolicy"} 1"#,
        r#"tenancy_denied{kind="VaultPolicy",namespace="team-a"} 1"#,
    ] {
        assert!(
            samples.contains(&expected.to_owned()),
            "{expected}: {samples:#?}"
        );
    }
    assert!(
        !samples.iter().any(|line| line.contains(r#"name="app""#)),
        "{samples:#?}"
    );
}

#[test]
fn a_connection_takes_its_series_along() {
    let (engine, metrics) = metrics();
    everything_happens_to_connection(&metrics, "c");
    everything_happens_to_connection(&metrics, "d");
    metrics.forget_connection("c");

    let samples = samples(&engine);
    assert!(
        !samples.iter().any(|line| line.contains(r#""c""#)),
        "{samples:#?}"
    );
    let others = samples
        .iter()
        .filter(|line| line.contains(r#"connection="d""#));
    assert_eq!(others.count(), 13, "{samples:#?}");
}

#[test]
fn a_late_call_brings_no_connection_back() {
    let (engine, metrics) = metrics();
    let observer = metrics.observer("c");
    metrics.forget_connection("c");
    observer.logged_in();
    observer.called("login", "success");

    let samples = samples(&engine);
    assert!(
        !samples.iter().any(|line| line.contains(r#""c""#)),
        "{samples:#?}"
    );
}

#[test]
fn an_object_that_drifts_for_long_counts_once() {
    let (engine, metrics) = metrics();
    let of_kind = |value| format!(r#"drift_detected{{resource="VaultPolicy"}} {value}"#);
    for detected in [false, true, true] {
        metrics.drift(KIND, &app(), detected);
    }
    assert!(samples(&engine).contains(&of_kind(1)));
    metrics.drift(KIND, &app(), false);
    let samples = samples(&engine);
    assert!(samples.contains(&of_kind(0)), "{samples:#?}");
    let of_object = r#"vault_drift_detected{kind="VaultPolicy",namespace="team-a",name="app"} 0"#;
    assert!(samples.contains(&of_object.to_owned()), "{samples:#?}");
}

#[test]
fn a_denied_object_counts_until_it_is_let_in() {
    let (engine, metrics) = metrics();
    let denied =
        |value| format!(r#"tenancy_denied{{kind="VaultPolicy",namespace="team-a"}} {value}"#);
    metrics.tenancy(KIND, &app(), true);
    metrics.tenancy(KIND, &ObjectKey::namespaced("team-a", "b"), true);
    assert!(samples(&engine).contains(&denied(2)));
    metrics.tenancy(KIND, &app(), false);
    assert!(samples(&engine).contains(&denied(1)));
}

#[test]
fn a_failed_scan_keeps_what_was_found() {
    let (engine, metrics) = metrics();
    metrics.scanned(
        "c",
        Some(Things {
            policies: 1,
            roles: 0,
        }),
    );
    metrics.scanned("c", None);
    let kept = r#"discovered_resources{connection="c",type="policy"} 1"#.to_owned();
    assert!(samples(&engine).contains(&kept));
}

#[test]
fn what_is_cluster_wide_has_an_empty_namespace() {
    let (engine, metrics) = metrics();
    let key = ObjectKey::cluster("shared");
    metrics.reconciled("VaultClusterPolicy", &key, true, Duration::ZERO);
    let line =
        r#"policy_reconcile_total{kind="VaultClusterPolicy",namespace="",result="success"} 1"#;
    assert!(samples(&engine).contains(&line.to_owned()));
}
