//! The tables of plan.rs, status.rs and io.rs, row by row.

use std::time::Duration;

use api::vault::{
    DeletionPolicy, IntentKind, Phase, VaultKVSecret, VaultKVSecretStatus, conditions, names,
    reasons,
};
use engine::{Ended, KindCore, Learned, Next, Object, ObjectWrite, PassFacts, Report, Stop, Truth};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::{CallError, Class, ObjectKey, Reason};
use rstest::rstest;
use serde_json::{Value, json};
use vault_client::Error;

use super::plan::{self, Decision, Situation, SkippedDeletion};
use super::{
    Compared, Connected, Engine, Facts, KIND, Live, Location, Memory, Observed, Read, SeedCore,
    SeedIntent, SeedMetadata, SeedValues, Step, Values, World, compared_values, io, status,
};
use crate::cleanup::VaultLeftover;
use crate::language::text::{Header, Marker};
use crate::owner::{self, Ownership};
use crate::settings::Deadline;
use crate::sync::Unavailable;

use Class::{
    Conflict, Denied, Invalid, NotFound, Sealed, Stale, Throttled, Transient, Unreachable,
};
use IntentKind::{Correct, Create};
use Live::{Absent, Current, Deleted};
use Ownership::{Ours, Unmarked};
use Values::{Different, Equal, Unreadable};

const PATH: &str = "secret/data/team-a/seed";
const OWNER: &str = "VaultKVSecret team-a/seed (auth-mount kubernetes)";
const ANOTHER_OWNER: &str = "VaultKVSecret team-b/x (auth-mount kubernetes)";
const NOW: i64 = 1_000;
const RETRY: Duration = Duration::from_secs(30);
const DEADLINE: Duration = Duration::from_secs(60);

const ONE: Live = Current { version: 1 };
const TWO: Live = Current { version: 2 };
const DELETED: Live = Deleted { version: 1 };
const DONE: Ended<SeedIntent> = Ended::Done { recheck: None };

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

pub(super) fn header() -> Header {
    Header {
        auth_mount: Some("kubernetes".to_owned()),
        cluster: None,
        resource: "team-a/seed".to_owned(),
        kind: KIND.to_owned(),
    }
}

/// The facts about a usable connection without a tenancy.
pub(super) fn connected() -> Connected {
    Connected {
        header: header(),
        denial: None,
        write_inputs_hash: 1,
    }
}

/// A seed with this status, the finalizer and a usable connection. Nothing was read yet.
fn world(status: Value) -> World {
    let object = json!({
        "metadata": {
            "name": "seed", "namespace": "team-a", "uid": "u", "resourceVersion": "1",
            "generation": 1, "finalizers": [names::FINALIZER],
        },
        "spec": {"connectionRef": "c", "path": PATH, "data": {"password": "initial"}},
        "status": status,
    });
    let resource: VaultKVSecret = serde_json::from_value(object).unwrap();
    let status = resource.status.clone().unwrap_or_default();
    let leftover = VaultLeftover::of_seed(&resource, None);
    World {
        object: Object {
            key: ObjectKey::namespaced("team-a", "seed"),
            metadata: resource.metadata.clone(),
            conditions: status.sync.conditions.clone(),
            status,
            resource,
            exists: true,
        },
        facts: Facts {
            connection: Ok(connected()),
            leftover: Some(leftover),
            deletion_deadline: Deadline::After(DEADLINE),
            error_interval: RETRY,
        },
        observed: Observed::default(),
        memory: Memory::default(),
        fresh_intents: Vec::new(),
        is_unsaved: false,
        now: at(NOW),
        elapsed: Duration::ZERO,
        pass: PassFacts {
            id: "0000abcd".to_owned(),
            random: 0.5,
            retry_in: Duration::from_secs(300),
            is_urgent: false,
        },
    }
}

/// The status of a seed whose write is announced.
fn announced(kind: IntentKind) -> Value {
    json!({"phase": "Syncing", "intent": {"kind": kind, "vaultPath": PATH}})
}

/// The status of a seed that we wrote.
fn seeded(version: u64) -> Value {
    let time = "2026-11-15T20:38:51Z";
    let synced = json!({"type": "Synced", "status": "True", "lastTransitionTime": time});
    json!({
        "phase": "Active", "vaultPath": PATH, "seeded": true, "seededVersion": version,
        "binding": {"vaultPath": PATH, "owner": OWNER}, "conditions": [synced],
    })
}

fn marked(owner: &Ownership) -> Option<Marker> {
    let resource = match owner {
        Ours => "team-a/seed",
        Ownership::Foreign(_) => "team-b/x",
        Unmarked => return None,
    };
    let mut marker = owner::marker(&header());
    marker.resource = Some(resource.to_owned());
    Some(marker)
}

/// The engine has versions, and the metadata shows this.
fn shown(live: Live, owner: Ownership, mut world: World) -> World {
    let marker = marked(&owner);
    world.observed.engine = Some(Engine::Versioned);
    world.observed.found = Some(SeedMetadata { live, marker });
    world
}

fn compared(values: Values, mut world: World) -> World {
    world.observed.values = Some(values);
    world
}

fn other_engine(mut world: World) -> World {
    world.observed.engine = Some(Engine::Other("KV of version 1".to_owned()));
    world
}

fn deleting(mut world: World) -> World {
    world.object.metadata.deletion_timestamp = Some(Time(at(NOW)));
    world
}

/// The deletion began this long ago.
fn deleting_for(seconds: i64, mut world: World) -> World {
    world.object.metadata.deletion_timestamp = Some(Time(at(NOW - seconds)));
    world
}

fn annotated(name: &str, mut world: World) -> World {
    let annotations = world.object.metadata.annotations.get_or_insert_default();
    annotations.insert(name.to_owned(), "true".to_owned());
    world
}

fn with_dry_run(world: World) -> World {
    annotated(names::DRY_RUN, world)
}

