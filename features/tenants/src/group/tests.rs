//! The tables of plan.rs, found.rs, memory.rs and status.rs, row by row.

use std::sync::Arc;
use std::time::Duration;

use api::tenants::{
    ConnectionGroup, ConnectionGroupStatus, DeletionPolicy, DriftPolicy, DriftedField,
    GroupAdoptBy, GroupAdoption, conditions, names, reasons,
};
use aws::Priority::{self, Delete, Edit, Poll, Sweep};
use aws::cloudfront::{Group, GroupBody as Body, GroupSummary};
use engine::{Effect, Ended, KindCore, Learned, Next, Object, PassFacts, Report, Truth};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kernel::{CallError, Class, Conditions, ObjectKey, Reason};
use rstest::rstest;
use serde_json::json;

use super::diff::Update;
use super::found::{FirstRead, first_read, found};
use super::ineffective::Ineffective;
use super::memory::{Memory, remember};
use super::model::{NAME, SWEEP, marker};
use super::plan::{Decision, decide, next};
use super::users::Users;
use super::{
    CreateIntent, Facts, GroupCore, Listing, Observed, Read, Shown, Step, World, declared, diff,
    status,
};
use crate::tags::{Tags, at_creation};

/// The time of these passes in seconds, by both clocks.
const NOW: u64 = 1_000;
const ID: &str = "cg_1";

fn time(second: u64) -> Time {
    let second = i64::try_from(second).unwrap();
    Time(Timestamp::from_second(second).unwrap())
}

fn body() -> Body {
    Body {
        ipv6_enabled: true,
        enabled: true,
        anycast_ip_list_id: None,
    }
}

fn disabled() -> Body {
    Body {
        enabled: false,
        ..body()
    }
}

/// The marker of this object, as tags.
fn marker_tags(object: &str) -> Tags {
    at_creation(&Tags::new(), &marker(object))
}

/// Our group, Deployed and as declared. Reads return its tags.
fn group() -> Group {
    Group {
        id: ID.to_owned(),
        arn: "arn:1".to_owned(),
        name: NAME.to_owned(),
        etag: "E1".to_owned(),
        status: "Deployed".to_owned(),
        modified: None,
        routing_endpoint: "d1.cloudfront.net".to_owned(),
        is_default: false,
        body: body(),
        tags: Some(marker_tags(NAME)),
    }
}

fn with_body(body: Body) -> Group {
    Group { body, ..group() }
}

fn in_progress(group: Group) -> Group {
    let status = "InProgress".to_owned();
    Group { status, ..group }
}

fn with_group_tags(tags: Tags) -> Group {
    let tags = Some(tags);
    Group { tags, ..group() }
}

/// An object whose create was announced by an earlier process. Nothing is remembered.
fn world() -> World {
    let spec = serde_json::from_value(json!({})).unwrap();
    let resource = ConnectionGroup::new(NAME, spec);
    let facts = Facts {
        name: NAME.to_owned(),
        marker: marker(NAME),
        declared: declared(&resource.spec),
        policy: DriftPolicy::Enforce,
        users: Users::default(),
        sweep: SWEEP,
    };
    let elapsed = Duration::from_secs(NOW);
    World {
        object: Object {
            key: ObjectKey::cluster(NAME),
            metadata: ObjectMeta {
                generation: Some(1),
                finalizers: Some(vec![names::FINALIZER.to_owned()]),
                ..ObjectMeta::default()
            },
            resource,
            status: ConnectionGroupStatus {
                create_requested_at: Some(time(900)),
                ..ConnectionGroupStatus::default()
            },
            conditions: Vec::new(),
            exists: true,
        },
        facts,
        observed: Observed::default(),
        memory: Memory::default(),
        fresh_intents: Vec::new(),
        is_unsaved: false,
        now: Timestamp::UNIX_EPOCH + elapsed,
        elapsed,
        pass: PassFacts {
            id: "00000000".to_owned(),
            random: 0.5,
            retry_in: Duration::from_secs(5),
            is_urgent: false,
        },
    }
}

/// An object whose group is Deployed, in sync and recorded.
fn in_sync() -> World {
    let mut world = world();
    let shown = group();
    world.object.status = ConnectionGroupStatus {
        observed_generation: Some(1),
        id: Some(shown.id),
        arn: Some(shown.arn),
        e_tag: Some(shown.etag),
        routing_endpoint: Some(shown.routing_endpoint),
        state: Some(shown.status),
        is_default: Some(false),
        tenants: Some(0),
        last_applied: Some(world.facts.declared.clone()),
        ..world.object.status
    };
    condition(&mut world, conditions::READY, true, reasons::DEPLOYED);
    condition(&mut world, conditions::SYNCED, true, reasons::IN_SYNC);
    world
}

fn condition(world: &mut World, kind: &str, holds: bool, reason: &'static str) {
    let reason = Reason::new(reason, "");
    let mut set = Conditions::new(&world.object.conditions, Some(1), world.now);
    if holds {
        set.yes(kind, &reason);
    } else {
        set.no(kind, &reason);
    }
    world.object.conditions = set.into_parts().0;
}

fn deleting(mut world: World) -> World {
    world.object.metadata.deletion_timestamp = Some(time(NOW));
    world
}

fn fresh(mut world: World) -> World {
    let intent = world.object.status.create_requested_at.clone();
    world.fresh_intents = intent.map(CreateIntent).into_iter().collect();
    world
}

