//! What is done at a name that is wanted, by rule.

use std::collections::{BTreeMap, BTreeSet};

use api::tenants::{DriftPolicy, RecordAdoption};
use aws::route53::zone_writer::Propagated;
use rstest::rstest;

use super::{a_spot, changes, owner, records, sets, written, zone_access};
use crate::dns::Bundle;
use crate::dns::known::{Answer, Known, Sight};
use crate::dns::plan::{Seen, Served, Step, is_behind, next};
use crate::dns::record::{Change, RecordSet};
use crate::dns::verdict::Verdict;
use crate::dns::want::{Want, Wanted};

/// The last answer of the writer, if there is one.
pub(super) fn known(told: &str, live: Option<&str>) -> Known {
    let text = || "refused".to_owned();
    let answer = match told {
        "" => None,
        "lost" => Some(Answer::Lost),
        "differs" => Some(Answer::Differs { text: text() }),
        "refused" => Some(Answer::Refused { text: text() }),
        "no zone" => Some(Answer::NoZone { text: text() }),
        other => panic!("what is {other:?}?"),
    };
    let mut known = Known::default();
    if let Some(answer) = answer {
        // Something that is never wanted again.
        let gone = records("CNAME gone 1");
        let changes = gone.iter().map(RecordSet::of);
        known.submitted(Bundle {
            place: zone_access("Z1"),
            name: super::A.to_owned(),
            changes: changes.map(Change::create).collect(),
        });
        known.answered(&a_spot(), answer);
    }
    if let Some(live) = live {
        known.read(a_spot(), Sight { sets: sets(live) });
    }
    known
}

fn wanted(text: &str) -> Wanted {
    Wanted {
        spot: a_spot(),
        zone: "example.com".to_owned(),
        login: zone_access("Z1").login,
        records: records(text),
    }
}

pub(super) struct Case {
    recorded: &'static str,
    want: &'static str,
    known: Known,
    adoption: RecordAdoption,
    drift: DriftPolicy,
    lost: &'static str,
    /// A change that cannot be asked for.
    untold: &'static str,
    /// A zone that fails again and again.
    troubled: &'static str,
}

fn trouble(what: &str) -> String {
    format!("{what} is in trouble")
}

impl Case {
    pub(super) fn new(recorded: &'static str, want: &'static str, known: Known) -> Self {
        Self {
            recorded,
            want,
            known,
            adoption: RecordAdoption::Never,
            drift: DriftPolicy::Enforce,
            lost: "",
            untold: "",
            troubled: "",
        }
    }

    /// The first step that sends something or waits for something; what it recorded came before.
    pub(super) fn step(self) -> Step {
        let want = Want::These {
            names: vec![wanted(self.want)],
            adoption: self.adoption,
            drift: self.drift,
        };
        let changes = Propagated {
            lost: BTreeSet::from([self.lost.to_owned()]),
            unreadable: BTreeMap::from([(self.untold.to_owned(), trouble(self.untold))]),
            ..Propagated::default()
        };
        let seen = Seen {
            us: &owner(),
            known: &self.known,
            zones: &BTreeMap::new(),
            changes: &changes,
            troubled: &BTreeMap::from([(zone_access(self.troubled), trouble(self.troubled))]),
            served: &Served::Unknown,
            inherited: &[],
        };
        let first = next(&records(self.recorded), &want, &seen);
        if first.again {
            assert_eq!(first.submit, [], "it is recorded first");
            next(&first.records, &want, &seen)
        } else {
            first
        }
    }
}

/// What a step comes to: what it sends, or why it does not.
pub(super) fn comes_to(step: &Step) -> String {
    match &step.verdict {
        _ if !step.submit.is_empty() => changes(&step.submit),
        None => "read".to_owned(),
        Some(Verdict::Conflict(clashes)) => {
            let clash = &clashes[0];
            let owner = clash.owner.as_deref().unwrap_or("nobody");
            format!("clash: {} {} of {owner}", clash.kind, clash.value)
        }
        Some(Verdict::Failed(texts)) => texts.join(";"),
        Some(Verdict::Drift(fields)) => format!("drift: {}", fields[0].field),
        Some(
            Verdict::Ready { .. }
            | Verdict::Creating { .. }
            | Verdict::Propagating { .. }
            | Verdict::NotConfigured { .. },
        ) => String::new(),
    }
}

