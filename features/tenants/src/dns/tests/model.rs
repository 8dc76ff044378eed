//! Zones as Route 53 keeps them, and an operator around the plan: passes, writer, reads, restarts.

use std::collections::{BTreeMap, BTreeSet};

use api::tenants::{DistributionTenantStatus, DnsRecord, DriftedField, RecordType};
use aws::route53::zone_writer::Propagated;
use aws::route53::zone_writer::batch::{Batch, Load};

use super::{changes, owner, packed};
use crate::dns::inherit::Inherited;
use crate::dns::known::{Answer, Known, Sight};
use crate::dns::listing::{self, doubtful};
use crate::dns::names::{is_within, mark_name};
use crate::dns::owner::{Holder, holder};
use crate::dns::plan::{self, Look, Seen, Served, Step};
use crate::dns::record::{Action, Change, Content, Kind, RecordSet};
use crate::dns::want::Want;
use crate::dns::{Bundle, Spot};

type Sets = BTreeMap<(String, Kind), RecordSet>;

/// Hosted zones by id.
#[derive(Debug, Clone, Default)]
pub(super) struct Zones {
    by_id: BTreeMap<String, (String, Sets)>,
    /// Whether each change is in sync.
    pub(super) changes: BTreeMap<String, bool>,
    count: usize,
}

impl Zones {
    pub(super) fn add(&mut self, id: &str, name: &str) {
        self.by_id
            .insert(id.to_owned(), (name.to_owned(), Sets::new()));
    }

    pub(super) fn names(&self) -> BTreeMap<String, String> {
        let names = self
            .by_id
            .iter()
            .map(|(id, (name, _))| (id.clone(), name.clone()));
        names.collect()
    }

    pub(super) fn sets(&self, zone: &str) -> impl Iterator<Item = &RecordSet> {
        self.by_id[zone].1.values()
    }

    pub(super) fn get(&self, zone: &str, name: &str, kind: &Kind) -> Option<&RecordSet> {
        self.by_id
            .get(zone)?
            .1
            .get(&(name.to_owned(), kind.clone()))
    }

    /// What others do: put over whatever is there, in spite of what forbids it.
    pub(super) fn put(&mut self, zone: &str, set: RecordSet) {
        let sets = &mut self.by_id.get_mut(zone).expect("a zone").1;
        sets.retain(|_, there| there.name != set.name || can_be_beside(there, &set));
        sets.insert((set.name.clone(), set.kind.clone()), set);
    }

    pub(super) fn remove(&mut self, zone: &str, name: &str, kind: &Kind) {
        let sets = &mut self.by_id.get_mut(zone).expect("a zone").1;
        sets.remove(&(name.to_owned(), kind.clone()));
    }

    pub(super) fn look(&self, look: &Look) -> Sight {
        let sets = self
            .sets(&look.spot.zone)
            .filter(|set| look.names.contains(&set.name));
        Sight {
            sets: sets.cloned().collect(),
        }
    }

    /// Carries out all changes or none: the change's id, or what is wrong.
    fn apply<'c>(
        &mut self,
        zone: &str,
        changes: impl Iterator<Item = &'c Change>,
    ) -> Result<String, String> {
        let (name, sets) = self.by_id.get(zone).ok_or("there is no such zone")?;
        let mut draft = sets.clone();
        let mut before: BTreeMap<(String, Kind), Vec<Action>> = BTreeMap::new();
        for Change { action, set } in changes {
            let key = (set.name.clone(), set.kind.clone());
            let earlier = before.entry(key.clone()).or_default();
            match (earlier.as_slice(), action) {
                ([], _) | ([Action::Delete], Action::Create) => earlier.push(*action),
                ([..], _) => return Err(format!("{key:?} is changed twice")),
            }
            let there = draft.get(&key);
            match (action, there) {
                (Action::Create, Some(_)) => return Err(format!("{key:?} exists")),
                (Action::Delete, None) => return Err(format!("{key:?} is not there")),
                (Action::Delete, Some(there)) if !is_exactly(there, set) => {
                    return Err(format!("{key:?} is different"));
                }
                (Action::Delete, Some(_)) => {
                    draft.remove(&key);
                }
                (Action::Create, None) | (Action::Upsert, _) => {
                    if !is_within(&set.name, name) {
                        return Err(format!("{key:?} is not in the zone"));
                    }
                    let cname = set.kind == Kind::Pointer(RecordType::Cname);
                    if cname && set.name == *name {
                        return Err(format!("{key:?} is at the top"));
                    }
                    let mut beside = draft.values().filter(|one| one.name == set.name);
                    if !beside.all(|there| can_be_beside(there, set)) {
                        return Err(format!("{key:?} is not alone"));
                    }
                    draft.insert(key, set.clone());
                }
            }
        }
        self.by_id.get_mut(zone).expect("it was there").1 = draft;
        self.count += 1;
        let id = format!("C{}", self.count);
        self.changes.insert(id.clone(), false);
        Ok(id)
    }
}

