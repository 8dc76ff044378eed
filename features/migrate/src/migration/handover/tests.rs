//! The tables of a handover, row by row. [`model`](crate::migration::model) runs whole migrations.

use kernel::Ownership;
use rstest::rstest;

use super::*;
use crate::migration::decision::Failure;
use crate::migration::fixture::{
    CLAIM, DISK, ORDINAL, WINDOW, at, claim, live_claim, node, pod, read, running, set, tombstone,
    version, volume,
};
use crate::migration::observation::{
    AttachmentState, ClaimReference, ClaimState, DiskRead, PodState, VolumePhase, VolumeState,
};

/// The source has released the ordinal; its pod still runs.
fn released() -> Observation {
    let mut all = running();
    all.source.set = Some(set("set-source", 2, 1));
    all
}

/// The pod is gone, and the source has let go of the disk.
fn let_go() -> Observation {
    let mut all = released();
    all.source.pods.remove("web-1");
    all.source.attachments.clear();
    all.source
        .nodes
        .insert("node-a".into(), node("i-source", &[]));
    all
}

/// EC2 shows the disk as free since second 20.
fn free() -> Observation {
    let mut all = let_go();
    all.disks.insert(DISK.into(), read(20, &[]));
    all
}

/// The claim of the source is fenced.
fn fenced() -> Observation {
    let mut all = free();
    all.source.claims.insert(CLAIM.into(), tombstone());
    all.source.volumes.insert(
        "pv-source".into(),
        volume(VolumePhase::Released, Some("claim")),
    );
    all
}

/// The destination runs the ordinal, and its disk is attached there.
fn arrived() -> Observation {
    let mut all = fenced();
    all.destination.set = Some(set("set-dest", 0, 2));
    all.disks
        .insert(DISK.into(), read(30, &[("i-dest", "attached")]));
    all.destination
        .pods
        .insert("web-1".into(), pod("pod-dest", "set-dest"));
    all
}

/// The same ordinal on its way back: released by the destination, fenced there, its volume deleted.
fn fenced_in_destination() -> Observation {
    let mut all = fenced();
    all.destination.claims.insert(CLAIM.into(), tombstone());
    all.destination.volumes.remove("pv-dest");
    all
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct HandoverCase {
    direction: Direction,
    is_orphaned: bool,
    has_left: bool,
    is_dormant: bool,
    accepts_unclean: bool,
    cluster_names: Option<(&'static str, &'static str)>,
    pod_uid: Option<&'static str>,
    accepts_unready: &'static [i32],
    /// When the pass runs, by the clock of the process.
    elapsed: u64,
    /// The times at which earlier passes saw the same.
    earlier: Vec<u64>,
}

const FORWARD: HandoverCase = HandoverCase {
    direction: Direction::Forward,
    is_orphaned: false,
    has_left: false,
    is_dormant: false,
    accepts_unclean: false,
    cluster_names: None,
    pod_uid: Some("pod"),
    accepts_unready: &[],
    elapsed: 20,
    earlier: Vec::new(),
};
const BACK: HandoverCase = HandoverCase {
    direction: Direction::Back,
    is_orphaned: false,
    has_left: false,
    is_dormant: false,
    accepts_unclean: false,
    cluster_names: None,
    pod_uid: None,
    accepts_unready: &[],
    elapsed: 20,
    earlier: Vec::new(),
};

fn decide(observation: &Observation, case: &HandoverCase) -> Decision {
    let passes = case.earlier.iter().chain([&case.elapsed]);
    let passes: Vec<_> = passes
        .map(|elapsed| (*elapsed, observation.clone()))
        .collect();
    decide_after(&passes, case)
}

/// A decision in few characters: `act release change spec.ordinals, …`.
fn summary(decision: &Decision) -> String {
    match decision {
        Decision::Done => "done".to_owned(),
        Decision::Act(step) => format!("act {step}"),
        Decision::Wait(wait) => format!("wait {} {}", wait.step, wait.reason),
        Decision::ReadDisks { ids, .. } => format!("read {}", ids.join(",")),
        Decision::ReadSnapshots { ordinal, .. } => format!("search {ordinal}"),
        Decision::Hold(hold) => format!("hold {}", hold.reason),
        Decision::Fail(Failure { reason, .. }) => format!("fail {reason}"),
    }
}

fn changed(mut observation: Observation, change: impl FnOnce(&mut Observation)) -> Observation {
    change(&mut observation);
    observation
}

#[rstest]
#[case::running_is_released(
    running(),
    "act release: change spec.ordinals, spec.replicas of StatefulSet web in the source"
)]
#[case::overlapping_windows_hold(
    changed(running(), |all| all.destination.set = Some(set("set-dest", 0, 2))), "hold SourceWidened")]
