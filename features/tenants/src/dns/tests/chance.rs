//! What may happen: edits of the spec, passes that end early, lost answers, and others in the zones.

use std::collections::BTreeSet;

use api::tenants::{Dns, DriftPolicy};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::json;

use super::laws::is_recorded_first;
use super::model::{Call, World};
use super::{txt, zone};
use crate::dns::names::{is_within, mark_name};
use crate::dns::plan::{Served, Step};
use crate::dns::record::{Content, Kind, RecordSet};
use crate::dns::want::{Want, wanted};
use crate::dns::{Spot, Target};

/// Where the zones are: by id and name.
pub(super) const ZONES: [(&str, &str); 3] = [
    ("Z1", "example.com"),
    ("Z2", "example.com"),
    ("Z3", "eu.example.com"),
];
/// Which of them a spec names.
const CHOICES: [&[usize]; 3] = [&[0], &[1], &[0, 2]];

/// The last name has no room for a mark beside it.
fn names() -> Vec<String> {
    let long = format!(
        "{0}.{0}.{0}.{1}.example.com",
        "l".repeat(60),
        "l".repeat(50)
    );
    let short = [
        "a.example.com",
        "example.com",
        "*.example.com",
        "x.eu.example.com",
    ];
    let short = short.into_iter().map(str::to_owned);
    short.chain([long]).collect()
}

/// What a spec says.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    domains: Vec<String>,
    choice: usize,
    endpoint: &'static str,
    ipv6: bool,
    ttl: i64,
    alias: bool,
    role: Option<&'static str>,
    drift: DriftPolicy,
}

pub(super) fn any_spec() -> impl Strategy<Value = Spec> {
    let first = names().remove(0);
    let domains = prop_oneof![Just(vec![first]), subsequence(names(), 1..4)];
    let drift = select(vec![
        DriftPolicy::Enforce,
        DriftPolicy::Report,
        DriftPolicy::Suspend,
    ]);
    (
        domains,
        often_first(CHOICES.len()),
        select(vec!["d0.cloudfront.net", "d1.cloudfront.net"]),
        any::<bool>(),
        select(vec![300, 600]),
        any::<bool>(),
        select(vec![None, Some("r1")]),
        drift,
    )
        .prop_map(
            |(domains, choice, endpoint, ipv6, ttl, alias, role, drift)| Spec {
                domains,
                choice,
                endpoint,
                ipv6,
                ttl,
                alias,
                role,
                drift,
            },
        )
}

impl Spec {
    /// What it wants; `None` if it cannot have it.
    pub(super) fn want(&self) -> Option<Want> {
        let dns: Dns = serde_json::from_value(json!({
            "provider": "route53", "discoverZones": true, "ttl": self.ttl,
            "aliasPolicy": if self.alias { "Always" } else { "ApexOnly" },
        }))
        .expect("a dns block");
        let dns = Dns {
            assume_role_arn: self.role.map(str::to_owned),
            ..dns
        };
        let zones = CHOICES[self.choice]
            .iter()
            .map(|at| zone(ZONES[*at].0, ZONES[*at].1));
        let target = Target {
            endpoint: self.endpoint.to_owned(),
            ipv6: self.ipv6,
        };
        let domains = self.domains.iter().map(String::as_str);
        let zones: Vec<_> = zones.collect();
        Some(Want::These {
            names: wanted(domains, &dns, &zones, &target, None).ok()?,
            adoption: dns.record_adoption,
            drift: self.drift,
        })
    }
}

/// What others do at one name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Deed {
    /// They point it elsewhere, as a CNAME.
    Point(&'static str),
    /// They give it an address.
    Address,
    /// They delete what leads anywhere.
    Delete,
    /// They delete its mark.
    Unmark,
    /// They mark it as another's.
    Mark,
    /// External-dns takes it.
    MarkExternal,
    /// They change the small print of our mark.
    Touch,
}

/// What happens next.
#[derive(Debug, Clone)]
pub(super) enum Event {
    Edit(Spec),
    WithoutDns,
    Released,
    /// A pass that ends before it stores, before it sends, or well.
    Pass(usize),
    Deliver(Call),
    Restart,
    InSync,
    Forgotten,
    List,
    Doubt,
    LookAgain,
    /// The tenant serves what the spec wants, or nobody knows.
    Deployed(bool),
    Others(usize, usize, Deed),
}

pub(super) fn any_event() -> impl Strategy<Value = Event> {
    let calls = vec![
        Call::Answered,
        Call::Answered,
        Call::CutAfter,
        Call::CutBefore,
    ];
    let deeds = vec![
        Deed::Point("x.net"),
        Deed::Point("d0.cloudfront.net"),
        Deed::Point("d1.cloudfront.net"),
        Deed::Address,
        Deed::Delete,
        Deed::Unmark,
        Deed::Mark,
        Deed::MarkExternal,
        Deed::Touch,
    ];
    prop_oneof![
        3 => any_spec().prop_map(Event::Edit),
        1 => Just(Event::WithoutDns),
        1 => Just(Event::Released),
        12 => (0..6_usize).prop_map(Event::Pass),
        8 => select(calls).prop_map(Event::Deliver),
        1 => Just(Event::Restart),
        3 => Just(Event::InSync),
        1 => Just(Event::Forgotten),
        2 => Just(Event::List),
        1 => Just(Event::Doubt),
        2 => Just(Event::LookAgain),
        2 => any::<bool>().prop_map(Event::Deployed),
        6 => (often_first(ZONES.len()), often_first(names().len()), select(deeds))
            .prop_map(|(zone, name, deed)| Event::Others(zone, name, deed)),
    ]
}