fn reseeding(mut world: World) -> World {
    world.object.resource.spec.reseed_deleted = Some(true);
    world
}

fn retained(mut world: World) -> World {
    world.object.resource.spec.deletion_policy = DeletionPolicy::Retain;
    world
}

fn without_finalizer(mut world: World) -> World {
    world.object.metadata.finalizers = None;
    world
}

fn without_connection(unavailable: Unavailable, mut world: World) -> World {
    world.facts.connection = Err(unavailable);
    world
}

fn denied(mut world: World) -> World {
    let denial = Some("not your path".to_owned());
    world.facts.connection = Ok(Connected {
        denial,
        ..connected()
    });
    world
}

fn at_path(path: &str, mut world: World) -> World {
    path.clone_into(&mut world.object.resource.spec.path);
    world
}

fn failed(error: CallError, mut world: World) -> World {
    world.observed.error = Some(error);
    world
}

fn error(class: Class) -> CallError {
    CallError::new(class, "no")
}

fn lost(class: Class) -> CallError {
    error(class).with_unknown_effect()
}

fn observed(change: impl FnOnce(&mut Observed), mut world: World) -> World {
    change(&mut world.observed);
    world
}

fn location() -> Location {
    Location {
        connection: "c".to_owned(),
        path: super::KvPath::parse(PATH).unwrap(),
    }
}

/// The write of this kind had this outcome.
fn written(kind: IntentKind, outcome: Result<u64, CallError>, mut world: World) -> World {
    let step = Step::Write {
        at: location(),
        cas: 0,
        kind,
        values: SeedValues::default(),
    };
    SeedCore::default().learn(&mut world, Learned::Outcome { step, outcome });
    world
}

/// The decision of `next`, as text.
fn decided(world: &World) -> String {
    match plan::next(world) {
        Ok(Next::Calls { reads, steps }) => {
            let reads = reads.iter().map(ToString::to_string);
            let steps = steps.iter().map(ToString::to_string);
            reads.chain(steps).collect::<Vec<_>>().join(", ")
        }
        Ok(Next::Done { .. }) => "done".to_owned(),
        Err(Stop::Waiting { reason, after }) => {
            format!("wait {} s: {}", after.as_secs(), reason.code)
        }
        Err(Stop::Blocked { reason }) => format!("blocked: {}", reason.code),
        Err(Stop::Failed { reason, .. }) => format!("failed: {}", reason.code),
    }
}

const ENGINE: &str = "read what is mounted at secret";
const METADATA: &str = "read the metadata of secret/data/team-a/seed";
const VALUES: &str = "compare the values of secret/data/team-a/seed";
const HEALTH: &str = "read the health of Vault behind c";
const WRITE: &str = "write secret/data/team-a/seed after version 0";
const MARK: &str = "mark version 1 of secret/data/team-a/seed";
const DELETE: &str = "delete secret/data/team-a/seed";
const RECORD: &str = "record secret/metadata/team-a/seed for a later deletion";

fn new() -> World {
    world(json!({}))
}

fn deleting_seed() -> World {
    deleting(world(seeded(1)))
}

#[rstest]
#[case::skipped_deletion(retained(deleting_seed()), "done")]
#[case::no_path(at_path("secret", new()), "blocked: ValidationFailed")]
#[case::no_connection(without_connection(Unavailable::Missing, new()), "blocked: ConnectionNotReady")]
#[case::connection_starting(without_connection(Unavailable::Starting, new()), "wait 30 s: ConnectionStarting")]
#[case::connection_down(without_connection(Unavailable::Down { others_first: None }, new()), "blocked: ConnectionNotReady")]
#[case::others_report_first(
    without_connection(Unavailable::Down { others_first: Some(Duration::from_secs(2)) }, new()),
    "wait 2 s: ConnectionStarting"
)]
#[case::not_permitted(denied(new()), "blocked: TenancyDenied")]
#[case::not_permitted_any_more(denied(deleting_seed()), METADATA)]
#[case::a_call_failed(failed(error(Denied), new()), "failed: VaultPermissionDenied")]
#[case::nothing_read(new(), ENGINE)]
#[case::marked(observed(|all| all.is_marked = true, shown(Absent, Unmarked, world(announced(Create)))), "done")]
#[case::deleted_in_vault(observed(|all| all.is_deleted = true, shown(ONE, Ours, deleting_seed())), "done")]
#[case::written(observed(|all| all.written = Some(1), shown(Absent, Unmarked, world(announced(Create)))), MARK)]
#[case::write(shown(Absent, Unmarked, new()), WRITE)]
#[case::claim(compared(Equal, shown(ONE, Unmarked, world(announced(Create)))), MARK)]
#[case::delete(shown(ONE, Ours, deleting_seed()), DELETE)]
#[case::refuse(other_engine(new()), "blocked: ValidationFailed")]
#[case::refuse_in_a_dry_run(with_dry_run(other_engine(new())), "done")]
#[case::unreadable(shown(DELETED, Ours, new()), "blocked: SeedTargetDeleted")]
#[case::unreadable_in_a_dry_run(with_dry_run(shown(DELETED, Ours, new())), "done")]
#[case::untouched(shown(ONE, Unmarked, new()), "done")]
#[case::unconfirmed(compared(Unreadable, shown(ONE, Unmarked, world(announced(Create)))), "done")]
#[case::absent(shown(Absent, Unmarked, deleting_seed()), "done")]
#[case::left(shown(TWO, Ours, deleting_seed()), "done")]
#[rustfmt::skip]
fn the_first_row_that_fits_decides(#[case] world: World, #[case] expected: &str) {
    assert_eq!(decided(&world), expected);
}