#[rstest] //                                 recorded                                  wanted           sends
#[case::new_names_are_created(               "",                                       "CNAME d0 300",  "CREATE CNAME d0 300, CREATE mark")]
#[case::planned_ones_as_well(                "Planned CNAME d0 300",                   "CNAME d0 300",  "CREATE CNAME d0 300, CREATE mark")]
#[case::both_types_of_an_alias(              "",                                       "A d0 + AAAA d0", "CREATE A d0, CREATE AAAA d0, CREATE mark")]
#[case::applied_is_done(                     "Applied CNAME d0 300",                   "CNAME d0 300",  "")]
#[case::applied_aliases_are_done(            "Applied A d0 + Applied AAAA d0",         "A d0 + AAAA d0", "")]
#[case::under_way_is_done(                   "Applied CNAME d0 300 C1",                "CNAME d0 300",  "")]
#[case::a_ttl_is_upserted(                   "Applied CNAME d0 300",                   "CNAME d0 600",  "UPSERT CNAME d0 600, DELETE mark, CREATE mark")]
#[case::a_target_is_upserted(                "Applied CNAME d0 300",                   "CNAME d1 300",  "UPSERT CNAME d1 300, DELETE mark, CREATE mark")]
#[case::a_target_of_aliases_is_upserted(     "Applied A d0 + Applied AAAA d0",         "A d1 + AAAA d1", "UPSERT A d1, UPSERT AAAA d1, DELETE mark, CREATE mark")]
#[case::a_type_is_deleted_and_created(       "Applied CNAME d0 300",                   "A d0 + AAAA d0", "DELETE CNAME d0 300, CREATE A d0, CREATE AAAA d0, DELETE mark, CREATE mark")]
#[case::and_back(                            "Applied A d0 + Applied AAAA d0",         "CNAME d0 300",  "DELETE A d0, DELETE AAAA d0, CREATE CNAME d0 300, DELETE mark, CREATE mark")]
#[case::a_type_more_is_created(              "Applied A d0",                           "A d0 + AAAA d0", "CREATE AAAA d0, DELETE mark, CREATE mark")]
#[case::a_type_less_is_deleted(              "Applied A d0 + Applied AAAA d0",         "A d0",          "DELETE AAAA d0, DELETE mark, CREATE mark")]
#[case::a_record_that_was_to_go_comes_back(  "Deleting CNAME d0 300",                  "CNAME d0 300",  "UPSERT CNAME d0 300, DELETE mark, CREATE mark")]
#[case::a_dropped_plan_may_have_become_true( "Planned CNAME d0 300",                   "CNAME d1 300",  "read")]
#[case::also_beside_an_older_record(         "Deleting CNAME d0 300 + Planned CNAME d1 300", "CNAME d2 300", "read")]
#[case::which_old_value_is_live(             "Deleting CNAME d0 300 + Deleting CNAME d1 300", "A d0",  "read")]
#[rustfmt::skip]
fn without_a_read(#[case] recorded: &'static str, #[case] want: &'static str, #[case] sends: &str) {
    let step = Case::new(recorded, want, Known::default()).step();
    assert_eq!(comes_to(&step), sends);
}