#[case::pod_is_awaited(released(), "wait gone PodTerminating")]
#[case::gone_pod_leaves_the_mount(
    changed(released(), |all| drop(all.source.pods.remove("web-1"))), "wait detach Unmounting")]
#[case::disk_is_read_after_the_cluster_let_go(let_go(), "read vol-1")]
#[case::free_disk_is_fenced(
    free(),
    "act fence: delete PersistentVolumeClaim data-web-1 in the source"
)]
#[case::fenced_disk_is_confirmed(fenced(), "wait confirm Detaching")]
#[case::arrived_is_done(arrived(), "done")]
fn forward_goes_step_by_step(#[case] observation: Observation, #[case] expected: &str) {
    assert_eq!(summary(&decide(&observation, &FORWARD)), expected);
}

#[rstest]
#[case::another_uid_is_a_widened_window(Some("other"), false, "hold SourceWidened")]
#[case::being_deleted_is_awaited(Some("pod"), true, "wait gone PodTerminating")]
#[case::the_controller_deletes_it(Some("pod"), false, "wait gone PodTerminating")]
#[case::unknown_uid_is_awaited(None, false, "wait gone PodTerminating")]
fn a_released_pod_must_go(
    #[case] recorded: Option<&'static str>,
    #[case] is_terminating: bool,
    #[case] expected: &str,
) {
    let observation = changed(released(), |all| {
        let pod = all.source.pods.get_mut("web-1").expect("it exists");
        pod.is_terminating = is_terminating;
    });
    let case = HandoverCase {
        pod_uid: recorded,
        ..FORWARD
    };
    assert_eq!(summary(&decide(&observation, &case)), expected);
}

#[rstest]
#[case::counting_pods_are_waited_for(&[], "wait gone PodTerminating")]
#[case::accepted_pods_do_not_count(&[2], "act gone: delete Pod web-1 in the source")]
fn an_unready_pod_blocks_the_controller(#[case] accepts: &'static [i32], #[case] expected: &str) {
    let observation = changed(released(), |all| {
        all.source
            .pods
            .get_mut("web-2")
            .expect("it exists")
            .ready_since = None;
    });
    let case = HandoverCase {
        accepts_unready: accepts,
        ..FORWARD
    };
    assert_eq!(summary(&decide(&observation, &case)), expected);
}

#[rstest]
#[case::attached_in_source(read(20, &[("i-source", "attached")]), "wait detach Detaching")]
#[case::detaching(read(20, &[("i-source", "detaching")]), "wait detach Detaching")]
#[case::busy(read(20, &[("i-source", "busy")]), "wait detach DetachBusy")]
#[case::read_too_early(read(19, &[]), "read vol-1")]
#[case::absent_is_never_free(DiskRead { disk: None, began: at(20) }, "hold VolumeMissing")]
#[case::at_the_destination_is_fenced_all_the_same(
    read(20, &[("i-dest", "attached")]),
    "act fence: delete PersistentVolumeClaim data-web-1 in the source"
)]
fn a_disk_leaves_by_the_word_of_ec2(#[case] read: DiskRead, #[case] expected: &str) {
    let observation = changed(let_go(), |all| drop(all.disks.insert(DISK.into(), read)));
    assert_eq!(summary(&decide(&observation, &FORWARD)), expected);
}

#[test]
fn a_busy_disk_is_read_again_before_it_is_reported() {
    let busy = with_read(let_go(), read(20, &[("i-source", "busy")]));
    let passes = [20, 24, 25].map(|elapsed| (elapsed, busy.clone()));
    let decided = |passes| summary(&decide_after(passes, &FORWARD));
    assert_eq!(decided(&passes[..2]), "wait detach DetachBusy");
    assert_eq!(decided(&passes), "read vol-1");
}

#[rstest]
#[case::error("error")]
#[case::deleting("deleting")]
#[case::deleted("deleted")]
fn a_lost_disk_fails_the_run(#[case] state: &str) {
    let observation = changed(free(), |all| {
        let read = all.disks.get_mut(DISK).expect("it was read");
        read.disk.as_mut().expect("it exists").state = state.to_owned();
    });
    assert_eq!(summary(&decide(&observation, &FORWARD)), "fail VolumeLost");
}