#[rstest]
#[case::not_deleted(new(), None)]
#[case::dry_run(with_dry_run(deleting_seed()), Some(SkippedDeletion::DryRun))]
#[case::retained(retained(deleting_seed()), Some(SkippedDeletion::Retained))]
#[case::never_written(deleting(new()), Some(SkippedDeletion::NeverWritten))]
#[case::seeded(deleting_seed(), None)]
#[case::announced(deleting(world(announced(Create))), None)]
fn a_deletion_may_skip_vault(#[case] world: World, #[case] expected: Option<SkippedDeletion>) {
    assert_eq!(plan::skipped_deletion(&world), expected);
}

#[rstest]
#[case::other_engine(other_engine(new()), None)]
#[case::not_synced_before(new(), Some(ENGINE))]
#[case::synced_before(world(seeded(1)), Some(METADATA))]
#[case::engine_is_known(observed(|all| all.engine = Some(Engine::Versioned), new()), Some(METADATA))]
#[case::nothing_desired(deleting_seed(), Some(METADATA))]
#[case::missing_since(
    observed(|all| all.engine = None, shown(Absent, Unmarked, world(seeded(1)))),
    Some(ENGINE)
)]
#[case::missing_and_not_desired(
    observed(|all| all.engine = None, shown(Absent, Unmarked, deleting_seed())),
    None
)]
#[case::in_doubt(shown(ONE, Unmarked, world(announced(Create))), Some(VALUES))]
#[case::known(shown(ONE, Ours, world(seeded(1))), None)]
fn missing_facts_are_read(#[case] world: World, #[case] expected: Option<&str>) {
    assert_eq!(plan::decision(&world).is_none(), expected.is_some());
    if let Some(read) = expected {
        assert_eq!(decided(&world), read);
    }
}

#[rstest]
#[case::as_shown(Some((1, true)), ONE, Equal)]
#[case::others(Some((1, false)), ONE, Different)]
#[case::of_a_later_version(Some((2, true)), ONE, Different)]
#[case::gone(None, ONE, Unreadable)]
fn values_count_only_for_the_version_shown(
    #[case] compared: Option<(u64, bool)>,
    #[case] live: Live,
    #[case] expected: Values,
) {
    let compared = compared.map(|(version, is_equal)| Compared { version, is_equal });
    let found = SeedMetadata { live, marker: None };
    assert_eq!(compared_values(compared, Some(&found)), expected);
}

#[test]
fn values_that_may_not_be_read_are_unreadable() {
    let mut world = shown(ONE, Unmarked, world(announced(Create)));
    let read = Read::Values {
        at: location(),
        expected: SeedValues::default(),
    };
    let learned = Learned::Answer {
        read,
        began: at(NOW),
        answer: Err(error(Denied)),
    };
    SeedCore::default().learn(&mut world, learned);
    assert_eq!(plan::decision(&world), Some(Decision::Unconfirmed));
}

#[rstest]
#[case::no_answer(lost(Transient), None, HEALTH)]
#[case::no_answer_from_a_vault_that_is_away(lost(Transient), Some(true), "blocked: ConnectionNotReady")]
#[case::no_answer_from_a_vault_that_is_well(lost(Transient), Some(false), "failed: Failed")]
#[case::lost_on_the_way(lost(Unreachable), None, HEALTH)]
#[case::not_sent(error(Unreachable), None, "wait 10 s: ConnectionNotReady")]
#[case::throttled(error(Throttled), None, "failed: Throttled")]
#[case::throttled_for_a_while(error(Throttled).retry_after(Duration::from_secs(7)), None, "wait 7 s: Throttled")]
#[case::deposed(error(Class::Deposed), None, "failed: Failed")]
#[case::sealed(error(Sealed), None, "wait 10 s: ConnectionNotReady")]
#[case::denied(error(Denied), None, "failed: VaultPermissionDenied")]
#[case::invalid(error(Invalid), None, "blocked: ValidationFailed")]
#[case::behind(error(Stale), None, "failed: Failed")]
#[rustfmt::skip]
fn a_failed_call_leads_to(
    #[case] error: CallError,
    #[case] is_away: Option<bool>,
    #[case] expected: &str,
) {
    let world = observed(|all| all.is_away = is_away, failed(error, new()));
    assert_eq!(decided(&world), expected);
}

#[rstest]
#[case::limited(Stop::waiting(Reason::new("Throttled", ""), RETRY), true)]
#[case::connection_starting(Stop::waiting(Reason::new("ConnectionStarting", ""), RETRY), true)]
#[case::sealed(Stop::waiting(Reason::new(reasons::CONNECTION_NOT_READY, ""), RETRY), false)]
#[case::blocked(Stop::blocked(Reason::new(reasons::VALIDATION_FAILED, "")), false)]
#[case::deposed(Stop::Failed { reason: Reason::new(reasons::FAILED, ""), class: Class::Deposed }, true)]
#[case::failed(Stop::Failed { reason: Reason::new(reasons::FAILED, ""), class: Transient }, false)]
#[rustfmt::skip]
fn a_stop_that_passes_by_itself_is_not_reported(#[case] stop: Stop, #[case] expected: bool) {
    assert_eq!(plan::is_silent(&stop), expected);
}

/// A deletion that began this long ago, while Vault is sealed.
fn stuck(seconds: i64) -> World {
    failed(error(Sealed), deleting_for(seconds, world(seeded(1))))
}

#[rstest]
#[case::ahead(stuck(10), "wait 30 s: ConnectionNotReady")]
#[case::near(stuck(50), "wait 10 s: ConnectionNotReady")]
#[case::over(stuck(60), RECORD)]
#[case::recorded(observed(|all| all.hand_over = Some(Ok(())), stuck(60)), "done")]
#[case::not_recorded(observed(|all| all.hand_over = Some(Err(error(Stale))), stuck(60)), "failed: Failed")]
#[case::deposed(failed(error(Class::Deposed), stuck(60)), "failed: Failed")]
#[case::throttled(failed(error(Throttled).retry_after(Duration::from_secs(7)), stuck(10)), "wait 7 s: Throttled")]
#[rustfmt::skip]
fn a_deletion_waits_until_its_deadline(#[case] world: World, #[case] expected: &str) {
    assert_eq!(decided(&world), expected);
}

