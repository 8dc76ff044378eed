//! What the status says of one name, and how answers change it.
//!
//! One name and type may be listed several times: each value that may be live has its entry. Moving
//! from d0 to d1 reads `Applied d0`, then `Deleting d0, Planned d1`, then `Applied d1`.
//!
//! | state    | is it in the zone?       | who wrote it?                                        |
//! |----------|--------------------------|------------------------------------------------------|
//! | Planned  | perhaps                  | whoever: our mark beside it tells                     |
//! | Applied  | it was                   | we did                                                |
//! | Deleting | it was, and still may be | we did                                                |

use api::tenants::{DnsRecord, RecordState};

use super::Bundle;
use super::known::{Answer, Told};
use super::record::{Action, Likeness, RecordSet};

/// Whether two records put the same into a zone.
pub(super) fn is_same(one: &DnsRecord, other: &DnsRecord) -> bool {
    (one.kind, one.ttl, &one.target) == (other.kind, other.ttl, &other.target)
}

/// Whether we know that we wrote it.
pub(super) fn is_ours(record: &DnsRecord) -> bool {
    match record.state {
        RecordState::Planned => false,
        RecordState::Applied | RecordState::Deleting => true,
    }
}

/// Whether a live set is one that we know we wrote, by its target.
pub(super) fn names(held: &[DnsRecord], set: &RecordSet) -> bool {
    let known = held.iter().filter(|one| is_ours(one));
    known
        .map(|one| set.likeness(one))
        .any(|likeness| likeness != Likeness::Other)
}

/// What is held once the answers of the writer and of GetChange are known: which changes are over.
pub(super) fn caught_up(
    held: Vec<DnsRecord>,
    told: Option<&Told>,
    is_over: impl Fn(&String) -> bool,
) -> Vec<DnsRecord> {
    let mut held = match told {
        Some(Told {
            bundle: Some(bundle),
            answer: Answer::Accepted { change },
        }) => accepted(held, bundle, change),
        Some(_) | None => held,
    };
    for one in &mut held {
        one.change_id = one.change_id.take().filter(|id| !is_over(id));
    }
    held
}

/// What is held once Route 53 took `bundle`.
///
/// | change                      | entries of that type                   |
/// |-----------------------------|----------------------------------------|
/// | record created or upserted  | this one alone, Applied                |
/// | record deleted              | none                                   |
/// | mark deleted, not put again | none of any type: the name is not ours |
fn accepted(mut held: Vec<DnsRecord>, bundle: &Bundle, change: &str) -> Vec<DnsRecord> {
    if bundle.unmarks() {
        return Vec::new();
    }
    for one in &bundle.changes {
        let Some(kind) = one.set.pointer() else {
            continue;
        };
        held.retain(|entry| entry.kind != kind);
        match one.action {
            Action::Delete => {}
            Action::Create | Action::Upsert => {
                let applied = one.set.recorded(&bundle.place, RecordState::Applied);
                held.extend(applied.map(|applied| DnsRecord {
                    change_id: Some(change.to_owned()),
                    ..applied
                }));
            }
        }
    }
    held
}

/// The entries in the order in which the status lists them, each once.
pub(super) fn sorted(mut held: Vec<DnsRecord>) -> Vec<DnsRecord> {
    let rank = |state| match state {
        RecordState::Applied => 0,
        RecordState::Deleting => 1,
        RecordState::Planned => 2,
    };
    held.sort_by(|one, other| {
        let key = |entry: &DnsRecord| (entry.kind, rank(entry.state), entry.ttl);
        key(one)
            .cmp(&key(other))
            .then_with(|| one.target.cmp(&other.target))
    });
    held.dedup_by(|one, other| one.state == other.state && is_same(one, other));
    held
}
