//! All that is ahead of a tenant's records if nobody interferes, for people who ask. Pure.
//!
//! The plan itself is asked again and again, and told each time that Route 53 took what it wanted
//! to send; what it wanted to send is what is ahead.

use std::collections::{BTreeMap, BTreeSet};

use api::tenants::{DnsRecord, DriftedField};
use aws::route53::zone_writer::Propagated;

use super::inherit::Inherited;
use super::known::{Answer, Known, Sight};
use super::owner::Owner;
use super::plan::{self, Look, Seen, Served};
use super::record::{Action, Change, Likeness, RecordSet};
use super::verdict::Verdict;
use super::want::{Want, Wanted};
use super::{Bundle, Spot, ZoneAccess, names};

/// Steps before a plan that comes to no end is left.
const STEPS: usize = 32;

/// What is known of the zones.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// What was read, by name.
    pub(crate) sights: BTreeMap<Spot, Sight>,
    /// The names of zones, by id.
    pub(crate) zones: BTreeMap<String, String>,
}

/// What must be read before it can be told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) reads: Vec<Look>,
    pub(crate) unnamed: BTreeSet<ZoneAccess>,
}

/// What is ahead.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ahead {
    /// In the order in which it is sent.
    pub(crate) changes: Vec<Foreseen>,
    /// What DNSReady comes to say.
    pub(crate) verdict: Option<Verdict>,
    /// What others changed.
    pub(crate) drift: Vec<DriftedField>,
}

/// One change of one record set.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Foreseen {
    /// The id of its zone.
    pub(crate) zone: String,
    pub(crate) action: Action,
    pub(crate) set: RecordSet,
    /// What was read in its place.
    pub(crate) live: Option<RecordSet>,
}

impl Ahead {
    /// Whether names only get their marks: no record that anybody resolves changes.
    pub(crate) fn only_marks(&self) -> bool {
        let mut changes = self.changes.iter();
        let refused = match &self.verdict {
            Some(Verdict::Conflict(_) | Verdict::Failed(_) | Verdict::Drift(_)) | None => true,
            Some(
                Verdict::NotConfigured { .. }
                | Verdict::Ready { .. }
                | Verdict::Creating { .. }
                | Verdict::Propagating { .. },
            ) => false,
        };
        !refused && changes.all(|one| one.set.pointer().is_none())
    }
}

/// What is ahead of records that are `recorded` where `want` is wanted; or what to read first.
pub(crate) fn ahead(
    recorded: &[DnsRecord],
    want: &Want,
    us: &Owner,
    served: &Served,
    inherited: &[Inherited],
    view: &View,
) -> Result<Ahead, Needs> {
    let unread = want.names().iter();
    let unread = unread.filter(|wanted| !view.sights.contains_key(&wanted.spot));
    let reads: Vec<_> = unread.map(look).collect();
    if !reads.is_empty() {
        return Err(Needs {
            reads,
            unnamed: BTreeSet::new(),
        });
    }
    let mut known = Known::default();
    for (spot, sight) in &view.sights {
        known.read(spot.clone(), sight.clone());
    }
    let mut records = recorded.to_vec();
    let pending = plan::pending(recorded);
    let mut changes = Propagated {
        insync: pending.keys().map(|id| (*id).to_owned()).collect(),
        ..Propagated::default()
    };
    let (mut found, mut taken) = (Ahead::default(), 0_usize);
    for _ in 0..STEPS {
        let seen = Seen {
            us,
            known: &known,
            zones: &view.zones,
            changes: &changes,
            troubled: &BTreeMap::new(),
            served,
            // What is on record by now was taken over.
            inherited: if records.is_empty() { inherited } else { &[] },
        };
        let step = plan::next(&records, want, &seen);
        if !(step.reads.is_empty() && step.unnamed.is_empty()) {
            if taken == 0 {
                return Err(Needs {
                    reads: step.reads,
                    unnamed: step.unnamed,
                });
            }
            break; // what nobody sent cannot be read
        }
        if found.drift.is_empty() {
            found.drift.clone_from(&step.drift);
        }
        found.verdict.clone_from(&step.verdict);
        if step.submit.is_empty() && !step.again {
            break;
        }
        records.clone_from(&step.records);
        known.stored(&step);
        for bundle in step.submit {
            taken += 1;
            let change = format!("ahead-{taken}");
            changes.insync.insert(change.clone());
            found.changes.extend(foreseen(&bundle, &view.sights));
            let spot = bundle.spot();
            known.submitted(bundle);
            known.answered(&spot, Answer::Accepted { change });
        }
    }
    Ok(found)
}

fn look(wanted: &Wanted) -> Look {
    let (spot, zone) = (&wanted.spot, Some(&*wanted.zone));
    let mark = names::mark_name(&spot.name, zone).expect("the zone has its name");
    Look {
        spot: spot.clone(),
        place: wanted.zone_access(),
        names: names::to_read(&spot.name, &mark),
    }
}