#[test]
fn a_deletion_without_a_deadline_waits_without_limit() {
    let mut world = stuck(100_000);
    world.facts.deletion_deadline = Deadline::Never;
    assert_eq!(decided(&world), "wait 30 s: ConnectionNotReady");
}

const OBSOLETE: &str = names::RESTORE_MANAGED_MARKERS;

#[rstest]
#[case::not_decided(without_finalizer(new()), None)]
#[case::nothing_desired(annotated(OBSOLETE, shown(ONE, Ours, deleting_seed())), None)]
#[case::obsolete_annotation(
    annotated(OBSOLETE, shown(Absent, Unmarked, new())),
    Some(ObjectWrite::RemoveAnnotation(OBSOLETE))
)]
#[case::no_finalizer_and_no_step(
    without_finalizer(shown(ONE, Unmarked, new())),
    Some(ObjectWrite::AddFinalizer(names::FINALIZER))
)]
#[case::no_finalizer_and_refused(
    without_finalizer(other_engine(new())),
    Some(ObjectWrite::AddFinalizer(names::FINALIZER))
)]
#[case::no_finalizer_and_a_step(without_finalizer(shown(Absent, Unmarked, new())), None)]
#[case::finalizer(shown(ONE, Unmarked, new()), None)]
fn metadata_is_written_first(#[case] world: World, #[case] expected: Option<ObjectWrite<'static>>) {
    assert_eq!(plan::metadata(&world), expected);
}

fn another_owner() -> Ownership {
    Ownership::Foreign(ANOTHER_OWNER.to_owned())
}

fn situation(
    live: Live,
    owner: Ownership,
    announced: Option<IntentKind>,
    recorded: Option<u64>,
    values: Option<Values>,
) -> Situation {
    Situation {
        is_desired: true,
        live,
        owner,
        announced,
        recorded,
        values,
        reseed: false,
    }
}

fn untouched(seeded: Option<u64>) -> Decision {
    Decision::Untouched {
        seeded,
        owner: None,
    }
}

fn write(cas: u64, kind: IntentKind) -> Decision {
    Decision::Write { cas, kind }
}

fn claim(version: u64) -> Decision {
    Decision::Claim { version }
}

const NOBODYS: Decision = Decision::Unreadable { owner: None };

#[rstest] //                                       at the path  marker    announced      recorded values            decision
#[case::a_missing_secret_is_written(               Absent,      Unmarked, None,          None,    None,             write(0, Create))]
#[case::an_announced_write_without_effect_is_made( Absent,      Unmarked, Some(Create),  None,    None,             write(0, Create))]
#[case::a_removed_secret_is_written(               Absent,      Unmarked, None,          Some(1), None,             write(0, Create))]
#[case::an_existing_secret_is_not_changed(         ONE,         Unmarked, None,          None,    None,             untouched(None))]
#[case::even_if_it_carries_our_marker(             ONE,         Ours,     None,          None,    None,             untouched(None))]
#[case::our_version_is_not_changed(                ONE,         Ours,     None,          Some(1), None,             untouched(Some(1)))]
#[case::also_when_users_have_changed_it(           TWO,         Ours,     None,          Some(1), None,             untouched(Some(1)))]
#[case::a_lost_answer_is_found(                    ONE,         Unmarked, Some(Create),  None,    Some(Equal),      claim(1))]
#[case::another_writer_was_first(                  ONE,         Unmarked, Some(Create),  None,    Some(Different),  untouched(None))]
#[case::unreadable_values_are_unconfirmed(         ONE,         Unmarked, Some(Create),  None,    Some(Unreadable), Decision::Unconfirmed)]
#[case::a_later_version_is_not_what_was_announced( TWO,         Unmarked, Some(Create),  None,    None,             untouched(None))]
#[case::our_marker_replaces_the_record(            ONE,         Ours,     Some(Create),  None,    None,             untouched(Some(1)))]
#[case::also_when_users_changed_it_since(          TWO,         Ours,     Some(Create),  None,    None,             untouched(Some(1)))]
#[case::a_removed_version_is_no_longer_ours(       ONE,         Unmarked, Some(Create),  Some(5), Some(Different),  untouched(None))]
#[case::a_deleted_version_is_reported(             DELETED,     Ours,     None,          Some(1), None,             NOBODYS)]
#[case::also_if_it_was_not_ours(                   DELETED,     Unmarked, None,          None,    None,             NOBODYS)]
#[case::a_lost_reseed_is_found(                    TWO,         Ours,     Some(Correct), Some(1), Some(Equal),      claim(2))]
#[case::another_wrote_instead_of_the_reseed(       TWO,         Ours,     Some(Correct), Some(1), Some(Different),  untouched(Some(1)))]
#[case::unreadable_after_an_announced_reseed(      TWO,         Ours,     Some(Correct), Some(1), Some(Unreadable), Decision::Unconfirmed)]
#[case::undeleted_before_the_reseed(               ONE,         Ours,     Some(Correct), Some(1), None,             untouched(Some(1)))]
#[rustfmt::skip]
fn rule(
    #[case] live: Live,
    #[case] owner: Ownership,
    #[case] announced: Option<IntentKind>,
    #[case] recorded: Option<u64>,
    #[case] values: Option<Values>,
    #[case] decision: Decision,
) {
    let situation = situation(live, owner, announced, recorded, values);
    assert_eq!(situation.is_in_doubt(), values.is_some(), "values are read in doubt, and only then");
    assert_eq!(situation.decision(), decision);
}

