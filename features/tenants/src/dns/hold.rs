//! What to do next at a name that is wanted.

use api::tenants::names::DRIFT_VALUE_CHARS;
use api::tenants::{DnsRecord, DriftPolicy, DriftedField, RecordAdoption, RecordState};

use super::ground::{Act, Ground, Outcome};
use super::known::{Sight, Told};
use super::ledger;
use super::owner::Holder;
use super::record::{Change, Content, Likeness, RecordSet};
use super::verdict::Clash;
use super::want::Wanted;
use super::{ZoneAccess, login_of};

/// What the spec says of records that are not as they should be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) adoption: RecordAdoption,
    pub(super) drift: DriftPolicy,
}

/// | last answer             | read since | so                                                   |
/// |-------------------------|------------|------------------------------------------------------|
/// | any                     | yes        | decide by what is there                              |
/// | there is no such zone   | no         | leave it, until a slow look                          |
/// | differs, lost           | no         | read                                                 |
/// | change id lost          | no         | read                                                 |
/// | a plan was dropped      | no         | read: it may have been carried out                   |
/// | none; all is Applied    | no         | rest                                                 |
/// | none; nothing was ours  | no         | CREATE records and mark                              |
/// | none; something was     | no         | UPSERT what changed, CREATE new types, DELETE old    |
/// |                         |            | ones, with the mark as proof                         |
/// | refused                 | no         | the same, unless it is what was refused              |
pub(super) fn next(
    want: &Wanted,
    held: Vec<DnsRecord>,
    ground: &Ground<'_>,
    rules: Rules,
) -> Outcome {
    let held = intents(want, held);
    let is_dropped = |one: &DnsRecord| one.state == RecordState::Planned && !is_wanted(want, one);
    let in_doubt = |one: &DnsRecord| is_dropped(one) || ground.is_lost(one);
    let no_zone = ground.told.and_then(Told::no_zone);
    match (ground.sight, no_zone) {
        (Some(sight), _) => facing(want, held, ground, rules, sight),
        (None, Some(text)) => Outcome::new(held, Act::Failed(text.to_owned())),
        (None, None) if ground.must_look() || held.iter().any(in_doubt) => {
            Outcome::new(held, Act::Read)
        }
        (None, None) if is_settled(want, &held) => {
            let refused = ground.refused();
            let act = refused.map_or(Act::Rest, |(_, text)| Act::Failed(text.to_owned()));
            Outcome::new(held, act)
        }
        (None, None) => {
            let changes = unseen(want, &held, ground);
            let act = changes.map_or(Act::Read, |changes| ground.offer(changes));
            Outcome::new(held, act)
        }
    }
}

fn is_wanted(want: &Wanted, record: &DnsRecord) -> bool {
    want.of(record.kind)
        .is_some_and(|wanted| ledger::is_same(wanted, record))
}

/// Whether the status says that the name is as it should be.
pub(super) fn is_settled(want: &Wanted, held: &[DnsRecord]) -> bool {
    let is_right = |one: &DnsRecord| {
        one.state == RecordState::Applied && is_wanted(want, one) && login_of(one) == want.login
    };
    held.len() == want.records.len() && held.iter().all(is_right)
}

/// What the status has to say before anything is sent.
///
/// What is wanted and not Applied is Planned; what is Applied and not wanted is Deleting.
fn intents(want: &Wanted, held: Vec<DnsRecord>) -> Vec<DnsRecord> {
    let mut next: Vec<_> = held
        .into_iter()
        .map(|one| match (one.state, is_wanted(want, &one)) {
            (RecordState::Applied, false) => DnsRecord {
                state: RecordState::Deleting,
                change_id: None,
                ..one
            },
            // It goes with the role the spec names by now.
            (RecordState::Planned, true) => DnsRecord {
                role_arn: want.login.role_arn.clone(),
                external_id: want.login.external_id.clone(),
                ..one
            },
            (RecordState::Applied, true)
            | (RecordState::Planned, false)
            | (RecordState::Deleting, _) => one,
        })
        .collect();
    for wanted in &want.records {
        let is_there = |one: &DnsRecord| match one.state {
            RecordState::Planned | RecordState::Applied => ledger::is_same(one, wanted),
            RecordState::Deleting => false,
        };
        if !next.iter().any(is_there) {
            next.push(wanted.clone());
        }
    }
    next
}