#[rstest] //                                        recorded                 told       live                              adoption    comes to
#[case::what_exists_is_read(                        "Planned CNAME d0 300",  "differs", None,                             "Never",     "read")]
#[case::what_was_lost_is_read(                      "Planned CNAME d0 300",  "lost",    None,                             "Never",     "read")]
#[case::what_is_gone_is_created(                    "Planned CNAME d0 300",  "differs", Some(""),                         "Never",     "CREATE CNAME d0 300, CREATE mark")]
#[case::with_our_mark_it_is_upserted(               "Planned CNAME d0 300",  "differs", Some("CNAME d1 300 + mark ours"), "Never",     "UPSERT CNAME d0 300, DELETE mark, CREATE mark")]
#[case::the_same_values_for_a_new_id(               "Planned CNAME d0 300",  "lost",    Some("CNAME d0 300 + mark ours"), "Never",     "UPSERT CNAME d0 300, DELETE mark, CREATE mark")]
#[case::our_mark_alone_proves_the_name(             "Planned CNAME d0 300",  "differs", Some("mark ours"),                "Never",     "CREATE CNAME d0 300, DELETE mark, CREATE mark")]
#[case::another_type_under_our_mark_goes(           "Planned CNAME d0 300",  "differs", Some("A d0 + mark ours"),         "Never",     "DELETE A d0, CREATE CNAME d0 300, DELETE mark, CREATE mark")]
#[case::nobodys_is_left(                            "Planned CNAME d0 300",  "differs", Some("CNAME x.net 300"),          "Never",     "clash: CNAME x.net of nobody")]
#[case::nobodys_is_left_even_if_it_matches(         "Planned CNAME d0 300",  "differs", Some("CNAME d0 300"),             "Never",     "clash: CNAME d0.cloudfront.net of nobody")]
#[case::matching_takes_what_leads_there(            "Planned CNAME d0 300",  "differs", Some("CNAME d0 60"),              "Matching",  "UPSERT CNAME d0 300, CREATE mark")]
#[case::matching_takes_another_type_that_does(      "Planned CNAME d0 300",  "differs", Some("A d0"),                     "Matching",  "DELETE A d0, CREATE CNAME d0 300, CREATE mark")]
#[case::matching_leaves_what_leads_elsewhere(       "Planned CNAME d0 300",  "differs", Some("CNAME x.net 300"),          "Matching",  "clash: CNAME x.net of nobody")]
#[case::matching_leaves_addresses(                  "Planned CNAME d0 300",  "differs", Some("A 192.0.2.1 300"),          "Matching",  "clash: A 192.0.2.1 of nobody")]
#[case::overwrite_takes_any(                        "Planned CNAME d0 300",  "differs", Some("CNAME x.net 300"),          "Overwrite", "UPSERT CNAME d0 300, CREATE mark")]
#[case::overwrite_takes_addresses(                  "Planned CNAME d0 300",  "differs", Some("A 192.0.2.1 300 + AAAA 2001:db8::1 300"), "Overwrite", "DELETE A 192.0.2.1 300, DELETE AAAA 2001:db8::1 300, CREATE CNAME d0 300, CREATE mark")]
#[case::overwrite_takes_no_other_type(              "Planned CNAME d0 300",  "differs", Some("MX mail 300"),              "Overwrite", "clash: MX mail of nobody")]
#[case::overwrite_takes_no_routing_policy(          "Planned CNAME d0 300",  "differs", Some("routed CNAME d0 300"),      "Overwrite", "clash: CNAME d0.cloudfront.net of nobody")]
#[case::another_pontoons_is_left(                   "Planned CNAME d0 300",  "differs", Some("CNAME d0 300 + mark other"), "Overwrite", "clash: CNAME d0.cloudfront.net of DistributionTenant a/b of cluster c2")]
#[case::another_pontoons_mark_is_enough(            "Planned CNAME d0 300",  "differs", Some("mark other"),               "Overwrite", "clash: TXT \"heritage=pontoon,owner=c2,resource=a/b\" of DistributionTenant a/b of cluster c2")]
#[case::external_dns_keeps_its_own(                 "Planned CNAME d0 300",  "differs", Some("CNAME x.net 300 + external-dns"), "Overwrite", "clash: CNAME x.net of external-dns (owner x)")]
#[case::what_external_dns_left_is_free(             "Planned CNAME d0 300",  "differs", Some("external-dns"),             "Never",     "CREATE CNAME d0 300, CREATE mark")]
#[case::other_text_in_the_marks_place_is_left(      "Planned CNAME d0 300",  "differs", Some("mark text"),                "Matching",  "clash: TXT \"hello\" of nobody")]
#[case::overwrite_takes_that_too(                   "Planned CNAME d0 300",  "differs", Some("CNAME x.net 300 + mark text"), "Overwrite", "UPSERT CNAME d0 300, UPSERT mark")]
#[case::what_we_wrote_is_ours_without_its_mark(     "Deleting CNAME d1 300 + Planned CNAME d0 300", "differs", Some("CNAME d1 60"), "Never", "DELETE CNAME d1 60, CREATE CNAME d0 300, CREATE mark")]
#[case::what_we_planned_is_not(                     "Deleting CNAME d1 300 + Planned CNAME d0 300", "differs", Some("CNAME d0 300"), "Never", "clash: CNAME d0.cloudfront.net of nobody")]
#[case::a_mark_that_others_touched_is_still_ours(   "Deleting CNAME d1 300 + Planned CNAME d0 300", "differs", Some("CNAME d1 300 + mark odd"), "Never", "UPSERT CNAME d0 300, DELETE mark, CREATE mark")]
#[case::a_refusal_stands_for_what_was_refused(      "Applied CNAME d0 300",  "refused", None,                             "Never",     "refused")]
#[case::without_a_zone_nothing_is_sent(             "Planned CNAME d0 300",  "no zone", None,                             "Never",     "refused")]
#[case::without_a_zone_nothing_is_ready(            "Applied CNAME d0 300",  "no zone", None,                             "Never",     "refused")]
#[case::something_else_is_sent(                     "Planned CNAME d0 300",  "refused", None,                             "Never",     "CREATE CNAME d0 300, CREATE mark")]
#[rustfmt::skip]
fn after_an_answer(
    #[case] recorded: &'static str, #[case] told: &str, #[case] live: Option<&str>,
    #[case] adoption: &str, #[case] expected: &str,
) {
    let adoption = match adoption {
        "Never" => RecordAdoption::Never,
        "Matching" => RecordAdoption::Matching,
        _ => RecordAdoption::Overwrite,
    };
    let case = Case::new(recorded, "CNAME d0 300", known(told, live));
    assert_eq!(comes_to(&Case { adoption, ..case }.step()), expected);
}

