use api::migrate::{NodeRecord, OrdinalRecord, Window};
use engine::Projection;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::migration::observation::Side;

fn user(name: &str) -> User {
    (ObjectKey::namespaced("ops", name), Side::Source)
}

/// A run `web` of the StatefulSet `web` with one disk, and a run `api` that has recorded none yet.
fn interests() -> Interests {
    let interests = Interests::default();
    let scope = |set: &str| Scope {
        namespace: "db".to_owned(),
        set: set.to_owned(),
        capture: None,
    };
    let disks = RunDisks {
        volumes: BTreeSet::from(["pv-a".to_owned()]),
        disks: BTreeSet::from(["vol-a".to_owned()]),
        current: None,
    };
    interests.set(&user("web"), &scope("web"), &disks);
    interests.set(&user("api"), &scope("api"), &RunDisks::default());
    interests
}

fn stored(watched: Watched, object: &Value) -> Stored {
    Stored::read(&watched.kind(), &object.to_string(), &Projection::Full).unwrap()
}

fn affected(interests: &Interests, watched: Watched, object: &Value) -> Vec<String> {
    let keys = interests.affected(watched, &stored(watched, object));
    keys.iter().map(|key| key.name.to_string()).collect()
}

fn in_namespace(namespace: &str, name: &str) -> Value {
    json!({"metadata": {"namespace": namespace, "name": name}})
}

fn node(in_use: &[&str]) -> Value {
    let in_use = in_use
        .iter()
        .map(|disk| format!("kubernetes.io/csi/ebs.csi.aws.com^{disk}"));
    let in_use: Vec<String> = in_use.collect();
    json!({"metadata": {"name": "n"}, "status": {"volumesInUse": in_use}})
}

#[rstest]
#[case::set(Watched::StatefulSets, in_namespace("db", "web"), &["web"])]
#[case::set_of_another_namespace(Watched::StatefulSets, in_namespace("a", "web"), &[])]
#[case::pod(Watched::Pods, in_namespace("db", "web-0"), &["web"])]
#[case::pod_of_another_set(Watched::Pods, in_namespace("db", "web-b-0"), &[])]
#[case::pod_with_a_claim_of_both(
    Watched::Pods,
    json!({"metadata": {"namespace": "db", "name": "backup"}, "spec": {"volumes": [
        {"persistentVolumeClaim": {"claimName": "data-web-0"}},
        {"persistentVolumeClaim": {"claimName": "data-api-0"}}]}}),
    &["api", "web"])]
#[case::claim(Watched::Claims, in_namespace("db", "data-web-11"), &["web"])]
#[case::claim_without_an_ordinal(Watched::Claims, in_namespace("db", "data-web"), &[])]
#[case::claim_without_a_template(Watched::Claims, in_namespace("db", "-web-0"), &[])]
#[case::budget(Watched::Budgets, in_namespace("db", "any"), &["api", "web"])]
#[case::volume(Watched::Volumes, json!({"metadata": {"name": "pv-a"}}), &["web"])]
#[case::volume_of_a_claim(
    Watched::Volumes,
    json!({"metadata": {"name": "pv"}, "spec": {"claimRef": {"namespace": "db", "name": "data-api-0"}}}),
    &["api"])]
#[case::attachment(
    Watched::Attachments,
    json!({"metadata": {"name": "x"}, "spec": {"source": {"persistentVolumeName": "pv-a"}}}),
    &["web"])]
#[case::other_attachment(
    Watched::Attachments,
    json!({"metadata": {"name": "x"}, "spec": {"source": {"persistentVolumeName": "pv-b"}}}),
    &[])]
#[case::node(Watched::Nodes, node(&["vol-a"]), &["web"])]
#[case::other_node(Watched::Nodes, node(&["vol-b"]), &[])]
fn a_change_affects(#[case] watched: Watched, #[case] object: Value, #[case] expected: &[&str]) {
    assert_eq!(affected(&interests(), watched, &object), expected);
}

#[test]
fn a_disk_that_left_a_node_affects_its_run_once() {
    let interests = interests();
    let all = [&["vol-a"][..], &[], &[]];
    let affected = all.map(|in_use| affected(&interests, Watched::Nodes, &node(in_use)));
    assert_eq!(affected, [vec!["web"], vec!["web"], vec![]]);
}

#[test]
fn a_run_that_has_ended_is_not_affected() {
    let interests = interests();
    interests.remove(&user("web"));
    let pod = in_namespace("db", "web-0");
    assert!(affected(&interests, Watched::Pods, &pod).is_empty());
}

#[test]
fn volumes_that_are_recorded_later_affect_the_run() {
    let interests = interests();
    let disks = RunDisks {
        volumes: BTreeSet::from(["pv-c".to_owned()]),
        ..RunDisks::default()
    };
    interests.set_disks(&user("api"), &disks);
    let volume = json!({"metadata": {"name": "pv-c"}});
    assert_eq!(affected(&interests, Watched::Volumes, &volume), ["api"]);
}

/// Ordinals `location [node]`, from 0.
fn record(phase: Phase, ordinals: &[(Location, Option<&str>)]) -> StatefulSetMigrationStatus {
    let ordinals = (0..)
        .zip(ordinals)
        .map(|(ordinal, (location, node))| OrdinalRecord {
            ordinal,
            location: *location,
            node: node.map(|name| NodeRecord {
                name: name.to_owned(),
                ..NodeRecord::default()
            }),
            ..OrdinalRecord::default()
        });
    StatefulSetMigrationStatus {
        phase: Some(phase),
        window: Some(Window {
            start: 0,
            replicas: 3,
            had_ordinals: true,
        }),
        ordinals: ordinals.collect(),
        ..StatefulSetMigrationStatus::default()
    }
}

const MOVED: (Location, Option<&str>) = (Location::Destination, Some("a"));
const MOVING: (Location, Option<&str>) = (Location::Moving, Some("b"));
const WAITING: (Location, Option<&str>) = (Location::Source, Some("c"));

fn few(ordinals: &[i32], nodes: &[&str]) -> CurrentOrdinals {
    CurrentOrdinals {
        ordinals: ordinals.iter().copied().collect(),
        nodes: nodes.iter().map(|&node| node.to_owned()).collect(),
    }
}

#[rstest]
#[case::not_begun(Phase::PreFlightChecks, &[], None)]
#[case::on_its_way(Phase::MigratingPods, &[MOVED, MOVING, WAITING], Some(few(&[1, 2], &["b"])))]
#[case::none_on_its_way(Phase::MigratingPods, &[MOVED, WAITING, WAITING], Some(few(&[1], &[])))]
#[case::only_dormant_left(Phase::MigratingPods, &[MOVED, MOVED, MOVED, WAITING], Some(few(&[], &[])))]
#[case::node_not_recorded(Phase::MigratingPods, &[MOVED, (Location::Moving, None)], None)]
#[case::going_back(Phase::RollingBack, &[MOVED, MOVING], None)]
fn a_run_depends_on_few_nodes_or_on_all(
    #[case] phase: Phase,
    #[case] ordinals: &[(Location, Option<&str>)],
    #[case] expected: Option<CurrentOrdinals>,
) {
    let disks = RunDisks::of(&record(phase, ordinals));
    assert_eq!(disks.current, expected);
}