/// Whether a record is Applied, in this way, by a change that is not lost, and nothing else can be
/// in its place.
fn is_certain(wanted: &DnsRecord, held: &[DnsRecord], ground: &Ground<'_>) -> bool {
    let mut of_kind = held.iter().filter(|one| one.kind == wanted.kind);
    match (of_kind.next(), of_kind.next()) {
        (Some(one), None) => {
            one.state == RecordState::Applied
                && ledger::is_same(one, wanted)
                && login_of(one) == ground.place.login
                && !ground.is_lost(one)
        }
        (None, _) | (Some(_), Some(_)) => false,
    }
}

/// The changes where nothing was read, by the record alone. `None`: it leaves a choice.
fn unseen(want: &Wanted, held: &[DnsRecord], ground: &Ground<'_>) -> Option<Vec<Change>> {
    let ours: Vec<_> = held.iter().filter(|one| ledger::is_ours(one)).collect();
    let mut changes = Vec::new();
    for (at, old) in ours.iter().enumerate() {
        if want.of(old.kind).is_some() {
            continue;
        }
        if ours[..at].iter().any(|one| one.kind == old.kind) {
            return None;
        }
        changes.push(Change::delete(RecordSet::of(old)));
    }
    for wanted in &want.records {
        let set = RecordSet::of(wanted);
        if !ours.iter().any(|one| one.kind == wanted.kind) {
            changes.push(Change::create(set));
        } else if !is_certain(wanted, held, ground) {
            changes.push(Change::upsert(set));
        }
    }
    if ours.is_empty() {
        changes.push(Change::create(ground.mark()));
    } else {
        changes.extend(ground.proof(None));
    }
    Some(changes)
}

/// By what right the records at a name are changed.
enum Footing<'s> {
    /// The name has our mark.
    Marked(&'s RecordSet),
    /// It has none: what is there we wrote, or may take.
    Unmarked,
    /// Something else is where our mark belongs, and may be overwritten.
    Overwriting,
}

fn facing(
    want: &Wanted,
    held: Vec<DnsRecord>,
    ground: &Ground<'_>,
    rules: Rules,
    sight: &Sight,
) -> Outcome {
    let there: Vec<_> = sight.at(&ground.spot.name).collect();
    let holder = ground.holder(sight);
    let footing = match footing(want, &held, ground, rules.adoption, &holder, &there) {
        Ok(footing) => footing,
        Err(clash) => return Outcome::new(held, Act::Clash(clash)),
    };
    let was_settled = is_settled(want, &held);
    let held = match footing {
        Footing::Marked(_) if ground.is_still() => restored(want, held, &there),
        Footing::Marked(_) | Footing::Unmarked | Footing::Overwriting => held,
    };
    let held = resolved(want, held, &there, &footing);

    let mut changes = changes(want, &held, ground, &there, &footing);
    match footing {
        Footing::Marked(_) if changes.is_empty() => {}
        Footing::Marked(mark) => changes.extend(ground.proof(Some(mark))),
        Footing::Unmarked => changes.push(Change::create(ground.mark())),
        Footing::Overwriting => changes.push(Change::upsert(ground.mark())),
    }

    // A first write or an edit is no drift. Nor is a missing mark: it is put back under any policy.
    let drift = if was_settled {
        drift(want, &there)
    } else {
        Vec::new()
    };
    let act = match (drift.is_empty(), rules.drift) {
        (true, _) if changes.is_empty() => Act::Rest,
        (true, _) | (false, DriftPolicy::Enforce) => ground.offer(changes),
        (false, DriftPolicy::Report) => Act::Drifted { told: true },
        (false, DriftPolicy::Suspend) => Act::Drifted { told: false },
    };
    Outcome {
        drift,
        ..Outcome::new(held, act)
    }
}

