//! The tables of plan.rs and status.rs, row by row.

use std::time::Duration;

use engine::{Effect, Ended, Next, Object, PassFacts, Stop};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kernel::{ObjectKey, Reason};
use proptest::prelude::*;
use rstest::rstest;

use super::cloud::Bucket;
use super::{
    BucketRecord, BucketResource, BucketSpec, ClaimIntent, DriftPolicy, Memory, Observed, Status,
    World, plan, status,
};

const NOW: i64 = 1_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("it is a valid time")
}

fn bucket(owner: Option<&str>, config: &str) -> Bucket {
    Bucket {
        id: 1,
        name: "b".to_owned(),
        owner: owner.map(str::to_owned),
        config: config.to_owned(),
        is_enabled: true,
        version: 2,
    }
}

fn ours(config: &str) -> Bucket {
    bucket(Some("pontoon/b"), config)
}

fn disabled() -> Bucket {
    Bucket {
        is_enabled: false,
        ..ours("a")
    }
}

fn foreign() -> Bucket {
    bucket(Some("x/y"), "a")
}

/// A list has shown these buckets; the spec desires config `a` and reports drift.
fn world(buckets: impl Into<Vec<Bucket>>) -> World {
    let spec = BucketSpec {
        config: "a".to_owned(),
        drift: DriftPolicy::Report,
        adopt: false,
        retain: false,
    };
    World {
        object: Object {
            key: ObjectKey::cluster("b"),
            metadata: ObjectMeta {
                generation: Some(1),
                ..ObjectMeta::default()
            },
            resource: BucketResource { spec },
            status: Status::default(),
            conditions: Vec::new(),
            exists: true,
        },
        facts: (),
        observed: Observed {
            buckets: Some(buckets.into()),
            read_at: Some(at(NOW)),
            error: None,
        },
        memory: Memory::default(),
        fresh_intents: Vec::new(),
        is_unsaved: false,
        now: at(NOW),
        elapsed: Duration::from_secs(NOW.unsigned_abs()),
        pass: PassFacts {
            id: "00000000".to_owned(),
            random: 0.5,
            retry_in: Duration::from_secs(5),
            is_urgent: false,
        },
    }
}

fn absent() -> World {
    world(Vec::<Bucket>::new())
}

fn recorded(mut world: World, version: u64, last_applied: &str) -> World {
    world.object.status.bucket = Some(BucketRecord {
        id: 1,
        version,
        since: at(0),
        last_applied: Some(last_applied.to_owned()),
    });
    world
}

fn announced(mut world: World, second: i64, is_fresh: bool) -> World {
    let intent = ClaimIntent { at: at(second) };
    world.fresh_intents.extend(is_fresh.then(|| intent.clone()));
    world.object.status.intent = Some(intent);
    world
}

fn deleting(mut world: World) -> World {
    world.object.metadata.deletion_timestamp = Some(Time(at(NOW)));
    world
}

fn adopting(mut world: World) -> World {
    world.object.resource.spec.adopt = true;
    world
}

fn correcting(mut world: World) -> World {
    world.object.resource.spec.drift = DriftPolicy::Correct;
    world
}

fn retaining(mut world: World) -> World {
    world.object.resource.spec.retain = true;
    world
}

fn unread(mut world: World) -> World {
    world.observed = Observed::default();
    world
}

/// The name of the step, or the reason, or what else `next` wants.
fn decided(world: &World) -> String {
    match plan::next(world) {
        Ok(Next::Calls { steps, .. }) => steps.first().map_or("read", Effect::name).to_owned(),
        Ok(Next::Done { .. }) => "done".to_owned(),
        Err(stop) => stop.reason().code.to_string(),
    }
}

#[rstest]
#[case::nothing_read_is_read(unread(absent()), "read")]
#[case::missing_is_created(absent(), "create")]
#[case::a_fresh_intent_is_used(announced(absent(), 990, true), "create")]
#[case::an_old_fresh_intent_is_not_used(announced(absent(), 960, true), "Unconfirmed")]
#[case::an_intent_perhaps_used_waits(announced(absent(), 990, false), "Unconfirmed")]
#[case::an_intent_without_effect_is_renewed(announced(absent(), 100, false), "create")]
#[case::a_lost_answer_is_recognised(announced(world([ours("a")]), 990, false), "done")]
#[case::equal_is_done(recorded(world([ours("a")]), 2, "a"), "done")]
#[case::an_edit_is_not_drift(recorded(world([ours("x")]), 2, "old"), "update")]
#[case::drift_is_left_alone(recorded(world([ours("x")]), 2, "a"), "done")]
#[case::drift_is_corrected(correcting(recorded(world([ours("x")]), 2, "a")), "update")]
#[case::older_than_recorded_is_stale(recorded(world([ours("x")]), 3, "a"), "StaleRead")]
#[case::deleted_outside_is_reported(recorded(absent(), 2, "a"), "ExternallyDeleted")]
#[case::deleted_outside_is_corrected(correcting(recorded(absent(), 2, "a")), "create")]
#[case::foreign_is_left_alone(world([foreign()]), "NotOwned")]
#[case::unmarked_is_left_alone(world([bucket(None, "a")]), "NotOwned")]
#[case::unmarked_on_record_is_ours(recorded(world([bucket(None, "x")]), 2, "old"), "update")]
#[case::unmarked_is_adopted_on_request(adopting(world([bucket(None, "a")])), "mark")]
#[case::foreign_is_never_adopted(adopting(world([foreign()])), "NotOwned")]
#[case::ours_comes_before_foreign(world([foreign(), ours("a")]), "done")]
#[case::removal_begins_with_disable(deleting(world([ours("a")])), "disable")]
#[case::disabled_is_deleted(deleting(world([disabled()])), "delete")]
#[case::retained_is_left_alone(retaining(deleting(world([ours("a")]))), "done")]
#[case::removal_leaves_foreign_alone(deleting(world([foreign()])), "done")]
#[case::removal_waits_for_an_intent(deleting(announced(absent(), 990, true)), "Unconfirmed")]
fn rule(#[case] world: World, #[case] expected: &str) {
    assert_eq!(decided(&world), expected);
}

#[test]
fn a_stale_read_does_not_change_what_was_last_applied() {
    let world = recorded(world([ours("a")]), 3, "old");
    let stop = Stop::waiting(Reason::new("StaleRead", "older"), Duration::from_secs(10));
    let (status, _) = status::status(&world, &Ended::Stopped(stop));
    assert_eq!(status, world.object.status);
}

#[test]
fn an_announcement_names_the_intent_and_no_bucket() {
    let world = recorded(absent(), 2, "a");
    let intent = ClaimIntent { at: at(NOW) };
    let (status, _) = status::status(&world, &Ended::Announcing(vec![intent.clone()]));
    let expected = Status {
        intent: Some(intent),
        bucket: None,
    };
    assert_eq!(status, expected);
}

proptest! {
    #[test]
    fn only_ours_is_updated_disabled_or_deleted(
        owner in prop::option::of("pontoon/b|x/y"),
        config in "a|x",
        is_deleting in any::<bool>(),
        adopt in any::<bool>(),
        is_enabled in any::<bool>(),
    ) {
        let listed = Bucket { is_enabled, ..bucket(owner.as_deref(), &config) };
        let mut world = world([listed]);
        world.object.resource.spec.adopt = adopt;
        let world = if is_deleting { deleting(world) } else { world };
        if ["update", "disable", "delete"].contains(&&*decided(&world)) {
            prop_assert_eq!(owner.as_deref(), Some("pontoon/b"));
        }
    }
}