fn adopting(mut world: World) -> World {
    let by = GroupAdoptBy::Name;
    world.object.resource.spec.adoption = Some(GroupAdoption { by });
    world
}

fn with_policy(mut world: World, policy: DriftPolicy) -> World {
    world.facts.policy = policy;
    world
}

/// The spec is edited: it disables IPv6.
fn edited(mut world: World) -> World {
    world.facts.declared.ipv6_enabled = false;
    world.object.metadata.generation = Some(2);
    world
}

fn tagged(mut world: World, key: &str) -> World {
    let tag = (key.to_owned(), "1".to_owned());
    world.facts.declared.tags.extend([tag]);
    world
}

/// A read by id had this result.
fn by_id(mut world: World, shown: Shown<Group>) -> World {
    world.observed.has_begun = true;
    world.observed.by_id = shown;
    world
}

fn by_name(mut world: World, shown: Shown<Group>) -> World {
    world.observed.has_begun = true;
    world.observed.by_name = shown;
    world
}

fn with_tags(mut world: World, tags: Shown<Tags>) -> World {
    world.observed.tags = tags;
    world
}

/// A read by id has shown this group.
fn showing(world: World, group: Group) -> World {
    by_id(world, Shown::Present(group))
}

/// A read by name has shown a group with these tags.
fn showing_named(world: World, tags: Tags) -> World {
    let world = by_name(world, Shown::Present(with_group_tags(tags.clone())));
    with_tags(world, Shown::Present(tags))
}

/// Reads by id and by name have found no group.
fn showing_none(world: World) -> World {
    by_name(by_id(world, Shown::Missing), Shown::Missing)
}

fn missing_since(mut world: World, second: u64) -> World {
    world.memory.missing_since = Some(Duration::from_secs(second));
    world
}

/// Our last write had no effect.
fn ineffective(mut world: World, sent: &Body) -> World {
    let elapsed = world.elapsed;
    world.memory.ineffective = Ineffective::next(None, sent, &group().body, elapsed);
    world
}

fn of_generation(mut world: World, generation: i64) -> World {
    world.object.metadata.generation = Some(generation);
    world
}

fn with_memory(mut world: World, change: fn(&mut Memory)) -> World {
    change(&mut world.memory);
    world
}

fn refused(class: Class, code: &str) -> CallError {
    CallError::new(class, "refused").with_code(code)
}

fn denied() -> CallError {
    refused(Class::Denied, "AccessDenied")
}

fn name_taken() -> CallError {
    refused(Class::AlreadyExists, "EntityAlreadyExists")
}

fn not_found() -> CallError {
    refused(Class::NotFound, "EntityNotFound")
}

fn stale() -> CallError {
    refused(Class::Stale, "PreconditionFailed")
}

fn lost_answer() -> CallError {
    CallError::new(Class::Transient, "no answer").with_unknown_effect()
}

/// The decision as text: the read, the step or the end.
fn decided(world: &World) -> String {
    match decide(world) {
        Decision::Read(Read::List) => "list".to_owned(),
        Decision::Read(Read::ById(..)) => "by id".to_owned(),
        Decision::Read(Read::ByName(..)) => "by name".to_owned(),
        Decision::Read(Read::Tags(_)) => "tags".to_owned(),
        Decision::Step(step) => step.name().to_owned(),
        Decision::End(end) => format!("{:?}", end.how),
    }
}

#[track_caller]
fn assert_decided(world: &World, expected: &str) {
    let decided = decided(world);
    assert!(decided.starts_with(expected), "{decided}");
}

fn add_user(world: &mut World) {
    let tenant = ObjectKey::namespaced("web", "acme");
    world.facts.users.using.insert(tenant);
}

fn clear_status(world: &mut World) {
    world.object.status = ConnectionGroupStatus::default();
}

fn held_off(mut world: World) -> World {
    world.observed.error = Some(denied());
    let memory = remembered(&world);
    world.observed = Observed::default();
    world.memory = Memory {
        failures: memory.failures,
        ..Memory::default()
    };
    world
}

#[rstest]
#[case::without_finalizer(in_sync(), |world: &mut World| world.object.metadata.finalizers = None, "create")]
#[case::never_announced(world(), clear_status, "create")]
#[case::as_it_should_be(in_sync(), |_: &mut World| {}, "list")]
#[case::held_off(held_off(in_sync()), |_: &mut World| {}, "Later")]
#[case::edited_while_held_off(held_off(in_sync()), |world: &mut World| world.object.metadata.generation = Some(2), "by id")]
#[case::asked_for_while_held_off(held_off(in_sync()), |world: &mut World| world.pass.is_urgent = true, "by id")]
#[case::not_due(in_sync(), |world: &mut World| world.memory.read_at = Some(Duration::from_secs(NOW + 10)), "Later")]
#[case::retained(deleting(in_sync()), |world: &mut World| { world.object.resource.spec.deletion_policy = DeletionPolicy::Retain; add_user(world); }, "Released(Retained)")]
#[case::the_default_group(deleting(in_sync()), |world: &mut World| { world.object.status.is_default = Some(true); add_user(world); }, "Released(DefaultGroup)")]
#[case::tenants_are_not_read(deleting(in_sync()), |world: &mut World| world.facts.users.unread = true, "Later")]
#[case::in_use(deleting(in_sync()), add_user, "InUse")]
#[case::deleted_before_it_was_announced(
    deleting(world()),
    clear_status,
    "Released(NeverRequested)"
)]
#[case::deleted(deleting(in_sync()), |_: &mut World| {}, "by id")]
#[case::deleted_while_held_off(held_off(deleting(in_sync())), |_: &mut World| {}, "Later")]
fn a_pass_begins_with(
    #[case] world: World,
    #[case] change: fn(&mut World),
    #[case] expected: &str,
) {
    let mut world = world;
    change(&mut world);
    assert_decided(&world, expected);
}