#[rstest]
#[case::a_scheduled_pod("wait detach PodTerminating", |all: &mut Observation| {
    let other = PodState { version: version("other"), ..pod("other", "job") };
    all.source.pods.insert("backup".into(), other);
})]
#[case::a_pod_that_was_never_scheduled(
    "act fence: delete PersistentVolumeClaim data-web-1 in the source", |all: &mut Observation| {
    let other = PodState { node: None, ..pod("other", "job") };
    all.source.pods.insert("backup".into(), other);
})]
#[case::a_pod_that_has_ended(
    "act fence: delete PersistentVolumeClaim data-web-1 in the source", |all: &mut Observation| {
    let other = PodState { has_ended: true, ..pod("other", "job") };
    all.source.pods.insert("backup".into(), other);
})]
#[case::the_node_of_the_pod("wait detach Unmounting", |all: &mut Observation| {
    all.source.nodes.insert("node-a".into(), node("i-source", &[DISK]));
})]
#[case::an_attachment_of_the_volume("wait detach Detaching", |all: &mut Observation| {
    all.source.attachments.push(AttachmentState { volume: "pv-source".into(), node: "node-b".into() });
})]
#[case::an_attachment_that_ec2_does_not_end("wait detach DetachBusy", |all: &mut Observation| {
    all.source.attachments.push(AttachmentState { volume: "pv-source".into(), node: "node-a".into() });
    all.disks.insert(DISK.into(), read(20, &[("i-source", "busy")]));
})]
#[case::an_attachment_of_another_volume_of_the_disk(
    "wait detach Detaching", |all: &mut Observation| {
    all.source.volumes.insert("pv-copy".into(), volume(VolumePhase::Available, None));
    all.source.attachments.push(AttachmentState { volume: "pv-copy".into(), node: "node-b".into() });
})]
fn a_use_in_the_old_cluster_is_awaited(
    #[case] expected: &str,
    #[case] change: impl FnOnce(&mut Observation),
) {
    assert_eq!(
        summary(&decide(&changed(free(), change), &FORWARD)),
        expected
    );
}

#[rstest]
#[case::not_retained("hold SourceEdited", |all: &mut Observation| {
    all.source.volumes.get_mut("pv-source").expect("it exists").is_retained = false;
})]
#[case::being_deleted("wait fence DeletionPending", |all: &mut Observation| {
    all.source.claims.get_mut(CLAIM).expect("it exists").is_terminating = true;
})]
#[case::absent("act fence: create PersistentVolumeClaim data-web-1 in the source", |all: &mut Observation| {
    all.source.claims.remove(CLAIM);
})]
#[case::of_somebody_else("hold FenceContended", |all: &mut Observation| {
    all.source.claims.insert(CLAIM.into(), live_claim("another", "pv-other"));
})]
#[case::a_foreign_tombstone("hold FenceContended", |all: &mut Observation| {
    let foreign = ClaimState { ownership: Ownership::Foreign("run-2".into()), ..tombstone() };
    all.source.claims.insert(CLAIM.into(), foreign);
})]
#[case::our_tombstone_before_release("wait fence ClaimUnbound", |all: &mut Observation| {
    all.source.claims.insert(CLAIM.into(), tombstone());
})]
fn a_claim_of_the_old_cluster_is_fenced(
    #[case] expected: &str,
    #[case] change: impl FnOnce(&mut Observation),
) {
    assert_eq!(
        summary(&decide(&changed(free(), change), &FORWARD)),
        expected
    );
}

#[rstest]
#[case::a_new_process_reads_first(fenced(), vec![], 21, "read vol-1")]
#[case::two_seconds_after_the_first_read(fenced(), vec![20], 22, "read vol-1")]
#[case::confirmed_by_a_younger_read(
    changed(fenced(), |all| drop(all.disks.insert(DISK.into(), read(23, &[])))),
    vec![20],
    23,
    "wait confirm Detaching"
)]
fn the_second_read_is_two_seconds_later(
    #[case] observation: Observation,
    #[case] earlier: Vec<u64>,
    #[case] elapsed: u64,
    #[case] expected: &str,
) {
    let case = HandoverCase {
        elapsed,
        earlier,
        ..FORWARD
    };
    assert_eq!(summary(&decide(&observation, &case)), expected);
}

/// Passes over several observations in a row, as one process sees them.
fn decide_after(passes: &[(u64, Observation)], case: &HandoverCase) -> Decision {
    let claims = [claim()];
    let mut proof = Proof::default();
    let mut decision = Decision::Done;
    for (elapsed, observation) in passes {
        let old = proof;
        let handover = Handover {
            direction: case.direction,
            ordinal: ORDINAL,
            window: WINDOW,
            set: "web",
            source_namespace: "shop",
            destination_namespace: "shop",
            is_orphaned: case.is_orphaned,
            has_left: case.has_left,
            is_dormant: case.is_dormant,
            pod_uid: case.pod_uid,
            node: Some("node-a").filter(|_| case.direction == Direction::Forward),
            cluster_names: case.cluster_names,
            snapshots: None,
            old_tags: &BTreeMap::new(),
            boot_id: Some("boot-1"),
            released_at: Timestamp::from_second(999_000).ok(),
            accepts_unclean: case.accepts_unclean,
            claims: &claims,
            accepts_unready: case.accepts_unready,
            observation,
            proof: &old,
            now: Timestamp::from_second(1_000_000).expect("a time"),
            elapsed: at(*elapsed),
        };
        let advanced = old.advanced(&handover);
        decision = next(&Handover {
            proof: &advanced,
            ..handover
        });
        proof = advanced;
    }
    decision
}