#[rstest]
#[case::of_ours(Ours, Some(1))]
#[case::of_nobodys(Unmarked, None)]
fn a_deleted_version_is_written_again_with_reseed(
    #[case] owner: Ownership,
    #[case] recorded: Option<u64>,
) {
    let again = |live| {
        let situation = Situation {
            reseed: true,
            ..situation(live, owner.clone(), None, recorded, None)
        };
        situation.decision()
    };
    assert_eq!(again(Deleted { version: 3 }), write(3, Correct));
    assert_eq!(again(Deleted { version: 0 }), write(0, Correct));
    assert_eq!(again(TWO), untouched(recorded));
}

#[rstest]
#[case::current(ONE)]
#[case::deleted(DELETED)]
fn a_secret_of_another_owner_is_not_changed(
    #[case] live: Live,
    #[values(None, Some(Create), Some(Correct))] announced: Option<IntentKind>,
    #[values(true, false)] is_desired: bool,
) {
    let owner = Some(ANOTHER_OWNER.to_owned());
    let expected = match (is_desired, &live) {
        (false, _) => Decision::Left(format!("it belongs to {ANOTHER_OWNER}")),
        (true, Deleted { .. }) => Decision::Unreadable { owner },
        (true, _) => Decision::Untouched {
            seeded: None,
            owner,
        },
    };
    let situation = Situation {
        is_desired,
        reseed: true,
        ..situation(live, another_owner(), announced, None, None)
    };
    assert!(!situation.is_in_doubt());
    assert_eq!(situation.decision(), expected);
}

#[rstest]
#[case::desired(true, Decision::Refuse { engine: "of type pki".to_owned() })]
#[case::not_desired(false, Decision::Left("its mount is of type pki now".to_owned()))]
fn an_engine_without_versions_is_left_alone(#[case] is_desired: bool, #[case] expected: Decision) {
    let live = Live::OtherEngine("of type pki".to_owned());
    let situation = Situation {
        is_desired,
        ..situation(live, Unmarked, None, None, None)
    };
    assert_eq!(situation.decision(), expected);
}

/// The decision for a seed that is no longer desired.
#[derive(Debug, PartialEq)]
enum Removal {
    Absent,
    Deleted,
    Left,
}

#[rstest] //                                  at the path  marker       announced      recorded values            removal
#[case::unchanged_it_is_deleted(              ONE,         Ours,        None,          Some(1), None,             Removal::Deleted)]
#[case::deleted_but_not_removed_it_goes(      DELETED,     Ours,        None,          Some(1), None,             Removal::Deleted)]
#[case::missing_it_needs_no_step(             Absent,      Unmarked,    None,          Some(1), None,             Removal::Absent)]
#[case::changed_by_users_it_stays(            TWO,         Ours,        None,          Some(1), None,             Removal::Left)]
#[case::without_our_marker_it_stays(          ONE,         Unmarked,    None,          Some(1), None,             Removal::Left)]
#[case::anothers_stays(                       ONE,         another_owner(), None,          Some(1), None,             Removal::Left)]
#[case::unrecorded_it_stays(                  ONE,         Ours,        None,          None,    None,             Removal::Left)]
#[case::written_before_a_crash_it_goes(       ONE,         Unmarked,    Some(Create),  None,    Some(Equal),      Removal::Deleted)]
#[case::marked_before_a_crash_it_goes(        ONE,         Ours,        Some(Create),  None,    None,             Removal::Deleted)]
#[case::another_writer_was_first_it_stays(    ONE,         Unmarked,    Some(Create),  None,    Some(Different),  Removal::Left)]
#[case::unreadable_it_stays(                  ONE,         Unmarked,    Some(Create),  None,    Some(Unreadable), Removal::Left)]
#[case::written_again_before_a_crash_it_goes( TWO,         Ours,        Some(Correct), Some(1), Some(Equal),      Removal::Deleted)]
#[case::changed_after_the_announcement_it_stays(TWO,       Ours,        Some(Correct), Some(1), Some(Different),  Removal::Left)]
#[rustfmt::skip]
fn a_seed_that_is_no_longer_desired(
    #[case] live: Live,
    #[case] owner: Ownership,
    #[case] announced: Option<IntentKind>,
    #[case] recorded: Option<u64>,
    #[case] values: Option<Values>,
    #[case] expected: Removal,
) {
    let situation = Situation {
        is_desired: false,
        ..situation(live, owner, announced, recorded, values)
    };
    let removal = match situation.decision() {
        Decision::Absent => Removal::Absent,
        Decision::Delete => Removal::Deleted,
        Decision::Left(_) => Removal::Left,
        other => panic!("{other:?}"),
    };
    assert_eq!(removal, expected);
}

/// The status of a seed with an announced write of this kind, and with this version recorded as ours.
fn announced_again(kind: IntentKind, recorded: Option<u64>) -> Value {
    let mut status = announced(kind);
    status["seeded"] = json!(recorded.is_some());
    status["seededVersion"] = json!(recorded);
    status
}

fn theirs() -> Decision {
    Decision::Untouched {
        seeded: None,
        owner: Some(ANOTHER_OWNER.to_owned()),
    }
}

#[rstest] //                                     refused  recorded  shown then            decision
#[case::another_writer_was_first(                Create,  None,     ONE,     Unmarked,    untouched(None))]
#[case::another_owner_was_first(                 Create,  None,     ONE,     another_owner(), theirs())]
#[case::another_writer_replaced_our_version(     Create,  Some(1),  ONE,     Ours,        untouched(None))]
#[case::we_may_not_create(                       Create,  None,     Absent,  Unmarked,    write(0, Create))]
#[case::another_wrote_instead_of_the_reseed(     Correct, Some(1),  TWO,     Ours,        untouched(Some(1)))]
#[case::another_wrote_what_was_never_ours(       Correct, None,     TWO,     Unmarked,    untouched(None))]
#[case::we_may_not_update(                       Correct, Some(1),  DELETED, Ours,        write(1, Correct))]
#[rustfmt::skip]
fn a_refused_write_makes_nothing_ours(
    #[case] kind: IntentKind,
    #[case] recorded: Option<u64>,
    #[case] live: Live,
    #[case] owner: Ownership,
    #[case] expected: Decision,
) {
    let before = shown(Absent, Unmarked, reseeding(world(announced_again(kind, recorded))));
    let refused = written(kind, Err(error(Conflict)), before);
    assert_eq!(decided(&refused), METADATA, "metadata is read again");
    let refused = shown(live, owner, refused);
    assert_eq!(plan::decision(&refused), Some(expected.clone()), "values are not compared");
    let is_theirs = matches!(expected, Decision::Untouched { .. });
    assert_eq!(decided(&refused), if is_theirs { "done" } else { "failed: Failed" });
    if kind == Create && is_theirs {
        let end = plan::decision(&deleting(refused));
        assert!(matches!(end, Some(Decision::Left(_))), "it is never deleted");
    }
}