#[rstest] //                                     live                                 enforce                                            report
#[case::as_it_was(                               "CNAME d0 300 + mark ours",          "",                                                "")]
#[case::a_target(                                "CNAME x.net 300 + mark ours",       "UPSERT CNAME d0 300, DELETE mark, CREATE mark",   "drift: dns a.example.com CNAME")]
#[case::a_ttl(                                   "CNAME d0 60 + mark ours",           "UPSERT CNAME d0 300, DELETE mark, CREATE mark",   "drift: dns a.example.com CNAME")]
#[case::gone(                                    "mark ours",                         "CREATE CNAME d0 300, DELETE mark, CREATE mark",   "drift: dns a.example.com CNAME")]
#[case::gone_with_its_mark(                      "",                                  "CREATE CNAME d0 300, CREATE mark",                "drift: dns a.example.com CNAME")]
#[case::another_type(                            "A 192.0.2.1 300 + mark ours",       "DELETE A 192.0.2.1 300, CREATE CNAME d0 300, DELETE mark, CREATE mark", "drift: dns a.example.com CNAME")]
#[case::a_mark_is_put_back_under_any_policy(     "CNAME d0 300",                      "CREATE mark",                                     "CREATE mark")]
#[case::what_was_replaced_is_not_ours(           "CNAME x.net 300",                   "clash: CNAME x.net of nobody",                    "clash: CNAME x.net of nobody")]
#[case::nor_what_another_marked(                 "CNAME d0 300 + mark other",         "clash: CNAME d0.cloudfront.net of DistributionTenant a/b of cluster c2", "clash: CNAME d0.cloudfront.net of DistributionTenant a/b of cluster c2")]
#[rustfmt::skip]
fn drift(#[case] live: &'static str, #[case] enforce: &str, #[case] report: &str) {
    let step = |drift| {
        let case = Case::new("Applied CNAME d0 300", "CNAME d0 300", known("", Some(live)));
        Case { drift, ..case }.step()
    };
    assert_eq!(comes_to(&step(DriftPolicy::Enforce)), enforce);
    assert_eq!(comes_to(&step(DriftPolicy::Report)), report);
    // Suspended, it is noted and the condition stays.
    let suspended = if report.starts_with("drift") { "" } else { report };
    let step = step(DriftPolicy::Suspend);
    assert_eq!(comes_to(&step), suspended);
    assert_eq!(!step.drift.is_empty(), report.starts_with("drift"));
}