/// Route 53 keeps an alias' target with a final dot; all else it keeps letter by letter.
fn is_exactly(there: &RecordSet, set: &RecordSet) -> bool {
    match (&there.content, &set.content) {
        (Content::Alias { target: one, .. }, Content::Alias { target: other, .. }) => {
            one.trim_end_matches('.') == other.trim_end_matches('.')
        }
        (one, other) => one == other,
    }
}

fn can_be_beside(there: &RecordSet, set: &RecordSet) -> bool {
    let cname = Kind::Pointer(RecordType::Cname);
    there.kind == set.kind || (there.kind != cname && set.kind != cname)
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Answered,
    /// It is carried out, and the answer is lost.
    CutAfter,
    /// It is lost.
    CutBefore,
}

/// A tenant's records under an operator.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) zones: Zones,
    /// `status.dnsRecords`.
    pub(super) status: Vec<DnsRecord>,
    pub(super) known: Known,
    /// Bundles with the writer.
    pub(super) queue: Vec<Bundle>,
    pub(super) want: Want,
    pub(super) served: Served,
    pub(super) inherited: Vec<Inherited>,
    /// What calls did, as `Z1 CREATE CNAME d0 300, CREATE mark`.
    pub(super) log: Vec<String>,
    /// What others changed and was told to be undone.
    pub(super) news: Vec<DriftedField>,
    /// What a batch may not do, in the order it happened.
    pub(super) wrongs: Vec<String>,
    /// Types of records that our batches put last.
    pub(super) authored: BTreeMap<Spot, BTreeSet<Kind>>,
    /// All that our batches ever put.
    wrote: BTreeMap<Spot, Vec<RecordSet>>,
}

impl World {
    pub(super) fn new(zones: &[(&str, &str)]) -> Self {
        let mut all = Zones::default();
        for (id, name) in zones {
            all.add(id, name);
        }
        Self {
            zones: all,
            status: Vec::new(),
            known: Known::default(),
            queue: Vec::new(),
            want: Want::Nothing,
            served: Served::These(BTreeSet::new()),
            inherited: Vec::new(),
            log: Vec::new(),
            news: Vec::new(),
            wrongs: Vec::new(),
            authored: BTreeMap::new(),
            wrote: BTreeMap::new(),
        }
    }

    fn plan(&self) -> Step {
        let changes = plan::pending(&self.status);
        let known = |id: &&str| self.zones.changes.get(*id);
        let owned = |id: &str| id.to_owned();
        let insync = changes
            .keys()
            .copied()
            .filter(|id| known(id) == Some(&true))
            .map(owned);
        let lost = changes
            .keys()
            .copied()
            .filter(|id| known(id).is_none())
            .map(owned);
        let changes = Propagated {
            insync: insync.collect(),
            lost: lost.collect(),
            ..Propagated::default()
        };
        let seen = Seen {
            us: &owner(),
            known: &self.known,
            zones: &self.zones.names(),
            changes: &changes,
            troubled: &BTreeMap::new(),
            served: &self.served,
            inherited: &self.inherited,
        };
        plan::next(&self.status, &self.want, &seen)
    }

