//! What is done at a name that goes, by rule.

use std::collections::BTreeMap;

use aws::route53::zone_writer::Propagated;
use rstest::rstest;

use super::{a_bundle, a_spot, changes, owner, records, sets, written, zone_access};
use crate::dns::known::{Answer, Known, Sight};
use crate::dns::plan::{Seen, Served, Step, next};
use crate::dns::verdict::Verdict;
use crate::dns::want::Want;

fn known(told: &str, live: Option<&str>) -> Known {
    let text = || "refused".to_owned();
    let answer = match told {
        "" => None,
        "lost" => Some(Answer::Lost),
        "differs" => Some(Answer::Differs { text: text() }),
        "no zone" => Some(Answer::NoZone { text: text() }),
        other => panic!("what is {other:?}?"),
    };
    let mut known = Known::default();
    if let Some(answer) = answer {
        known.submitted(a_bundle());
        known.answered(&a_spot(), answer);
    }
    if let Some(live) = live {
        known.read(a_spot(), Sight { sets: sets(live) });
    }
    known
}

/// The first step that sends something, waits or is done.
pub(super) fn step(recorded: &str, want: &Want, known: &Known) -> Step {
    let seen = Seen {
        us: &owner(),
        known,
        zones: &BTreeMap::new(),
        changes: &Propagated::default(),
        troubled: &BTreeMap::new(),
        served: &Served::Unknown,
        inherited: &[],
    };
    let first = next(&records(recorded), want, &seen);
    if first.again {
        assert_eq!(first.submit, [], "it is recorded first");
        next(&first.records, want, &seen)
    } else {
        first
    }
}

fn comes_to(step: &Step) -> String {
    if !step.reads.is_empty() {
        "read".to_owned()
    } else if !step.submit.is_empty() {
        changes(&step.submit)
    } else if step.records.is_empty() {
        "done".to_owned()
    } else {
        written(&step.records)
    }
}

