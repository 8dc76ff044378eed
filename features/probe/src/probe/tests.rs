//! The tables of plan.rs and status.rs, row by row.

use std::time::Duration;

use api::probe::{
    Behaviour, DeletionPolicy, Outside, Probe, ProbeSpec, ProbeStatus, READY, SecretKey, reasons,
};
use engine::{Ended, KindCore, Learned, Next, Object, PassFacts, Stop, Truth};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kernel::{CallError, Class, ClusterId, ObjectKey};
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    Cached, ConfigMap, Digest, Facts, Observed, OutsideName, ProbeCore, Read, Seen, Step, Thing,
    World,
};

const NAME: &str = "harbour-team-ferry";

fn core() -> ProbeCore {
    ProbeCore {
        cluster: ClusterId::new("harbour").expect("it is a valid name"),
    }
}

/// A Probe that desires text `t` and value `a` outside; nothing was read yet, and the cache is empty.
fn world() -> World {
    let metadata = ObjectMeta {
        name: Some("ferry".to_owned()),
        namespace: Some("team".to_owned()),
        uid: Some("u".to_owned()),
        ..ObjectMeta::default()
    };
    let spec = ProbeSpec {
        text: "t".to_owned(),
        outside: Some(Outside {
            value: Some("a".to_owned()),
            secret: None,
        }),
        deletion_policy: DeletionPolicy::Delete,
        behaviour: Behaviour::Well,
    };
    World {
        object: Object {
            key: ObjectKey::namespaced("team", "ferry"),
            metadata: metadata.clone(),
            resource: Probe {
                metadata,
                spec,
                status: None,
            },
            status: ProbeStatus::default(),
            conditions: Vec::new(),
            exists: true,
        },
        facts: Facts {
            config_map: Cached::Absent,
        },
        observed: Observed::default(),
        memory: (),
        fresh_intents: Vec::new(),
        is_unsaved: false,
        now: Timestamp::UNIX_EPOCH,
        elapsed: Duration::ZERO,
        pass: PassFacts {
            id: "00000000".to_owned(),
            random: 0.5,
            retry_in: Duration::from_secs(5),
            is_urgent: false,
        },
    }
}

fn thing(marker: Option<&str>, value: &str) -> Seen<Thing> {
    Seen::Present(Thing {
        marker: marker.map(str::to_owned),
        value: Digest::of(value),
    })
}

fn ours(value: &str) -> Seen<Thing> {
    thing(Some("harbour|team/ferry"), value)
}

fn config_map(owner: &str, is_current: bool) -> Seen<ConfigMap> {
    Seen::Present(ConfigMap {
        owner: Some(owner.to_owned()),
        is_current,
        live: json!("live"),
    })
}

/// All was read: this outside, and a ConfigMap as desired.
fn read(thing: Seen<Thing>) -> World {
    let mut world = world();
    world.observed.thing = thing;
    world.observed.config_map = config_map("u", true);
    world
}

fn on_record(mut world: World) -> World {
    world.object.status.outside_name = Some(NAME.to_owned());
    world
}

fn without_outside(mut world: World) -> World {
    world.object.resource.spec.outside = None;
    world
}

fn deleted(mut world: World) -> World {
    world.object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    world
}

fn retained(mut world: World) -> World {
    world.object.resource.spec.deletion_policy = DeletionPolicy::Retain;
    world
}

fn behaving(behaviour: Behaviour, mut world: World) -> World {
    world.object.resource.spec.behaviour = behaviour;
    world
}

fn from_secret(secret: Seen<Digest>, mut world: World) -> World {
    let key = SecretKey {
        name: "s".to_owned(),
        key: "k".to_owned(),
    };
    world.object.resource.spec.outside = Some(Outside {
        value: None,
        secret: Some(key),
    });
    world.observed.secret = secret;
    world
}

fn failed(mut world: World) -> World {
    world.observed.error = Some(CallError::new(Class::Denied, "not permitted"));
    world
}

/// What `next` asks for, in words.
fn next_in_text(world: &World) -> String {
    let phrases = |reads: &[Read], steps: &[Step]| {
        let reads = reads.iter().map(ToString::to_string);
        let steps = steps.iter().map(ToString::to_string);
        reads.chain(steps).collect::<Vec<_>>().join(", ")
    };
    match core().next(world) {
        Ok(Next::Calls { reads, steps }) => phrases(&reads, &steps),
        Ok(Next::Done { recheck: None }) => "done".to_owned(),
        Ok(Next::Done { recheck }) => format!("done until {recheck:?}"),
        Err(Stop::Waiting { reason, .. }) => format!("wait: {}", reason.code),
        Err(Stop::Blocked { reason }) => format!("blocked: {}", reason.code),
        Err(Stop::Failed { reason, class }) => format!("failed: {class:?} {}", reason.message),
    }
}

#[rstest]
#[case::a_call_failed(failed(read(ours("a"))), "failed: Denied not permitted")]
#[case::deleted_and_retained(deleted(retained(on_record(world()))), "done")]
#[case::deleted(deleted(on_record(world())), "get thing harbour-team-ferry")]
#[case::quiet(behaving(Behaviour::Quiet, world()), "write the ConfigMap")]
#[case::panic(behaving(Behaviour::Panic, world()), "behave as asked: Panic")]
#[case::hang(behaving(Behaviour::Hang, world()), "behave as asked: Hang")]
#[case::asked_to_wait(behaving(Behaviour::Wait, world()), "wait: AskedToWait")]
#[case::nothing_read(world(), "get thing harbour-team-ferry, get the ConfigMap")]
#[case::nothing_outside(without_outside(world()), "get the ConfigMap")]
#[case::secret_unread(from_secret(Seen::Unread, read(ours("a"))), "get Secret s")]
#[case::secret_missing(from_secret(Seen::Absent, read(ours("a"))), "wait: SecretNotReadable")]
#[case::secret_differs(
    from_secret(Seen::Present(Digest::of("b")), on_record(read(ours("a")))),
    "put thing harbour-team-ferry"
)]
fn what_is_next(#[case] world: World, #[case] expected: &str) {
    assert_eq!(next_in_text(&world), expected);
}

