use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn missing(names: &[&str]) -> Vec<Missing> {
    let one = |name: &&str| Missing {
        name: (*name).to_owned(),
        uid: format!("uid-{name}"),
        version: 1,
    };
    names.iter().map(one).collect()
}

fn many(count: usize) -> Vec<Missing> {
    let names: Vec<String> = (0..count).map(|n| format!("t{n:05}")).collect();
    missing(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

fn rules(enabled: bool) -> Prune {
    Prune {
        enabled,
        ..Prune::default()
    }
}

/// What becomes of `gone` of `marked` objects that `polls` readings missed.
fn judged(rules: Prune, rows: usize, gone: usize, marked: usize, polls: i64) -> Verdict {
    let missing = many(gone);
    let misses = missing.iter().map(|one| (one.uid.clone(), polls)).collect();
    verdict(&Facts {
        rules,
        rows,
        nameless: 0,
        marked,
        missing: &missing,
        misses: &misses,
        approved: None,
    })
}

#[rstest] //                                      rows gone marked polls
#[case::one_of_twenty_is_five_percent(19, 1, 20, 2, true)]
#[case::ten_percent_exactly(90, 10, 100, 2, true)]
#[case::over_ten_percent(89, 11, 100, 2, false)]
#[case::one_of_two_may_go(1, 1, 2, 2, true)]
#[case::the_only_one_may_not(1, 1, 1, 2, false)]
#[case::two_of_three_may_not(1, 2, 3, 2, false)]
#[case::an_empty_table_deletes_nothing(0, 1, 20, 2, false)]
#[case::more_readings_change_nothing(89, 11, 100, 50, false)]
fn the_set_must_be_small(
    #[case] rows: usize,
    #[case] gone: usize,
    #[case] marked: usize,
    #[case] polls: i64,
    #[case] goes: bool,
) {
    let verdict = judged(rules(true), rows, gone, marked, polls);
    match verdict {
        Verdict::Delete(set) => assert!(goes && set.len() == gone),
        Verdict::Blocked { set, hash, .. } => {
            assert!(!goes && set.len() == gone);
            assert_eq!(hash, super::hash(&set));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_missing_is_up_to_date_and_off_is_off() {
    assert_eq!(judged(rules(true), 0, 0, 5, 9), Verdict::UpToDate);
    assert_eq!(judged(rules(false), 4, 1, 5, 9), Verdict::Disabled);
    assert_eq!(judged(rules(false), 4, 0, 5, 9), Verdict::UpToDate);
}

#[test]
fn one_reading_is_no_confirmation() {
    assert_eq!(judged(rules(true), 19, 1, 20, 1), Verdict::Unconfirmed);
    let once = Prune {
        confirm_polls: 1,
        ..rules(true)
    };
    assert!(matches!(judged(once, 19, 1, 20, 1), Verdict::Delete(_)));
}

#[test]
fn the_confirmed_go_and_the_others_wait() {
    let missing = missing(&["a", "b"]);
    let misses = Misses::from([("uid-a".into(), 2), ("uid-b".into(), 1)]);
    let verdict = verdict(&Facts {
        rules: rules(true),
        rows: 10,
        nameless: 0,
        marked: 12,
        missing: &missing,
        misses: &misses,
        approved: None,
    });
    assert_eq!(verdict, Verdict::Delete(missing[..1].to_vec()));
}

#[test]
fn a_row_that_comes_back_resets_the_count() {
    let (a, b) = (missing(&["a"]), missing(&["a", "b"]));
    let first = counted(&Misses::new(), &b);
    let second = counted(&first, &a);
    let third = counted(&second, &b);
    assert_eq!(
        third,
        Misses::from([("uid-a".into(), 3), ("uid-b".into(), 1)])
    );
}

fn approved(set: &[Missing], rules: Prune, rows: usize, hash: &str) -> Verdict {
    let misses = set.iter().map(|one| (one.uid.clone(), 2)).collect();
    verdict(&Facts {
        rules,
        rows,
        nameless: 0,
        marked: set.len(),
        missing: set,
        misses: &misses,
        approved: Some(hash),
    })
}

#[test]
fn an_approval_is_for_exactly_one_set() {
    let set = missing(&["a", "b", "c"]);
    let given = hash(&set);
    let delete = Verdict::Delete(set.clone());
    assert_eq!(approved(&set, rules(true), 1, &given), delete);
    assert_eq!(
        approved(&set, rules(true), 0, &format!(" {given}\n")),
        delete
    );
    for other in [missing(&["a", "b"]), missing(&["a", "b", "c", "d"])] {
        let verdict = approved(&other, rules(true), 1, &given);
        assert!(matches!(verdict, Verdict::Blocked { .. }), "{verdict:?}");
    }
    assert_eq!(approved(&set, rules(false), 1, &given), Verdict::Disabled);
}

#[test]
fn a_row_that_names_nobody_keeps_all_until_they_are_approved() {
    let set = missing(&["a"]);
    let misses = Misses::from([("uid-a".into(), 2)]);
    let given = hash(&set);
    let judged = |approved: Option<&str>| {
        verdict(&Facts {
            rules: rules(true),
            rows: 20,
            nameless: 3,
            marked: 20,
            missing: &set,
            misses: &misses,
            approved,
        })
    };
    let Verdict::Blocked { hash, why, .. } = judged(None) else {
        panic!("{:?}", judged(None));
    };
    assert_eq!((&*hash, why), (&*given, Objection::Nameless(3)));
    assert_eq!(judged(Some(&given)), Verdict::Delete(set.clone()));
}

#[test]
fn an_approval_serves_once_because_an_object_made_anew_is_another() {
    let set = missing(&["a", "b", "c"]);
    let mut anew = set.clone();
    anew[0].uid = "uid-a-again".into();
    assert_ne!(hash(&anew), hash(&set));
}

#[test]
fn the_hash_is_short_and_of_the_set_alone() {
    let set = missing(&["a", "b"]);
    let mut turned: Vec<_> = set.iter().rev().cloned().collect();
    turned[0].version = 99;
    assert_eq!(hash(&set), hash(&turned));
    assert_eq!(hash(&set).len(), 12);
}

/// A world of ten objects in which rows come and go; the readings that each object lacked its row
/// are counted here a second time, by history.
fn readings() -> impl Strategy<Value = Vec<std::collections::BTreeSet<usize>>> {
    vec(btree_set(0..10_usize, 0..10), 1..20)
}

proptest! {
    #[test]
    fn nothing_goes_that_was_not_missed_often_enough_or_with_too_many_others(
        readings in readings(),
        percent in 0..100_i64,
        confirm in 1..4_i64,
    ) {
        let rules = Prune { enabled: true, max_delete_percent: percent, confirm_polls: confirm };
        let all = many(10);
        let mut misses = Misses::new();
        for (at, gone) in readings.iter().enumerate() {
            let missing: Vec<Missing> = gone.iter().map(|n| all[*n].clone()).collect();
            misses = counted(&misses, &missing);
            let rows = 10 - gone.len();
            let facts = Facts {
                rules, rows, nameless: 0, marked: 10, missing: &missing, misses: &misses,
                approved: None,
            };
            let Verdict::Delete(set) = verdict(&facts) else { continue };
            prop_assert!(rows > 0);
            prop_assert!(set.len() == 1 || i64::try_from(set.len()).unwrap() * 10 <= percent);
            for one in &set {
                let index = all.iter().position(|known| known == one).unwrap();
                let last = readings[..=at].iter().rev().take(usize::try_from(confirm).unwrap());
                prop_assert_eq!(last.clone().count(), usize::try_from(confirm).unwrap());
                prop_assert!(last.into_iter().all(|gone| gone.contains(&index)));
            }
        }
    }
}