#[test]
fn a_refusal_counts_until_the_intent_is_closed() {
    let saved = announced(Create);
    let refused = written(
        Create,
        Err(error(Throttled)),
        shown(Absent, Unmarked, world(saved)),
    );
    let memory = plan::remember(&refused, &DONE);
    let later = |status: Value| {
        let mut later = world(status);
        later.memory = memory.clone();
        shown(ONE, Unmarked, later)
    };
    // The status that closes the intent was not stored.
    let open = later(announced(Create));
    assert_eq!(plan::decision(&open), Some(untouched(None)));
    assert_eq!(plan::remember(&open, &DONE).refused, memory.refused);
    let closed = later(json!({}));
    assert_eq!(plan::remember(&closed, &DONE).refused, None);
}

#[rstest]
#[case::written(Ok(1))]
#[case::no_answer(Err(lost(Transient)))]
fn a_later_write_ends_an_earlier_refusal(#[case] outcome: Result<u64, CallError>) {
    let saved = shown(Absent, Unmarked, world(announced(Create)));
    let refused = written(Create, Err(error(Denied)), saved);
    assert!(plan::is_refused(&refused));
    let again = written(Create, outcome, refused);
    assert!(!plan::is_refused(&again));
}

#[test]
fn an_invalid_write_is_not_sent_again_before_an_edit() {
    let saved = shown(Absent, Unmarked, world(announced(Create)));
    let refused = written(Create, Err(error(Invalid)), saved);
    let refused = shown(Absent, Unmarked, refused);
    let stop = plan::next(&refused).unwrap_err();
    assert_eq!(stop.reason().code, reasons::VALIDATION_FAILED);
    let memory = plan::remember(&refused, &Ended::Stopped(stop));
    let later = || {
        let mut later = new();
        later.memory = memory.clone();
        later
    };
    assert_eq!(decided(&later()), "blocked: ValidationFailed");
    assert_eq!(decided(&annotated(names::RECONCILE_NOW, later())), ENGINE);
    let mut edited = later();
    edited.facts.connection = Ok(Connected {
        write_inputs_hash: 2,
        ..connected()
    });
    assert_eq!(decided(&edited), ENGINE);
    let announcing = Ended::Announcing(Vec::new());
    let kept = plan::remember(&edited, &announcing);
    assert_eq!(kept.invalid, memory.invalid);
    assert_eq!(plan::remember(&edited, &DONE).invalid, None);
}

fn ended(world: &World) -> Ended<SeedIntent> {
    match plan::next(world) {
        Ok(Next::Done { recheck }) => Ended::Done { recheck },
        Ok(Next::Calls { reads, steps }) => panic!("{reads:?} {steps:?}"),
        Err(stop) => Ended::Stopped(stop),
    }
}

#[rstest] //                                answer             metadata is read again, the intent ends
#[case::denied(error(Denied), true, true)]
#[case::another_was_first(error(Conflict), true, true)]
#[case::invalid(error(Invalid), true, true)]
#[case::missing(error(NotFound), false, true)]
#[case::behind(error(Stale), false, true)]
#[case::throttled(error(Throttled), false, true)]
#[case::sealed(error(Sealed), false, true)]
#[case::no_answer(lost(Transient), false, false)]
fn an_intent_ends_with_its_answer(
    #[case] answer: CallError,
    #[case] is_read: bool,
    #[case] ends: bool,
) {
    let saved = shown(Absent, Unmarked, world(announced(Create)));
    let answered = written(Create, Err(answer), saved);
    assert_eq!(decided(&answered) == METADATA, is_read);
    let answered = observed(|all| all.is_away = Some(false), answered);
    let answered = shown(Absent, Unmarked, answered);
    let (status, _) = status::status(&answered, &ended(&answered));
    assert_eq!(status.sync.intent.is_none(), ends);
    assert_ne!(status.sync.phase, Some(Phase::Syncing));
}

fn reason(report: &Report, kind: &str) -> Option<(Truth, String)> {
    let (truth, reason) = report.get(kind)?;
    Some((truth, reason.code.to_string()))
}

fn is(truth: Truth, code: &str) -> (Truth, String) {
    (truth, code.to_owned())
}

#[test]
fn an_announcement_is_recorded_and_changes_no_condition() {
    let path = PATH.to_owned();
    let intent = SeedIntent { path, kind: Create };
    let world = shown(Absent, Unmarked, new());
    let announcing = Ended::Announcing(vec![intent.clone()]);
    let (mut status, report) = status::status(&world, &announcing);
    assert_eq!(SeedCore::default().saved_intents(&status), [intent]);
    assert_eq!(status.sync.phase, Some(Phase::Syncing));
    assert_eq!(report, Report::default());
    let before = status.clone();
    status::stamp(&mut status, &world, &announcing);
    assert_eq!(status, before, "no times are set");
}

#[test]
fn metadata_that_is_written_first_changes_no_status() {
    let world = without_finalizer(shown(ONE, Unmarked, new()));
    let (status, report) = status::status(&world, &Ended::Announcing(Vec::new()));
    assert_eq!((status, report), (world.object.status, Report::default()));
}