fn postpone_read(world: &mut World) {
    world.memory.read_at = Some(Duration::from_secs(NOW + 10));
}

fn drift() -> Vec<DriftedField> {
    vec![DriftedField {
        field: "enabled".to_owned(),
        want: Some("true".to_owned()),
        live: Some("false".to_owned()),
    }]
}

const LATER: FirstRead = FirstRead::Later(Duration::from_secs(10));

const fn group_read(priority: Priority) -> FirstRead {
    FirstRead::Group(priority)
}

#[rstest]
#[case::as_it_should_be(|_: &mut World| {}, FirstRead::List)]
#[case::not_due(postpone_read, LATER)]
#[case::without_id(|world: &mut World| world.object.status.id = None, group_read(Edit))]
#[case::edited(|world: &mut World| { postpone_read(world); world.facts.declared.enabled = false; }, group_read(Edit))]
#[case::another_generation(|world: &mut World| world.object.metadata.generation = Some(2), group_read(Edit))]
#[case::asked_for(|world: &mut World| { postpone_read(world); world.pass.is_urgent = true; }, group_read(Edit))]
#[case::after_a_stale_write(|world: &mut World| world.observed.rereads = 1, group_read(Edit))]
#[case::after_an_unsaved_status(|world: &mut World| { postpone_read(world); world.is_unsaved = true; }, group_read(Edit))]
#[case::in_doubt(|world: &mut World| { postpone_read(world); world.memory.is_uncertain = true; }, group_read(Edit))]
#[case::in_progress(|world: &mut World| world.object.status.state = None, group_read(Poll))]
#[case::polled_a_moment_ago(|world: &mut World| { postpone_read(world); world.object.status.state = None; }, LATER)]
#[case::not_ready(|world: &mut World| world.object.conditions.clear(), group_read(Sweep))]
#[case::not_in_sync(|world: &mut World| condition(world, conditions::SYNCED, false, reasons::ACCESS_DENIED), group_read(Sweep))]
#[case::drift_to_be_corrected(|world: &mut World| world.object.status.drift = drift(), group_read(Sweep))]
#[case::drift_that_is_left(|world: &mut World| { world.object.status.drift = drift(); world.facts.policy = DriftPolicy::Report; }, FirstRead::List)]
#[case::tags_are_due(|world: &mut World| world.memory.tags_at = Some(Duration::ZERO), group_read(Sweep))]
#[case::deleted(|world: &mut World| world.object.metadata.deletion_timestamp = Some(time(NOW)), group_read(Delete))]
fn the_first_read_is(#[case] change: fn(&mut World), #[case] expected: FirstRead) {
    let mut world = in_sync();
    change(&mut world);
    assert_eq!(first_read(&world), expected);
}

/// A list has shown our group with this change.
fn showing_listed(mut world: World, change: fn(&mut GroupSummary)) -> World {
    let shown = group();
    let mut summary = GroupSummary {
        id: shown.id,
        arn: shown.arn,
        name: shown.name,
        etag: shown.etag,
        status: shown.status,
        routing_endpoint: shown.routing_endpoint,
        is_default: shown.is_default,
        enabled: shown.body.enabled,
        anycast_ip_list_id: None,
    };
    change(&mut summary);
    world.observed.has_begun = true;
    world.observed.listing = Some(Arc::new(Listing {
        at: world.elapsed,
        until: world.elapsed + SWEEP,
        groups: vec![summary],
    }));
    world
}

fn disable(group: &mut GroupSummary) {
    group.enabled = false;
}

fn with_recorded_drift(mut world: World) -> World {
    world.object.status.drift = drift();
    with_policy(world, DriftPolicy::Report)
}

fn read_since(memory: &mut Memory) {
    memory.seen_at = Some(Duration::from_secs(NOW + 1));
}

fn replace_etag(memory: &mut Memory) {
    memory.replaced_etag = Some("E1".to_owned());
}

