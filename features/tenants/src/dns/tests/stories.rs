//! The life of records, from first plan to last deletion.

use std::collections::{BTreeMap, BTreeSet};

use api::tenants::{Dns, DriftPolicy};
use aws::route53::zone_writer::Propagated;
use serde_json::{Value, json};

use super::model::{Call, World};
use super::{A, D0, owner, written, zone, zone_access};
use crate::dns::known::Known;
use crate::dns::plan::{Seen, Served, next, pending, target};
use crate::dns::verdict::Verdict;
use crate::dns::want::{Want, wanted};
use crate::dns::{Spot, Target};

pub(super) const B: &str = "b.example.com";

pub(super) fn dns(spec: &Value) -> Dns {
    let mut all = json!({"provider": "route53", "hostedZoneId": "Z1"});
    let more = spec.as_object().expect("a map").clone();
    all.as_object_mut().expect("a map").extend(more);
    serde_json::from_value(all).expect("a dns block")
}

/// A spec with these domains, in zone Z1 unless `hostedZoneId` says another.
pub(super) fn want(domains: &[&str], endpoint: &str, spec: Value) -> Want {
    let dns = dns(&spec);
    let zones: Vec<_> = dns.zones().map(|id| zone(id, "example.com")).collect();
    let target = Target {
        endpoint: format!("{endpoint}.cloudfront.net"),
        ipv6: true,
    };
    let names = wanted(domains.iter().copied(), &dns, &zones, &target, None).expect("zones fit");
    Want::These {
        names,
        adoption: dns.record_adoption,
        drift: DriftPolicy::Enforce,
    }
}

pub(super) fn serves(names: &[&str]) -> Served {
    Served::These(names.iter().map(|name| (*name).to_owned()).collect())
}

pub(super) fn world() -> World {
    World::new(&[("Z1", "example.com"), ("Z2", "example.com")])
}

/// Applied, deployed and in sync.
pub(super) fn ready(domains: &[&str], spec: Value) -> World {
    let mut world = world();
    world.want = want(domains, "d0", spec);
    let step = world.settle();
    assert_eq!(
        step.verdict,
        Some(Verdict::Ready {
            names: domains.len()
        })
    );
    world.served = serves(domains);
    world.log.clear();
    world
}

pub(super) fn gone(mut world: World) -> Vec<String> {
    world.want = Want::Nothing;
    let step = world.settle();
    assert_eq!((step.records, step.left), (vec![], vec![]));
    assert_eq!(world.held("Z1"), Vec::<String>::new());
    world.log
}

#[test]
fn records_are_planned_created_propagated_and_then_in_sync() {
    let mut world = world();
    world.want = want(&[A], "d0", json!({}));

    let planned = world.pass();
    assert_eq!(
        planned.verdict,
        Some(Verdict::Creating {
            names: vec![A.to_owned()]
        })
    );
    assert_eq!(written(&world.status), "Planned CNAME d0 300");
    assert!(planned.again && world.queue.is_empty());
    assert_eq!(target(&world.status), Some(D0));

    world.pass();
    assert_eq!(world.queue.len(), 1);
    let waiting = world.pass();
    assert!(
        waiting.submit.is_empty() && world.queue.len() == 1,
        "one answer is waited for"
    );
    world.deliver(Call::Answered);
    assert_eq!(
        world.log,
        ["Z1 a.example.com: CREATE CNAME d0 300, CREATE mark"]
    );

    let propagating = world.pass();
    let changes = BTreeSet::from(["C1".to_owned()]);
    assert_eq!(propagating.verdict, Some(Verdict::Propagating { changes }));
    assert_eq!(written(&world.status), "Applied CNAME d0 300 C1");
    assert_eq!(propagating.insync, BTreeSet::new());
    assert_eq!(
        pending(&world.status).keys().copied().collect::<Vec<_>>(),
        ["C1"]
    );
    assert!(world.known.is_empty());

    world.insync();
    let ready = world.pass();
    assert_eq!(ready.verdict, Some(Verdict::Ready { names: 1 }));
    assert_eq!(ready.insync, BTreeSet::from([A.to_owned()]));
    assert_eq!(written(&world.status), "Applied CNAME d0 300");
    assert_eq!(
        world.held("Z1"),
        [
            "_pontoon-owner.a.example.com TXT ours",
            "a.example.com CNAME d0 300"
        ]
    );
    assert_eq!(
        gone(world)[1..],
        ["Z1 a.example.com: DELETE CNAME d0 300, DELETE mark"]
    );
}

