//! From what is recorded, wanted and seen to what is recorded, sent and said next.

use std::collections::{BTreeMap, BTreeSet};

use api::tenants::{DnsRecord, DriftedField, RecordState};
use aws::route53::zone_writer::Propagated;

use super::ground::{Act, Ground, Outcome};
use super::hold::{self, Rules};
use super::inherit::Inherited;
use super::known::{Known, Refused};
use super::owner::Owner;
use super::standing::{awaited, is_accepted, kept_by, refused, standing};
use super::verdict::{Clash, Standing, Verdict, gravest};
use super::want::{Want, Wanted};
use super::{Bundle, Spot, ZoneAccess, ZoneRole, ledger, login_of, names, removal};

/// Everything a plan needs beside status and spec.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    /// Who we are.
    pub(crate) us: &'a Owner,
    /// What writers answered and reads showed.
    pub(crate) known: &'a Known,
    /// The names of zones, by id. Needed for [`Step::unnamed`] alone.
    pub(crate) zones: &'a BTreeMap<String, String>,
    /// What is known of changes that are under way.
    pub(crate) changes: &'a Propagated,
    /// Ways into zones that fail, and in which words.
    pub(crate) troubled: &'a BTreeMap<ZoneAccess, String>,
    /// What the tenant serves.
    pub(crate) served: &'a Served,
    /// Where the predecessor may have left records.
    pub(crate) inherited: &'a [Inherited],
}

/// The names a tenant serves, which keep their records though the spec no longer wants them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Served {
    /// These, and it is Deployed; none, if it does not exist.
    These(BTreeSet<String>),
    /// Nobody can tell: a change is on its way, or the tenant was not read.
    Unknown,
}

/// What to do next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Step {
    /// What `status.dnsRecords` has to say.
    pub(crate) records: Vec<DnsRecord>,
    /// What goes to the writers now. The status names it already.
    pub(crate) submit: Vec<Bundle>,
    /// Whether more is to be sent once `records` are stored: another pass follows at once.
    pub(crate) again: bool,
    /// What must be read before more can be told.
    pub(crate) reads: Vec<Look>,
    /// Zones whose names must be known before records in them can go.
    pub(crate) unnamed: BTreeSet<ZoneAccess>,
    /// The wanted names whose records are on all name servers.
    pub(crate) insync: BTreeSet<String>,
    /// What DNSReady says; `None`: what it said, since something must be read first.
    pub(crate) verdict: Option<Verdict>,
    /// What others changed, for `status.drift`.
    pub(crate) drift: Vec<DriftedField>,
    /// The part of `drift` that `submit` undoes, by name.
    pub(crate) corrected: BTreeMap<Spot, Vec<DriftedField>>,
    /// What others changed and was undone, by name, for events.
    pub(crate) news: BTreeMap<Spot, Vec<DriftedField>>,
    /// What stays in a zone at names that go, for events.
    pub(crate) left: Vec<Clash>,
    /// What the verdict says was refused.
    pub(super) refused: Refused,
    /// Names whose answers and reads are used up once `records` are stored.
    pub(super) settled: BTreeSet<Spot>,
}

/// A name to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    /// The name.
    pub(crate) spot: Spot,
    /// The way into its zone.
    pub(crate) place: ZoneAccess,
    /// The names whose sets make up the sight of it.
    pub(crate) names: Vec<String>,
}

/// The next step.
///
/// Each name is decided by itself: it is wanted ([`hold`]), goes ([`removal`]), or stays:
///
/// | recorded and not wanted there       | it goes                                          |
/// |-------------------------------------|--------------------------------------------------|
/// | nothing is wanted at all            | at once                                          |
/// | the name is wanted in another zone  | when all records there are on all name servers   |
/// | any other                           | when the tenant, Deployed, does not serve it     |
///
/// Nothing is sent in a step that changes what is recorded of its name, so that the status always
/// names first what a zone may get.
pub(crate) fn next(recorded: &[DnsRecord], want: &Want, seen: &Seen<'_>) -> Step {
    let stored = by_spot(recorded.iter().cloned());
    let held = match inherit(recorded, seen) {
        Ok(held) => held,
        Err(reads) => {
            return Step {
                records: recorded.to_vec(),
                reads,
                ..Step::default()
            };
        }
    };
    let mut draft = Draft {
        stored: &stored,
        seen,
        standings: Vec::new(),
        step: Step::default(),
    };
    if let Want::These {
        names,
        adoption,
        drift,
    } = want
    {
        let rules = Rules {
            adoption: *adoption,
            drift: *drift,
        };
        for wanted in names {
            let held = held.get(&wanted.spot).cloned().unwrap_or_default();
            draft.hold(wanted, held, rules);
        }
    }
    let wanted: BTreeSet<_> = want.names().iter().map(|wanted| &wanted.spot).collect();
    for (spot, held) in held {
        if !wanted.contains(&spot) {
            let fate = fate(&spot, want, seen.served, &draft.step.insync);
            draft.part(&spot, held, fate);
        }
    }
    draft.step(want)
}