#[rstest]
#[case::as_in_the_list(showing_listed(in_sync(), |_: &mut GroupSummary| {}), "Steady")]
#[case::another_version_in_the_list(showing_listed(in_sync(), |one: &mut GroupSummary| one.etag = "E2".to_owned()), "Unread(ById")]
#[case::deployed_by_the_list(showing_listed(in_sync(), |one: &mut GroupSummary| one.status = "InProgress".to_owned()), "Unread(ById")]
#[case::changed_in_the_list(showing_listed(in_sync(), disable), "Unread(ById")]
#[case::drift_that_is_known(showing_listed(with_recorded_drift(in_sync()), disable), "Steady")]
#[case::not_in_the_list(showing_listed(in_sync(), |one: &mut GroupSummary| one.id = "cg_2".to_owned()), "Unread(ById")]
#[case::a_list_older_than_the_last_read(
    with_memory(showing_listed(in_sync(), disable), read_since),
    "Steady"
)]
#[case::a_list_older_than_our_write(
    with_memory(showing_listed(in_sync(), disable), replace_etag),
    "Steady"
)]
#[case::by_its_id(showing(in_sync(), group()), "Group")]
#[case::older_than_our_write(with_memory(showing(in_sync(), group()), replace_etag), "Stale")]
#[case::unknown_id(by_id(in_sync(), Shown::Missing), "Unread(ByName")]
#[case::unknown_id_and_name(showing_none(in_sync()), "Nothing")]
#[case::without_id(world(), "Unread(ByName")]
#[case::ours_by_name(by_name(world(), Shown::Present(group())), "Group")]
#[case::unmarked_by_name(
    by_name(world(), Shown::Present(with_group_tags(Tags::new()))),
    "Unread(Tags"
)]
#[case::unmarked_with_tags(showing_named(world(), Tags::new()), "Group")]
#[case::another_name(by_name(world(), Shown::Present(Group { name: "x".to_owned(), ..group() })), "Nothing")]
#[case::tags_are_left_out(showing(in_sync(), Group { tags: None, ..group() }), "Group")]
#[case::tags_are_left_out_in_doubt(with_memory(showing(in_sync(), Group { tags: None, ..group() }), |memory: &mut Memory| memory.is_uncertain = true), "Unread(Tags")]
#[case::tags_are_left_out_before_a_delete(deleting(showing(in_sync(), Group { tags: None, ..group() })), "Unread(Tags")]
#[case::another_marker(
    showing(in_sync(), with_group_tags(marker_tags("other"))),
    "Unread(Tags"
)]
#[case::nothing_to_tag(
    with_tags(
        by_name(world(), Shown::Present(with_group_tags(Tags::new()))),
        Shown::Missing
    ),
    "Stale"
)]
fn reads_find_a_group(#[case] world: World, #[case] expected: &str) {
    let found = format!("{:?}", found(&world));
    assert!(found.starts_with(expected), "{found}");
}

fn with_name_taken(mut world: World) -> World {
    world.observed.name_taken = Some(name_taken());
    by_name(world, Shown::Missing)
}

fn note_taken_name(memory: &mut Memory) {
    memory.name_taken_at = Some(Duration::from_secs(NOW - 60));
}

fn set_uncertain(memory: &mut Memory) {
    memory.is_uncertain = true;
}

fn note_create(memory: &mut Memory) {
    memory.create_sent_at = Some(Duration::from_secs(NOW - 60));
}

fn reported_deleted(mut world: World) -> World {
    condition(
        &mut world,
        conditions::READY,
        false,
        reasons::EXTERNALLY_DELETED,
    );
    world
}

/// An update did not find the group or its Anycast IP list. The read that follows shows which.
fn update_not_found(mut world: World, is_gone: Option<bool>) -> World {
    world.observed.not_found = Some(not_found());
    world.observed.is_gone = is_gone;
    showing(edited(world), group())
}

#[rstest]
#[case::just_announced(fresh(world()), "create")]
#[case::just_announced_to_adopt(adopting(fresh(world())), "by name")]
#[case::just_announced_in_doubt(with_memory(fresh(world()), set_uncertain), "by name")]
#[case::announced_by_another_process(world(), "by name")]
#[case::nothing_of_that_name(by_name(world(), Shown::Missing), "create")]
#[case::the_name_was_taken(
    with_memory(by_name(world(), Shown::Missing), note_taken_name),
    "Stale"
)]
#[case::taken_by_others(fresh(with_name_taken(world())), "Failed")]
#[case::taken_again(with_memory(with_name_taken(world()), note_taken_name), "Failed")]
#[case::taken_perhaps_by_us(with_name_taken(world()), "Unconfirmed")]
#[case::missing_for_the_first_time(showing_none(in_sync()), "Missing")]
#[case::missing_for_a_moment(missing_since(showing_none(in_sync()), NOW - 29), "Missing")]
#[case::missing_and_new(missing_since(with_memory(showing_none(in_sync()), note_create), NOW - 30), "Missing")]
#[case::missing_for_good(missing_since(showing_none(in_sync()), NOW - 30), "create")]
#[case::left_deleted(with_policy(missing_since(showing_none(in_sync()), NOW - 30), DriftPolicy::Report), "LeftDeleted")]
#[case::still_left_deleted(
    with_policy(reported_deleted(showing_none(in_sync())), DriftPolicy::Suspend),
    "LeftDeleted"
)]
#[case::enforced_after_that(reported_deleted(showing_none(in_sync())), "create")]
#[case::unmarked(showing_named(world(), Tags::new()), "NotOwned(Unmarked)")]
#[case::of_another(showing_named(world(), marker_tags("other")), "NotOwned(Other")]
#[case::unmarked_to_adopt(adopting(showing_named(world(), Tags::new())), "mark")]
#[case::of_another_to_adopt(
    adopting(showing_named(world(), marker_tags("other"))),
    "NotOwned(Other"
)]
#[case::ours_by_name(by_name(world(), Shown::Present(group())), "Settled")]
#[case::lost_its_marker(showing(in_sync(), with_group_tags(Tags::new())), "Settled")]
#[case::taken_over_by_another(
    with_tags(
        showing(in_sync(), with_group_tags(marker_tags("other"))),
        Shown::Present(marker_tags("other"))
    ),
    "NotOwned(Other"
)]
#[case::as_declared(showing(in_sync(), group()), "Settled")]
#[case::an_edit(showing(edited(in_sync()), group()), "update")]
#[case::drift_is_corrected(showing(in_sync(), with_body(disabled())), "update")]
#[case::drift_was_corrected_just_now(with_memory(showing(in_sync(), with_body(disabled())), |memory: &mut Memory| memory.corrected_at = Some(Duration::from_secs(NOW - 269))), "Settled")]
#[case::drift_was_corrected_long_ago(with_memory(showing(in_sync(), with_body(disabled())), |memory: &mut Memory| memory.corrected_at = Some(Duration::from_secs(NOW - 270))), "update")]
#[case::drift_is_reported(
    with_policy(showing(in_sync(), with_body(disabled())), DriftPolicy::Report),
    "Settled"
)]
#[case::drift_was_corrected_just_now_and_the_spec_is_edited(
    with_memory(showing(of_generation(in_sync(), 2), with_body(disabled())), |memory: &mut Memory| {
        memory.corrected_at = Some(Duration::from_secs(NOW));
    }),
    "update"
)]
#[case::our_unrecorded_update_is_not_drift(
    with_memory(showing(in_sync(), with_body(disabled())), |memory: &mut Memory| {
        memory.sent = Some(("E1".to_owned(), disabled()));
        memory.corrected_at = Some(Duration::from_secs(NOW));
    }),
    "update"
)]
#[case::without_effect(ineffective(showing(in_sync(), group()), &disabled()), "Settled")]
#[case::without_effect_and_edited(ineffective(showing(edited(in_sync()), group()), &disabled()), "update")]
#[case::a_tag_is_set(showing(tagged(in_sync(), "team"), group()), "tag")]
#[case::an_update_comes_before_tags(showing(tagged(edited(in_sync()), "team"), group()), "update")]
#[case::an_update_found_nothing(update_not_found(in_sync(), None), "by id")]
#[case::the_group_is_gone(update_not_found(in_sync(), Some(true)), "Missing")]
#[case::the_list_of_addresses_is_gone(update_not_found(in_sync(), Some(false)), "Failed")]
fn a_group_is_maintained(#[case] world: World, #[case] expected: &str) {
    assert_decided(&world, expected);
}