/// | whose, by TXT   | a record in the way                     | so                            |
/// |-----------------|-----------------------------------------|-------------------------------|
/// | another Pontoon |                                         | clash                         |
/// | ours            | none, or CNAME, A, AAAA                 | ours                          |
/// | ours            | of another type, or by a routing policy | clash                         |
/// | external-dns    | any                                     | clash                         |
/// | external-dns    | none                                    | free                          |
/// | nobody          | none, or one we wrote                   | ours                          |
/// | nobody          | any other                               | clash; `Matching` takes it if |
/// |                 |                                         | it leads to our target,       |
/// |                 |                                         | `Overwrite` takes it          |
/// | unreadable      |                                         | clash; `Overwrite` takes it   |
///
/// Neither takes what is of another type, or goes by a routing policy.
fn footing<'s>(
    want: &Wanted,
    held: &[DnsRecord],
    ground: &Ground<'_>,
    adoption: RecordAdoption,
    holder: &Holder<'s>,
    there: &[&RecordSet],
) -> Result<Footing<'s>, Clash> {
    let mut barring = there.iter().filter(|set| want.is_barred_by(set));
    let takes = |set: &RecordSet| {
        let consents = match adoption {
            RecordAdoption::Never => false,
            RecordAdoption::Matching => want.leads_to(set.target().as_deref()),
            RecordAdoption::Overwrite => true,
        };
        set.replaceable().is_some() && (consents || ledger::names(held, set))
    };
    match holder {
        Holder::Pontoon(owner, mark) => {
            let shown = barring.next().unwrap_or(mark);
            Err(ground.clash(shown, Some(owner.to_string())))
        }
        Holder::Ours(mark) => match barring.find(|set| set.replaceable().is_none()) {
            Some(set) => Err(ground.clash(set, None)),
            None => Ok(Footing::Marked(mark)),
        },
        Holder::ExternalDns(owner) => match barring.next() {
            Some(set) => Err(ground.clash(set, Some(owner.clone()))),
            None => Ok(Footing::Unmarked),
        },
        Holder::Unreadable(mark) => {
            let overwrites = adoption == RecordAdoption::Overwrite;
            match barring.find(|set| !takes(set)) {
                Some(set) => Err(ground.clash(set, None)),
                None if overwrites => Ok(Footing::Overwriting),
                None => Err(ground.clash(mark, None)),
            }
        }
        Holder::Nobody => match barring.find(|set| !takes(set)) {
            Some(set) => Err(ground.clash(set, None)),
            None => Ok(Footing::Unmarked),
        },
    }
}

/// What is held, once what was to go and was not touched is wanted again: it is there, as we wrote
/// it, and needs no write.
fn restored(want: &Wanted, mut held: Vec<DnsRecord>, there: &[&RecordSet]) -> Vec<DnsRecord> {
    for wanted in &want.records {
        let was_to_go = |one: &DnsRecord| {
            one.state == RecordState::Deleting
                && ledger::is_same(one, wanted)
                && login_of(one) == want.login
        };
        let is_there =
            live(there, wanted).is_some_and(|set| set.likeness(wanted) == Likeness::Same);
        if is_there && held.iter().any(was_to_go) {
            held.retain(|one| one.kind != wanted.kind);
            held.push(DnsRecord {
                state: RecordState::Applied,
                ..wanted.clone()
            });
        }
    }
    held
}

