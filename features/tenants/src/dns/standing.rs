//! How a name stands: what the condition has to say of what is done there.

use std::collections::BTreeSet;

use super::ground::{Act, Ground, Outcome};
use super::known::{Answer, Known, Told};
use super::plan::Seen;
use super::verdict::Standing;
use super::want::Wanted;
use super::{Bundle, Spot, hold};

/// Whether the last bundle of a name was taken.
pub(super) fn is_accepted(known: &Known, spot: &Spot) -> bool {
    known.told(spot).is_some_and(|told| match told.answer {
        Answer::Accepted { .. } => true,
        Answer::Pending
        | Answer::Differs { .. }
        | Answer::Refused { .. }
        | Answer::NoZone { .. }
        | Answer::Lost => false,
    })
}

/// Waiting for the answer, if it is pending.
pub(super) fn awaited(known: &Known, spot: &Spot) -> Option<Act> {
    let Told { bundle, answer } = known.told(spot)?;
    (*answer == Answer::Pending).then(|| Act::Await {
        only_marks: bundle.as_ref().is_some_and(Bundle::only_marks),
    })
}

/// How a wanted name stands.
pub(super) fn standing(wanted: &Wanted, outcome: &Outcome, seen: &Seen<'_>) -> Standing {
    if let Some(text) = kept_by(&outcome.act, &wanted.spot, seen) {
        return Standing::Failed(text.to_owned());
    }
    match &outcome.act {
        Act::Clash(clash) => return Standing::Conflict(clash.clone()),
        Act::Failed(text) => return Standing::Failed(text.clone()),
        Act::Read => return Standing::Unread,
        Act::Drifted { told: true } => return Standing::Drift(outcome.drift.clone()),
        Act::Await { only_marks: false } => return Standing::Creating,
        Act::Submit(bundle) if !bundle.only_marks() => return Standing::Creating,
        Act::Submit(_) | Act::Await { .. } | Act::Rest | Act::Drifted { .. } => {}
    }
    if !hold::is_settled(wanted, &outcome.records) {
        return Standing::Creating;
    }
    let changes = outcome.records.iter();
    let changes: BTreeSet<_> = changes.filter_map(|one| one.change_id.clone()).collect();
    let mut unreadable = changes
        .iter()
        .filter_map(|id| seen.changes.unreadable.get(id));
    if let Some(text) = unreadable.next() {
        Standing::Failed(text.clone())
    } else if changes.is_empty() {
        Standing::Ready
    } else {
        Standing::Propagating(changes)
    }
}

/// What keeps a name from being as it should, in AWS's words:
///
/// | what is done              | what keeps it                                             |
/// |---------------------------|-----------------------------------------------------------|
/// | it is left                | the refusal                                               |
/// | something is on its way   | that its way fails, or that just this was refused before: |
/// |                           | what is tried again is as bad as it was until it is taken |
pub(super) fn kept_by<'a>(act: &'a Act, spot: &Spot, seen: &Seen<'a>) -> Option<&'a str> {
    if let Act::Failed(text) = act {
        return Some(text);
    }
    let bundle = on_its_way(act, spot, seen.known)?;
    let trouble = seen.troubled.get(&bundle.place).map(String::as_str);
    trouble.or_else(|| seen.known.refusal(bundle))
}

/// What was refused and what the condition says of that, for as long as it is the same.
pub(super) fn refused(act: &Act, ground: &Ground<'_>, known: &Known) -> Option<(Bundle, String)> {
    let (bundle, text) = if let Act::Failed(_) = act {
        ground.refused()?
    } else {
        let bundle = on_its_way(act, ground.spot, known)?;
        (bundle, known.refusal(bundle)?)
    };
    Some((bundle.clone(), text.to_owned()))
}

fn on_its_way<'a>(act: &'a Act, spot: &Spot, known: &'a Known) -> Option<&'a Bundle> {
    match act {
        Act::Submit(bundle) => Some(bundle),
        Act::Await { .. } => known.told(spot)?.bundle.as_ref(),
        Act::Rest | Act::Read | Act::Clash(_) | Act::Failed(_) | Act::Drifted { .. } => None,
    }
}