fn done(mut world: World, step: &'static str) -> World {
    world.observed.done.push(step);
    world
}

fn default_group() -> Group {
    Group {
        is_default: true,
        ..group()
    }
}

#[rstest]
#[case::enabled(showing(in_sync(), group()), "disable")]
#[case::disabled_in_this_pass(
    done(showing(in_sync(), in_progress(with_body(disabled()))), "disable"),
    "Disabling(\"CloudFront is disabling"
)]
#[case::disabled(
    showing(in_sync(), in_progress(with_body(disabled()))),
    "Disabling(\"it is disabled, and"
)]
#[case::disabled_everywhere(showing(in_sync(), with_body(disabled())), "delete")]
#[case::deleted_in_this_pass(
    done(showing(in_sync(), with_body(disabled())), "delete"),
    "Released(Deleted)"
)]
#[case::a_disable_had_no_effect(ineffective(showing(in_sync(), group()), &disabled()), "Disabling(\"CloudFront accepted the disable")]
#[case::gone(showing_none(in_sync()), "Released(Deleted)")]
#[case::never_sent(fresh(by_name(world(), Shown::Missing)), "Released(Deleted)")]
#[case::may_still_come(by_name(world(), Shown::Missing), "MayAppear")]
#[case::sent_just_now(
    with_memory(by_name(world(), Shown::Missing), note_create),
    "MayAppear"
)]
#[case::missed_long_enough(missing_since(by_name(world(), Shown::Missing), NOW - 120), "Released(Deleted)")]
#[case::older_than_our_write(with_memory(showing(in_sync(), group()), replace_etag), "Stale")]
#[case::ours_by_name(by_name(world(), Shown::Present(group())), "disable")]
#[case::unmarked(showing_named(world(), Tags::new()), "Released(NotOwned(Unmarked))")]
#[case::not_adopted_any_more(
    adopting(showing_named(world(), Tags::new())),
    "Released(NotOwned(Unmarked))"
)]
#[case::of_another(
    showing_named(world(), marker_tags("other")),
    "Released(NotOwned(Other"
)]
#[case::the_default_group(showing(in_sync(), default_group()), "Released(DefaultGroup)")]
#[case::gone_before_it_was_disabled(update_not_found(in_sync(), None), "Stale")]
fn a_group_is_removed(#[case] world: World, #[case] expected: &str) {
    assert_decided(&deleting(world), expected);
}

/// How the pass ends, when no call is left.
fn ended(world: &World) -> Ended<CreateIntent> {
    match next(world) {
        Ok(Next::Done { recheck }) => Ended::Done { recheck },
        Ok(Next::Calls { reads, steps }) => panic!("calls are left: {reads:?} {steps:?}"),
        Err(stop) => Ended::Stopped(stop),
    }
}

fn remembered(world: &World) -> Memory {
    remember(world, &ended(world))
}

/// Status and report of the pass.
fn reported(world: &World) -> (ConnectionGroupStatus, Report) {
    status::status(world, &ended(world))
}

/// A condition in the report: whether it holds, and its reason.
fn condition_of<'a>(report: &'a Report, kind: &str) -> Option<(bool, &'a str)> {
    let (truth, reason) = report.get(kind)?;
    Some((truth == Truth::True, &*reason.code))
}