#[rstest]
#[case::new(
    new(),
    Some(is(Truth::False, reasons::DRY_RUN_SKIPPED)),
    "write the first version"
)]
#[case::active(world(seeded(1)), None, "write the first version")]
fn a_dry_run_reports_its_plan(
    #[case] world: World,
    #[case] ready: Option<(Truth, String)>,
    #[case] plan: &str,
) {
    let world = with_dry_run(shown(Absent, Unmarked, world));
    let (status, report) = status::status(&world, &Ended::Previewed(Vec::new()));
    let (truth, dry_run) = report.get(conditions::DRY_RUN).unwrap();
    assert_eq!(
        (truth, &*dry_run.message),
        (Truth::True, &*format!("{PATH}: {plan}"))
    );
    assert_eq!(reason(&report, conditions::READY), ready);
    assert_eq!(status.seeded, world.object.status.seeded);
}

#[rstest] //                  world                                                 seeded
#[case::written(observed(|all| all.written = Some(1), shown(Absent, Unmarked, world(announced(Create)))), Some(1), Some(OWNER))]
#[case::claimed(compared(Equal, shown(ONE, Unmarked, world(announced(Create)))), Some(1), Some(OWNER))]
#[case::marked_before_a_crash(shown(ONE, Ours, world(announced(Create))), Some(1), Some(OWNER))]
#[case::on_record(shown(TWO, Ours, world(seeded(1))), Some(1), Some(OWNER))]
#[case::theirs(shown(ONE, another_owner(), new()), None, None)]
#[rustfmt::skip]
fn the_result_is_recorded(
    #[case] world: World,
    #[case] version: Option<i64>,
    #[case] owner: Option<&str>,
) {
    let (status, report) = status::status(&world, &DONE);
    assert_eq!((status.seeded, status.seeded_version), (Some(version.is_some()), version));
    assert_eq!(status.sync.intent, None);
    assert_eq!(status.sync.binding.unwrap().owner.as_deref(), owner);
    let truth = Truth::from(version.is_some());
    assert_eq!(reason(&report, conditions::SEEDED), Some(is(truth, reasons::SUCCEEDED)));
    assert_eq!(reason(&report, conditions::READY), Some(is(Truth::True, reasons::SUCCEEDED)));
}

#[test]
fn an_unconfirmed_write_stays_announced() {
    let world = compared(Unreadable, shown(ONE, Unmarked, world(announced(Create))));
    let (status, report) = status::status(&world, &DONE);
    let unconfirmed = Some(is(Truth::Unknown, reasons::SEED_UNCONFIRMED));
    assert_eq!(reason(&report, conditions::SEEDED), unconfirmed);
    assert_eq!(status.seeded, None);
    assert!(status.sync.intent.is_some());
    assert_eq!(
        reason(&report, conditions::READY),
        Some(is(Truth::True, reasons::SUCCEEDED))
    );
}

#[test]
fn a_secret_of_a_predecessor_is_not_ours() {
    let since = "2026-11-15T20:38:51Z";
    let left = json!({
        "phase": "Active", "managed": true, "vaultPath": PATH,
        "binding": {"vaultPath": PATH, "bindingVerified": true, "boundAt": since},
    });
    let world = shown(ONE, Unmarked, world(left));
    let (status, _) = status::status(&world, &DONE);
    assert_eq!(
        (status.seeded, status.sync.managed),
        (Some(false), Some(false))
    );
    let bound_at = |status: &VaultKVSecretStatus| status.sync.binding.clone().unwrap().bound_at;
    assert_eq!(bound_at(&status), bound_at(&world.object.status));
}

#[rstest]
#[case::ours(shown(ONE, Ours, world(announced(Create))))]
#[case::theirs(shown(ONE, Unmarked, new()))]
#[case::anothers(shown(ONE, another_owner(), new()))]
#[case::in_doubt(compared(Unreadable, shown(ONE, Unmarked, world(announced(Create)))))]
fn the_same_answer_later_changes_nothing(#[case] world: World) {
    let mut world = world;
    let (first, report) = status::status(&world, &DONE);
    world.object.status = first.clone();
    world.now = at(NOW + 100);
    let (second, again) = status::status(&world, &DONE);
    assert_eq!(second, first);
    assert_eq!(
        reason(&again, conditions::SEEDED),
        reason(&report, conditions::SEEDED)
    );
}

#[test]
fn no_value_is_ever_printed() {
    let world = compared(Equal, shown(ONE, Unmarked, world(announced(Create))));
    let (status, report) = status::status(&world, &DONE);
    let saved = shown(Absent, Unmarked, self::world(announced(Create)));
    let doubtful = shown(ONE, Unmarked, self::world(announced(Create)));
    let calls = format!("{:?} {:?}", plan::next(&saved), plan::next(&doubtful));
    let status = serde_json::to_string(&status).unwrap();
    for text in [status, format!("{report:?}"), calls] {
        assert!(!text.contains("initial"), "{text}");
    }
}

#[rstest]
#[case::failed(error(Denied), Some(3), reasons::VAULT_PERMISSION_DENIED, None)]
#[case::waiting(error(Sealed), None, reasons::CONNECTION_NOT_READY, Some(reasons::DEPENDENCY_NOT_READY))]
#[case::blocked(error(Invalid), None, reasons::VALIDATION_FAILED, None)]
#[rustfmt::skip]
fn a_stop_is_reported(
    #[case] error: CallError,
    #[case] tries: Option<i64>,
    #[case] ready: &str,
    #[case] dependency: Option<&str>,
) {
    let world = failed(error, world(json!({"retryCount": 2})));
    let (status, report) = status::status(&world, &ended(&world));
    assert_eq!(status.sync.phase, Some(Phase::Error));
    assert_eq!((status.sync.retry_count, status.sync.next_retry_at.is_some()), (tries, tries.is_some()));
    assert_eq!(reason(&report, conditions::READY), Some(is(Truth::False, ready)));
    assert_eq!(reason(&report, conditions::SYNCED), Some(is(Truth::False, reasons::FAILED)));
    let dependency = dependency.map(|code| is(Truth::False, code));
    assert_eq!(reason(&report, conditions::CONNECTION_READY), dependency);
}

