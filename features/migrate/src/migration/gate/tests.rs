//! Each row of the table with the neighbour that passes.

use rstest::rstest;

use super::*;
use crate::migration::fixture::{CLAIM, ORDINAL, claim, live_claim, pod, running, set, version};

fn decide(observation: &Observation, direction: Direction, accepts_unready: &[i32]) -> String {
    let claims = [claim()];
    let gate = Gate {
        direction,
        ordinal: ORDINAL,
        set: "web",
        claims: &claims,
        accepts_unready,
        orphans: None,
        exhausted_budget: None,
        observation,
        now: Timestamp::from_second(1_000_000).expect("a time"),
    };
    summary(&judge(&gate))
}

fn summary(decision: &Decision) -> String {
    match decision {
        Decision::Done => "open".to_owned(),
        Decision::Wait(wait) => format!("wait {}: {}", wait.reason, wait.detail),
        Decision::Hold(hold) => format!("hold {}: {}", hold.reason, hold.message),
        other => panic!("the gate only waits and holds: {other:?}"),
    }
}

/// Both clusters are well: ordinal 0 runs in the destination.
fn well() -> Observation {
    let mut all = running();
    all.destination
        .pods
        .insert("web-0".into(), pod("pod-0", "set-dest"));
    all.source.pods.get_mut("web-2").expect("it runs").claims = vec!["data-web-2".into()];
    all.destination
        .pods
        .get_mut("web-0")
        .expect("it runs")
        .claims = vec!["data-web-0".into()];
    all
}

fn changed(change: impl FnOnce(&mut Observation)) -> Observation {
    let mut all = well();
    change(&mut all);
    all
}

#[rstest]
#[case::forward(Direction::Forward)]
#[case::back(Direction::Back)]
fn the_gate_is_open_while_all_is_well(#[case] direction: Direction) {
    assert_eq!(decide(&well(), direction, &[]), "open");
}

#[rstest]
#[case::another_pod_uses_the_claim("hold ForeignConsumer: pod backup in the source uses claim data-web-1",
    |all: &mut Observation| drop(all.source.pods.insert("backup".into(), pod("backup", "job"))))]
#[case::another_pod_of_the_destination(
    "hold ForeignConsumer: pod backup in the destination uses claim data-web-1",
    |all: &mut Observation| drop(all.destination.pods.insert("backup".into(), pod("backup", "job"))))]
#[case::an_ended_pod_uses_nothing("open", |all: &mut Observation| {
    let ended = PodState { has_ended: true, ..pod("backup", "job") };
    all.source.pods.insert("backup".into(), ended);
})]
#[case::no_claim_in_the_destination("hold DestinationEdited: claim data-web-1 in the destination is not bound",
    |all: &mut Observation| drop(all.destination.claims.remove(CLAIM)))]
#[case::a_foreign_claim_in_the_destination(
    "hold DestinationEdited: claim data-web-1 in the destination is not bound",
    |all: &mut Observation| drop(all.destination.claims.insert(CLAIM.into(), live_claim("x", "pv-dest"))))]
#[case::volume_of_the_destination_not_retained(
    "hold DestinationEdited: volume pv-dest in the destination is not retained",
    |all: &mut Observation| all.destination.volumes.get_mut("pv-dest").expect("it exists").is_retained = false)]
#[case::volume_of_the_source_not_retained(
    "hold SourceEdited: volume pv-source of claim data-web-1 in the source is not retained",
    |all: &mut Observation| all.source.volumes.get_mut("pv-source").expect("it exists").is_retained = false)]
#[case::claims_of_the_source_not_retained(
    "hold SourceEdited: StatefulSet web in the source does not retain its claims",
    |all: &mut Observation| all.source.set.as_mut().expect("it exists").retains_claims = false)]