fn failing(mut world: World, error: CallError) -> World {
    world.observed.has_begun = true;
    world.observed.error = Some(error);
    world
}

fn creating(mut world: World) -> World {
    condition(&mut world, conditions::READY, false, reasons::CREATING);
    world
}

fn pending(mut world: World) -> World {
    condition(
        &mut world,
        conditions::SYNCED,
        true,
        reasons::UPDATE_PENDING,
    );
    world
}

fn updated(mut world: World) -> World {
    let update = Update {
        body: body(),
        edits: true,
        corrects: false,
    };
    world.observed.updated = Some((update, Some(Vec::new())));
    world
}

fn created(mut world: World) -> World {
    world.observed.has_begun = true;
    world.observed.created = Some(in_progress(group()));
    world
}

const YES: bool = true;
const NO: bool = false;

#[rstest]
#[case::deployed(showing(in_sync(), group()), Some((YES, reasons::DEPLOYED)), Some((YES, reasons::IN_SYNC)))]
#[case::created(created(world()), Some((NO, reasons::CREATING)), Some((YES, reasons::UPDATE_PENDING)))]
#[case::still_creating(showing(pending(creating(in_sync())), in_progress(group())), Some((NO, reasons::CREATING)), Some((YES, reasons::UPDATE_PENDING)))]
#[case::updated(updated(showing(in_sync(), in_progress(group()))), Some((NO, reasons::DEPLOYING)), Some((YES, reasons::UPDATE_PENDING)))]
#[case::deployed_by_others(showing(in_sync(), in_progress(group())), Some((NO, reasons::DEPLOYING)), Some((YES, reasons::IN_SYNC)))]
#[case::drift_is_reported(with_policy(showing(in_sync(), with_body(disabled())), DriftPolicy::Report), Some((YES, reasons::DEPLOYED)), Some((NO, reasons::DRIFT_DETECTED)))]
#[case::drift_is_suspended(with_policy(showing(in_sync(), with_body(disabled())), DriftPolicy::Suspend), Some((YES, reasons::DEPLOYED)), Some((YES, reasons::IN_SYNC)))]
#[case::drift_again(with_memory(showing(in_sync(), with_body(disabled())), |memory: &mut Memory| memory.corrected_at = Some(Duration::from_secs(NOW))), Some((YES, reasons::DEPLOYED)), Some((NO, reasons::DRIFT_DETECTED)))]
#[case::without_effect(ineffective(showing(in_sync(), group()), &disabled()), Some((YES, reasons::DEPLOYED)), Some((NO, reasons::UPDATE_NOT_EFFECTIVE)))]
#[case::as_in_the_list(showing_listed(in_sync(), |_: &mut GroupSummary| {}), None, None)]
#[case::not_owned(showing_named(world(), Tags::new()), Some((NO, reasons::NOT_OWNED)), Some((NO, reasons::NOT_OWNED)))]
#[case::left_deleted(with_policy(missing_since(showing_none(in_sync()), NOW - 30), DriftPolicy::Report), Some((NO, reasons::EXTERNALLY_DELETED)), None)]
#[case::missing(showing_none(in_sync()), None, None)]
#[case::denied(failing(in_sync(), denied()), Some((NO, reasons::ACCESS_DENIED)), Some((NO, reasons::ACCESS_DENIED)))]
#[case::throttled(
    failing(in_sync(), refused(Class::Throttled, "Throttling")),
    None,
    None
)]
#[case::failed_once(failing(in_sync(), lost_answer()), None, None)]
#[case::not_disabled(failing(deleting(in_sync()), refused(Class::Conflict, "ResourceNotDisabled")), Some((NO, reasons::DISABLING)), None)]
#[case::may_appear(deleting(by_name(world(), Shown::Missing)), Some((NO, reasons::DELETING)), None)]
#[case::disabling(deleting(showing(in_sync(), in_progress(with_body(disabled())))), Some((NO, reasons::DISABLING)), None)]
#[case::a_delete_is_throttled(failing(deleting(showing(in_sync(), with_body(disabled()))), refused(Class::Throttled, "Throttling")), Some((NO, reasons::DELETING)), None)]
fn a_pass_sets_conditions(
    #[case] world: World,
    #[case] ready: Option<(bool, &str)>,
    #[case] synced: Option<(bool, &str)>,
) {
    let (_, report) = reported(&world);
    assert_eq!(condition_of(&report, conditions::READY), ready);
    assert_eq!(condition_of(&report, conditions::SYNCED), synced);
}

#[test]
fn tenants_that_use_it_are_named_up_to_five() {
    let mut world = deleting(in_sync());
    let tenants = (0..7).map(|n| ObjectKey::namespaced("web", format!("t{n}")));
    world.facts.users.using = tenants.collect();
    let (_, report) = reported(&world);
    let (_, reason) = report.get(conditions::READY).unwrap();
    assert!(reason.message.contains("web/t4 and 2 more"), "{reason}");
}

#[test]
fn a_steady_group_is_read_again_when_the_next_list_is_due() {
    let world = showing_listed(in_sync(), |_: &mut GroupSummary| {});
    let recheck = Some(SWEEP + Duration::from_secs(5));
    assert_eq!(ended(&world), Ended::Done { recheck });
    let (status, report) = reported(&world);
    assert_eq!((status, report), (world.object.status, Report::default()));
}

