use DriftPolicy::{Enforce, Report, Suspend};
use api::tenants::AdoptBy;
use kernel::{ClusterId, ObjectKey};
use proptest::collection::btree_map;
use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn marker() -> Marker {
    let cluster = ClusterId::new("prod-1").unwrap();
    Marker::new(&cluster, &ObjectKey::namespaced("web", "acme"))
}

fn tags(pairs: &[(&str, &str)]) -> Tags {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn marked(pairs: &[(&str, &str)]) -> Tags {
    at_creation(&tags(pairs), &marker())
}

const CLUSTER: (&str, &str) = ("pontoon.io/cluster", "prod-1");
const OBJECT: (&str, &str) = ("pontoon.io/object", "web/acme");

#[rstest]
//                        last            live                        declared        set              remove
#[case::true_is_left_alone(&[("x", "1")], &[("x", "1")], &[("x", "1")], &[], &[])]
#[case::edits(&[("x", "1"), ("y", "1")], &[("x", "1"), ("y", "1"), ("z", "1")], &[("y", "2")], &[("y", "2")], &["x"])]
#[case::a_new_key(&[], &[], &[("x", "1")], &[("x", "1")], &[])]
#[case::foreign_keys_stay(&[], &[("z", "1")], &[], &[], &[])]
#[case::gone_already(&[("x", "1")], &[], &[], &[], &[])]
fn tags_follow_the_spec_under_every_policy(
    #[case] last: &[(&str, &str)],
    #[case] live: &[(&str, &str)],
    #[case] declared: &[(&str, &str)],
    #[case] set: &[(&str, &str)],
    #[case] remove: &[&str],
) {
    for policy in [Enforce, Report, Suspend] {
        let live = marked(live);
        let changes = changes(&tags(last), Some(&live), &tags(declared), &marker(), policy);
        assert_eq!(changes.set, tags(set));
        assert!(changes.remove.iter().eq(remove), "{changes:?}");
        assert_eq!(changes.is_empty(), set.is_empty() && remove.is_empty());
    }
}

#[test]
fn a_tag_changed_outside_is_set_back_under_enforce_alone() {
    let ours = tags(&[("x", "1"), ("y", "1")]);
    let live = marked(&[("x", "9")]);
    let set = |policy| changes(&ours, Some(&live), &ours, &marker(), policy).set;
    assert_eq!(set(Enforce), ours);
    assert_eq!(set(Report), Tags::new());
    assert_eq!(set(Suspend), Tags::new());
}

#[test]
fn a_missing_marker_is_set_under_every_policy() {
    for policy in [Enforce, Report, Suspend] {
        let live = tags(&[CLUSTER]);
        let changes = changes(&Tags::new(), Some(&live), &Tags::new(), &marker(), policy);
        assert_eq!(changes.set, tags(&[OBJECT]));
    }
}

#[test]
fn of_tags_that_were_not_read_only_edits_are_written() {
    let (last, declared) = (
        tags(&[("x", "1"), ("y", "1")]),
        tags(&[("y", "1"), ("z", "1")]),
    );
    let changes = changes(&last, None, &declared, &marker(), Enforce);
    assert_eq!(changes.set, tags(&[("z", "1")]));
    assert!(changes.remove.iter().eq(["x"]));
}

#[test]
fn a_declared_tag_never_overrides_the_marker() {
    let posing = tags(&[("pontoon.io/cluster", "prod-2")]);
    assert_eq!(at_creation(&posing, &marker()), marked(&[]));
    let live = marked(&[]);
    let changes = changes(&posing, Some(&live), &posing, &marker(), Enforce);
    assert!(changes.is_empty(), "{changes:?}");
    let none = Tags::new();
    assert!(super::changes(&posing, Some(&live), &none, &marker(), Enforce).is_empty());
}

fn other(owner: &str) -> Whose {
    Whose::Other(owner.to_owned())
}

#[rstest]
#[case::both_marks(&[CLUSTER, OBJECT], Whose::Ours)]
#[case::none(&[("team", "web")], Whose::Unmarked)]
#[case::half_of_ours(&[CLUSTER], Whose::Unmarked)]
#[case::another_object(&[CLUSTER, ("pontoon.io/object", "b/acme")], other("prod-1/b/acme"))]
#[case::another_cluster(&[("pontoon.io/cluster", "prod-2"), OBJECT], other("prod-2/web/acme"))]
#[case::half_of_anothers(&[("pontoon.io/cluster", "prod-2")], other("prod-2/?"))]
fn a_marker_tells_whose_it_is(#[case] found: &[(&str, &str)], #[case] is: Whose) {
    assert_eq!(whose(&tags(found), &marker()), is);
}

const OWNER: &str = "prod-2/web/acme";

/// What the spec says of adoption.
#[derive(Clone, Copy)]
enum Adopts {
    Nothing,
    Nobodys,
    From,
}

#[rstest] //                                    whose                     record adoption standing
#[case::our_marker(Whose::Ours, false, Adopts::Nothing, Standing::Ours)]
#[case::unmarked_on_record(Whose::Unmarked, true, Adopts::Nothing, Standing::Ours)]
#[case::unmarked(
    Whose::Unmarked,
    false,
    Adopts::Nothing,
    Standing::NotOwned(Whose::Unmarked)
)]
#[case::adopted(Whose::Unmarked, false, Adopts::Nobodys, Standing::Adopt { from: None })]
#[case::nobodys_although_an_owner_is_named(Whose::Unmarked, false, Adopts::From, Standing::Adopt { from: None })]
#[case::taken_over(other(OWNER), false, Adopts::From, Standing::Adopt { from: Some(OWNER.to_owned()) })]
#[case::another_owner(
    other("prod-3/web/acme"),
    false,
    Adopts::From,
    Standing::NotOwned(other("prod-3/web/acme"))
)]
#[case::owned_without_the_owner_named(
    other(OWNER),
    false,
    Adopts::Nobodys,
    Standing::NotOwned(other(OWNER))
)]
#[case::a_record_does_not_beat_a_marker(
    other(OWNER),
    true,
    Adopts::Nothing,
    Standing::NotOwned(other(OWNER))
)]
fn what_was_found_is(
    #[case] whose: Whose,
    #[case] on_record: bool,
    #[case] adopts: Adopts,
    #[case] is: Standing,
) {
    let adoption = |from_owner: Option<&str>| Adoption {
        by: AdoptBy::Name,
        from_owner: from_owner.map(str::to_owned),
    };
    let adoption = match adopts {
        Adopts::Nothing => None,
        Adopts::Nobodys => Some(adoption(None)),
        Adopts::From => Some(adoption(Some(OWNER))),
    };
    assert_eq!(standing(whose, on_record, adoption.as_ref()), is);
}

