//! What is to be done at each place, from what is wanted, found and remembered. Pure.

use std::fmt::Write;

use api::vault::IntentKind;

use super::gather::Seen;
use super::moves::Recorded;
use super::{Desired, Ground, Record, Target};
use crate::drift::{self, Live, Verdict};
use crate::owner::{self, Ownership};
use crate::place::{Found, Wanted};
use crate::role::payload;

/// Lines of a diff that a person is shown.
const LINES: usize = 6;

/// Why something is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It is missing and was never there.
    Create,
    /// The spec was edited.
    Edit,
    /// The spec was edited, and others have changed what was there.
    Overwrite,
    /// Others have changed it, and somebody consents to put it back.
    Correct,
    /// It was nobody's, and we are told to take it.
    Adopt,
    /// It was another's, and we are told to take it.
    Transfer,
}

impl Cause {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Create => "missing",
            Self::Edit => "spec edited",
            Self::Overwrite => "spec edited, outside change lost",
            Self::Correct => "drift corrected",
            Self::Adopt => "adopted",
            Self::Transfer => "taken over from its owner",
        }
    }
}

/// One effect, or why there is none, at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Vault is right. For a policy, with the SHA-256 of the text that is there.
    Keep { text_hash: Option<String> },
    /// Nobody looked, or nobody wants to hear of what was seen.
    Leave,
    /// Write what is wanted; `lost` tells what that changes.
    Write { cause: Cause, lost: String },
    /// Others have changed it: say so.
    Report { lost: String },
    /// Others have changed it, and nobody consents to put it back.
    Block { lost: String },
    /// It is somebody else's: this owner's, or nobody's we know.
    Conflict { owner: Option<String> },
    /// The server does not keep these fields.
    Unsupported { fields: Vec<String> },
}

/// The steps, one for each target.
pub(super) fn plan<'a, E>(
    desired: &'a Desired<E>,
    seen: &[Seen],
    ground: &Ground,
    recorded: &Recorded,
) -> Vec<(&'a Target, Step)> {
    let steps = desired.targets.iter().zip(seen).map(|(target, seen)| {
        let step = match seen {
            Seen::Unasked => Step::Leave,
            Seen::Asked(found) => step(target, found.as_ref(), ground, recorded),
        };
        (target, step)
    });
    steps.collect()
}

fn step(target: &Target, found: Option<&Found>, ground: &Ground, recorded: &Recorded) -> Step {
    let record = recorded.current(&target.place);
    let Some(found) = found else {
        return decide(target, None, ground, record);
    };
    let recorded = recorded.owner(&target.place);
    let write = |cause| Step::Write {
        cause,
        lost: found.diff(&target.wanted, LINES),
    };
    match owner::judge(found.marker().as_ref(), &ground.header, recorded) {
        Ownership::Ours => decide(target, Some(found), ground, record),
        Ownership::Unmarked if is_our_create(target, found, ground) => {
            decide(target, Some(found), ground, None)
        }
        Ownership::Unmarked if ground.adopt => write(Cause::Adopt),
        Ownership::Unmarked => Step::Conflict { owner: None },
        Ownership::Foreign(owner) if ground.adopt_from.as_ref() == Some(&owner) => {
            write(Cause::Transfer)
        }
        Ownership::Foreign(owner) => Step::Conflict { owner: Some(owner) },
    }
}

/// Where the server drops markers: what is at the path of an announced create, and is as announced or
/// as wanted now, is our own. The answer to the create was lost, or that to an edit after it.
fn is_our_create(target: &Target, found: &Found, ground: &Ground) -> bool {
    let live = found.hash();
    let create = ground.intent.as_ref().filter(|intent| {
        intent.kind == Some(IntentKind::Create)
            && intent.vault_path.as_deref() == Some(&*target.place.to_string())
    });
    live.is_some()
        && create.is_some_and(|create| {
            live == create.canonical_hash || live == Some(target.wanted.hash())
        })
}