/// What a bundle really changes: neither its proofs nor what is so already.
fn foreseen(bundle: &Bundle, sights: &BTreeMap<Spot, Sight>) -> Vec<Foreseen> {
    let there = sights.get(&bundle.spot());
    let live = |set: &RecordSet| {
        let sets = there.into_iter().flat_map(|sight| &sight.sets);
        let mut sets = sets.filter(|one| one.name == set.name && one.kind == set.kind);
        sets.next().cloned()
    };
    let is_proof = |change: &Change| {
        let undone = |other: &Change| other.set == change.set && other.action != change.action;
        change.set.pointer().is_none() && bundle.changes.iter().any(undone)
    };
    let is_so = |change: &Change, live: Option<&RecordSet>| match change.action {
        Action::Create | Action::Upsert => live.is_some_and(|live| is_like(live, &change.set)),
        Action::Delete => false,
    };
    let changes = bundle.changes.iter().filter(|change| !is_proof(change));
    let changes = changes.map(|change| (change, live(&change.set)));
    let changes = changes.filter(|(change, live)| !is_so(change, live.as_ref()));
    changes
        .map(|(change, live)| Foreseen {
            zone: bundle.place.zone.clone(),
            action: change.action,
            set: change.set.clone(),
            live,
        })
        .collect()
}

/// Whether a live set says just what `set` does, in whatever spelling.
fn is_like(live: &RecordSet, set: &RecordSet) -> bool {
    let place = ZoneAccess {
        zone: String::new(),
        login: super::ZoneRole::default(),
    };
    let record = set.recorded(&place, api::tenants::RecordState::Planned);
    match record {
        Some(record) => live.likeness(&record) == Likeness::Same,
        None => live == set,
    }
}

#[cfg(test)]
mod tests {
    use api::tenants::{DriftPolicy, RecordAdoption, RecordState};
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::dns::Target;
    use crate::dns::tests::{A, D0, a_spot, cname, foreign, owner, zone};
    use crate::dns::want::wanted;

    fn want(adoption: RecordAdoption) -> Want {
        let dns = json!({"provider": "route53", "hostedZoneId": "Z1"});
        let dns = serde_json::from_value(dns).unwrap();
        let target = Target {
            endpoint: D0.to_owned(),
            ipv6: true,
        };
        Want::These {
            names: wanted([A], &dns, &[zone("Z1", "example.com")], &target, None).unwrap(),
            adoption,
            drift: DriftPolicy::Enforce,
        }
    }

    fn view(sets: Vec<RecordSet>) -> View {
        View {
            sights: BTreeMap::from([(a_spot(), Sight { sets })]),
            zones: BTreeMap::from([("Z1".to_owned(), "example.com".to_owned())]),
        }
    }

    fn told(recorded: &[DnsRecord], want: &Want, view: &View) -> (Vec<String>, Ahead) {
        let served = Served::These(BTreeSet::new());
        let ahead = ahead(recorded, want, &owner(), &served, &[], view).unwrap();
        let changes = ahead.changes.iter();
        let words = changes.map(|one| format!("{:?} {}", one.action, one.set.kind.as_str()));
        (words.collect(), ahead)
    }

    #[test]
    fn a_wanted_name_is_read_first() {
        let served = Served::These(BTreeSet::new());
        let want = want(RecordAdoption::Never);
        let needs = ahead(&[], &want, &owner(), &served, &[], &View::default()).unwrap_err();
        assert_eq!(needs.reads[0].spot, a_spot());
    }

    #[rstest]
    #[case::nothing_there(vec![], RecordAdoption::Never, &["Create CNAME", "Create TXT"], false)]
    #[case::one_to_match(vec![foreign("CNAME", &[D0])], RecordAdoption::Matching, &["Create TXT"], true)]
    #[case::one_in_the_way(vec![foreign("CNAME", &["x.net"])], RecordAdoption::Matching, &[], false)]
    #[case::one_to_overwrite(vec![foreign("CNAME", &["x.net"])], RecordAdoption::Overwrite, &["Upsert CNAME", "Create TXT"], false)]
    fn a_new_name_gets(
        #[case] there: Vec<RecordSet>,
        #[case] adoption: RecordAdoption,
        #[case] changes: &[&str],
        #[case] only_marks: bool,
    ) {
        let (words, ahead) = told(&[], &want(adoption), &view(there));
        assert_eq!(words, changes);
        assert_eq!(ahead.only_marks(), only_marks);
    }

    #[test]
    fn all_steps_to_the_end_are_told() {
        let recorded = [DnsRecord {
            state: RecordState::Applied,
            ..cname("b.example.com", 300, D0)
        }];
        let (mut words, _) = told(&recorded, &want(RecordAdoption::Never), &view(vec![]));
        words.sort();
        let expected = ["Create CNAME", "Create TXT", "Delete CNAME", "Delete TXT"];
        assert_eq!(words, expected);
    }
}