/// The step that comes next.
fn step(world: &World) -> Step {
    match decide(world) {
        Decision::Step(step) => step,
        other => panic!("no step: {other:?}"),
    }
}

/// Performs the next step with this outcome.
fn perform(world: &mut World, outcome: Result<Option<Group>, CallError>) {
    let step = step(world);
    GroupCore.learn(world, Learned::Outcome { step, outcome });
}

#[test]
fn an_announcement_names_the_intent() {
    let mut world = world();
    clear_status(&mut world);
    let intent = GroupCore.intent_for(&step(&world)).unwrap();
    assert_eq!(intent, CreateIntent(time(NOW)));
    let announcing = Ended::Announcing(vec![intent.clone()]);
    let (status, report) = status::status(&world, &announcing);
    assert_eq!(GroupCore.saved_intents(&status), [intent]);
    let creating = Some((NO, reasons::CREATING));
    assert_eq!(condition_of(&report, conditions::READY), creating);
}

#[test]
fn a_group_that_others_deleted_is_announced_anew() {
    let mut world = missing_since(showing_none(in_sync()), NOW - 30);
    world.memory.create_sent_at = Some(Duration::ZERO);
    let intent = GroupCore.intent_for(&step(&world)).unwrap();
    let announcing = Ended::Announcing(vec![intent]);
    let (status, report) = status::status(&world, &announcing);
    let expected = ConnectionGroupStatus {
        create_requested_at: Some(time(NOW)),
        tenants: Some(0),
        ..ConnectionGroupStatus::default()
    };
    assert_eq!(status, expected);
    let events = format!("{report:?}");
    assert!(events.contains("ExternalDeletion"), "{events}");
    assert_eq!(remember(&world, &announcing).create_sent_at, None);
}

#[test]
fn a_created_group_is_recorded_and_reported() {
    let mut world = fresh(world());
    perform(&mut world, Ok(Some(in_progress(group()))));
    let (status, report) = reported(&world);
    assert_eq!(status.id.as_deref(), Some(ID));
    assert_eq!(status.last_applied.as_ref(), Some(&world.facts.declared));
    assert_eq!(status.observed_generation, Some(1));
    let events = format!("{report:?}");
    assert!(events.contains("edge (cg_1) was created"), "{events}");
    assert_eq!(remembered(&world).create_sent_at, Some(world.elapsed));
}

#[rstest]
#[case::lost(lost_answer(), true)]
#[case::denied(denied(), false)]
fn a_create_that_may_have_happened_is_remembered(#[case] error: CallError, #[case] may: bool) {
    let mut world = fresh(world());
    perform(&mut world, Err(error));
    let memory = remembered(&world);
    assert_eq!(memory.create_sent_at.is_some(), may);
    assert!(memory.is_uncertain);
}

#[test]
fn a_taken_name_is_counted_if_it_is_not_ours() {
    let mut world = fresh(world());
    perform(&mut world, Err(name_taken()));
    assert_decided(&world, "by name");
    let world = showing_named(world, Tags::new());
    assert_eq!(status::counted(&world), Some("name_conflict"));
    let world = by_name(world, Shown::Present(group()));
    assert_eq!(status::counted(&world), None);
}

#[test]
fn a_request_that_our_client_refuses_is_not_counted() {
    let counted = |error| status::counted(&failing(in_sync(), error));
    assert_eq!(counted(CallError::new(Class::Invalid, "no such key")), None);
    let invalid = refused(Class::Invalid, "InvalidArgument");
    assert_eq!(counted(invalid), Some("invalid_spec"));
    assert_eq!(counted(lost_answer()), Some("retryable"));
}

#[test]
fn a_stale_write_is_repeated_three_times_after_a_read() {
    let mut world = showing(edited(in_sync()), group());
    for _ in 0..3 {
        perform(&mut world, Err(stale()));
        assert_decided(&world, "by id");
        world = showing(world, group());
    }
    perform(&mut world, Err(stale()));
    assert_decided(&world, "Failed");
    let Ended::Stopped(engine::Stop::Failed { class, .. }) = ended(&world) else {
        panic!("{:?}", ended(&world));
    };
    assert_eq!(class, Class::Transient);
    assert_eq!(status::counted(&world), None);
}

#[test]
fn a_transient_error_is_reported_the_third_time() {
    let mut world = in_sync();
    let mut is_reported = Vec::new();
    for _ in 0..3 {
        world = failing(world, lost_answer());
        is_reported.push(condition_of(&reported(&world).1, conditions::READY).is_some());
        world.memory = remembered(&world);
    }
    assert_eq!(is_reported, [false, false, true]);
}

#[test]
fn a_pass_without_a_permit_waits_silently() {
    let after = Duration::from_secs(300);
    let error = CallError::new(Class::Throttled, "limited").retry_after(after);
    let world = failing(in_sync(), error);
    let recheck = Some(after);
    assert_eq!(ended(&world), Ended::Done { recheck });
    assert_eq!(status::counted(&world), None);
    assert_eq!(remembered(&world).failures, Memory::default().failures);
}

