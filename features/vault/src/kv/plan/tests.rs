use rstest::rstest;

use super::*;

use IntentKind::{Correct, Create};
use Live::{Absent, Current, Deleted};
use Ownership::{Ours, Unmarked};
use Values::{Different, Equal, Unasked, Unreadable};

fn foreign() -> Ownership {
    Ownership::Foreign("VaultKVSecret team-b/x".to_owned())
}

fn world(
    live: Live,
    owner: Ownership,
    announced: Option<IntentKind>,
    recorded: Option<u64>,
    values: Values,
) -> World {
    World {
        live,
        owner,
        announced,
        recorded,
        values,
        reseed: false,
    }
}

fn keep(seeded: Option<u64>) -> Step {
    Step::Keep {
        seeded,
        owner: None,
    }
}

fn write(cas: u64, kind: IntentKind) -> Step {
    Step::Write { cas, kind }
}

const ONE: Live = Current { version: 1 };
const TWO: Live = Current { version: 2 };
const DELETED: Live = Deleted { version: 1 };

#[rstest] //                                       at the path  marker    announced      recorded values      step
#[case::what_is_missing_is_written(                Absent,      Unmarked, None,          None,    Unasked,    write(0, Create))]
#[case::an_announced_write_that_never_came_is_made(Absent,      Unmarked, Some(Create),  None,    Unasked,    write(0, Create))]
#[case::what_was_removed_altogether_is_written(    Absent,      Unmarked, None,          Some(1), Unasked,    write(0, Create))]
#[case::what_is_there_is_left(                     ONE,         Unmarked, None,          None,    Unasked,    keep(None))]
#[case::even_if_it_carries_our_marker(             ONE,         Ours,     None,          None,    Unasked,    keep(None))]
#[case::ours_stays_ours(                           ONE,         Ours,     None,          Some(1), Unasked,    keep(Some(1)))]
#[case::also_when_users_have_changed_it(           TWO,         Ours,     None,          Some(1), Unasked,    keep(Some(1)))]
#[case::a_lost_answer_is_found(                    ONE,         Unmarked, Some(Create),  None,    Equal,      Step::Claim { version: 1 })]
#[case::another_was_faster(                        ONE,         Unmarked, Some(Create),  None,    Different,  keep(None))]
#[case::nobody_can_tell(                           ONE,         Unmarked, Some(Create),  None,    Unreadable, Step::Doubt)]
#[case::a_later_version_is_not_what_was_announced( TWO,         Unmarked, Some(Create),  None,    Unasked,    keep(None))]
#[case::our_marker_tells_what_the_record_does_not( ONE,         Ours,     Some(Create),  None,    Unasked,    keep(Some(1)))]
#[case::also_when_users_changed_it_since(          TWO,         Ours,     Some(Create),  None,    Unasked,    keep(Some(1)))]
#[case::what_was_ours_before_is_no_longer(         ONE,         Unmarked, Some(Create),  Some(5), Different,  keep(None))]
#[case::deleted_is_told(                           DELETED,     Ours,     None,          Some(1), Unasked,    Step::Gone { owner: None })]
#[case::whosever_it_was(                           DELETED,     Unmarked, None,          None,    Unasked,    Step::Gone { owner: None })]
#[case::a_lost_reseed_is_found(                    TWO,         Ours,     Some(Correct), Some(1), Equal,      Step::Claim { version: 2 })]
#[case::another_wrote_instead_of_the_reseed(       TWO,         Ours,     Some(Correct), Some(1), Different,  keep(Some(1)))]
#[case::nobody_can_tell_who_wrote_again(           TWO,         Ours,     Some(Correct), Some(1), Unreadable, Step::Doubt)]
#[case::undeleted_before_the_reseed(               ONE,         Ours,     Some(Correct), Some(1), Unasked,    keep(Some(1)))]
#[rustfmt::skip]
fn rule(
    #[case] live: Live,
    #[case] owner: Ownership,
    #[case] announced: Option<IntentKind>,
    #[case] recorded: Option<u64>,
    #[case] values: Values,
    #[case] step: Step,
) {
    let world = world(live, owner, announced, recorded, values);
    assert_eq!(world.is_doubtful(), values != Unasked, "values are read in doubt, and only then");
    assert_eq!(plan(&world), step);
}

#[rstest]
#[case::of_ours(Ours, Some(1))]
#[case::of_nobodys(Unmarked, None)]
fn what_was_deleted_is_written_again_if_the_spec_says_so(
    #[case] owner: Ownership,
    #[case] recorded: Option<u64>,
) {
    let again = |live| World {
        reseed: true,
        ..world(live, owner.clone(), None, recorded, Unasked)
    };
    let deleted = Deleted { version: 3 };
    assert_eq!(plan(&again(deleted)), write(3, Correct));
    assert_eq!(plan(&again(Deleted { version: 0 })), write(0, Correct));
    assert_eq!(plan(&again(TWO)), keep(recorded));
}