#[rstest] //                                      recorded                                     told       live                               comes to                                     left
#[case::exactly_what_is_recorded_goes(            "Applied CNAME d0 300",                      "",        None,                              "DELETE CNAME d0 300, DELETE mark",          "")]
#[case::under_way_or_not(                         "Applied CNAME d0 300 C1",                   "",        None,                              "DELETE CNAME d0 300, DELETE mark",          "")]
#[case::both_types_of_an_alias(                   "Applied A d0 + Applied AAAA d0",            "",        None,                              "DELETE A d0, DELETE AAAA d0, DELETE mark",  "")]
#[case::what_was_planned_is_read(                 "Planned CNAME d0 300",                      "",        None,                              "read",                                      "")]
#[case::two_values_are_read(                      "Deleting CNAME d0 300 + Deleting CNAME d1 300", "",    None,                              "read",                                      "")]
#[case::a_mismatch_is_read(                       "Deleting CNAME d0 300",                     "differs", None,                              "read",                                      "")]
#[case::a_lost_answer_is_read(                    "Deleting CNAME d0 300",                     "lost",    None,                              "read",                                      "")]
#[case::a_zone_that_is_gone_is_empty(             "Deleting CNAME d0 300",                     "no zone", None,                              "done",                                      "")]
#[case::gone_is_done(                             "Deleting CNAME d0 300",                     "differs", Some(""),                          "done",                                      "")]
#[case::gone_but_for_its_mark(                    "Deleting CNAME d0 300",                     "differs", Some("mark ours"),                 "DELETE mark",                               "")]
#[case::another_ttl_goes(                         "Deleting CNAME d0 300",                     "differs", Some("CNAME d0 60 + mark ours"),   "DELETE CNAME d0 60, DELETE mark",           "")]
#[case::another_target_stays(                     "Deleting CNAME d0 300",                     "differs", Some("CNAME x.net 300 + mark ours"), "DELETE mark",                             "CNAME x.net")]
#[case::another_target_stays_unmarked(            "Deleting CNAME d0 300",                     "differs", Some("CNAME x.net 300"),           "done",                                      "CNAME x.net")]
#[case::a_routing_policy_stays(                   "Deleting CNAME d0 300",                     "differs", Some("routed CNAME d0 300 + mark ours"), "DELETE mark",                         "CNAME d0.cloudfront.net")]
#[case::marked_by_another_both_stay(              "Deleting CNAME d0 300",                     "differs", Some("CNAME d0 300 + mark other"), "done",                                      "CNAME d0.cloudfront.net")]
#[case::external_dns_keeps_it(                    "Deleting CNAME d0 300",                     "differs", Some("CNAME d0 300 + external-dns"), "done",                                    "CNAME d0.cloudfront.net")]
#[case::what_we_wrote_goes_without_its_mark(      "Deleting CNAME d0 300",                     "differs", Some("CNAME d0 300"),              "DELETE CNAME d0 300",                       "")]
#[case::other_text_in_the_marks_place_stays(      "Deleting CNAME d0 300",                     "differs", Some("CNAME d0 300 + mark text"),  "DELETE CNAME d0 300",                       "")]
#[case::a_mark_with_another_ttl_goes(             "Deleting CNAME d0 300",                     "differs", Some("CNAME d0 300 + mark odd"),   "DELETE CNAME d0 300, DELETE mark",          "")]
#[case::one_missing_does_not_hide_the_other(      "Deleting A d0 + Deleting AAAA d0",          "differs", Some("AAAA d0 + mark ours"),       "DELETE AAAA d0, DELETE mark",               "")]
#[case::one_changed_does_not_hide_the_other(      "Deleting A d0 + Deleting AAAA d0",          "differs", Some("A 192.0.2.1 300 + AAAA d0 + mark ours"), "DELETE AAAA d0, DELETE mark",   "A 192.0.2.1")]
#[case::a_type_that_was_never_ours_stays_unsaid(  "Deleting A d0",                             "differs", Some("A d0 + AAAA 2001:db8::1 300 + mark ours"), "DELETE A d0, DELETE mark",    "")]
#[case::the_live_one_of_two_values_goes(          "Deleting CNAME d0 300 + Planned CNAME d1 300", "",     Some("CNAME d1 300 + mark ours"),  "DELETE CNAME d1 300, DELETE mark",          "")]
#[case::the_other_of_two_values_goes(             "Deleting CNAME d0 300 + Planned CNAME d1 300", "",     Some("CNAME d0 300 + mark ours"),  "DELETE CNAME d0 300, DELETE mark",          "")]
#[case::a_plan_that_became_true_goes(             "Planned CNAME d0 300",                      "differs", Some("CNAME d0 300 + mark ours"),  "DELETE CNAME d0 300, DELETE mark",          "")]
#[case::a_plan_that_did_not_is_done(              "Planned CNAME d0 300",                      "differs", Some(""),                          "done",                                      "")]
#[case::what_kept_a_plan_out_stays(               "Planned CNAME d0 300",                      "differs", Some("CNAME d0 300"),              "done",                                      "")]
#[case::a_late_creation_is_met(                   "Planned CNAME d0 300",                      "lost",    Some(""),                          "DELETE CNAME d0 300, DELETE mark",          "")]
#[rustfmt::skip]
fn a_name_that_goes(
    #[case] recorded: &str, #[case] told: &str, #[case] live: Option<&str>,
    #[case] expected: &str, #[case] left: &str,
) {
    let step = step(recorded, &Want::Nothing, &known(told, live));
    assert_eq!(comes_to(&step), expected);
    let told: Vec<_> = step.left.iter().map(|one| format!("{} {}", one.kind, one.value)).collect();
    assert_eq!(told.join(","), left);
}

