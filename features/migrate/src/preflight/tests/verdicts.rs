//! What follows from the results: acknowledgements, force, stalls and what could not be read.

use api::migrate::{Severity, StallReason};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::preflight::reading::Outage;

/// The ids that stop the run after a change; none if it may begin.
fn stopping(edit: Edit, spec: Value) -> Vec<CheckId> {
    let mut survey = survey();
    edit(&mut survey);
    patch(&mut survey.spec, spec);
    match verdict(&check(&survey), &survey.spec) {
        Verdict::Passed => Vec::new(),
        Verdict::Blocked(results) => results.iter().map(|result| result.finding.id).collect(),
        Verdict::Stalled { message, .. } => panic!("{message}"),
    }
}

fn unready(survey: &mut Survey, ordinal: usize) {
    let change = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    patch(pod(survey, ordinal), change);
}

fn multi_attach(survey: &mut Survey) {
    disk(survey, 0).is_multi_attach = true;
}

fn no_service(survey: &mut Survey) {
    survey.arrival.service = Read(None);
}

#[rstest] //                               change              spec                                stops
#[case::nothing_found(by(|_| {}), json!({}), &[])]
#[case::a_blocker(multi_attach, json!({}), &[VolumeType])]
#[case::force_passes_no_blocker(multi_attach, json!({"force": true}), &[VolumeType])]
#[case::a_blocker_that_cannot_be_acknowledged(multi_attach, json!({"acknowledge": ["VolumeType"]}), &[VolumeType])]
#[case::an_unready_pod(by(|s| unready(s, 1)), json!({}), &[Health])]
#[case::acknowledged(by(|s| unready(s, 1)), json!({"acknowledge": ["Health"]}), &[])]
#[case::acknowledged_for_its_ordinal(by(|s| unready(s, 1)), json!({"acknowledge": ["Health/1"]}), &[])]
#[case::acknowledged_for_another(by(|s| unready(s, 1)), json!({"acknowledge": ["Health/2"]}), &[Health])]
#[case::force_passes_no_acknowledgeable(by(|s| unready(s, 1)), json!({"force": true}), &[Health])]
#[case::only_one_is_acknowledged(by(|s| { unready(s, 0); unready(s, 1); }), json!({"acknowledge": ["Health/0"]}), &[Health])]
#[case::a_warning(no_service, json!({}), &[HeadlessService])]
#[case::a_forced_warning(no_service, json!({"force": true}), &[])]
#[case::an_acknowledged_warning(no_service, json!({"acknowledge": ["HeadlessService"]}), &[])]
#[case::force_with_a_blocker(by(|s| { no_service(s); multi_attach(s); }), json!({"force": true}), &[VolumeType])]
#[case::a_denied_blocker(by(|s| s.destination.set = Reading::Denied("no".to_owned())), json!({"force": true}), &[DestStatefulSet])]
#[case::a_denied_warning(by(|s| s.arrival.service = Reading::Denied("no".to_owned())), json!({}), &[HeadlessService])]
#[case::a_forced_denied_warning(by(|s| s.arrival.service = Reading::Denied("no".to_owned())), json!({"force": true}), &[])]
#[case::denied_information(by(|s| s.snapshots = Reading::Denied("no".to_owned())), json!({}), &[])]
#[case::unreachable_information(
    by(|s| s.snapshots = Reading::Unreachable(Outage::Cluster("broken".to_owned()))), json!({}), &[])]
#[case::a_forced_unreachable_warning(
    by(|s| s.arrival.service = Reading::Unreachable(Outage::Cluster("broken".to_owned()))), json!({"force": true}), &[])]
#[case::a_part_that_was_not_read(by(|s| s.arrival.csi_nodes = Reading::NotRead), json!({}), &[AttachLimit, DestDriver])]
fn a_run_may_begin_names_what_fails(
    #[case] edit: Edit,
    #[case] spec: Value,
    #[case] expected: &[CheckId],
) {
    assert_eq!(stopping(edit, spec), expected);
}

#[rstest]
#[case::cluster(by(|s| s.source.nodes = Reading::Unreachable(Outage::Cluster("refused".to_owned()))),
    StallReason::ClusterUnreachable, "nodes of the source: refused")]
#[case::login(by(|s| s.destination.uid = Reading::Unreachable(Outage::Login("expired".to_owned()))),
    StallReason::AuthFailed, "namespace kube-system of the destination: expired")]
#[case::ec2(by(|s| s.ec2.allowed = Reading::Unreachable(Outage::Ec2("throttled".to_owned()))),
    StallReason::Ec2Unavailable, "credentials for EC2: throttled")]
#[case::beside_a_blocker(by(|s| {
    multi_attach(s);
    s.ec2.allowed = Reading::Unreachable(Outage::Ec2("throttled".to_owned()));
}), StallReason::Ec2Unavailable, "credentials for EC2: throttled")]
#[case::a_dependency(by(|s| {
    template(s, json!({"priorityClassName": "high"}));
    let high = crate::preflight::dependencies::Dependency {
        kind: crate::preflight::dependencies::DependencyKind::PriorityClass,
        name: "high".to_owned(),
    };
    let outage = Outage::Cluster("refused".to_owned());
    s.arrival.dependencies.insert(high, Reading::Unreachable(outage));
}), StallReason::ClusterUnreachable, "PriorityClass high of the destination: refused")]
fn an_outage_stalls_names_what_fails(
    #[case] edit: Edit,
    #[case] reason: StallReason,
    #[case] message: &str,
) {
    let mut survey = survey();
    edit(&mut survey);
    patch(&mut survey.spec, json!({"force": true}));
    let expected = Verdict::Stalled {
        reason,
        message: message.to_owned(),
    };
    assert_eq!(verdict(&check(&survey), &survey.spec), expected);
}

#[test]
fn what_was_not_read_is_not_reported_beside_its_blocker() {
    let mut survey = survey();
    let refused = KubeconfigState::Refused("users[0].user.exec is refused".to_owned());
    survey.source = ClusterSurvey {
        kubeconfig: Read(refused),
        ..ClusterSurvey::default()
    };
    survey.ec2.volumes = Reading::NotRead;
    let ids: Vec<CheckId> = check(&survey)
        .iter()
        .map(|result| result.finding.id)
        .collect();
    assert_eq!(ids, [Kubeconfig]);
}

#[test]
fn nothing_read_at_all_blocks() {
    let mut empty = survey();
    empty.source = ClusterSurvey::default();
    empty.destination = ClusterSurvey::default();
    empty.arrival = ArrivalSurvey::default();
    empty.ec2 = Ec2Survey::default();
    empty.snapshots = Reading::NotRead;
    empty.records = Reading::NotRead;
    empty.spec.strategy = Some(api::migrate::Strategy::Window);
    patch(&mut empty.spec, json!({"dormantClaims": "Refuse"}));
    let found: BTreeSet<CheckId> = check(&empty)
        .iter()
        .map(|result| result.finding.id)
        .collect();
    assert_eq!(found, CheckId::ALL.iter().copied().collect());
    assert!(matches!(
        verdict(&check(&empty), &empty.spec),
        Verdict::Blocked(_)
    ));
}

#[test]
fn an_unread_check_has_its_full_severity() {
    let mut denied = survey();
    denied.source.set = Reading::Denied("no".to_owned());
    for result in check(&denied) {
        assert_eq!(
            result.finding.severity,
            result.finding.id.severity(),
            "{result:?}"
        );
    }
    assert_eq!(check(&survey())[0].finding.severity, Severity::Info);
}