fn with_read(observation: Observation, read: DiskRead) -> Observation {
    changed(observation, |all| drop(all.disks.insert(DISK.into(), read)))
}

const GROW: &str = "act grow: change spec.replicas of StatefulSet web in the destination";

#[rstest]
#[case::confirmed(vec![(20, free()), (21, fenced()), (24, with_read(fenced(), read(23, &[])))], GROW)]
#[case::second_read_before_the_fence(
    vec![(20, free()), (23, fenced()), (24, with_read(fenced(), read(22, &[])))], "read vol-1")]
#[case::attached_meanwhile(
    vec![(20, free()), (21, fenced()), (24, with_read(fenced(), read(23, &[("i-source", "attached")])))],
    "wait detach Detaching")]
#[case::a_restart_reads_again(vec![(24, with_read(fenced(), read(23, &[])))], "read vol-1")]
#[case::an_old_read_is_repeated(
    vec![(20, free()), (21, fenced()), (24, with_read(fenced(), read(23, &[]))),
         (40, with_read(fenced(), read(23, &[])))], "read vol-1")]
fn the_destination_grows_on_a_young_free_read(
    #[case] passes: Vec<(u64, Observation)>,
    #[case] expected: &str,
) {
    assert_eq!(summary(&decide_after(&passes, &FORWARD)), expected);
}

#[rstest]
#[case::not_attached("wait attach DestUnready", |all: &mut Observation| {
    all.disks.insert(DISK.into(), read(30, &[]));
})]
#[case::attaching("wait attach DestUnready", |all: &mut Observation| {
    all.disks.insert(DISK.into(), read(30, &[("i-dest", "attaching")]));
})]
#[case::attached_elsewhere("wait attach DestUnready", |all: &mut Observation| {
    all.disks.insert(DISK.into(), read(30, &[("i-other", "attached")]));
})]
#[case::never_read("read vol-1", |all: &mut Observation| { all.disks.clear(); })]
#[case::not_attached_by_an_old_read("read vol-1", |all: &mut Observation| {
    all.disks.insert(DISK.into(), read(15, &[]));
})]
#[case::no_pod("wait ready DestUnready", |all: &mut Observation| { all.destination.pods.clear(); })]
#[case::not_ready("wait ready DestUnready", |all: &mut Observation| {
    all.destination.pods.get_mut("web-1").expect("it exists").ready_since = None;
})]
#[case::ready_for_too_short("wait ready DestUnready", |all: &mut Observation| {
    let since = Timestamp::from_second(999_991).ok();
    all.destination.pods.get_mut("web-1").expect("it exists").ready_since = since;
})]
#[case::ready_for_long_enough("done", |all: &mut Observation| {
    let since = Timestamp::from_second(999_990).ok();
    all.destination.pods.get_mut("web-1").expect("it exists").ready_since = since;
})]
#[case::of_another_controller("wait ready DestUnready", |all: &mut Observation| {
    all.destination.pods.insert("web-1".into(), pod("pod-dest", "another"));
})]
#[case::on_another_volume("fail VolumeMismatch", |all: &mut Observation| {
    all.destination.claims.insert(CLAIM.into(), live_claim("claim-dest", "pv-empty"));
})]
#[case::on_another_disk("fail VolumeMismatch", |all: &mut Observation| {
    let live = all.destination.volumes.get_mut("pv-dest").expect("it exists");
    live.disk = Some("vol-2".into());
})]
fn an_ordinal_arrives_on_its_own_disk(
    #[case] expected: &str,
    #[case] change: impl FnOnce(&mut Observation),
) {
    assert_eq!(
        summary(&decide(&changed(arrived(), change), &FORWARD)),
        expected
    );
}

#[rstest]
#[case::running_there_is_released(
    arrived(),
    "act r-release: change spec.replicas of StatefulSet web in the destination"
)]
#[case::an_unready_pod_is_deleted(
    changed(arrived(), |all| all.destination.set = Some(set("set-dest", 0, 1))),
    "act r-gone: delete Pod web-1 in the destination")]
#[case::free_disk_is_fenced(
    free(),
    "act r-fence: delete PersistentVolumeClaim data-web-1 in the destination"
)]
#[case::volume_follows_the_fenced_claim(
    changed(fenced(), |all| {
        all.destination.claims.insert(CLAIM.into(), tombstone());
        all.destination.volumes.insert("pv-dest".into(), volume(VolumePhase::Released, Some("claim-dest")));
    }),
    "act r-fence: delete PersistentVolume pv-dest in the destination")]
#[case::fenced_disk_is_confirmed(fenced_in_destination(), "wait r-confirm Detaching")]
fn back_goes_step_by_step(#[case] observation: Observation, #[case] expected: &str) {
    assert_eq!(summary(&decide(&observation, &BACK)), expected);
}