#[test]
fn drift_is_told_with_both_values() {
    let known = known("", Some("A 192.0.2.1 300 + mark ours"));
    let step = Case::new("Applied CNAME d0 300", "CNAME d0 300", known).step();
    let told: Vec<_> = step
        .drift
        .iter()
        .map(|one| (&*one.field, one.want.as_deref(), one.live.as_deref()))
        .collect();
    let expected = [
        (
            "dns a.example.com CNAME",
            Some("d0.cloudfront.net (ttl 300)"),
            None,
        ),
        ("dns a.example.com A", None, Some("192.0.2.1 (ttl 300)")),
    ];
    assert_eq!(told, expected);
}

#[rstest]
#[case::is_read(None, DriftPolicy::Report, "read")]
#[case::is_upserted_for_a_new_one_under_any_policy(
    Some("CNAME d0 300 + mark ours"),
    DriftPolicy::Report,
    "UPSERT CNAME d0 300, DELETE mark, CREATE mark"
)]
#[case::without_its_mark_it_proves_itself(
    Some("CNAME d0 300"),
    DriftPolicy::Report,
    "DELETE CNAME d0 300, CREATE CNAME d0 300, CREATE mark"
)]
#[case::is_drift_where_others_changed_it(
    Some("CNAME x.net 300 + mark ours"),
    DriftPolicy::Report,
    "drift: dns a.example.com CNAME"
)]
fn a_record_whose_change_is_lost(
    #[case] live: Option<&'static str>,
    #[case] drift: DriftPolicy,
    #[case] expected: &str,
) {
    let case = Case::new("Applied CNAME d0 300 C1", "CNAME d0 300", known("", live));
    let case = Case {
        drift,
        lost: "C1",
        ..case
    };
    assert_eq!(comes_to(&case.step()), expected);
}

#[rstest] //                                        recorded                                              live                             wanted         recorded then
#[case::a_dropped_plan_that_did_not_become_true(    "Planned CNAME d0 300",                               "",                              "CNAME d1 300", "Planned CNAME d1 300")]
#[case::a_dropped_plan_that_did(                    "Planned CNAME d0 300",                               "CNAME d0 300 + mark ours",      "CNAME d1 300", "Deleting CNAME d0 300 + Planned CNAME d1 300")]
#[case::one_that_is_somebody_elses(                 "Planned CNAME d0 300",                               "CNAME d0 300 + mark other",     "CNAME d1 300", "Planned CNAME d0 300 + Planned CNAME d1 300")]
#[case::an_edit_that_was_refused_and_taken_back(    "Deleting CNAME d0 300 + Planned CNAME d0 600",        "CNAME d0 300 + mark ours",      "CNAME d0 300", "Applied CNAME d0 300")]
#[case::one_that_others_carried_out_otherwise(      "Deleting CNAME d0 300 + Planned CNAME d0 600",        "CNAME d0 60 + mark ours",       "CNAME d0 300", "Deleting CNAME d0 60 + Deleting CNAME d0 300 + Planned CNAME d0 300")]
#[case::an_old_type_that_others_deleted(            "Applied A d0 + Deleting AAAA d0",                    "A d0 + mark ours",              "A d0",         "Applied A d0")]
#[case::an_old_type_that_others_changed(            "Applied A d0 + Deleting AAAA d0",                    "A d0 + AAAA 2001:db8::1 300 + mark ours", "A d0", "Applied A d0")]
#[case::an_old_type_that_is_there(                  "Applied A d0 + Deleting AAAA d0",                    "A d0 + AAAA d0 + mark ours",    "A d0",         "Applied A d0 + Deleting AAAA d0")]
#[case::the_old_value_of_a_new_one(                 "Deleting CNAME d0 300 + Planned CNAME d1 300",       "CNAME d1 300 + mark ours",      "CNAME d1 300", "Deleting CNAME d0 300 + Planned CNAME d1 300")]
#[rustfmt::skip]
fn a_read_corrects_the_record(
    #[case] recorded: &'static str, #[case] live: &'static str, #[case] want: &'static str,
    #[case] then: &str,
) {
    let step = Case::new(recorded, want, known("differs", Some(live))).step();
    assert_eq!(written(&step.records), then);
}