#[test]
fn a_ttl_is_one_upsert_and_the_deletion_is_clean() {
    let mut world = ready(&[A], json!({}));
    world.want = want(&[A], "d0", json!({"ttl": 600}));
    world.settle();
    let upsert = "Z1 a.example.com: UPSERT CNAME d0 600, DELETE mark, CREATE mark";
    assert_eq!(world.log, [upsert]);
    gone(world);
}

#[test]
fn a_ttl_means_nothing_to_an_alias() {
    let mut world = ready(&["example.com"], json!({}));
    assert_eq!(
        world.held("Z1"),
        [
            "_pontoon-owner.example.com TXT ours",
            "example.com A alias of d0",
            "example.com AAAA alias of d0",
        ]
    );
    world.want = want(&["example.com"], "d0", json!({"ttl": 600}));
    world.settle();
    assert_eq!(world.log, Vec::<String>::new());
    gone(world);
}

#[test]
fn records_follow_the_target() {
    let mut world = ready(&[A, B], json!({}));
    world.want = want(&[A, B], "d1", json!({}));
    world.settle();
    assert_eq!(world.log.len(), 2);
    assert!(
        world
            .held("Z1")
            .contains(&"b.example.com CNAME d1 300".to_owned())
    );
    gone(world);
}

#[test]
fn a_removed_domain_goes_when_the_tenant_no_longer_serves_it() {
    let mut world = ready(&[A, B], json!({}));
    world.want = want(&[A], "d0", json!({}));
    for served in [serves(&[A, B]), Served::Unknown] {
        world.served = served;
        let step = world.settle();
        assert_eq!(step.verdict, Some(Verdict::Ready { names: 1 }));
    }
    assert_eq!(world.log, Vec::<String>::new());

    world.served = serves(&[A]);
    world.settle();
    assert_eq!(
        world.log,
        ["Z1 b.example.com: DELETE CNAME d0 300, DELETE mark"]
    );
    assert_eq!(written(&world.status), "Applied CNAME d0 300");
}

#[test]
fn a_new_zone_is_in_sync_before_the_old_one_is_left() {
    let mut world = ready(&[A], json!({}));
    world.want = want(&[A], "d0", json!({"hostedZoneId": "Z2"}));
    world.pass();
    world.pass();
    world.deliver(Call::Answered);
    for _ in 0..3 {
        world.pass();
        assert!(world.queue.is_empty(), "Z2 is not in sync yet");
    }
    world.settle();
    assert_eq!(
        world.log,
        [
            "Z2 a.example.com: CREATE CNAME d0 300, CREATE mark",
            "Z1 a.example.com: DELETE CNAME d0 300, DELETE mark",
        ]
    );
}

#[test]
fn a_new_role_writes_again_and_an_old_zone_keeps_its_role() {
    let mut world = ready(&[A], json!({"assumeRoleArn": "r1"}));
    world.want = want(&[A], "d0", json!({"assumeRoleArn": "r2"}));
    world.settle();
    assert_eq!(
        world.log,
        ["Z1 as r2 a.example.com: UPSERT CNAME d0 300, DELETE mark, CREATE mark"]
    );
    world.want = want(
        &[A],
        "d0",
        json!({"assumeRoleArn": "r3", "hostedZoneId": "Z2"}),
    );
    world.settle();
    assert_eq!(
        world.log[1..],
        [
            "Z2 as r3 a.example.com: CREATE CNAME d0 300, CREATE mark",
            "Z1 as r2 a.example.com: DELETE CNAME d0 300, DELETE mark",
        ]
    );
}