/// Whether something that is wanted is not in its zone yet, as far as the records tell.
pub(crate) fn is_behind(recorded: &[DnsRecord], want: &Want) -> bool {
    let held = by_spot(recorded.iter().cloned());
    want.names().iter().any(|wanted| {
        let held = held.get(&wanted.spot).map_or(&[][..], Vec::as_slice);
        !hold::is_settled(wanted, held)
    })
}

/// The change ids under way, and whose credentials may ask for them.
pub(crate) fn pending(records: &[DnsRecord]) -> BTreeMap<&str, ZoneRole> {
    let pending = records
        .iter()
        .filter_map(|one| Some((one.change_id.as_deref()?, login_of(one))));
    pending.collect()
}

/// Where the records point, for `status.dnsTarget`.
pub(crate) fn target(records: &[DnsRecord]) -> Option<&str> {
    let of = |state| records.iter().find(move |one| one.state == state);
    let states = [
        RecordState::Planned,
        RecordState::Applied,
        RecordState::Deleting,
    ];
    states.into_iter().find_map(of).map(|one| &*one.target)
}

/// What becomes of a name that is recorded and not wanted there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    Goes,
    LosesMark,
}

fn fate(spot: &Spot, want: &Want, served: &Served, insync: &BTreeSet<String>) -> Fate {
    let names = match want {
        Want::Nothing => return Fate::Goes,
        Want::Unmarked => return Fate::LosesMark,
        Want::These { names, .. } => names,
    };
    let moves = names.iter().any(|wanted| wanted.spot.name == spot.name);
    let is_free = match (moves, served) {
        (true, _) => insync.contains(&spot.name),
        (false, Served::These(served)) => !served.contains(&spot.name),
        (false, Served::Unknown) => false,
    };
    if is_free { Fate::Goes } else { Fate::Stays }
}

type Held = BTreeMap<Spot, Vec<DnsRecord>>;

fn by_spot(records: impl IntoIterator<Item = DnsRecord>) -> Held {
    let mut held = Held::new();
    for record in records {
        held.entry(Spot::of(&record)).or_default().push(record);
    }
    held.into_iter()
        .map(|(spot, records)| (spot, ledger::sorted(records)))
        .collect()
}

/// What is recorded, and what the predecessor left; or the names to be read for that.
fn inherit(recorded: &[DnsRecord], seen: &Seen<'_>) -> Result<Held, Vec<Look>> {
    let look = |one: &Inherited| Look {
        spot: one.spot.clone(),
        place: one.place.clone(),
        names: names::to_read(&one.spot.name, &one.mark),
    };
    // A zone that is gone took with it what was there.
    let is_there = |one: &&Inherited| !removal::is_without_zone(seen.known.told(&one.spot));
    let inherited = seen.inherited.iter().filter(is_there);
    let sights = inherited.map(|one| (one, seen.known.sight(&one.spot)));
    let missing: Vec<_> = sights
        .clone()
        .filter(|(_, sight)| sight.is_none())
        .map(|(one, _)| look(one))
        .collect();
    if !missing.is_empty() {
        return Err(missing);
    }
    let left = sights.filter_map(|(one, sight)| one.record(sight?, seen.us));
    Ok(by_spot(recorded.iter().cloned().chain(left)))
}

/// A step in the making.
struct Draft<'a> {
    stored: &'a Held,
    seen: &'a Seen<'a>,
    standings: Vec<(String, Standing)>,
    step: Step,
}

impl<'a> Draft<'a> {
    /// Decides a wanted name.
    fn hold(&mut self, wanted: &Wanted, held: Vec<DnsRecord>, rules: Rules) {
        let (spot, seen) = (&wanted.spot, self.seen);
        let mark = names::mark_name(&spot.name, Some(&wanted.zone)).expect("the zone has its name");
        let is_over = |change: &String| seen.changes.insync.contains(change);
        let held = ledger::caught_up(held, seen.known.told(spot), is_over);
        let ground = self.ground(spot, wanted.zone_access(), mark);
        let outcome = match awaited(seen.known, spot) {
            Some(act) => Outcome::new(held, act),
            None => hold::next(wanted, held, &ground, rules),
        };
        let standing = standing(wanted, &outcome, seen);
        match standing {
            Standing::Ready | Standing::Drift(_) => {
                self.step.insync.insert(spot.name.clone());
            }
            Standing::Creating
            | Standing::Propagating(_)
            | Standing::Unread
            | Standing::Conflict(_)
            | Standing::Failed(_) => {}
        }
        self.standings.push((spot.name.clone(), standing));
        self.take(&ground, outcome);
    }

