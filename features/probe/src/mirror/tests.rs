//! The tables of plan.rs and status.rs, row by row.

use std::time::Duration;

use api::probe::{ACCEPT_CLUSTER, Mirror, MirrorSpec, MirrorStatus, READY, SecretKey, reasons};
use cluster_client::{ClusterIdentity, Verdict};
use engine::{Ended, KindCore, Next, Object, PassFacts, Stop, Truth};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kernel::{CallError, Class, ClusterId, ObjectKey, Ownership, Reason};
use rstest::rstest;

use super::plan::{is_accepted, same_cluster};
use super::{Connection, Copy, MirrorCore, Observed, PinnedCluster, Read, Seen, Step, World};

fn core() -> MirrorCore {
    MirrorCore {
        cluster: ClusterId::new("harbour").expect("it is a valid name"),
    }
}

/// A Mirror that desires text `t`; nothing was read yet.
fn world() -> World {
    let metadata = ObjectMeta {
        name: Some("ferry".to_owned()),
        namespace: Some("team".to_owned()),
        ..ObjectMeta::default()
    };
    let spec = MirrorSpec {
        kubeconfig: SecretKey {
            name: "there".to_owned(),
            key: "kubeconfig".to_owned(),
        },
        namespace: "abroad".to_owned(),
        text: "t".to_owned(),
    };
    World {
        object: Object {
            key: ObjectKey::namespaced("team", "ferry"),
            metadata: metadata.clone(),
            resource: Mirror {
                metadata,
                spec,
                status: None,
            },
            status: MirrorStatus::default(),
            conditions: Vec::new(),
            exists: true,
        },
        facts: (),
        observed: Observed::default(),
        memory: (),
        fresh_intents: Vec::new(),
        is_unsaved: false,
        now: Timestamp::UNIX_EPOCH,
        elapsed: Duration::ZERO,
        pass: PassFacts {
            id: "00000000".to_owned(),
            random: 0.0,
            retry_in: Duration::ZERO,
            is_urgent: false,
        },
    }
}

fn pinned(cluster: &str, mut world: World) -> World {
    world.object.status.cluster = Some(cluster.to_owned());
    world
}

fn connected(connection: Connection, mut world: World) -> World {
    world.observed.connection = Some(connection);
    world
}

fn deleted(mut world: World) -> World {
    world.object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    world
}

fn accepted(cluster: &str, mut world: World) -> World {
    let annotations = world.object.metadata.annotations.get_or_insert_default();
    annotations.insert(ACCEPT_CLUSTER.to_owned(), cluster.to_owned());
    world
}

/// This acceptance was used before.
fn used(cluster: &str, mut world: World) -> World {
    world.object.status.accepted_cluster = Some(cluster.to_owned());
    world
}

fn failed(mut world: World) -> World {
    world.observed.error = Some(CallError::new(Class::Unreachable, "no answer"));
    world
}

/// Connected to the pinned cluster, where this copy was read.
fn copied(copy: Seen, world: World) -> World {
    let connection = Connection::Cluster("a".to_owned());
    let mut world = pinned("a", connected(connection, world));
    world.observed.copy = copy;
    world
}

fn copy(ownership: Ownership, text: &str) -> Seen {
    Seen::Present(Copy {
        ownership,
        uid: "u".to_owned(),
        text: Some(text.to_owned()),
    })
}

fn foreign() -> Ownership {
    Ownership::Foreign("other/mirror".to_owned())
}

/// The calls, `done`, or the code of the reason to stop.
fn next_in_text(world: &World) -> String {
    match core().next(world) {
        Ok(Next::Done { .. }) => "done".to_owned(),
        Ok(Next::Calls { reads, steps }) => {
            let reads = reads.iter().map(ToString::to_string);
            let all = reads.chain(steps.iter().map(ToString::to_string));
            all.collect::<Vec<_>>().join(", ")
        }
        Err(stop) => stop.reason().code.to_string(),
    }
}