#[rstest]
#[case::volume_forgets_the_uid("act r-unfence: change spec.claimRef of PersistentVolume pv-source in the source",
    |_: &mut Observation| {})]
#[case::then_the_tombstone_goes(
    "act r-unfence: delete PersistentVolumeClaim data-web-1 in the source", |all: &mut Observation| {
    all.source.volumes.insert("pv-source".into(), volume(VolumePhase::Available, None));
})]
#[case::then_the_claim_returns(
    "act r-unfence: create PersistentVolumeClaim data-web-1 in the source", |all: &mut Observation| {
    all.source.volumes.insert("pv-source".into(), volume(VolumePhase::Available, None));
    all.source.claims.remove(CLAIM);
})]
#[case::a_lost_claim_first_frees_the_volume(
    "act r-unfence: change spec.claimRef of PersistentVolume pv-source in the source",
    |all: &mut Observation| drop(all.source.claims.remove(CLAIM)))]
#[case::binding_is_awaited("wait r-unfence ClaimUnbound", |all: &mut Observation| {
    all.source.volumes.insert("pv-source".into(), volume(VolumePhase::Available, None));
    let unbound = ClaimState { is_bound: false, ..live_claim("new", "pv-source") };
    all.source.claims.insert(CLAIM.into(), unbound);
})]
#[case::a_widened_source_is_narrowed(
    "act r-unfence: change spec.ordinals, spec.replicas of StatefulSet web in the source", |all: &mut Observation| {
    all.source.set = Some(set("set-source", 1, 2));
})]
#[case::its_pod_goes_first("wait r-unfence PodTerminating", |all: &mut Observation| {
    all.source.pods.insert("web-1".into(), pod("pod-new", "set-source"));
})]
#[case::a_terminating_tombstone_is_awaited("wait r-unfence DeletionPending", |all: &mut Observation| {
    let leaving = ClaimState { is_terminating: true, ..tombstone() };
    all.source.claims.insert(CLAIM.into(), leaving);
})]
#[case::another_claim_holds("hold FenceContended", |all: &mut Observation| {
    all.source.claims.insert(CLAIM.into(), live_claim("new", "pv-other"));
})]
#[case::a_missing_volume_holds("hold SourceEdited", |all: &mut Observation| {
    all.source.volumes.clear();
})]
#[case::bound_lets_the_source_grow(
    "act r-grow: change spec.ordinals, spec.replicas of StatefulSet web in the source",
    |all: &mut Observation| {
    all.source.volumes.insert("pv-source".into(), volume(VolumePhase::Bound, Some("new")));
    all.source.claims.insert(CLAIM.into(), live_claim("new", "pv-source"));
})]
fn the_source_gets_its_claims_back(
    #[case] expected: &str,
    #[case] change: impl FnOnce(&mut Observation),
) {
    let young = with_read(fenced_in_destination(), read(23, &[]));
    let changed = changed(young, change);
    let passes = vec![(20, free()), (21, fenced_in_destination()), (24, changed)];
    assert_eq!(summary(&decide_after(&passes, &BACK)), expected);
}

#[test]
fn a_change_names_the_version_that_was_read() {
    let Decision::Act(step) = decide(&running(), &FORWARD) else {
        panic!("it acts");
    };
    let Change::Patch { target, patch, .. } = step.change else {
        panic!("it patches");
    };
    assert_eq!(target.version, version("set-source"));
    assert_eq!(
        patch,
        json!({"spec": {"ordinals": {"start": 2}, "replicas": 1}})
    );
}

#[test]
fn dormant_claims_are_fenced_and_nothing_grows() {
    let case = HandoverCase {
        is_dormant: true,
        ..FORWARD
    };
    let confirmed = with_read(fenced(), read(23, &[]));
    let passes = [(20, free()), (21, fenced()), (24, confirmed)];
    assert_eq!(summary(&decide_after(&passes, &case)), "done");
    assert_eq!(
        summary(&decide_after(&passes[..1], &case)),
        "act fence: delete PersistentVolumeClaim data-web-1 in the source"
    );
}

/// Passes while the disk leaves: the first sees `leaving`, the others a clean end.
fn decide_after_leaving(leaving: Observation, case: &HandoverCase) -> Decision {
    let confirmed = with_read(fenced(), read(23, &[]));
    let passes = [(19, leaving), (20, free()), (21, fenced()), (24, confirmed)];
    decide_after(&passes, case)
}

fn node_of_pod(all: &mut Observation) -> &mut crate::migration::observation::NodeState {
    all.source.nodes.get_mut("node-a").expect("it exists")
}