#[test]
fn a_restart_at_any_moment_leads_to_the_same_records() {
    for restart in 0..6 {
        for call in [Call::Answered, Call::CutAfter, Call::CutBefore] {
            let mut world = world();
            world.want = want(&[A, B], "d0", json!({}));
            for round in 0..6 {
                world.pass();
                if round == restart {
                    world.deliver(call);
                    world.restart();
                }
            }
            let step = world.settle();
            assert_eq!(step.verdict, Some(Verdict::Ready { names: 2 }));
            assert_eq!(world.held("Z1").len(), 4);
            gone(world);
        }
    }
}

#[test]
fn a_lost_change_is_asked_for_again() {
    let mut world = world();
    world.want = want(&[A], "d0", json!({}));
    world.pass();
    world.pass();
    world.deliver(Call::Answered);
    world.pass();
    world.zones.changes.clear();
    let step = world.settle();
    assert_eq!(step.verdict, Some(Verdict::Ready { names: 1 }));
    assert_eq!(
        world.log[1..],
        ["Z1 a.example.com: UPSERT CNAME d0 300, DELETE mark, CREATE mark"]
    );
}

#[test]
fn a_lost_answer_is_looked_for_and_written_again() {
    let mut world = world();
    world.want = want(&[A], "d0", json!({}));
    world.pass();
    world.pass();
    world.deliver(Call::CutAfter);
    let step = world.settle();
    assert_eq!(step.verdict, Some(Verdict::Ready { names: 1 }));
    assert_eq!(
        world.log,
        [
            "Z1 a.example.com: CREATE CNAME d0 300, CREATE mark",
            "Z1 a.example.com: UPSERT CNAME d0 300, DELETE mark, CREATE mark",
        ]
    );
}

#[test]
fn domains_may_change_before_anything_is_in_sync() {
    let mut world = world();
    world.want = want(&[A], "d0", json!({}));
    world.pass();
    world.pass();
    world.deliver(Call::Answered);
    world.want = want(&[B], "d1", json!({}));
    let step = world.settle();
    assert_eq!(step.verdict, Some(Verdict::Ready { names: 1 }));
    assert_eq!(world.held("Z1").len(), 2, "nothing serves a.example.com");
    gone(world);
}

#[test]
fn without_dns_records_go_and_under_retain_only_marks_do() {
    let mut world = ready(&[A], json!({}));
    let mut retained = world.clone();
    world.want = Want::Nothing;
    assert_eq!(
        world.settle().verdict,
        Some(Verdict::NotConfigured { leaving: 0 })
    );
    assert_eq!(world.held("Z1"), Vec::<String>::new());

    retained.want = Want::Unmarked;
    assert_eq!(
        retained.settle().verdict,
        Some(Verdict::NotConfigured { leaving: 0 })
    );
    assert_eq!(retained.held("Z1"), ["a.example.com CNAME d0 300"]);
    assert_eq!(retained.log, ["Z1 a.example.com: DELETE mark"]);
    assert_eq!(retained.status, []);
}

#[test]
fn a_name_too_long_for_a_mark_waits_for_its_zones_name() {
    let long = format!(
        "{0}.{0}.{0}.{1}.example.com",
        "l".repeat(60),
        "l".repeat(50)
    );
    let mut world = ready(&[&long], json!({}));
    world.want = Want::Nothing;
    let seen = Seen {
        us: &owner(),
        known: &Known::default(),
        zones: &BTreeMap::new(),
        changes: &Propagated::default(),
        troubled: &BTreeMap::new(),
        served: &Served::Unknown,
        inherited: &[],
    };
    let nameless = next(&world.status, &world.want, &seen);
    assert_eq!(nameless.unnamed, BTreeSet::from([zone_access("Z1")]));
    assert_eq!(nameless.records, world.status);

    // A zone that is gone has no name.
    let mut known = Known::default();
    known.zone_missing(Spot::of(&world.status[0]), "no such zone".to_owned());
    let known = &known;
    assert_eq!(
        next(&world.status, &world.want, &Seen { known, ..seen }).records,
        []
    );
    gone(world);
}