#[rstest]
#[case::nothing_written(deleted(world()), "done")]
#[case::a_failed_call(failed(world()), reasons::FAILED)]
#[case::not_connected(world(), "connect with Secret there")]
#[case::deleted_and_pinned(pinned("a", deleted(world())), "connect with Secret there")]
#[case::no_secret(
    connected(Connection::NoKubeconfig, world()),
    reasons::SECRET_NOT_READABLE
)]
#[case::refused(
    connected(Connection::Refused("users[0].user.exec".to_owned()), world()),
    reasons::KUBECONFIG_REFUSED
)]
#[case::another_cluster(
    pinned("a", connected(Connection::Cluster("b".to_owned()), world())),
    reasons::IDENTITY_CHANGED
)]
#[case::moved(
    connected(Connection::Moved("it is b, and a is expected".to_owned()), world()),
    reasons::IDENTITY_CHANGED
)]
#[case::accepted(
    accepted("b", pinned("a", connected(Connection::Cluster("b".to_owned()), world()))),
    "get the copy in namespace abroad"
)]
#[case::another_one_accepted(
    accepted("c", pinned("a", connected(Connection::Cluster("b".to_owned()), world()))),
    reasons::IDENTITY_CHANGED
)]
#[case::accepted_and_used(
    used("b", accepted("b", pinned("a", connected(Connection::Cluster("b".to_owned()), world())))),
    reasons::IDENTITY_CHANGED
)]
#[case::copy_not_read(
    connected(Connection::Cluster("a".to_owned()), world()),
    "get the copy in namespace abroad"
)]
fn what_comes_first(#[case] world: World, #[case] expected: &str) {
    assert_eq!(next_in_text(&world), expected);
}

#[rstest]
#[case::deleted_and_none(copied(Seen::Absent, deleted(world())), "done")]
#[case::deleted_and_ours(
    copied(copy(Ownership::Ours, "t"), deleted(world())),
    "delete the copy in namespace abroad"
)]
#[case::deleted_and_foreign(copied(copy(foreign(), "t"), deleted(world())), "done")]
#[case::deleted_and_unmarked(copied(copy(Ownership::Unmarked, "t"), deleted(world())), "done")]
#[case::none(copied(Seen::Absent, world()), "write the copy in namespace abroad")]
#[case::foreign(copied(copy(foreign(), "t"), world()), reasons::NAME_TAKEN)]
#[case::unmarked(copied(copy(Ownership::Unmarked, "t"), world()), reasons::NAME_TAKEN)]
#[case::other_text(
    copied(copy(Ownership::Ours, "x"), world()),
    "write the copy in namespace abroad"
)]
#[case::same_text(copied(copy(Ownership::Ours, "t"), world()), "done")]
#[case::same_text_not_on_record(
    accepted("a", pinned("b", copied(copy(Ownership::Ours, "t"), world()))),
    "write the copy in namespace abroad"
)]
fn what_happens_to_the_copy(#[case] world: World, #[case] expected: &str) {
    assert_eq!(next_in_text(&world), expected);
}

#[rstest]
#[case::create(copied(Seen::Absent, world()), None)]
#[case::edit(copied(copy(Ownership::Ours, "x"), world()), Some("u"))]
fn a_write_is_bound_to_the_copy_and_its_cluster(#[case] world: World, #[case] uid: Option<&str>) {
    let Ok(Next::Calls { steps, .. }) = core().next(&world) else {
        panic!("a write is due");
    };
    let [step @ Step::Write { over, .. }] = &steps[..] else {
        panic!("{steps:?}");
    };
    assert_eq!(over.as_deref(), uid);
    let intent = core().intent_for(step);
    assert_eq!(intent, Some(PinnedCluster("a".to_owned())));
    assert_eq!(
        core().saved_intents(&world.object.status),
        Vec::from_iter(intent)
    );
}

#[rstest]
#[case::none(world(), None)]
#[case::not_used(accepted("b", world()), Some("b"))]
#[case::used(used("b", accepted("b", world())), None)]
#[case::another_was_used(used("a", accepted("b", world())), Some("b"))]
fn an_acceptance_is_read_with_until_it_is_used(
    #[case] world: World,
    #[case] expected: Option<&str>,
) {
    let Ok(Next::Calls { reads, .. }) = core().next(&world) else {
        panic!("a read is due");
    };
    let [Read::Connection { accepted, .. }] = &reads[..] else {
        panic!("{reads:?}");
    };
    assert_eq!(accepted.as_deref(), expected);
}