#[rstest]
#[case::foreign_and_desired(read(thing(Some("x"), "a")), "blocked: Conflict")]
#[case::unmarked_and_desired(read(thing(None, "a")), "blocked: Conflict")]
#[case::foreign_and_not_desired(without_outside(on_record(read(thing(Some("x"), "a")))), "done")]
#[case::foreign_and_deleted(deleted(on_record(read(thing(Some("x"), "a")))), "done")]
#[case::ours_as_desired(on_record(read(ours("a"))), "done")]
#[case::ours_and_not_on_record(read(ours("a")), "put thing harbour-team-ferry")]
#[case::ours_and_differs(on_record(read(ours("b"))), "put thing harbour-team-ferry")]
#[case::absent(on_record(read(Seen::Absent)), "put thing harbour-team-ferry")]
#[case::ours_and_not_desired(
    without_outside(on_record(read(ours("a")))),
    "remove thing harbour-team-ferry"
)]
#[case::ours_and_deleted(deleted(on_record(read(ours("a")))), "remove thing harbour-team-ferry")]
#[case::absent_and_deleted(deleted(on_record(read(Seen::Absent))), "done")]
fn what_happens_outside(#[case] world: World, #[case] expected: &str) {
    assert_eq!(next_in_text(&world), expected);
}

#[rstest]
#[case::not_cached(Cached::Absent, Seen::Unread, "write the ConfigMap")]
#[case::cached(Cached::Present, Seen::Unread, "get the ConfigMap")]
#[case::cache_not_read(Cached::Unknown, Seen::Unread, "get the ConfigMap")]
#[case::another_s(Cached::Absent, config_map("other", true), "blocked: NameTaken")]
#[case::as_desired(Cached::Present, config_map("u", true), "done")]
#[case::differs(Cached::Present, config_map("u", false), "write the ConfigMap")]
#[case::absent(Cached::Present, Seen::Absent, "write the ConfigMap")]
fn what_happens_to_the_config_map(
    #[case] cached: Cached,
    #[case] config_map: Seen<ConfigMap>,
    #[case] expected: &str,
) {
    let mut world = behaving(Behaviour::Quiet, world());
    world.facts.config_map = cached;
    world.observed.config_map = config_map;
    assert_eq!(next_in_text(&world), expected);
}

#[test]
fn a_config_map_that_was_there_all_the_same_is_read_before_it_is_written() {
    let mut world = behaving(Behaviour::Quiet, world());
    let Ok(Next::Calls { mut steps, .. }) = core().next(&world) else {
        panic!("a write is due");
    };
    let step = steps.remove(0);
    let outcome = Err(CallError::new(Class::Stale, "there is one"));
    core().learn(&mut world, Learned::Outcome { step, outcome });
    assert_eq!(next_in_text(&world), "get the ConfigMap");
}

#[test]
fn a_write_goes_over_what_was_read() {
    let mut world = on_record(read(ours("a")));
    world.observed.config_map = config_map("u", false);
    let Ok(Next::Calls { steps, .. }) = core().next(&world) else {
        panic!("a write is due");
    };
    let [Step::Write { over, .. }] = &steps[..] else {
        panic!("{steps:?}");
    };
    assert_eq!(*over, Some(Value::from("live")));
}

#[test]
fn a_put_needs_its_name_on_record() {
    let world = read(Seen::Absent);
    let Ok(Next::Calls { steps, .. }) = core().next(&world) else {
        panic!("a put is due");
    };
    assert_eq!(
        core().intent_for(&steps[0]),
        Some(OutsideName(NAME.to_owned()))
    );
    assert_eq!(core().saved_intents(&world.object.status), []);
}

const DONE: Ended<OutsideName> = Ended::Done { recheck: None };

#[rstest]
#[case::announcing(read(Seen::Absent), Ended::Announcing(vec![OutsideName(NAME.to_owned())]), Some(NAME), None)]
#[case::done(on_record(read(ours("a"))), DONE, Some(NAME), Some((Truth::True, reasons::SUCCEEDED)))]
#[case::removed(without_outside(on_record(read(Seen::Absent))), DONE, None, Some((Truth::True, reasons::SUCCEEDED)))]
#[case::stopped(
    on_record(read(thing(Some("x"), "a"))),
    Ended::Stopped(Stop::blocked(kernel::Reason::new(reasons::CONFLICT, "it is another's"))),
    Some(NAME),
    Some((Truth::False, reasons::CONFLICT))
)]
#[case::quiet(
    behaving(Behaviour::Quiet, on_record(read(Seen::Absent))),
    DONE,
    Some(NAME),
    None
)]
fn what_status_says(
    #[case] world: World,
    #[case] ended: Ended<OutsideName>,
    #[case] name: Option<&str>,
    #[case] ready: Option<(Truth, &str)>,
) {
    let (status, report) = core().status(&world, &ended);
    assert_eq!(status.outside_name.as_deref(), name);
    let told = report.get(READY);
    let told = told.map(|(truth, reason)| (truth, &*reason.code));
    assert_eq!(told, ready);
}