#[test]
fn an_edit_whose_fate_is_unknown_is_written_over_when_taken_back() {
    let recorded = "Deleting CNAME d0 300 + Planned CNAME d0 600";
    let live = Some("CNAME d0 300 + mark ours");
    let sends = |told| comes_to(&Case::new(recorded, "CNAME d0 300", known(told, live)).step());
    assert_eq!(sends("differs"), "");
    let over = "UPSERT CNAME d0 300, DELETE mark, CREATE mark";
    assert_eq!(sends("lost"), over);
    assert_eq!(sends(""), over, "after a restart");
}

#[rstest]
#[case::as_recorded("Applied CNAME d0 300", false)]
#[case::under_way("Applied CNAME d0 300 C1", false)]
#[case::never_written("", true)]
#[case::planned("Planned CNAME d0 300", true)]
#[case::edited("Applied CNAME d0 600", true)]
fn records_are_behind_until_what_is_wanted_was_taken(#[case] recorded: &str, #[case] behind: bool) {
    let want = Want::These {
        names: vec![wanted("CNAME d0 300")],
        adoption: RecordAdoption::Never,
        drift: DriftPolicy::Enforce,
    };
    assert_eq!(is_behind(&records(recorded), &want), behind);
}

#[rstest]
#[case::what_is_sent(
    "Planned CNAME d0 300",
    "CNAME d0 300",
    &["CREATE CNAME d0 300, CREATE mark", "Z1 is in trouble"]
)]
#[case::not_what_is_in_place("Applied CNAME d0 300", "CNAME d0 300", &[""])]
fn a_zone_in_trouble_is_told_of(
    #[case] recorded: &'static str,
    #[case] want: &'static str,
    #[case] expected: &[&str],
) {
    let case = || Case {
        troubled: "Z1",
        ..Case::new(recorded, want, Known::default())
    };
    let step = case().step();
    let failed = Verdict::Failed(vec!["Z1 is in trouble".to_owned()]);
    assert_eq!(comes_to(&step), expected[0]);
    assert_eq!(step.verdict == Some(failed.clone()), expected.len() > 1);
    // While it waits for its answer, too.
    if let Some(bundle) = step.submit.into_iter().next() {
        let mut known = Known::default();
        known.submitted(bundle);
        let waiting = Case { known, ..case() }.step();
        assert_eq!(waiting.verdict, Some(failed));
    }
}

#[rstest]
#[case::its_own("C1", "C1 is in trouble")]
#[case::another("C2", "")]
fn a_change_that_cannot_be_asked_for_is_told_of(#[case] untold: &'static str, #[case] told: &str) {
    let recorded = "Applied CNAME d0 300 C1";
    let case = Case::new(recorded, "CNAME d0 300", Known::default());
    let step = Case { untold, ..case }.step();
    assert_eq!(comes_to(&step), told);
}