#[rstest]
#[case::clean(GROW, |_: &mut Observation| {})]
#[case::the_node_fails("hold UncleanDetach", |all: &mut Observation| node_of_pod(all).is_ready = false)]
#[case::the_node_is_out_of_service("hold UncleanDetach",
    |all: &mut Observation| node_of_pod(all).is_out_of_service = true)]
#[case::the_node_is_deleted("hold UncleanDetach", |all: &mut Observation| all.source.nodes.clear())]
#[case::detached_while_mounted("hold UncleanDetach", |all: &mut Observation| {
    node_of_pod(all).mounted = vec![DISK.into()];
    all.source.attachments.clear();
})]
#[case::mounted_and_attached(GROW, |all: &mut Observation| node_of_pod(all).mounted = vec![DISK.into()])]
#[case::another_node_fails(GROW, |all: &mut Observation| {
    all.source.nodes.insert("node-b".into(), crate::migration::observation::NodeState::default());
})]
#[case::restarted_unseen("hold UncleanDetach", |all: &mut Observation| node_of_pod(all).boot_id = "boot-2".into())]
#[case::not_restarted(GROW, |all: &mut Observation| node_of_pod(all).boot_id = "boot-1".into())]
#[case::not_ready_unseen("hold UncleanDetach",
    |all: &mut Observation| node_of_pod(all).ready_since = Timestamp::from_second(999_001).ok())]
#[case::ready_before_the_release(GROW,
    |all: &mut Observation| node_of_pod(all).ready_since = Timestamp::from_second(998_999).ok())]
fn a_disk_that_was_not_detached_cleanly_is_held(
    #[case] expected: &str,
    #[case] change: impl FnOnce(&mut Observation),
) {
    let leaving = changed(released(), change);
    assert_eq!(summary(&decide_after_leaving(leaving, &FORWARD)), expected);
}

#[rstest]
#[case::by_live_reads(true, "hold UncleanDetach")]
#[case::by_caches_of_different_age(false, GROW)]
fn a_mounted_disk_without_attachment_needs_live_reads(
    #[case] is_live: bool,
    #[case] expected: &str,
) {
    let leaving = changed(released(), |all| {
        node_of_pod(all).mounted = vec![DISK.into()];
        all.source.attachments.clear();
        all.is_live = is_live;
    });
    assert_eq!(summary(&decide_after_leaving(leaving, &FORWARD)), expected);
}

#[test]
fn a_node_that_was_deleted_unseen_is_unclean() {
    let without_nodes = |all: Observation| changed(all, |all| all.source.nodes.clear());
    let confirmed = with_read(fenced(), read(23, &[]));
    let passes = [(20, free()), (21, fenced()), (24, confirmed)];
    let passes = passes.map(|(at, all)| (at, without_nodes(all)));
    assert_eq!(
        summary(&decide_after(&passes, &FORWARD)),
        "hold UncleanDetach"
    );
}

#[test]
fn a_disk_is_unused_since_the_objects_were_read() {
    let read_before_the_decision = changed(let_go(), |all| {
        all.read_at = Some(at(18));
        all.disks.insert(DISK.into(), read(19, &[]));
    });
    let fence = "act fence: delete PersistentVolumeClaim data-web-1 in the source";
    assert_eq!(summary(&decide(&read_before_the_decision, &FORWARD)), fence);
    let read_after_the_disk = changed(read_before_the_decision, |all| all.read_at = Some(at(20)));
    assert_eq!(
        summary(&decide(&read_after_the_disk, &FORWARD)),
        "read vol-1"
    );
}

#[test]
fn an_unclean_detach_may_be_accepted() {
    let failed = changed(released(), |all| node_of_pod(all).is_ready = false);
    let case = HandoverCase {
        accepts_unclean: true,
        ..FORWARD
    };
    assert_eq!(summary(&decide_after_leaving(failed, &case)), GROW);
}

#[test]
fn a_confirmed_disk_is_retagged_before_the_destination_grows() {
    let case = HandoverCase {
        cluster_names: Some(("old", "new")),
        ..FORWARD
    };
    let confirmed = with_read(fenced(), read(23, &[]));
    let passes = [(20, free()), (21, fenced()), (24, confirmed)];
    let retag = "act retag: create tags ebs.csi.aws.com/cluster, ebs.csi.aws.com/cluster-name of disk vol-1";
    assert_eq!(summary(&decide_after(&passes, &case)), retag);
    assert_eq!(
        summary(&decide_after(&passes[..2], &case)),
        "wait confirm Detaching"
    );
}

#[rstest]
#[case::of_nobody(None, "hold ForeignConsumer")]
#[case::of_another_controller(Some("job"), "hold ForeignConsumer")]
#[case::of_the_set(Some("set-dest"), "act r-gone: delete Pod web-1 in the destination")]
fn a_pod_of_somebody_else_is_not_deleted(#[case] controller: Option<&str>, #[case] expected: &str) {
    let observation = changed(arrived(), |all| {
        all.destination.set = Some(set("set-dest", 0, 1));
        let pod = all.destination.pods.get_mut("web-1").expect("it exists");
        pod.controller = controller.map(str::to_owned);
    });
    assert_eq!(summary(&decide(&observation, &BACK)), expected);
}