#[test]
fn drift_is_corrected_reported_and_counted_once() {
    let mut world = showing(in_sync(), with_body(disabled()));
    let after = Group {
        etag: "E2".to_owned(),
        ..in_progress(group())
    };
    perform(&mut world, Ok(Some(after)));
    assert_decided(&world, "Settled");
    let (status, report) = reported(&world);
    assert_eq!(
        (status.drift.len(), status.e_tag.as_deref()),
        (0, Some("E2"))
    );
    let events = format!("{report:?}");
    assert!(
        events.contains("enabled (want true, live false)"),
        "{events}"
    );
    assert!(status::has_new_drift(&world));
    assert_eq!(remembered(&world).corrected_at, Some(world.elapsed));
    let reported = with_recorded_drift(showing(in_sync(), with_body(disabled())));
    assert!(!status::has_new_drift(&reported));
}

#[test]
fn tags_are_set_then_removed_then_recorded() {
    let mut world = showing(tagged(in_sync(), "new"), group());
    let applied = world.object.status.last_applied.as_mut().unwrap();
    applied.tags.insert("old".to_owned(), "1".to_owned());
    let live = world.observed.by_id.clone();
    if let Shown::Present(mut group) = live {
        let tags = group.tags.get_or_insert_default();
        tags.insert("old".to_owned(), "1".to_owned());
        world.observed.by_id = Shown::Present(group);
    }
    assert_decided(&world, "tag");
    perform(&mut world, Ok(None));
    assert_decided(&world, "untag");
    perform(&mut world, Ok(None));
    let (status, _) = reported(&world);
    assert_eq!(status.last_applied, Some(world.facts.declared.clone()));
}

#[test]
fn a_marked_group_is_ours() {
    let mut world = adopting(showing_named(world(), Tags::new()));
    perform(&mut world, Ok(None));
    assert_decided(&world, "Settled");
    let (status, report) = reported(&world);
    assert_eq!(status.id.as_deref(), Some(ID));
    let events = format!("{report:?}");
    assert!(events.contains("spec.adoption allows"), "{events}");
}

#[test]
fn a_delete_of_a_missing_group_is_done() {
    let mut world = deleting(showing(in_sync(), with_body(disabled())));
    perform(&mut world, Err(not_found()));
    assert_eq!(ended(&world), Ended::Done { recheck: None });
}

#[test]
fn the_number_of_tenants_is_recorded_every_ten_seconds() {
    let mut world = in_sync();
    world.memory.read_at = Some(Duration::from_secs(NOW + 311));
    let mut recorded = Vec::new();
    for second in [0, 1, 9, 10, 11] {
        let tenant = ObjectKey::namespaced("web", format!("t{second}"));
        world.facts.users.referring.insert(tenant);
        world.elapsed = Duration::from_secs(NOW + second);
        let ended = ended(&world);
        let (status, _) = status::status(&world, &ended);
        world.memory = remember(&world, &ended);
        world.object.status = status;
        let Ended::Done { recheck } = ended else {
            panic!("{ended:?}");
        };
        let after = recheck.unwrap().as_secs();
        recorded.push((world.object.status.tenants.unwrap(), after));
    }
    let expected = [(1, 311), (1, 9), (1, 1), (4, 301), (4, 9)];
    assert_eq!(recorded, expected);
}

#[test]
fn an_update_that_a_later_read_does_not_show_had_no_effect() {
    let (mut memory, now) = (Memory::default(), Duration::ZERO);
    let group_with = |etag: &str, body: Body| Group {
        etag: etag.to_owned(),
        ..with_body(body)
    };
    memory.record_update("1", &disabled(), &group_with("2", disabled()), now);
    assert!(memory.is_outdated("1") && memory.ineffective.is_none());
    memory.record_read(&group_with("2", body()), now);
    let first = memory.ineffective.clone();
    assert!(first.is_some());
    // Another read does not change its time.
    memory.record_read(&group_with("2", body()), Duration::from_secs(9));
    assert_eq!(memory.ineffective, first);
    memory.record_read(&group_with("2", disabled()), now);
    assert_eq!(memory.ineffective, None);
    // A write of others ends it.
    memory.record_update("2", &disabled(), &group_with("3", body()), now);
    assert!(memory.ineffective.is_some());
    memory.record_read(&group_with("4", body()), now);
    assert_eq!((memory.ineffective, memory.sent), (None, None));
}

#[test]
fn a_read_of_our_group_ends_uncertainty() {
    let world = with_memory(
        missing_since(showing(in_sync(), group()), 900),
        set_uncertain,
    );
    let world = with_memory(world, note_taken_name);
    let memory = remembered(&world);
    assert!(!memory.is_uncertain);
    assert_eq!((memory.missing_since, memory.name_taken_at), (None, None));
    assert_eq!(memory.seen_at, Some(world.elapsed));
    assert_eq!(memory.read_at, Some(world.elapsed + SWEEP));
}

#[test]
fn ready_waits_for_the_deployment() {
    let world = showing(in_sync(), in_progress(group()));
    let Ended::Stopped(engine::Stop::Waiting { reason, after }) = ended(&world) else {
        panic!("{:?}", ended(&world));
    };
    assert_eq!((&*reason.code, after.as_secs()), (reasons::DEPLOYING, 30));
}

#[test]
fn a_create_sends_the_declared_fields_and_tags() {
    let Step::Create { tags, body, .. } = step(&fresh(tagged(world(), "team"))) else {
        panic!("no create");
    };
    assert_eq!(body, diff::body(&world().facts.declared));
    let mut expected = marker_tags(NAME);
    expected.insert("team".to_owned(), "1".to_owned());
    assert_eq!(tags, expected);
}
