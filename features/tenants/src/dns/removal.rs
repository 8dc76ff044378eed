//! What to do next at a name that goes, record by record.

use api::tenants::{DnsRecord, RecordState};

use super::ground::{Act, Ground, Outcome};
use super::known::{Sight, Told};
use super::ledger;
use super::owner::Holder;
use super::record::{Change, Likeness, RecordSet};
use super::verdict::Clash;

/// Records and mark go.
///
/// | last answer                        | read since | so                                        |
/// |------------------------------------|------------|-------------------------------------------|
/// | there is no such zone              |            | done                                      |
/// | any other                          | yes        | decide by what is there                   |
/// | differs, lost                      | no         | read                                      |
/// | any other; a plan may have become  | no         | read                                      |
/// | true, or one of two values is live |            |                                           |
/// | any other                          | no         | DELETE exactly what is recorded, and mark |
pub(super) fn next(held: Vec<DnsRecord>, ground: &Ground<'_>) -> Outcome {
    if held.is_empty() || is_without_zone(ground.told) {
        return Outcome::new(Vec::new(), Act::Rest);
    }
    match ground.sight {
        Some(sight) => facing(held, ground, sight),
        None if ground.must_look() || is_ambiguous(&held) => Outcome::new(held, Act::Read),
        None => {
            let sets = held.iter().map(RecordSet::of);
            let mut changes: Vec<_> = sets.map(Change::delete).collect();
            changes.push(Change::delete(ground.mark()));
            Outcome::new(deleting(held), ground.offer(changes))
        }
    }
}

/// The mark goes, and records stay as they are. Those we wrote are to leave the status, as if they
/// went; of a plan nobody knows whether it became true, and whose what is there is.
pub(super) fn unmark(held: Vec<DnsRecord>, ground: &Ground<'_>) -> Outcome {
    let done = || Outcome::new(Vec::new(), Act::Rest);
    if held.is_empty() || is_without_zone(ground.told) {
        return done();
    }
    let mark = match ground.sight {
        None if ground.must_look() => return Outcome::new(held, Act::Read),
        None => ground.mark(),
        Some(sight) => match ground.holder(sight) {
            Holder::Ours(mark) => mark.clone(),
            Holder::Pontoon(..)
            | Holder::ExternalDns(_)
            | Holder::Unreadable(_)
            | Holder::Nobody => return done(),
        },
    };
    let act = ground.offer(vec![Change::delete(mark)]);
    let (ours, plans) = held.into_iter().partition(ledger::is_ours);
    Outcome::new([deleting(ours), plans].concat(), act)
}

/// Whether its zone is gone, which can be deleted only when it is empty.
pub(super) fn is_without_zone(told: Option<&Told>) -> bool {
    told.and_then(Told::no_zone).is_some()
}

fn is_ambiguous(held: &[DnsRecord]) -> bool {
    held.iter().enumerate().any(|(at, one)| {
        one.state == RecordState::Planned || held[..at].iter().any(|other| other.kind == one.kind)
    })
}

fn deleting(held: Vec<DnsRecord>) -> Vec<DnsRecord> {
    let deleting = held.into_iter().map(|one| DnsRecord {
        state: RecordState::Deleting,
        change_id: None,
        ..one
    });
    deleting.collect()
}

/// | whose, by TXT   | live record of a recorded type               | so                            |
/// |-----------------|----------------------------------------------|-------------------------------|
/// | another Pontoon | any                                          | leave both                    |
/// | any other       | none                                         | gone                          |
/// | ours            | leads where recorded, whatever its ttl       | DELETE as it is live          |
/// | nobody          | the same, and we know that we wrote it       | DELETE as it is live          |
/// | nobody          | the same, and it was only planned            | leave: ours would be marked   |
/// | external-dns    | any                                          | leave                         |
/// | any other       | leads elsewhere                              | leave                         |
///
/// Our mark goes in any case. Where nothing is left to delete, it is done.
fn facing(held: Vec<DnsRecord>, ground: &Ground<'_>, sight: &Sight) -> Outcome {
    let holder = ground.holder(sight);
    let (mark, owner) = match &holder {
        Holder::Ours(mark) => (Some(*mark), None),
        Holder::Pontoon(owner, _) => (None, Some(owner.to_string())),
        Holder::ExternalDns(owner) => (None, Some(owner.clone())),
        Holder::Unreadable(_) | Holder::Nobody => (None, None),
    };
    let is_one_of_ours = |set: &RecordSet| {
        let mut alike = held
            .iter()
            .filter(|one| set.likeness(one) != Likeness::Other);
        owner.is_none() && alike.any(|one| mark.is_some() || ledger::is_ours(one))
    };

    let recorded = |set: &&RecordSet| held.iter().any(|one| set.pointer() == Some(one.kind));
    let there = sight.at(&ground.spot.name).filter(recorded);
    let (ours, others): (Vec<_>, Vec<_>) = there.partition(|set| is_one_of_ours(set));
    let mut changes: Vec<_> = ours
        .iter()
        .map(|set| Change::delete((*set).clone()))
        .collect();
    changes.extend(mark.map(|mark| Change::delete(mark.clone())));

    // What was only planned was never ours, so nobody has to hear of what is there instead.
    let was_ours = mark.is_some() || held.iter().any(ledger::is_ours);
    let others = others.into_iter().filter(|_| was_ours);
    let left: Vec<Clash> = others.map(|set| ground.clash(set, owner.clone())).collect();

    let (records, act) = match (changes.is_empty(), late(ground)) {
        (true, None) => (Vec::new(), Act::Rest),
        (true, Some(late)) => (held, ground.offer(late)),
        (false, _) => (deleting(live(held, &ours)), ground.offer(changes)),
    };
    Outcome {
        left,
        ..Outcome::new(records, act)
    }
}

/// Entries that are in the zone or that we know we wrote; all of them, if only the mark is there.
fn live(held: Vec<DnsRecord>, ours: &[&RecordSet]) -> Vec<DnsRecord> {
    let is_live = |one: &DnsRecord| {
        let mut ours = ours.iter();
        ledger::is_ours(one) || ours.any(|set| set.likeness(one) != Likeness::Other)
    };
    if held.iter().any(is_live) {
        held.into_iter().filter(is_live).collect()
    } else {
        held
    }
}

/// The deletion of what a lost bundle puts, if it does so after the name was read.
///
/// A call that ran out of time may still be on its way. Route 53 carries out a zone's batches one
/// after the other: refusing this one shows that the other did nothing.
fn late(ground: &Ground<'_>) -> Option<Vec<Change>> {
    let sent = ground.lost_bundle()?;
    let mut changes: Vec<_> = sent.puts().cloned().map(Change::delete).collect();
    if changes.is_empty() {
        return None;
    }
    changes.push(Change::delete(ground.mark()));
    Some(changes)
}