#[rstest]
#[case::the_set_retains_claims(
    "act r-release: change spec.persistentVolumeClaimRetentionPolicy of StatefulSet web in the destination",
    |all: &mut Observation| all.destination.set.as_mut().expect("it exists").retains_claims = false)]
#[case::its_volumes_are_retained(
    "act r-release: change spec.persistentVolumeReclaimPolicy of PersistentVolume pv-dest in the destination",
    |all: &mut Observation| {
    all.destination.volumes.get_mut("pv-dest").expect("it exists").is_retained = false;
})]
#[case::a_foreign_volume_is_retained("hold DestinationEdited", |all: &mut Observation| {
    let volume = all.destination.volumes.get_mut("pv-dest").expect("it exists");
    volume.is_retained = false;
    volume.ownership = Ownership::Unmarked;
})]
fn the_destination_releases_an_ordinal_once(
    #[case] expected: &str,
    #[case] change: impl FnOnce(&mut Observation),
) {
    assert_eq!(
        summary(&decide(&changed(arrived(), change), &BACK)),
        expected
    );
}

#[rstest]
#[case::that_is_not_retained(
    "act r-fence: change spec.persistentVolumeReclaimPolicy of PersistentVolume pv-dest in the destination",
    |all: &mut Observation| {
    all.destination.volumes.get_mut("pv-dest").expect("it exists").is_retained = false;
})]
#[case::that_is_missing(
    "act r-fence: delete PersistentVolumeClaim data-web-1 in the destination",
    |all: &mut Observation| drop(all.destination.volumes.remove("pv-dest")))]
#[case::of_another_claim("hold FenceContended", |all: &mut Observation| {
    let other = ClaimState { ownership: Ownership::Ours, ..live_claim("other", "pv-other") };
    all.destination.claims.insert(CLAIM.into(), other);
})]
#[case::with_the_finalizer_of_the_provisioner("wait r-fence ProvisionerFinalizer",
    |all: &mut Observation| {
    all.destination.claims.insert(CLAIM.into(), tombstone());
    let released = VolumeState {
        has_provisioner_finalizer: true,
        ..volume(VolumePhase::Released, Some("claim-dest"))
    };
    all.destination.volumes.insert("pv-dest".into(), released);
})]
fn back_a_volume_of_the_destination(
    #[case] expected: &str,
    #[case] change: impl FnOnce(&mut Observation),
) {
    assert_eq!(summary(&decide(&changed(free(), change), &BACK)), expected);
}

#[rstest]
#[case::released(VolumePhase::Released, true, "wait confirm Detaching")]
#[case::reserved_for_the_fenced_claim(VolumePhase::Available, true, "wait confirm Detaching")]
#[case::free_for_any_claim(VolumePhase::Available, false, "hold FenceContended")]
#[case::bound_to_another_claim(VolumePhase::Bound, false, "hold FenceContended")]
#[case::of_an_unknown_phase(VolumePhase::Pending, true, "wait fence ClaimUnbound")]
fn a_fence_needs_a_volume_that_nobody_gets(
    #[case] phase: VolumePhase,
    #[case] is_reserved: bool,
    #[case] expected: &str,
) {
    let observation = changed(fenced(), |all| {
        let volume = all.source.volumes.get_mut("pv-source").expect("it exists");
        volume.phase = phase;
        volume.claim = volume.claim.take().filter(|_| is_reserved);
    });
    assert_eq!(summary(&decide(&observation, &FORWARD)), expected);
}

#[test]
fn a_captured_claim_without_its_volume_is_no_intruder() {
    let observation = changed(free(), |all| all.source.volumes.clear());
    assert_eq!(
        summary(&decide(&observation, &FORWARD)),
        "hold SourceEdited"
    );
}

#[test]
fn an_attachment_counts_although_its_volume_is_gone() {
    let observation = changed(free(), |all| {
        all.source.volumes.clear();
        all.source.attachments.push(AttachmentState {
            volume: "pv-source".into(),
            node: "node-a".into(),
        });
    });
    assert_eq!(
        summary(&decide(&observation, &FORWARD)),
        "wait detach Detaching"
    );
}

#[test]
fn an_old_read_does_not_prove_that_the_receiver_has_the_disk() {
    let old = with_read(let_go(), read(14, &[("i-dest", "attached")]));
    assert_eq!(summary(&decide(&old, &FORWARD)), "read vol-1");
}

#[test]
fn a_destination_that_runs_early_does_not_end_the_fence() {
    let early = changed(arrived(), |all| drop(all.source.claims.remove(CLAIM)));
    assert_eq!(
        summary(&decide(&early, &FORWARD)),
        "act fence: create PersistentVolumeClaim data-web-1 in the source"
    );
}