#[case::a_claim_owned_by_the_set(
    "hold SourceEdited: claim data-web-1 in the source would be deleted with its owner",
    |all: &mut Observation| {
    all.source.claims.get_mut(CLAIM).expect("it exists").owners = vec!["set-source".into()];
})]
#[case::a_claim_owned_by_its_pod(
    "hold SourceEdited: claim data-web-1 in the source would be deleted with its owner",
    |all: &mut Observation| {
    all.source.claims.get_mut(CLAIM).expect("it exists").owners = vec!["pod".into()];
})]
#[case::a_pod_of_the_source_is_unready("wait SourceUnready: pod web-2 in the source is not Ready",
    |all: &mut Observation| all.source.pods.get_mut("web-2").expect("it runs").ready_since = None)]
#[case::a_pod_of_the_source_is_missing("wait SourceUnready: pod web-2 in the source is not Ready",
    |all: &mut Observation| drop(all.source.pods.remove("web-2")))]
#[case::the_pod_itself_is_unready("wait SourceUnready: pod web-1 in the source is not Ready",
    |all: &mut Observation| all.source.pods.get_mut("web-1").expect("it runs").ready_since = None)]
#[case::a_moved_pod_is_unready("wait DestUnready: pod web-0 in the destination is not Ready",
    |all: &mut Observation| all.destination.pods.get_mut("web-0").expect("it runs").ready_since = None)]
#[case::ready_for_too_short("wait DestUnready: pod web-0 in the destination is not Ready",
    |all: &mut Observation| {
    let since = Timestamp::from_second(999_991).ok();
    all.destination.pods.get_mut("web-0").expect("it runs").ready_since = since;
})]
#[case::ready_for_long_enough("open", |all: &mut Observation| {
    let since = Timestamp::from_second(999_990).ok();
    all.destination.pods.get_mut("web-0").expect("it runs").ready_since = since;
})]
#[case::the_node_is_not_ready("wait SourceUnready: node node-a of pod web-1 in the source is not Ready",
    |all: &mut Observation| all.source.nodes.get_mut("node-a").expect("it exists").is_ready = false)]
#[case::the_node_is_out_of_service("wait SourceUnready: node node-a of pod web-1 in the source has the taint",
    |all: &mut Observation| all.source.nodes.get_mut("node-a").expect("it exists").is_out_of_service = true)]
#[case::the_node_is_gone("wait SourceUnready: node node-a of pod web-1 in the source does not exist",
    |all: &mut Observation| all.source.nodes.clear())]
fn the_gate_names_the_first_obstacle(
    #[case] expected: &str,
    #[case] change: impl FnOnce(&mut Observation),
) {
    let decided = decide(&changed(change), Direction::Forward, &[]);
    assert!(decided.starts_with(expected), "{decided}");
}

#[test]
fn an_accepted_pod_may_be_unready() {
    let unready = changed(|all| {
        all.source
            .pods
            .get_mut("web-2")
            .expect("it runs")
            .ready_since = None;
    });
    assert_eq!(decide(&unready, Direction::Forward, &[2]), "open");
}

#[test]
fn a_rollback_does_not_wait_for_the_destination() {
    let unready = changed(|all| {
        all.destination.pods.clear();
        all.destination.set = Some(set("set-dest", 0, 2));
        all.destination.claims.clear();
    });
    assert_eq!(decide(&unready, Direction::Back, &[]), "open");
}

#[test]
fn an_exhausted_budget_is_named() {
    let (claims, observation) = ([claim()], well());
    let gate = Gate {
        direction: Direction::Forward,
        ordinal: ORDINAL,
        set: "web",
        claims: &claims,
        accepts_unready: &[],
        orphans: None,
        exhausted_budget: Some("web"),
        observation: &observation,
        now: Timestamp::from_second(1_000_000).expect("a time"),
    };
    let decided = summary(&judge(&gate));
    assert!(
        decided.starts_with("wait DisruptionBudget: PodDisruptionBudget web"),
        "{decided}"
    );
}

#[test]
fn a_pod_of_another_controller_is_not_available() {
    let mine = set("set-source", 0, 3);
    let now = Timestamp::from_second(1_000_000).expect("a time");
    assert!(is_available(&mine, &pod("a", "set-source"), now));
    assert!(!is_available(&mine, &pod("a", "set-other"), now));
    assert_eq!(mine.version, version("set-source"));
}