/// What to do about our own, by the table of [`drift`].
fn decide(
    target: &Target,
    found: Option<&Found>,
    ground: &Ground,
    record: Option<&Record>,
) -> Step {
    let wanted = target.wanted.hash();
    let live_hash = found.and_then(Found::hash);
    let (applied, is_applied) = match record {
        None => (drift::Applied::Never, false),
        Some(Record {
            hash: Some(hash), ..
        }) => (
            if *hash == wanted {
                drift::Applied::Desired
            } else {
                drift::Applied::Another
            },
            live_hash.as_ref() == Some(hash),
        ),
        // Recorded by vault-access-operator, which knows texts only.
        Some(Record { sent, .. }) => {
            let text = found.and_then(Found::text_hash);
            let same = text.is_some() && text == *sent;
            match (same, ground.unobserved) {
                (true, _) => (drift::Applied::Another, true),
                (false, true) => (drift::Applied::Another, found.is_some()),
                (false, false) => (drift::Applied::Desired, false),
            }
        }
    };
    let live = match found {
        None => Live::Absent,
        Some(_) if live_hash.as_ref() == Some(&wanted) => Live::Desired,
        Some(_) if is_applied => Live::Applied,
        Some(_) => Live::Other,
    };
    let lost = || match found {
        Some(found) => found.diff(&target.wanted, LINES),
        None => format!("{} is missing in Vault", target.place),
    };
    let write = |cause| Step::Write {
        cause,
        lost: lost(),
    };
    if live == Live::Other
        && applied == drift::Applied::Desired
        && let Some(fields) = unsupported(target, found)
    {
        return Step::Unsupported { fields };
    }
    if live == Live::Other && applied == drift::Applied::Never {
        return write(Cause::Edit); // ours by its marker or its intent, from before our record
    }
    match drift::verdict(live, applied, ground.mode, ground.consent) {
        Verdict::True => Step::Keep {
            text_hash: found.and_then(Found::text_hash),
        },
        Verdict::Create => write(Cause::Create),
        Verdict::Edit => write(Cause::Edit),
        Verdict::Overwrite => write(Cause::Overwrite),
        Verdict::Correct => write(Cause::Correct),
        Verdict::Report => Step::Report { lost: lost() },
        Verdict::Block => Step::Block { lost: lost() },
        Verdict::Ignore => Step::Leave,
    }
}

/// Fields that were sent and that the server does not know.
fn unsupported(target: &Target, found: Option<&Found>) -> Option<Vec<String>> {
    match (&target.wanted, found) {
        (Wanted::Role(sent), Some(Found::Role { fields, .. })) => {
            let mut fields = payload::not_echoed(sent, fields);
            // Vault does not echo an audience that somebody has cleared: that is drift.
            fields.retain(|field| field != "audience");
            (!fields.is_empty()).then_some(fields)
        }
        (Wanted::Policy { .. } | Wanted::Role(_), _) => None,
    }
}

/// A plan for people, one line a place.
pub(super) fn words(plan: &[(&Target, Step)]) -> String {
    let mut text = String::new();
    for (target, step) in plan {
        let place = &target.place;
        match step {
            Step::Keep { .. } | Step::Leave => writeln!(text, "{place}: nothing to do"),
            Step::Write { cause, lost } => {
                writeln!(text, "{place}: write ({})\n{lost}", cause.word())
            }
            Step::Report { lost } => writeln!(text, "{place}: report drift\n{lost}"),
            Step::Block { lost } => writeln!(text, "{place}: drift wants consent\n{lost}"),
            Step::Conflict { owner } => match owner {
                Some(owner) => writeln!(text, "{place}: belongs to {owner}"),
                None => writeln!(text, "{place}: is there, unmarked"),
            },
            Step::Unsupported { fields } => {
                writeln!(text, "{place}: the server ignores {}", fields.join(", "))
            }
        }
        .expect("a String takes all text");
    }
    text.trim_end().to_owned()
}