/// Mostly 0: more happens where much happens.
fn often_first(end: usize) -> impl Strategy<Value = usize> {
    prop_oneof![2 => Just(0), 1 => 0..end]
}

/// A world, and the names at which others did something.
pub(super) struct Run {
    pub(super) world: World,
    pub(super) disturbed: BTreeSet<Spot>,
}

impl Run {
    pub(super) fn new() -> Self {
        Self {
            world: World::new(&ZONES),
            disturbed: BTreeSet::new(),
        }
    }

    pub(super) fn take(&mut self, event: &Event) -> Result<(), TestCaseError> {
        let world = &mut self.world;
        match event {
            Event::Edit(spec) => {
                if let Some(want) = spec.want() {
                    world.want = want;
                    world.known.look_again();
                }
            }
            Event::WithoutDns => world.want = Want::Nothing,
            Event::Released => {
                // What is released is nobody's from now on.
                self.disturbed.extend(world.status.iter().map(Spot::of));
                world.want = Want::Unmarked;
            }
            Event::Pass(end) => {
                let step = world.step();
                is_recorded_first(world, &step)?;
                match end {
                    0 => world.restart(),
                    1 => {
                        world.store(&step);
                        world.restart();
                    }
                    _ => {
                        world.store(&step);
                        world.send(&step);
                    }
                }
            }
            Event::Deliver(call) => world.deliver(*call),
            Event::Restart => world.restart(),
            Event::InSync => world.insync(),
            Event::Forgotten => world.zones.changes.clear(),
            Event::List => world.list(),
            Event::Doubt => world.doubt(),
            Event::LookAgain => world.known.look_again(),
            Event::Deployed(known) => {
                let names = world.want.names().iter().map(|one| one.spot.name.clone());
                world.served = if *known {
                    Served::These(names.collect())
                } else {
                    Served::Unknown
                };
            }
            Event::Others(zone, name, deed) => self.others(*zone, *name, *deed),
        }
        Ok(())
    }

    pub(super) fn others(&mut self, zone: usize, name: usize, deed: Deed) {
        let (id, top) = ZONES[zone];
        let name = names()[name].clone();
        if !is_within(&name, top) {
            return;
        }
        let zones = &mut self.world.zones;
        let mark = mark_name(&name, Some(top)).expect("the zone has its name");
        let at = |name: &str, kind: &str, values: &[&str]| RecordSet {
            kind: Kind::of(kind),
            ..txt(name, values)
        };
        let pointers = ["CNAME", "A", "AAAA"].map(Kind::of);
        match deed {
            Deed::Point(_) if name == top => return,
            Deed::Point(target) => zones.put(id, at(&name, "CNAME", &[target])),
            Deed::Address => zones.put(id, at(&name, "A", &["192.0.2.1"])),
            Deed::Delete => pointers
                .iter()
                .for_each(|kind| zones.remove(id, &name, kind)),
            Deed::Unmark => zones.remove(id, &mark, &Kind::Txt),
            Deed::Mark => {
                let other = "\"heritage=pontoon,owner=c2,resource=a/b\"";
                zones.put(id, at(&mark, "TXT", &[other]));
            }
            Deed::MarkExternal => {
                let external = "\"heritage=external-dns,external-dns/owner=x\"";
                zones.put(id, at(&format!("a-{name}"), "TXT", &[external]));
            }
            Deed::Touch => {
                if let Some(there) = zones.get(id, &mark, &Kind::Txt).cloned() {
                    let Content::Values { values, .. } = there.content.clone() else {
                        panic!("a TXT record is no alias");
                    };
                    let content = Content::Values { ttl: 60, values };
                    zones.put(id, RecordSet { content, ..there });
                }
            }
        }
        let spot = Spot {
            zone: id.to_owned(),
            name,
        };
        let authored = self.world.authored.entry(spot.clone()).or_default();
        match deed {
            Deed::Point(_) | Deed::Address | Deed::Delete => authored.clear(),
            Deed::Unmark | Deed::Mark | Deed::MarkExternal | Deed::Touch => {}
        }
        self.disturbed.insert(spot);
    }

    /// Passes, answers, looks and time, until nothing moves.
    pub(super) fn calm(&mut self) -> Step {
        self.world.known.look_again();
        self.world.settle();
        self.world.list();
        self.world.settle();
        self.world.known.look_again();
        self.world.settle()
    }
}