#[rstest]
#[case::none(copied(Seen::Absent, world()), None)]
#[case::none_any_more(used("a", copied(Seen::Absent, world())), None)]
#[case::used_before(used("b", accepted("b", world())), Some("b"))]
#[case::pinned_and_connected(accepted("a", copied(Seen::Absent, world())), Some("a"))]
#[case::not_connected(accepted("a", pinned("a", world())), None)]
#[case::not_pinned(
    accepted("b", pinned("a", connected(Connection::Cluster("b".to_owned()), world()))),
    None
)]
#[case::connected_to_another(
    accepted("a", pinned("a", connected(Connection::Cluster("b".to_owned()), world()))),
    None
)]
#[case::moved(
    accepted("a", pinned("a", connected(Connection::Moved("it is b".to_owned()), world()))),
    None
)]
#[case::another_was_used(
    used("a", accepted("b", pinned("b", connected(Connection::Cluster("b".to_owned()), world())))),
    Some("b")
)]
fn an_acceptance_counts_once(#[case] world: World, #[case] expected: Option<&str>) {
    let stopped = Ended::Stopped(Stop::blocked(Reason::new(
        reasons::NAME_TAKEN,
        "it is taken",
    )));
    for ended in [DONE, stopped] {
        let (status, _) = core().status(&world, &ended);
        assert_eq!(status.accepted_cluster.as_deref(), expected, "{ended:?}");
    }
}

#[test]
fn an_acceptance_is_recorded_before_the_first_write() {
    let connection = Connection::Cluster("b".to_owned());
    let world = accepted("b", pinned("a", connected(connection, world())));
    let announcing = Ended::Announcing(vec![PinnedCluster("b".to_owned())]);
    let (status, _) = core().status(&world, &announcing);
    assert_eq!(status.cluster.as_deref(), Some("b"));
    assert_eq!(status.accepted_cluster.as_deref(), Some("b"));
}

fn identity(uid: &str) -> ClusterIdentity {
    ClusterIdentity::new(uid).expect("it is a valid UID")
}

fn another() -> Verdict {
    Verdict::Another {
        pinned: identity("a"),
        seen: identity("b"),
    }
}

#[rstest]
#[case::the_other_one(another(), "b", Some("b"), true)]
#[case::the_pinned_one_again(another(), "a", Some("a"), true)]
#[case::not_the_one_that_answers(another(), "b", Some("a"), false)]
#[case::not_accepted(another(), "b", None, false)]
#[case::not_moved(Verdict::Same, "a", Some("a"), false)]
fn only_the_cluster_that_answers_is_accepted(
    #[case] verdict: Verdict,
    #[case] seen: &str,
    #[case] accepted: Option<&str>,
    #[case] expected: bool,
) {
    assert_eq!(is_accepted(&verdict, &identity(seen), accepted), expected);
}

#[rstest]
#[case::the_same("a", Some("a"), None)]
#[case::another("a", Some("b"), Some(Class::Stale))]
#[case::none("a", None, Some(Class::Stale))]
fn a_step_for_another_cluster_is_refused(
    #[case] decided_for: &str,
    #[case] pinned: Option<&str>,
    #[case] refused: Option<Class>,
) {
    let result = same_cluster(decided_for, pinned.map(identity).as_ref());
    assert_eq!(result.err().map(|error| error.class), refused);
}

const DONE: Ended<PinnedCluster> = Ended::Done { recheck: None };

#[rstest]
#[case::announcing(world(), Ended::Announcing(vec![PinnedCluster("a".to_owned())]), Some("a"), None)]
#[case::previewed(pinned("a", world()), Ended::Previewed(Vec::new()), Some("a"), None)]
#[case::done(pinned("a", world()), DONE, Some("a"), Some((Truth::True, reasons::SUCCEEDED)))]
#[case::stopped(
    pinned("a", world()),
    Ended::Stopped(Stop::blocked(Reason::new(reasons::IDENTITY_CHANGED, "it is cluster b"))),
    Some("a"),
    Some((Truth::False, reasons::IDENTITY_CHANGED))
)]
fn status_after(
    #[case] world: World,
    #[case] ended: Ended<PinnedCluster>,
    #[case] cluster: Option<&str>,
    #[case] ready: Option<(Truth, &str)>,
) {
    let (status, report) = core().status(&world, &ended);
    assert_eq!(status.cluster.as_deref(), cluster);
    let reported = report.get(READY);
    let reported = reported.map(|(truth, reason)| (truth, &*reason.code));
    assert_eq!(reported, ready);
}