/// What is held, without what is not in the zone after all: dropped plans that were not carried out,
/// and old types that others deleted or changed.
fn resolved(
    want: &Wanted,
    held: Vec<DnsRecord>,
    there: &[&RecordSet],
    footing: &Footing<'_>,
) -> Vec<DnsRecord> {
    let left = held.into_iter().filter_map(|one| {
        let live = there
            .iter()
            .find(|set| set.likeness(&one) != Likeness::Other);
        match (one.state, is_wanted(want, &one)) {
            (RecordState::Applied, _) | (RecordState::Planned, true) => Some(one),
            (RecordState::Planned, false) => match footing {
                Footing::Marked(_) => {
                    let place = ZoneAccess {
                        zone: one.zone_id.clone(),
                        login: login_of(&one),
                    };
                    live?.recorded(&place, RecordState::Deleting)
                }
                Footing::Unmarked | Footing::Overwriting => None,
            },
            (RecordState::Deleting, _) if want.of(one.kind).is_some() => Some(one),
            (RecordState::Deleting, _) => live.is_some().then_some(one),
        }
    });
    left.collect()
}

/// The changes that make the records at a name the wanted ones.
fn changes(
    want: &Wanted,
    held: &[DnsRecord],
    ground: &Ground<'_>,
    there: &[&RecordSet],
    footing: &Footing<'_>,
) -> Vec<Change> {
    let mut changes = Vec::new();
    for set in old(want, held, there) {
        changes.push(Change::delete(set.clone()));
    }
    let doubtful = ground
        .lost_bundle()
        .is_some_and(|sent| sent.puts().next().is_some());
    for wanted in &want.records {
        let set = RecordSet::of(wanted);
        let Some(live) = live(there, wanted) else {
            changes.push(Change::create(set));
            continue;
        };
        let is_right = live.likeness(wanted) == Likeness::Same;
        if is_right && is_certain(wanted, held, ground) && !doubtful {
            continue;
        }
        match footing {
            // Without a mark, only the exact value proves that it is still the one we wrote.
            Footing::Unmarked | Footing::Overwriting if ledger::names(held, live) => {
                changes.push(Change::delete(live.clone()));
                changes.push(Change::create(set));
            }
            Footing::Marked(_) | Footing::Unmarked | Footing::Overwriting => {
                changes.push(Change::upsert(set));
            }
        }
    }
    changes
}

/// The live record of a wanted one's type.
fn live<'s>(there: &[&'s RecordSet], wanted: &DnsRecord) -> Option<&'s RecordSet> {
    let mut there = there.iter().copied();
    there.find(|set| set.replaceable() == Some(wanted.kind))
}

/// Live records of other types that cannot stay, or that we wrote.
fn old<'s>(
    want: &'s Wanted,
    held: &'s [DnsRecord],
    there: &'s [&'s RecordSet],
) -> impl Iterator<Item = &'s RecordSet> {
    let there = there.iter().copied();
    there.filter(move |set| {
        let other = set
            .replaceable()
            .is_some_and(|kind| want.of(kind).is_none());
        other && (want.is_barred_by(set) || ledger::names(held, set))
    })
}

/// What others changed at a name that was as wanted.
fn drift(want: &Wanted, there: &[&RecordSet]) -> Vec<DriftedField> {
    let field = |kind: &str| format!("dns {} {kind}", want.spot.name);
    let told = |set: &RecordSet| {
        let ttl = match &set.content {
            Content::Values { ttl, .. } => format!(" (ttl {ttl})"),
            Content::Alias { .. } => String::new(),
        };
        let text = format!("{}{ttl}", set.content);
        text.chars().take(DRIFT_VALUE_CHARS).collect::<String>()
    };
    let wanted = want.records.iter().filter_map(|wanted| {
        let live = live(there, wanted);
        let is_right = live.is_some_and(|live| live.likeness(wanted) == Likeness::Same);
        (!is_right).then(|| DriftedField {
            field: field(wanted.kind.as_str()),
            want: Some(told(&RecordSet::of(wanted))),
            live: live.map(told),
        })
    });
    let more = old(want, &[], there).map(|set| DriftedField {
        field: field(set.kind.as_str()),
        want: None,
        live: Some(told(set)),
    });
    wanted.chain(more).collect()
}