    /// The step of a pass, with all it asks to read. Nothing is stored or sent.
    pub(super) fn step(&mut self) -> Step {
        let first = self.plan();
        for look in &first.reads {
            let sight = self.zones.look(look);
            self.known.read(look.spot.clone(), sight);
        }
        let second = if first.reads.is_empty() {
            first
        } else {
            self.plan()
        };
        // The predecessor's names are read first, and after them the others.
        if !second.reads.is_empty() && second.verdict.is_none() && !self.inherited.is_empty() {
            return self.step();
        }
        second
    }

    /// A pass: what it stored, and sent.
    pub(super) fn pass(&mut self) -> Step {
        let step = self.step();
        self.store(&step);
        self.send(&step);
        step
    }

    pub(super) fn store(&mut self, step: &Step) {
        self.status.clone_from(&step.records);
        if !self.status.is_empty() {
            self.inherited.clear();
        }
        self.known.has_told(&step.news);
        self.news.extend(step.news.values().flatten().cloned());
        self.known.stored(step);
    }

    pub(super) fn send(&mut self, step: &Step) {
        for bundle in &step.submit {
            self.known.submitted(bundle.clone());
            self.queue.push(bundle.clone());
        }
        self.known.corrects(step.corrected.clone());
    }

    /// What is only in memory is lost.
    pub(super) fn restart(&mut self) {
        self.known = Known::default();
        self.queue.clear();
    }

    /// The writers work off their queues; the first call has this fate.
    pub(super) fn deliver(&mut self, first: Call) {
        let bundles = std::mem::take(&mut self.queue);
        let mut call = first;
        for batch in packed(bundles) {
            self.call(batch, call);
            call = Call::Answered;
        }
    }

    fn call(&mut self, batch: Batch<Bundle>, call: Call) {
        if call == Call::CutBefore {
            return self.answer(&batch, &Answer::Lost);
        }
        let wrongs = self.wrongs_of(&batch);
        let changes = batch.loads.iter().flat_map(|load| &load.from.changes);
        match self.zones.apply(&batch.access.zone, changes) {
            Ok(change) => {
                self.wrongs.extend(wrongs);
                for load in &batch.loads {
                    self.log.push(told(&load.from));
                    self.author(&load.from);
                }
                let answer = match call {
                    Call::Answered => Answer::Accepted { change },
                    Call::CutAfter | Call::CutBefore => Answer::Lost,
                };
                self.answer(&batch, &answer);
            }
            Err(text) => match batch.halves() {
                Ok([first, second]) => {
                    self.call(first, call);
                    self.call(second, Call::Answered);
                }
                Err(alone) => {
                    let bundle = &alone.loads[0].from;
                    self.log.push(format!("refused {}", told(bundle)));
                    let answer = match call {
                        Call::Answered => Answer::Differs { text },
                        Call::CutAfter | Call::CutBefore => Answer::Lost,
                    };
                    self.answer(&alone, &answer);
                }
            },
        }
    }

    fn answer(&mut self, batch: &Batch<Bundle>, answer: &Answer) {
        for load in &batch.loads {
            self.known.answered(&load.from.spot(), answer.clone());
        }
    }

    fn author(&mut self, bundle: &Bundle) {
        let kinds = self.authored.entry(bundle.spot()).or_default();
        if bundle.unmarks() {
            kinds.clear();
        }
        let wrote = self.wrote.entry(bundle.spot()).or_default();
        wrote.extend(bundle.puts().cloned());
        for Change { action, set } in &bundle.changes {
            match (action, set.pointer()) {
                (_, None) => {}
                (Action::Create | Action::Upsert, Some(_)) => {
                    kinds.insert(set.kind.clone());
                }
                (Action::Delete, Some(_)) => {
                    kinds.remove(&set.kind);
                }
            }
        }
    }