#[test]
fn a_fenced_ordinal_arrives_although_the_source_was_widened() {
    let widened = changed(arrived(), |all| {
        all.source.set = Some(set("set-source", 0, 3));
    });
    assert_eq!(summary(&decide(&widened, &FORWARD)), "done");
}

#[rstest]
#[case::absent(DiskRead { disk: None, began: at(30) }, "hold VolumeMissing")]
#[case::lost(lost(), "fail VolumeLost")]
fn a_disk_may_be_lost_while_it_attaches(#[case] read: DiskRead, #[case] expected: &str) {
    assert_eq!(
        summary(&decide(&with_read(arrived(), read), &FORWARD)),
        expected
    );
}

fn lost() -> DiskRead {
    let mut read = read(30, &[]);
    read.disk.as_mut().expect("it exists").state = "error".to_owned();
    read
}

#[test]
fn a_pod_that_leaves_a_claim_out_has_not_arrived() {
    let without = changed(arrived(), |all| {
        let pod = all.destination.pods.get_mut("web-1").expect("it exists");
        pod.claims.clear();
    });
    assert_eq!(summary(&decide(&without, &FORWARD)), "fail VolumeMismatch");
}

#[test]
fn a_young_pod_is_looked_at_when_it_becomes_available() {
    let young = changed(arrived(), |all| {
        let pod = all.destination.pods.get_mut("web-1").expect("it exists");
        pod.ready_since = Timestamp::from_second(999_997).ok();
    });
    let Decision::Wait(wait) = decide(&young, &FORWARD) else {
        panic!("it waits");
    };
    assert_eq!(wait.after, Some(Duration::from_secs(7)));
}

#[rstest]
#[case::free_for_any_claim(None, "hold FenceContended")]
#[case::of_another_claim(Some("debug"), "hold FenceContended")]
#[case::of_the_fenced_claim(
    Some(CLAIM),
    "act r-unfence: delete PersistentVolumeClaim data-web-1 in the source"
)]
fn a_volume_of_somebody_else_is_not_unbound(#[case] claim: Option<&str>, #[case] expected: &str) {
    let observation = changed(with_read(fenced_in_destination(), read(23, &[])), |all| {
        let volume = all.source.volumes.get_mut("pv-source").expect("it exists");
        volume.claim = claim.map(|name| ClaimReference {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            uid: None,
        });
    });
    let passes = vec![
        (20, free()),
        (21, fenced_in_destination()),
        (24, observation),
    ];
    assert_eq!(summary(&decide_after(&passes, &BACK)), expected);
}

#[test]
fn a_claim_that_names_no_volume_yet_gets_this_one() {
    let observation = changed(with_read(fenced_in_destination(), read(23, &[])), |all| {
        all.source
            .volumes
            .insert("pv-source".into(), volume(VolumePhase::Available, None));
        let unbound = ClaimState {
            volume: None,
            is_bound: false,
            ..live_claim("new", "")
        };
        all.source.claims.insert(CLAIM.into(), unbound);
    });
    let passes = vec![
        (20, free()),
        (21, fenced_in_destination()),
        (24, observation),
    ];
    assert_eq!(
        summary(&decide_after(&passes, &BACK)),
        "wait r-unfence ClaimUnbound"
    );
}

/// The source has no StatefulSet, and its pods run alone.
fn orphaned(mut all: Observation) -> Observation {
    all.source.set = None;
    for pod in all.source.pods.values_mut() {
        pod.controller = None;
    }
    all
}

#[rstest]
#[case::the_pod_is_deleted(running(), false, "act release: delete Pod web-1 in the source")]
#[case::an_ending_pod_is_awaited(
    changed(running(), |all| all.source.pods.get_mut("web-1").expect("it runs").is_terminating = true),
    false,
    "wait gone PodTerminating"
)]
#[case::a_pod_that_stays_is_deleted_again(
    running(),
    true,
    "act gone: delete Pod web-1 in the source"
)]
#[case::a_pod_of_somebody_else(
    changed(running(), |all| drop(all.source.pods.insert("web-1".into(), pod("another", "x")))),
    true,
    "hold ForeignConsumer"
)]
#[case::without_the_pod_its_disk_leaves(let_go(), true, "read vol-1")]
#[case::fenced(fenced(), true, "wait confirm Detaching")]
#[case::arrived(arrived(), true, "done")]
fn without_a_set_the_operator_deletes_the_pod(
    #[case] observation: Observation,
    #[case] has_left: bool,
    #[case] expected: &str,
) {
    let case = HandoverCase {
        is_orphaned: true,
        has_left,
        ..FORWARD
    };
    assert_eq!(summary(&decide(&orphaned(observation), &case)), expected);
}
