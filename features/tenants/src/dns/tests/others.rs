//! The life of records among those of others and of the predecessor.

use std::collections::BTreeSet;

use serde_json::json;

use super::model::Call;
use super::stories::{B, dns, gone, ready, serves, want, world};
use super::{A, D0, a_spot, foreign, set, written, zone};
use crate::dns::inherit::inherited;
use crate::dns::record::{Kind, RecordSet};
use crate::dns::verdict::Verdict;
use crate::dns::want::Want;

#[test]
fn a_foreign_record_is_told_until_the_spec_takes_it() {
    let mut world = world();
    world.zones.put("Z1", set("CNAME x.net 300"));
    world.want = want(&[A, B], "d0", json!({}));
    let step = world.settle();
    let told = step.verdict.expect("all is read").reason().to_string();
    assert!(told.starts_with("DNSConflict: a.example.com"), "{told}");
    assert!(told.contains("CNAME record, x.net,"), "{told}");
    assert_eq!(
        step.insync,
        BTreeSet::from([B.to_owned()]),
        "one bad name harms no other"
    );

    let refusals = world.log.len();
    for _ in 0..3 {
        world.settle();
    }
    assert_eq!(world.log.len(), refusals, "nothing is sent again");

    world.want = want(&[A, B], "d0", json!({"recordAdoption": "Overwrite"}));
    world.known.look_again();
    let step = world.settle();
    assert_eq!(step.verdict, Some(Verdict::Ready { names: 2 }));
    assert_eq!(
        world.log.last().unwrap(),
        "Z1 a.example.com: UPSERT CNAME d0 300, CREATE mark"
    );
    gone(world);
}

#[test]
fn what_external_dns_owns_is_refused_even_so() {
    let mut world = world();
    world.zones.put("Z1", set("CNAME x.net 300"));
    world.zones.put("Z1", set("external-dns"));
    world.want = want(&[A], "d0", json!({"recordAdoption": "Overwrite"}));
    let step = world.settle();
    let told = step.verdict.expect("all is read").reason().to_string();
    assert!(told.contains("belongs to external-dns (owner x)"), "{told}");

    // The object goes, and the record was never ours.
    world.want = Want::Nothing;
    let step = world.settle();
    assert_eq!((step.records, step.left), (vec![], vec![]));
    assert_eq!(world.held("Z1").len(), 2);
}

#[test]
fn the_predecessors_records_get_marks_and_nothing_else() {
    let mut world = world();
    world.zones.put("Z1", set("CNAME d0 300"));
    world.served = serves(&[A]);
    world.want = want(&[A], "d0", json!({}));
    let results = json!({"dnsTarget": D0, "domainResults": [{"domain": A}]});
    let status = serde_json::from_value(results).unwrap();
    world.inherited = inherited(
        &status,
        &dns(&json!({})),
        &[zone("Z1", "example.com")],
        None,
    );

    let first = world.pass();
    assert_eq!(
        first.verdict,
        Some(Verdict::Ready { names: 1 }),
        "it was, and stays so"
    );
    assert_eq!(written(&world.status), "Applied CNAME d0 300");
    world.settle();
    assert_eq!(world.log, ["Z1 a.example.com: CREATE mark"]);
    gone(world);
}

#[test]
fn the_predecessors_records_follow_an_edit() {
    let mut world = world();
    world.zones.put("Z1", set("CNAME d0 300"));
    world.zones.put(
        "Z1",
        RecordSet {
            name: B.to_owned(),
            ..foreign("CNAME", &[D0])
        },
    );
    world.served = serves(&[]);
    world.want = want(&[A], "d1", json!({}));
    let results = json!({"dnsTarget": D0, "domainResults": [{"domain": A}, {"domain": B}]});
    let status = serde_json::from_value(results).unwrap();
    world.inherited = inherited(
        &status,
        &dns(&json!({})),
        &[zone("Z1", "example.com")],
        None,
    );
    world.settle();
    assert_eq!(
        world.held("Z1"),
        [
            "_pontoon-owner.a.example.com TXT ours",
            "a.example.com CNAME d1 300"
        ]
    );
    gone(world);
}

#[test]
fn with_its_zone_went_what_the_predecessor_wrote() {
    let mut world = world();
    let results = json!({"dnsTarget": D0, "domainResults": [{"domain": A}]});
    let status = serde_json::from_value(results).unwrap();
    let zones = [zone("Z1", "example.com")];
    world.inherited = inherited(&status, &dns(&json!({})), &zones, None);
    world
        .known
        .zone_missing(a_spot(), "no such zone".to_owned());
    let step = world.pass();
    assert_eq!((&step.reads, &step.records), (&vec![], &vec![]));
    assert_eq!(step.verdict, Some(Verdict::NotConfigured { leaving: 0 }));
}

#[test]
fn a_record_that_others_changed_stays_and_is_told_when_the_object_goes() {
    let mut world = ready(&[A, B], json!({}));
    world.zones.put("Z1", set("CNAME x.net 300"));
    world.want = Want::Nothing;
    let mut left = Vec::new();
    for _ in 0..9 {
        left.extend(world.pass().left);
        world.deliver(Call::Answered);
    }
    let told: Vec<_> = left.iter().map(ToString::to_string).collect();
    let expected = "a.example.com in hosted zone Z1 has a CNAME record, x.net, that is not ours";
    assert_eq!(told, [expected], "told once");
    assert_eq!((world.held("Z1").len(), world.status.len()), (1, 0));
}

#[test]
fn others_are_undone_once_a_zone_was_listed() {
    let mut world = ready(&[A], json!({}));
    world.zones.put("Z1", set("CNAME x.net 300"));
    assert_eq!(world.settle().drift, []);
    world.list();
    let step = world.pass();
    assert_eq!((step.drift.len(), step.submit.len()), (1, 1));
    let corrected: Vec<_> = step.corrected.values().flatten().cloned().collect();
    assert_eq!(corrected, step.drift);
    // The answer is lost: it is looked for, and written again.
    world.deliver(Call::CutAfter);
    assert_eq!(world.news, []);
    let step = world.settle();
    assert_eq!(world.news, corrected, "told once it is sure");
    assert_eq!(
        (step.drift, step.verdict),
        (vec![], Some(Verdict::Ready { names: 1 }))
    );
    assert!(
        world
            .held("Z1")
            .contains(&"a.example.com CNAME d0 300".to_owned())
    );

    world.list();
    world.settle();
    world.doubt();
    let (status, sent) = (world.status.clone(), world.log.len());
    world.settle();
    assert_eq!(
        (&world.status, world.log.len()),
        (&status, sent),
        "quiet when true"
    );
    assert!(world.known.is_empty());
}

#[test]
fn a_name_under_conflict_is_free_once_the_other_is_gone() {
    let mut world = world();
    world.zones.put("Z1", set("CNAME x.net 300"));
    world.want = want(&[A], "d0", json!({}));
    world.settle();
    world.zones.remove("Z1", A, &Kind::of("CNAME"));
    world.known.look_again();
    assert_eq!(world.settle().verdict, Some(Verdict::Ready { names: 1 }));
    assert_eq!(written(&world.status), "Applied CNAME d0 300");
    assert!(world.known.is_empty());
}