#[test]
fn a_refusal_names_owner_and_remedy() {
    let reason = not_owned("tenant acme (dt_1)", &other(OWNER));
    assert_eq!(reason.code, "NotOwned");
    assert!(
        reason
            .message
            .contains("tenant acme (dt_1) belongs to prod-2/web/acme")
    );
    let reason = not_owned("tenant acme (dt_1)", &Whose::Unmarked);
    assert!(reason.message.contains("spec.adoption"), "{reason}");
}

fn any_tags() -> impl Strategy<Value = Tags> {
    btree_map("[a-d]", "[12]", 0..5)
}

proptest! {
    #[test]
    fn once_written_all_is_as_declared_and_the_rest_as_it_was(
        last in any_tags(),
        live in any_tags(),
        declared in any_tags(),
    ) {
        let TagChanges { set, remove } =
            changes(&last, Some(&live), &declared, &marker(), Enforce);
        let mut after = live.clone();
        after.retain(|key, _| !remove.contains(key));
        after.extend(set);
        prop_assert_eq!(whose(&after, &marker()), Whose::Ours);
        for (key, value) in &declared {
            prop_assert_eq!(after.get(key), Some(value));
        }
        for (key, value) in &live {
            let ours = declared.contains_key(key) || last.contains_key(key);
            prop_assert!(ours || after.get(key) == Some(value));
        }
        let again = changes(&declared, Some(&after), &declared, &marker(), Enforce);
        prop_assert!(again.is_empty(), "{:?}", again);
    }
}