#[rstest]
#[case::current(ONE)]
#[case::deleted(DELETED)]
fn what_is_anothers_is_left_whatever_was_announced(
    #[case] live: Live,
    #[values(None, Some(Create), Some(Correct))] announced: Option<IntentKind>,
) {
    let owner = Some("VaultKVSecret team-b/x".to_owned());
    let world = World {
        reseed: true,
        ..world(live.clone(), foreign(), announced, None, Unasked)
    };
    let expected = match live {
        DELETED => Step::Gone { owner },
        _ => Step::Keep {
            seeded: None,
            owner,
        },
    };
    assert!(!world.is_doubtful());
    assert_eq!(plan(&world), expected);
}

#[test]
fn an_engine_without_versions_is_refused() {
    let engine = "KV of version 1".to_owned();
    let live = Live::OtherEngine(engine.clone());
    let world = world(live, Unmarked, None, None, Unasked);
    assert_eq!(plan(&world), Step::Refuse { engine });
    assert!(matches!(end(&world), End::Leave(_)));
}

#[rstest] //                                     refused  recorded  shown then                step
#[case::another_was_faster(                      Create,  None,     ONE,    Unmarked,         keep(None))]
#[case::another_was_faster_and_is_known(         Create,  None,     ONE,    foreign(),        theirs())]
#[case::another_was_faster_where_ours_once_was(  Create,  Some(1),  ONE,    Ours,             keep(None))]
#[case::we_may_not_create(                       Create,  None,     Absent, Unmarked,         write(0, Create))]
#[case::another_wrote_instead_of_the_reseed(     Correct, Some(1),  TWO,    Ours,             keep(Some(1)))]
#[case::another_wrote_what_was_never_ours(       Correct, None,     TWO,    Unmarked,         keep(None))]
#[case::we_may_not_update(                       Correct, Some(1),  DELETED, Ours,            write(1, Correct))]
#[rustfmt::skip]
fn a_refused_write_makes_nothing_ours(
    #[case] kind: IntentKind,
    #[case] recorded: Option<u64>,
    #[case] live: Live,
    #[case] owner: Ownership,
    #[case] step: Step,
) {
    let before = World {
        reseed: true,
        ..world(Absent, Unmarked, Some(kind), recorded, Unasked)
    };
    let after = before.after_refusal(kind, live, owner);
    assert!(!after.is_doubtful(), "values are not compared");
    assert_eq!(plan(&after), step);
    if kind == Create && !matches!(step, Step::Write { .. }) {
        assert!(matches!(end(&after), End::Leave(_)), "it is never deleted");
    }
}

fn theirs() -> Step {
    Step::Keep {
        seeded: None,
        owner: Some("VaultKVSecret team-b/x".to_owned()),
    }
}

#[derive(Debug, PartialEq)]
enum Fate {
    Gone,
    Deleted,
    Left,
}

#[rstest] //                                  at the path  marker     announced      recorded values      fate
#[case::as_we_wrote_it_it_goes(               ONE,         Ours,      None,          Some(1), Unasked,    Fate::Deleted)]
#[case::deleted_but_not_removed_it_goes(      DELETED,     Ours,      None,          Some(1), Unasked,    Fate::Deleted)]
#[case::gone_is_gone(                         Absent,      Unmarked,  None,          Some(1), Unasked,    Fate::Gone)]
#[case::changed_by_users_it_stays(            TWO,         Ours,      None,          Some(1), Unasked,    Fate::Left)]
#[case::without_our_marker_it_stays(          ONE,         Unmarked,  None,          Some(1), Unasked,    Fate::Left)]
#[case::anothers_stays(                       ONE,         foreign(), None,          Some(1), Unasked,    Fate::Left)]
#[case::unrecorded_it_stays(                  ONE,         Ours,      None,          None,    Unasked,    Fate::Left)]
#[case::written_before_a_crash_it_goes(       ONE,         Unmarked,  Some(Create),  None,    Equal,      Fate::Deleted)]
#[case::marked_before_a_crash_it_goes(        ONE,         Ours,      Some(Create),  None,    Unasked,    Fate::Deleted)]
#[case::another_was_faster_it_stays(          ONE,         Unmarked,  Some(Create),  None,    Different,  Fate::Left)]
#[case::untellable_it_stays(                  ONE,         Unmarked,  Some(Create),  None,    Unreadable, Fate::Left)]
#[case::written_again_before_a_crash_it_goes( TWO,         Ours,      Some(Correct), Some(1), Equal,      Fate::Deleted)]
#[case::changed_after_the_announcement_it_stays(TWO,       Ours,      Some(Correct), Some(1), Different,  Fate::Left)]
#[rustfmt::skip]
fn fate_in_vault(
    #[case] live: Live,
    #[case] owner: Ownership,
    #[case] announced: Option<IntentKind>,
    #[case] recorded: Option<u64>,
    #[case] values: Values,
    #[case] expected: Fate,
) {
    let world = world(live, owner, announced, recorded, values);
    let found = match end(&world) {
        End::Gone => Fate::Gone,
        End::Delete => Fate::Deleted,
        End::Leave(_) => Fate::Left,
    };
    assert_eq!(found, expected);
}