#[test]
fn a_deleted_version_is_reported_as_not_seeded() {
    let world = shown(DELETED, Ours, world(seeded(1)));
    let (status, report) = status::status(&world, &ended(&world));
    let deleted = Some(is(Truth::False, reasons::SEED_TARGET_DELETED));
    assert_eq!(reason(&report, conditions::SEEDED), deleted);
    assert_eq!(status.seeded, Some(true), "the record stays");
}

#[test]
fn a_limit_changes_no_status() {
    let world = failed(error(Throttled), world(seeded(1)));
    let (status, report) = status::status(&world, &ended(&world));
    assert_eq!((status, report), (world.object.status, Report::default()));
}

#[test]
fn a_pass_after_a_dry_run_ends_its_condition() {
    let time = "2026-11-15T20:38:51Z";
    let dry = json!({"type": "DryRun", "status": "True", "lastTransitionTime": time});
    let world = shown(ONE, Unmarked, world(json!({"conditions": [dry]})));
    let (_, report) = status::status(&world, &DONE);
    let over = Some(is(Truth::False, reasons::SUCCEEDED));
    assert_eq!(reason(&report, conditions::DRY_RUN), over);
}

#[rstest]
#[case::begins(stuck(10), false)]
#[case::takes_long(stuck(400), true)]
fn a_deletion_that_waits_is_reported(#[case] world: World, #[case] is_stuck: bool) {
    let mut world = world;
    world.facts.deletion_deadline = Deadline::Never;
    let (mut status, report) = status::status(&world, &ended(&world));
    assert_eq!(status.sync.phase, Some(Phase::Deleting));
    assert!(status.sync.deletion_started_at.is_some());
    let (_, deleting) = report.get(conditions::DELETING).unwrap();
    assert_eq!(deleting.message.contains("longer than it should"), is_stuck);
    let waits = Some(is(Truth::False, reasons::CONNECTION_NOT_READY));
    assert_eq!(reason(&report, conditions::READY), waits);
    status::stamp(&mut status, &world, &ended(&world));
    assert_eq!(status.sync.last_attempt_at, Some(Time(at(NOW))));
    assert_eq!(status.sync.last_synced_at, None);
}

fn note(world: &World) -> String {
    let (_, report) = status::status(world, &DONE);
    format!("{report:?}")
}

#[rstest]
#[case::dry_run(with_dry_run(deleting_seed()), "stays, as dry-run is on")]
#[case::retained(retained(deleting_seed()), "stays, as deletionPolicy is Retain")]
#[case::never_there(deleting(new()), "it had nothing in Vault")]
#[case::gone(shown(Absent, Unmarked, deleting_seed()), "gone from Vault")]
#[case::deleted(observed(|all| all.is_deleted = true, shown(ONE, Ours, deleting_seed())), "gone from Vault")]
#[case::left(shown(TWO, Ours, deleting_seed()), "ForeignSecretNotDeleted")]
#[case::recorded(observed(|all| all.hand_over = Some(Ok(())), stuck(60)), "DeleteRetryEnqueued")]
fn the_end_causes_an_event(#[case] world: World, #[case] expected: &str) {
    let event = note(&world);
    assert!(event.contains(expected), "{event}");
}

#[test]
fn the_last_event_reports_a_secret_that_existed_before() {
    let theirs = json!({"seeded": false, "binding": {"vaultPath": PATH}});
    let event = note(&deleting(world(theirs)));
    assert!(event.contains("it was not written by us"), "{event}");
}

#[rstest]
#[case::done(DONE, true)]
#[case::stopped(Ended::Stopped(Stop::blocked(Reason::new("x", ""))), false)]
fn a_synced_status_has_times(#[case] ended: Ended<SeedIntent>, #[case] is_synced: bool) {
    let world = shown(ONE, Ours, world(seeded(1)));
    let mut status = world.object.status.clone();
    status::stamp(&mut status, &world, &ended);
    assert_eq!(status.sync.last_reconcile_id.as_deref(), Some("0000abcd"));
    assert_eq!(status.sync.last_synced_at.is_some(), is_synced);
    let verified = status.sync.binding.unwrap().last_verified_at;
    assert_eq!(verified.is_some(), is_synced);
}

fn text() -> String {
    "x".to_owned()
}

#[rstest] //                                                                              class, may have happened
#[case::sealed(Error::Sealed { address: text() }, Sealed, false)]
#[case::not_initialised(Error::Uninitialised { address: text() }, Sealed, false)]
#[case::not_reached(Error::Unreachable { address: text(), reason: text() }, Unreachable, false)]
#[case::not_logged_in(Error::AuthFailed { login: text(), message: text() }, Unreachable, false)]
#[case::client_ended(Error::Ended { address: text() }, Throttled, false)]
#[case::denied(Error::Denied { call: text(), message: text() }, Denied, false)]
#[case::another_was_first(Error::CheckAndSet { call: text(), message: text() }, Conflict, false)]
#[case::no_answer(Error::NoAnswer { call: text(), address: text(), reason: text() }, Transient, true)]
#[case::broken(Error::Failed { call: text(), status: 502, message: text() }, Transient, true)]
#[rustfmt::skip]
fn an_error_of_vault_has_a_class(
    #[case] error: Error,
    #[case] class: Class,
    #[case] may_have_happened: bool,
) {
    let seen = io::call_error(&error);
    assert_eq!((seen.class, seen.may_have_happened), (class, may_have_happened));
    assert_eq!(seen.message, error.to_string());
}