    /// The changes of a batch that touch what is neither marked as ours nor what we wrote.
    fn wrongs_of(&self, batch: &Batch<Bundle>) -> Vec<String> {
        let mut wrongs = Vec::new();
        for Load { from: bundle, .. } in &batch.loads {
            let spot = bundle.spot();
            let is_marked = self.is_marked(&spot);
            for Change { action, set } in &bundle.changes {
                let there = self.zones.get(&spot.zone, &set.name, &set.kind);
                let is_ours = match (there, set.pointer()) {
                    (None, _) => true,
                    (Some(_), _) if *action == Action::Create => true,
                    (Some(_), None) => is_marked,
                    (Some(there), Some(_)) => is_marked || self.is_written(&spot, there),
                };
                if !is_ours {
                    wrongs.push(format!("{} at {}", told(bundle), spot.name));
                }
            }
        }
        wrongs
    }

    /// Whether the mark at a name is ours.
    pub(super) fn is_marked(&self, spot: &Spot) -> bool {
        let zone = self.zones.names().remove(&spot.zone);
        let mark = mark_name(&spot.name, zone.as_deref()).expect("the zone is known");
        let sight = Sight {
            sets: self.zones.sets(&spot.zone).cloned().collect(),
        };
        matches!(holder(&sight, &mark, &owner()), Holder::Ours(_))
    }

    /// Whether we ever wrote a record of that type which leads there.
    fn is_written(&self, spot: &Spot, set: &RecordSet) -> bool {
        let mut wrote = self.wrote.get(spot).into_iter().flatten();
        wrote.any(|one| (&one.kind, one.target()) == (&set.kind, set.target()))
    }

    /// All changes are on all name servers.
    pub(super) fn insync(&mut self) {
        for insync in self.zones.changes.values_mut() {
            *insync = true;
        }
    }

    /// Every zone is listed, and recorded names are compared.
    pub(super) fn list(&mut self) {
        let status = DistributionTenantStatus {
            dns_records: self.status.clone(),
            ..DistributionTenantStatus::default()
        };
        for (id, name) in self.zones.names() {
            let mut sets = listing::Sets::new();
            for set in self.zones.sets(&id) {
                sets.entry(set.name.clone()).or_default().push(set.clone());
            }
            for spot in doubtful(&status, (&id, &name), &sets, &self.known, &owner()) {
                self.known.doubt(spot);
            }
        }
    }

    /// A list that may be out of date shows something else than is recorded.
    pub(super) fn doubt(&mut self) {
        for spot in self.recorded() {
            self.known.doubt(spot);
        }
    }

    fn recorded(&self) -> BTreeSet<Spot> {
        self.status.iter().map(Spot::of).collect()
    }

    /// Passes, answers and time, until nothing moves: the last step.
    pub(super) fn settle(&mut self) -> Step {
        for _ in 0..40 {
            self.deliver(Call::Answered);
            self.insync();
            let before = self.status.clone();
            let step = self.pass();
            if self.queue.is_empty() && !step.again && before == self.status {
                return step;
            }
        }
        panic!("it never comes to rest: {:?} {:?}", self.status, self.known);
    }

    /// What a zone holds, one line a set, marks as `mark`.
    pub(super) fn held(&self, zone: &str) -> Vec<String> {
        let told = self.zones.sets(zone).map(|set| {
            let value = match &set.content {
                Content::Values { ttl, .. } => format!("{} {ttl}", set.content),
                Content::Alias { .. } => set.content.to_string(),
            };
            let value = value.replace(".cloudfront.net", "");
            let value = if set.content == RecordSet::txt("", owner().txt()).content {
                "ours".to_owned()
            } else {
                value
            };
            format!("{} {} {value}", set.name, set.kind.as_str())
        });
        told.collect()
    }
}

fn told(bundle: &Bundle) -> String {
    let role = bundle.place.login.role_arn.as_ref();
    let role = role.map(|arn| format!(" as {arn}")).unwrap_or_default();
    let told = changes(std::slice::from_ref(bundle));
    format!("{}{role} {}: {told}", bundle.place.zone, bundle.name)
}
