//! Whether and how closely a group is looked at.

use std::time::Duration;

use api::tenants::{ConnectionGroupStatus, DeletionPolicy, DriftedField, conditions, reasons};
use aws::Priority::{Delete, Edit, Poll, Sweep};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kernel::{Conditions, ObjectKey, Reason};
use rstest::rstest;

use super::super::gather::{Facts, Look, look};
use super::super::memory::Memory;
use super::super::plan::{First, first};
use super::world::{declared, facts};

/// A group that is deployed, in sync and on record.
fn well() -> Facts {
    let bare = facts();
    let mut set = Conditions::new(&[], bare.generation, bare.now);
    let fine = Reason::new(reasons::DEPLOYED, "");
    set.yes(conditions::READY, &fine);
    set.yes(conditions::SYNCED, &fine);
    let status = ConnectionGroupStatus {
        observed_generation: bare.generation,
        id: Some("cg_1".to_owned()),
        state: Some("Deployed".to_owned()),
        create_requested_at: Some(Time(bare.now)),
        last_applied: Some(declared()),
        conditions: set.into_parts().0,
        ..ConnectionGroupStatus::default()
    };
    Facts { status, ..bare }
}

fn later() -> Memory {
    Memory {
        look_at: Some(Duration::from_secs(1010)),
        ..Memory::default()
    }
}

const LATER: Look = Look::Later(Duration::from_secs(10));

fn drifted(facts: &mut Facts) {
    facts.status.drift = vec![DriftedField {
        field: "enabled".to_owned(),
        want: None,
        live: None,
    }];
}

#[rstest]
#[case::all_right(|_: &mut Facts, _: &mut Memory| {}, Look::Listed)]
#[case::its_time_has_not_come(|_: &mut Facts, memory: &mut Memory| *memory = later(), LATER)]
#[case::not_there(|facts: &mut Facts, _: &mut Memory| facts.status.id = None, Look::Itself(Edit))]
#[case::edited(|facts: &mut Facts, memory: &mut Memory| { *memory = later(); facts.declared.enabled = false; }, Look::Itself(Edit))]
#[case::another_generation(|facts: &mut Facts, _: &mut Memory| facts.generation = Some(2), Look::Itself(Edit))]
#[case::asked_for(|facts: &mut Facts, memory: &mut Memory| { *memory = later(); facts.asked = true; }, Look::Itself(Edit))]
#[case::in_doubt(|_: &mut Facts, memory: &mut Memory| { *memory = later(); memory.doubted = true; }, Look::Itself(Edit))]
#[case::in_progress(|facts: &mut Facts, _: &mut Memory| facts.status.state = None, Look::Itself(Poll))]
#[case::polled_a_moment_ago(|facts: &mut Facts, memory: &mut Memory| { *memory = later(); facts.status.state = None; }, LATER)]
#[case::not_ready(|facts: &mut Facts, _: &mut Memory| facts.status.conditions.clear(), Look::Itself(Sweep))]
#[case::drift_to_be_undone(|facts: &mut Facts, _: &mut Memory| drifted(facts), Look::Itself(Sweep))]
#[case::tags_are_due(|_: &mut Facts, memory: &mut Memory| memory.tags_at = Some(Duration::ZERO), Look::Itself(Sweep))]
fn a_group_is_looked_at(#[case] change: fn(&mut Facts, &mut Memory), #[case] expected: Look) {
    let (mut facts, mut memory) = (well(), Memory::default());
    change(&mut facts, &mut memory);
    assert_eq!(look(&facts, &memory), expected);
}

fn used(facts: &mut Facts) {
    let tenant = ObjectKey::namespaced("web", "acme");
    facts.users.using.insert(tenant);
}

fn unasked(facts: &mut Facts) {
    facts.status = ConnectionGroupStatus::default();
}

#[rstest]
#[case::unheld(|facts: &mut Facts| facts.held = false, "Hold")]
#[case::never_asked_for(unasked, "Announce")]
#[case::all_right(|_: &mut Facts| {}, "Look")]
#[case::let_go(|facts: &mut Facts| { facts.deleting = true; facts.held = false; }, "Nothing")]
#[case::kept(|facts: &mut Facts| { facts.deleting = true; facts.deletion = DeletionPolicy::Retain; used(facts); }, "Release")]
#[case::the_default_group(|facts: &mut Facts| { facts.deleting = true; facts.status.is_default = Some(true); used(facts); }, "Release")]
#[case::nobody_knows_who_uses_it(|facts: &mut Facts| { facts.deleting = true; facts.users.unread = true; }, "Wait")]
#[case::in_use(|facts: &mut Facts| { facts.deleting = true; used(facts); }, "InUse")]
#[case::nothing_there(|facts: &mut Facts| { facts.deleting = true; unasked(facts); }, "Release")]
#[case::to_be_deleted(|facts: &mut Facts| facts.deleting = true, "Look")]
fn a_pass_begins_with(#[case] change: fn(&mut Facts), #[case] expected: &str) {
    let mut facts = well();
    change(&mut facts);
    let first = first(&facts, &Memory::default());
    assert!(format!("{first:?}").starts_with(expected), "{first:?}");
}

#[test]
fn a_deletion_looks_at_once() {
    let mut facts = well();
    facts.deleting = true;
    let first = first(&facts, &later());
    assert_eq!(first, First::Look(Look::Itself(Delete)));
}