    /// Decides a name that is recorded and not wanted.
    fn part(&mut self, spot: &Spot, held: Vec<DnsRecord>, fate: Fate) {
        let seen = self.seen;
        let told = seen.known.told(spot);
        // Nobody waits for it any more, so a change that is lost is over, too.
        let is_over = |id: &String| seen.changes.is_over(id);
        let held = ledger::caught_up(held, told, is_over);
        let place = zone_access(spot, &held);
        let zone = seen.zones.get(&spot.zone).map(String::as_str);
        let mark = names::mark_name(&spot.name, zone);
        // A zone that is gone has no name, and no marks.
        let mark = mark.or_else(|| removal::is_without_zone(told).then(String::new));
        let Some(mark) = mark else {
            self.step.unnamed.insert(place);
            self.step.records.extend(held);
            return;
        };
        let ground = self.ground(spot, place, mark);
        let outcome = match (awaited(seen.known, spot), fate) {
            (Some(act), _) => Outcome::new(held, act),
            (None, Fate::Stays) => Outcome::new(held, Act::Rest),
            (None, Fate::Goes) => removal::next(held, &ground),
            (None, Fate::LosesMark) => removal::unmark(held, &ground),
        };
        if let Some(text) = kept_by(&outcome.act, spot, seen) {
            let standing = Standing::Failed(text.to_owned());
            self.standings.push((spot.name.clone(), standing));
        }
        self.take(&ground, outcome);
    }

    fn ground<'g>(&self, spot: &'g Spot, place: ZoneAccess, mark_name: String) -> Ground<'g>
    where
        'a: 'g,
    {
        let seen = self.seen;
        let is_taken = is_accepted(seen.known, spot);
        Ground {
            spot,
            place,
            mark_name,
            us: seen.us,
            told: seen.known.told(spot).filter(|_| !is_taken),
            // What was read before the answer says nothing any more.
            sight: seen.known.sight(spot).filter(|_| !is_taken),
            lost: &seen.changes.lost,
        }
    }

    /// Puts an outcome into the step.
    fn take(&mut self, ground: &Ground<'_>, outcome: Outcome) {
        let Outcome {
            records,
            act,
            drift,
            left,
        } = outcome;
        let records = ledger::sorted(records);
        let stored = self.stored.get(ground.spot).map_or(&[][..], Vec::as_slice);
        let is_stored = stored == records;
        let known = self.seen.known;
        let mut is_over = is_accepted(known, ground.spot);
        if is_over && let Some(undone) = known.correction(ground.spot) {
            let undone = undone.to_vec();
            self.step.news.insert(ground.spot.clone(), undone);
        }
        let refused = refused(&act, ground, known);
        let refused = refused.map(|refused| (ground.spot.clone(), refused));
        self.step.refused.extend(refused);
        self.step.records.extend(records);
        self.step.drift.extend(drift.iter().cloned());
        match act {
            Act::Submit(bundle) if is_stored => {
                is_over = false;
                self.step.submit.push(bundle);
                if !drift.is_empty() {
                    self.step.corrected.insert(ground.spot.clone(), drift);
                }
                self.step.left.extend(left);
            }
            Act::Submit(_) => self.step.again = true,
            Act::Read => self.step.reads.push(Look {
                spot: ground.spot.clone(),
                place: ground.place.clone(),
                names: names::to_read(&ground.spot.name, &ground.mark_name),
            }),
            Act::Rest => {
                is_over = true;
                self.step.left.extend(left);
            }
            Act::Await { .. } | Act::Clash(_) | Act::Failed(_) | Act::Drifted { .. } => {}
        }
        // What comes to be known while the step is being stored is for the next one.
        if is_over && known.knows(ground.spot) {
            self.step.settled.insert(ground.spot.clone());
        }
    }

    fn step(self, want: &Want) -> Step {
        let mut step = self.step;
        // By zone and name, whatever was decided first.
        step.records.sort_by_cached_key(Spot::of);
        step.verdict = gravest(want, self.standings, step.records.len());
        step
    }
}

/// The way into the zone of a name that goes: that of the entry which surely worked.
fn zone_access(spot: &Spot, held: &[DnsRecord]) -> ZoneAccess {
    let surely = held.iter().find(|one| ledger::is_ours(one));
    ZoneAccess {
        zone: spot.zone.clone(),
        login: surely.or(held.first()).map(login_of).unwrap_or_default(),
    }
}