#[rstest] //                              recorded                told       live                              comes to
#[case::loses_its_mark(                   "Applied CNAME d0 300", "",        None,                             "DELETE mark")]
#[case::planned_or_not(                   "Planned CNAME d0 300", "",        None,                             "DELETE mark")]
#[case::a_mismatch_is_read(               "Applied CNAME d0 300", "differs", None,                             "read")]
#[case::a_touched_mark_goes_as_it_is(     "Applied CNAME d0 300", "differs", Some("CNAME d0 300 + mark odd"),  "DELETE mark")]
#[case::without_a_mark_it_is_done(        "Applied CNAME d0 300", "differs", Some("CNAME d0 300"),             "done")]
#[case::anothers_mark_stays(              "Applied CNAME d0 300", "differs", Some("CNAME d0 300 + mark other"), "done")]
#[case::a_zone_that_is_gone_is_empty(     "Applied CNAME d0 300", "no zone", None,                             "done")]
#[rustfmt::skip]
fn a_name_that_is_released(
    #[case] recorded: &str, #[case] told: &str, #[case] live: Option<&str>, #[case] expected: &str,
) {
    let step = step(recorded, &Want::Unmarked, &known(told, live));
    assert_eq!(comes_to(&step), expected);
}

#[test]
fn a_zone_that_cannot_be_read_because_it_is_gone_is_empty() {
    let mut known = Known::default();
    assert_eq!(
        comes_to(&step("Planned CNAME d0 300", &Want::Nothing, &known)),
        "read"
    );
    known.zone_missing(a_spot(), "no such zone".to_owned());
    assert_eq!(
        comes_to(&step("Planned CNAME d0 300", &Want::Nothing, &known)),
        "done"
    );
}

#[test]
fn a_zone_in_trouble_is_told_of_while_names_go() {
    let troubled = BTreeMap::from([(zone_access("Z1"), "broken".to_owned())]);
    let seen = Seen {
        us: &owner(),
        known: &Known::default(),
        zones: &BTreeMap::new(),
        changes: &Propagated::default(),
        troubled: &troubled,
        served: &Served::Unknown,
        inherited: &[],
    };
    let step = next(&records("Deleting CNAME d0 300"), &Want::Nothing, &seen);
    assert_eq!(step.submit.len(), 1, "it is tried all the same");
    let failed = Verdict::Failed(vec!["broken".to_owned()]);
    assert_eq!(step.verdict, Some(failed));
}

#[test]
fn a_name_is_deleting_before_it_is_deleted() {
    let seen = Seen {
        us: &owner(),
        known: &Known::default(),
        zones: &BTreeMap::new(),
        changes: &Propagated::default(),
        troubled: &BTreeMap::new(),
        served: &Served::Unknown,
        inherited: &[],
    };
    let first = next(&records("Applied CNAME d0 300"), &Want::Nothing, &seen);
    assert_eq!((first.submit.len(), first.again), (0, true));
    assert_eq!(written(&first.records), "Deleting CNAME d0 300");
    let second = next(&first.records, &Want::Nothing, &seen);
    assert_eq!(changes(&second.submit), "DELETE CNAME d0 300, DELETE mark");
}

#[rstest]
#[case::written("Applied CNAME d0 300 C1", "Deleting CNAME d0 300")]
#[case::perhaps_not("Planned CNAME d0 300", "Planned CNAME d0 300")]
#[case::one_of_both(
    "Deleting CNAME d0 300 + Planned CNAME d1 300",
    "Deleting CNAME d0 300 + Planned CNAME d1 300"
)]
fn a_name_that_loses_its_mark_leaves_the_status(#[case] recorded: &str, #[case] then: &str) {
    let mut known = Known::default();
    let first = step(recorded, &Want::Unmarked, &known);
    assert_eq!(written(&first.records), then);
    assert_eq!(changes(&first.submit), "DELETE mark");
    known.submitted(first.submit[0].clone());
    let change = "C2".to_owned();
    known.answered(&a_spot(), Answer::Accepted { change });
    assert_eq!(step(then, &Want::Unmarked, &known).records, []);
}
